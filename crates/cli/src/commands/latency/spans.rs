//! What stands behind the letters: spans as cyclictest writes them, processors, names.

use std::str::FromStr;

use rt::wakeup::{Clock, Policy};
use units::Nanos;

/// Whether a text is a plain number.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

fn span(text: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>() {
        Ok(span) if span < Nanos::ZERO => Err("is negative".into()),
        Ok(span) => Ok(span),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads `250` or `250us`, `1ms`.
pub(super) fn microseconds(text: &str) -> Result<Nanos, String> {
    let text = text.trim();
    if is_number(text) { span(&format!("{text}us")) } else { span(text) }
}

/// Reads `10` or `10s`; `5m`, `2h` and `1d` are minutes, hours and days as in cyclictest.
pub(crate) fn duration(text: &str) -> Result<Nanos, String> {
    let text = text.trim();
    if is_number(text) {
        return span(&format!("{text}s"));
    }
    let with = |number: &str, unit, factor| {
        let span = span(&format!("{number}{unit}"))?;
        span.0.checked_mul(factor).map(Nanos).ok_or_else(|| "is too long".to_owned())
    };
    match (text.strip_suffix('m'), text.strip_suffix('d')) {
        (Some(minutes), _) if is_number(minutes) => with(minutes, "min", 1),
        (_, Some(days)) if is_number(days) => with(days, "h", 24),
        _ => span(text),
    }
}

/// Reads the name of a clock, or cyclictest's number of it.
pub(super) fn clock(text: &str) -> Result<Clock, String> {
    match text {
        "monotonic" | "0" => Ok(Clock::Monotonic),
        "tai" => Ok(Clock::Tai),
        _ => Err("expected monotonic or tai".into()),
    }
}

pub(super) fn clock_name(clock: Clock) -> &'static str {
    match clock {
        Clock::Monotonic => "monotonic",
        Clock::Tai => "tai",
    }
}

/// Reads the name of a policy.
pub(super) fn policy(text: &str) -> Result<Policy, String> {
    match text {
        "fifo" => Ok(Policy::Fifo),
        "rr" => Ok(Policy::RoundRobin),
        "other" | "normal" => Ok(Policy::Other),
        "batch" => Ok(Policy::Batch),
        "idle" => Ok(Policy::Idle),
        _ => Err("expected fifo, rr, other, batch or idle".into()),
    }
}

pub(super) fn policy_name(policy: Policy) -> &'static str {
    match policy {
        Policy::Fifo => "fifo",
        Policy::RoundRobin => "rr",
        Policy::Other => "other",
        Policy::Batch => "batch",
        Policy::Idle => "idle",
    }
}

/// Processors as the user names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cpus {
    /// All that this process may use.
    All,
    /// These, in this order.
    These(Vec<usize>),
}

/// More processors than Linux is built for.
const MOST_CPUS: usize = 8_192;

impl FromStr for Cpus {
    type Err = String;

    /// Reads `all` or a list like `0,2-3`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let number = |text: &str| {
            let number = text.trim().parse::<usize>().ok().filter(|&cpu| cpu < MOST_CPUS);
            number.ok_or_else(|| format!("`{text}` is no processor; write a list like 0,2-3"))
        };
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return Err(format!("`{part}` runs backwards; write {last}-{first}"));
            }
            cpus.extend(first..=last);
        }
        Ok(Self::These(cpus))
    }
}

impl Cpus {
    /// These processors, if all of them are among the allowed ones.
    pub(super) fn among(&self, allowed: &[usize]) -> Result<Vec<usize>, String> {
        let Self::These(cpus) = self else { return Ok(allowed.to_vec()) };
        match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
            None => Ok(cpus.clone()),
            Some(cpu) => {
                let list: Vec<String> = allowed.iter().map(usize::to_string).collect();
                Err(format!("-a: there is no processor {cpu} for this process\n  mend: take of {}", list.join(", ")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_units_of_cyclictest() {
        for (text, ns) in [("250", 250_000), ("31.25", 31_250), ("250us", 250_000), ("1ms", 1_000_000), ("0", 0)] {
            assert_eq!(microseconds(text), Ok(Nanos(ns)), "{text}");
        }
        const S: i64 = 1_000_000_000;
        for (text, ns) in [
            ("10", 10 * S),
            ("90s", 90 * S),
            ("2m", 120 * S),
            ("2min", 120 * S),
            ("1h", 3_600 * S),
            ("1d", 86_400 * S),
            ("500ms", S / 2),
            ("0", 0),
        ] {
            assert_eq!(duration(text), Ok(Nanos(ns)), "{text}");
        }
        for text in ["", "x", "-5", "-5us", "1..2", "5 parsecs", "99999999999999999999"] {
            assert!(microseconds(text).is_err() && duration(text).is_err(), "{text}");
        }
        assert!(duration("999999d").is_err());
    }

    #[test]
    fn lists_of_processors_are_read_and_checked() {
        let list = |text: &str| text.parse::<Cpus>().and_then(|cpus| cpus.among(&[0, 1, 2, 5]));
        assert_eq!(list("all"), Ok(vec![0, 1, 2, 5]));
        assert_eq!(list("5,0-1"), Ok(vec![5, 0, 1]));
        for (text, word) in [
            ("", "no processor"),
            ("a", "`a`"),
            ("1-", "no processor"),
            ("2-1", "1-2"),
            ("0-3", "0, 1, 2, 5"),
            ("0-999999", "999999"),
        ] {
            let message = list(text).unwrap_err();
            assert!(message.contains(word), "{text}: {message}");
        }
    }
}
