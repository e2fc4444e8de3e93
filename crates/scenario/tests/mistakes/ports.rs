//! Mistakes in `[[ports]]`: maps, classes, shapers, launch times, gates.

use downbeat_scenario::{Severity, read_with_warnings};

use super::{CLASSES, RIGHT, all, error, warning};

const MAP: &str = "map = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]";

#[test]
fn maps_and_classes() {
    let map = MAP;
    error((map, "map = [0, 0, 0, 0, 0, 0, 0, 1]"), "`map` has 8 entries", 20, "[0, 0, 0, 0, 0, 0, 0, 1]", map);
    let seventeen = map.replace("0]", "0, 0]");
    let list = seventeen.trim_start_matches("map = ");
    error((map, &seventeen), "`map` has 17 entries", 20, list, map);
    error((map, "map = [0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0]"), "`map` of `queue` is 8", 20, "8", "7");
    error(("classes = [{}, {}]", "classes = [{}]"), "has 1 class, but the map uses class 1", 20, "[{}]", "add `{}`");
    error(("classes = [{}, {}]", "classes = 1"), "has 1 class, but the map uses class 1", 20, "1", "add `{}`");
    error(("classes = [{}, {}]", "classes = [{}, { cbq = {} }]"), "unknown key `cbq` in class 1", 20, "cbq", "`cbs`");
    error(("root = \"mqprio\"", "root = \"prio\""), "cannot be \"prio\"", 20, "\"prio\"", "did you mean \"mqprio\"?");
    error((", classes = [{}, {}]", ", clases = 2"), "unknown key `clases` in `queue`", 20, "clases", "`classes`");
    // What one discipline has another has not: all of it is named.
    let found = all(&RIGHT.replace("mqprio", "fifo"));
    let messages: Vec<_> = found.list().iter().map(|diagnostic| diagnostic.message.as_str()).collect();
    assert_eq!(messages, ["unknown key `map` in `queue`", "unknown key `classes` in `queue`"]);
    assert!(found.list()[0].help.contains("`queue` knows `root`"));
}

#[test]
fn ports() {
    error(("at = [\"pub\", \"loop\"]", "at = [\"pub\", \"far\"]"), "\"far\" has no port", 19, "\"far\"", "[[links]]");
    error(
        ("[[streams]]", "[[ports]]\nat = \"pub\"\nqueue = { root = \"fifo\" }\n[[streams]]"),
        "port pub → br is given a queue twice",
        23,
        "{ root = \"fifo\" }",
        "remove one",
    );
    error(("[[streams]]", "[[ports]]\nat = \"br\"\n[[streams]]"), "says nothing", 21, "[[ports]]", "fq_codel");
    error(
        ("[[streams]]", "[[ports]]\nat = \"br\"\ntowards = \"far\"\nshift = \"1us\"\n[[streams]]"),
        "\"br\" has no port towards \"far\"",
        22,
        "\"br\"",
        "add the link",
    );
    // A narrower entry wins without complaint.
    let text = "[[ports]]\nat = \"*\"\nqueue = { root = \"fq_codel\" }\n\
        [[ports]]\nat = [\"pub\", \"br\"]\ntowards = \"loop\"\nqueue = { root = \"fifo\" }\nshift = \"20us\"\n[[streams]]";
    let (scenario, _) = read_with_warnings(&RIGHT.replace("[[streams]]", text), "").unwrap();
    let ports: Vec<_> = scenario.ports.iter().map(|port| (port.queue.kind(), port.shift.0)).collect();
    assert_eq!(ports, [("fifo", 20_000), ("fq_codel", 0), ("fifo", 20_000), ("mqprio", 0)]);
}

#[test]
fn slopes() {
    let cbs = |slope: &str| CLASSES.replace("{}]", &format!("{{ cbs = {{ idle_slope = \"{slope}\" }} }}]"));
    let with = |slope: &str| (CLASSES.to_owned(), cbs(slope));
    let (from, to) = with("2Gbit/s");
    error(
        (&from, &to),
        "idle_slope 2Gbit/s at pub → br is above the link's 1Gbit/s",
        20,
        "\"2Gbit/s\"",
        "lower the slope",
    );
    let (from, to) = with("2463kbit/s");
    warning(
        (&from, &to),
        "idle_slope 2463kbit/s at pub → br is less than the 2464kbit/s its streams need without FCS, preamble and gap, as Linux \
         counts",
        20,
        "\"2463kbit/s\"",
        "\"100%\"",
    );
    let (from, to) = with("75%");
    warning((&from, &to), "idle_slope 2424kbit/s", 20, "\"75%\"", "\"100%\"");
    let (from, to) = with("800Mbit/s");
    warning((&from, &to), "reserve 800Mbit/s of the link's 1Gbit/s", 20, "\"800Mbit/s\"", "other traffic");
    let (from, to) = with("-1%");
    error((&from, &to), "\"-1%\" is not a share", 20, "\"-1%\"", "\"110%\"");
    let both = CLASSES
        .replace("[{}, {}]", "[{ cbs = { idle_slope = \"600Mbit/s\" } }, { cbs = { idle_slope = \"500Mbit/s\" } }]");
    error((CLASSES, &both), "the slopes at pub → br sum to 1.1Gbit/s", 20, "\"500Mbit/s\"", "lower a slope");
    let unused = CLASSES.replace("[{}, {}]", "[{ cbs = { idle_slope = \"110%\" } }, {}]");
    warning((CLASSES, &unused), "no stream uses it here", 20, "\"110%\"", "unshaped");
    let (from, to) = with("3.232Mbit/s");
    assert!(all(&RIGHT.replace(&from, &to)).is_empty());
    let root = RIGHT.replace(&format!("root = \"mqprio\", {CLASSES}"), "root = \"cbs\", idle_slope = \"110%\"");
    assert_eq!(all(&root).list(), []);
}

/// One frame of 101 bytes a cycle: 80 % of the line is enough for a shaper that counts 77 of them, 75 % is not.
#[test]
fn slopes_are_held_to_what_the_shaper_counts() {
    let at = |who: &str, queue: &str, slope: &str| {
        let cbs = format!("cbs = {{ idle_slope = \"{slope}\"");
        let queue = queue.replace("{}]", &format!("{{ {cbs} }} }}]"));
        let text = RIGHT
            .replace("kind = \"bridge\"", &format!("kind = \"bridge\"\n{who}"))
            .replace("at = [\"pub\", \"loop\"]", "at = \"br\"")
            .replace(&format!("root = \"mqprio\", {CLASSES}"), &queue);
        let found = all(&text);
        assert!(found.list().len() < 2, "{}", found.render());
        found.list().first().map(|diagnostic| {
            assert!(diagnostic.message.contains("is less than the"), "{}", found.render());
            assert!(diagnostic.message.contains("delayed more with every frame"), "{}", found.render());
        })
    };
    let mqprio = format!("root = \"mqprio\", {MAP}, classes = [{{}}, {{}}]");
    let offloaded = mqprio.replace("{}]", "{ cbs = { idle_slope = \"SLOPE\", offload = true } }]");
    let taprio = format!(
        "root = \"taprio\", {MAP}, classes = [{{}}, {{}}], schedule = [{{ gates = [0, 1], interval = \"200us\" }}, {{ gates = \
         [0], interval = \"50us\" }}]"
    );
    let full = format!("{taprio}, mode = \"full-offload\"");
    for (who, queue, limit_kbit) in [
        ("", &mqprio, 2_464),
        ("forwarder = \"hardware\"", &mqprio, 3_232),
        ("", &offloaded, 3_232),
        // `stab overhead` adds what Linux does not count.
        ("", &taprio, 3_232),
        ("", &full, 2_464),
    ] {
        let told = |slope: &str| at(who, &queue.replace("SLOPE", slope), slope).is_some();
        assert!(told(&format!("{}kbit/s", limit_kbit - 1)), "{who} {queue}");
        assert!(!told(&format!("{limit_kbit}kbit/s")), "{who} {queue}");
        assert_eq!(told("80%"), limit_kbit > 2_464, "{who} {queue}");
        assert!(told("75%"), "{who} {queue}");
    }
}

#[test]
fn launch_times() {
    let etf = |keys: &str| CLASSES.replace("{}]", &format!("{{ etf = {{ {keys} }} }}]"));
    error((CLASSES, &etf("delta = \"0s\"")), "`delta` of `etf` is 0s", 20, "\"0s\"", "delta = \"200us\"");
    error(
        (CLASSES, &etf("offload = true")),
        "`delta` is missing in `etf`",
        20,
        "{ offload = true }",
        "delta = \"200us\"",
    );
    let text = RIGHT.replace(CLASSES, &etf("delta = \"200us\""));
    assert!(all(&text).is_empty());
    let found = all(&text.replace("pcp = 7", "pcp = 7\nlaunch = false"));
    assert!(found.list()[0].message.contains("has no launch time"), "{}", found.render());
    assert_eq!(found.list()[0].severity, Severity::Warning);
}

#[test]
fn gates() {
    let map = "map = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]";
    let from = format!("root = \"mqprio\", {CLASSES}");
    let to = |schedule: &str| format!("root = \"taprio\", {map}, schedule = [{schedule}]");
    let good = "{ gates = [1], interval = \"50us\" }, { gates = [0], interval = \"200us\" }";
    assert_eq!(all(&RIGHT.replace(&from, &to(good))).list(), []);
    // From an instant of any year.
    let based = |base: &str| format!("base_time = \"{base}\", {}", to(good));
    assert_eq!(all(&RIGHT.replace(&from, &based("1700000000123456789ns"))).list(), []);
    error((&from, &based("-1s")), "is -1s", 20, "\"-1s\"", "base_time = \"0s\"");
    error(
        (&from, &to("{ gates = [1], interval = \"50us\" }, { gates = [0], interval = \"100us\" }")),
        "the intervals of `schedule` sum to 150us, its cycle is 250us",
        20,
        "[{ gates = [1], interval = \"50us\" }, { gates = [0], interval = \"100us\" }]",
        "make the last interval 200us",
    );
    error(
        (&from, &to("{ gates = 1, interval = \"250us\" }")),
        "the gate of class 1 at pub → br never opens, although streams use it",
        20,
        "[{ gates = 1, interval = \"250us\" }]",
        "add 1 to `gates`",
    );
    warning(
        (&from, &to("{ gates = [1], interval = \"250us\" }")),
        "the gate of class 0 at pub → br never opens, although traffic uses it",
        20,
        "[{ gates = [1], interval = \"250us\" }]",
        "add 0 to `gates`",
    );
    warning(
        (&from, &to("{ gates = [1], interval = \"500ns\" }, { gates = [0], interval = \"249.5us\" }")),
        "the gate of class 1 at pub → br is open for 500ns, its largest frame takes 808ns",
        20,
        "[{ gates = [1], interval = \"500ns\" }, { gates = [0], interval = \"249.5us\" }]",
        "make the interval longer",
    );
    error(
        (&from, &to("{ gates = [2], interval = \"250us\" }")),
        "`gates` of an entry of `schedule` is 2",
        20,
        "2",
        "1",
    );
    error((&from, &to("{ gates = [0, 1], interval = \"0s\" }")), "is 0s", 20, "\"0s\"", "50us");
    error((&from, &to("")), "`schedule` has no entry", 20, "[]", "gates = [0, 1]");
    let assist = format!("{}, mode = \"txtime-assist\"", to(good));
    let line = format!("{{ {assist} }}");
    error((&from, &assist), "`txtime_delay` is missing in `queue`", 20, &line, "txtime_delay = \"200us\"");
    let delay = format!("{}, txtime_delay = \"200us\"", to(good));
    error((&from, &delay), "`txtime_delay` with mode \"software\"", 20, "\"200us\"", "txtime-assist");
    // A window across the end of the cycle is one window.
    let across = "{ gates = [1], interval = \"500ns\" }, { gates = [0], interval = \"249us\" }, { gates = [1], interval = \"500ns\" }";
    assert_eq!(all(&RIGHT.replace(&from, &to(across))).list(), []);
}
