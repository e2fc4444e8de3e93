//! Contestants of `cargo xtask bench loop`: each answers frames, or plays both ends of the papers' cycle, driven by one
//! and the same [`drive`]. Ours and the hand-written ones are threads, other stacks processes.

mod cycle;
mod downbeat;
#[allow(dead_code, reason = "reading jobs and writing outcomes is for the processes that include it")]
mod drive;
mod echo;
mod local;
mod ping;
mod report;
mod simple;
mod stolen;

use std::collections::BTreeMap;

pub(super) use report::measure;

use super::interop::Process;
use drive::{BACK, Job, Outcome, Side, THERE};
use local::Local;

/// PublisherId and WriterGroupId of what an end writes and reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ids {
    writes: (u16, u16),
    reads: (u16, u16),
}

impl Ids {
    fn of(side: Side) -> Self {
        match side {
            Side::Source => Self { writes: THERE, reads: BACK },
            Side::Loopback => Self { writes: BACK, reads: THERE },
        }
    }
}

/// Who does not take part, and why.
#[derive(Debug, Default, PartialEq, Eq)]
struct LeftOut(BTreeMap<&'static str, String>);

impl LeftOut {
    /// The contestant, or a note of what it failed for.
    fn unless<T>(&mut self, name: &'static str, started: Result<T, String>) -> Option<T> {
        started.map_err(|reason| self.0.insert(name, reason)).ok()
    }
}

/// Somebody that waits for jobs.
#[derive(Debug)]
enum Contestant {
    Local(Local),
    Process(Process),
}

impl Contestant {
    /// Gives it a job without waiting for the end.
    fn tell(&mut self, job: Job) -> Result<(), String> {
        match self {
            Self::Local(local) => local.tell(job),
            Self::Process(process) => process.tell(&job.line()),
        }
    }

    /// What came out of it.
    fn outcome(&mut self) -> Result<Outcome, String> {
        match self {
            Self::Local(local) => local.outcome(),
            Self::Process(process) => Outcome::parse(&process.answer()?),
        }
    }
}

#[cfg(test)]
mod tests {
    use rt::clock::now;
    use units::Nanos;

    use super::super::place;
    use super::downbeat::{Tracing, Way};
    use super::drive::{Plan, Waiting};
    use super::local::{Kind, Place};
    use super::ping::Pinger;
    use super::*;

    const KINDS: [Kind; 5] = [
        Kind::Recv,
        Kind::Ring,
        Kind::Downbeat(Way::Packet(Tracing::Off)),
        Kind::Downbeat(Way::Packet(Tracing::On)),
        Kind::Downbeat(Way::Xdp),
    ];
    const FIELDS: u16 = 9;

    /// Runs `test` in a namespace with veth pairs, for which a right may be missing.
    fn on_pairs(test: fn(&[place::Pair], [usize; 2])) {
        let run = move || {
            let pairs =
                place::check_rights().and_then(|()| place::make_pairs(KINDS.len()).map_err(|error| error.to_string()));
            match (pairs, &place::cpus()[..]) {
                (Ok(pairs), &[near, .., far]) => test(&pairs, [near, far]),
                (Err(error), _) if std::env::var_os("DOWNBEAT_REQUIRE_ALL").is_some() => panic!("{error}"),
                (Err(error), _) => eprintln!("left out: {error}"),
                (Ok(_), _) => eprintln!("left out: only one processor"),
            }
        };
        std::thread::spawn(run).join().unwrap();
    }

    #[test]
    fn all_of_ours_answer() {
        on_pairs(|pairs, cpus| {
            for (kind, pair) in KINDS.into_iter().zip(pairs) {
                let place = Place { interface: pair.far.clone(), cpu: cpus[1], side: Side::Loopback };
                let mut contestant = Contestant::Local(Local::start(kind, &[place], FIELDS).unwrap());
                let mut pinger = Pinger::open(&pair.near, FIELDS).unwrap();
                for (waiting, rhythm) in [(Waiting::Sleep, Some(Nanos::from_micros(250))), (Waiting::Spin, None)] {
                    contestant.tell(Job::Echo { waiting, frames: Pinger::answers(32) }).unwrap();
                    let pings = pinger.block(rhythm, 32).unwrap();
                    assert_eq!(contestant.outcome().unwrap().answered, Pinger::answers(32), "{kind:?}");
                    assert!(pings.round_trips_ns.len() + pings.lost as usize >= 32, "{kind:?}: {pings:?}");
                }
            }
        });
    }

    #[test]
    fn counters_of_ours_come_back() {
        on_pairs(|pairs, cpus| {
            for (kind, pair) in KINDS.into_iter().zip(pairs) {
                let ends = [(&pair.near, cpus[0], Side::Source), (&pair.far, cpus[1], Side::Loopback)]
                    .map(|(interface, cpu, side)| Place { interface: interface.clone(), cpu, side });
                let mut contestant = Contestant::Local(Local::start(kind, &ends, FIELDS).unwrap());
                // Long cycles: a pause of the machine shorter than one skips none.
                let length = Nanos::from_millis(40);
                let plan = Plan { waiting: Waiting::Sleep, length, cycles: 8, t0: now() + length * 2 };
                contestant.tell(Job::Cycle(plan)).unwrap();
                let outcome = contestant.outcome().unwrap();
                assert!(outcome.above_ns.len() + outcome.skipped as usize >= 4, "{kind:?}: {outcome:?}");
            }
        });
    }

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        let place = Place { interface: "nowhere0".to_owned(), cpu: 0, side: Side::Loopback };
        for kind in KINDS {
            let error = Local::start(kind, std::slice::from_ref(&place), FIELDS).unwrap_err();
            assert!(error.contains("nowhere0"), "{error}");
        }
    }
}
