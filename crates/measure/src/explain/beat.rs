//! The plan of one end of a stream: when its phases are due.
//!
//! Instants are nanoseconds as `i128`, so that no trace, however broken, makes them overflow.

use scenario::{Phases, Stream};

/// When one end of a stream does what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beat {
    /// Start of cycle 0.
    origin: i128,
    cycle: i128,
    /// From the start of the cycle.
    subscribe: i128,
    /// How long reading goes on: the receive window, at most to the application phase.
    window: i128,
    application: i128,
    publish: i128,
    /// Launch = next cycle start + this.
    launch: Option<i128>,
}

impl Beat {
    /// The beat of a host with these phases, its cycle 0 beginning at `origin`.
    pub(crate) fn new(phases: &Phases, stream: &Stream, origin: i64) -> Self {
        let at = |fraction: scenario::Fraction| i128::from(fraction.of(stream.cycle).0);
        let (subscribe, application) = (at(phases.subscribe), at(phases.application));
        // What arrives after the application began is not seen by it.
        let most = if application > subscribe { application - subscribe } else { i128::MAX };
        Self {
            origin: origin.into(),
            cycle: i128::from(stream.cycle.0).max(1),
            subscribe,
            window: at(phases.window).min(most),
            application,
            publish: at(phases.publish),
            launch: stream.launch.then_some(stream.offset.0.into()),
        }
    }

    /// The cycle.
    pub(crate) fn cycle(&self) -> i128 {
        self.cycle
    }

    /// The number of the cycle that `at` lies in.
    pub(crate) fn cycle_of(&self, at: i128) -> i128 {
        (at - self.origin).div_euclid(self.cycle)
    }

    /// The subscribe phase of a cycle.
    pub(crate) fn subscribe_of(&self, cycle: i64) -> i128 {
        self.origin + i128::from(cycle) * self.cycle + self.subscribe
    }

    /// The last subscribe phase due at or before `at`.
    pub(crate) fn last_subscribe(&self, at: i128) -> i128 {
        self.last(self.subscribe, at)
    }

    /// The last publish phase due at or before `at`.
    pub(crate) fn last_publish(&self, at: i128) -> i128 {
        self.last(self.publish, at)
    }

    /// The first application phase due at or after `at`.
    pub(crate) fn application_after(&self, at: i128) -> i128 {
        self.first(self.application, at)
    }

    /// When a punctual host reads what arrived at `at`: at once while the receive window is open, its end included,
    /// else at the next subscribe phase.
    pub(crate) fn read(&self, at: i128) -> i128 {
        let began = self.last_subscribe(at);
        if at - began <= self.window { at } else { began + self.cycle }
    }

    /// The publish phase that hands over what the application makes of a message read at `at`.
    pub(crate) fn publish_after(&self, at: i128) -> i128 {
        self.first(self.publish, self.application_after(at))
    }

    /// When a frame departs by plan that the publish phase due at `publish` built: its launch, else that phase.
    pub(crate) fn departure(&self, publish: i128) -> i128 {
        self.launch.map_or(publish, |offset| publish - self.publish + self.cycle + offset)
    }

    fn last(&self, offset: i128, at: i128) -> i128 {
        at - (at - self.origin - offset).rem_euclid(self.cycle)
    }

    fn first(&self, offset: i128, at: i128) -> i128 {
        at + (self.origin + offset - at).rem_euclid(self.cycle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::{LineSpec, line};

    #[test]
    fn phases_follow_each_other() {
        let scenario = line(&LineSpec::default());
        let stream = &scenario.streams[0];
        let beat = Beat::new(&scenario.host(stream.reader).phases, stream, 1_000_000);
        // Subscribe 0, window to 50 µs, application 75 µs, publish 150 µs, cycle 250 µs, offset 150 µs.
        assert_eq!(beat.read(1_000_000), 1_000_000);
        assert_eq!(beat.read(1_050_000), 1_050_000);
        assert_eq!(beat.read(1_050_001), 1_250_000);
        assert_eq!(beat.read(999_999), 1_000_000);
        assert_eq!(beat.publish_after(1_075_000), 1_150_000);
        assert_eq!(beat.publish_after(1_075_001), 1_400_000);
        assert_eq!(beat.departure(1_150_000), 1_400_000);
        assert_eq!(beat.last_publish(1_149_999), 900_000);
        assert_eq!((beat.cycle_of(999_999), beat.cycle_of(1_000_000)), (-1, 0));
        // A publish phase before the application's: the answer waits for the next cycle.
        let mut phases = scenario.host(stream.reader).phases;
        phases.publish = scenario::Fraction(100_000_000);
        assert_eq!(Beat::new(&phases, stream, 0).publish_after(0), 275_000);
    }
}
