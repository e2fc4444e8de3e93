//! `cargo xtask bench soak`: a long run under load, with the memory of all its processes.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use measure::{FrameRow, RunFile, flags};
use units::Nanos;

use super::real::{self, Run, Scratch, resident_kib};
use super::rounds::Failure;

pub(super) const HELP: &str = "\
cargo xtask bench soak [--duration SPAN] [--cycle SPAN] [--load PROFILE] [--rotate-every SPAN]

Runs two hosts in one process each for SPAN under load and looks at the resident memory of their processes and of the
one that collects every ten seconds; then tells what was lost, and by whose fault.

  --duration SPAN   how long (default 10min)
  --cycle SPAN      cycle of the stream (default 250us); it is launched 3/5 of a cycle after the start of the next one
  --load PROFILE    as `downbeat run --load` (default mixed)
  --rotate-every SPAN
                    what is measured is written and freed so often (default 1min): the memory of the collector is that of one
                    part, and its trend is told by the looks at its lowest, one a part from the fourth

Needs root. Exit codes: 0 measured, 1 failed, 2 wrong arguments.";

/// From look to look.
const LOOK: Duration = Duration::from_secs(10);
/// Looks that are left out at the beginning: what is set up once is there by then.
const WARM_UP_LOOKS: usize = 3;
/// Parts that are left out for the collector: only then has the memory of one part, written and freed, come back for the
/// next, whatever threads it was freed by.
const WARM_UP_PARTS: usize = 3;

struct Options {
    duration: Nanos,
    cycle: Nanos,
    load: String,
    rotate_every: Nanos,
}

/// Resident memory in KiB: the collector, then each host.
struct Look {
    at: Duration,
    resident_kib: Vec<u64>,
}

/// Runs the benchmark with the arguments after `soak`.
pub(super) fn run(arguments: &[String]) -> ExitCode {
    let options = match parse(arguments) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match soak(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options {
        duration: Nanos::from_millis(600_000),
        cycle: Nanos(250_000),
        load: "mixed".to_owned(),
        rotate_every: Nanos::from_millis(60_000),
    };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("{argument}: expected a value."))?;
        let span = || value.parse::<Nanos>().map_err(|error| format!("{argument}: `{value}` {error}"));
        match argument.as_str() {
            "--duration" => options.duration = span()?,
            "--cycle" => options.cycle = span()?,
            "--load" => options.load.clone_from(value),
            "--rotate-every" => options.rotate_every = span()?,
            other => return Err(format!("cargo xtask bench soak has no argument \"{other}\".")),
        }
    }
    Ok(options)
}

fn soak(options: &Options) -> Result<(), Failure> {
    let program = real::program()?;
    let scratch = Scratch::new()?;
    let cycle = format!("cycle = \"{}\"", options.cycle);
    let offset = format!("offset = \"{}\"", Nanos(options.cycle.0 * 3 / 5));
    let replaced = [("cycle = \"1ms\"", cycle.as_str()), ("offset = \"600us\"", offset.as_str())];
    let text = real::template(&program, "two-hosts", "bench-soak", &replaced)?;
    let duration = options.duration.to_string();
    let part = options.rotate_every.to_string();
    let arguments = ["--duration", &duration, "--load", &options.load, "--rotate-every", &part];
    let began = Instant::now();
    let mut run = Run::start(&program, &scratch, "bench-soak", &text, &arguments, 2)?;
    let processes: Vec<_> = std::iter::once(run.parent()).chain(run.hosts.iter().copied()).collect();
    let until = Duration::from_nanos(options.duration.0.unsigned_abs()).saturating_sub(Duration::from_secs(1));
    let mut looks: Vec<Look> = Vec::new();
    while began.elapsed() < until && !run.has_ended()? {
        let resident_kib = processes.iter().filter_map(|&pid| resident_kib(pid)).collect::<Vec<_>>();
        if resident_kib.len() == processes.len() {
            looks.push(Look { at: began.elapsed(), resident_kib });
        }
        std::thread::sleep(LOOK.min(until.saturating_sub(began.elapsed())));
    }
    while !run.has_ended()? {
        std::thread::sleep(Duration::from_millis(100));
    }
    let result = measure::read_run_file(&run.folder.join("run.json"))?;
    let mut lost = Lost::default();
    for folder in measure::part_folders(&run.folder)? {
        lost.add(&measure::read_run(&folder)?.1);
    }
    let Options { duration, cycle, load, rotate_every } = options;
    println!("{duration} at a cycle of {cycle}, load {load}, in parts of {rotate_every}");
    print_memory(&looks, *rotate_every);
    print_losses(&result, &lost);
    Ok(())
}

/// Lost messages, by whether a host was late meanwhile and by place.
#[derive(Default)]
struct Lost {
    all: u64,
    late: u64,
    /// In the order of [`PLACES`].
    places: [u64; PLACES.len()],
}

const PLACES: [(u32, &str); 5] = [
    (flags::LOST_PUBLISHER, "at the publisher "),
    (flags::LOST_OUT, "on the way out   "),
    (flags::LOST_LOOPBACK, "at the loopback  "),
    (flags::LOST_BACK, "on the way back  "),
    (flags::LOST_UNPLACED, "place unknown    "),
];

impl Lost {
    fn add(&mut self, rows: &[FrameRow]) {
        for row in rows.iter().filter(|row| row.has(flags::LOST)) {
            self.all += 1;
            if row.has(flags::HOST_OUTLIER) {
                self.late += 1;
                continue;
            }
            for (count, (bits, _)) in self.places.iter_mut().zip(PLACES) {
                *count += u64::from(row.has(bits));
            }
        }
    }
}

fn print_memory(looks: &[Look], part: Nanos) {
    println!("\nresident memory, KiB\n{:>8} {:>10} {:>10} {:>10}", "s", "collector", "pub", "loop");
    let every = looks.len().div_ceil(20).max(1);
    let last = looks.len().saturating_sub(1);
    for (_, look) in looks.iter().enumerate().filter(|(number, _)| number % every == 0 || *number == last) {
        print!("{:>8.0}", look.at.as_secs_f64());
        look.resident_kib.iter().for_each(|kib| print!(" {kib:>10}"));
        println!();
    }
    let settled = looks.get(WARM_UP_LOOKS..).unwrap_or_default();
    let part = Duration::from_nanos(part.0.unsigned_abs());
    for (place, name) in ["collector", "pub", "loop"].into_iter().enumerate() {
        let points: Vec<_> = settled
            .iter()
            .filter_map(|look| Some((look.at.as_secs_f64(), *look.resident_kib.get(place)? as f64)))
            .collect();
        // The collector keeps the rows of a part until it is written.
        let points = if place == 0 { lowest(&points, part).into_iter().skip(WARM_UP_PARTS).collect() } else { points };
        match slope(&points) {
            Some(per_second) => println!(
                "{name}: {:+.0} KiB an hour, by {} looks from {:.0} s on",
                per_second * 3600.0,
                points.len(),
                points.first().map_or(0.0, |point| point.0)
            ),
            None => println!("{name}: too short for a trend"),
        }
    }
}

/// The lowest point of each whole part.
fn lowest(points: &[(f64, f64)], part: Duration) -> Vec<(f64, f64)> {
    let number = |at: f64| (at / part.as_secs_f64()) as u64;
    let lowest = |chunk: &[(f64, f64)]| chunk.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
    points.chunk_by(|a, b| number(a.0) == number(b.0)).filter_map(lowest).collect()
}

/// Least squares, of at least three points.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    if points.len() < 3 {
        return None;
    }
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let both: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let square: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    (square > 0.0).then(|| both / square)
}

fn print_losses(run: &RunFile, lost: &Lost) {
    let Some(stream) = run.streams.first() else { return };
    let machine = |key: &str| run.machine.get(key).map_or_else(|| "not known".to_owned(), ToString::to_string);
    println!("\n{} messages published, {} of known fate", stream.frames, stream.loss.published);
    println!("  allocations in cycles       {}", machine("allocations_in_cycles"));
    println!("  trace records lost          {}", machine("trace_records_lost"));
    println!("  dropped by receive queues   {}", machine("receiver_drops"));
    println!("  dropped by processors       {}", machine("backlog_drops"));
    let counters = &stream.counters;
    println!(
        "  counters: {} missed, {} inconsistent, {} foreign, {} stale",
        counters.missed.unwrap_or(0),
        counters.inconsistent,
        counters.foreign,
        counters.stale
    );
    println!("  lost {}", lost.all);
    println!("    while a host was late             {}", lost.late);
    for ((_, place), count) in PLACES.iter().zip(lost.places) {
        println!("    else {place}            {count}");
    }
    let mut kinds: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for incident in &run.incidents {
        let (number, frames) = kinds.entry(&incident.kind).or_default();
        (*number, *frames) = (*number + 1, *frames + incident.frames);
    }
    for (kind, &number) in &run.incidents_left_out {
        kinds.entry(kind).or_default().0 += number;
    }
    println!("  incidents");
    for (kind, (number, frames)) in kinds {
        println!("    {kind:<20} {number:>6} with {frames} frames in those that are listed");
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load of the machine at the end: {}", load.trim());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trend_needs_points_and_has_a_sign() {
        assert_eq!(slope(&[(0.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(slope(&[(0.0, 10.0), (10.0, 5.0), (20.0, 0.0)]), Some(-0.5));
        assert_eq!(slope(&[(1.0, 1.0); 3]), None);
    }

    #[test]
    fn the_lowest_of_each_part_counts() {
        let points = [(0.0, 5.0), (10.0, 1.0), (50.0, 9.0), (60.0, 8.0), (70.0, 2.0)];
        assert_eq!(lowest(&points, Duration::from_secs(60)), [(10.0, 1.0), (70.0, 2.0)]);
    }

    #[test]
    fn arguments() {
        let parsed = |line: &str| parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let options = parsed("--duration 30s --cycle 1ms --load idle --rotate-every 5s").unwrap();
        assert_eq!((options.duration.0, options.cycle.0, options.load.as_str()), (30_000_000_000, 1_000_000, "idle"));
        assert_eq!(options.rotate_every.0, 5_000_000_000);
        assert!(parsed("--duration").is_err() && parsed("--duration long").is_err() && parsed("--speed 1").is_err());
    }
}
