//! Random gates, kept by timers of Linux, by launch times and by hardware, on lines with streams and traffic: what comes
//! through is within its bounds, those by the phases too.
//!
//! Every case has its own generator, seeded by its number: `CASE=17` runs it alone, `CASES=20000` runs more.

mod common;

use calculus::Model;
use common::bounds::{figures, picos};
use downbeat_sim::{Options, simulate};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use scenario::*;
use units::{Nanos, Rate, Tai};

const CASES: u64 = 250;
const CYCLE_US: i64 = 250;

/// A draw from low to high, both included.
type Draw<'a> = dyn FnMut(i64, i64) -> i64 + 'a;

/// Three classes, of PCP 7, 6 and the others. One in three shares windows between them. Instants are multiples of `grid`.
fn schedule(of: &mut Draw<'_>, mode: TaprioMode, grid: i64) -> GateSchedule {
    let cycle = CYCLE_US / [1, 1, 2, 5][of(0, 3) as usize];
    let mut windows: Vec<(u8, i64, i64)> = Vec::new();
    let shared = of(0, 2) == 0;
    let mut at = 0;
    let order = [&[2, 1, 0][..], &[2, 1, 0], &[2, 1, 0, 2], &[0, 1, 2, 1, 0]][of(0, 3) as usize];
    for &class in order {
        let start = if shared { of(0, cycle - 14) } else { at + of(0, 6) * 4 };
        let length = of(14, cycle / 2).min(cycle - start);
        if length > 0 {
            windows.push((class, start, length));
            at = start + length;
        }
    }
    let mut edges: Vec<i64> = windows.iter().flat_map(|(_, start, length)| [*start, start + length]).collect();
    edges.extend([0, cycle]);
    edges.sort_unstable();
    edges.dedup();
    let entry = |edge: &[i64]| GateEntry {
        gates: windows
            .iter()
            .filter(|(_, start, length)| *start <= edge[0] && edge[1] <= start + length)
            .fold(0, |gates, (class, ..)| gates | 1 << class),
        interval: Nanos::from_micros(edge[1] - edge[0]),
    };
    let entries = edges.windows(2).map(entry).collect();
    GateSchedule {
        base_time: Tai(1_000_000_000 + of(0, 250_000) / grid * grid),
        cycle: Nanos::from_micros(cycle),
        entries,
        mode,
    }
}

fn scenario(of: &mut Draw<'_>, mode: TaprioMode, shaped: bool) -> Scenario {
    let links = of(1, 3) as usize;
    // Whole microseconds: frames are there as gates move.
    let grid = [1, 1_000][of(0, 1) as usize];
    let mode = match mode {
        TaprioMode::TxtimeAssist { txtime_delay } => {
            TaprioMode::TxtimeAssist { txtime_delay: Nanos(txtime_delay.0 / grid * grid) }
        }
        mode => mode,
    };
    let rates = vec![Rate::from_gbit(1); links];
    let latencies: Vec<Nanos> = (1..links).map(|_| Nanos(of(0, 5_000))).collect();
    let shaper = match mode {
        TaprioMode::TxtimeAssist { txtime_delay } => Shaper::Etf(Etf {
            delta: Nanos(of(1_000, txtime_delay.0)),
            offload: false,
            deadline_mode: false,
            skip_sock_check: true,
        }),
        TaprioMode::Software | TaprioMode::FullOffload => Shaper::None,
    };
    let mut classes =
        Classes { map: std::array::from_fn(|p| [0, 0, 0, 0, 0, 0, 1, 2][p & 7]), shapers: vec![shaper; 3] };
    if shaped {
        for class in [1, 2] {
            let idle_slope = Rate(of(1_000, 300_000) as u64 * 1_000);
            if of(0, 4) > 0 {
                classes.shapers[class] = Shaper::Cbs(Cbs { idle_slope, offload: mode == TaprioMode::FullOffload });
            }
        }
    }
    let mut scenario = common::line(&rates, &latencies, Nanos(25), &Queue::Fifo);
    for port in &mut scenario.ports {
        port.queue = Queue::Taprio { classes: classes.clone(), schedule: schedule(of, mode, grid) };
        port.shift = Nanos(of(0, 20_000) / grid * grid);
    }
    for host in &mut scenario.hosts {
        if let HostKind::Bridge { forwarder, .. } = &mut host.kind {
            *forwarder = if of(0, 3) == 0 { Forwarder::Hardware } else { Forwarder::Linux };
        }
    }
    // Sometimes so many that Linux has all of a bulk to hand on, and more behind it.
    let crowd = of(0, 1) == 0;
    for _ in 0..of(1, if crowd { 12 } else { 4 }) {
        let launch = of(0, 2) > 0;
        // Short ones where a bulk of them may stand before a window and leave no room in it.
        let longest = if shaped && mode == TaprioMode::Software { 40 } else { 160 };
        let stream = common::stream(&mut scenario, of(1, longest) as u16);
        stream.offset = Nanos(of(0, 240_000) / grid * grid);
        stream.echo = of(0, 1) == 0;
        stream.cycle = Nanos(250_000 * of(1, 2));
        stream.pcp = [6, 7][of(0, 1) as usize];
        stream.launch = launch;
    }
    if of(0, 2) > 0 {
        let rate = Rate::from_mbit(of(1, if crowd { 300 } else { 60 }) as u64);
        common::udp(&mut scenario, Some(rate), of(100, 1472) as u16);
    }
    scenario
}

fn within(shaped: bool, mode: fn(&mut Draw<'_>) -> TaprioMode) {
    let from = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let cases = from("CASE").map_or(0..from("CASES").unwrap_or(CASES), |case| case..case + 1);
    let (mut checked, mut bounded, mut longest, mut sum) = (0, 0, 0.0_f64, 0.0);
    for case in cases.clone() {
        let mut source = ChaCha8Rng::seed_from_u64(case);
        let mut of = |low: i64, high: i64| low + (source.next_u64() % (high - low + 1) as u64) as i64;
        let mode = mode(&mut of);
        let scenario = scenario(&mut of, mode, shaped);
        let bounds = calculus::bound(&scenario, Model::Packet);
        let outcome = simulate(&scenario, &Options { cycles: 40, seed: case, ..Options::default() }).unwrap();
        for (index, bound) in bounds.streams.iter().enumerate() {
            for (what, found, limit) in figures(&outcome, index, bound) {
                if let (Some(found), Some(limit)) = (found, limit) {
                    checked += 1;
                    assert!(
                        found <= limit,
                        "{mode:?}, case {case}, {}: {what} {found} above {limit}\n{}\n{:#?}",
                        bound.name,
                        bounds.table(),
                        scenario.ports.iter().map(|port| &port.queue).collect::<Vec<_>>()
                    );
                }
            }
            if let (Some(found), Some(limit)) = (outcome.network.delays[index].forward.max, picos(&bound.one_way)) {
                bounded += 1;
                longest = longest.max(found.0 as f64 / limit as f64);
                sum += found.0 as f64 / limit as f64;
            }
        }
    }
    println!(
        "{checked} figures of {bounded} bounded streams; the closest to its bound {longest:.3}, in the mean {:.3}",
        sum / f64::from(bounded)
    );
    assert!(cases.end - cases.start < CASES || (bounded > 100 && longest > 0.75), "{bounded}, {longest}");
}

#[test]
fn gates_by_timers_of_linux() {
    within(false, |_| TaprioMode::Software);
}

#[test]
fn gates_by_launch_times() {
    within(false, |of| TaprioMode::TxtimeAssist { txtime_delay: Nanos(of(2_000, 100_000)) });
}

#[test]
fn shapers_of_linux_below_its_gates() {
    within(true, |_| TaprioMode::Software);
}

#[test]
fn shapers_and_gates_of_hardware() {
    within(true, |_| TaprioMode::FullOffload);
}

#[test]
fn gates_of_hardware() {
    within(false, |_| TaprioMode::FullOffload);
}

/// Two frames come as the gate shuts; when credit is back for the second it does not fit any more, and waits for another cycle.
#[test]
fn a_shaper_behind_gates_takes_as_long_as_its_bound() {
    // Starts in 39.76 µs of 50, of 250: at 257.5 Mbit/s while open a frame of 10.24 µs is paid for in 39.77.
    let entry = |gates, micros| GateEntry { gates, interval: Nanos::from_micros(micros) };
    let shaper = Shaper::Cbs(common::cbs(51_500_000));
    let mut scenario = common::line(&[Rate::from_gbit(1)], &[], Nanos::ZERO, &common::mqprio(shaper));
    scenario.cycle = Nanos::from_micros(1_000);
    let (base_time, cycle) = (scenario.base_time, Nanos::from_micros(250));
    for port in &mut scenario.ports {
        let Queue::Mqprio(classes) = port.queue.clone() else { panic!("classes") };
        let entries = vec![entry(0b10, 50), entry(0b01, 200)];
        let schedule = GateSchedule { base_time, cycle, entries, mode: TaprioMode::FullOffload };
        port.queue = Queue::Taprio { classes, schedule };
    }
    for _ in 0..2 {
        let stream = common::stream(&mut scenario, 134);
        (stream.cycle, stream.offset) = (Nanos::from_micros(1_000), Nanos::from_micros(50));
    }
    let bounds = calculus::bound(&scenario, Model::Packet);
    let outcome = simulate(&scenario, &Options { cycles: 20, ..Options::default() }).unwrap();
    let delays = outcome.network.delays.iter().map(|delays| delays.forward.max.expect("sent").0);
    let (found, limit) = (delays.max().unwrap(), picos(&bounds.streams[0].one_way).expect("bounded"));
    println!("{found} ps of {limit} ps");
    assert!(found <= limit && found as f64 > 0.999 * limit as f64, "{found} {limit}\n{}", bounds.table());
}

/// The launch time that the kernel gives is known where the instant is at which a frame comes.
#[test]
fn a_launch_time_of_the_kernels_takes_as_long_as_the_phases_say() {
    let etf = Etf { delta: Nanos(10_000), offload: false, deadline_mode: false, skip_sock_check: true };
    let entry = |gates, micros| GateEntry { gates, interval: Nanos::from_micros(micros) };
    let mode = TaprioMode::TxtimeAssist { txtime_delay: Nanos(180_000) };
    let (mut ratios, mut any) = (Vec::new(), Vec::new());
    // Published at 150 µs. At 330 µs its window of the next cycle has not begun, begins, has begun, or is over.
    for opens in [90, 80, 70, 10] {
        let mut scenario = common::line(&[Rate::from_gbit(1)], &[], Nanos::ZERO, &common::mqprio(Shaper::None));
        let base_time = scenario.base_time;
        for port in &mut scenario.ports {
            let classes = Classes { map: [1; 16], shapers: vec![Shaper::Etf(etf.clone()); 2] };
            let entries = vec![entry(0b01, opens), entry(0b10, 60), entry(0b01, 190 - opens)];
            let schedule = GateSchedule { base_time, cycle: scenario.cycle, entries, mode };
            port.queue = Queue::Taprio { classes, schedule };
        }
        let stream = common::stream(&mut scenario, 3);
        (stream.launch, stream.echo) = (false, true);
        let bounds = calculus::bound(&scenario, Model::Packet);
        let outcome = simulate(&scenario, &Options { cycles: 40, ..Options::default() }).unwrap();
        for (what, found, limit) in figures(&outcome, 0, &bounds.streams[0]) {
            let (found, limit) = (found.expect("sent"), limit.expect("bounded"));
            assert!(found <= limit, "{opens}, {what}: {found} {limit}\n{}", bounds.table());
            let ratio = found as f64 / limit as f64;
            println!("opens at {opens} µs, {what}: {found} of {limit}, {ratio:.4}");
            match what {
                "one way (ps)" => any.push(ratio),
                "stack" => ratios.push(ratio),
                _ => {}
            }
        }
    }
    assert!(ratios.iter().all(|ratio| *ratio > 0.99), "{ratios:?}");
    assert!(any.iter().any(|ratio| *ratio > 0.99), "{any:?}");
}
