//! Incidents name the true cause.

mod common;

use common::{CYCLE, Exchange, Fate, scenario};
use downbeat_measure::{EventKind, Incident, LAUNCH_INVALID, LAUNCH_MISSED, LAUNCH_REFUSED, Side, flags};
use scenario::{Fraction, LineSpec, line};
use units::{Nanos, Rate, Tai};

fn of_kind<'a>(incidents: &'a [Incident], kind: &str) -> Vec<&'a Incident> {
    incidents.iter().filter(|incident| incident.kind == kind).collect()
}

#[test]
fn a_stopped_loopback_is_named_and_its_frames_are_set_apart() {
    let scenario = scenario(0);
    let mut exchange = Exchange::default();
    let stop = 1_234..1_314;
    for cycle in 1..3_000 {
        exchange.phase(cycle, 3_000, if cycle == stop.start { 20_100_000 } else { 3_000 });
        // What would have been read meanwhile is superseded.
        let fate = if stop.contains(&(cycle + 2)) { Fate::Superseded } else { Fate::Fine };
        exchange.message(cycle, cycle as u64, fate, 0);
    }
    exchange.push(Side::Reader, EventKind::Skipped { cycle: stop.start + 1, cycles: 80 });
    let run = exchange.summarise(&scenario);
    let late = of_kind(&run.incidents, "host-late");
    assert_eq!(late.len(), 1, "{:?}", run.incidents);
    assert!(
        late[0].cause.starts_with(
            "loop: the subscribe phase of cycle 1234 began 20.1 ms late; the host, not the network, stopped it"
        ),
        "{}",
        late[0].cause
    );
    assert!(late[0].cause.contains("80 cycles left out"), "{}", late[0].cause);
    assert_eq!(late[0].at_ns, 1_234 * CYCLE);
    assert!((78..=80).contains(&late[0].frames), "{}", late[0].frames);
    assert_eq!(of_kind(&run.incidents, "frames-lost"), Vec::<&Incident>::new());
    let apart = run.streams[0].without_host_outliers.as_ref().unwrap();
    assert_eq!(apart.left_out + apart.round_trip_wire.as_ref().unwrap().count, 2_999);
    let outliers: Vec<_> = run.hosts.iter().map(|host| (host.host.as_str(), host.outliers)).collect();
    assert_eq!(outliers, [("pub", 0), ("loop", 1)]);
}

#[test]
fn a_payload_too_long_for_its_window_is_named() {
    let spec = LineSpec {
        rate: Rate::from_mbit(10),
        cycle: Nanos::from_millis(2),
        offset: Nanos(0),
        window: Fraction(25_000_000),
        flows: vec![(161, 7)],
        ..LineSpec::default()
    };
    let long = line(&spec);
    let events = |delay: i64| {
        let mut exchange = Exchange::default();
        for counter in 1..100 {
            let launch = counter as i64 * 2_000_000;
            let published = EventKind::Published {
                cycle: counter as i64 - 1,
                counter,
                sequence: 0,
                handle: counter as u32,
                at: Tai(launch - 800_000),
                launch: Some(Tai(launch)),
                bytes: 1_499,
                repeated: false,
            };
            exchange.push(Side::Writer, published);
            exchange.push(Side::Writer, EventKind::Left { handle: counter as u32, at: Tai(launch - 300) });
            let arrived = EventKind::Arrived {
                cycle: counter as i64 + 1,
                counter,
                stamp: Some(Tai(launch + delay)),
                decoded: Tai(launch + 2_000_000),
                tag: Some((3000, 7)),
                superseded: None,
                inconsistent: false,
            };
            exchange.push(Side::Reader, arrived);
        }
        exchange
    };
    // 64 B need 57.6 µs: one window of 50 µs is missed by both, so the payload is not the cause.
    assert!(of_kind(&events(1_208_000).observe(&long).incidents, "payload-late").is_empty());
    let long = line(&LineSpec { window: Fraction(50_000_000), ..spec });
    let found = events(1_208_000).observe(&long).incidents;
    let late = of_kind(&found, "payload-late");
    assert_eq!(late.len(), 1, "{found:?}");
    assert!(
        late[0].cause.starts_with(
            "stream flow1: a payload of 1481 B needs 1.2 ms from pub to loop at these rates and arrives after the \
             receive window [0 ns, 100 µs]"
        ),
        "{}",
        late[0].cause
    );
    assert_eq!(late[0].frames, 99);
    // The model says late, the arrivals do not: nothing is reported.
    assert!(of_kind(&events(20_000).observe(&long).incidents, "payload-late").is_empty());
}

#[test]
fn an_overloaded_port_is_named() {
    let overloaded = line(&LineSpec { rate: Rate::from_mbit(1), ..LineSpec::default() });
    let found = Exchange::run(10, |_| Fate::Fine).observe(&overloaded).incidents;
    let overload = of_kind(&found, "link-overload");
    assert_eq!(overload.len(), 2);
    assert!(overload[1].cause.contains("pub → loop") && overload[0].cause.contains("323.2 %"), "{}", overload[0].cause);
}

#[test]
fn late_launches_and_a_silent_writer_are_named() {
    let scenario = scenario(1);
    let mut exchange = Exchange::default();
    for cycle in 1..500 {
        let fate = if (100..115).contains(&cycle) { Fate::LostOut } else { Fate::Fine };
        exchange.message(cycle, cycle as u64, fate, if (300..320).contains(&cycle) { 40_000 } else { 0 });
    }
    let run = exchange.summarise(&scenario);
    let kinds: Vec<_> = run.incidents.iter().map(|incident| (incident.kind.as_str(), incident.frames)).collect();
    assert_eq!(kinds, [("writer-silent", 15), ("launch-late", 20)]);
    assert_eq!(run.streams[0].launch.as_ref().unwrap().late, 20);
    assert!(run.incidents[0].cause.contains("cycles 100 to 114"), "{}", run.incidents[0].cause);
}

#[test]
fn a_standing_backlog_is_named() {
    let scenario = scenario(0);
    let mut exchange = Exchange::default();
    for cycle in 1..400_u64 {
        exchange.phase(cycle as i64, 1_000, 1_000);
        // Three cycles more from cycle 200 on; single outliers before do not count.
        let elapsed = if cycle >= 200 || cycle % 50 == 0 { 7 } else { 4 };
        exchange.read_back(cycle as i64, cycle, elapsed);
    }
    let found = exchange.observe(&scenario).incidents;
    let backlog = of_kind(&found, "standing-backlog");
    assert_eq!(backlog.len(), 1, "{found:?}");
    assert_eq!((backlog[0].at_ns, backlog[0].frames), (200 * CYCLE, 200));
    assert!(backlog[0].cause.contains("after 7 instead of 4 cycles"), "{}", backlog[0].cause);
}

#[test]
fn an_end_that_stops_early_is_named() {
    let scenario = scenario(0);
    let mut exchange = Exchange::default();
    for cycle in 1..1_000 {
        exchange.message(cycle, cycle as u64, if cycle < 500 { Fate::Fine } else { Fate::LostOut }, 0);
        exchange.phase(cycle, 0, 0);
    }
    exchange.events.retain(|event| {
        event.side == Side::Writer || !matches!(event.kind, EventKind::Phase { cycle, .. } if cycle > 503)
    });
    let observations = exchange.observe(&scenario);
    let missing = of_kind(&observations.incidents, "trace-missing");
    assert_eq!(missing.len(), 1, "{:?}", observations.incidents);
    assert!(
        missing[0].cause.starts_with("loop: its trace of stream flow1 ends with cycle 503"),
        "{}",
        missing[0].cause
    );
    let lost_at_loop = observations.rows.iter().filter(|row| row.has(flags::LOST_LOOPBACK)).count();
    assert!(lost_at_loop > 400, "{lost_at_loop}");
}

#[test]
fn an_interface_that_went_down_is_named_once() {
    let scenario = scenario(0);
    let mut exchange = Exchange::default();
    for cycle in 1..1_000 {
        exchange.phase(cycle, 3_000, 3_000);
        exchange.message(cycle, cycle as u64, Fate::Fine, 0);
    }
    for (at, errno) in [(900 * CYCLE, 100), (950 * CYCLE, 100), (960 * CYCLE, 9)] {
        exchange.push(Side::Reader, EventKind::ReceiveFailed { at: Tai(at), errno });
    }
    for (handle, errno) in [(10, 6), (11, 100), (12, 105), (13, 62)] {
        exchange.push(Side::Writer, EventKind::NotSent { handle, errno });
    }
    let run = exchange.summarise(&scenario);
    let down = of_kind(&run.incidents, "link-down");
    let causes: Vec<_> = down.iter().map(|incident| incident.cause.as_str()).collect();
    assert_eq!(down.len(), 3, "{causes:?}");
    assert!(causes.iter().any(|cause| cause.starts_with("pub: the interface") && cause.contains("2 frames")));
    assert!(
        down.iter().any(|incident| incident.cause.starts_with("loop: the interface") && incident.at_ns == 900 * CYCLE)
    );
    assert!(causes.iter().any(|cause| cause.contains("receiving") && cause.contains("Bad file")), "{causes:?}");
    let refused = of_kind(&run.incidents, "send-refused");
    assert_eq!(refused.len(), 1, "an overrun's skipped launches are not refused sends: {refused:?}");
    assert!(refused[0].cause.contains("ENOBUFS"), "{}", refused[0].cause);
}

#[test]
fn a_lost_launch_is_counted_once_and_its_cause_named() {
    let scenario = scenario(0);
    let mut exchange = Exchange::default();
    for cycle in 1..1_000 {
        exchange.phase(cycle, 3_000, 3_000);
        let fate = if (10..14).contains(&cycle) { Fate::Dropped } else { Fate::Fine };
        exchange.message(cycle, cycle as u64, fate, 0);
    }
    // The call fails and the queue says why, whichever is heard first; the last one is told by the queue alone.
    for (handle, errno) in [
        (9, LAUNCH_REFUSED),
        (9, LAUNCH_INVALID),
        (10, LAUNCH_INVALID),
        (10, LAUNCH_REFUSED),
        (11, LAUNCH_REFUSED),
        (12, LAUNCH_MISSED),
    ] {
        exchange.push(Side::Writer, EventKind::NotSent { handle, errno });
    }
    let run = exchange.summarise(&scenario);
    let lost = run.streams[0].loss.launches.unwrap();
    assert_eq!((lost.invalid_param, lost.txtime_missed, lost.enobufs, lost.other), (2, 1, 1, 0));
    assert_eq!(run.streams[0].loss.dP, Some(4));
    let incidents = of_kind(&run.incidents, "launch-lost");
    let causes: Vec<_> = incidents.iter().map(|incident| (incident.frames, incident.cause.as_str())).collect();
    for (frames, word) in [(2, "INVALID_PARAM"), (1, "TXTIME_MISSED"), (1, "ENOBUFS")] {
        let named = |&(count, cause): &(u64, &str)| count == frames && cause.contains(word);
        assert!(causes.iter().any(named), "{word}: {causes:?}");
    }
    assert!(of_kind(&run.incidents, "send-refused").is_empty(), "{causes:?}");
}
