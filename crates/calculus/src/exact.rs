//! Exact numbers, how they are written down, and the bound that may not exist.

use std::fmt;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed, ToPrimitive, Zero};
use serde::{Deserialize, Serialize};
use units::Nanos;

/// An exact number: seconds, bits or bits per second, as its place says.
pub type Exact = BigRational;

/// A whole number.
pub(crate) fn whole(value: impl Into<BigInt>) -> Exact {
    Exact::from_integer(value.into())
}

/// A span in seconds.
pub(crate) fn seconds(span: Nanos) -> Exact {
    Exact::new(span.0.into(), 1_000_000_000.into())
}

/// Bits of so many bytes.
pub(crate) fn bits(bytes: u32) -> Exact {
    whole(u64::from(bytes) * 8)
}

/// `value` with three decimals, rounded up.
pub(crate) fn decimal_up(value: &Exact) -> String {
    let thousandths = (value * whole(1_000)).ceil().to_integer();
    decimal(&thousandths)
}

/// `value` with three decimals, cut off, as the paper prints.
pub(crate) fn decimal_cut(value: &Exact) -> String {
    let thousandths = (value * whole(1_000)).trunc().to_integer();
    decimal(&thousandths)
}

fn decimal(thousandths: &BigInt) -> String {
    let sign = if thousandths.is_negative() { "-" } else { "" };
    let magnitude = thousandths.abs();
    let thousand = BigInt::from(1_000);
    format!("{sign}{}.{:03}", &magnitude / &thousand, (&magnitude % &thousand).to_u32().unwrap_or(0))
}

/// Microseconds of a span in seconds, rounded up to three decimals.
pub(crate) fn micros_up(seconds: &Exact) -> String {
    decimal_up(&(seconds * whole(1_000_000)))
}

/// A bound in seconds, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum Bound {
    /// Never more than these seconds (never less, where a best case is meant).
    At(Exact),
    /// No bound, because of this.
    Unbounded(String),
}

impl Bound {
    /// The bound in seconds.
    pub fn seconds(&self) -> Option<&Exact> {
        match self {
            Self::At(seconds) => Some(seconds),
            Self::Unbounded(_) => None,
        }
    }

    /// The bound in whole nanoseconds, rounded up; none also when it exceeds 292 years.
    pub fn nanos_ceil(&self) -> Option<Nanos> {
        let nanos = (self.seconds()? * whole(1_000_000_000)).ceil().to_integer();
        nanos.to_i64().map(Nanos)
    }

    /// Why there is no bound.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::At(_) => None,
            Self::Unbounded(reason) => Some(reason),
        }
    }

    /// Both bounds combined; the first reason wins.
    pub(crate) fn with(&self, other: &Self, combine: impl FnOnce(&Exact, &Exact) -> Exact) -> Self {
        match (self, other) {
            (Self::At(a), Self::At(b)) => Self::At(combine(a, b)),
            (Self::Unbounded(reason), _) | (_, Self::Unbounded(reason)) => Self::Unbounded(reason.clone()),
        }
    }
}

impl From<Result<Exact, String>> for Bound {
    fn from(result: Result<Exact, String>) -> Self {
        match result {
            Ok(seconds) => Self::At(seconds),
            Err(reason) => Self::Unbounded(reason),
        }
    }
}

/// Microseconds with three decimals, rounded up, or the reason.
impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(seconds) => write!(f, "{} µs", micros_up(seconds)),
            Self::Unbounded(reason) => write!(f, "unbounded: {reason}"),
        }
    }
}

/// A bound as it stands in a result file.
#[derive(Clone, Serialize, Deserialize)]
struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exact_s: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    us: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unbounded: Option<String>,
}

impl From<Bound> for Written {
    fn from(bound: Bound) -> Self {
        match bound {
            Bound::At(seconds) => {
                Self { exact_s: Some(seconds.to_string()), us: Some(micros_up(&seconds)), unbounded: None }
            }
            Bound::Unbounded(reason) => Self { exact_s: None, us: None, unbounded: Some(reason) },
        }
    }
}

impl TryFrom<Written> for Bound {
    type Error = String;
    fn try_from(written: Written) -> Result<Self, String> {
        match (written.exact_s, written.unbounded) {
            (Some(exact), None) => Ok(Self::At(parse(&exact)?)),
            (None, Some(reason)) => Ok(Self::Unbounded(reason)),
            _ => Err("a bound has either \"exact_s\" or \"unbounded\"".into()),
        }
    }
}

/// A number in a certificate that is no time: bits or bits per second, written "a" or "a/b".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Number(pub Exact);

impl From<Number> for String {
    fn from(number: Number) -> Self {
        number.0.to_string()
    }
}

impl TryFrom<String> for Number {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        parse(&text).map(Self)
    }
}

/// Whole numbers as they are, others with three decimals, rounded up.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.0.is_integer() { self.0.to_string() } else { decimal_up(&self.0) };
        f.pad(&text)
    }
}

/// Reads "a" or "a/b"; a denominator of zero is an error, not a panic.
fn parse(text: &str) -> Result<Exact, String> {
    let wrong = || format!("\"{text}\" is no fraction; expected \"a\" or \"a/b\" with whole a and b > 0");
    let (above, below) = text.split_once('/').unwrap_or((text, "1"));
    let above: BigInt = above.parse().map_err(|_| wrong())?;
    let below: BigInt = below.parse().map_err(|_| wrong())?;
    if below.is_zero() { Err(wrong()) } else { Ok(Exact::new(above, below)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_round_up_and_cut_off() {
        let value = Exact::new(1.into(), 3.into());
        assert_eq!((decimal_up(&value), decimal_cut(&value)), ("0.334".into(), "0.333".into()));
        assert_eq!(decimal_up(&whole(7)), "7.000");
        assert_eq!(decimal_up(&-value), "-0.333");
    }

    #[test]
    fn written_fractions_are_read_back() {
        for text in ["3/6250", "0", "-1/2"] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        for text in ["1/0", "x", "", "1/"] {
            assert!(parse(text).unwrap_err().contains("expected"));
        }
    }
}
