//! `cargo xtask bench flood`: up to which rate of strangers' frames a loop keeps its cycle and loses nothing.
//!
//! A third host at the bridge between two sends frames to the reader of their stream, at rising rates, in blocks between
//! which it is quiet. What failed in a block (a cycle without a message, a message lost or replaced unread) is compared
//! with the quiet blocks of the same run.

mod frames;
mod judge;
mod sender;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use measure::RunFile;
use scenario::Scenario;
use units::Nanos;

use super::real::{self, Run, Scratch, loop_time_ns};
use super::rounds::Failure;
use super::statistics::Median;
use frames::Kind;
use judge::{Block, Rate, Shown, Verdict};

pub(super) const HELP: &str = "\
cargo xtask bench flood [--cycle SPAN] [--way WAY] [--rate N] [--repeats N]

Floods the reader of a stream from a third host: with garbage behind a proper head, with messages of a publisher that
nobody reads, with old messages of the stream itself; by each way that frames can be received.

  --cycle SPAN   cycle of the stream (default 1ms); it is launched 3/5 of a cycle after the start of the next one
  --way WAY      packet, ring or xdp; without it all three
  --rate N       frames a second, in place of a row of rates that ends with as many as the sender can
  --repeats N    blocks of each rate, at least 6 for an interval (default 9)

A rate is held when with 95 % the median over its blocks of the cycles that failed exceeds the quiet block before by no
more than 1 % of the cycles; `!` marks one that is shown not to be, `?` one of which the blocks do not tell.

Needs root. Exit codes: 0 measured, 1 failed, 2 wrong arguments.";

/// Frames a second that are tried, in rising order; the last is as fast as the sender can.
const RATES: [Option<u32>; 7] =
    [Some(1_000), Some(10_000), Some(30_000), Some(100_000), Some(200_000), Some(400_000), None];
/// Length of a block.
const BLOCK: Duration = Duration::from_millis(300);
/// What is left of a flood when it ends is read meanwhile.
const SETTLE: Duration = Duration::from_millis(50);

struct Options {
    cycle: Nanos,
    ways: Vec<String>,
    /// Frames a second that are tried; none is as fast as the sender can.
    rates: Vec<Option<u32>>,
    repeats: usize,
}

/// Runs the benchmark with the arguments after `flood`.
pub(super) fn run(arguments: &[String]) -> ExitCode {
    let options = match parse(arguments) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match measure_all(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let ways = ["packet", "ring", "xdp"];
    let mut options = Options {
        cycle: Nanos(1_000_000),
        ways: ways.iter().map(ToString::to_string).collect(),
        rates: RATES.to_vec(),
        repeats: 9,
    };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("{argument}: expected a value."))?;
        let wrong = |what: &str| format!("{argument}: expected {what}, found `{value}`.");
        match argument.as_str() {
            "--cycle" => options.cycle = value.parse().map_err(|error| wrong(&format!("a span ({error})")))?,
            "--way" if ways.contains(&value.as_str()) => options.ways = vec![value.clone()],
            "--way" => return Err(wrong("packet, ring or xdp")),
            "--rate" => options.rates = vec![Some(value.parse().map_err(|_| wrong("frames a second"))?)],
            "--repeats" => {
                let number = value.parse().ok().filter(|number| (1..=100).contains(number));
                options.repeats = number.ok_or_else(|| wrong("a number from 1 to 100"))?;
            }
            other => return Err(format!("cargo xtask bench flood has no argument \"{other}\".")),
        }
    }
    Ok(options)
}

fn measure_all(options: &Options) -> Result<(), Failure> {
    let program = real::program()?;
    let scratch = Scratch::new()?;
    println!(
        "cycle {}, blocks of {} ms, {} of each rate, a quiet one before each\n",
        options.cycle,
        BLOCK.as_millis(),
        options.repeats
    );
    println!(
        "{:<7} {:<9} {:>14} {:>10} {:>10}  rate: cycles that failed, more than in the quiet block before",
        "way", "kind", "holds frames/s", "CPU quiet", "CPU there"
    );
    for way in &options.ways {
        for kind in Kind::ALL {
            one(options, &program, &scratch, way, kind)?;
        }
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("\nload of the machine at the end: {}", load.trim());
    Ok(())
}

/// Floods one run and prints its lines.
fn one(options: &Options, program: &Path, scratch: &Scratch, way: &str, kind: Kind) -> Result<(), Failure> {
    let name = format!("bench-{way}");
    let text = scenario_text(program, &name, options.cycle)?;
    let scenario = scenario::read(&text, &name).map_err(|errors| errors.render())?;
    let frame = frames::frame(&scenario, kind)?;
    let run = Run::start(program, scratch, &name, &text, &["--duration", "600s", "--link", way], 2)?;
    let sender = sender::Sender::start(&format!("db-{name}-mob"), frame)?;
    let blocks = flood(options, &run, &sender);
    drop(sender);
    let folder = run.stop()?;
    let (result, rows, _) = measure::read_run(&folder)?;
    print(way, kind, &judge::judge(&rows, options.cycle, &blocks?), &result, &scenario);
    Ok(())
}

/// Quiet and flooded blocks by turns, every rate in each round.
fn flood(options: &Options, run: &Run, sender: &sender::Sender) -> Result<Vec<Block>, Failure> {
    let reader = *run.hosts.last().ok_or("no host")?;
    let mut blocks = Vec::new();
    for _ in 0..options.repeats {
        for place in 0..options.rates.len() {
            for wanted in [None, Some(place)] {
                std::thread::sleep(SETTLE);
                let (begin, loop_began) = (rt::clock::now(), loop_time_ns(reader));
                let sent = match wanted {
                    Some(place) => sender.send(options.rates[place], BLOCK)?,
                    None => {
                        std::thread::sleep(BLOCK);
                        0
                    }
                };
                let (end, loop_time_ns) = (rt::clock::now(), loop_time_ns(reader) - loop_began);
                blocks.push(Block { rate: wanted, begin, end, sent, loop_time_ns });
            }
        }
    }
    Ok(blocks)
}

fn scenario_text(program: &Path, name: &str, cycle: Nanos) -> Result<String, Failure> {
    let new_cycle = format!("cycle = \"{cycle}\"");
    let offset = format!("offset = \"{}\"", Nanos(cycle.0 * 3 / 5));
    let replaced = [("cycle = \"1ms\"", new_cycle.as_str()), ("offset = \"600us\"", offset.as_str())];
    let text = real::template(program, "bridged", name, &replaced)?;
    Ok(text + "\n[hosts.mob]\n\n[[links]]\nbetween = [\"mob\", \"bridge\"]\nrate = \"1Gbit/s\"\ncable = \"5m\"\n")
}

fn print(way: &str, kind: Kind, verdict: &Verdict, run: &RunFile, scenario: &Scenario) {
    let share = |share: f64| format!("{:.1} %", share * 100.0);
    let next = verdict.rates.get(verdict.holds.map_or(0, |place| place + 1));
    let rate = verdict.holds.map_or_else(|| "none".to_owned(), |place| format!("{:.0}", verdict.rates[place].frames_s));
    let holds = match next.map(|next| next.shown) {
        None => format!("≥ {rate}"),
        Some(Shown::Undecided) => format!("{rate} ?"),
        Some(_) => rate,
    };
    let there = verdict.holds.map_or_else(String::new, |place| share(verdict.rates[place].loop_share));
    let failed = |rate: &Rate| {
        let mark = match rate.shown {
            Shown::Held => "",
            Shown::Failed => "!",
            Shown::Undecided => "?",
        };
        let Median { value, low, high } = rate.more_failed;
        format!("{:.0}k{mark} {value:+.0} [{low:+.0}, {high:+.0}]", rate.frames_s / 1e3)
    };
    let by_rate = verdict.rates.iter().map(failed).collect::<Vec<_>>().join(", ");
    println!(
        "{way:<7} {:<9} {holds:>14} {:>10} {there:>10}  {by_rate} (quiet {:.1} of {:.0})",
        kind.name(),
        share(verdict.quiet_share),
        verdict.quiet_failed,
        verdict.cycles
    );
    let counters = run.streams.first().map(|stream| &stream.counters);
    let counted = counters.map_or(0, |counters| counters.foreign + counters.stale);
    let machine = |key: &str| run.machine.get(key).and_then(serde_json::Value::as_u64).unwrap_or(0);
    let told: u64 = run.incidents.iter().filter(|one| one.kind == measure::kinds::FLOOD).map(|one| one.frames).sum();
    println!(
        "{:<17} {} sent: {counted} read and refused, {} found no room in a receive queue, {} in a processor's; {told} told \
         as floods of {}; {} trace records lost, {} allocations",
        "",
        verdict.sent,
        machine("receiver_drops"),
        machine("backlog_drops"),
        scenario.host(scenario.streams[0].reader).name,
        machine("trace_records_lost"),
        machine("allocations_in_cycles"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let parsed = |line: &str| parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let options = parsed("--cycle 250us --way xdp --repeats 5").unwrap();
        assert_eq!((options.cycle.0, options.ways.as_slice(), options.repeats), (250_000, &["xdp".to_owned()][..], 5));
        assert_eq!(parsed("").unwrap().ways.len(), 3);
        for line in ["--cycle", "--cycle soon", "--way dpdk", "--repeats 0", "--rate fast", "--speed 1"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
