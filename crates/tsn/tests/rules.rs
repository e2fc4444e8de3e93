//! Each rule: a plan that breaks it, and one that does not.

mod common;

use common::scenarios;
use downbeat_tsn::rules::{self, Severity};
use downbeat_tsn::{Finding, Situation};
use scenario::Scenario;
use units::{Nanos, Rate, Tai};

const MAP: &str = "map = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]";
const GATES: &str = "schedule = [{ gates = [0], interval = \"120us\" }, { gates = [], interval = \"15us\" }, { gates = [1], \
                     interval = \"60us\" }, { gates = [], interval = \"15us\" }, { gates = [0], interval = \"40us\" }]";
/// Shaped by launch time, not the NIC's.
const ETF: &str = "etf = { delta = \"100us\", skip_sock_check = true }";

/// Two stations, a stream of three variables every 250 µs with launch at 150 µs.
fn text(machine: &str, queue: &str, more: &str) -> String {
    format!(
        "name = \"rules\"\n[time]\ncycle = \"250us\"\noffset = \"150us\"\n[hosts.pub]\nmachine = {{ {machine} }}\n[hosts.loop]\n\
         [[links]]\nbetween = [\"pub\", \"loop\"]\n[[ports]]\nat = \"pub\"\nqueue = {{ {queue} }}\n{more}\n[[streams]]\n\
         name = \"s\"\nwriter = \"pub\"\nreader = \"loop\"\nvariables = 3\nvid = 8\npcp = 7\nlaunch = true\n"
    )
}

fn scenario(text: &str) -> Scenario {
    scenario::read(text, "rules.toml").unwrap_or_else(|why| panic!("{}", why.render()))
}

fn findings(text: &str) -> Vec<Finding> {
    rules::check(&scenario(text), &Situation::default())
}

fn worst(text: &str, rule: &str) -> Option<Severity> {
    findings(text).into_iter().find(|finding| finding.rule == rule).map(|finding| finding.severity)
}

fn taprio(classes: &str, more: &str) -> String {
    format!("root = \"taprio\", {MAP}, classes = {classes}, {more}")
}

fn mqprio(classes: &str) -> String {
    format!("root = \"mqprio\", {MAP}, classes = {classes}")
}

fn assist(etf: [&str; 2], delay: &str) -> String {
    let classes = format!("[{{ {} }}, {{ {} }}]", etf[0], etf[1]);
    taprio(&classes, &format!("{GATES}, mode = \"txtime-assist\", txtime_delay = \"{delay}\""))
}

#[test]
fn a_plan_that_breaks_a_rule_is_told_and_its_neighbour_is_not() {
    use Severity::{Error, Note, Warning};
    let gates = |from: &str, to: &str| taprio("2", &GATES.replace(from, to));
    let offload = |queue: &str| queue.replace("skip_sock_check", "offload = true, skip_sock_check");
    let cbs = |slope: &str| mqprio(&format!("[{{}}, {{ cbs = {{ idle_slope = \"{slope}\", offload = true }} }}]"));
    let soft = |slope: &str| mqprio(&format!("[{{}}, {{ cbs = {{ idle_slope = \"{slope}\" }} }}]"));
    let eight = "root = \"mqprio\", map = [0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 0, 0, 0, 0]".to_owned();
    let full = |gates: &str| taprio("2", &format!("{gates}, mode = \"full-offload\""));
    let twice = "schedule = [{ gates = [0], interval = \"10us\" }, { gates = [], interval = \"125us\" }, { gates = [1], interval \
                 = \"60us\" }, { gates = [0], interval = \"10us\" }, { gates = [1], interval = \"45us\" }]";
    let both = |offload: bool| {
        let classes = format!("[{{}}, {{ etf = {{ delta = \"100us\", offload = {offload} }} }}]");
        taprio(&classes, &format!("{GATES}, mode = \"full-offload\""))
    };
    let cases: Vec<(&str, Severity, [&str; 2], [String; 2])> = vec![
        // rule, severity, [machine that breaks it, machine that does not], the queues likewise
        (
            "interval-too-short",
            Error,
            [""; 2],
            [
                gates(
                    "\"15us\" }, { gates = [0], interval = \"40us\"",
                    "\"400ns\" }, { gates = [0], interval = \"54.6us\"",
                ),
                gates("", ""),
            ],
        ),
        (
            "window-below-burst",
            Error,
            [""; 2],
            [
                gates(
                    "[1], interval = \"60us\" }, { gates = [], interval = \"15us\"",
                    "[1], interval = \"0.8us\" }, { gates = [], interval = \"74.2us\"",
                ),
                gates("", ""),
            ],
        ),
        (
            "guard-band",
            Warning,
            [""; 2],
            [
                gates(
                    "\"120us\" }, { gates = [], interval = \"15us\"",
                    "\"123us\" }, { gates = [], interval = \"12us\"",
                ),
                gates("", ""),
            ],
        ),
        (
            "launch-at-edge",
            Error,
            [""; 2],
            [
                gates(
                    "\"120us\" }, { gates = [], interval = \"15us\"",
                    "\"120us\" }, { gates = [], interval = \"30us\"",
                )
                .replace("\"40us\"", "\"25us\""),
                gates("", ""),
            ],
        ),
        (
            // Its gate stays open, and yet it is lost.
            "launch-at-edge",
            Error,
            [""; 2],
            [
                gates(
                    "{ gates = [1], interval = \"60us\" }",
                    "{ gates = [1], interval = \"15us\" }, { gates = [0, 1], interval = \"45us\" }",
                ),
                gates(
                    "{ gates = [1], interval = \"60us\" }",
                    "{ gates = [1], interval = \"14us\" }, { gates = [0, 1], interval = \"46us\" }",
                ),
            ],
        ),
        (
            "etf-under-software-gates",
            Error,
            [""; 2],
            [taprio(&format!("[{{}}, {{ {ETF} }}]"), GATES), taprio("[{}, { etf = { delta = \"10us\" } }]", GATES)],
        ),
        ("delta-above-txtime-delay", Error, [""; 2], [assist([ETF, ETF], "100us"), assist([ETF, ETF], "101us")]),
        ("assist-without-etf", Error, [""; 2], [assist(["", ETF], "200us"), assist([ETF, ETF], "200us")]),
        (
            "assist-without-skip-sock-check",
            Error,
            [""; 2],
            [assist([ETF, "etf = { delta = \"100us\" }"], "200us"), assist([ETF, ETF], "200us")],
        ),
        ("slope-enough-in-software-only", Note, [""; 2], [soft("80%"), soft("76%")]),
        (
            "assist-leaves-early",
            Warning,
            [""; 2],
            [assist([ETF, ETF], "200us"), assist([ETF, ETF], "200us").replace("100us", "15us")],
        ),
        ("assist-leaves-early", Warning, [""; 2], [assist([ETF, ETF], "200us"), offload(&assist([ETF, ETF], "200us"))]),
        ("burst-into-window", Note, ["", "driver = \"igc\""], [gates("", ""), full(GATES)]),
        (
            "bulk-at-root",
            Note,
            ["driver = \"igb\"", "driver = \"veth\""],
            ["root = \"fq_codel\"".into(), "root = \"fq_codel\"".into()],
        ),
        ("slope-rounded", Note, ["driver = \"igb\""; 2], [cbs("100%"), cbs("16384kbit/s")]),
        ("slope-lost-to-rounding", Error, ["driver = \"enetc\""; 2], [cbs("100%"), cbs("10Mbit/s")]),
        ("port-rate", Warning, ["driver = \"veth\"", "driver = \"lab\""], [soft("100%"), soft("100%")]),
        (
            "delta-below-wake-up",
            Warning,
            ["wake_up = \"130us\"", "wake_up = \"90us\""],
            [mqprio(&format!("[{{}}, {{ {ETF} }}]")), mqprio(&format!("[{{}}, {{ {ETF} }}]"))],
        ),
        (
            "etf-without-offload",
            Note,
            [""; 2],
            [mqprio(&format!("[{{}}, {{ {ETF} }}]")), offload(&mqprio(&format!("[{{}}, {{ {ETF} }}]")))],
        ),
        (
            "delta-above-lead",
            Warning,
            [""; 2],
            [mqprio("[{}, { etf = { delta = \"250us\" } }]"), mqprio("[{}, { etf = { delta = \"249us\" } }]")],
        ),
        ("class-shared-with-best-effort", Warning, [""; 2], [mqprio("2").replace(", 1, ", ", 0, "), mqprio("2")]),
        ("unknown-driver", Warning, ["driver = \"igd\"", "driver = \"igb\""], [mqprio("2"), mqprio("2")]),
        ("more-classes-than-queues", Error, ["driver = \"igb\"", "driver = \"enetc\""], [eight.clone(), eight]),
        ("offload-refused", Error, ["driver = \"igb\"", "driver = \"igc\""], [full(GATES), full(GATES)]),
        ("offload-refused", Error, ["driver = \"lab\""; 2], [cbs("100%"), soft("100%")]),
        (
            "offload-on-wrong-queue",
            Error,
            ["driver = \"stmmac\""; 2],
            [mqprio("[{ cbs = { idle_slope = \"10Mbit/s\", offload = true } }, {}]"), cbs("10Mbit/s")],
        ),
        ("offload-on-some-models", Note, ["driver = \"igb\"", "driver = \"igc\""], [cbs("100%"), cbs("100%")]),
        ("gate-opens-twice", Error, ["driver = \"igc\"", "driver = \"stmmac\""], [full(twice), full(twice)]),
        (
            "interval-too-long",
            Warning,
            ["driver = \"stmmac\""; 2],
            [
                full(GATES),
                full(twice).replace("125us", "65us").replace("45us", "65us").replace(
                    "\"60us\" }, { gates = [0], interval = \"10us\"",
                    "\"50us\" }, { gates = [0], interval = \"60us\"",
                ),
            ],
        ),
        ("offloads-exclude-each-other", Error, ["driver = \"enetc\""; 2], [both(true), both(false)]),
        (
            "launch-within-cycle",
            Note,
            ["driver = \"igc\"", "driver = \"enetc\""],
            [offload(&mqprio(&format!("[{{}}, {{ {ETF} }}]"))), offload(&mqprio(&format!("[{{}}, {{ {ETF} }}]")))],
        ),
    ];
    for (rule, severity, machines, queues) in cases {
        let [bad, good] = [0, 1].map(|index| text(machines[index], &queues[index], ""));
        assert_eq!(worst(&bad, rule), Some(severity), "{rule} is not told:\n{bad}\n{:#?}", findings(&bad));
        assert_eq!(worst(&good, rule), None, "{rule} is told:\n{good}\n{:#?}", findings(&good));
    }
}

#[test]
fn preemption_needs_a_kernel_and_a_driver() {
    let with = |machine: &str| text(machine, &mqprio("2"), "nic = { preemptable = [0] }");
    assert_eq!(
        worst(&with("driver = \"igc\", kernel = \"6.12\""), "preemption-needs-newer-kernel"),
        Some(Severity::Error)
    );
    assert_eq!(worst(&with("driver = \"igc\", kernel = \"6.17\""), "preemption-needs-newer-kernel"), None);
    assert_eq!(worst(&with("driver = \"igb\", kernel = \"6.17\""), "preemption-not-known"), Some(Severity::Warning));
    assert!(worst(&with("driver = \"igc\", kernel = \"6.17\""), "preemption-not-modelled").is_some());
}

#[test]
fn base_times_are_compared_with_the_clock() {
    let queue = taprio("2", &format!("{GATES}, base_time = \"1000s\""));
    let at = |now: Option<i64>| {
        let situation = Situation { now: now.map(|seconds| Tai(seconds * 1_000_000_000)), wake_up: None };
        let findings = rules::check(&scenario(&text("", &queue, "")), &situation);
        findings.into_iter().find(|finding| finding.rule.starts_with("base-time")).map(|finding| finding.rule)
    };
    assert_eq!(at(Some(999)), Some("base-time-ahead"));
    assert_eq!(at(Some(1001)), Some("base-time-past"));
    assert_eq!(at(None), None);
}

#[test]
fn a_measured_wake_up_stands_in_for_a_machine_that_says_none() {
    let scenario = scenario(&text("", &mqprio(&format!("[{{}}, {{ {ETF} }}]")), ""));
    let told = |wake_up| {
        let situation = Situation { now: None, wake_up };
        rules::check(&scenario, &situation).iter().any(|finding| finding.rule == "delta-below-wake-up")
    };
    assert!(told(Some(Nanos(100_000))) && !told(Some(Nanos(99_999))) && !told(None));
}

#[test]
fn clocks_need_a_class_of_their_own_or_a_link() {
    let clocks = |text: String, more: &str| {
        text.replace("[hosts.loop]\n", &format!("[hosts.loop]\nclock = \"grandmaster\"\n{more}"))
            .replace("[hosts.pub]\n", "[hosts.pub]\nclock = \"slave\"\n")
    };
    let link = "[[links]]\nbetween = [\"pub\", \"loop\"]\nptp_only = true\n";
    let gated = text("", &taprio("2", GATES), "");
    assert_eq!(worst(&clocks(gated.clone(), ""), "ptp-without-seat"), Some(Severity::Error));
    assert_eq!(worst(&clocks(gated, link), "ptp-without-seat"), None);
    assert_eq!(worst(&clocks(text("", &mqprio(&format!("[{{}}, {{ {ETF} }}]")), ""), ""), "ptp-without-seat"), None);
    // A class that is open all the time is a seat, unless launch times rule there.
    let open =
        GATES.replace("gates = [0]", "gates = [0, 2]").replace("gates = []", "gates = [2]").replace("[1]", "[1, 2]");
    let queue = taprio("3", &open).replace("0, 0, 0, 0, 0, 0, 0, 0]", "0, 0, 0, 0, 0, 0, 0, 2]");
    assert_eq!(worst(&clocks(text("", &queue, ""), ""), "ptp-without-seat"), None);
}

#[test]
fn a_priority_has_to_survive_bridges() {
    let bridged = |stream: &str| {
        format!(
            "name = \"rules\"\n[time]\ncycle = \"1ms\"\n[hosts.a]\n[hosts.br]\nkind = \"bridge\"\n[hosts.b]\n[[links]]\nbetween = \
             [\"a\", \"br\"]\n[[links]]\nbetween = [\"br\", \"b\"]\n[[ports]]\nat = \"*\"\nqueue = {{ {} }}\n[[streams]]\nname = \"s\"\n\
             writer = \"a\"\nreader = \"b\"\nvariables = 1\npcp = 7\n{stream}\n",
            mqprio("2")
        )
    };
    assert_eq!(worst(&bridged("vid = 0"), "priority-lost-at-bridge"), Some(Severity::Warning));
    assert_eq!(worst(&bridged("vid = 5"), "priority-lost-at-bridge"), None);
}

#[test]
fn a_slope_is_lost_to_byte_fractions_beside_frames_of_others() {
    let told = |slope: &str, offload: bool, traffic: &str| {
        let queue = mqprio(&format!("[{{}}, {{ cbs = {{ idle_slope = \"{slope}\", offload = {offload} }} }}]"));
        let found = findings(&text("", &queue, traffic));
        found.into_iter().find(|finding| finding.rule == "slope-lost-to-byte-fractions")
    };
    let udp = |payload: u32| {
        format!("[[traffic]]\nfrom = \"pub\"\nto = \"loop\"\nkind = \"udp\"\nrate = \"10Mbit/s\"\npayload = {payload}")
    };
    // 3.97 bytes in the 12.3 µs of others' frame, 3 of 4 are kept; 4.97, of which 4 of 5 are enough.
    let lost = told("80%", false, &udp(1_472)).expect("told");
    assert_eq!(lost.severity, Severity::Warning);
    assert!(lost.found.contains("earns 3 whole bytes in the 12.304 µs of the shortest frame of others"), "{lost:?}");
    assert_eq!(told("100%", false, &udp(1_472)), None);
    // In 1.04 µs it is less than one.
    let short = told("100%", false, &udp(64)).expect("told");
    assert!(short.found.contains("earns 0 whole bytes"), "{short:?}");
    // What it advises is enough, and no more than that.
    let advised = short.mend.split('"').nth(1).and_then(|slope| slope.strip_suffix("kbit/s")).unwrap();
    let advised: u64 = advised.parse().unwrap();
    assert_eq!(told(&format!("{advised}kbit/s"), false, &udp(64)), None);
    assert!(told(&format!("{}kbit/s", advised - 1), false, &udp(64)).is_some());
    // Nobody else sends, or a NIC counts.
    assert_eq!(told("80%", false, ""), None);
    assert_eq!(told("80%", true, &udp(64)), None);
}

/// What the papers did breaks no rule that is an error, as far as their hardware can.
#[test]
fn the_papers_set_ups_keep_the_rules() {
    for (name, scenario, _) in scenarios() {
        let findings = rules::check(&scenario, &Situation::default());
        let errors: Vec<_> = findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}");
        for finding in &findings {
            assert!(
                !finding.place.is_empty() && !finding.found.is_empty() && !finding.needed.is_empty(),
                "{finding:?}"
            );
            assert_eq!(finding.mend.is_empty(), finding.severity == Severity::Note, "{finding:?}");
        }
    }
}

#[test]
fn the_speed_that_an_interface_tells_is_compared_where_linux_computes_with_it() {
    let soft = |slope: &str| mqprio(&format!("[{{}}, {{ cbs = {{ idle_slope = \"{slope}\" }} }}]"));
    let told = |queue: &str, told: Option<Option<Rate>>| {
        let scenario = scenario(&text("driver = \"lab\"", queue, ""));
        let mut found = rules::speeds(&scenario, scenario.host_named("pub").unwrap(), |device| {
            assert_eq!(device, "eth0");
            told
        });
        assert!(found.len() < 2);
        found.pop().map(|finding| (finding.severity, finding.found))
    };
    for queue in [soft("100%"), taprio("2", GATES)] {
        assert_eq!(told(&queue, None), None, "no such interface: told elsewhere");
        assert_eq!(told(&queue, Some(Some(Rate::from_gbit(1)))), None);
        let (severity, found) = told(&queue, Some(Some(Rate::from_gbit(10)))).unwrap();
        assert!(
            severity == Severity::Warning && found.contains("tells 10Gbit/s") && found.contains("1Gbit/s"),
            "{found}"
        );
        let (severity, found) = told(&queue, Some(None)).unwrap();
        assert!(severity == Severity::Error && found.contains("10Mbit/s") && found.contains("48 µs"), "{found}");
    }
    // Nothing is computed from it.
    assert_eq!(told(&mqprio("2"), Some(None)), None);
}
