//! Numbers in words for people.

use units::Nanos;

/// A span with its unit and one decimal where that helps: "850 ns", "50 µs", "20.1 ms".
pub(crate) fn span(ns: i64) -> String {
    let magnitude = ns.unsigned_abs();
    let (unit, size) = match magnitude {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => ("µs", 1_000),
        1_000_000..1_000_000_000 => ("ms", 1_000_000),
        _ => ("s", 1_000_000_000_u64),
    };
    let sign = if ns < 0 { "-" } else { "" };
    let tenths = (u128::from(magnitude) * 10 + u128::from(size / 2)) / u128::from(size);
    match tenths % 10 {
        0 => format!("{sign}{} {unit}", tenths / 10),
        tenth => format!("{sign}{}.{tenth} {unit}", tenths / 10),
    }
}

/// A span to the nanosecond, for figures next to a limit: "100.2 µs" rounded would hide a miss.
pub(crate) fn exact(ns: i64) -> String {
    let text = Nanos(ns).to_string();
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    format!("{} {}", &text[..unit], text[unit..].replace("us", "µs"))
}

/// A share as a percentage with as many places as it takes, six at most: "0.3905 %", "0.001 %".
pub(crate) fn percent(share: f64) -> String {
    let text = format!("{:.6}", share * 100.0);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} %")
}

/// "1 frame", "2 frames".
pub(crate) fn number(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// "cycle 5" or "cycles 5 to 9".
pub(crate) fn cycles(first: i64, last: i64) -> String {
    if first == last { format!("cycle {first}") } else { format!("cycles {first} to {last}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_well() {
        for (ns, text) in [
            (0, "0 ns"),
            (850, "850 ns"),
            (50_000, "50 µs"),
            (20_100_000, "20.1 ms"),
            (-1_260, "-1.3 µs"),
            (2_000_000_000, "2 s"),
        ] {
            assert_eq!(span(ns), text);
        }
        assert_eq!(exact(2_478_234), "2.478234 ms");
        assert_eq!(exact(100_200), "100.2 µs");
        assert_eq!([0.0, 1e-5, 0.01, 0.003_905].map(percent), ["0 %", "0.001 %", "1 %", "0.3905 %"]);
        assert_eq!(number(1, "frame"), "1 frame");
        assert_eq!(number(2, "frame"), "2 frames");
        assert_eq!(cycles(3, 3), "cycle 3");
        span(i64::MIN);
    }
}
