//! What drives every contestant: the echo, and the papers' cycle.
//!
//! Other stacks run in processes of their own; they include this very file, so that all are driven alike.
//!
//! **The cycle** of length c, after seeds of the field: both ends read at its start what is there, launch at 0.2 c what
//! was published in the cycle before, run the application at 0.3 c and publish at 0.6 c. The source goes on reading
//! between its launch and its publish phase. A counter that the source publishes in cycle p leaves at (p + 1.2) c, is
//! read by the loopback at (p + 2) c, leaves it at (p + 3.2) c: the round trip on the wire is 2 c, from publish phase to
//! reading 2.6 c. What a contestant adds is what lies above that.

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use rt::clock::{now, sleep_through};
use units::{Nanos, Tai};

/// PublisherId and WriterGroupId of the frames that the source sends.
pub(crate) const THERE: (u16, u16) = (2234, 101);
/// The same of those that come back.
pub(crate) const BACK: (u16, u16) = (2235, 102);

/// How long an echo waits for a frame before it looks at the time.
const GLANCE: Nanos = Nanos::from_millis(50);
/// Looks at a socket between two looks at the clock.
const LOOKS: u32 = 1024;
/// How long an echo waits for the frames it is to answer.
const ECHO_TIMEOUT: Nanos = Nanos::from_millis(5_000);
/// Cycles that a counter takes until it is back; so many of the last ones have no chance.
const UNDER_WAY: u32 = 4;

/// One end of a stream and its echo, as a contestant makes it. All values of a message hold one counter.
pub(crate) trait End {
    /// Takes the oldest frame if one is there; tells its counter. Never waits.
    fn read(&mut self) -> Result<Option<u64>, String>;

    /// Waits until a frame is there, at most so long.
    fn wait(&mut self, timeout: Nanos) -> Result<(), String>;

    /// The same where nothing but a frame is waited for.
    fn wait_long(&mut self) -> Result<(), String> {
        self.wait(GLANCE)
    }

    /// The application phase: `counter` into all values that are published next, or else the values read last.
    fn application(&mut self, counter: Option<u64>);

    /// Builds the frame, with a new timestamp.
    fn publish(&mut self) -> Result<(), String>;

    /// Sends the frame that was built.
    fn launch(&mut self) -> Result<(), String>;

    /// Both at once.
    fn publish_now(&mut self) -> Result<(), String> {
        self.publish()?;
        self.launch()
    }
}

/// How a contestant waits: for instants of the cycle, and for frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// In the kernel.
    Sleep,
    /// Looking again and again.
    Spin,
}

/// What a contestant is told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Job {
    /// Answer so many frames.
    Echo { waiting: Waiting, frames: u32 },
    /// Run so many cycles.
    Cycle(Plan),
}

/// When a cycle bench runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) waiting: Waiting,
    pub(crate) length: Nanos,
    pub(crate) cycles: u32,
    /// Start of cycle 0.
    pub(crate) t0: Tai,
}

/// What came out at one end, or at both together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Frames answered (echo).
    pub(crate) answered: u32,
    /// Cycles not begun because the one before was a whole cycle or more late.
    pub(crate) skipped: u32,
    /// Counters that never came back to the source.
    pub(crate) unread: u32,
    /// Processor time of the thread over all its cycles.
    pub(crate) cpu: Nanos,
    /// How far above the schedule each counter was read, in nanoseconds.
    pub(crate) above_ns: Vec<i64>,
}

impl Outcome {
    /// Both ends of a contestant.
    pub(crate) fn both(source: Self, loopback: &Self) -> Self {
        Self { skipped: source.skipped + loopback.skipped, cpu: source.cpu + loopback.cpu, ..source }
    }

    /// As one line for another process.
    pub(crate) fn line(&self) -> String {
        let mut line = format!("done {} {} {} {}", self.answered, self.skipped, self.unread, self.cpu.0);
        for above in &self.above_ns {
            line += &format!(" {above}");
        }
        line
    }

    /// The outcome of a line; what the line says instead when it is none.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let told = || format!("expected an outcome, found {:?}", line.trim());
        let numbers = line.strip_prefix("done ").ok_or_else(told)?.split_whitespace();
        let numbers: Vec<i64> = numbers.map(str::parse).collect::<Result<_, _>>().map_err(|_| told())?;
        let [answered, skipped, unread, cpu, above_ns @ ..] = &numbers[..] else { return Err(told()) };
        let count = |number: i64| u32::try_from(number).map_err(|_| told());
        Ok(Self {
            answered: count(*answered)?,
            skipped: count(*skipped)?,
            unread: count(*unread)?,
            cpu: Nanos(*cpu),
            above_ns: above_ns.to_vec(),
        })
    }
}

impl Job {
    /// As one line for another process.
    pub(crate) fn line(&self) -> String {
        let word = |waiting| if waiting == Waiting::Sleep { "sleep" } else { "spin" };
        match *self {
            Self::Echo { waiting, frames } => format!("echo {} {frames}", word(waiting)),
            Self::Cycle(Plan { waiting, length, cycles, t0 }) => {
                format!("cycle {} {} {cycles} {}", word(waiting), length.0, t0.0)
            }
        }
    }

    /// The job of a line.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let told = || format!("expected a job, found {:?}", line.trim());
        let words: Vec<&str> = line.split_whitespace().collect();
        let waiting = match words.get(1) {
            Some(&"sleep") => Waiting::Sleep,
            Some(&"spin") => Waiting::Spin,
            _ => return Err(told()),
        };
        let numbers: Vec<i64> =
            words[2..].iter().map(|word| word.parse()).collect::<Result<_, _>>().map_err(|_| told())?;
        let count = |number: i64| u32::try_from(number).map_err(|_| told());
        match (words[0], &numbers[..]) {
            ("echo", &[frames]) => Ok(Self::Echo { waiting, frames: count(frames)? }),
            ("cycle", &[length, cycles, t0]) if length > 0 => {
                Ok(Self::Cycle(Plan { waiting, length: Nanos(length), cycles: count(cycles)?, t0: Tai(t0) }))
            }
            _ => Err(told()),
        }
    }
}

/// Does a job, after what another one has left behind is thrown away.
pub(crate) fn run(end: &mut impl End, side: Side, job: Job) -> Result<Outcome, String> {
    while end.read()?.is_some() {}
    match job {
        Job::Echo { waiting, frames } => echo(end, waiting, frames),
        Job::Cycle(plan) => cycle(end, side, plan),
    }
}

/// Answers frames until all are answered or the time is over.
fn echo(end: &mut impl End, waiting: Waiting, frames: u32) -> Result<Outcome, String> {
    let until = now() + ECHO_TIMEOUT;
    let (mut outcome, mut looks) = (Outcome::default(), 0_u32);
    while outcome.answered < frames {
        if waiting == Waiting::Sleep {
            end.wait_long()?;
        }
        if end.read()?.is_some() {
            end.application(None);
            end.publish_now()?;
            outcome.answered += 1;
            continue;
        }
        looks = looks.wrapping_add(1);
        if (waiting == Waiting::Sleep || looks.is_multiple_of(LOOKS)) && now() >= until {
            break;
        }
        std::hint::spin_loop();
    }
    Ok(outcome)
}

/// Which end of the cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Counts up and reads its echo.
    Source,
    /// Answers.
    Loopback,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Subscribe,
    Launch,
    Application,
    Publish,
}

impl Phase {
    /// In the order of a cycle, with the tenth of it at which each begins.
    const ALL: [(Self, i64); 4] = [(Self::Subscribe, 0), (Self::Launch, 2), (Self::Application, 3), (Self::Publish, 6)];
}

/// Runs one end through its cycles.
fn cycle(end: &mut impl End, side: Side, plan: Plan) -> Result<Outcome, String> {
    let mut run = Run { plan, outcome: Outcome::default(), newest: None, back: 0 };
    run.outcome.above_ns.reserve_exact(plan.cycles as usize);
    plan.wait(plan.t0 - plan.length);
    let began = thread_time();
    let (mut cycle, mut built) = (0, false);
    'cycles: while cycle < i64::from(plan.cycles) {
        let start = plan.t0 + plan.length * cycle;
        for (phase, tenths) in Phase::ALL {
            let due = start + plan.length * tenths / 10;
            let reads_on = side == Side::Source && matches!(phase, Phase::Application | Phase::Publish);
            let late = if reads_on { run.read_until(end, due)? } else { plan.wait(due) - due };
            if late >= plan.length {
                let next = (cycle + late.0 / plan.length.0 + 1).min(plan.cycles.into());
                run.outcome.skipped += (next - cycle) as u32;
                (cycle, built) = (next, false);
                continue 'cycles;
            }
            match phase {
                Phase::Subscribe => run.read_all(end)?,
                Phase::Launch if built => end.launch()?,
                Phase::Launch => {}
                Phase::Application if side == Side::Source => end.application(Some(cycle as u64 + 1)),
                Phase::Application => end.application(None),
                // A loopback that has read nothing yet has nothing to answer.
                Phase::Publish if side == Side::Source || run.newest.is_some() => {
                    end.publish()?;
                    built = true;
                }
                Phase::Publish => {}
            }
        }
        cycle += 1;
    }
    run.outcome.cpu = thread_time() - began;
    run.outcome.unread = plan.cycles.saturating_sub(UNDER_WAY).saturating_sub(run.back);
    Ok(run.outcome)
}

struct Run {
    plan: Plan,
    outcome: Outcome,
    /// Counter read last.
    newest: Option<u64>,
    /// Different counters that were read and had the chance to come back.
    back: u32,
}

impl Run {
    fn read_all(&mut self, end: &mut impl End) -> Result<(), String> {
        while let Some(counter) = end.read()? {
            if self.newest.is_some_and(|newest| counter <= newest) {
                continue;
            }
            self.newest = Some(counter);
            if counter <= u64::from(self.plan.cycles.saturating_sub(UNDER_WAY)) {
                self.back += 1;
            }
            // Published in cycle counter − 1.
            let due = self.plan.t0 + self.plan.length * (counter as i64 + 2) + self.plan.length * 2 / 10;
            if self.outcome.above_ns.len() < self.outcome.above_ns.capacity() {
                self.outcome.above_ns.push((now() - due).0);
            }
        }
        Ok(())
    }

    /// Reads what arrives until `due`; tells how late it is then.
    fn read_until(&mut self, end: &mut impl End, due: Tai) -> Result<Nanos, String> {
        loop {
            self.read_all(end)?;
            let late = now() - due;
            if late >= Nanos::ZERO {
                return Ok(late);
            }
            match self.plan.waiting {
                Waiting::Sleep => end.wait(Nanos::ZERO - late)?,
                Waiting::Spin => std::hint::spin_loop(),
            }
        }
    }
}

impl Plan {
    /// Waits for an instant; tells when it is over.
    fn wait(&self, due: Tai) -> Tai {
        match self.waiting {
            Waiting::Sleep => {
                sleep_through(due);
                now()
            }
            Waiting::Spin => spin_until(due),
        }
    }
}

/// Reads the clock until it shows `due` or later; tells that reading.
#[inline]
pub(crate) fn spin_until(due: Tai) -> Tai {
    loop {
        let now = now();
        if now >= due {
            return now;
        }
        std::hint::spin_loop();
    }
}

/// Processor time that the calling thread has used.
pub(crate) fn thread_time() -> Nanos {
    Nanos(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(0, |time| time.num_nanoseconds()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_as_they_went() {
        let plan = Plan { waiting: Waiting::Spin, length: Nanos(31_250), cycles: 6400, t0: Tai(17) };
        for job in [Job::Cycle(plan), Job::Echo { waiting: Waiting::Sleep, frames: 216 }] {
            assert_eq!(Job::parse(&job.line()), Ok(job));
        }
        let outcome = Outcome { answered: 1, skipped: 2, unread: 3, cpu: Nanos(4), above_ns: vec![-5, 6] };
        assert_eq!(Outcome::parse(&outcome.line()), Ok(outcome));
        for line in ["", "echo", "echo sleep", "cycle spin 0 1 2", "cycle spin 1 2", "echo doze 3", "echo spin -1"] {
            assert!(Job::parse(line).unwrap_err().contains("expected a job"), "{line}");
        }
        assert!(Outcome::parse("no socket").unwrap_err().contains("no socket"));
        assert!(Outcome::parse("done 1 2").is_err());
    }

    /// A line between two ends that takes no time.
    #[derive(Default)]
    struct Wire {
        there: std::collections::VecDeque<u64>,
        back: std::collections::VecDeque<u64>,
    }

    struct Simple<'a> {
        wire: &'a std::sync::Mutex<Wire>,
        source: bool,
        read: u64,
        next: u64,
        frame: u64,
        published: u32,
    }

    impl End for Simple<'_> {
        fn read(&mut self) -> Result<Option<u64>, String> {
            let mut wire = self.wire.lock().unwrap();
            let counter = if self.source { wire.back.pop_front() } else { wire.there.pop_front() };
            self.read = counter.unwrap_or(self.read);
            Ok(counter)
        }

        fn wait(&mut self, timeout: Nanos) -> Result<(), String> {
            std::thread::sleep(
                std::time::Duration::from_nanos(timeout.0 as u64).min(std::time::Duration::from_millis(1)),
            );
            Ok(())
        }

        fn application(&mut self, counter: Option<u64>) {
            self.next = counter.unwrap_or(self.read);
        }

        fn publish(&mut self) -> Result<(), String> {
            self.frame = self.next;
            self.published += 1;
            Ok(())
        }

        fn launch(&mut self) -> Result<(), String> {
            let mut wire = self.wire.lock().unwrap();
            if self.source {
                wire.there.push_back(self.frame)
            } else {
                wire.back.push_back(self.frame)
            }
            Ok(())
        }
    }

    #[test]
    fn counters_come_back_on_schedule() {
        let wire = std::sync::Mutex::new(Wire::default());
        let end = |source| Simple { wire: &wire, source, read: 0, next: 0, frame: 0, published: 0 };
        // Long cycles: a pause of the machine shorter than one skips none.
        let length = Nanos::from_millis(40);
        let plan = Plan { waiting: Waiting::Sleep, length, cycles: 12, t0: now() + length * 2 };
        let (source, loopback) = std::thread::scope(|scope| {
            let loopback = scope.spawn(|| run(&mut end(false), Side::Loopback, Job::Cycle(plan)).unwrap());
            (run(&mut end(true), Side::Source, Job::Cycle(plan)).unwrap(), loopback.join().unwrap())
        });
        let both = Outcome::both(source, &loopback);
        assert!(both.above_ns.len() + both.skipped as usize + both.unread as usize >= 8, "{both:?}");
        if both.skipped == 0 && both.unread == 0 {
            // Never ahead of the schedule, and on a line without delay not a whole cycle behind it.
            assert!(both.above_ns.iter().all(|above| (0..length.0).contains(above)), "{both:?}");
        }
    }

    #[test]
    fn an_echo_answers_what_it_was_told_to() {
        let wire = std::sync::Mutex::new(Wire { there: (1..=3).collect(), ..Wire::default() });
        let mut end = Simple { wire: &wire, source: false, read: 0, next: 0, frame: 0, published: 0 };
        assert_eq!(echo(&mut end, Waiting::Spin, 3).unwrap().answered, 3);
        assert_eq!(end.published, 3);
        assert_eq!(wire.lock().unwrap().back, [1, 2, 3]);
    }
}
