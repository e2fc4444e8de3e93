//! The states of one condition. It knows neither messages nor time: one piece of evidence a cycle.

/// What a cycle shows of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Evidence {
    /// The condition.
    Bad,
    /// That it is not there: a message came, and nothing was wrong.
    Good,
    /// Neither: no message came.
    None,
}

/// Where a condition is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum BreachState {
    /// Nothing is wrong.
    #[default]
    Normal,
    /// It was bad, and nothing good has come since.
    Breached,
    /// Good cycles come again.
    Recovering {
        /// How many in a row; fewer than are needed.
        good: u32,
    },
}

/// A breach begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BreachChange {
    /// Out of Normal.
    Began,
    /// Back to Normal.
    Ended,
}

/// One condition on its way between Normal and Breached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breach {
    recover: u32,
    state: BreachState,
}

impl Breach {
    /// In Normal; `recover` good cycles in a row (at least one) lead back there.
    pub const fn new(recover: u32) -> Self {
        Self { recover: if recover == 0 { 1 } else { recover }, state: BreachState::Normal }
    }

    /// Where it is.
    pub const fn state(&self) -> BreachState {
        self.state
    }

    /// Whether it is not Normal: its action is in force.
    pub fn is_on(&self) -> bool {
        self.state != BreachState::Normal
    }

    /// Takes the evidence of a cycle.
    pub fn step(&mut self, evidence: Evidence) -> Option<BreachChange> {
        let before = self.state;
        self.state = match (before, evidence) {
            (state, Evidence::None) | (state @ BreachState::Normal, Evidence::Good) => state,
            (_, Evidence::Bad) => BreachState::Breached,
            (BreachState::Breached, Evidence::Good) => self.after(1),
            (BreachState::Recovering { good }, Evidence::Good) => self.after(good.saturating_add(1)),
        };
        match (before, self.state) {
            (BreachState::Normal, BreachState::Breached) => Some(BreachChange::Began),
            (BreachState::Breached | BreachState::Recovering { .. }, BreachState::Normal) => Some(BreachChange::Ended),
            _ => None,
        }
    }

    /// So many good cycles in a row.
    fn after(&self, good: u32) -> BreachState {
        if good < self.recover { BreachState::Recovering { good } } else { BreachState::Normal }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use BreachChange::{Began, Ended};
    use BreachState::{Breached, Normal, Recovering};
    use Evidence::{Bad, Good};

    #[test]
    fn every_step_of_the_way_there_and_back() {
        let mut breach = Breach::new(3);
        for (evidence, state, change) in [
            (Good, Normal, None),
            (Evidence::None, Normal, None),
            (Bad, Breached, Some(Began)),
            (Bad, Breached, None),
            (Evidence::None, Breached, None),
            (Good, Recovering { good: 1 }, None),
            (Evidence::None, Recovering { good: 1 }, None),
            (Good, Recovering { good: 2 }, None),
            (Bad, Breached, None),
            (Good, Recovering { good: 1 }, None),
            (Good, Recovering { good: 2 }, None),
            (Good, Normal, Some(Ended)),
            (Bad, Breached, Some(Began)),
        ] {
            assert_eq!((breach.step(evidence), breach.state()), (change, state), "{evidence:?}");
            assert_eq!(breach.is_on(), state != Normal);
        }
    }

    #[test]
    fn one_good_cycle_is_the_least() {
        for recover in [0, 1] {
            let mut breach = Breach::new(recover);
            assert_eq!([Bad, Good, Bad].map(|evidence| breach.step(evidence)), [Some(Began), Some(Ended), Some(Began)]);
        }
    }

    fn evidence() -> impl Strategy<Value = Evidence> {
        prop_oneof![Just(Bad), Just(Good), Just(Evidence::None)]
    }

    proptest! {
        /// Begin and end alternate; a begin is bad itself, an end has `recover` good cycles and no bad one before it, and
        /// between two begins lie at least that many cycles.
        #[test]
        fn it_never_flaps(recover in 1_u32..6, cycles in proptest::collection::vec(evidence(), 0..200)) {
            let mut breach = Breach::new(recover);
            let changes: Vec<_> =
                cycles.iter().enumerate().filter_map(|(at, &cycle)| Some((at, breach.step(cycle)?))).collect();
            for (number, &(at, change)) in changes.iter().enumerate() {
                prop_assert_eq!(change, if number % 2 == 0 { Began } else { Ended });
                if change == Began {
                    prop_assert_eq!(cycles[at], Bad);
                    continue;
                }
                let told: Vec<_> = cycles[..=at].iter().rev().filter(|&&cycle| cycle != Evidence::None).collect();
                prop_assert!(told.iter().take(recover as usize).all(|&&cycle| cycle == Good));
                prop_assert!(at - changes[number - 1].0 >= recover as usize);
            }
            // What has begun and not ended is still on: the end of the run ends it.
            prop_assert_eq!(breach.is_on(), changes.len() % 2 == 1);
            // No bad cycle is passed over.
            let first = cycles.iter().position(|&cycle| cycle == Bad);
            prop_assert_eq!(first, changes.first().map(|&(at, _)| at));
        }
    }
}
