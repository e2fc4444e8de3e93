//! Figures as people read them: with unit, in groups of three, absent as a dash.

/// What stands where nothing was measured; never a zero.
pub(crate) const ABSENT: &str = "—";

/// Narrow no-break space: between groups of digits, and between a number and its unit.
const THIN: char = '\u{202f}';

/// Units of a chart's axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Nanoseconds.
    Nano,
    /// Microseconds.
    Micro,
    /// Milliseconds.
    Milli,
    /// Seconds.
    Second,
}

impl Unit {
    /// The unit in which a span of `ns` nanoseconds has one to four digits before the point.
    pub(crate) fn of(ns: f64) -> Self {
        match ns.abs() {
            x if x < 1e3 => Self::Nano,
            x if x < 1e7 => Self::Micro,
            x if x < 1e10 => Self::Milli,
            _ => Self::Second,
        }
    }

    /// Nanoseconds in one.
    pub(crate) fn ns(self) -> f64 {
        match self {
            Self::Nano => 1.0,
            Self::Micro => 1e3,
            Self::Milli => 1e6,
            Self::Second => 1e9,
        }
    }

    /// Its symbol.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Nano => "ns",
            Self::Micro => "µs",
            Self::Milli => "ms",
            Self::Second => "s",
        }
    }

    /// `ns` in this unit without its symbol, as short as it stays exact to four decimals.
    pub(crate) fn bare(self, ns: f64) -> String {
        trimmed(ns / self.ns(), 4)
    }
}

/// `12 345 678`.
pub(crate) fn count(n: u64) -> String {
    group(&n.to_string())
}

/// A span to the nanosecond where a page has room for it: `250.812 µs`, `1 234.567 µs`, `12.346 ms`.
pub(crate) fn span(ns: f64) -> String {
    let unit = Unit::of(ns);
    let decimals = if unit == Unit::Nano { 0 } else { 3 };
    format!("{}{THIN}{}", fixed(ns / unit.ns(), decimals), unit.symbol())
}

/// A span in running text: exact to the nanosecond, without zeros at its end.
pub(crate) fn plain_span(ns: f64) -> String {
    // `1 ms`, not `1000 µs`, where three decimals keep every nanosecond.
    let unit =
        if ns.abs() >= 1e6 && ns % 1e3 == 0.0 && Unit::of(ns) == Unit::Micro { Unit::Milli } else { Unit::of(ns) };
    format!("{}{THIN}{}", trimmed(ns / unit.ns(), 3), unit.symbol())
}

/// An instant of a run, from its start: `5.000 s`.
pub(crate) fn moment(ns: f64) -> String {
    format!("{}{THIN}s", fixed(ns / 1e9, 3))
}

/// A span for a label: three or four digits.
pub(crate) fn short_span(ns: f64) -> String {
    let unit = if (1e6..1e7).contains(&ns.abs()) { Unit::Milli } else { Unit::of(ns) };
    let value = ns / unit.ns();
    let decimals = match value.abs() {
        x if unit == Unit::Nano || x >= 1000.0 => 0,
        x if x >= 100.0 => 1,
        x if x >= 10.0 => 2,
        _ => 3,
    };
    format!("{}{THIN}{}", trimmed(value, decimals), unit.symbol())
}

/// A number of cycles: `2 cycles`, means with their decimals.
pub(crate) fn cycles(n: f64) -> String {
    let unit = if (n - 1.0).abs() < 1e-9 { "cycle" } else { "cycles" };
    format!("{}{THIN}{unit}", trimmed(n, 3))
}

/// How often something happened, and out of how many: `3 (7.5 × 10⁻⁶)`; the share is left out for 0 and without a whole.
pub(crate) fn share_of(n: u64, whole: u64) -> String {
    if n == 0 || whole == 0 {
        return count(n);
    }
    format!("{} ({})", count(n), share(n as f64 / whole as f64))
}

/// A share as a percentage while that is readable, else in powers of ten.
pub(crate) fn share(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    if value.abs() >= 1e-4 {
        let decimals = if value.abs() >= 0.01 { 2 } else { 4 };
        return format!("{}{THIN}%", trimmed(value * 100.0, decimals));
    }
    let exponent = value.abs().log10().floor();
    let mantissa = trimmed(value / 10f64.powf(exponent), 2);
    format!("{mantissa} × 10{}", superscript(exponent as i32))
}

/// Bytes.
pub(crate) fn bytes(n: u64) -> String {
    format!("{}{THIN}B", count(n))
}

/// `value` with at most `decimals`, zeros at the end left out, digits grouped.
pub(crate) fn trimmed(value: f64, decimals: usize) -> String {
    let text = fixed(value, decimals);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// `value` with exactly `decimals`, digits before the point grouped, a true minus sign.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return ABSENT.into();
    }
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let zero = text.chars().all(|c| matches!(c, '0' | '.'));
    format!("{}{}{rest}", if value < 0.0 && !zero { "−" } else { "" }, group(whole))
}

fn group(digits: &str) -> String {
    if digits.len() <= 4 {
        return digits.to_owned();
    }
    let mut out = String::with_capacity(digits.len() * 2);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(THIN);
        }
        out.push(c);
    }
    out
}

fn superscript(n: i32) -> String {
    n.to_string()
        .chars()
        .map(|c| match c {
            '-' => '⁻',
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            c => char::from_u32(0x2070 + c.to_digit(10).unwrap_or(0)).unwrap_or('⁰'),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: String) -> String {
        text.replace(THIN, " ")
    }

    #[test]
    fn spans_keep_their_nanoseconds() {
        assert_eq!(plain(span(0.0)), "0 ns");
        assert_eq!(plain(span(812.0)), "812 ns");
        assert_eq!(plain(span(250_812.0)), "250.812 µs");
        assert_eq!(plain(span(1_234_567.0)), "1234.567 µs");
        assert_eq!(plain(span(-60_000.0)), "−60.000 µs");
        assert_eq!(plain(span(12_345_678.0)), "12.346 ms");
        assert_eq!(plain(short_span(250_812.0)), "250.8 µs");
        assert_eq!(plain(short_span(1_250_000.0)), "1.25 ms");
        assert_eq!(plain(short_span(2_004_386.0)), "2.004 ms");
        assert_eq!(plain(plain_span(4_000_000.0)), "4 ms");
        assert_eq!(plain(plain_span(1_234_567.0)), "1234.567 µs");
        assert_eq!(plain(plain_span(31_250.0)), "31.25 µs");
    }

    #[test]
    fn shares_say_small_numbers_in_powers_of_ten() {
        assert_eq!(plain(share_of(3, 400_000)), "3 (7.5 × 10⁻⁶)");
        assert_eq!(plain(share_of(0, 400_000)), "0");
        assert_eq!(plain(share_of(5, 0)), "5");
        assert_eq!(plain(share(0.259)), "25.9 %");
        assert_eq!(plain(share(0.0001)), "0.01 %");
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!(plain(count(1234)), "1234");
        assert_eq!(plain(count(12_345_678)), "12 345 678");
        assert_eq!(plain(cycles(1.0)), "1 cycle");
        assert_eq!(plain(cycles(4.5)), "4.5 cycles");
    }
}
