//! Wrong files: what is said, where, and how to mend it.

mod ports;

use downbeat_scenario::{Diagnostics, Severity, read_with_warnings};

/// A right file; each case makes it wrong in one place. Lines count from 1.
const RIGHT: &str = r#"name = "right"
requirement = { one_way = "2ms" }
[time]
cycle = "250us"
phases = { subscribe = 0.0, application = 0.3, publish = 0.6 }
window = 0.2
offset = "150us"
[hosts.pub]
[hosts.br]
kind = "bridge"
[hosts.loop]
[hosts.far]
[[links]]
between = ["pub", "br"]
[[links]]
between = ["br", "loop"]
rate = "1Gbit/s"
[[ports]]
at = ["pub", "loop"]
queue = { root = "mqprio", map = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], classes = [{}, {}] }
[[streams]]
name = "loop"
writer = "pub"
reader = "loop"
echo = true
variables = 3
vid = 3000
pcp = 7
[[traffic]]
from = "pub"
to = "loop"
kind = "udp"
rate = "100Mbit/s"
"#;

/// The map and classes of the right file.
const CLASSES: &str = "map = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], classes = [{}, {}]";

fn all(text: &str) -> Diagnostics {
    match read_with_warnings(text, "wrong.toml") {
        Ok((_, warnings)) => warnings,
        Err(wrong) => wrong,
    }
}

/// Replaces `from` by `to` in the right file and expects one diagnostic.
fn case(severity: Severity, (from, to): (&str, &str), message: &str, line: usize, underlined: &str, help: &str) {
    assert!(RIGHT.contains(from), "{from:?} is not in the right file");
    let found = all(&RIGHT.replacen(from, to, 1));
    let rendered = found.render();
    let placed: Vec<_> = found.placed().collect();
    assert_eq!(placed.len(), 1, "{rendered}");
    let one = &placed[0];
    assert_eq!(one.severity, severity, "{rendered}");
    assert!(one.message.contains(message), "message\n{rendered}");
    assert_eq!((one.line, one.text), (line, underlined), "{rendered}");
    assert!(one.help.contains(help), "help\n{rendered}");
    assert!(!one.expected.is_empty(), "{rendered}");
    assert!(rendered.contains("wrong.toml"), "{rendered}");
}

fn error(change: (&str, &str), message: &str, line: usize, underlined: &str, help: &str) {
    case(Severity::Error, change, message, line, underlined, help);
}

fn warning(change: (&str, &str), message: &str, line: usize, underlined: &str, help: &str) {
    case(Severity::Warning, change, message, line, underlined, help);
}

#[test]
fn the_right_file_is_right() {
    assert!(all(RIGHT).is_empty(), "{}", all(RIGHT).render());
}

#[test]
fn three_mistakes_are_all_reported_in_the_order_of_the_file() {
    let text = RIGHT
        .replace("cycle = \"250us\"", "cicle = \"250us\"")
        .replace("pcp = 7", "pcp = 8")
        .replace("reader = \"loop\"", "reader = \"lop\"");
    let found = all(&text);
    let messages: Vec<_> = found.list().iter().map(|diagnostic| diagnostic.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "`cycle` is missing in [time]",
            "unknown key `cicle` in [time]",
            "`reader` of [[streams]]: there is no host \"lop\"",
            "`pcp` of [[streams]] is 8",
        ]
    );
    assert!(found.to_string().contains("4 errors in wrong.toml"));
    let rendered = found.render();
    for message in messages {
        assert!(rendered.contains(message), "{rendered}");
    }
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(
        json[3],
        serde_json::json!({
            "severity": "error", "file": "wrong.toml", "line": 28, "column": 7, "text": "8",
            "message": "`pcp` of [[streams]] is 8", "expected": "expected a whole number from 0 to 7",
            "help": "the nearest that is allowed is 7"
        })
    );
}

#[test]
fn rendering_points_into_the_file() {
    let rendered = all(&RIGHT.replace("vid = 3000", "vid = 4095")).render();
    for part in ["1 error in wrong.toml", "wrong.toml:27:7", "27 │ vid = 4095", "expected a VLAN identifier", "help: "]
    {
        assert!(rendered.contains(part), "{part}\n{rendered}");
    }
    assert!(!rendered.contains('\x1b'), "colours in {rendered:?}");
}

#[test]
fn toml_itself() {
    error(("\"250us\"", "250us"), "not TOML", 4, "250us", "`cycle = \"250us\"`");
    error(("window = 0.2", "window = "), "not TOML", 6, "", "toml.io");
    error(("window = 0.2", "window = 0.2\nwindow = 0.1"), "duplicate key", 7, "window", "once");
    error(("[hosts.loop]", "[hosts.pub]"), "duplicate key", 11, "pub", "once");
    for text in ["", "\n", "# nothing\n", "\u{feff}", "=", "[", "\"", "a = [[[[", "é = 1", "x = \"é"] {
        let found = all(text);
        assert!(found.count(Severity::Error) > 0, "{text:?}");
        assert!(!found.render().contains("Failed to read"), "{text:?}\n{}", found.render());
    }
}

#[test]
fn keys_and_types() {
    error(("[time]", "[time]\nthreads = \"core\""), "\"core\"", 4, "\"core\"", "`threads = \"stream\"`");
    error(("[time]", "[time]\nbacklog = 1"), "is", 4, "1", "");
    let after = |lines: &'static str| ("[time]", lines);
    error(after("[time]\ndrain_after = 50"), "without `backlog = \"keep\"`", 4, "50", "leave `drain_after` out");
    error(
        after("[time]\nbacklog = \"drain\"\ndrain_after = 50"),
        "`drain_after` of [time] without `backlog = \"keep\"`",
        5,
        "50",
        "write `backlog = \"keep\"` too",
    );
    error(after("[time]\nbacklog = \"keep\"\ndrain_after = 0"), "is 0", 5, "0", "allowed is 1");
    error(after("[time]\nbacklog = \"keep\"\ndrain_after = -3"), "is -3", 5, "-3", "allowed is 1");
    error(
        after("[time]\nbacklog = \"keep\"\ndrain_after = 5000000000"),
        "is 5000000000",
        5,
        "5000000000",
        "1000000000",
    );
    error(after("[time]\nbacklog = \"keep\"\ndrain_after = \"50ms\""), "is a text", 5, "\"50ms\"", "drain_after = 1");
    error(after("[time]\nbacklog = \"keep\"\ndrain_after = \"50\""), "is a text", 5, "\"50\"", "without quotes");
    // What the backlog is cannot be said, so nothing is said of the other key.
    error(after("[time]\nbacklog = \"kept\"\ndrain_after = 50"), "\"kept\"", 4, "\"kept\"", "did you mean \"keep\"?");
    error(("offset", "ofset"), "unknown key `ofset` in [time]", 7, "ofset", "did you mean `offset`?");
    error(("[[traffic]]", "[[trafic]]"), "unknown key `trafic` in the file", 29, "trafic", "did you mean `traffic`?");
    error(("vid", "vlan"), "unknown key `vlan` in [[streams]]", 27, "vlan", "knows `name`, `writer`");
    error(("name = \"right\"\n", ""), "`name` is missing in the file", 32, "\"", "name = \"my-scenario\"");
    error(("\"250us\"", "250"), "`cycle` of [time] is a whole number", 4, "250", "`cycle = \"250us\"`");
    error(("\"250us\"", "\"250\""), "needs a unit", 4, "\"250\"", "`cycle = \"250us\"`");
    error(("\"250us\"", "\"fast\""), "\"fast\" does not begin with a decimal number", 4, "\"fast\"", "\"250us\"");
    error(("\"1Gbit/s\"", "\"1Gb\""), "needs a unit", 17, "\"1Gb\"", "`rate = \"1Gbit/s\"`");
    error(("\"1Gbit/s\"", "\"0bit/s\""), "is 0bit/s", 17, "\"0bit/s\"", "1Gbit/s");
    error(("echo = true", "echo = \"yes\""), "is a text", 25, "\"yes\"", "`echo = true` without quotes");
    error(("pcp = 7", "pcp = \"7\""), "is a text", 28, "\"7\"", "`pcp = 7` without quotes");
    error(("window = 0.2", "window = \"0.2\""), "is a text", 6, "\"0.2\"", "`window = 0.2`, without quotes");
    error(("[\"pub\", \"br\"]", "\"pub\""), "is a text", 14, "\"pub\"", "between = [ … ]");
    error(("[\"pub\", \"br\"]", "[\"pub\"]"), "names 1 hosts", 14, "[\"pub\"]", "[\"pub\", \"loop\"]");
    error(("[[traffic]]", "[traffic]"), "is a single table", 29, "[traffic]", "[[traffic]]");
    error(
        ("kind = \"bridge\"", "kind = \"brige\""),
        "cannot be \"brige\"",
        10,
        "\"brige\"",
        "did you mean \"bridge\"?",
    );
    error(("kind = \"udp\"", "kind = \"flood\""), "cannot be \"flood\"", 32, "\"flood\"", "`kind = \"udp\"`");
}

#[test]
fn times() {
    error(("\"250us\"", "\"0s\""), "`cycle` of [time] is 0s", 4, "\"0s\"", "\"250us\"");
    error(("\"250us\"", "\"-1us\""), "`cycle` of [time] is -1us", 4, "\"-1us\"", "\"250us\"");
    error(("\"250us\"", "\"2h\""), "is 7200s", 4, "\"2h\"", "\"250us\"");
    error(("offset = \"150us\"", "offset = \"-1us\""), "is -1us", 7, "\"-1us\"", "\"150us\"");
    error(("publish = 0.6", "publish = 1.0"), "`publish` of `phases` is 1", 5, "1.0", "`publish = 0.6`");
    error(("subscribe = 0.0", "subscribe = -0.1"), "is -0.1", 5, "-0.1", "`subscribe = 0.0`");
    error(
        ("application = 0.3", "application = 0.7"),
        "phases out of order: subscribe 0, application 0.7, publish 0.6",
        5,
        "{ subscribe = 0.0, application = 0.7, publish = 0.6 }",
        "application = 0.3, publish = 0.6",
    );
    error(
        ("window = 0.2", "window = 0.4"),
        "the receive window reaches to 0.4 of the cycle, past the application phase at 0.3",
        6,
        "0.4",
        "`window = 0.3` or less",
    );
    error(("window = 0.2", "window = 0.2\npoll = 0.1"), "both `window` and `poll`", 7, "0.1", "keep `window`");
    error(
        ("window = 0.2", "poll = 0.1"),
        "`poll` of [time] is 0.1, the subscribe phase 0",
        6,
        "0.1",
        "leave `subscribe` out",
    );
    error(("[hosts.pub]", "[hosts.pub]\nwindow = 0.5"), "reaches to 0.5", 9, "0.5", "`window = 0.3`");
    error(("offset =", "base_time = \"-1s\"\noffset ="), "is -1s", 7, "\"-1s\"", "base_time = \"0s\"");
}

#[test]
fn hosts() {
    error(("[hosts.far]", "[hosts.Far_1]"), "\"Far_1\" cannot name a host", 12, "Far_1", "`[hosts.far-1]`");
    error(
        ("[hosts.far]", "[hosts.far-away-in-the-hall]"),
        "has 20 characters",
        12,
        "far-away-in-the-hall",
        "`[hosts.far-away-in-the]`",
    );
    error(("[hosts.far]", "[hosts.far]\nlatency = \"2us\""), "which is a station", 13, "latency", "kind = \"bridge\"");
    error(
        ("kind = \"bridge\"", "kind = \"bridge\"\nwindow = 0.1"),
        "which is a bridge",
        11,
        "window",
        "no application",
    );
    error(("[hosts.far]", "[hosts.far]\npublisher_id = 2234"), "have the same publisher_id 2234", 12, "far", "2237");
    error(("[hosts.far]", "[hosts.far]\npublisher_id = 65536"), "is 65536", 13, "65536", "65535");
    warning(("[hosts.far]", "[hosts.far]\nclock = \"slave\""), "no host is grandmaster", 12, "far", "grandmaster");
    error(
        ("[hosts.loop]", "clock = \"grandmaster\"\n[hosts.loop]\nclock = \"grandmaster\""),
        "\"br\" and \"loop\" are both grandmaster",
        12,
        "loop",
        "slave",
    );
}

#[test]
fn links() {
    error(
        ("[\"br\", \"loop\"]", "[\"br\", \"br\"]"),
        "a link from \"br\" to itself",
        16,
        "[\"br\", \"br\"]",
        "other end",
    );
    error(
        ("[\"br\", \"loop\"]", "[\"br\", \"lop\"]"),
        "there is no host \"lop\"",
        16,
        "\"lop\"",
        "did you mean \"loop\"?",
    );
    error(("rate = \"1Gbit/s\"", "cable = \"5\""), "is not a length of cable", 17, "\"5\"", "`cable = \"5m\"`");
    error(("rate = \"1Gbit/s\"", "cable = \"500km\""), "is not a length of cable", 17, "\"500km\"", "`cable = \"5m\"`");
    // Bridges in a ring.
    error(
        (
            "[hosts.far]",
            "[hosts.far]\nkind = \"bridge\"\n[[links]]\nbetween = [\"br\", \"far\"]\n[[links]]\nbetween = [\"far\", \"br\"]",
        ),
        "closes a loop of bridges",
        17,
        "[\"far\", \"br\"]",
        "ptp_only = true",
    );
}

#[test]
fn ways() {
    error(
        ("reader = \"loop\"", "reader = \"far\""),
        "stream between unconnected hosts: no links lead from \"pub\" to \"far\"",
        24,
        "\"far\"",
        "`between = [\"pub\", \"far\"]`",
    );
    error(("to = \"loop\"", "to = \"far\""), "traffic between unconnected hosts", 31, "\"far\"", "[[links]]");
    error(("reader = \"loop\"", "reader = \"pub\""), "are both \"pub\"", 24, "\"pub\"", "other end");
    error(("reader = \"loop\"", "reader = \"br\""), "\"br\" is a bridge", 24, "\"br\"", "name a station");
    error(
        ("reader = \"loop\"", "reader = \"loup\""),
        "there is no host \"loup\"",
        24,
        "\"loup\"",
        "did you mean \"loop\"?",
    );
    error(("reader = \"loop\"", "reader = \"xyzzy\""), "no host \"xyzzy\"", 24, "\"xyzzy\"", "add `[hosts.xyzzy]`");
    // A station with two links into one network. Stream and traffic both suffer.
    let found = all(&RIGHT.replace("[[ports]]", "[[links]]\nbetween = [\"loop\", \"pub\"]\n[[ports]]"));
    assert_eq!(found.count(Severity::Error), 2, "{}", found.render());
    for diagnostic in found.list() {
        assert_eq!(diagnostic.message, "several ways lead from \"pub\" to \"loop\"");
        assert!(diagnostic.help.contains("pub → br → loop and pub → loop"), "{}", diagnostic.help);
    }
    // For clock synchronisation alone it is allowed, and carries nothing else.
    let text = RIGHT.replace("[[ports]]", "[[links]]\nbetween = [\"far\", \"pub\"]\nptp_only = true\n[[ports]]");
    assert!(all(&text).is_empty());
    let found = all(&text.replace("reader = \"loop\"", "reader = \"far\""));
    assert!(found.list()[0].help.contains("ptp_only = true"), "{}", found.render());
}

#[test]
fn payloads() {
    error(("variables = 3", "variables = 0"), "`variables` of [[streams]] is 0", 26, "0", "`variables = 8`");
    error(("variables = 3", "variables = -1"), "is -1", 26, "-1", "`variables = 8`");
    error(
        ("variables = 3", "variables = 164"),
        "164 variables make 1508 bytes of UADP, more than the MTU of 1500",
        26,
        "164",
        "not split",
    );
    error(("variables = 3", "payload = 1501"), "above the MTU of 1500", 26, "1501", "not split");
    error(("variables = 3", "payload = 60"), "60 bytes", 26, "60", "59 (3 variables) or 68 (4 variables)");
    error(("variables = 3", "payload = 45"), "45 bytes", 26, "45", "41 (1 variable) or 50 (2 variables)");
    error(("variables = 3", "payload = 10"), "10 bytes", 26, "10", "41 (1 variable)");
    error(("variables = 3", "payload = 1500"), "1500 bytes", 26, "1500", "1499 (163 variables)");
    error(
        ("variables = 3", "payload = 59\nencoding = \"raw\""),
        "59 bytes",
        26,
        "59",
        "52 (4 variables) or 60 (5 variables)",
    );
    error(
        ("variables = 3", "variables = 3\npayload = 59"),
        "both `variables` and `payload`",
        27,
        "59",
        "keep `variables`",
    );
    error(("variables = 3\n", ""), "`variables` is missing", 21, "[[streams]]", "`variables = 8`");
    assert!(all(&RIGHT.replace("variables = 3", "payload = 1481")).is_empty());
    assert!(all(&RIGHT.replace("variables = 3", "payload = 1500\nencoding = \"raw\"")).is_empty());
}

#[test]
fn streams() {
    error(("vid = 3000", "vid = 4095"), "is 4095, which 802.1Q reserves", 27, "4095", "`vid = 3000`");
    error(("vid = 3000", "vid = 4096"), "is 4096", 27, "4096", "`vid = 3000`");
    error(("pcp = 7", "pcp = 8"), "is 8", 28, "8", "nearest that is allowed is 7");
    error(("name = \"loop\"", "name = \"the loop\""), "not a usable name", 22, "\"the loop\"", "\"the-loop\"");
    error(("pcp = 7", "destination = \"01-00-5E\""), "not an address", 28, "\"01-00-5E\"", "01-00-5E-7F-00-01");
    error(("pcp = 7", "writer_group = 0"), "is 0", 28, "0", "nearest that is allowed is 1");
    warning(("pcp = 7", "pcp = 7\ncycle = \"300us\""), "neither a multiple nor a divisor", 29, "\"300us\"", "drift");
    const SECOND: &str =
        "[[streams]]\nname = \"two\"\nwriter = \"pub\"\nreader = \"loop\"\nvariables = 3\nvid = 3000\n";
    let second = |from: &str, to: &str| format!("{}[[traffic]]", SECOND.replace(from, to));
    error(("[[traffic]]", &second("two", "loop")), "two streams are called \"loop\"", 30, "\"loop\"", "\"loop-2\"");
    error(
        ("[[traffic]]", &second("vid = 3000", "vid = 3000\ndestination = \"01:00:5e:7f:00:01\"")),
        "vid 3000 and destination 01-00-5E-7F-00-01",
        30,
        "\"two\"",
        "leave `destination` out",
    );
    error(
        ("[[traffic]]", &second("vid = 3000", "writer_group = 101")),
        "host \"pub\" publishes two streams with writer_group 101",
        30,
        "\"two\"",
        "leave `writer_group` out",
    );
    let none = RIGHT.split("[[streams]]").next().unwrap();
    let found = all(none);
    assert_eq!(found.list()[0].message, "the scenario has no stream");
}

#[test]
fn traffic() {
    error(("kind = \"udp\"\n", ""), "`kind` is missing", 29, "[[traffic]]", "`kind = \"udp\"`");
    error(("rate = \"100Mbit/s\"", "payload = 1473"), "is 1473", 33, "1473", "1472");
    warning(("\"100Mbit/s\"", "\"2Gbit/s\""), "above the 1Gbit/s of pub → br", 29, "[[traffic]]", "slows down");
    let found = all(&RIGHT.replace("rate = \"1Gbit/s\"", "rate = \"3Mbit/s\""));
    let load = &found.list()[0];
    assert_eq!(load.message, "the streams at br → loop offer 3232kbit/s, above the link's 3Mbit/s");
    assert_eq!((load.severity, &found.placed().next().unwrap().line), (Severity::Warning, &22));
    assert!(load.help.contains("raise `rate`") && found.list().len() == 2, "{}", found.render());
}

#[test]
fn requirements() {
    let key = |key: &'static str| ("one_way = \"2ms\"", key);
    error(
        key("jitter = \"1ms\""),
        "has to name its quantity: `jitter` can mean several",
        2,
        "jitter",
        "`spacing_error`",
    );
    error(key("latency = \"1ms\""), "`latency` can mean several", 2, "latency", "probably `one_way_stack` was meant");
    error(key("max-delay = \"1ms\""), "`max-delay` can mean several", 2, "max-delay", "`round_trip_stack`");
    error(key("rtt = \"1ms\""), "`rtt` can mean several", 2, "rtt", "probably `round_trip_wire`");
    error(key("loss = 0.1"), "`loss` can mean several", 2, "loss", "probably `dSum` was meant");
    error(key("reliability = \"99.999%\""), "`reliability` can mean several", 2, "reliability", "`dSum = \"1e-5\"`");
    error(key("oneway = \"1ms\""), "none called `oneway`", 2, "oneway", "did you mean `one_way`?");
    error(key("speed = \"1ms\""), "none called `speed`", 2, "speed", "motion-control");
    error(key("class = \"SR-B\""), "cannot be \"SR-B\"", 2, "\"SR-B\"", "did you mean \"SR-A\"?");
    error(key("dSum = \"2\""), "is not a share", 2, "\"2\"", "`dSum = \"1e-5\"`");
    error(key("missed = \"0\""), "is a text", 2, "\"0\"", "`missed = 0` without quotes");
    error(("{ one_way = \"2ms\" }", "\"SR-A\""), "`requirement` is a text", 2, "\"SR-A\"", "class = \"SR-A\"");
}

/// Whatever is damaged, the answer is a scenario or an error that can be shown.
#[test]
fn damaged_files_never_panic() {
    let full = RIGHT.replace(
        "queue = {",
        "shift = \"1us\"\nqueue = { schedule = [{ gates = [0, 1], interval = \"250us\" }], cycle = \"250us\", ",
    );
    let full = full.replace("mqprio", "taprio").replace("{}]", "{ cbs = { idle_slope = \"110%\" } }]");
    assert_eq!(all(&full).list(), []);
    let boundaries: Vec<usize> = full.char_indices().map(|(at, _)| at).collect();
    for &at in &boundaries {
        for damage in ["", "\"", "9", "-", "{", "]", "é", "\n"] {
            let text = format!("{}{damage}{}", &full[..at], &full[at + 1..]);
            let found = all(&text);
            assert!(found.list().iter().all(|diagnostic| text.get(diagnostic.span.clone()).is_some()), "{text}");
            assert_eq!(found.placed().count(), found.list().len());
        }
        all(&full[..at]);
    }
    // What stands on a line of its own may be missing.
    let lines: Vec<&str> = full.lines().collect();
    for missing in 0..lines.len() {
        let kept = lines.iter().enumerate().filter(|(index, _)| *index != missing).map(|(_, line)| *line);
        let found = all(&kept.collect::<Vec<_>>().join("\n"));
        assert!(!found.render().contains("Failed to read"), "{}", found.render());
    }
}
