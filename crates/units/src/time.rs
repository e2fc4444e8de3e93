//! Instants and spans.

use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Neg, Rem, Sub, SubAssign};
use core::str::FromStr;

use crate::quantity::{QuantityError, parse};

/// A span in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub i64);

/// An instant: nanoseconds of International Atomic Time since 1970-01-01 00:00:00 TAI, the clock of
/// IEEE 1588 and of the gate schedules of 802.1Q.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tai(pub i64);

/// A span or, in the simulator, an instant since the base time, in picoseconds; an `i64` holds 106 days.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picos(pub i64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of whole microseconds.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros * 1_000)
    }

    /// A span of whole milliseconds.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis * 1_000_000)
    }

    /// The span as floating-point microseconds, for people to read.
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// The span without its sign.
    #[must_use]
    pub const fn abs(self) -> Self {
        Self(self.0.abs())
    }

    /// The span in picoseconds.
    pub const fn to_picos(self) -> Picos {
        Picos(self.0 * 1_000)
    }
}

impl Picos {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// Whole nanoseconds, rounded towards the past.
    pub const fn to_nanos_floor(self) -> Nanos {
        Nanos(self.0.div_euclid(1_000))
    }

    /// Whole nanoseconds, rounded towards the future.
    pub const fn to_nanos_ceil(self) -> Nanos {
        Nanos(-((-self.0).div_euclid(1_000)))
    }
}

impl Tai {
    /// 100 ns ticks between 1601-01-01 (the zero of OPC UA's DateTime, OPC 10000-6 §5.2.2.5) and 1970-01-01.
    const TICKS_1601_TO_1970: i64 = 116_444_736_000_000_000;

    /// This instant as OPC UA DateTime: 100 ns ticks since 1601-01-01 UTC, given how far TAI is ahead of UTC.
    pub const fn to_date_time(self, tai_minus_utc: Nanos) -> i64 {
        (self.0 - tai_minus_utc.0).div_euclid(100) + Self::TICKS_1601_TO_1970
    }
}

macro_rules! span {
    ($t:ident) => {
        impl Add for $t {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl Sub for $t {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }
        impl AddAssign for $t {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }
        impl SubAssign for $t {
            fn sub_assign(&mut self, other: Self) {
                self.0 -= other.0;
            }
        }
        impl Neg for $t {
            type Output = Self;
            fn neg(self) -> Self {
                Self(-self.0)
            }
        }
        impl Mul<i64> for $t {
            type Output = Self;
            fn mul(self, factor: i64) -> Self {
                Self(self.0 * factor)
            }
        }
        impl Div<i64> for $t {
            type Output = Self;
            fn div(self, divisor: i64) -> Self {
                Self(self.0 / divisor)
            }
        }
        /// How often the other span fits into this one, rounded towards zero.
        impl Div for $t {
            type Output = i64;
            fn div(self, other: Self) -> i64 {
                self.0 / other.0
            }
        }
        impl Rem for $t {
            type Output = Self;
            fn rem(self, other: Self) -> Self {
                Self(self.0 % other.0)
            }
        }
        impl core::iter::Sum for $t {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                Self(iter.map(|span| span.0).sum())
            }
        }
    };
}
span!(Nanos);
span!(Picos);

impl Add<Nanos> for Tai {
    type Output = Self;
    fn add(self, span: Nanos) -> Self {
        Self(self.0 + span.0)
    }
}

impl Sub<Nanos> for Tai {
    type Output = Self;
    fn sub(self, span: Nanos) -> Self {
        Self(self.0 - span.0)
    }
}

impl Sub for Tai {
    type Output = Nanos;
    fn sub(self, earlier: Self) -> Nanos {
        Nanos(self.0 - earlier.0)
    }
}

impl AddAssign<Nanos> for Tai {
    fn add_assign(&mut self, span: Nanos) {
        self.0 += span.0;
    }
}

/// Reads `"250us"`, `"31.25us"`, `"1ms"`, `"0s"`; a bare `0` needs no unit.
impl FromStr for Nanos {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        const UNITS: &[(&str, i128)] = &[
            ("ns", 1),
            ("us", 1_000),
            ("µs", 1_000),
            ("μs", 1_000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
            ("min", 60_000_000_000),
            ("h", 3_600_000_000_000),
        ];
        let value = parse(text, UNITS, "ns, us, ms, s, min, h", "nanoseconds")?;
        i64::try_from(value).map(Self).map_err(|_| QuantityError::Range)
    }
}

/// Writes the span in the largest unit that keeps it readable and exact: `250us`, `31.25us`, `1ms`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.unsigned_abs();
        let (unit, size) = match magnitude {
            0 => ("s", 1),
            1..1_000 => ("ns", 1),
            1_000..1_000_000 => ("us", 1_000),
            1_000_000..1_000_000_000 => ("ms", 1_000_000),
            _ => ("s", 1_000_000_000_u64),
        };
        if self.0 < 0 {
            f.write_str("-")?;
        }
        write!(f, "{}", magnitude / size)?;
        let mut rest = magnitude % size;
        if rest > 0 {
            f.write_str(".")?;
            let mut place = size / 10;
            while rest > 0 {
                write!(f, "{}", rest / place)?;
                rest %= place;
                place /= 10;
            }
        }
        f.write_str(unit)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn spans_are_read_exactly_and_written_back() {
        for (text, nanos) in
            [("31.25us", 31_250), ("250us", 250_000), ("1.5ms", 1_500_000), ("2s", 2_000_000_000), ("7ns", 7)]
        {
            let span: Nanos = text.parse().unwrap();
            assert_eq!(span, Nanos(nanos));
            assert_eq!(span.to_string(), text);
        }
        assert_eq!("0".parse(), Ok(Nanos(0)));
        assert_eq!("-20us".parse(), Ok(Nanos(-20_000)));
    }

    #[test]
    fn unreadable_spans_say_why() {
        assert_eq!("fast".parse::<Nanos>(), Err(QuantityError::Number));
        assert_eq!("250".parse::<Nanos>(), Err(QuantityError::Unit("ns, us, ms, s, min, h")));
        assert_eq!("0.5ns".parse::<Nanos>(), Err(QuantityError::Fraction("nanoseconds")));
        assert_eq!("99999999999999h".parse::<Nanos>(), Err(QuantityError::Range));
        assert_eq!("1.2.3s".parse::<Nanos>(), Err(QuantityError::Number));
    }

    #[test]
    fn picoseconds_round_both_ways() {
        assert_eq!(Picos(1_500).to_nanos_floor(), Nanos(1));
        assert_eq!(Picos(1_500).to_nanos_ceil(), Nanos(2));
        assert_eq!(Picos(-1_500).to_nanos_floor(), Nanos(-2));
        assert_eq!(Picos(-1_500).to_nanos_ceil(), Nanos(-1));
    }

    #[test]
    fn date_time_counts_ticks_since_1601() {
        assert_eq!(Tai(0).to_date_time(Nanos(0)), 116_444_736_000_000_000);
        assert_eq!(Tai(37_000_000_000).to_date_time(Nanos(37_000_000_000)), 116_444_736_000_000_000);
    }
}
