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

/// Three classes, of PCP 7, 6 and the others. `one_in_three` shares windows between them.
fn schedule(of: &mut Draw<'_>, mode: TaprioMode) -> GateSchedule {
    let cycle = CYCLE_US / [1, 1, 2, 5][of(0, 3) as usize];
    let mut windows: Vec<(u8, i64, i64)> = Vec::new();
    let shared = of(0, 2) == 0;
    let mut at = 0;
    for class in [2, 1, 0] {
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
    GateSchedule { base_time: Tai(1_000_000_000 + of(0, 250_000)), cycle: Nanos::from_micros(cycle), entries, mode }
}

fn scenario(of: &mut Draw<'_>, mode: TaprioMode, shaped: bool) -> Scenario {
    let links = of(1, 3) as usize;
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
        port.queue = Queue::Taprio { classes: classes.clone(), schedule: schedule(of, mode) };
        port.shift = Nanos(of(0, 20_000));
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
        let stream = common::stream(&mut scenario, of(1, 160) as u16);
        stream.offset = Nanos(of(0, 240_000));
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
    assert!(cases.end - cases.start < CASES || (bounded > 100 && longest > 0.8), "{bounded}, {longest}");
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
