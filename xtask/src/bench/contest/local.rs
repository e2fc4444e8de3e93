//! Contestants that are threads of the bench.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use super::super::place::settle_on;
use super::Ids;
use super::downbeat::{Downbeat, Way};
use super::drive::{self, End, Job, Outcome, Side};
use super::simple::{Nothing, RecvLoop, RingLoop};

/// What a thread runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Written by hand, with `recv`.
    Recv,
    /// Written by hand, with a receive ring.
    Ring,
    /// Ours.
    Downbeat(Way),
    /// No frames at all.
    Nothing,
}

/// Where an end is.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) interface: String,
    pub(super) cpu: usize,
    pub(super) side: Side,
}

/// A contestant with a thread for each end.
#[derive(Debug)]
pub(super) struct Local(Vec<Thread>);

/// Ends when it is dropped.
#[derive(Debug)]
struct Thread {
    /// None when it is to end.
    jobs: Option<Sender<Job>>,
    outcomes: Receiver<Result<Outcome, String>>,
    handle: Option<JoinHandle<()>>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.jobs = None;
        // That it panicked has been printed.
        _ = self.handle.take().map(JoinHandle::join);
    }
}

impl Local {
    /// Starts the threads in the network namespace of the caller; back when all are ready.
    pub(super) fn start(kind: Kind, ends: &[Place], fields: u16) -> Result<Self, String> {
        ends.iter().map(|place| Thread::start(kind, place.clone(), fields)).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn tell(&mut self, job: Job) -> Result<(), String> {
        self.0.iter().try_for_each(|thread| thread.jobs.as_ref().and_then(|jobs| jobs.send(job).ok()).ok_or_else(gone))
    }

    pub(super) fn outcome(&mut self) -> Result<Outcome, String> {
        // All have ended before any of them is looked at.
        let outcomes: Vec<_> = self.0.iter().map(Thread::outcome).collect();
        let mut outcomes = outcomes.into_iter();
        let first = outcomes.next().ok_or_else(gone)??;
        outcomes.try_fold(first, |source, loopback| Ok(Outcome::both(source, &loopback?)))
    }
}

impl Thread {
    fn start(kind: Kind, place: Place, fields: u16) -> Result<Self, String> {
        let (jobs, orders) = channel();
        let (results, outcomes) = channel();
        let run = move || {
            let ids = Ids::of(place.side);
            let open = &place.interface;
            let served = match kind {
                Kind::Recv => RecvLoop::open(open, ids, fields).map(|end| serve(end, &place, &orders, &results)),
                Kind::Ring => RingLoop::open(open, ids, fields).map(|end| serve(end, &place, &orders, &results)),
                Kind::Downbeat(way) => {
                    Downbeat::open(open, ids, fields, way).map(|end| serve(end, &place, &orders, &results))
                }
                Kind::Nothing => {
                    serve(Nothing, &place, &orders, &results);
                    Ok(())
                }
            };
            if let Err(error) = served {
                // Nobody listens only when the bench has ended already.
                _ = results.send(Err(format!("{}: {error}", place.interface)));
            }
        };
        let handle = std::thread::Builder::new().name("contestant".to_owned()).spawn(run);
        let handle = handle.map_err(|error| error.to_string())?;
        let thread = Self { jobs: Some(jobs), outcomes, handle: Some(handle) };
        thread.outcome()?;
        Ok(thread)
    }

    fn outcome(&self) -> Result<Outcome, String> {
        self.outcomes.recv().map_err(|_| gone())?
    }
}

fn gone() -> String {
    "the thread of a contestant has ended".to_owned()
}

/// Does jobs until nobody gives any.
fn serve(mut end: impl End, place: &Place, orders: &Receiver<Job>, results: &Sender<Result<Outcome, String>>) {
    let _granted = settle_on(Some(place.cpu));
    let mut answer = results.send(Ok(Outcome::default()));
    while let (Ok(()), Ok(job)) = (answer, orders.recv()) {
        answer = results.send(drive::run(&mut end, place.side, job));
    }
}
