//! The papers' cycle with both ends of each contestant, one contestant at a time, all of them in turn.

use rt::clock::now;
use units::Nanos;

use super::super::interop::Program;
use super::super::place::Pair;
use super::super::rounds::Failure;
use super::super::statistics::median;
use super::Contestant;
use super::downbeat::Tracing;
use super::drive::{Job, Outcome, Plan, Side, Waiting};
use super::local::{Kind, Local, Place};

/// Contestants with frames, and so veth pairs.
pub(super) const PAIRS: usize = 6;

const FIELDS: u16 = 9;
/// Length of a block, as long as its cycles allow.
const BLOCK: Nanos = Nanos::from_millis(100);
const FEWEST_CYCLES: i64 = 64;
/// From the order to the first cycle: both ends have to wake up.
const UNTIL_START: Nanos = Nanos::from_millis(4);
/// Lets others run between two blocks: real-time threads may not have a processor for themselves all the time.
const REST: std::time::Duration = std::time::Duration::from_millis(10);

/// One table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) waiting: Waiting,
    pub(super) length: Nanos,
    pub(super) rows: Vec<Row>,
}

/// What came out for a contestant.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) key: &'static str,
    pub(super) name: &'static str,
    /// Median of each block of how far above the schedule counters came back, in nanoseconds; NaN where none did.
    pub(super) blocks: Vec<f64>,
    /// The same of all counters.
    pub(super) all: Vec<f64>,
    /// Processor time a cycle of both ends together, in nanoseconds, one value a block.
    pub(super) cpu: Vec<f64>,
    /// Cycles of both ends.
    pub(super) cycles: u64,
    /// Those of them that were left out.
    pub(super) skipped: u64,
    /// Counters that never came back.
    pub(super) unread: u64,
}

struct Lane {
    key: &'static str,
    name: &'static str,
    contestant: Contestant,
}

/// Runs all tables; `cpus` are those of the source and of the loopback.
pub(super) fn measure(
    pairs: &[Pair; PAIRS],
    cpus: [usize; 2],
    program: Option<&Program>,
    lengths: &[Nanos],
    blocks: usize,
) -> Result<Vec<Table>, Failure> {
    if lengths.is_empty() {
        return Ok(Vec::new());
    }
    let mut lanes = lanes(pairs, cpus, program)?;
    let mut tables = Vec::new();
    for waiting in [Waiting::Sleep, Waiting::Spin] {
        for &length in lengths {
            tables.push(table(&mut lanes, waiting, length, blocks)?);
        }
    }
    Ok(tables)
}

fn lanes(pairs: &[Pair; PAIRS], cpus: [usize; 2], program: Option<&Program>) -> Result<Vec<Lane>, String> {
    let mut lanes = Vec::new();
    let [recv, ring, ours, traced, codec, server] = pairs;
    for (key, name, pair, kind) in [
        ("recv", "hand-written, recv", recv, Kind::Recv),
        ("ring", "hand-written, ring", ring, Kind::Ring),
        ("downbeat", "Downbeat", ours, Kind::Downbeat(Tracing::Off)),
        ("downbeat_traced", "Downbeat, traced", traced, Kind::Downbeat(Tracing::On)),
        ("empty", "no frames, only the waiting", recv, Kind::Nothing),
    ] {
        let ends = [
            Place { interface: pair.near.clone(), cpu: cpus[0], side: Side::Source },
            Place { interface: pair.far.clone(), cpu: cpus[1], side: Side::Loopback },
        ];
        lanes.push(Lane { key, name, contestant: Contestant::Local(Local::start(kind, &ends, FIELDS)?) });
    }
    let Some(program) = program else { return Ok(lanes) };
    let [near, far] = cpus.map(|cpu| cpu.to_string());
    for (key, name, pair, how) in [
        ("open62541_codec", "open62541, its codec alone", codec, "codec"),
        ("open62541", "open62541, recv", server, "socket"),
    ] {
        let fields = FIELDS.to_string();
        let process = program.start(&["cycle", &pair.near, &near, &pair.far, &far, &fields, how])?;
        lanes.push(Lane { key, name, contestant: Contestant::Process(process) });
    }
    Ok(lanes)
}

fn table(lanes: &mut [Lane], waiting: Waiting, length: Nanos, blocks: usize) -> Result<Table, String> {
    let cycles = (BLOCK.0 / length.0).max(FEWEST_CYCLES) as u32;
    let mut rows: Vec<Row> = lanes.iter().map(Row::new).collect();
    // The first block only warms up.
    for block in 0..=blocks {
        for step in 0..lanes.len() {
            let step = if block % 2 == 1 { lanes.len() - step } else { step };
            let index = (block / 2 + step) % lanes.len();
            std::thread::sleep(REST);
            let plan = Plan { waiting, length, cycles, t0: now() + UNTIL_START + length };
            let contestant = &mut lanes[index].contestant;
            let outcome = contestant.tell(Job::Cycle(plan)).and_then(|()| contestant.outcome());
            let outcome = outcome.map_err(|error| format!("{}: {error}", lanes[index].name))?;
            if block > 0 {
                rows[index].add(&outcome, cycles);
            }
        }
    }
    Ok(Table { waiting, length, rows })
}

impl Row {
    fn new(lane: &Lane) -> Self {
        let (key, name) = (lane.key, lane.name);
        Self { key, name, blocks: Vec::new(), all: Vec::new(), cpu: Vec::new(), cycles: 0, skipped: 0, unread: 0 }
    }

    /// Whether most counters came back. What is left of the others says nothing about the rest.
    pub(super) fn is_sound(&self) -> bool {
        !self.all.is_empty() && self.unread * 4 <= self.cycles
    }

    fn add(&mut self, outcome: &Outcome, cycles: u32) {
        let above: Vec<f64> = outcome.above_ns.iter().map(|&above| above as f64).collect();
        self.blocks.push(median(&above));
        self.all.extend(above);
        self.cpu.push(outcome.cpu.0 as f64 / f64::from(cycles));
        self.cycles += 2 * u64::from(cycles);
        self.skipped += u64::from(outcome.skipped);
        self.unread += u64::from(outcome.unread);
    }
}
