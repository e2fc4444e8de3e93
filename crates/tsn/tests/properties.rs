//! What holds of every schedule and every reservation, not only of those in the examples.

use downbeat_tsn::arithmetic::{self, LONGEST_FRAME_BYTES, Reservation};
use downbeat_tsn::gates::{self, Protected, protected};
use downbeat_tsn::rules::{self, Severity};
use downbeat_tsn::{Form, Situation, plan};
use proptest::prelude::*;
use scenario::{Classes, HostId, LineSpec, Open, Queue, Shaper, line};
use units::{Nanos, Rate, Tai};

/// The intervals and the cycle that `tc` is told in a line.
fn told(line: &str) -> (Vec<(u8, i64)>, i64) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut entries = Vec::new();
    let mut cycle = 0;
    for (at, word) in words.iter().enumerate() {
        match *word {
            "sched-entry" => {
                entries.push((u8::from_str_radix(words[at + 2], 16).unwrap(), words[at + 3].parse().unwrap()));
            }
            "cycle-time" => cycle = words[at + 1].parse().unwrap(),
            _ => {}
        }
    }
    (entries, cycle)
}

proptest! {
    #[test]
    fn a_protected_window_is_rendered_whole(
        cycle_us in 100_i64..2_000,
        offset_share in 0_i64..1_000,
        lead_ns in 1_i64..20_000,
        spare_ns in 2_000_i64..40_000,
        classes in 2_u8..=8,
        shift_ns in -2_000_000_i64..2_000_000,
        gbit in prop::sample::select(vec![100_u64, 1_000, 2_500, 10_000]),
    ) {
        let (rate, cycle) = (Rate::from_mbit(gbit), Nanos::from_micros(cycle_us));
        let class = classes - 1;
        let frame = 101;
        let guard = arithmetic::guard_band(rate, LONGEST_FRAME_BYTES);
        let window = Nanos(lead_ns) + arithmetic::line_time(rate, frame) + Nanos(spare_ns);
        let offset = Nanos(cycle.0 * offset_share / 1_000);
        let spec = Protected { cycle, class, classes, launch: offset, lead: Nanos(lead_ns), window, guard };
        let schedule = match protected(&spec) {
            Ok(schedule) => schedule,
            Err(gates::ScheduleError::NoRoom { needed, .. }) => {
                prop_assert!(needed >= cycle);
                return Ok(());
            }
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        };
        // The window is as it was asked for, alone, behind its guard band, and all the others are somewhere.
        let Open::In(windows) = schedule.open(class) else { panic!("always open") };
        prop_assert_eq!(windows.len(), 1);
        prop_assert_eq!(windows[0].length(), window);
        prop_assert_eq!(gates::shut_before(&schedule, class, windows[0].start), Some(guard));
        for other in 0..class {
            prop_assert!(matches!(schedule.open(other), Open::In(windows) if !windows.is_empty()));
        }
        // What tc is told sums to the cycle, and its gates are those of the scenario under the port's numbering.
        let mut map = [0; 16];
        map[7] = class;
        let queue = Queue::Taprio {
            classes: Classes { map, shapers: vec![Shaper::None; usize::from(classes)] },
            schedule: schedule.clone(),
        };
        let mut scenario = line(&LineSpec { rate, cycle, offset, queue, ..LineSpec::default() });
        scenario.ports[0].shift = Nanos(shift_ns);
        let text = plan(&scenario, HostId(0)).text(Form::Tc).unwrap();
        let told_line = text.lines().find(|line| line.starts_with("qdisc")).unwrap();
        let (entries, cycle_time) = told(told_line);
        prop_assert_eq!(entries.iter().map(|(_, interval)| interval).sum::<i64>(), cycle.0);
        prop_assert_eq!(cycle_time, cycle.0);
        for ((mask, interval), entry) in entries.iter().zip(&schedule.entries) {
            prop_assert_eq!(*interval, entry.interval.0);
            prop_assert_eq!(mask.count_ones(), entry.gates.count_ones());
        }
        // Unshifted, it breaks no rule but that of intervals which the link is too slow for.
        scenario.ports[0].shift = Nanos::ZERO;
        for finding in rules::check_host(&scenario, HostId(0), &Situation::default()) {
            prop_assert!(
                finding.severity < Severity::Warning || finding.rule == "interval-too-short",
                "{:?}", finding
            );
        }
    }

    #[test]
    fn base_times_keep_their_phase(base in 0_i64..4_000_000_000, shift in -3_000_000_000_i64..3_000_000_000, cycle in 1_i64..1_000_000_000) {
        let moved = arithmetic::base_time(Tai(base), Nanos(shift), Nanos(cycle));
        prop_assert!(moved.0 >= 0);
        prop_assert_eq!(moved.0.rem_euclid(cycle), (base + shift).rem_euclid(cycle));
    }

    #[test]
    fn credits_never_hold_a_class_below_its_slope(
        port_mbit in prop::sample::select(vec![10_u64, 100, 1_000, 10_000, 100_000]),
        shares in prop::collection::vec((1_u64..200, 84_u32..=1542), 1..4),
    ) {
        let port = Rate::from_mbit(port_mbit);
        let classes: Vec<Reservation> = shares
            .iter()
            .map(|(thousandths, bytes)| Reservation { idle_slope: Rate(port.0 * thousandths / 1_000 + 7), longest_frame_bytes: *bytes })
            .collect();
        let credits = arithmetic::credits(port, &classes, LONGEST_FRAME_BYTES);
        let kbit = (port.0 / 1_000) as i64;
        for (class, credit) in classes.iter().zip(&credits) {
            prop_assert!(credit.idle_slope_kbit * 1_000 >= class.idle_slope.0 as i64);
            prop_assert!(credit.idle_slope_kbit * 1_000 < class.idle_slope.0 as i64 + 1_000);
            prop_assert_eq!(credit.idle_slope_kbit - credit.send_slope_kbit, kbit);
            // An account that ends above the debt of one frame, or below what waiting earns, would change the rate.
            let sends = class.longest_frame_bytes as f64 * (class.idle_slope.0 as f64 - port.0 as f64) / port.0 as f64;
            prop_assert!(credit.lo_credit_bytes as f64 <= sends + 1e-6 && credit.lo_credit_bytes as f64 > sends - 1.0 - 1e-6);
            let waits = class.idle_slope.0 as f64 * f64::from(LONGEST_FRAME_BYTES) / port.0 as f64;
            prop_assert!(credit.hi_credit_bytes as f64 >= waits - 1e-6);
        }
    }
}

/// A scenario cannot name queues of classes; what is rendered of its classes has one each, apart from the others.
#[test]
fn queues_of_classes_are_apart_and_there() {
    for (driver, classes, root) in ["igb", "igc", "stmmac", "enetc", "veth", "lab"]
        .into_iter()
        .flat_map(|driver| (2..=8).map(move |classes| (driver, classes)))
        .flat_map(|(driver, classes)| ["mqprio", "taprio"].map(|root| (driver, classes, root)))
    {
        let map: Vec<String> = (0..16).map(|priority: usize| (priority % classes).to_string()).collect();
        let all: Vec<String> = (0..classes).map(|class| class.to_string()).collect();
        let schedule = match root {
            "taprio" => format!(", schedule = [{{ gates = [{}], interval = \"1ms\" }}]", all.join(", ")),
            _ => String::new(),
        };
        let text = format!(
            "name = \"queues\"\ntime = {{ cycle = \"1ms\" }}\nhosts = {{ a = {{ machine = {{ driver = \"{driver}\" }} }}, b = {{}} }}\n\
             links = [{{ between = [\"a\", \"b\"] }}]\nports = [{{ at = \"a\", queue = {{ root = \"{root}\", map = [{}], classes = \
             {classes}{schedule} }} }}]\nstreams = [{{ name = \"s\", writer = \"a\", reader = \"b\", variables = 1, vid = 1, pcp = 1 }}]\n",
            map.join(", ")
        );
        let scenario = scenario::read(&text, "queues.toml").unwrap_or_else(|error| panic!("{}", error.render()));
        let tc = plan(&scenario, scenario.host_named("a").unwrap()).text(Form::Tc).unwrap();
        let words: Vec<&str> = tc.lines().find(|line| line.starts_with("qdisc")).unwrap().split_whitespace().collect();
        let at = words.iter().position(|word| *word == "queues").unwrap();
        let ranges = words[at + 1..].iter().map_while(|word| word.split_once('@'));
        let mut taken: Vec<usize> = Vec::new();
        for (count, first) in ranges {
            let (count, first): (usize, usize) = (count.parse().unwrap(), first.parse().unwrap());
            taken.extend(first..first + count);
        }
        taken.sort_unstable();
        assert_eq!(taken, (0..classes).collect::<Vec<_>>(), "{driver}, {root}: {tc}");
    }
}
