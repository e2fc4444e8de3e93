//! The measuring threads, and the lines that show them at work.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use measure::{Histogram, LatencyFigures, LatencyOutlier, LatencyThread};
use rt::thread::{Requested, prepare};
use rt::wakeup::{self, Clock, Policy, Totals, Wait, Wake};
use units::Nanos;

use crate::output::Failure;

/// From the last thread's preparation to the first wake-up.
const LEAD: Nanos = Nanos(50_000_000);

/// A measuring thread needs little, and with locked memory all of it is resident.
const STACK_BYTES: usize = 512 * 1024;

/// How often the main thread looks around.
const TURN: Duration = Duration::from_millis(50);

/// How often the lines are drawn anew.
const REDRAW: Duration = Duration::from_secs(1);

/// With more threads than this, one line stands for all.
const MOST_LINES: usize = 16;

/// What is to be measured.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// The processor of each thread.
    pub(super) cpus: Vec<usize>,
    pub(super) interval: Nanos,
    pub(super) distance: Nanos,
    pub(super) clock: Clock,
    pub(super) wait: Wait,
    pub(super) policy: Policy,
    pub(super) priority: Option<u8>,
    pub(super) lock_memory: bool,
    pub(super) keep_awake: bool,
    pub(super) wakes: Option<u64>,
    pub(super) lasting: Option<Nanos>,
    pub(super) spike: Nanos,
    pub(super) spike_nodes: usize,
    pub(super) stop_above: Option<Nanos>,
}

impl Plan {
    fn interval_of(&self, thread: usize) -> Nanos {
        self.interval + self.distance * thread as i64
    }
}

/// What was seen.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) threads: Vec<SeenByThread>,
    /// What the process as a whole was granted.
    pub(super) granted: Vec<String>,
    pub(super) lasted: Nanos,
    /// As `ended` of the form.
    pub(super) ended: &'static str,
}

impl Seen {
    /// All threads' figures in one histogram.
    pub(super) fn together(&self) -> Histogram {
        let mut all = Histogram::new();
        self.threads.iter().for_each(|thread| all.merge(&thread.histogram));
        all
    }
}

/// What one thread saw.
#[derive(Debug)]
pub(super) struct SeenByThread {
    pub(super) totals: Totals,
    histogram: Histogram,
    granted: Vec<String>,
    outliers: u64,
    first_outliers: Vec<LatencyOutlier>,
    allocations: u64,
}

impl SeenByThread {
    /// Its entry in the file.
    pub(super) fn entry(self, thread: usize, plan: &Plan) -> LatencyThread {
        let stolen = (plan.wait == Wait::Spin).then_some(self.totals.stolen);
        LatencyThread {
            thread,
            cpu: plan.cpus[thread],
            interval_ns: plan.interval_of(thread).0,
            granted: self.granted,
            figures: LatencyFigures::of(&self.histogram, self.totals.missed, stolen),
            outliers: self.outliers,
            outlier_above_ns: plan.spike.0,
            first_outliers: self.first_outliers,
            allocations: self.allocations,
        }
    }
}

/// What a thread shows while it measures; a cache line of its own, so that no thread waits for another.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shown {
    wakes: AtomicU64,
    sum: AtomicI64,
    min: AtomicI64,
    now: AtomicI64,
    max: AtomicI64,
}

/// What all threads share.
#[derive(Debug)]
struct Shared {
    plan: Plan,
    stop: AtomicBool,
    broken: AtomicBool,
    shown: Vec<Shown>,
}

/// A thread that has been prepared and waits for its first instant.
struct Prepared {
    start: Sender<Nanos>,
    handle: JoinHandle<SeenByThread>,
}

/// Measures until the plan is done, `interrupted` is set or a thread breaks off.
///
/// # Errors
/// With `strict` a right was refused; or the system refused a thread.
pub(super) fn run(plan: &Plan, interrupted: &AtomicBool, live: bool, strict: bool) -> Result<Seen, Failure> {
    let awake = prepare(&Requested { cpu_dma_latency: plan.keep_awake, ..Requested::default() });
    let shown = plan.cpus.iter().map(|_| Shown::default()).collect();
    let (stop, broken) = (AtomicBool::new(false), AtomicBool::new(false));
    let shared = Arc::new(Shared { plan: plan.clone(), stop, broken, shown });
    let (threads, refused) = start_all(&shared)?;
    if strict && !(refused.is_empty() && awake.is_complete()) {
        // Threads that are told no start end.
        let refused = refused.into_iter().chain(awake.describe().into_iter().filter(|line| !line.ends_with("granted")));
        let text = refused.collect::<Vec<_>>().join("\n  ");
        return Err(Failure::machine(format!("--strict, and not everything was granted:\n  {text}")));
    }
    let start = plan.clock.now() + LEAD;
    // A thread that is gone panicked; joining tells.
    threads.iter().for_each(|thread| _ = thread.start.send(start));
    watch(&shared, &threads, interrupted, live);
    let interrupted = shared.stop.load(Ordering::Relaxed);
    let results = threads.into_iter().map(|thread| thread.handle.join());
    let results: Vec<_> =
        results.collect::<Result<_, _>>().map_err(|_| Failure::machine("a measuring thread ended"))?;
    let ended = match (shared.broken.load(Ordering::Relaxed), interrupted, plan.wakes) {
        (true, ..) => "break",
        (_, true, _) => "interrupted",
        (.., Some(wakes)) if results.iter().all(|seen| seen.totals.wakes >= wakes) => "loops",
        _ => "duration",
    };
    let lasted = (plan.clock.now() - start).max(Nanos::ZERO);
    Ok(Seen { threads: results, granted: awake.describe(), lasted, ended })
}

/// Starts and prepares all threads; gives the words for what was refused.
fn start_all(shared: &Arc<Shared>) -> Result<(Vec<Prepared>, Vec<String>), Failure> {
    let (mut threads, mut all_refused) = (Vec::new(), Vec::new());
    for index in 0..shared.plan.cpus.len() {
        let (start, wait_for_start) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let own = Arc::clone(shared);
        let body = move || measure(&own, index, &tell, &wait_for_start);
        let handle = thread::Builder::new().stack_size(STACK_BYTES).name(format!("latency-{index}")).spawn(body);
        let handle = handle.map_err(|error| {
            Failure::machine(format!(
                "thread {index} cannot be started: {error}\n  mend: ask for fewer threads with -t, or try --no-mlockall"
            ))
        })?;
        if let Ok((false, lines)) = told.recv() {
            let refused = |line: &String| !line.ends_with("granted");
            all_refused.extend(lines.into_iter().filter(refused).map(|line| format!("thread {index}: {line}")));
        }
        threads.push(Prepared { start, handle });
    }
    Ok((threads, all_refused))
}

/// What a measuring thread does.
fn measure(
    shared: &Shared,
    index: usize,
    tell: &Sender<(bool, Vec<String>)>,
    wait_for_start: &Receiver<Nanos>,
) -> SeenByThread {
    let plan = &shared.plan;
    let mut histogram = Histogram::new();
    let mut first_outliers = Vec::with_capacity(plan.spike_nodes);
    let mut outliers = 0;
    let requested = Requested {
        fifo_priority: plan.priority,
        cpu: Some(plan.cpus[index]),
        lock_memory: plan.lock_memory,
        timer_slack_1ns: true,
        ..Requested::default()
    };
    let rights = wakeup::prepare_with(plan.policy, &requested);
    _ = tell.send((rights.complete, rights.lines.clone()));
    let mut totals = Totals::default();
    let mut allocations = 0;
    if let Ok(start) = wait_for_start.recv() {
        let to_tai = Clock::Tai.now() - plan.clock.now();
        let until = plan.lasting.map(|lasting| start + lasting);
        let interval = plan.interval_of(index);
        let grid = wakeup::Plan { clock: plan.clock, wait: plan.wait, start, interval, wakes: plan.wakes, until };
        let before = rt::alloc::allocations_of_this_thread();
        totals = wakeup::watch(&grid, &shared.stop, |wake: Wake| {
            histogram.record(wake.late);
            shared.shown[index].show(wake.late);
            if wake.late > plan.spike {
                outliers += 1;
                if first_outliers.len() < plan.spike_nodes {
                    first_outliers.push(LatencyOutlier { at_ns: (wake.due + to_tai).0, late_ns: wake.late.0 });
                }
            }
            let too_late = plan.stop_above.is_some_and(|limit| wake.late > limit);
            if too_late {
                shared.broken.store(true, Ordering::Relaxed);
                shared.stop.store(true, Ordering::Relaxed);
            }
            !too_late
        });
        allocations = rt::alloc::allocations_of_this_thread() - before;
    }
    SeenByThread { totals, histogram, granted: rights.lines, outliers, first_outliers, allocations }
}

/// Waits for the threads, and shows them on a terminal.
fn watch(shared: &Shared, threads: &[Prepared], interrupted: &AtomicBool, live: bool) {
    let live = live && std::io::stderr().is_terminal();
    let mut drawn = 0;
    let mut drawn_at = Instant::now();
    while threads.iter().any(|thread| !thread.handle.is_finished()) {
        thread::sleep(TURN);
        if interrupted.load(Ordering::Relaxed) {
            shared.stop.store(true, Ordering::Relaxed);
        }
        if live && drawn_at.elapsed() >= REDRAW {
            drawn_at = Instant::now();
            drawn = draw(shared, drawn);
        }
    }
    if drawn > 0 {
        // The table that follows says the same.
        eprint!("\x1b[{drawn}A\x1b[J");
    }
}

/// Draws the lines over those of the turn before; gives their number.
fn draw(shared: &Shared, drawn: usize) -> usize {
    let mut text = if drawn > 0 { format!("\x1b[{drawn}A") } else { String::new() };
    let lines: Vec<String> = if shared.shown.len() <= MOST_LINES {
        (0..shared.shown.len()).map(|index| shared.shown[index].line(index, &shared.plan)).collect()
    } else {
        vec![together(shared)]
    };
    for line in &lines {
        text.push_str("\x1b[2K");
        text.push_str(line);
        text.push('\n');
    }
    _ = std::io::stderr().write_all(text.as_bytes());
    lines.len()
}

fn together(shared: &Shared) -> String {
    let wakes: u64 = shared.shown.iter().map(|shown| shown.wakes.load(Ordering::Relaxed)).sum();
    let max = shared.shown.iter().map(|shown| shown.max.load(Ordering::Relaxed)).max().unwrap_or(0);
    format!("{} threads  C:{wakes:>9} Max:{:>9.1} µs", shared.shown.len(), Nanos(max).as_micros_f64())
}

impl Shown {
    /// Only the measuring thread writes: no read-modify-write is needed.
    #[inline]
    fn show(&self, late: Nanos) {
        let wakes = self.wakes.load(Ordering::Relaxed);
        let (min, max) = (self.min.load(Ordering::Relaxed), self.max.load(Ordering::Relaxed));
        self.min.store(if wakes == 0 { late.0 } else { min.min(late.0) }, Ordering::Relaxed);
        self.max.store(max.max(late.0), Ordering::Relaxed);
        self.now.store(late.0, Ordering::Relaxed);
        self.sum.store(self.sum.load(Ordering::Relaxed).saturating_add(late.0), Ordering::Relaxed);
        self.wakes.store(wakes + 1, Ordering::Relaxed);
    }

    /// A line as cyclictest's.
    fn line(&self, index: usize, plan: &Plan) -> String {
        let us = |value: &AtomicI64| Nanos(value.load(Ordering::Relaxed)).as_micros_f64();
        let wakes = self.wakes.load(Ordering::Relaxed);
        let mean = us(&self.sum) / wakes.max(1) as f64;
        format!(
            "T:{index:>2} P:{:>2} I:{} C:{wakes:>8} Min:{:>7.1} Act:{:>7.1} Avg:{mean:>7.1} Max:{:>8.1} µs",
            plan.priority.unwrap_or(0),
            plan.interval_of(index).0 / 1_000,
            us(&self.min),
            us(&self.now),
            us(&self.max)
        )
    }
}
