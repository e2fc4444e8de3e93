//! A frame and its answer: one contestant at a time, all of them in turn.

use units::Nanos;

use super::super::interop::Program;
use super::super::place::Pair;
use super::super::rounds::{Failure, order};
use super::super::statistics::median;
use super::downbeat::{Tracing, Way};
use super::drive::{Job, Side, Waiting};
use super::local::{Kind, Local, Place};
use super::ping::{Pinger, Pings};
use super::{Contestant, LeftOut};

/// Contestants, and so veth pairs.
pub(super) const PAIRS: usize = 8;

/// Sizes with both sides looking again and again.
const BUSY_FIELDS: [u16; 4] = [3, 9, 33, 161];
/// The size with contestants that sleep, and how often they are woken.
const BLOCKING_FIELDS: u16 = 9;
const RHYTHM: Nanos = Nanos::from_micros(250);
/// Frames of a turn, and turns of a block: a machine changes its pace within seconds, and so does a host that lets a virtual
/// one wait.
const BUSY_FRAMES: u32 = 128;
const BLOCKING_FRAMES: u32 = 40;
const TURNS: usize = 5;

/// Until a contestant has thrown away what was left behind.
const UNTIL_READY: std::time::Duration = std::time::Duration::from_millis(2);
/// Lets others run between two blocks: real-time threads may not have a processor for themselves all the time.
const REST: std::time::Duration = std::time::Duration::from_millis(3);

/// One table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) waiting: Waiting,
    pub(super) fields: u16,
    pub(super) rows: Vec<Row>,
}

/// What came out for a contestant.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) key: &'static str,
    pub(super) name: &'static str,
    /// Median of each block, in nanoseconds; the blocks of all rows belong together.
    pub(super) blocks: Vec<f64>,
    /// All round trips.
    pub(super) all: Vec<f64>,
    pub(super) lost: u32,
}

/// Runs all tables; `cpus` are the pinger's and the contestants'.
pub(super) fn measure(
    pairs: &[Pair; PAIRS],
    cpus: [usize; 2],
    program: Option<&Program>,
    blocks: usize,
    left_out: &mut LeftOut,
) -> Result<Vec<Table>, Failure> {
    let mut tables = Vec::new();
    for fields in BUSY_FIELDS {
        let mut lanes = lanes(pairs, cpus[1], program, fields, left_out)?;
        let mut waitings = vec![Waiting::Spin];
        if fields == BLOCKING_FIELDS {
            waitings.push(Waiting::Sleep);
        }
        // A thread of its own, so that what is started later does not inherit its priority and processor.
        let measured: Result<Vec<Table>, String> = std::thread::scope(|scope| {
            let run = || {
                let _granted = super::super::place::settle_on(Some(cpus[0]));
                waitings.into_iter().map(|waiting| table(&mut lanes, waiting, fields, blocks)).collect()
            };
            scope.spawn(run).join().unwrap_or_else(|_| Err("the pinger panicked".to_owned()))
        });
        tables.extend(measured?);
    }
    tables.sort_by_key(|table| table.waiting == Waiting::Sleep);
    Ok(tables)
}

struct Lane {
    key: &'static str,
    name: &'static str,
    contestant: Contestant,
    pinger: Pinger,
}

fn lanes(
    pairs: &[Pair; PAIRS],
    cpu: usize,
    program: Option<&Program>,
    fields: u16,
    left_out: &mut LeftOut,
) -> Result<Vec<Lane>, String> {
    let mut lanes = Vec::new();
    let [recv, ring, ours, traced, xdp, codec, server, events] = pairs;
    for (key, name, pair, kind) in [
        ("recv", "hand-written, recv", recv, Kind::Recv),
        ("ring", "hand-written, ring", ring, Kind::Ring),
        ("downbeat", "Downbeat", ours, Kind::Downbeat(Way::Packet(Tracing::Off))),
        ("downbeat_traced", "Downbeat, traced", traced, Kind::Downbeat(Way::Packet(Tracing::On))),
        ("downbeat_xdp", "Downbeat, AF_XDP", xdp, Kind::Downbeat(Way::Xdp)),
    ] {
        let place = Place { interface: pair.far.clone(), cpu, side: Side::Loopback };
        if let Some(local) = left_out.unless(name, Local::start(kind, &[place], fields)) {
            let contestant = Contestant::Local(local);
            lanes.push(Lane { key, name, contestant, pinger: Pinger::open(&pair.near, fields)? });
        }
    }
    let Some(program) = program else { return Ok(lanes) };
    for (key, name, pair, how) in [
        ("open62541_codec", "open62541, its codec alone", codec, "codec"),
        ("open62541", "open62541, recv", server, "socket"),
        ("open62541_events", "open62541, its event loop", events, "loop"),
    ] {
        let process = program.start(&["echo", &pair.far, &cpu.to_string(), &fields.to_string(), how]);
        if let Some(process) = left_out.unless(name, process) {
            let contestant = Contestant::Process(process);
            lanes.push(Lane { key, name, contestant, pinger: Pinger::open(&pair.near, fields)? });
        }
    }
    Ok(lanes)
}

fn table(lanes: &mut [Lane], waiting: Waiting, fields: u16, blocks: usize) -> Result<Table, String> {
    let row = |lane: &Lane| Row { key: lane.key, name: lane.name, blocks: Vec::new(), all: Vec::new(), lost: 0 };
    let mut rows: Vec<Row> = lanes.iter().map(row).collect();
    let count = lanes.len();
    // The first block only warms up.
    for block in 0..=blocks {
        let mut pings = vec![Pings::default(); lanes.len()];
        for index in (0..TURNS).flat_map(|turn| order(count, block * TURNS + turn)) {
            let turn = lanes[index].turn(waiting).map_err(|error| format!("{}: {error}", lanes[index].name))?;
            pings[index].round_trips_ns.extend(turn.round_trips_ns);
            pings[index].lost += turn.lost;
        }
        if block > 0 {
            rows.iter_mut().zip(pings).for_each(|(row, pings)| row.add(pings));
        }
    }
    Ok(Table { waiting, fields, rows })
}

impl Lane {
    fn turn(&mut self, waiting: Waiting) -> Result<Pings, String> {
        let (rhythm, timed) = match waiting {
            Waiting::Spin => (None, BUSY_FRAMES),
            Waiting::Sleep => (Some(RHYTHM), BLOCKING_FRAMES),
        };
        let frames = Pinger::answers(timed);
        std::thread::sleep(REST);
        self.contestant.tell(Job::Echo { waiting, frames })?;
        std::thread::sleep(UNTIL_READY);
        let pings = self.pinger.block(rhythm, timed);
        // What the contestant says explains best why nothing came back.
        let outcome = self.contestant.outcome()?;
        let pings = pings?;
        if outcome.answered == frames {
            Ok(pings)
        } else {
            Err(format!("{} frames were answered, {frames} answers came", outcome.answered))
        }
    }
}

impl Row {
    fn add(&mut self, pings: Pings) {
        self.blocks.push(median(&pings.round_trips_ns));
        self.all.extend(pings.round_trips_ns);
        self.lost += pings.lost;
    }
}
