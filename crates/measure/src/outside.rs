//! What applications outside had for the engine.

use scenario::{ApplicationKind, Scenario, Stream};

use crate::breaches::ENDS;
use crate::collect::StreamLog;
use crate::{ApplicationResult, Dist};

/// From so many cycles without a new image on, an application is silent.
pub(crate) const SILENT_CYCLES: u64 = 100;

/// One look for an image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Glance {
    pub(crate) cycle: i64,
    pub(crate) at: i64,
    pub(crate) new: bool,
    pub(crate) stirred: bool,
    pub(crate) answered_after: Option<u64>,
    pub(crate) status: u32,
}

/// What one end saw of its application.
#[derive(Debug, Default)]
pub(crate) struct OutsideLog {
    attached: bool,
    cycles: u64,
    without_new: u64,
    longest: u64,
    /// Cycles in which what was published was uncertain, and bad.
    uncertain: u64,
    bad: u64,
    answered_after: Vec<i64>,
    /// Stretches of silence that are over.
    silences: Vec<Silence>,
    /// The one that may become one.
    open: Option<Silence>,
}

/// Cycles in a row without a new image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Silence {
    /// Its first cycle, and when that was looked at.
    pub(crate) cycle: i64,
    pub(crate) begin: i64,
    /// When it was last looked at.
    pub(crate) until: i64,
    pub(crate) cycles: u64,
    /// In how many of them the application did something.
    pub(crate) stirred: u64,
    /// Nothing had ever come before.
    pub(crate) from_the_start: bool,
    /// An image came after it.
    pub(crate) over: bool,
    /// The part of the run before this one has told of it.
    pub(crate) told: bool,
}

impl OutsideLog {
    pub(crate) fn push(&mut self, glance: Glance) {
        self.cycles += 1;
        // The severity: 00 good, 01 uncertain, 10 bad, 11 is reserved and nothing to rely on.
        match glance.status >> 30 {
            0 => {}
            1 => self.uncertain += 1,
            _ => self.bad += 1,
        }
        if glance.new {
            self.attached = true;
            self.answered_after.extend(glance.answered_after.and_then(|cycles| i64::try_from(cycles).ok()));
            if let Some(silence) = self.open.take() {
                self.silences.extend((silence.cycles >= SILENT_CYCLES).then_some(Silence { over: true, ..silence }));
            }
            return;
        }
        self.without_new += 1;
        let open = self.open.get_or_insert(Silence {
            cycle: glance.cycle,
            begin: glance.at,
            until: glance.at,
            cycles: 0,
            stirred: 0,
            from_the_start: !self.attached,
            over: false,
            told: false,
        });
        open.cycles += 1;
        open.stirred += u64::from(glance.stirred);
        open.until = glance.at;
        self.attached |= glance.stirred;
        self.longest = self.longest.max(open.cycles);
    }

    /// Cuts off what came so far; a silence goes on in the rest, and is told of once.
    pub(crate) fn cut(&mut self) -> Self {
        let open =
            self.open.map(|silence| Silence { told: silence.told || silence.cycles >= SILENT_CYCLES, ..silence });
        let rest = Self { attached: self.attached, open, ..Self::default() };
        std::mem::replace(self, rest)
    }

    /// What there is of it but for silences: whether it was attached, cycles, those without a new image, the most in a row,
    /// those of an uncertain and of a bad status.
    pub(crate) fn counts(&self) -> Option<[u64; 6]> {
        let counts = [u64::from(self.attached), self.cycles, self.without_new, self.longest, self.uncertain, self.bad];
        (self.cycles > 0).then_some(counts)
    }

    /// Cycles from inputs to the publication of their answer.
    pub(crate) fn answers(&self) -> &[i64] {
        &self.answered_after
    }

    /// Adds what another part of the trace counted.
    pub(crate) fn sum(&mut self, [attached, cycles, without_new, longest, uncertain, bad]: [u64; 6]) {
        self.attached |= attached != 0;
        self.longest = self.longest.max(longest);
        let sums = [(&mut self.cycles, cycles), (&mut self.without_new, without_new)];
        for (sum, more) in sums.into_iter().chain([(&mut self.uncertain, uncertain), (&mut self.bad, bad)]) {
            *sum = sum.saturating_add(more);
        }
    }

    /// Adds an answer.
    pub(crate) fn answered(&mut self, after: i64) {
        self.answered_after.push(after);
    }

    /// Adds a stretch that is worth telling.
    pub(crate) fn keep(&mut self, silence: Silence) {
        self.silences.push(silence);
    }

    /// Stretches that are worth telling, in the order of time.
    pub(crate) fn silences(&self) -> impl Iterator<Item = &Silence> {
        let open = self.open.iter().filter(|silence| silence.cycles >= SILENT_CYCLES);
        self.silences.iter().chain(open).filter(|silence| !silence.told)
    }
}

/// One entry an end whose application is outside.
pub(crate) fn results(scenario: &Scenario, stream: &Stream, log: &StreamLog) -> Vec<ApplicationResult> {
    let mut found = Vec::new();
    for ((end, name), log) in ENDS.into_iter().zip(&log.ends) {
        let log = &log.outside;
        if stream.application(end) == ApplicationKind::Counter || log.cycles == 0 {
            continue;
        }
        let host = if name == "writer" { stream.writer } else { stream.reader };
        found.push(ApplicationResult {
            host: scenario.host(host).name.clone(),
            end: name.to_owned(),
            attached: log.attached,
            cycles: log.cycles,
            without_new: log.without_new,
            longest_without: log.longest,
            uncertain: log.uncertain,
            bad: log.bad,
            status_sent: (name == "writer" || stream.echo).then(|| stream.sends_status(scenario)),
            answered_after: Dist::of(log.answered_after.iter().copied()),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glances(log: &mut OutsideLog, cycles: std::ops::Range<i64>, new: bool, stirred: bool) {
        for cycle in cycles {
            log.push(Glance { cycle, at: cycle * 1000, new, stirred, answered_after: new.then_some(0), status: 0 });
        }
    }

    #[test]
    fn a_silence_is_told_from_its_length_on() {
        let mut log = OutsideLog::default();
        glances(&mut log, 0..150, false, false);
        glances(&mut log, 150..200, true, true);
        glances(&mut log, 200..299, false, true);
        glances(&mut log, 299..300, true, true);
        glances(&mut log, 300..500, false, true);
        let told: Vec<_> = log.silences().map(|s| (s.cycle, s.cycles, s.stirred, s.from_the_start, s.over)).collect();
        assert_eq!(told, [(0, 150, 0, true, true), (300, 200, 200, false, false)]);
        assert_eq!((log.cycles, log.without_new, log.longest), (500, 449, 200));
        assert_eq!(log.answered_after.len(), 51);
    }

    #[test]
    fn a_silence_through_a_cut_is_told_once_and_counted_in_both_parts() {
        let mut log = OutsideLog::default();
        glances(&mut log, 0..10, true, true);
        glances(&mut log, 10..200, false, false);
        let part = log.cut();
        glances(&mut log, 200..260, false, false);
        assert_eq!((part.silences().count(), log.silences().count()), (1, 0));
        assert_eq!((part.without_new, log.without_new, log.longest), (190, 60, 250));
        glances(&mut log, 260..261, true, true);
        assert_eq!(log.silences().count(), 0);
        // Short before the cut, long behind it.
        glances(&mut log, 261..311, false, false);
        let part = log.cut();
        glances(&mut log, 311..400, false, false);
        assert_eq!((part.silences().count(), log.silences().count()), (0, 1));
    }
}
