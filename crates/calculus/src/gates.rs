//! When frames of a class may start behind gates (802.1Q §8.6.8.4), and what that serves.
//!
//! # Why the service holds
//!
//! A *turn* is a stretch [begin, last] of the gate cycle in which frames of the class may start and nobody else is on the
//! line: its window, less what may still be on the line when it opens, less the longest own frame at its end. While
//! the class has frames waiting the line is busy with them from `begin` until a start is allowed no more: they are more
//! than (last − begin)·C bits, and with frames of one size (⌊(last − begin)·C/L⌋ + 1)·L. So with R the work of all turns
//! over the cycle, and T the longest that a frame is ahead of R·t,
//!
//! > start(n) ≤ arrival(k) + T + B(k..n)/R
//!
//! as in [`crate::service`]. T is found where it can be largest: a frame comes just after a turn ends, and starts at the
//! begin of a later one. A frame that comes within a turn finds (last − now)·C bits of it at least.

use num_traits::Zero;

use crate::exact::{Exact, whole};

/// A stretch of the gate cycle in which frames of the class may start.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Turn {
    /// Seconds from the start of the gate cycle; of the last turn it may be beyond the end.
    begin: Exact,
    last: Exact,
    /// Bits that are served in it at least while frames wait.
    work: Exact,
}

/// All turns of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turns {
    cycle: Exact,
    line: Exact,
    /// In their order; never empty.
    turns: Vec<Turn>,
}

/// A window of the class and how long the line may still be taken when it opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Opening {
    /// From here, in seconds from the start of the gate cycle.
    pub(crate) start: Exact,
    /// To here; beyond the end of the cycle where the window goes on into the next.
    pub(crate) end: Exact,
    /// Seconds.
    pub(crate) taken: Exact,
}

/// The frames of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frames {
    /// Bits of the largest.
    pub(crate) largest: Exact,
    /// All have one size, and nobody else sends within the turns.
    pub(crate) alike: bool,
}

impl Turns {
    /// The turns of these openings, in their order; `None` when no frame ever fits.
    pub(crate) fn new(cycle: Exact, line: Exact, openings: &[Opening], frames: &Frames) -> Option<Self> {
        let guard = &frames.largest / &line;
        let turns: Vec<Turn> = openings
            .iter()
            .filter_map(|opening| {
                let (begin, last) = (&opening.start + &opening.taken, &opening.end - &guard);
                let room = (&last - &begin) * &line;
                let work = match (room >= Exact::zero(), frames.alike && frames.largest > Exact::zero()) {
                    (false, _) => return None,
                    (true, true) => ((room / &frames.largest).floor() + whole(1)) * &frames.largest,
                    (true, false) => room,
                };
                (work > Exact::zero()).then_some(Turn { begin, last, work })
            })
            .collect();
        (!turns.is_empty()).then_some(Self { cycle, line, turns })
    }

    /// Bits per second served in the long run.
    pub(crate) fn rate(&self) -> Exact {
        self.turns.iter().map(|turn| turn.work.clone()).sum::<Exact>() / &self.cycle
    }

    /// T for a service of `rate`, which is at most [`Self::rate`].
    pub(crate) fn latency(&self, rate: &Exact) -> Exact {
        let count = self.turns.len();
        let mut longest = Exact::zero();
        for (index, turn) in self.turns.iter().enumerate() {
            let mut work = Exact::zero();
            for later in index + 1..=index + count {
                let next = self.turn(later);
                longest = longest.max(next.begin - &turn.last - &work / rate);
                work += next.work;
            }
        }
        longest
    }

    /// When a frame that is there at `at` has started at the latest, with `ahead` bits in front of it. Instants are
    /// seconds from the start of some gate cycle.
    pub(crate) fn start(&self, at: &Exact, ahead: &Exact) -> Exact {
        let cycles = (at / &self.cycle).floor() - whole(1);
        let origin = &cycles * &self.cycle;
        let (at, mut ahead) = (at - &origin, ahead.clone());
        let mut index = 0;
        loop {
            let turn = self.turn(index);
            index += 1;
            if turn.last < at {
                continue;
            }
            let begin = turn.begin.clone().max(at.clone());
            let start = &begin + &ahead / &self.line;
            if start <= turn.last {
                return origin + start;
            }
            let whole_turn = begin == turn.begin;
            ahead = (ahead - if whole_turn { turn.work } else { (turn.last - begin) * &self.line }).max(Exact::zero());
        }
    }

    /// The same for the launch times of Linux', where a frame that is there as a turn begins has lost it, and those behind it
    /// have, too. If it is `sure` that none before was, a frame finds the turn that has begun. It is there from `first` on,
    /// up to `at`.
    pub(crate) fn launch(&self, [first, at]: &[Exact; 2], ahead: &Exact, sure: bool) -> Exact {
        let latest = |at: &Exact| {
            let cycles = (at / &self.cycle).floor() - whole(1);
            let origin = &cycles * &self.cycle;
            let (at, mut ahead) = (at - &origin, ahead.clone());
            let mut index = 0;
            loop {
                let turn = self.turn(index);
                index += 1;
                let within = sure && turn.begin < at && at < turn.last;
                if turn.begin <= at && !within {
                    continue;
                }
                let begin = if within { at.clone() } else { turn.begin.clone() };
                let start = &begin + &ahead / &self.line;
                if start <= turn.last {
                    return origin + start;
                }
                ahead = (ahead - if within { (turn.last - begin) * &self.line } else { turn.work }).max(Exact::zero());
            }
        };
        // The last begin at which it may be there.
        let begins =
            self.turns.iter().map(|turn| ((at - &turn.begin) / &self.cycle).floor() * &self.cycle + &turn.begin);
        let met = begins.filter(|begin| begin >= first).max();
        met.map_or_else(Exact::zero, |begin| latest(&begin)).max(latest(at))
    }

    /// The turn of this number, counted on over the cycles.
    fn turn(&self, number: usize) -> Turn {
        let Turn { begin, last, work } = &self.turns[number % self.turns.len()];
        let later = whole(number / self.turns.len()) * &self.cycle;
        Turn { begin: begin + &later, last: last + &later, work: work.clone() }
    }

    /// For people: "[201.168, 248.832] µs of 1000.000 µs".
    pub(crate) fn words(&self) -> String {
        let micros = |value: &Exact| crate::exact::micros_up(value);
        let turns: Vec<String> =
            self.turns.iter().map(|turn| format!("[{}, {}]", micros(&turn.begin), micros(&turn.last))).collect();
        format!("{} µs of {} µs", turns.join(" "), micros(&self.cycle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opening(start: i64, end: i64) -> Opening {
        Opening { start: whole(start), end: whole(end), taken: Exact::zero() }
    }

    /// One bit a second, frames of 3 bits.
    fn turns(alike: bool, openings: &[Opening]) -> Option<Turns> {
        Turns::new(whole(100), whole(1), openings, &Frames { largest: whole(3), alike })
    }

    #[test]
    fn a_window_of_one_frame_serves_one_frame() {
        let fits = turns(true, &[opening(10, 13)]).unwrap();
        assert_eq!((fits.rate(), fits.latency(&fits.rate())), (Exact::new(3.into(), 100.into()), whole(100)));
        assert_eq!(turns(true, &[opening(10, 12)]), None);
        // Of frames that differ it is not known that one fits that closely.
        assert_eq!(turns(false, &[opening(10, 13)]), None);
    }

    #[test]
    fn the_latency_is_from_the_end_of_a_turn_to_the_next_begin() {
        // Starts in [10, 20] and [60, 63]: four frames and two, 18 bits in 100 s.
        let two = turns(true, &[opening(10, 23), opening(60, 66)]).unwrap();
        let rate = two.rate();
        assert_eq!(rate, Exact::new(18.into(), 100.into()));
        // From 63 to 110 nothing is served; from 20 to 60 neither; from 20 to 110 six bits.
        assert_eq!(two.latency(&rate), whole(90) - whole(6) / &rate);
    }

    #[test]
    fn a_frame_starts_in_the_turn_that_has_room_for_what_is_ahead() {
        let two = turns(true, &[opening(10, 23), opening(60, 66)]).unwrap();
        let start = |at: i64, ahead: i64| two.start(&whole(at), &whole(ahead));
        assert_eq!(start(0, 0), whole(10));
        assert_eq!(start(12, 0), whole(12));
        assert_eq!(start(12, 6), whole(18));
        assert_eq!(start(21, 0), whole(60));
        assert_eq!(start(5, 12), whole(60), "four frames fill the first turn");
        assert_eq!(start(64, 0), whole(110));
        assert_eq!(start(-90, 0), whole(-90));
        assert_eq!(start(205, 0), whole(210));
    }

    #[test]
    fn a_line_that_is_still_taken_shortens_the_turn() {
        let mut late = opening(10, 23);
        late.taken = whole(4);
        let late = turns(true, &[late]).unwrap();
        assert_eq!(late.start(&whole(0), &whole(0)), whole(14));
        assert_eq!(late.rate(), Exact::new(9.into(), 100.into()));
    }
}
