//! How much memory it takes to join an hour of 250 µs cycles, part by part: prints the peak of the process.
//!
//!     cargo run --release -p downbeat-measure --example long_join [MINUTES [MINUTES A PART]]
//!
//! Both sides are made here, in parts as roles write them, by a process of its own, so that the peak is the join's alone.

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use downbeat_measure::{
    Collector, Event, EventKind, Kind, MOST_MESSAGES, Machine, Phase, Side, Whole, join_into, summarise, write_run,
    write_whole,
};
use scenario::Scenario;
use units::{Nanos, Tai};

const CYCLE: i64 = 250_000;
const PHASES: [i64; 4] = [0, 75_000, 150_000, 150_000];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [make, dir, side, minutes, each] = &arguments[..]
        && make == "make"
    {
        let side = if side == "loop" { Side::Reader } else { Side::Writer };
        return make_side(Path::new(dir), side, minutes.parse()?, each.parse()?);
    }
    let number = |index: usize, default: i64| arguments.get(index).map_or(Ok(default), |text| text.parse());
    let (minutes, each) = (number(0, 60)?, number(1, 10)?);
    let folder = tempfile::tempdir()?;
    let dirs = ["pub", "loop"].map(|name| folder.path().join(name));
    for (dir, side) in dirs.iter().zip(["pub", "loop"]) {
        let words = ["make".to_owned(), dir.display().to_string(), side.into(), minutes.to_string(), each.to_string()];
        let made = Command::new(std::env::current_exe()?).args(words).status()?;
        if !made.success() {
            return Err("the sides could not be made".into());
        }
    }
    let begun = Instant::now();
    let run = join_into(&dirs, Nanos(1_000), (&folder.path().join("both"), "join"), MOST_MESSAGES)?;
    let peak = peak_mb().ok_or("no VmHWM in /proc/self/status")?;
    println!(
        "{minutes} min at 250 µs, parts of {each} min: {} messages joined into {} parts in {:.1} s, at most {peak} MB resident",
        run.streams[0].frames,
        run.parts.len(),
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

fn peak_mb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kb| kb / 1024)
}

fn scenario() -> Result<Scenario, Box<dyn Error>> {
    let text = scenario::template("two-hosts").ok_or("no template")?.replace("cycle = \"1ms\"", "cycle = \"250us\"");
    scenario::read(&text, "long.toml").map_err(|errors| errors.render().into())
}

/// What a role leaves that begins a new part every so many minutes.
fn make_side(dir: &Path, side: Side, minutes: i64, each: i64) -> Result<(), Box<dyn Error>> {
    let scenario = scenario()?;
    let mut collector = Collector::of_ends(&scenario, |_, end| end == side);
    let mut whole = Whole::new();
    let machine = |until: i64| {
        let mut machine = Machine::new();
        machine.insert("first_cycle_at_ns".into(), 0.into());
        machine.insert("role".into(), if side == Side::Writer { "publish" } else { "loopback" }.into());
        machine.insert("part".into(), serde_json::json!({ "until_ns": until }));
        machine
    };
    let a_minute = 60_000_000_000 / CYCLE;
    let mut number = 0;
    for cycle in 0..minutes * a_minute {
        for (phase, offset) in Phase::ALL.into_iter().zip(PHASES) {
            let (due, late, took) = (Tai(cycle * CYCLE + offset), Nanos(cycle % 977), Nanos(1_000));
            push(&mut collector, side, EventKind::Phase { cycle, phase, due, late, took });
        }
        message(&mut collector, side, cycle);
        let last = cycle + 1 == minutes * a_minute;
        if last || (cycle + 1) % (each * a_minute) == 0 {
            let until = if last { i64::MAX } else { (cycle - 4_000) * CYCLE };
            let part = if last {
                std::mem::replace(&mut collector, Collector::new(&scenario))
            } else {
                collector.cut(Tai(until))
            };
            number += 1;
            let name = format!("part-{number:04}");
            part.write_ends(&dir.join(&name), &scenario)?;
            let seen = part.finish(&scenario);
            let run = summarise(&scenario, &seen, Kind::Measured, machine(until));
            write_run(&dir.join(&name), &scenario, &run, &seen.rows)?;
            whole.add(name, run, &seen.streams);
        }
    }
    let run = whole.finish(&scenario, machine(i64::MAX)).ok_or("nothing was made")?;
    Ok(write_whole(dir, &scenario, &run)?)
}

/// What a side sees in a cycle: it hands a message over, and one that was handed over two cycles ago arrives.
fn message(collector: &mut Collector, side: Side, cycle: i64) {
    // The reader answers two cycles later, and what comes back is of four cycles ago.
    let (answers, comes) = if side == Side::Reader { (2, 2) } else { (0, 4) };
    if cycle >= comes {
        let counter = (cycle - comes + 1).cast_unsigned();
        let stamp = Some(Tai((cycle - 1) * CYCLE + 151_000 + cycle % 313));
        let decoded = Tai(cycle * CYCLE + 10_000);
        let (tag, superseded, inconsistent) = (Some((3000, 7)), None, false);
        push(collector, side, EventKind::Arrived { cycle, counter, stamp, decoded, tag, superseded, inconsistent });
    }
    if cycle >= answers {
        let counter = (cycle - answers + 1).cast_unsigned();
        let (handle, launch) = (cycle as u32, Tai((cycle + 1) * CYCLE + 150_000));
        let at = Tai(cycle * CYCLE + 150_000);
        let (sequence, launch_at, bytes, repeated) = (counter as u16, Some(launch), 77, false);
        let published =
            EventKind::Published { cycle, counter, sequence, handle, at, launch: launch_at, bytes, repeated };
        push(collector, side, published);
        push(collector, side, EventKind::Left { handle, at: launch });
    }
    if side == Side::Writer && cycle >= 4 {
        let (wrote, read, missed) = (None, Some((cycle - 3).cast_unsigned()), 0);
        let kind = EventKind::Application { cycle, wrote, read, repeated: false, missed, round_trip_cycles: Some(4) };
        push(collector, side, kind);
    }
}

fn push(collector: &mut Collector, side: Side, kind: EventKind) {
    collector.push(Event { stream: 0, side, kind });
}
