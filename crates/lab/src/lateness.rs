//! Hosts that wake up late where time is virtual and nobody would: each of their threads' instants is met by a process that
//! stands still and goes on a drawn time after it. Queues and timers of the kernel are punctual meanwhile, as on any machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use scenario::{HostId, Scenario};
use station::Launch;
use units::{Nanos, Tai};

use crate::host::Hosts;

/// How late one host is.
#[derive(Debug, Clone)]
pub struct Lateness {
    /// Which.
    pub host: HostId,
    /// By what, in words, for the result.
    pub told: String,
    /// After each of its instants, in turn; from the start again at the end.
    pub by: Vec<Nanos>,
}

/// A process stands still from so long before an instant: its threads, and those of other hosts at the same time, need some
/// readings of the clock to come to a stop.
const AHEAD: Nanos = Nanos(5_000);

/// Threads that make hosts late, until they are ended.
pub(crate) struct LateHosts {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl LateHosts {
    /// Begins with the cycle that starts at `start`.
    pub(crate) fn begin(
        scenario: &Scenario,
        (late, launch): (&[Lateness], Launch),
        hosts: &Hosts,
        (start, duration): (Tai, Option<Nanos>),
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        // The last frames are launched after the last cycle.
        let last = scenario.streams.iter().map(|stream| stream.cycle + stream.offset).max().unwrap_or_default();
        let end = duration.map_or(Tai(i64::MAX), |duration| start + duration + last);
        let thread = |late: &Lateness| {
            let pid = hosts.pid(late.host)?;
            let (by, stop) = (late.by.clone(), Arc::clone(&stop));
            let instants = instants(scenario, late.host, launch);
            let work = move || hold_up(pid, &instants, &by, start..end, &stop);
            (!late.by.is_empty()).then(|| thread::spawn(work))
        };
        Self { threads: late.iter().filter_map(thread).collect(), stop }
    }

    /// Lets all hosts go.
    pub(crate) fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| _ = thread.join());
    }
}

/// When the threads of a host are to wake up: every cycle, so long after its start.
fn instants(scenario: &Scenario, host: HostId, launch: Launch) -> Vec<(Nanos, Nanos)> {
    let phases = scenario.host(host).phases;
    let mut found = Vec::new();
    for stream in &scenario.streams {
        let path = match host {
            host if host == stream.writer => &stream.path,
            host if host == stream.reader => &stream.return_path,
            _ => continue,
        };
        let at = [phases.subscribe, phases.application, phases.publish].map(|phase| phase.of(stream.cycle));
        found.extend(at.map(|at| (stream.cycle, at)));
        let by_thread = launch == Launch::Pace || scenario.launch_queue(path, stream.pcp).is_none();
        if stream.launch && by_thread && !path.is_empty() {
            found.push((stream.cycle, stream.offset));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The first of the instants after this one.
fn next(instants: &[(Nanos, Nanos)], start: Tai, after: Tai) -> Option<Tai> {
    let of = |(cycle, at): &(Nanos, Nanos)| {
        let first = start + *at;
        let cycles = if after < first { 0 } else { (after - first).0 / cycle.0 + 1 };
        first + *cycle * cycles
    };
    instants.iter().map(of).min()
}

fn hold_up(pid: Pid, instants: &[(Nanos, Nanos)], by: &[Nanos], run: std::ops::Range<Tai>, stop: &AtomicBool) {
    let mut last = run.start - Nanos(1);
    for by in by.iter().cycle() {
        let Some(due) = next(instants, run.start, last).filter(|due| *due < run.end) else { return };
        rt::clock::sleep_through(due - AHEAD);
        last = due;
        if stop.load(Ordering::Relaxed) || kill(pid, Signal::SIGSTOP).is_err() {
            return;
        }
        // Longer than the run it would only keep it from ending.
        rt::clock::sleep_through((due + *by).min(run.end));
        if kill(pid, Signal::SIGCONT).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(change: impl Fn(&str) -> String) -> Scenario {
        let text = change(scenario::template("two-hosts").unwrap());
        scenario::read(&text, "two-hosts.toml").unwrap()
    }

    fn micros(instants: &[(Nanos, Nanos)]) -> Vec<i64> {
        instants.iter().map(|(_, at)| at.0 / 1000).collect()
    }

    #[test]
    fn a_thread_wakes_for_its_phases_and_for_launches_that_it_keeps() {
        let scenario = template(str::to_owned);
        let host = scenario.streams[0].writer;
        // The launch at 600 µs falls together with the publish phase.
        assert_eq!(micros(&instants(&scenario, host, Launch::Auto)), [0, 300, 600]);
        let scenario = template(|text| text.replace("offset = \"600us\"", "offset = \"450us\""));
        assert_eq!(micros(&instants(&scenario, host, Launch::Auto)), [0, 300, 450, 600]);
        let etf = "\n[[ports]]\nat = \"*\"\nqueue = { root = \"etf\", delta = \"100us\" }\n";
        let scenario = template(|text| text.replace("offset = \"600us\"", "offset = \"450us\"") + etf);
        assert_eq!(micros(&instants(&scenario, host, Launch::Auto)), [0, 300, 600]);
    }

    #[test]
    fn instants_come_in_their_order_each_once() {
        let instants = [(Nanos(100), Nanos(0)), (Nanos(100), Nanos(60)), (Nanos(50), Nanos(10))];
        let mut found = vec![Tai(999)];
        while found.len() < 9 {
            found.extend(next(&instants, Tai(1000), *found.last().unwrap()));
        }
        assert_eq!(found[1..], [1000, 1010, 1060, 1100, 1110, 1160, 1200, 1210].map(Tai));
        assert_eq!(next(&[], Tai(0), Tai(0)), None);
    }
}
