//! Gates of the standard's (802.1Q §8.6.8.4), as hardware keeps them: a frame starts when its gate is open and all of it
//! goes before the gate closes.

use scenario::{GateSchedule, Open, Window};
use units::{Nanos, Picos};

/// When frames of a class may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// From this instant on, which may be now.
    At(Picos),
    /// Never: no window is long enough.
    Never,
}

/// The gates of a port.
#[derive(Debug)]
pub(crate) struct Gates {
    cycle: Picos,
    /// Some start of a cycle.
    start: Picos,
    open: Vec<Open>,
}

impl Gates {
    /// The gates of the first `classes` classes; cycles begin at `start`, before and after it.
    pub(crate) fn new(schedule: &GateSchedule, start: Nanos, classes: usize) -> Self {
        Self {
            cycle: Nanos(schedule.cycle.0.max(1)).to_picos(),
            start: start.to_picos(),
            open: (0..classes as u8).map(|class| schedule.open(class)).collect(),
        }
    }

    /// When a frame that takes `span` of the line may start, at `now` or later.
    pub(crate) fn start(&self, now: Picos, class: usize, span: Picos) -> Start {
        let Open::In(windows) = &self.open[class] else { return Start::At(now) };
        let within = Picos((now - self.start).0.rem_euclid(self.cycle.0));
        let wait = |window: &Window| {
            let last = window.length().to_picos() - span;
            if last < Picos::ZERO {
                return None;
            }
            let since = Picos((within - window.start.to_picos()).0.rem_euclid(self.cycle.0));
            Some(if since <= last { Picos::ZERO } else { self.cycle - since })
        };
        windows.iter().filter_map(wait).min().map_or(Start::Never, |wait| Start::At(now + wait))
    }

    /// Whether a gate is open at an instant, and until when that stays so.
    pub(crate) fn phase(&self, at: Picos, class: usize) -> (bool, Picos) {
        let Open::In(windows) = &self.open[class] else { return (true, Picos(i64::MAX)) };
        let within = Picos((at - self.start).0.rem_euclid(self.cycle.0));
        let mut opens = self.cycle;
        for window in windows {
            let since = Picos((within - window.start.to_picos()).0.rem_euclid(self.cycle.0));
            let length = window.length().to_picos();
            if since < length {
                return (true, at + (length - since));
            }
            opens = opens.min(self.cycle - since);
        }
        (false, at + opens)
    }
}

#[cfg(test)]
mod tests {
    use scenario::{GateEntry, TaprioMode};
    use units::Tai;

    use super::*;

    #[test]
    fn a_frame_starts_where_all_of_it_fits() {
        let entry = |gates, micros| GateEntry { gates, interval: Nanos::from_micros(micros) };
        let schedule = GateSchedule {
            base_time: Tai(0),
            cycle: Nanos::from_micros(100),
            // Class 0 is open from 80 µs over the end of the cycle to 10, class 1 from 10 to 30.
            entries: vec![entry(1, 10), entry(2, 20), entry(0, 50), entry(1, 20)],
            mode: TaprioMode::FullOffload,
        };
        let gates = Gates::new(&schedule, Nanos::from_micros(5), 3);
        let start =
            |at_us: i64, class, span_us: i64| gates.start(Picos(at_us * 1_000_000), class, Picos(span_us * 1_000_000));
        let at = |us: i64| Start::At(Picos(us * 1_000_000));
        assert_eq!(start(5, 0, 10), at(5));
        assert_eq!(start(6, 0, 10), at(85));
        assert_eq!(start(86, 0, 29), at(86));
        assert_eq!(start(87, 0, 30), at(185));
        assert_eq!(start(87, 0, 31), Start::Never);
        assert_eq!(start(0, 1, 20), at(15));
        assert_eq!(start(-90, 1, 20), at(-85));
        assert_eq!(start(0, 2, 0), Start::Never);
    }
}
