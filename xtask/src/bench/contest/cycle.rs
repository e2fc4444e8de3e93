//! The papers' cycle with both ends of each contestant, one contestant at a time, all of them in turn.

use rt::clock::now;
use units::Nanos;

use super::super::interop::Program;
use super::super::place::Pair;
use super::super::rounds::{Failure, order};
use super::super::statistics::median;
use super::downbeat::{Tracing, Way};
use super::drive::{Job, Outcome, Plan, Side, Waiting};
use super::local::{Kind, Local, Place};
use super::{Contestant, LeftOut};

/// Contestants with frames, and so veth pairs.
pub(super) const PAIRS: usize = 7;

const FIELDS: u16 = 9;
/// Length of a turn, and turns of a block.
const TURN: Nanos = Nanos::from_millis(50);
const TURNS: usize = 2;
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
    left_out: &mut LeftOut,
) -> Result<Vec<Table>, Failure> {
    if lengths.is_empty() {
        return Ok(Vec::new());
    }
    let mut lanes = lanes(pairs, cpus, program, left_out);
    let mut tables = Vec::new();
    for waiting in [Waiting::Sleep, Waiting::Spin] {
        for &length in lengths {
            tables.push(table(&mut lanes, waiting, length, blocks)?);
        }
    }
    Ok(tables)
}

fn lanes(pairs: &[Pair; PAIRS], cpus: [usize; 2], program: Option<&Program>, left_out: &mut LeftOut) -> Vec<Lane> {
    let mut lanes = Vec::new();
    let [recv, ring, ours, traced, xdp, codec, server] = pairs;
    for (key, name, pair, kind) in [
        ("recv", "hand-written, recv", recv, Kind::Recv),
        ("ring", "hand-written, ring", ring, Kind::Ring),
        ("downbeat", "Downbeat", ours, Kind::Downbeat(Way::Packet(Tracing::Off))),
        ("downbeat_traced", "Downbeat, traced", traced, Kind::Downbeat(Way::Packet(Tracing::On))),
        ("downbeat_xdp", "Downbeat, AF_XDP", xdp, Kind::Downbeat(Way::Xdp)),
        ("empty", "no frames, only the waiting", recv, Kind::Nothing),
    ] {
        let ends = [
            Place { interface: pair.near.clone(), cpu: cpus[0], side: Side::Source },
            Place { interface: pair.far.clone(), cpu: cpus[1], side: Side::Loopback },
        ];
        let local = left_out.unless(name, Local::start(kind, &ends, FIELDS));
        lanes.extend(local.map(|local| Lane { key, name, contestant: Contestant::Local(local) }));
    }
    let Some(program) = program else { return lanes };
    let [near, far] = cpus.map(|cpu| cpu.to_string());
    for (key, name, pair, how) in [
        ("open62541_codec", "open62541, its codec alone", codec, "codec"),
        ("open62541", "open62541, recv", server, "socket"),
    ] {
        let fields = FIELDS.to_string();
        let process = program.start(&["cycle", &pair.near, &near, &pair.far, &far, &fields, how]);
        let process = left_out.unless(name, process);
        lanes.extend(process.map(|process| Lane { key, name, contestant: Contestant::Process(process) }));
    }
    lanes
}

fn table(lanes: &mut [Lane], waiting: Waiting, length: Nanos, blocks: usize) -> Result<Table, String> {
    let cycles = (TURN.0 / length.0).max(1) as u32;
    let mut rows: Vec<Row> = lanes.iter().map(Row::new).collect();
    let count = lanes.len();
    // The first block only warms up.
    for block in 0..=blocks {
        let mut turns = vec![Vec::new(); lanes.len()];
        for index in (0..TURNS).flat_map(|turn| order(count, block * TURNS + turn)) {
            std::thread::sleep(REST);
            let plan = Plan { waiting, length, cycles, t0: now() + UNTIL_START + length };
            let contestant = &mut lanes[index].contestant;
            let outcome = contestant.tell(Job::Cycle(plan)).and_then(|()| contestant.outcome());
            turns[index].push(outcome.map_err(|error| format!("{}: {error}", lanes[index].name))?);
        }
        if block > 0 {
            rows.iter_mut().zip(&turns).for_each(|(row, turns)| row.add(turns, cycles));
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

    /// A block.
    fn add(&mut self, turns: &[Outcome], cycles: u32) {
        let above: Vec<f64> = turns.iter().flat_map(|turn| &turn.above_ns).map(|&above| above as f64).collect();
        self.blocks.push(median(&above));
        self.all.extend(above);
        let cycles = turns.len() as u64 * u64::from(cycles);
        self.cpu.push(turns.iter().map(|turn| turn.cpu.0 as f64).sum::<f64>() / cycles as f64);
        self.cycles += 2 * cycles;
        self.skipped += turns.iter().map(|turn| u64::from(turn.skipped)).sum::<u64>();
        self.unread += turns.iter().map(|turn| u64::from(turn.unread)).sum::<u64>();
    }
}
