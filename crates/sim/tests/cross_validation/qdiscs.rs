//! prio, tbf, FQ-CoDel and netem, alone and one below the other.

use downbeat_sim::{Cause, Fate, FqCodel, Passed, Qdisc, pass};
use units::{Nanos, Rate};

use crate::lab::{self, Port, Sent};
use crate::{PRIORITIES, random};

/// Band 0 for priorities 6 and 7, 1 for 4 and 5, 2 for the rest.
const BANDS: [u8; 16] = [2, 2, 2, 2, 1, 1, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2];
const SIZES: [u32; 4] = [60, 146, 600, 1514];

struct Case {
    qdisc: Qdisc,
    port: Port,
}

fn case(name: &'static str, qdisc: Qdisc, commands: &[String], frames: Vec<Sent>) -> Case {
    let wire = !matches!(qdisc, Qdisc::Netem { .. });
    Case { qdisc, port: Port { name, queues: 1, wire, qdiscs: commands.to_vec(), frames } }
}

fn prio(place: &str) -> String {
    let map: Vec<String> = BANDS.iter().map(u8::to_string).collect();
    format!("{place} prio bands 3 priomap {}", map.join(" "))
}

fn tbf(mbit: u64, burst: u32, child: Option<Qdisc>) -> Qdisc {
    Qdisc::Tbf { rate: Rate::from_mbit(mbit), burst, child: child.map(Box::new), limit: 30_000 }
}

/// As many frames of a flow as FQ-CoDel has a number for it; the classes of `10:`.
fn of_flows(frames: Vec<Sent>) -> Vec<Sent> {
    frames.into_iter().map(|frame| Sent { priority: 0x10_0000 | (frame.priority + 1), ..frame }).collect()
}

/// A burst of `count` of each of three flows.
fn burst(count: usize) -> Vec<Sent> {
    let frame = |(n, priority)| Sent { after_ns: 50, priority, bytes: [1514, 1514, 146][n % 3] };
    (0..count * 3).map(|n| (n, [0, 1, 2][n % 3])).map(frame).collect()
}

fn check(cases: &[Case], test: &str) -> Option<Vec<Vec<Fate>>> {
    let ports: Vec<Port> = cases.iter().map(|case| case.port.clone()).collect();
    let seen = lab::observe(test, &ports)?;
    let compared = cases.iter().zip(&seen).map(|(case, seen)| {
        let through = Passed::Qdisc(&case.qdisc);
        let passage = if case.port.wire { lab::passage(through) } else { lab::lineless(through) };
        let fates = pass(&passage, &lab::arrivals(&case.port, seen)).unwrap();
        lab::compare(&case.port, seen, &fates);
        fates
    });
    Some(compared.collect())
}

fn lost(fates: &[Fate], why: Cause) -> usize {
    fates.iter().filter(|fate| **fate == Fate::Lost(why)).count()
}

#[test]
fn prio_tbf_and_netem_are_equal_frame_by_frame() {
    let busy = [50, 3_000, 9_000, 13_000];
    let loose = [50, 9_000, 100_000, 300_000];
    let under = |words: &str| ["root handle 1: ".to_owned() + words, prio("parent 1:1 handle 10:")];
    let wire = |rate, delay| Qdisc::Netem { rate, overhead: 24, delay: Nanos(delay), limit: 150 };
    let gigabit = Some(Rate::from_gbit(1));
    let cases = [
        case(
            "prio, random and busy",
            Qdisc::Prio { map: BANDS },
            &[prio("root handle 1:")],
            random(11, 400, &busy, &PRIORITIES, &SIZES),
        ),
        case(
            "tbf 100 Mbit/s alone",
            tbf(100, 3_000, None),
            &["root tbf rate 100mbit burst 3000 limit 30000".into()],
            random(12, 300, &loose, &PRIORITIES, &SIZES),
        ),
        case(
            "tbf 7 Mbit/s, one frame deep",
            tbf(7, 1_514, None),
            &["root tbf rate 7mbit burst 1514 limit 30000".into()],
            random(13, 200, &[50, 300_000, 900_000], &PRIORITIES, &[60, 333, 1514]),
        ),
        case(
            "tbf 300 Mbit/s, prio below",
            tbf(300, 4_000, Some(Qdisc::Prio { map: BANDS })),
            &under("tbf rate 300mbit burst 4000 limit 30000"),
            random(14, 400, &[50, 9_000, 20_000, 50_000], &PRIORITIES, &SIZES),
        ),
        case(
            "tbf with frames it cannot hold",
            tbf(100, 1_000, None),
            &["root tbf rate 100mbit burst 1000 limit 30000".into()],
            random(15, 100, &loose, &PRIORITIES, &SIZES),
        ),
        case(
            "netem as a wire of 1 Gbit/s",
            wire(gigabit, 0),
            &["root netem rate 1gbit 24 limit 150".into()],
            random(16, 400, &busy, &PRIORITIES, &SIZES),
        ),
        case(
            "netem as a wire of 1 Gbit/s, overflowing",
            wire(gigabit, 0),
            &["root netem rate 1gbit 24 limit 150".into()],
            random(17, 300, &[50, 1_000], &PRIORITIES, &SIZES),
        ),
        case(
            "netem with a delay of 48 µs",
            Qdisc::Netem { rate: None, overhead: 0, delay: Nanos(48_000), limit: 150 },
            &["root netem delay 48us limit 150".into()],
            random(18, 300, &busy, &PRIORITIES, &SIZES),
        ),
        case(
            "netem, wire and delay",
            wire(gigabit, 16_000),
            &["root netem delay 16us rate 1gbit 24 limit 150".into()],
            random(19, 300, &loose, &PRIORITIES, &SIZES),
        ),
    ];
    let Some(fates) = check(&cases, "prio, tbf and netem") else { return };
    assert!(lost(&fates[1], Cause::Full) + lost(&fates[2], Cause::Full) > 0);
    assert!(lost(&fates[4], Cause::TooLong) > 10);
    assert!(lost(&fates[6], Cause::Full) > 10);
}

#[test]
fn fq_codel_is_equal_frame_by_frame() {
    let plain = FqCodel::default();
    let hasty = FqCodel { target: Nanos(500_000), interval: Nanos(5_000_000), ..plain };
    let small = FqCodel { limit: 100, quantum: 600, ..hasty };
    let words = |place: &str, it: &FqCodel| {
        let (target, interval) = (it.target.0 / 1_000, it.interval.0 / 1_000);
        format!(
            "{place} fq_codel limit {} quantum {} target {target}us interval {interval}us flows 64",
            it.limit, it.quantum
        )
    };
    let root = |it: &FqCodel| [words("root handle 10:", it)];
    let under = |it: &FqCodel| {
        ["root handle 1: tbf rate 100mbit burst 1540 limit 3000000".into(), words("parent 1:1 handle 10:", it)]
    };
    let below = |it| tbf(100, 1_540, Some(Qdisc::FqCodel(it)));
    let cases = [
        case(
            "fq_codel, random and busy",
            Qdisc::FqCodel(plain),
            &root(&plain),
            of_flows(random(21, 400, &[50, 3_000, 9_000], &PRIORITIES, &SIZES)),
        ),
        case(
            "fq_codel, quantum 600",
            Qdisc::FqCodel(small),
            &root(&small),
            of_flows(random(22, 300, &[50, 2_000, 9_000], &[0, 1, 2], &SIZES)),
        ),
        case("fq_codel, one flow: frames without IP", Qdisc::FqCodel(plain), &root(&plain), {
            let frames = random(23, 200, &[50, 9_000], &[0], &SIZES);
            frames.into_iter().map(|frame| Sent { priority: 0, ..frame }).collect()
        }),
        case("fq_codel, bursts of three flows, too long", Qdisc::FqCodel(hasty), &root(&hasty), of_flows(burst(400))),
        case("fq_codel below tbf 100 Mbit/s, bursts", below(hasty), &under(&hasty), of_flows(burst(200))),
        case(
            "fq_codel below tbf 100 Mbit/s, random",
            below(hasty),
            &under(&hasty),
            of_flows(random(24, 900, &[50, 30_000, 60_000], &[0, 1, 2, 3], &SIZES)),
        ),
        case(
            "fq_codel below tbf 100 Mbit/s, full",
            below(small),
            &under(&small),
            of_flows(random(25, 500, &[50, 9_000, 20_000], &[0, 1, 2], &SIZES)),
        ),
    ];
    let Some(fates) = check(&cases, "fq_codel") else { return };
    assert!(lost(&fates[3], Cause::Codel) > 0 && lost(&fates[4], Cause::Codel) > 10);
    assert!(lost(&fates[6], Cause::Full) > 10);
}
