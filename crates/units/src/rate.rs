//! Rates in bits per second.

use core::fmt;
use core::str::FromStr;

use crate::Picos;
use crate::quantity::{QuantityError, parse};

/// A rate in bits per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u64);

impl Rate {
    /// Gigabits per second.
    pub const fn from_gbit(gbit: u64) -> Self {
        Self(gbit * 1_000_000_000)
    }

    /// Megabits per second.
    pub const fn from_mbit(mbit: u64) -> Self {
        Self(mbit * 1_000_000)
    }

    /// How long `bits` take at this rate, rounded down to a picosecond.
    ///
    /// Down, so that a simulated frame is never slower than a real one and a simulated delay never
    /// exceeds a bound by rounding alone.
    ///
    /// # Panics
    /// If the rate is zero.
    pub const fn transmission(self, bits: u64) -> Picos {
        let picos = bits as u128 * 1_000_000_000_000 / self.0 as u128;
        Picos(picos as i64)
    }
}

/// Reads `"1Gbit/s"`, `"100Mbit/s"`, `"2.5Gbit/s"`.
impl FromStr for Rate {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        const UNITS: &[(&str, i128)] =
            &[("bit/s", 1), ("kbit/s", 1_000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000)];
        let value = parse(text, UNITS, "bit/s, kbit/s, Mbit/s, Gbit/s", "bit/s")?;
        u64::try_from(value).map(Self).map_err(|_| QuantityError::Range)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, size) in [("Gbit/s", 1_000_000_000), ("Mbit/s", 1_000_000), ("kbit/s", 1_000)] {
            if self.0 >= size && self.0.is_multiple_of(size / 100) {
                let (whole, hundredths) = (self.0 / size, self.0 % size / (size / 100));
                return match hundredths {
                    0 => write!(f, "{whole}{unit}"),
                    h if h % 10 == 0 => write!(f, "{whole}.{}{unit}", h / 10),
                    h => write!(f, "{whole}.{h:02}{unit}"),
                };
            }
        }
        write!(f, "{}bit/s", self.0)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn rates_are_read_and_written_back() {
        for (text, bits) in [
            ("1Gbit/s", 1_000_000_000),
            ("2.5Gbit/s", 2_500_000_000),
            ("100Mbit/s", 100_000_000),
            ("16384bit/s", 16_384),
        ] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate, Rate(bits));
            assert_eq!(rate.to_string(), text);
        }
        assert!("1Gb".parse::<Rate>().is_err());
    }

    #[test]
    fn transmission_times_are_exact_where_they_can_be() {
        assert_eq!(Rate::from_gbit(1).transmission(8), Picos(8_000));
        assert_eq!(Rate::from_gbit(100).transmission(8), Picos(80));
        assert_eq!(Rate(3).transmission(1), Picos(333_333_333_333));
    }
}
