//! The three parts of an endpoint in threads of their own, and what goes between them: copies through triple buffers, and
//! one word back. No thread waits for another one; each goes on with the newest that it has.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};

use pubsub::{
    BreachChanges, Computing, Delivered, Endpoint, InputCopy, OUTSIDE_CYCLES, Outgoing, OutputCopy, Progress, Reading,
    Reception, Step, Writing,
};
use rt::exchange::{Giver, Taker, exchange};
use rt::ring::{Consumer, Producer, Ring};
use units::{Nanos, Tai};

/// Publications that a computing part may not have looked at: it looks once a cycle.
const PUBLICATIONS: usize = 1 << 12;

/// Takes messages.
#[derive(Debug)]
pub(crate) struct ReadingPart {
    reading: Reading,
    inputs: Giver<InputCopy>,
    /// [`Progress`] of the computing part.
    progress: Arc<AtomicU64>,
    /// Messages that the copies given so far have in them.
    given: u64,
    /// So many messages are known to be taken, beyond what the computing part has told.
    taken: u64,
}

/// Runs the application.
#[derive(Debug)]
pub(crate) struct ComputingPart {
    computing: Computing,
    inputs: Taker<InputCopy>,
    progress: Arc<AtomicU64>,
    outputs: Giver<OutputCopy>,
    /// What was published, where that is of interest.
    published: Option<Consumer>,
    /// Messages taken.
    taken: u64,
    resynchronised: u64,
    /// Where an application outside answers: which counter the inputs of a cycle had.
    counters: Option<Arc<Counters>>,
}

/// Makes frames.
#[derive(Debug)]
pub(crate) struct WritingPart {
    writing: Writing,
    outputs: Taker<OutputCopy>,
    published: Option<Producer>,
    /// What an application outside wrote last; none where there is none, or before it did.
    outside: Option<Answer>,
    /// Counters of inputs, as the application phases had them.
    counters: Option<Arc<Counters>>,
    /// Whether it answers counters.
    echo: bool,
}

/// What an application outside wrote.
#[derive(Debug)]
struct Answer {
    values: Box<[u8]>,
    /// The cycle of the newest inputs that were answered.
    answered: i64,
    counter: Option<u64>,
    written: bool,
}

/// An endpoint taken apart; `outside` tells whether its application is.
///
/// # Errors
/// There is no memory for what goes between, in words.
pub(crate) fn parts(endpoint: Endpoint, outside: bool) -> Result<(ReadingPart, ComputingPart, WritingPart), String> {
    let echo = endpoint.role() == pubsub::Role::Echo;
    let (reading, computing, writing) = endpoint.into_parts();
    let (give_inputs, take_inputs) = exchange([(); 3].map(|()| reading.copied()));
    let copied = computing.copied();
    let answer =
        || Answer { values: vec![0; copied.values()].into(), answered: i64::MIN, counter: None, written: false };
    let answer = outside.then(answer);
    let (give_outputs, take_outputs) = exchange([(); 3].map(|()| copied.clone()));
    let progress = Arc::new(AtomicU64::new(Progress::default().pack()));
    let counters = outside.then(|| Arc::new(Counters::new()));
    let told = |error: std::io::Error| format!("a ring between threads: {error}");
    let ring = computing.is_told_publications().then(|| Ring::create("publications", PUBLICATIONS)).transpose();
    let ring = ring.map_err(told)?;
    let published = ring.as_ref().map(Ring::producer).transpose().map_err(told)?;
    let publications = ring.as_ref().map(Ring::consumer).transpose().map_err(told)?;
    Ok((
        ReadingPart { reading, inputs: give_inputs, progress: Arc::clone(&progress), given: 0, taken: 0 },
        ComputingPart {
            computing,
            inputs: take_inputs,
            progress,
            outputs: give_outputs,
            published: publications,
            taken: 0,
            resynchronised: 0,
            counters: counters.clone(),
        },
        WritingPart { writing, outputs: take_outputs, published, outside: answer, counters, echo },
    ))
}

impl ReadingPart {
    pub(crate) fn receive(&mut self, uadp: &[u8]) -> Reception {
        let messages = self.reading.messages();
        let progress = Progress::unpack(self.progress.load(Ordering::Acquire), messages);
        self.taken = self.taken.max(progress.taken);
        self.reading.taken_to(self.taken);
        // That there was no news counts from the last message on.
        let phases = if progress.taken == messages { progress.phases_without_news } else { 0 };
        // The count of it goes with the inputs.
        self.reading.receive(uadp, phases, || {})
    }

    /// When it was decoded; gives it on, and tells what that showed of the message before.
    pub(crate) fn decoded(&mut self, at: Tai, reception: Reception) -> Reception {
        self.reading.decoded(at);
        if matches!(reception, Reception::Foreign(_)) {
            return reception;
        }
        self.reading.copy_to(self.inputs.slot());
        let taken = self.inputs.give();
        if taken {
            self.taken = self.given;
        }
        self.given = self.reading.messages();
        match reception {
            // Between the look at the progress and now it may have been taken.
            Reception::Message { counter, superseded } => {
                Reception::Message { counter, superseded: superseded.filter(|_| !taken) }
            }
            other => other,
        }
    }

    pub(crate) fn poll(&mut self, now: Tai) {
        self.reading.poll(now);
    }

    pub(crate) fn peek(&self, uadp: &[u8]) -> Option<u64> {
        self.reading.peek(uadp)
    }
}

impl ComputingPart {
    /// Takes what has come, and looks at the conditions that are watched for.
    pub(crate) fn supervise(&mut self, cycle: i64, now: Tai, tai_minus_utc: Nanos) -> BreachChanges {
        self.inputs.take();
        while let Some([counter, ticks, ..]) = self.published.as_mut().and_then(Consumer::pop) {
            self.computing.published(counter, ticks.cast_signed());
        }
        let inputs = self.inputs.slot();
        if inputs.resynchronised() != self.resynchronised {
            self.resynchronised = inputs.resynchronised();
            self.computing.forget();
        }
        self.computing.supervise(cycle, now, tai_minus_utc, inputs.inputs(self.taken))
    }

    /// The application phase, with what [`Self::supervise`] has taken.
    pub(crate) fn application(&mut self, cycle: i64) -> Step {
        let inputs = self.inputs.slot();
        let step = self.computing.application(cycle, inputs.inputs(self.taken));
        self.taken = inputs.messages();
        if let Some(counters) = &self.counters {
            counters.note(cycle, step.read.unwrap_or(0));
        }
        let phases_without_news = self.computing.phases_without_news();
        self.progress.store(Progress { taken: self.taken, phases_without_news }.pack(), Ordering::Release);
        self.computing.copy_to(self.outputs.slot());
        self.outputs.give();
        step
    }

    pub(crate) fn delivered(&self, now: Tai) -> Delivered<'_> {
        self.computing.delivered(now, self.inputs.slot().inputs(self.taken))
    }

    pub(crate) fn computing(&self) -> &Computing {
        &self.computing
    }

    pub(crate) fn computing_mut(&mut self) -> &mut Computing {
        &mut self.computing
    }
}

impl WritingPart {
    pub(crate) fn publish(&mut self, now_ticks: i64) -> Option<Outgoing<'_>> {
        self.outputs.take();
        if let Some(answer) = self.outside.as_ref().filter(|answer| answer.written) {
            self.outputs.slot_mut().replace(&answer.values, answer.counter);
        }
        let outgoing = self.writing.publish(self.outputs.slot().outputs(), now_ticks)?;
        if let Some(published) = &mut self.published
            && !(outgoing.repeated || outgoing.substitute)
        {
            published.push(&[outgoing.counter, now_ticks.cast_unsigned(), 0, 0, 0, 0, 0, 0]);
        }
        Some(outgoing)
    }

    /// The StatusCode of what it wrote.
    pub(crate) fn set_status(&mut self, status: u32) {
        self.writing.set_status(status);
    }

    /// What an application outside wrote, from the inputs of `cycle`; tells whether those are remembered.
    pub(crate) fn replace(&mut self, values: &[u8], cycle: i64) -> bool {
        let Some(answer) = &mut self.outside else { return false };
        if answer.values.len() == values.len() {
            answer.values.copy_from_slice(values);
            answer.written = true;
        }
        let Some(counter) = self.counters.as_ref().and_then(|counters| counters.of(cycle)) else { return false };
        if cycle >= answer.answered {
            answer.answered = cycle;
            if self.echo && counter != 0 {
                answer.counter = Some(counter);
            }
        }
        true
    }
}

/// Which counter the inputs of a cycle had, for the newest cycles: written by one thread, read by another one.
#[derive(Debug)]
struct Counters(Box<[(AtomicI64, AtomicU64)]>);

impl Counters {
    fn new() -> Self {
        Self((0..OUTSIDE_CYCLES).map(|_| (AtomicI64::new(i64::MIN), AtomicU64::new(0))).collect())
    }

    fn place(&self, cycle: i64) -> Option<&(AtomicI64, AtomicU64)> {
        self.0.get(cycle.rem_euclid(OUTSIDE_CYCLES as i64) as usize)
    }

    fn note(&self, cycle: i64, counter: u64) {
        let Some((of, value)) = self.place(cycle) else { return };
        of.store(i64::MIN, Ordering::Relaxed);
        // Who sees the new counter sees that the old cycle is over.
        fence(Ordering::Release);
        value.store(counter, Ordering::Relaxed);
        of.store(cycle, Ordering::Release);
    }

    fn of(&self, cycle: i64) -> Option<u64> {
        let (of, value) = self.place(cycle)?;
        let before = of.load(Ordering::Acquire);
        let counter = value.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        (before == cycle && of.load(Ordering::Relaxed) == cycle).then_some(counter)
    }
}
