//! Traps of gate schedules.

use std::sync::OnceLock;

use super::boot::{Booted, fit, of, within};
use super::{checked, refused_by_reader};
use crate::common::lab::{QUEUES, station};

const CYCLE: i64 = 250_000;
/// The window of priority 3 by hand, and the way of a frame of 114 bytes.
const WINDOW: std::ops::Range<i64> = 0..51_200;
/// The same of priority 3 in the plan of [`QUEUES`].
const PLANNED: std::ops::Range<i64> = 45_000..96_200;

/// A burst that comes late in its window, beside a class that is to have its own.
fn burst(guard_us: u32) -> String {
    let others = 200 - guard_us;
    station(
        "burst",
        &format!(
            r#"{{ root = "taprio", map = [0, 0, 0, 3, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0], classes = 4, schedule = [
                {{ gates = [3], interval = "50us" }}, {{ gates = [0, 1, 2], interval = "{others}us" }},
                {{ gates = [], interval = "{guard_us}us" }}] }}"#
        ),
    )
    .replace("offset = \"60us\"", "offset = \"20us\"")
}

/// Gates as launch times, released 10 µs before; all gates are shut for 15 µs before each window.
fn assist() -> String {
    let etf = "{ etf = { delta = \"10us\", skip_sock_check = true } }";
    station(
        "assist",
        &format!(
            r#"{{ root = "taprio", mode = "txtime-assist", txtime_delay = "300us", map = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                0, 0], classes = [{etf}, {etf}], schedule = [{{ gates = [1], interval = "100us" }}, {{ gates = [], interval =
                "15us" }}, {{ gates = [0], interval = "120us" }}, {{ gates = [], interval = "15us" }}] }}"#
        ),
    )
}

/// A base-time that a double cannot hold.
const EXACT_NS: i64 = 1_700_000_000_123_456_789;

fn exact() -> String {
    station("exact", QUEUES[4].1).replace("offset =", &format!("base_time = \"{EXACT_NS}ns\", offset ="))
}

/// ETF under a schedule of the kernel's timers.
fn etf_under_gates(delta: &str) -> String {
    let (_, taprio) = QUEUES[4];
    let etf =
        taprio.replacen("{}, {}], schedule", &format!("{{}}, {{ etf = {{ delta = \"{delta}\" }} }}], schedule"), 1);
    assert_ne!(etf, taprio);
    station("etf-gates", &etf)
}

fn lab() -> Option<&'static Booted> {
    static LAB: OnceLock<Option<Booted>> = OnceLock::new();
    let all = [CYCLE_TIME, EXTENSION, ETF, BURST, ASSIST, BASE_TIME, NO_WIRE, INTEGERS];
    let start = || {
        let files = [
            ("taprio", station("taprio", QUEUES[4].1)),
            ("burst", burst(115)),
            ("assist", assist()),
            ("exact", exact()),
            ("etf-gates", etf_under_gates("5us")),
        ];
        Booted::new("traps of gates", &all, &files)
    };
    LAB.get_or_init(start).as_ref()
}

const CYCLE_TIME: &str = r#"
begins 'cycle-time is another than the sum'
plain $SCH cycle-time 200000; tc qdisc show dev va root > cycle-smaller-shown; probe 3:114:100:0:1017100 > cycle-smaller
plain $SCH cycle-time 300000; tc qdisc show dev va root > cycle-larger-shown; probe 3:114:100:0:1017100 > cycle-larger
fresh; apply taprio pub; tc qdisc show dev va root > cycle-ours-shown; probe 3:114:100:0:1017100 > cycle-ours; off
"#;

#[test]
fn a_cycle_that_is_not_the_sum_repeats_at_another_time() {
    let Some(lab) = lab() else { return };
    // What the kernel shows, and after what time it repeats.
    for (name, shown, real) in [("cycle-smaller", 200_000, 200_000), ("cycle-larger", 300_000, CYCLE)] {
        assert!(lab.text(&format!("{name}-shown")).contains(&format!("cycle-time {shown} ")), "{name}");
        let all = lab.arrivals(name);
        assert_eq!(all.len(), 100, "{name}");
        for cycle in [200_000, CYCLE, 300_000] {
            assert_eq!(fit(&all, cycle, WINDOW.end), cycle == real, "{name} every {cycle} ns: {all:?}");
        }
    }
    assert!(lab.text("cycle-ours-shown").contains("cycle-time 250000 "));
    assert_eq!(within(&lab.arrivals("cycle-ours"), CYCLE, PLANNED), 100);
    let sum = station("sum", QUEUES[4].1);
    for other in ["90us", "110us"] {
        let told = refused_by_reader(&sum.replace("interval = \"100us\" }]", &format!("interval = \"{other}\" }}]")));
        assert!(told.contains("sum to 2") && told.contains("its cycle is 250us"), "{told}");
    }
}

const EXTENSION: &str = r#"
begins 'a new schedule, and cycle-time-extension'
change() { # name, extension of what runs, of what comes, when it comes in the last cycle
    fresh; plain $SCH cycle-time-extension $2; at=$(soon 20000000)
    tc qdisc change dev va root handle 100: taprio base-time $((at + 1000000 + $4)) sched-entry S 08 200000 sched-entry S 04 50000 \
        cycle-time-extension $3 clockid CLOCK_TAI
    tc qdisc show dev va root > extension-$1-shown
    probe --at $at 3:114:120:0:10000 0:114:160:0:10000 > extension-$1
}
change none 0 0 100000; change running 100000 0 100000; change coming 0 100000 100000; change edge 0 0 0
fresh; apply taprio pub
line=$(./downbeat render taprio.toml --host pub --form tc 2>/dev/null | grep 'root handle' | head -1)
tc $line cycle-time-extension 100000; sleep 0.001
./downbeat apply taprio.toml --host pub --dry-run > extension-dry 2>&1
apply taprio pub; tc qdisc show dev va root > extension-mended; off
"#;

#[test]
fn new_gates_are_in_force_before_their_base_time_by_an_extension_or_an_entry() {
    let Some(lab) = lab() else { return };
    // The last cycle begins at 1 ms, and the new base-time is 100 µs behind. How many of a priority arrived so many µs behind 1 ms.
    let count = |name: &str, priority: u16, from: i64, to: i64| {
        let part = 1_000_000 + from * 1_000..1_000_000 + to * 1_000;
        of(&lab.arrivals(name), priority).iter().filter(|arrival| part.contains(&arrival.at)).count()
    };
    // Without an extension the old gates are cut at the beginning of the entry in which the base-time falls, at 50 µs.
    assert!(count("extension-none", 3, 0, 52) >= 20 && count("extension-none", 0, 0, 50) == 0);
    assert!(count("extension-none", 0, 50, 100) >= 8);
    // With one of the running schedule this cycle does not take place, nor its shut entry at the end of the one before.
    assert!(count("extension-running", 3, -15, 200) == 0 && count("extension-running", 0, -15, 52) >= 6);
    // One of the schedule to come does nothing then.
    assert!(lab.text("extension-coming-shown").contains("cycle-time-extension 100000"));
    assert_eq!(lab.arrivals("extension-none"), lab.arrivals("extension-coming"));
    // A base-time at the end of a cycle: its last entry, shut for 15 µs, has the new gates.
    assert!(count("extension-none", 0, -14, 0) == 0 && count("extension-edge", 0, -14, 0) >= 1);
    let dry = lab.text("extension-dry");
    assert!(dry.contains("cycle-time-extension is 100000, planned none"), "{dry}");
    assert!(lab.text("extension-mended").contains("cycle-time-extension 0"), "{}", lab.text("extension-mended"));
}

const ETF: &str = r#"
begins 'ETF under software gates'
plain $SCH; tc qdisc replace dev va parent 100:1 handle 101: etf clockid CLOCK_TAI delta 200000; plain $SCH
probe 3:114:60:0:1017100:400000 > etf-plain
# Launches 60 µs into the cycle, released 5 µs before: within the window from 45 µs on.
fresh; apply etf-gates pub; probe 3:114:60:0:1000000:60000 > etf-ours; off
"#;

#[test]
fn etf_under_software_gates_loses_what_it_releases_behind_a_shut_one() {
    let Some(lab) = lab() else { return };
    let survivors = lab.arrivals("etf-plain").len();
    eprintln!("ETF under software gates: {survivors} of 60 arrived");
    assert!((1..30).contains(&survivors), "{survivors} of 60");
    let wrong = checked(&etf_under_gates("100us"));
    assert!(wrong.refused() && wrong.says("etf-under-software-gates"), "{wrong:?}");
    let good = checked(&etf_under_gates("5us"));
    assert!(!good.refused() && !good.says("etf-under-software-gates"), "{good:?}");
    assert_eq!(lab.probe("etf-ours").1[0], 0);
    assert_eq!(within(&lab.arrivals("etf-ours"), CYCLE, 55_000..57_000), 60, "{:?}", lab.arrivals("etf-ours"));
}

const BURST: &str = r#"
begins 'a burst in the middle of a window'
plain $SCH; probe 0:1514:12:150000:0 3:114:1:245000:0 > burst-plain
fresh; apply burst pub
flows=; for k in 0 1 2 3 4 5 6 7 8 9 10 11; do flows="$flows 0:1514:12:$((k * 2000000 + 52000 + k * 7000)):0"; done
probe $flows 3:114:12:245000:2000000 > burst-ours; off
"#;

#[test]
fn a_burst_late_in_its_window_holds_the_line_into_the_next() {
    let Some(lab) = lab() else { return };
    let plain = lab.arrivals("burst-plain");
    let opened = 250_000;
    let late = of(&plain, 3)[0].at - opened;
    let beyond = of(&plain, 0).iter().filter(|arrival| (opened..opened + 50_000).contains(&arrival.at)).count();
    eprintln!(
        "a burst in the middle: {beyond} frames beyond their window, priority 3 was {late} ns behind its opening"
    );
    assert!(beyond >= 2 && late > 15_000, "{plain:?}");
    assert!(checked(&burst(15)).says("burst-into-window"));
    let good = checked(&burst(115));
    assert!(!good.says("burst-into-window") && !good.refused(), "{good:?}");
    let ours = of(&lab.arrivals("burst-ours"), 3);
    assert_eq!(ours.len(), 12);
    for arrival in ours {
        let behind = arrival.at - i64::from(arrival.number) * 2_000_000 - opened;
        assert!((0..2_000).contains(&behind), "{behind} ns behind the opening: {arrival:?}");
    }
}

const ASSIST: &str = r#"
begins 'launch times for gates'
plain $SCH flags 0x1 txtime-delay 300000
for q in 1 2 3 4; do tc qdisc replace dev va parent 100:$q handle 10$q: etf clockid CLOCK_TAI delta 100000 skip_sock_check; done
probe 3:114:60:0:1017100 > assist-plain
fresh; apply assist pub; probe 3:114:60:0:1017100 0:114:60:500000:1017100 > assist-ours; off
"#;

#[test]
fn launch_times_for_gates_leave_delta_before_their_window() {
    let Some(lab) = lab() else { return };
    let plain = lab.arrivals("assist-plain");
    assert_eq!((plain.len(), within(&plain, CYCLE, WINDOW)), (60, 0), "{plain:?}");
    assert_eq!(within(&plain, CYCLE, -100_000..-100_000 + WINDOW.end), 60, "{plain:?}");
    // And the receiver's stamp is no stamp: the launch time, in TAI where all others are UTC.
    assert_eq!(lab.probe("assist-plain").1[1], 60);
    assert!(checked(&station("early", QUEUES[5].1)).says("assist-leaves-early"));
    let good = checked(&assist());
    assert!(!good.says("assist-leaves-early") && !good.refused(), "{good:?}");
    // Early still, and nobody else's gate is open then.
    let ours = lab.arrivals("assist-ours");
    for (priority, from, to) in [(3, -10_000, 101_200), (0, 105_000, 236_200)] {
        let all = of(&ours, priority);
        assert_eq!((all.len(), within(&all, CYCLE, from..to)), (60, 60), "priority {priority}: {all:?}");
    }
}

const BASE_TIME: &str = r#"
begins 'before the base-time'
at=$(soon 5000000)
tc qdisc replace dev va root handle 100: taprio $MAP base-time $((at + 20000000)) $SCH clockid CLOCK_TAI
probe --at $at 3:114:40:0:1017100 > ahead
fresh; tc qdisc replace dev va root handle 100: taprio $MAP base-time 1600000000000100000 $SCH clockid CLOCK_TAI; sleep 0.001
tc qdisc show dev va root > past-shown; probe 3:114:40:0:1017100 > past
"#;

#[test]
fn before_its_base_time_a_schedule_leaves_all_gates_open() {
    let Some(lab) = lab() else { return };
    let (before, after): (Vec<_>, Vec<_>) =
        lab.arrivals("ahead").into_iter().partition(|arrival| arrival.at < 20_000_000);
    assert!(before.len() > 15 && within(&before, CYCLE, WINDOW) < before.len() / 2, "{before:?}");
    assert_eq!(within(&after, CYCLE, WINDOW), after.len(), "{after:?}");
    // One that has passed is shown as given, and counted from.
    assert!(lab.text("past-shown").contains("base-time 1600000000000100000"));
    assert_eq!(within(&lab.arrivals("past"), CYCLE, 100_000..100_000 + WINDOW.end), 40);
    let ahead = checked(&station("ahead", QUEUES[4].1).replace("offset =", "base_time = \"4000000000s\", offset ="));
    assert!(ahead.says("base-time-ahead") && !ahead.refused(), "{ahead:?}");
}

const NO_WIRE: &str = r#"
begins 'no wire'
plain $SCH; probe 3:1014:5:60000:0 > wire
echo 0 > /sys/module/veth/parameters/wire; probe 3:1014:5:60000:0 > no-wire; echo 24 > /sys/module/veth/parameters/wire
"#;

#[test]
fn without_a_wire_frames_of_a_window_leave_together() {
    let Some(lab) = lab() else { return };
    let [without, with] = ["no-wire", "wire"].map(|name| lab.arrivals(name));
    assert_eq!((without.len(), with.len()), (5, 5));
    assert!(without.iter().all(|arrival| arrival.at == without[0].at), "{without:?}");
    // 1038 bytes at 1 Gbit/s.
    assert!(with.windows(2).all(|pair| pair[1].at - pair[0].at >= 8_304), "{with:?}");
}

const INTEGERS: &str = r#"
begins 'ns beyond what a double holds'
apply exact pub
tc qdisc show dev va root | sed -n 's/.*base-time \([0-9]*\).*/\1/p' > exact-shown
awk '{ printf "%.0f\n", $1 }' exact-shown > exact-awk
./downbeat apply exact.toml --host pub --dry-run > exact-dry 2> exact-dry-told
./downbeat render exact.toml --host pub --json > exact-json 2> exact-json-told
off
"#;

#[test]
fn nanoseconds_stay_integers() {
    let Some(lab) = lab() else { return };
    let number = |name: &str| lab.text(name).trim().parse::<i64>().unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_ne!(number("exact-awk"), EXACT_NS, "a double rounds it");
    assert_eq!(number("exact-shown"), EXACT_NS);
    assert!(lab.text("exact-dry").contains("the machine is as planned"), "{}", lab.text("exact-dry"));
    let plan: serde_json::Value = serde_json::from_str(lab.text("exact-json")).unwrap();
    let words = plan["plans"][0]["steps"][0]["command"]["words"].as_array().unwrap();
    let place = words.iter().position(|word| word == "base-time").unwrap();
    assert_eq!(words[place + 1], EXACT_NS.to_string());
}
