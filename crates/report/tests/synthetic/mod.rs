//! Made-up runs for tests and the sample page: plausible, repeatable, of no machine.
#![allow(dead_code)] // each user takes a part

use downbeat_report::RunInput;
use measure::{
    Amount, CounterReference, CounterSeen, Counters, Dist, EndMargins, FrameRow, HostResult, Incident, Kind, Launch,
    Loss, Machine, Margin, Margins, RUN_FORMAT, RoundTrips, RunFile, ScenarioRef, Split, SplitMessage, SplitTimes,
    Stage, StreamResult, Verdict, VerdictItem, flags, kinds,
};
use scenario::{
    ClockRole, FieldEncoding, Forwarder, Fraction, Host, HostId, HostKind, Limit, LimitValue, Link, LinkId, Phases,
    Port, PortId, Quantity, Queue, Scenario, Stream,
};
use serde_json::json;
use units::{Nanos, Rate, Tai};

/// The file that the scenario would be read from.
const SOURCE: &str = r#"name = "bridged-250us"
requirement = { round_trip_wire = "600us", spacing_error = "125us", dSum = "1e-5" }

[time]
cycle = "250us"
phases = { subscribe = 0.0, application = 0.3, publish = 0.6 }
window = 0.2
offset = "150us"

[hosts.pub]
[hosts.br]
kind = "bridge"
latency = "2us"
[hosts.loop]

[[links]]
between = ["pub", "br"]
rate = "1Gbit/s"
[[links]]
between = ["br", "loop"]
rate = "1Gbit/s"

[[streams]]
name = "loop"   # <the "papers'" frame> & its echo
writer = "pub"
reader = "loop"
echo = true
variables = 8
vid = 3000
pcp = 7
launch = true
"#;

/// Numbers that look random and are the same everywhere.
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Evenly between 0 and 1.
    pub(crate) fn even(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Exponential with this mean, in nanoseconds.
    pub(crate) fn wait(&mut self, mean_ns: f64) -> i64 {
        (-(1.0 - self.even()).ln() * mean_ns) as i64
    }
}

/// Publisher, bridge, loopback; 250 µs.
pub(crate) fn scenario() -> Scenario {
    let phases = Phases {
        subscribe: Fraction(0),
        window: Fraction(200_000_000),
        application: Fraction(300_000_000),
        publish: Fraction(600_000_000),
    };
    let host = |name: &str, kind, publisher_id| Host {
        name: name.into(),
        kind,
        clock: ClockRole::Shared,
        phases,
        publisher_id,
        ssh: None,
    };
    let rate: Rate = "1Gbit/s".parse().unwrap();
    let link = |a, b| Link { ends: [HostId(a), HostId(b)], rate, propagation: Nanos(25), ptp_only: false };
    let port = |host, peer, link| Port {
        host: HostId(host),
        peer: HostId(peer),
        link: LinkId(link),
        queue: Queue::Fifo,
        shift: Nanos(0),
        interface: None,
    };
    Scenario {
        name: "bridged-250us".into(),
        cycle: Nanos(250_000),
        base_time: Tai(0),
        threads: Default::default(),
        backlog: Default::default(),
        hosts: vec![
            host("pub", HostKind::Station, 1),
            host("br", HostKind::Bridge { latency: Nanos(2_000), forwarder: Forwarder::Linux }, 2),
            host("loop", HostKind::Station, 3),
        ],
        links: vec![link(0, 1), link(1, 2)],
        ports: vec![port(0, 1, 0), port(1, 0, 0), port(1, 2, 1), port(2, 1, 1)],
        streams: vec![Stream {
            name: "loop".into(),
            writer: HostId(0),
            reader: HostId(2),
            echo: true,
            variables: 8,
            encoding: FieldEncoding::Variant,
            vid: 3000,
            pcp: 7,
            destinations: [[1, 0, 0x5e, 0, 0, 1], [1, 0, 0x5e, 0, 0, 2]],
            udp: None,
            writer_group_id: 100,
            cycle: Nanos(250_000),
            start: Nanos(0),
            offset: Nanos(150_000),
            launch: true,
            breaches: None,
            applications: Default::default(),
            path: vec![PortId(0), PortId(2)],
            return_path: vec![PortId(3), PortId(1)],
        }],
        traffic: vec![],
        requirement: vec![
            Limit { quantity: Quantity::RoundTripWire, value: LimitValue::Span(Nanos(600_000)) },
            Limit { quantity: Quantity::SpacingError, value: LimitValue::Span(Nanos(125_000)) },
            Limit { quantity: Quantity::LossSum, value: LimitValue::Share(1e-5) },
        ],
        installation: Default::default(),
        requirement_class: None,
        source: SOURCE.into(),
    }
}

/// Rows of `frames` messages. A measured host sleeps badly now and then and stops once, in the middle.
pub(crate) fn rows(frames: u64, measured: bool) -> Vec<FrameRow> {
    const CYCLE: i64 = 250_000;
    let mut noise = Noise::new(if measured { 7 } else { 1 });
    let base = if measured { 1_900_000_000_000_000_000 } else { 0 };
    let stop = frames / 2;
    (0..frames)
        .map(|k| {
            let start = base + k as i64 * CYCLE;
            let late = |noise: &mut Noise| {
                let rare = if noise.even() < 2e-4 { noise.wait(20_000.0) } else { 0 };
                if measured { 1_500 + noise.wait(900.0) + rare } else { 0 }
            };
            let pass = |noise: &mut Noise| if measured { 3_100 + noise.wait(500.0) } else { 4_386 };
            let t1 = start + 150_000 + late(&mut noise);
            let launch = start + CYCLE + 150_000;
            let mut t2 = launch + if measured { 90 + noise.wait(120.0) } else { 0 };
            if measured && (stop..stop + 12).contains(&k) {
                t2 += 3_400_000 - (k - stop) as i64 * 280_000;
            }
            let t3 = t2 + pass(&mut noise);
            // Read in the next subscribe window, echoed with the launch of the cycle after.
            let cycles = t3.div_euclid(CYCLE) + 1;
            let t4 = cycles * CYCLE + late(&mut noise) + if measured { 700 } else { 0 };
            let t5 = cycles * CYCLE + 150_000 + late(&mut noise);
            let t6 = (cycles + 1) * CYCLE + 150_000 + if measured { 90 + noise.wait(120.0) } else { 0 };
            let t7 = t6 + pass(&mut noise);
            let t8 = (t7.div_euclid(CYCLE) + 1) * CYCLE + late(&mut noise) + if measured { 700 } else { 0 };
            let lost = measured && (stop..stop + 2).contains(&k);
            let mut t = [t1, t2, t3, t4, t5, t6, t7, t8].map(Some);
            let mut flag = if measured && (stop..stop + 12).contains(&k) { flags::HOST_OUTLIER } else { 0 };
            if lost {
                t[4..].fill(None);
                flag |= flags::LOST_LOOPBACK;
            }
            FrameRow {
                stream: 0,
                cycle: start / CYCLE,
                counter: k + 1,
                sequence: Some(k as u32 & 0xffff),
                bytes: 122,
                launch: Some(launch),
                t,
                flags: flag,
            }
        })
        .collect()
}

fn stage(rows: &[FrameRow], from: usize, to: usize, words: &str) -> Option<Stage> {
    let spent = Dist::of(rows.iter().filter_map(|r| r.span(from, to)))?;
    Some(Stage { name: format!("T{to}−T{from}"), words: words.into(), spent })
}

/// Parts of the messages as they were made: late hosts where they read, wire from port to port, 1 µs of stack.
fn split(rows: &[FrameRow]) -> Option<Split> {
    const CYCLE: i64 = 250_000;
    let message = |row: &FrameRow| {
        let [t1, t2, t3, t4, t5, t6, t7, t8] = row.t;
        let (whole_ns, wire) = (row.span(1, 8)?, row.span(2, 3)? + row.span(6, 7)?);
        let host = (t4? % CYCLE + t8? % CYCLE + t2? - row.launch? - 1_000).max(0);
        let stack = 1_000.min(whole_ns - wire - host);
        Some(SplitMessage {
            counter: row.counter,
            cycle: row.cycle,
            whole_ns,
            schedule_ns: Some(whole_ns - wire - host - stack),
            stack_ns: Some(stack),
            wire_ns: Some(wire),
            host_ns: Some(host),
            t: SplitTimes { t1, t2, t3, t4, t5, t6, t7, t8 },
        })
    };
    let mut all: Vec<SplitMessage> = rows.iter().filter_map(message).collect();
    all.sort_by_key(|message| std::cmp::Reverse(message.whole_ns));
    let dist = |part: fn(&SplitMessage) -> Option<i64>| Dist::of(all.iter().filter_map(part));
    let mut worst: Vec<SplitMessage> = all.iter().take(10).cloned().collect();
    if let Some(first) = worst.first_mut() {
        // One whose stamp of the answer's departure is missing.
        (first.wire_ns, first.stack_ns, first.t.t6) = (None, None, None);
    }
    (!all.is_empty()).then(|| Split {
        of: "round_trip.stack".into(),
        schedule: dist(|m| m.schedule_ns),
        stack: dist(|m| m.stack_ns),
        wire: dist(|m| m.wire_ns),
        host: dist(|m| m.host_ns),
        median: all.get(all.len() / 2).cloned(),
        p99: all.get(all.len() / 100).cloned(),
        worst,
    })
}

fn reference(rows: &[FrameRow]) -> CounterReference {
    let mut seen = std::collections::BTreeMap::new();
    for span in rows.iter().filter_map(|row| row.span(1, 8)) {
        *seen.entry((span + 150_000) / 250_000 + 1).or_insert(0) += 1;
    }
    let seen = seen.into_iter().map(|(used, readings)| CounterSeen { used, readings }).collect();
    CounterReference { scenario_best: 5, seed_001_best: Some(5), seed_001_worst: Some(9), seen }
}

fn margins(frames: u64) -> Margins {
    let margin = |late_max_ns: i64, violated| {
        let (configured_ns, took_max_ns) = (75_000, 2_500);
        let found_ns = configured_ns - late_max_ns - took_max_ns;
        let share = |ns: i64| ns as f64 / 250_000.0;
        Margin {
            configured_ns,
            configured_share: share(configured_ns),
            found_ns,
            found_share: share(found_ns),
            late_max_ns,
            took_max_ns,
            count: frames,
            violated,
        }
    };
    let end = |host: &str, late: i64, violated| EndMargins {
        host: host.into(),
        transfer_safety_margin: Some(margin(late, violated)),
        application_safety_margin: Some(margin(20_000, 0)),
        held_ns: 0,
        smallest_phases: Vec::new(),
        advice: "application = 0.2, publish = 0.29 would hold with 99.9 %, as made up".into(),
    };
    Margins { writer: Some(end("pub", 90_000, 3)), reader: Some(end("loop", 30_000, 0)) }
}

/// A run with the figures of its rows.
pub(crate) fn run(frames: u64, kind: Kind) -> RunInput {
    let measured = kind == Kind::Measured;
    let rows = rows(frames, measured);
    let scenario = scenario();
    let dist = |pick: fn(&FrameRow) -> Option<i64>| Dist::of(rows.iter().filter_map(pick));
    let arrivals: Vec<i64> = rows.iter().filter_map(|r| r.at(3)).collect();
    let spacing = || arrivals.windows(2).map(|w| w[1] - w[0]);
    let wire = dist(FrameRow::round_trip_wire);
    let lost = rows.iter().filter(|r| r.has(flags::LOST)).count() as u64;
    let counter = Dist::of(rows.iter().filter_map(|r| r.span(1, 8)).map(|s| (s + 150_000) / 250_000));
    let used = counter.as_ref().map(|d| Dist {
        min: d.min + 1,
        mean: d.mean + 1.0,
        p50: d.p50 + 1,
        p90: d.p90 + 1,
        p99: d.p99 + 1,
        p99_9: d.p99_9 + 1,
        p99_99: d.p99_99 + 1,
        max: d.max + 1,
        ..d.clone()
    });
    let mut stream = StreamResult {
        arrived: None,
        name: "loop".into(),
        frames,
        bytes: 104,
        cycle_ns: Some(250_000),
        offset_ns: Some(150_000),
        round_trip: RoundTrips {
            wire: wire.clone(),
            stack: dist(FrameRow::round_trip_stack),
            counter,
            counter_used: used,
        },
        one_way: dist(FrameRow::one_way),
        one_way_stack: dist(FrameRow::one_way_stack),
        spacing: Dist::of(spacing()),
        jitter: Default::default(),
        loss: Loss {
            published: frames.saturating_sub(4),
            under_way: frames.min(4),
            dP: Some(0),
            dL: Some(lost),
            dbL: measured.then_some(0),
            dbP: measured.then_some(0),
            dSum: Some(lost),
            ..Loss::default()
        },
        counters: Counters { missed: Some(lost), repeated: Some(lost), ..Counters::default() },
        breaches: Vec::new(),
        applications: Vec::new(),
        drains: Vec::new(),
        launch: measured.then(|| Launch {
            late: rows.iter().filter(|r| r.has(flags::HOST_OUTLIER)).count() as u64,
            late_after_ns: 25_000,
            error: Dist::of(rows.iter().filter_map(|r| Some(r.at(2)? - r.launch?))),
            mechanism: Some("own pacing: sleep, then spin".into()),
        }),
        stages: [
            stage(&rows, 1, 2, "handed over to leaving, at pub"),
            stage(&rows, 2, 3, "on the way from pub to loop"),
            stage(&rows, 3, 4, "arrived to decoded, at loop"),
            stage(&rows, 4, 5, "decoded to answered, at loop"),
            stage(&rows, 5, 6, "answered to leaving, at loop"),
            stage(&rows, 6, 7, "on the way from loop to pub"),
            stage(&rows, 7, 8, "arrived to decoded, at pub"),
        ]
        .into_iter()
        .flatten()
        .collect(),
        split: split(&rows),
        counter_reference: (frames > 0).then(|| reference(&rows)),
        margins: if measured && frames > 100 { margins(frames) } else { Margins::default() },
        without_host_outliers: None,
    };
    stream.jitter.spacing_error = Dist::of(spacing().map(|s| (s - 250_000).abs()));
    let found = wire.as_ref().map(|d| Amount::Whole(d.max));
    let wire_met = wire.as_ref().is_some_and(|d| d.max <= 600_000);
    let spacing_found = stream.jitter.spacing_error.as_ref().map(|d| d.max);
    let items = vec![
        item("round_trip_wire", "ns", Amount::Whole(600_000), found, wire_met),
        item(
            "spacing_error",
            "ns",
            Amount::Whole(125_000),
            spacing_found.map(Amount::Whole),
            spacing_found.is_some_and(|s| s <= 125_000),
        ),
        item("dSum", "share", Amount::Share(1e-5), Some(Amount::Share(lost as f64 / frames.max(1) as f64)), lost == 0),
    ];
    let met = items.iter().all(|i| i.met);
    let mut incidents = Vec::new();
    let mut hosts = Vec::new();
    if measured && frames > 100 {
        let stopped = 1_900_000_000_000_000_000 + (frames / 2) as i64 * 250_000;
        incidents = vec![
            incident(
                stopped,
                kinds::HOST_LATE,
                "pub did not run for 3.4 ms: its publish phase began 3.4 ms late, which is the scheduler or the hypervisor, not the network",
                12,
                "pub",
            ),
            incident(
                stopped + 250_000,
                kinds::LAUNCH_LATE,
                "12 frames left up to 3.4 ms after their launch time because pub did not run",
                12,
                "loop",
            ),
            incident(
                stopped + 500_000,
                kinds::FRAMES_LOST,
                "2 frames reached loop together with newer ones and were not answered",
                2,
                "loop",
            ),
        ];
        let mut noise = Noise::new(3);
        for host in ["pub", "loop"] {
            for phase in ["subscribe", "application", "publish", "launch"] {
                let late = Dist::of((0..frames).map(|_| 1_200 + noise.wait(800.0))).unwrap();
                let took = Dist::of((0..frames).map(|_| 400 + noise.wait(200.0))).unwrap();
                let outliers = u64::from(host == "pub");
                let (host, phase) = (host.into(), phase.into());
                hosts.push(HostResult { host, phase, late, took, outliers, outlier_after_ns: 100_000 });
            }
        }
    }
    let file = RunFile {
        clocks: None,
        parts: Vec::new(),
        format: RUN_FORMAT.into(),
        kind,
        scenario: ScenarioRef {
            name: scenario.name.clone(),
            sha256: "5d41402abc4b2a76b9719d911017c592ae1f0d6b3a2c4e5f60718293a4b5c6d7".into(),
            cycle_ns: 250_000,
            offset_ns: 150_000,
        },
        machine: machine(measured),
        streams: vec![stream],
        hosts,
        verdict: Verdict { met, items },
        incidents,
        incidents_left_out: Default::default(),
    };
    let dir_name = if measured { "bridged-250us-measured" } else { "bridged-250us-simulated" };
    RunInput { dir_name: dir_name.into(), run: file, rows, scenario }
}

fn item(quantity: &str, unit: &str, limit: Amount, found: Option<Amount>, met: bool) -> VerdictItem {
    let why = if met { "the largest value is within the limit" } else { "the largest value exceeds the limit" };
    VerdictItem {
        quantity: quantity.into(),
        stream: "loop".into(),
        unit: unit.into(),
        limit,
        found,
        met,
        why: why.into(),
    }
}

fn incident(at_ns: i64, kind: &str, cause: &str, frames: u64, place: &str) -> Incident {
    let lasted_ns = (kind == kinds::HOST_LATE).then_some(3_400_000);
    Incident { at_ns, kind: kind.into(), cause: cause.into(), frames, lasted_ns, place: Some(place.into()) }
}

fn machine(measured: bool) -> Machine {
    let value = if measured {
        json!({
            "command": ["downbeat", "run", "bridged-250us.toml", "--cycles", "40000"],
            "kernel": "6.8.0-45-generic #45 SMP PREEMPT_DYNAMIC", "cpu": "example CPU, 2 cores at 2.4 GHz",
            "clock": "CLOCK_TAI (tsc)", "governor": "not readable", "virtual_machine": "kvm",
            "link": "veth pairs in network namespaces", "pacing": "own pacing: sleep, then spin",
            "qdiscs": { "pub → br": "noqueue", "br → loop": "noqueue" },
            "granted": ["SCHED_FIFO 80", "locked memory", "pinned to CPU 1"]
        })
    } else {
        json!({ "command": "downbeat simulate bridged-250us.toml --cycles 40000 --seed 1", "seed": 1,
                "pacing": "launch time, modelled", "host_latency": "zero" })
    };
    value.as_object().cloned().unwrap_or_default()
}
