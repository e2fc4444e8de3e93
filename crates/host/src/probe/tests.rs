//! What rounds of frames say, of ports whose gates move, stand open, are shut, or stopped anywhere.

use super::*;
use crate::apply::tests::{SCENARIO, planned};

const SCHEDULE: &str = "qdisc replace dev va root handle 100: taprio num_tc 4 map 3 3 3 0 3 3 1 2 3 3 3 3 3 3 3 3 \
    queues 1@0 1@1 1@2 1@3 base-time 1000 sched-entry S 0c 30000 sched-entry S 00 15000 sched-entry S 01 50000 \
    sched-entry S 02 55000 sched-entry S 0c 100000 cycle-time 250000 clockid CLOCK_TAI";

fn gates(text: &str) -> Option<Gates> {
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    Gates::read(&words)
}

fn probe() -> Probe {
    let gates = gates(SCHEDULE).unwrap();
    let class = |(tc, priority)| Class { tc, priority, shut: gates.shut(tc) };
    let classes = gates.priorities().map(class).collect();
    Probe { device: "va".into(), gates, classes }
}

fn span(start: i64, end: i64) -> Span {
    Span { start: Nanos(start), end: Nanos(end) }
}

/// A round over all classes: frames where a round hands them over, `left` of class, instant says when they leave.
fn round(probe: &Probe, left: impl Fn(u8, Tai) -> Option<Tai>) -> Effect {
    let mut all = Vec::new();
    for class in &probe.classes {
        let mut earliest = Tai(10_000_000_000_777);
        let mut sent = Vec::new();
        for number in 0..FRAMES {
            let span = class.shut[number % class.shut.len()];
            let before = probe.gates.instant(span, number as i64 * 125, earliest);
            sent.push(Sent { before, after: before + Nanos(900), left: left(class.tc, before + Nanos(400)) });
            earliest = before + Nanos(125_000);
        }
        all.push((class, sent));
    }
    probe.judge(&all)
}

/// The next instant at which the gate of a class is open.
fn opening(gates: &Gates, tc: u8, at: Tai) -> Tai {
    let shut = gates.shut(tc);
    let phase = gates.phase(at);
    let into = shut.iter().find_map(|span| {
        let from = (phase - span.start).0.rem_euclid(gates.cycle.0);
        (from < span.length().0).then(|| span.length().0 - from)
    });
    at + Nanos(into.unwrap_or(0))
}

#[test]
fn schedules_are_read_from_their_words() {
    let read = gates(SCHEDULE).unwrap();
    assert_eq!((read.base, read.cycle), (Tai(1000), Nanos(250_000)));
    assert_eq!(read.priorities().collect::<Vec<_>>(), [(0, 3), (1, 6), (2, 7), (3, 0)]);
    assert_eq!(read.shut(0), [span(95_000, 295_000)]);
    assert_eq!(read.shut(2), [span(30_000, 150_000)]);
    assert_eq!(read.phase(Tai(251_500)), Nanos(500));
    for (text, other) in [
        ("sched-entry S 0c", "sched-entry H 0c"),
        (" 0c ", " zz "),
        ("250000", "260000"),
        ("15000", "0"),
        ("1000", "x"),
    ] {
        assert_eq!(gates(&SCHEDULE.replacen(text, other, 1)), None, "{text}");
    }
    assert_eq!(gates("qdisc replace dev va root fq_codel"), None);
}

#[test]
fn a_schedule_that_runs_is_seen_to_run_also_by_late_stamps() {
    let probe = probe();
    for late in [1, 1_000, 9_000] {
        let left = |tc, at| Some(opening(&probe.gates, tc, at) + Nanos(late));
        assert_eq!(round(&probe, left), Effect::Gated, "{late}");
    }
    // A machine that pauses: one in four is anywhere.
    let count = std::cell::Cell::new(0);
    let left = |tc, at| {
        count.set(count.get() + 1);
        Some(if count.get() % 4 == 0 { at } else { opening(&probe.gates, tc, at) + Nanos(1) })
    };
    assert_eq!(round(&probe, left), Effect::Gated);
    // A class that others keep from the line.
    let left = |tc, at| (tc != 3).then(|| opening(&probe.gates, tc, at));
    assert_eq!(round(&probe, left), Effect::Gated);
}

#[test]
fn wherever_a_schedule_stands_still_it_is_seen() {
    let probe = probe();
    assert!(matches!(round(&probe, |_, at| Some(at)), Effect::Dead(Why::Outside { .. })), "all open");
    assert_eq!(round(&probe, |_, _| None), Effect::Dead(Why::Nothing { frames: 32 }), "all shut");
    for mask in [0x0c, 0x00, 0x01, 0x02] {
        let effect = round(&probe, |tc, at| (mask >> tc & 1 == 1).then_some(at));
        assert!(matches!(effect, Effect::Dead(_)), "stopped with {mask:02x} open: {effect:?}");
    }
}

#[test]
fn frames_that_were_handed_over_too_late_say_nothing() {
    let probe = probe();
    let late = |sent: Tai| Sent { before: sent, after: sent + Nanos(200_000), left: Some(sent) };
    let all: Vec<_> = probe.classes.iter().map(|class| (class, vec![late(Tai(1_100_000_000)); FRAMES])).collect();
    assert_eq!(probe.judge(&all), Effect::Untold);
}

#[test]
fn ports_of_a_plan_are_probed_where_it_says_something() {
    let (probes, unprobed) = Probe::of(&planned(SCENARIO, "sw"));
    let [probe] = &probes[..] else { panic!("{probes:?}") };
    assert_eq!((probe.device(), probe.classes.len(), unprobed.len()), ("p1", 2, 0));
    // Classes with launch times take no frame without one.
    let etf = SCENARIO.replace("classes = [{}, {}]", "classes = [{}, { etf = { delta = \"1us\" } }]");
    let (probes, _) = Probe::of(&planned(&etf, "sw"));
    assert_eq!(probes[0].classes.iter().map(|class| class.priority).collect::<Vec<_>>(), [0]);
    let both = etf.replace("[{}, {", "[{ etf = { delta = \"1us\" } }, {");
    let (probes, unprobed) = Probe::of(&planned(&both, "sw"));
    assert!(probes.is_empty() && unprobed[0].starts_with("p1: no class"), "{probes:?} {}", planned(&both, "sw").all());
    // The card keeps these; and a cycle that nobody waits for.
    let (probes, unprobed) = Probe::of(&planned(
        &SCENARIO.replacen("map = [0, 0, 0, 1", "mode = \"full-offload\", map = [0, 0, 0, 1", 1),
        "sw",
    ));
    assert!(probes.is_empty() && unprobed.is_empty());
}

#[test]
fn a_probe_is_a_frame_that_no_bridge_passes_on() {
    let bytes = round::frame([2, 0, 0, 0, 0, 1]);
    assert_eq!((&bytes[..6], bytes.len()), (&[0x01, 0x80, 0xC2, 0, 0, 0x0E][..], 60));
    assert!(bytes[14..].starts_with(b"downbeat"));
}
