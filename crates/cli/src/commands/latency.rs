//! `downbeat latency`: how late threads of this host wake up.

mod picture;
mod spans;
mod state;
mod tell;
mod threads;

use std::path::PathBuf;

use clap::Args;
use lab::{Load, LoadOptions, Profile};
use measure::{Histogram, LATENCY_FORMAT, LatencyFigures, LatencyFile, Method};
use rt::wakeup::{Clock, Policy, Wait};
use units::Nanos;

use crate::output::{self, Failure, Outcome};
pub(crate) use spans::duration;
use spans::{Cpus, clock, microseconds, policy};
pub(crate) use state::stored;
pub(crate) use tell::load as tell_load;
use threads::{Plan, Seen};

/// Name of the hidden command that makes a load.
pub(crate) const LOAD: &str = "internal-load";

/// Priority when none is given: that of a run's hosts.
const PRIORITY: u8 = 80;

/// Threads at most: each has a histogram and a stack.
const MOST_THREADS: usize = 1024;

/// Arguments of `latency`.
#[derive(Args)]
#[command(after_help = "\
Spans without a unit are microseconds, a duration without one is seconds. The letters are those of cyclictest.

Examples:
  sudo downbeat latency                              # a thread a processor, SCHED_FIFO 80, every ms, 10 s
  sudo downbeat latency -i 250 -D 1m --load mixed    # under a load like that of a real device
  downbeat simulate two-hosts.toml --host-latency measured

Exit codes: 0 measured, 1 later than --limit or -b, 2 bad input, 3 refused what --strict asks for.")]
pub(crate) struct Arguments {
    /// Number of threads [default: one a processor]
    #[arg(short, long, value_name = "N", num_args = 0..=1, default_missing_value = "0")]
    threads: Option<usize>,
    /// Processors for the threads, in turn, like 0,2-3
    #[arg(short, long, value_name = "CPUS", num_args = 0..=1, default_missing_value = "all", default_value = "all")]
    affinity: Cpus,
    /// From one wake-up to the next
    #[arg(short, long, value_name = "US", default_value = "1000", value_parser = microseconds)]
    interval: Nanos,
    /// Added to the interval of each further thread
    #[arg(short, long, value_name = "US", default_value = "0", value_parser = microseconds)]
    distance: Nanos,
    /// Priority of the threads, 1 to 99 [default: 80]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=99))]
    priority: Option<u8>,
    /// Scheduling policy: fifo, rr, other, batch, idle
    #[arg(long, value_name = "NAME", default_value = "fifo", value_parser = policy)]
    policy: Policy,
    /// Lock all memory; done anyway, unless --no-mlockall
    #[arg(short, long)]
    mlockall: bool,
    /// Do not lock memory
    #[arg(long, conflicts_with = "mlockall")]
    no_mlockall: bool,
    /// Do not hold the processors out of deep sleep
    #[arg(long)]
    default_system: bool,
    /// Clock to sleep on: monotonic or tai
    #[arg(short, long, value_name = "CLOCK", default_value = "monotonic", value_parser = clock)]
    clock: Clock,
    /// End after so many wake-ups of each thread; 0 is never
    #[arg(short, long, value_name = "N")]
    loops: Option<u64>,
    /// End after this time; 0 is never [default: 10s, or never with -l]
    #[arg(short = 'D', long, value_name = "TIME", value_parser = duration)]
    duration: Option<Nanos>,
    /// Read the clock all the time instead of sleeping, and count the gaps: stolen time
    #[arg(long, conflicts_with = "hybrid")]
    spin: bool,
    /// Sleep until SPAN before each instant, then read the clock
    #[arg(long, value_name = "US", num_args = 0..=1, default_missing_value = "100", value_parser = microseconds)]
    hybrid: Option<Nanos>,
    /// Load beside the test: idle, cpu, memory, network, mixed
    #[arg(long, value_name = "PROFILE")]
    load: Option<Profile>,
    /// Exit code 1 when a wake-up was later than this
    #[arg(long, value_name = "US", value_parser = microseconds)]
    limit: Option<Nanos>,
    /// The same, and end at once
    #[arg(short, long, value_name = "US", value_parser = microseconds, conflicts_with = "limit")]
    breaktrace: Option<Nanos>,
    /// Print a line for every microsecond below this, a column a thread, as cyclictest -h does
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    histogram: Option<u32>,
    /// A wake-up later than this is an outlier and kept with its instant
    #[arg(long, value_name = "US", default_value = "100", value_parser = microseconds)]
    spike: Nanos,
    /// Keep so many outliers of each thread
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    spike_nodes: u32,
    /// Print only a summary at the end
    #[arg(short, long)]
    quiet: bool,
    /// Exit code 3, without measuring, when a right that was asked for is refused
    #[arg(long)]
    strict: bool,
    /// Store the result here instead of in the state folder
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace FILE when it exists
    #[arg(long, requires = "out")]
    force: bool,
    /// Print latency.json to standard output; it is stored with --out only
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> Outcome {
        let plan = self.plan()?;
        if let Some(path) = self.out.as_deref().filter(|path| path.exists() && !self.force) {
            return Err(Failure::input(format!(
                "{} exists\n  mend: name another file with --out, or replace it with --force",
                path.display()
            )));
        }
        let interrupted = lab::interrupt_flag().map_err(Failure::from)?;
        let began_utc_s = lab::utc_seconds();
        let load = self.load.map(|profile| Load::start(&load_options(profile)?, &interrupted).map_err(Failure::from));
        let load = load.transpose()?;
        let live = !self.quiet;
        let seen = threads::run(&plan, &interrupted, live, self.strict);
        let load = load.map(Load::finish);
        // Everything has ended: from here on a closed pipe may end us.
        rt::process::die_on_broken_pipe();
        let seen = seen?;
        let all = seen.together();
        if all.count() == 0 {
            let text = "stopped before the first wake-up; nothing was measured".into();
            return Err(Failure { text, code: INTERRUPTED });
        }
        let result = self.result(&plan, seen, &all, load, began_utc_s);
        self.tell(&plan, &result)?;
        Ok(self.code(&all))
    }

    /// Checks what the single arguments cannot check by themselves.
    fn plan(&self) -> Result<Plan, Failure> {
        let allowed = rt::wakeup::allowed_cpus();
        let cpus = self.affinity.among(&allowed).map_err(Failure::input)?;
        let threads = self.threads.filter(|&threads| threads > 0).unwrap_or(cpus.len());
        if threads > MOST_THREADS {
            return Err(Failure::input(format!("{threads} threads are more than {MOST_THREADS}")));
        }
        if !(Nanos(1_000)..=Nanos(60_000_000_000)).contains(&self.interval) {
            return Err(Failure::input(format!(
                "an interval of {} is not between 1us and 1min\n  mend: a number without a unit is microseconds",
                self.interval
            )));
        }
        if self.priority.is_some() && !self.policy.has_priority() {
            return Err(Failure::input("only the policies fifo and rr have a priority\n  mend: leave -p out"));
        }
        let ends = |span: &Nanos| *span > Nanos::ZERO;
        let lasting = match (self.duration, self.loops) {
            (Some(span), _) => Some(span).filter(ends),
            (None, Some(_)) => None,
            (None, None) => Some(Nanos(10_000_000_000)),
        };
        Ok(Plan {
            cpus: (0..threads).map(|thread| cpus[thread % cpus.len()]).collect(),
            interval: self.interval,
            distance: self.distance,
            clock: self.clock,
            wait: match (self.spin, self.hybrid) {
                (true, _) => Wait::Spin,
                (_, Some(margin)) => Wait::Hybrid { margin },
                _ => Wait::Sleep,
            },
            policy: self.policy,
            priority: self.policy.has_priority().then(|| self.priority.unwrap_or(PRIORITY)),
            lock_memory: !self.no_mlockall,
            keep_awake: !self.default_system,
            wakes: self.loops.filter(|&loops| loops > 0),
            lasting,
            spike: self.spike,
            spike_nodes: self.spike_nodes as usize,
            stop_above: self.breaktrace,
        })
    }

    fn result(
        &self,
        plan: &Plan,
        seen: Seen,
        all: &Histogram,
        load: Option<measure::LoadReport>,
        began_utc_s: i64,
    ) -> LatencyFile {
        let command = std::iter::once("downbeat".into()).chain(std::env::args().skip(1)).collect::<Vec<_>>().join(" ");
        let spinning = plan.wait == Wait::Spin;
        let stolen = spinning.then(|| seen.threads.iter().map(|thread| thread.totals.stolen).sum());
        let missed = seen.threads.iter().map(|thread| thread.totals.missed).sum();
        let mut machine = lab::host_machine();
        machine.insert("granted".into(), seen.granted.clone().into());
        // A thread that does not sleep says nothing about how late a sleeping one wakes up.
        let slept = all.max().filter(|_| plan.wait == Wait::Sleep);
        LatencyFile {
            format: LATENCY_FORMAT.into(),
            command,
            began_utc_s,
            lasted_ns: seen.lasted.0,
            ended: seen.ended.into(),
            machine,
            clock: spans::clock_name(plan.clock).into(),
            method: match plan.wait {
                Wait::Sleep => Method::Sleep,
                Wait::Hybrid { .. } => Method::Hybrid,
                Wait::Spin => Method::Spin,
            },
            margin_ns: self.hybrid.map(|margin| margin.0),
            policy: spans::policy_name(plan.policy).into(),
            priority: plan.priority,
            load,
            threads: seen.threads.into_iter().enumerate().map(|(index, seen)| seen.entry(index, plan)).collect(),
            all: LatencyFigures::of(all, missed, stolen),
            limit_ns: self.limit.or(self.breaktrace).map(|limit| limit.0),
            suggested_etf_delta_ns: slept.map(|latest| measure::suggested_etf_delta(latest).0),
        }
    }

    /// Prints the result and stores it.
    fn tell(&self, plan: &Plan, result: &LatencyFile) -> Result<(), Failure> {
        tell::notes(result);
        if self.json {
            output::json(result)?;
        } else {
            tell::table(result);
            if let Some(microseconds) = self.histogram {
                tell::columns(result, microseconds as usize);
            } else if !self.quiet {
                picture::draw(&result.all);
            }
            result.load.iter().for_each(tell::load);
            tell::outliers(result);
            tell::delta(result);
        }
        let write =
            |path: &PathBuf| measure::write_latency(path, result).map_err(|error| Failure::machine(error.to_string()));
        match (&self.out, self.json) {
            (Some(path), _) => {
                write(path)?;
                if !self.json {
                    println!("written to {}", path.display());
                }
            }
            // Only what says how late a host wakes up is kept as this host's latency.
            (None, false) if plan.wait == Wait::Sleep => state::store(write),
            _ => {}
        }
        Ok(())
    }

    fn code(&self, all: &Histogram) -> u8 {
        let limit = self.limit.or(self.breaktrace);
        match (limit, all.max()) {
            (Some(limit), Some(latest)) if latest > limit => {
                eprintln!("the largest, {latest}, is above the limit of {limit}");
                output::NOT_MET
            }
            _ => output::MET,
        }
    }
}

/// Exit code of a shell's for a command ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// How to start a load: this program again.
pub(crate) fn load_options(profile: Profile) -> Result<LoadOptions, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::machine(format!("finding this program's own file: {error}")))?;
    Ok(LoadOptions { profile, program, arguments: vec![LOAD.into()] })
}
