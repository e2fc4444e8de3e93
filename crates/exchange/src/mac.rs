//! Addresses of Ethernet as text.

/// Reads six pairs of hexadecimal digits with `:` or `-` between them; all zero is no address.
pub fn parse(text: &str) -> Option<[u8; 6]> {
    let separator = if text.contains(':') { ':' } else { '-' };
    let mut address = [0; 6];
    let mut octets = text.split(separator);
    for place in &mut address {
        let octet = octets.next().filter(|octet| octet.len() == 2 && octet.chars().all(|c| c.is_ascii_hexdigit()))?;
        *place = u8::from_str_radix(octet, 16).ok()?;
    }
    (octets.next().is_none() && address != [0; 6]).then_some(address)
}

/// Writes an address in upper case with `separator` between the octets: `:` as most tools do, `-` as IEEE 802 does.
pub fn with(address: [u8; 6], separator: &str) -> String {
    address.map(|octet| format!("{octet:02X}")).join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        let address = [0x01, 0x00, 0x5E, 0x00, 0x00, 0xAB];
        for text in ["01:00:5E:00:00:AB", "01-00-5e-00-00-ab"] {
            assert_eq!(parse(text), Some(address), "{text}");
        }
        assert_eq!(with(address, "-"), "01-00-5E-00-00-AB");
        for text in
            ["", "01:00:5E:00:00", "01:00:5E:00:00:01:02", "01:00:5E:00:00:+1", "1:0:5E:0:0:1", "é1:00:5E:00:00:01"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse("00:00:00:00:00:00"), None);
    }
}
