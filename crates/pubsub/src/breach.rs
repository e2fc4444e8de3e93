//! Breaches: what an end of a stream watches for, what it does about it, and the way back to normal.
//!
//! Once a cycle each [`Condition`] gets its [`Evidence`] and a [`Breach`] makes a state of it:
//!
//! ```text
//!            bad                    good
//!   Normal ───────► Breached ◄──────────────► Recovering ───► Normal
//!                              bad                       `recover` good ones in a row
//! ```
//!
//! As long as a condition is not Normal its [`Action`] is in force. A cycle without evidence changes nothing.

mod machine;
mod watch;

use units::Nanos;

pub use machine::{Breach, BreachChange, BreachState, Evidence};
pub(crate) use watch::{Cycle, Places, Substitute, Watch};

/// Something that an end of a stream can suffer from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// A message came whose variables differ.
    Inconsistent,
    /// Counters between two readings never came.
    Missed,
    /// The newest message took longer than is allowed.
    Late,
    /// No message came for longer than the MessageReceiveTimeout (OPC 10000-14 §6.2.9).
    Silent,
}

impl Condition {
    /// How many there are.
    pub const COUNT: usize = 4;

    /// All of them, each at its [`Self::index`].
    pub const ALL: [Self; Self::COUNT] = [Self::Inconsistent, Self::Missed, Self::Late, Self::Silent];

    /// Its name in scenario files and results.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Inconsistent => "inconsistent",
            Self::Missed => "missed",
            Self::Late => "late",
            Self::Silent => "silent",
        }
    }

    /// Its place in [`Self::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// What is done as long as a condition is not Normal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Action {
    /// It is told, and nothing else.
    #[default]
    Count,
    /// The end publishes and takes nothing any more: there is no way back.
    Stop,
    /// The application goes on with the last values that were usable (zeros before there were any), and with status Bad
    /// (OverrideValueHandling LastUsableValue, OPC 10000-14 §6.2.10.2.4).
    Hold,
    /// The application goes on with this value in all variables, and with status Bad (OverrideValueHandling
    /// OverrideValue).
    Override(u64),
    /// This value is published in all variables, with a Bad Status where the layout has one, and not running.
    Safe(u64),
}

impl Action {
    /// Its name in scenario files and results.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Stop => "stop",
            Self::Hold => "hold",
            Self::Override(_) => "override",
            Self::Safe(_) => "safe",
        }
    }
}

/// What to do about one condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BreachRule {
    /// As long as it is not Normal.
    pub action: Action,
    /// So many good cycles in a row lead back to Normal; 0 counts as 1.
    pub recover: u32,
}

/// What one end watches for. It watches what it reads, so an end that reads nothing watches nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BreachRules {
    /// The conditions, each at its [`Condition::index`]; those without a rule are not watched.
    pub rules: [Option<BreachRule>; Condition::COUNT],
    /// [`Condition::Missed`]: most counters that may be missing between two readings.
    pub allowed_missing: u64,
    /// [`Condition::Silent`]: MessageReceiveTimeout; zero switches it off.
    pub receive_timeout: Nanos,
    /// [`Condition::Late`]: the longest way that is allowed, to the instant of decoding. At a Source it begins where the
    /// counter was handed over (T8 − T1), at any other end with the Timestamp of the DataSetMessage (T4 − T1).
    pub longest_way: Option<Nanos>,
    /// [`Condition::Late`], at a Source: most cycles from the application phase that wrote a counter to the one that
    /// reads it back.
    pub longest_round_trip_cycles: Option<u64>,
}

impl BreachRules {
    /// The rule of a condition.
    pub fn rule(&self, condition: Condition) -> Option<BreachRule> {
        self.rules.get(condition.index()).copied().flatten()
    }
}

/// Which breaches began and which ended in a cycle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BreachChanges {
    began: u8,
    ended: u8,
}

impl BreachChanges {
    /// Neither.
    pub const NONE: Self = Self { began: 0, ended: 0 };

    /// Whether nothing changed.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.began | self.ended == 0
    }

    /// What changed; a condition changes at most once a cycle.
    pub fn iter(self) -> impl Iterator<Item = (Condition, BreachChange)> {
        Condition::ALL.into_iter().filter_map(move |condition| {
            if self.began & condition.bit() != 0 {
                Some((condition, BreachChange::Began))
            } else if self.ended & condition.bit() != 0 {
                Some((condition, BreachChange::Ended))
            } else {
                None
            }
        })
    }

    fn note(&mut self, condition: Condition, change: BreachChange) {
        match change {
            BreachChange::Began => self.began |= condition.bit(),
            BreachChange::Ended => self.ended |= condition.bit(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_at_their_index_and_changes_come_back() {
        let mut changes = BreachChanges::NONE;
        assert!(changes.is_empty());
        for (index, condition) in Condition::ALL.into_iter().enumerate() {
            assert_eq!(condition.index(), index);
        }
        changes.note(Condition::Silent, BreachChange::Began);
        changes.note(Condition::Missed, BreachChange::Ended);
        let expected = [(Condition::Missed, BreachChange::Ended), (Condition::Silent, BreachChange::Began)];
        assert!(!changes.is_empty() && changes.iter().eq(expected));
    }
}
