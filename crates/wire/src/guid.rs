//! Guid (OPC 10000-6 §5.2.2.6): the first three parts little-endian, the last eight bytes as they are.

use core::fmt;

/// A 128-bit identifier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Guid {
    /// Bytes 0–3.
    pub data1: u32,
    /// Bytes 4–5.
    pub data2: u16,
    /// Bytes 6–7.
    pub data3: u16,
    /// Bytes 8–15.
    pub data4: [u8; 8],
}

impl Guid {
    /// The bytes on the wire.
    pub fn to_wire(self) -> [u8; 16] {
        let mut wire = [0; 16];
        wire[..4].copy_from_slice(&self.data1.to_le_bytes());
        wire[4..6].copy_from_slice(&self.data2.to_le_bytes());
        wire[6..8].copy_from_slice(&self.data3.to_le_bytes());
        wire[8..].copy_from_slice(&self.data4);
        wire
    }

    /// The identifier out of the bytes on the wire.
    pub fn from_wire(wire: [u8; 16]) -> Self {
        let [a, b, c, d, e, f, g, h, data4 @ ..] = wire;
        Self {
            data1: u32::from_le_bytes([a, b, c, d]),
            data2: u16::from_le_bytes([e, f]),
            data3: u16::from_le_bytes([g, h]),
            data4,
        }
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, rest @ ..] = self.data4;
        write!(f, "{:08x}-{:04x}-{:04x}-{a:02x}{b:02x}-", self.data1, self.data2, self.data3)?;
        rest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn the_example_of_the_standard() {
        let wire = [0x91, 0x2B, 0x96, 0x72, 0x75, 0xFA, 0xE6, 0x4A, 0x8D, 0x28, 0xB4, 0x04, 0xDC, 0x7D, 0xAF, 0x63];
        let guid = Guid::from_wire(wire);
        assert_eq!(guid.to_string(), "72962b91-fa75-4ae6-8d28-b404dc7daf63");
        assert_eq!(guid.to_wire(), wire);
    }
}
