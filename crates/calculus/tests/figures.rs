//! Figures known from the papers and from independent computation.

mod common;

use common::{Line, mqprio, shaped, variables};
use downbeat_calculus::{
    self as calculus, Bound, BoundReport, Count, Exact, Model, Options, bound, bound_with, paper_table,
};
use scenario::{Cbs, Classes, GateEntry, GateSchedule, Queue, Shaper, TaprioMode, TrafficKind};
use units::{Nanos, Rate, Tai};

const SIZES: [u32; 8] = [59, 77, 113, 185, 329, 617, 1193, 1481];

/// Rezabek et al., Table IV, as printed.
const PRINTED: [[f64; 8]; 7] = [
    [0.954, 0.972, 0.995, 1.018, 1.037, 1.046, 1.045, 1.043],
    [1.334, 1.37, 1.415, 1.462, 1.499, 1.518, 1.516, 1.511],
    [1.714, 1.767, 1.836, 1.906, 1.961, 1.989, 1.987, 1.979],
    [2.094, 2.165, 2.256, 2.35, 2.423, 2.461, 2.458, 2.447],
    [2.474, 2.563, 2.677, 2.794, 2.885, 2.933, 2.929, 2.915],
    [2.854, 2.96, 3.097, 3.238, 3.347, 3.404, 3.4, 3.383],
    [3.234, 3.358, 3.518, 3.682, 3.809, 3.876, 3.871, 3.851],
];

fn wire(report: &BoundReport) -> &Bound {
    &report.streams[0].round_trip.as_ref().unwrap().wire
}

fn at(bound: &Bound) -> &Exact {
    bound.seconds().unwrap_or_else(|| panic!("{bound}"))
}

/// Milliseconds rounded to nearest, as the independent figures are given.
fn millis(bound: &Bound) -> f64 {
    let micros: f64 = bound.to_string().trim_end_matches(" µs").parse().unwrap();
    micros.round() / 1e3
}

#[test]
fn all_56_cells_of_the_papers_table() {
    let text = paper_table().to_string();
    let mut rows = text.lines().skip(2);
    for (links, printed) in PRINTED.iter().enumerate() {
        let cells: Vec<f64> =
            rows.next().unwrap().split_whitespace().skip(1).map(|cell| cell.parse().unwrap()).collect();
        assert_eq!(cells, printed, "{} links", links + 1);
    }
}

#[test]
fn the_papers_model_of_a_scenario_gives_the_same_cells() {
    let table = paper_table();
    for (column, payload) in SIZES.into_iter().enumerate() {
        for links in 1..=7 {
            let report = bound(&Line::gigabit(links).stream(0, links, variables(payload)).scenario, Model::Paper);
            assert_eq!(at(wire(&report)), &table.cells[links - 1][column]);
        }
    }
    assert_eq!(wire(&paper_line(59, 7, 100)).to_string(), "3234.693 µs");
    assert_eq!(at(&paper_line(1481, 7, 100).streams[0].one_way).to_string(), table_one_way(1481).to_string());
}

fn table_one_way(payload: u32) -> Exact {
    let need = Exact::new((u64::from(payload + 42) * 8 * 4_000).into(), 1.into());
    let line = Exact::from_integer(1_000_000_000.into());
    Exact::from_integer((7 * 8 * (payload + 18)).into()) * (need.recip() - line.recip())
}

/// Seven links with CBS at `percent` of the exact need.
fn paper_line(payload: u32, links: usize, percent: u64) -> BoundReport {
    let need = u64::from(payload + 42) * 8 * 4_000;
    let queue = shaped(Rate(need * percent / 100));
    bound(&Line::gigabit(links).queue(queue).stream(0, links, variables(payload)).scenario, Model::Paper)
}

#[test]
fn over_and_under_provisioning() {
    let more = [3.107, 3.225, 3.377, 3.533, 3.653, 3.715, 3.707, 3.687];
    for (payload, expected) in SIZES.into_iter().zip(more) {
        // Printed cut off or rounded: within a microsecond.
        let found = at(wire(&paper_line(payload, 7, 105))) * Exact::from_integer(1_000_000.into());
        let expected = (expected * 1e3_f64).round() as i64;
        assert!((found.to_integer() - expected).magnitude() <= &1_u32.into(), "{payload} B: {found}, not {expected}");
    }
    for (percent, unbounded) in [(97, 2), (95, 3), (99, 0)] {
        for (column, payload) in SIZES.into_iter().enumerate() {
            let report = paper_line(payload, 7, percent);
            match wire(&report) {
                Bound::Unbounded(reason) => {
                    assert!(column >= 8 - unbounded, "{payload} B at {percent} %");
                    assert!(reason.contains("are reserved"), "{reason}");
                }
                Bound::At(_) => assert!(column < 8 - unbounded, "{payload} B at {percent} %"),
            }
        }
    }
}

#[test]
fn seven_links_with_and_without_lower_frames() {
    for (payload, lower, packet, paper) in
        [(59, 0, 0.586, 3.235), (59, 1542, 0.759, 3.565), (1481, 0, 0.746, 3.852), (1481, 1542, 0.918, 4.185)]
    {
        let need = Rate(u64::from(payload + 42) * 8 * 4_000);
        let scenario = Line::gigabit(7).queue(shaped(need)).stream(0, 7, variables(payload)).scenario;
        let options = Options { unnamed_frame_bytes: lower, ..Options::default() };
        assert_eq!(millis(wire(&bound_with(&scenario, Model::Packet, &options))), packet, "{payload}/{lower}");
        assert_eq!(millis(wire(&bound_with(&scenario, Model::Paper, &options))), paper, "{payload}/{lower}");
    }
}

#[test]
fn ten_flows_over_seven_ports() {
    let need = Rate(10 * 371 * 8 * 4_000);
    let mut line = Line::gigabit(7).queue(shaped(need));
    for _ in 0..10 {
        line = line.stream(0, 7, variables(329));
    }
    let options = Options { unnamed_frame_bytes: 1542, ..Options::default() };
    let report = bound_with(&line.scenario, Model::Packet, &options);
    for stream in &report.streams {
        // 9·2968/118.72 Mbit/s + 7·12.336 + 7·2.968 µs.
        assert_eq!(stream.one_way.to_string(), "332.128 µs");
        assert_eq!(stream.one_way_best.to_string(), "20.776 µs");
    }
    let terms = report.streams[0].ports[0].terms.as_ref().unwrap();
    // All ten, and what comes while a lower frame is sent: 29680 + 118.72 Mbit/s · 12.336 µs.
    assert_eq!(terms.backlog_bits.to_string(), "31144.530");
    assert_eq!(terms.utilisation_percent.to_string(), "100");
}

#[test]
fn a_stored_frame_takes_its_time() {
    let rate = Rate::from_mbit(100);
    let line = Line::new(&[rate]).cycle(Nanos::from_micros(200)).stream(0, 1, variables(1481));
    let report = bound(&line.scenario, Model::Packet);
    assert_eq!(report.streams[0].one_way.to_string(), "121.840 µs");
    // The paper's model would have it there before its last bit is sent.
    let fluid = bound(&line.scenario, Model::Paper);
    assert_eq!(fluid.streams[0].one_way.to_string(), "76.929 µs");
}

/// RTT of seed 000's Tables V and XI, and counters, from phases alone (two links, delays of a few µs).
#[test]
fn scheduled_round_trips() {
    // (window, offset in µs, launch, round trip in µs, elapsed cycles)
    for (window, offset, launch, expected, cycles) in [
        (200_000_000, 150, true, 500, 4),
        (200_000_000, 0, true, 250, 2),
        (200_000_000, 150, false, 250, 2),
        (0, 150, true, 500, 4),
        // Offsets beyond a cycle: launched at 400 µs, three starts later seen … the same as 150.
        (200_000_000, 400, true, 750, 6),
    ] {
        let line = Line::gigabit(2).window(window).stream_with(0, 2, 8, |stream| {
            stream.offset = Nanos::from_micros(offset);
            stream.launch = launch;
        });
        let report = bound(&line.scenario, Model::Packet);
        let trip = report.streams[0].round_trip.as_ref().unwrap();
        let delay = at(&report.streams[0].one_way);
        let expected = Exact::new(expected.into(), 1_000_000.into());
        assert_eq!(at(&trip.wire_scheduled), &(&expected + delay), "{window} {offset} {launch}");
        assert_eq!(trip.counter, Count::At { cycles, used: cycles + 1 });
        assert_eq!(trip.counter, trip.counter_best);
        assert!(at(&trip.wire) >= at(&trip.wire_scheduled));
        assert!(at(&trip.stack) >= at(&trip.stack_scheduled));
        assert!(at(&trip.wire_best) <= at(&trip.wire_scheduled_best));
        assert!(at(&trip.stack_best) <= at(&trip.stack_scheduled_best));
        assert!(at(&trip.wire_scheduled_best) <= at(&trip.wire_scheduled));
    }
}

#[test]
fn generic_node_delay_takes_the_window_of_the_scenario() {
    for (window, node) in [(300_000_000, 575), (200_000_000, 600), (0, 650)] {
        let report = bound(&Line::gigabit(1).window(window).stream(0, 1, 3).scenario, Model::Packet);
        let network = at(&report.streams[0].one_way) * Exact::from_integer(2.into());
        assert_eq!(at(wire(&report)) - network, Exact::new(node.into(), 1_000_000.into()));
    }
}

#[test]
fn what_has_no_bound_says_why() {
    let slow = shaped(Rate(101 * 8 * 4_000 - 1));
    let reason = |line: Line| match &bound(&line.scenario, Model::Packet).streams[0].one_way {
        Bound::Unbounded(reason) => reason.clone(),
        Bound::At(_) => panic!("bounded"),
    };
    let streamed = |queue: Queue| Line::gigabit(2).queue(queue).stream(0, 2, 3);
    assert!(reason(streamed(slow)).contains("are served"));
    let tcp = || Line::gigabit(2).traffic(0, 2, TrafficKind::Tcp, None, 1448, 0).stream(0, 2, 3);
    assert!(reason(tcp().queue(Queue::FqCodel)).contains("port w → b1: fq_codel may put all flows into one queue"));
    assert!(reason(tcp()).contains("TCP traffic w → r"));
    let gates = vec![GateEntry { gates: 0b11, interval: Nanos(250_000) }];
    // Hardware's gates, and a shaper of Linux'.
    let shaper = Shaper::Cbs(Cbs { idle_slope: Rate::from_mbit(50), offload: false });
    let gated = Queue::Taprio {
        classes: Classes { map: [1; 16], shapers: vec![Shaper::None, shaper] },
        schedule: GateSchedule {
            base_time: Tai(0),
            cycle: Nanos(250_000),
            entries: gates,
            mode: TaprioMode::FullOffload,
        },
    };
    assert!(reason(streamed(gated)).contains("cbs behind gates is bounded where hardware keeps both, or Linux both"));
    let udp = Line::gigabit(2).traffic(0, 2, TrafficKind::Udp, None, 1472, 0).stream(0, 2, 3);
    assert!(reason(udp).contains("UDP traffic w → r has no rate"));
    // Acknowledgements meet the answers on their way back.
    let acknowledged = Line::gigabit(2).traffic(2, 0, TrafficKind::Tcp, None, 1448, 0).stream(0, 2, 3);
    assert!(reason(acknowledged).contains("acknowledgements of TCP traffic r → w"));
    // Above it, no traffic matters but the one frame on the line: 1488 + 38 bytes.
    let above = bound(&tcp().queue(mqprio(&[])).scenario, Model::Packet);
    assert_eq!(above.streams[0].one_way.to_string(), "26.032 µs");
    let below = tcp().queue(mqprio(&[])).stream_with(0, 2, 3, |stream| stream.pcp = 0);
    assert!(bound(&below.scenario, Model::Packet).streams[1].one_way.reason().unwrap().contains("TCP"));
}

#[test]
fn below_a_shaped_class_there_is_a_bound() {
    let cbs = |mbit| Shaper::Cbs(Cbs { idle_slope: Rate::from_mbit(mbit), offload: true });
    let line = Line::gigabit(1)
        .queue(mqprio(&[(7, cbs(50)), (6, cbs(20))]))
        .stream(0, 1, 163)
        .stream_with(0, 1, 3, |stream| stream.pcp = 6)
        .stream_with(0, 1, 3, |stream| stream.pcp = 5)
        .traffic(0, 1, TrafficKind::Tcp, None, 1460, 0);
    let report = bound(&line.scenario, Model::Packet);
    // Class B after Boyer and Azua, with L_N/(C − R_A) where they have L_N/C.
    let terms = report.streams[1].ports[0].terms.as_ref().unwrap();
    let micros = Exact::from_integer(1_000_000.into());
    let boyer = 12.304 + 12.328 + 12_304.0 * 50.0 / (1_000.0 * 950.0);
    let found = at(&terms.service_latency) * micros;
    let found = num_traits::ToPrimitive::to_f64(&found).unwrap();
    assert!(found >= boyer && found < boyer + 0.66, "{found}, Boyer and Azua {boyer}");
    assert!(at(&report.streams[2].one_way) > at(&report.streams[1].one_way));
}

#[test]
fn the_form_of_the_answer() {
    let line = Line::gigabit(2).stream(0, 2, 3).stream(0, 1, 8);
    let report = bound(&line.scenario, Model::Packet);
    let text = serde_json::to_string_pretty(&report).unwrap();
    assert_eq!(serde_json::from_str::<BoundReport>(&text).unwrap(), report);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["format"], "downbeat/bound/1");
    let stream = &value["streams"][0];
    assert!(stream["one_way"]["exact_s"].is_string() && stream["one_way"]["us"].is_string());
    assert!(stream["round_trip"]["counter"]["used"].is_u64());
    assert_eq!(stream["ports"].as_array().unwrap().len(), 4);
    // The ports add up to the bound.
    for stream in &report.streams {
        let parts = stream.ports.iter().filter(|port| port.direction == calculus::Direction::Out);
        let sum: Exact = parts.map(|port| at(&port.contribution).clone()).sum();
        assert_eq!(&sum, at(&stream.one_way));
    }
    println!("{}", report.table());
    println!("{}", paper_table());
    assert!(report.table().contains("min R"));
}

#[test]
fn late_hosts_make_bursts_and_late_answers() {
    let need = Rate(101 * 8 * 4_000);
    let jitter = Exact::new(10.into(), 1_000_000.into());
    for launch in [true, false] {
        let line = Line::gigabit(3).queue(shaped(need)).stream_with(0, 3, 3, |stream| stream.launch = launch);
        let punctual = bound(&line.scenario, Model::Packet);
        let options = Options { host_jitter: Nanos::from_micros(10), ..Options::default() };
        let late = bound_with(&line.scenario, Model::Packet, &options);
        // The exact need gives back no time: the shaper holds early frames for as long as others were late.
        assert_eq!(at(&late.streams[0].one_way) - at(&punctual.streams[0].one_way), jitter);
        let more = at(wire(&late)) - at(wire(&punctual));
        let twice_or_thrice = Exact::from_integer(if launch { 2 } else { 3 }.into());
        assert_eq!(more, &jitter * twice_or_thrice);
    }
}

#[test]
fn bursts_around_a_ring_have_no_bound_yet() {
    let mut line = Line::gigabit(3);
    line.scenario.ports[4].peer = scenario::HostId(0);
    for (first, second) in [(0, 2), (2, 4), (4, 0)] {
        line = line.stream_with(0, 1, 3, |stream| {
            stream.echo = false;
            stream.path = vec![scenario::PortId(first), scenario::PortId(second)];
        });
    }
    for stream in bound(&line.scenario, Model::Packet).streams {
        assert!(stream.one_way.reason().unwrap().contains("ring of ports"), "{}", stream.one_way);
        assert!(stream.round_trip.is_none());
    }
}
