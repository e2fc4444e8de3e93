//! What came of a watch: its figures, and what they say of the clock's error.

use measure::{ClockError, Convergence, PTP_FORMAT, PtpFile, ResultsError, SystemClockFigures};
use units::Nanos;

use super::Observer;

/// How long sync messages may stay away at the end, at least.
const UNSEEN: i64 = 3_000_000_000;
/// Or so many of their intervals.
const MISSED: i64 = 4;

impl Observer {
    /// The result.
    pub(crate) fn finish(self, ended: String) -> Result<PtpFile, ResultsError> {
        let lasted_ns = self.now();
        let (clock_error, clock_error_unknown) = match self.clock_error(lasted_ns) {
            Ok(error) => (Some(error), None),
            Err(why) => (None, Some(why)),
        };
        let from = if self.facts.started { "ptp4l started" } else { "watching began" };
        let best_master_ns = self.best_master.or(self.own_best.filter(|_| !self.offset_seen));
        let servo_lock_ns = self.locked_at.and_then(|at| Some(at - self.best_master?));
        let own = self.grandmaster.as_ref().is_some_and(|(found, _)| Some(*found) == self.clock);
        let mut notes = Vec::new();
        if self.stamps == Some("hardware") && self.system.is_empty() && clock_error.is_some() {
            notes.push(
                "how far the system clock is from the interface's is not in the clock error: no phc2sys was watched"
                    .into(),
            );
        }
        if own && self.facts.free_running != Some(true) && self.all.count() == 0 {
            notes.push("this host is the grandmaster: the others' offsets are to its clock".into());
        }
        let eights = if self.locked_at.is_some() { self.kept_eights } else { self.all_eights };
        let systems = self.system.into_iter().map(|(clock, system)| SystemClockFigures {
            clock,
            offset: system.offset.figures(),
            read_delay: system.read_delay.figures(),
            course: system.course,
        });
        Ok(PtpFile {
            format: PTP_FORMAT.into(),
            began_utc_s: self.began_utc_s,
            lasted_ns,
            ended,
            domain: self.domain,
            stamps: self.stamps.unwrap_or("unknown").into(),
            free_running: self.facts.free_running,
            clock: self.clock.map(|clock| clock.to_string()),
            grandmaster: self.grandmaster.map(|(found, _)| found.to_string()),
            ports: self.ports.into_values().collect(),
            convergence: Convergence {
                from: from.into(),
                best_master_ns,
                servo_lock_ns,
                first_offsets: self.first_offsets,
            },
            offset: self.kept.figures(),
            offset_all: self.all.figures(),
            offset_rms8: eights.tally.figures(),
            path_delay: self.delays.figures(),
            system: systems.collect(),
            clock_error,
            clock_error_unknown,
            events: self.events,
            events_left_out: self.events_left_out,
            offset_course: self.offset_course,
            path_delay_course: self.delay_course,
            rows: self.shelf.finish()?,
            notes,
            ..PtpFile::default()
        })
    }

    fn clock_error(&self, lasted_ns: i64) -> Result<ClockError, String> {
        if self.facts.free_running == Some(true) {
            return Err(
                "ptp4l steered no clock (free_running): what was observed is of the path and two clocks, and bounds \
                        nothing"
                    .into(),
            );
        }
        let own = self.grandmaster.as_ref().is_some_and(|(found, _)| Some(*found) == self.clock);
        let kept = self.kept.figures();
        if kept.is_none() && !(own && self.all.count() == 0) {
            return Err("the clock has never locked to a grandmaster while it was watched".into());
        }
        if let Some(unseen) = self.unseen(lasted_ns) {
            return Err(format!(
                "no sync message came in the last {unseen} of the watch: how far the clock ran off meanwhile is not known"
            ));
        }
        let figures = || self.system.values().filter_map(|system| system.offset.figures());
        let read = self.system.values().filter_map(|system| system.read_delay.figures()).map(|figures| figures.max_ns);
        let offset_ns = kept.as_ref().map_or(0, |figures| figures.max_abs());
        let system_ns = figures().map(|figures| figures.max_abs()).max().unwrap_or(0);
        let read_ns = read.max().unwrap_or(0);
        let samples = kept.map_or_else(|| figures().map(|figures| figures.count).sum(), |figures| figures.count);
        if !self.system.is_empty() && figures().next().is_none() {
            return Err("phc2sys has never locked while it was watched".into());
        }
        Ok(ClockError {
            epsilon_ns: offset_ns.saturating_add(system_ns).saturating_add(read_ns),
            offset_ns,
            system_ns,
            read_ns,
            samples,
            lasted_ns: lasted_ns - self.locked_at.unwrap_or(0).max(0),
            stamps: self.stamps.unwrap_or("unknown").into(),
        })
    }

    /// For how long the clock ran unseen at the end, where that is longer than a message lost now and then. A pause before
    /// shows in the first offset behind it.
    fn unseen(&self, lasted_ns: i64) -> Option<Nanos> {
        let unseen = lasted_ns - self.last_sample?;
        (unseen > UNSEEN.max(self.sync_interval.saturating_mul(MISSED))).then_some(Nanos(unseen))
    }
}
