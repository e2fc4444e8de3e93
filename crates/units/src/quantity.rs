//! Reading "31.25us" or "1Gbit/s": a decimal number and a unit, exactly, without floating point.

use core::fmt;

/// Why a quantity could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuantityError {
    /// The text does not begin with a decimal number.
    Number,
    /// The unit is missing or unknown; the field lists what is known.
    Unit(&'static str),
    /// The value does not fit.
    Range,
    /// The value is no whole number of the smallest unit, named in the field.
    Fraction(&'static str),
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number => f.write_str("does not begin with a decimal number"),
            Self::Unit(known) => write!(f, "needs a unit, one of {known}"),
            Self::Range => f.write_str("is too large"),
            Self::Fraction(smallest) => write!(f, "is not a whole number of {smallest}"),
        }
    }
}

impl core::error::Error for QuantityError {}

/// Reads `text` as number and unit; `units` gives for each unit how many of the smallest it is.
pub(crate) fn parse(
    text: &str,
    units: &[(&str, i128)],
    known: &'static str,
    smallest: &'static str,
) -> Result<i128, QuantityError> {
    let text = text.trim();
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim();
    let mut digits: i128 = 0;
    let mut scale: i128 = 1;
    let mut point = false;
    let mut any = false;
    for c in number.chars() {
        match c {
            '_' => {}
            '.' if point => return Err(QuantityError::Number),
            '.' => point = true,
            _ => {
                any = true;
                let digit = i128::from(c as u32 - '0' as u32);
                digits = digits.checked_mul(10).and_then(|d| d.checked_add(digit)).ok_or(QuantityError::Range)?;
                if point {
                    scale = scale.checked_mul(10).ok_or(QuantityError::Range)?;
                }
            }
        }
    }
    if !any {
        return Err(QuantityError::Number);
    }
    let factor = match units.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => *factor,
        // Zero is zero in every unit.
        None if digits == 0 && unit.is_empty() => 1,
        None => return Err(QuantityError::Unit(known)),
    };
    let total = digits.checked_mul(factor).ok_or(QuantityError::Range)?;
    if total % scale != 0 {
        return Err(QuantityError::Fraction(smallest));
    }
    Ok(if negative { -(total / scale) } else { total / scale })
}
