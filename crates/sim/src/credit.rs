//! The credit of a credit-based shaper (802.1Q §8.6.8.2), in exact integers.

mod linux;

pub(crate) use linux::LinuxCredit;

use units::{Picos, Rate};

/// What the class did since the credit was last brought up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum During {
    /// It was sending: credit changes at sendSlope = idleSlope − portRate.
    Sending,
    /// Frames were waiting: credit rises at idleSlope, also above 0.
    Waiting,
    /// Nothing to send: positive credit is lost, negative credit rises at idleSlope up to 0.
    /// It is never reset from below.
    Empty,
    /// Its gate was shut: credit stays.
    Shut,
}

/// Credit of one class. Unit: bit/s · ps, a million-millionth of a bit, so that slopes times picoseconds
/// are whole numbers. What is sent counts at the port rate while it is sent: physical bits, from the preamble
/// to the inter-frame gap, as 802.1Q §34.4 has it; Linux' software shaper counts otherwise: [`LinuxCredit`].
#[derive(Debug, Clone)]
pub(crate) struct Credit {
    idle_slope: i128,
    send_slope: i128,
    value: i128,
    since: Picos,
}

impl Credit {
    /// No credit at time 0.
    pub(crate) fn new(idle_slope: Rate, port_rate: Rate) -> Self {
        let idle_slope_bits = i128::from(idle_slope.0);
        Self {
            idle_slope: idle_slope_bits,
            send_slope: idle_slope_bits - i128::from(port_rate.0),
            value: 0,
            since: Picos::ZERO,
        }
    }

    /// The instant up to which it is brought.
    pub(crate) fn since(&self) -> Picos {
        self.since
    }

    /// Brings the credit up to `now`, the class having done `during` since the last call.
    pub(crate) fn advance(&mut self, now: Picos, during: During) {
        let span = i128::from((now - self.since).0);
        self.since = now;
        match during {
            During::Sending => self.value += self.send_slope * span,
            During::Waiting => self.value += self.idle_slope * span,
            During::Empty => self.value = (self.value + self.idle_slope * span).min(0),
            During::Shut => {}
        }
    }

    /// Whether a waiting frame may be sent: credit ≥ 0.
    ///
    /// Credit reaches 0 between two picoseconds; the earlier of them is taken, so that no simulated delay is
    /// longer than the ideal one. The balance stays exact: what is still missing to 0 stays missing and is paid
    /// by the next frame, so nothing adds up.
    pub(crate) fn is_enough(&self) -> bool {
        self.value + self.idle_slope > 0 || self.value >= 0
    }

    /// The first instant at which [`Self::is_enough`] while the class waits; `None` without idleSlope.
    pub(crate) fn enough_at(&self) -> Option<Picos> {
        if self.is_enough() {
            return Some(self.since);
        }
        // Smallest whole n with value + n·idleSlope > −idleSlope.
        let wait = (-self.value).checked_div(self.idle_slope)?;
        i64::try_from(wait).ok().and_then(|wait| self.since.0.checked_add(wait)).map(Picos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credit(idle: u64, port: u64) -> Credit {
        Credit::new(Rate(idle), Rate(port))
    }

    #[test]
    fn positive_credit_is_lost_and_negative_credit_kept_when_empty() {
        let mut c = credit(10, 100);
        c.advance(Picos(5), During::Waiting);
        assert_eq!(c.value, 50);
        c.advance(Picos(5), During::Empty);
        assert_eq!(c.value, 0);
        c.advance(Picos(10), During::Sending);
        assert_eq!(c.value, -450);
        c.advance(Picos(30), During::Empty);
        assert_eq!(c.value, -250);
        c.advance(Picos(1000), During::Empty);
        assert_eq!(c.value, 0, "rises to 0, no further");
    }

    #[test]
    fn credit_that_ends_between_two_picoseconds_counts_from_the_earlier() {
        let mut c = credit(30, 100);
        c.advance(Picos(1), During::Sending);
        assert_eq!(c.value, -70);
        // 0 is reached 2⅓ ps later: 3⅓ → 3.
        assert_eq!(c.enough_at(), Some(Picos(3)));
        c.advance(Picos(3), During::Waiting);
        assert!(c.is_enough());
        assert_eq!(c.value, -10, "the missing third stays missing");
    }

    #[test]
    fn an_exact_instant_is_taken_exactly() {
        let mut c = credit(35, 105);
        c.advance(Picos(1), During::Sending);
        assert_eq!(c.enough_at(), Some(Picos(3)));
        c.advance(Picos(2), During::Waiting);
        assert!(!c.is_enough());
    }

    #[test]
    fn without_idle_slope_there_is_no_instant() {
        let mut c = credit(0, 100);
        assert!(c.is_enough());
        c.advance(Picos(1), During::Sending);
        assert_eq!(c.enough_at(), None);
    }
}
