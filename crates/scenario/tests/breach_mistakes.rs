//! `on_breach` and `receive_timeout`: what is read, and what is wrong, where, and how to mend it.

use downbeat_scenario::{
    Action, BreachPlan, BreachRule, Breaches, Condition, Diagnostics, Scenario, StreamEnd, read, read_with_warnings,
};
use units::Nanos;

/// A right file; each case puts something after its last line, or replaces a part. Lines count from 1.
const RIGHT: &str = r#"name = "right"
requirement = { round_trip_stack = "4ms", round_trip_counter = 5, one_way_stack = "2ms" }
time = { cycle = "1ms" }
hosts = { pub = {}, loop = {} }
links = [{ between = ["pub", "loop"] }]
[[streams]]
name = "loop"
writer = "pub"
reader = "loop"
echo = true
variables = 3
"#;

fn right(changes: &[(&str, &str)], lines: &str) -> Scenario {
    let text = changes.iter().fold(RIGHT.to_owned(), |text, (from, to)| text.replacen(from, to, 1)) + lines;
    let (scenario, warnings) = read_with_warnings(&text, "right.toml").unwrap_or_else(|wrong| panic!("{wrong:?}"));
    assert!(warnings.is_empty(), "{}", warnings.render());
    scenario
}

fn breaches(lines: &str) -> Option<Breaches> {
    right(&[], lines).streams[0].breaches.clone()
}

fn plan(action: Action) -> BreachPlan {
    BreachPlan { rule: BreachRule { action, recover: 3 }, at: None, hook: Vec::new() }
}

/// One error, its message, what it underlines in which line, and its help.
fn wrong(changes: &[(&str, &str)], lines: &str, message: &str, (line, underlined): (usize, &str), help: &str) {
    let text = changes.iter().fold(RIGHT.to_owned(), |text, (from, to)| text.replacen(from, to, 1)) + lines;
    let found: Diagnostics = read(&text, "wrong.toml").expect_err(lines);
    let rendered = found.render();
    let placed: Vec<_> = found.placed().collect();
    assert_eq!(placed.len(), 1, "{rendered}");
    let one = &placed[0];
    assert!(one.message.contains(message), "message\n{rendered}");
    assert_eq!((one.line, one.text), (line, underlined), "{rendered}");
    assert!(one.help.contains(help), "help\n{rendered}");
    assert!(!one.expected.is_empty(), "{rendered}");
}

/// The same with one line after the right file.
fn line(line: &str, message: &str, underlined: &str, help: &str) {
    wrong(&[], line, message, (12, underlined), help);
}

#[test]
fn every_condition_takes_every_action() {
    assert_eq!(breaches(""), None);
    assert_eq!(breaches("on_breach = {}"), None);
    for condition in Condition::ALL {
        for (text, action) in [
            ("\"count\"", Action::Count),
            ("\"stop\"", Action::Stop),
            ("\"hold\"", Action::Hold),
            ("{ action = \"override\", value = 7 }", Action::Override(7)),
            ("{ action = \"safe\", value = 9223372036854775807 }", Action::Safe(i64::MAX as u64)),
            ("{}", Action::Count),
        ] {
            let found = breaches(&format!("on_breach = {{ {} = {text} }}", condition.key())).unwrap();
            for other in Condition::ALL {
                let expected = (other == condition).then(|| plan(action));
                assert_eq!(found.plans[other.index()], expected, "{condition:?} = {text}");
            }
            assert_eq!((found.receive_timeout, found.allowed_missing), (Nanos::from_millis(10), 0));
        }
    }
}

#[test]
fn all_keys_are_read_and_come_to_the_engine() {
    let scenario = right(
        &[],
        r#"receive_timeout = "7ms"
on_breach.missed = { action = "hold", more_than = 2, recover = 5, at = "writer" }
on_breach.late = { action = "safe", value = 1, hook = "alarm", at = "both" }
on_breach.silent = { hook = ["/bin/sh", "-c", "echo $DOWNBEAT_BREACH"], at = "reader" }
"#,
    );
    let stream = &scenario.streams[0];
    let breaches = stream.breaches.as_ref().unwrap();
    let hook = |condition: Condition| breaches.plans[condition.index()].as_ref().unwrap().hook.clone();
    assert_eq!(hook(Condition::Late), ["alarm"]);
    assert_eq!(hook(Condition::Silent), ["/bin/sh", "-c", "echo $DOWNBEAT_BREACH"]);
    assert!(breaches.plan(Condition::Missed, StreamEnd::Reader).is_none());
    let writer = stream.breach_rules(&scenario, StreamEnd::Writer).unwrap();
    let reader = stream.breach_rules(&scenario, StreamEnd::Reader).unwrap();
    let held = Some(BreachRule { action: Action::Hold, recover: 5 });
    assert_eq!((writer.rule(Condition::Missed), reader.rule(Condition::Missed)), (held, None));
    assert_eq!((writer.allowed_missing, writer.receive_timeout), (2, Nanos::ZERO), "the writer does not wait");
    assert_eq!(reader.receive_timeout, Nanos::from_millis(7));
    assert_eq!((writer.longest_way, writer.longest_round_trip_cycles), (Some(Nanos::from_millis(4)), Some(5)));
    assert_eq!((reader.longest_way, reader.longest_round_trip_cycles), (Some(Nanos::from_millis(2)), None));
    let engine = stream.engine(&scenario, StreamEnd::Writer).unwrap();
    assert!(engine.breach(Condition::Missed).is_some() && engine.breach(Condition::Silent).is_none());
}

#[test]
fn a_receive_timeout_alone_counts_silences() {
    let found = breaches("receive_timeout = \"1ms\"").unwrap();
    assert_eq!(found.plans[Condition::Silent.index()], Some(plan(Action::Count)));
    assert_eq!(found.receive_timeout, Nanos::from_millis(1));
    line("receive_timeout = \"0s\"", "`receive_timeout` of [[streams]] is 0s", "\"0s\"", "10ms");
    line("receive_timeout = \"999us\"", "is 999us", "\"999us\"", "write for example `receive_timeout = \"10ms\"`");
    line("receive_timeout = 5", "is a whole number", "5", "a number alone has no unit");
}

#[test]
fn unknown_words_are_named_with_the_nearest() {
    line("on_breach = { silnt = \"count\" }", "unknown key `silnt` in `on_breach`", "silnt", "did you mean `silent`?");
    line("on_breach = { silent = \"stopp\" }", "`silent` of `on_breach` cannot be \"stopp\"", "\"stopp\"", "\"stop\"");
    line(
        "on_breach = { late = { action = \"hald\" } }",
        "`action` of `on_breach.late` cannot be \"hald\"",
        "\"hald\"",
        "did you mean \"hold\"?",
    );
    line("on_breach = { late = { acton = \"hold\" } }", "unknown key `acton`", "acton", "did you mean `action`?");
    line("on_breach = { late = { more_than = 2 } }", "unknown key `more_than`", "more_than", "knows `action`");
    line("on_breach = \"count\"", "`on_breach` of [[streams]] is a text", "\"count\"", "on_breach = { missed");
    line("on_breach = 3", "`on_breach` of [[streams]] is a whole number", "3", "on_breach = { … }");
    line("on_breach = { missed = 3 }", "`missed` of `on_breach` is a whole number", "3", "missed = { … }");
    line("on_breach = { missed = { at = \"loop\" } }", "`at` of `on_breach.missed` cannot be", "\"loop\"", "writer");
}

#[test]
fn values_belong_to_override_and_safe() {
    for action in ["override", "safe"] {
        line(
            &format!("on_breach = {{ silent = \"{action}\" }}"),
            &format!("`silent` of `on_breach` is \"{action}\" without a `value`"),
            &format!("\"{action}\""),
            &format!("silent = {{ action = \"{action}\", value = 0 }}"),
        );
        let with = |value: &str| format!("on_breach = {{ silent = {{ action = \"{action}\", value = {value} }} }}");
        line(&with("[0, 0, 0]"), "`value` of `on_breach.silent` is a list", "[0, 0, 0]", "value = 0");
        line(&with("-1"), "`value` of `on_breach.silent` is -1", "-1", "the nearest that is allowed is 0");
        line(&with("0.5"), "is a decimal number", "0.5", "value = 0");
        line(&with("\"7\""), "is a text", "\"7\"", "write `value = 7` without quotes");
        line(&with("true"), "is a true or false", "true", "value = 0");
    }
    let needless = "on_breach = { silent = { action = \"hold\", value = 0 } }";
    line(needless, "is given, but the action is \"hold\"", "0", "only \"override\" and \"safe\"");
    line("on_breach = { silent = { value = 4 } }", "the action is \"count\"", "4", "remove it");
}

#[test]
fn numbers_and_times_have_their_limits() {
    line(
        "on_breach = { late = { recover = 0 } }",
        "`recover` of `on_breach.late` is 0",
        "0",
        "nearest that is allowed is 1",
    );
    line("on_breach = { late = { recover = \"3\" } }", "is a text", "\"3\"", "recover = 3");
    line("on_breach = { missed = { more_than = -1 } }", "`more_than` of `on_breach.missed` is -1", "-1", "is 0");
    let after = "on_breach = { silent = { after = \"0ms\" } }";
    line(after, "`after` of `on_breach.silent` is not known", "\"0ms\"", "receive_timeout = \"10ms\"");
}

#[test]
fn a_hook_names_a_program() {
    line("on_breach = { late = \"hook\" }", "a hook goes along with an action", "\"hook\"", "late = { hook = [");
    let with = |hook: &str| format!("on_breach = {{ late = {{ hook = {hook} }} }}");
    line(&with("[]"), "`hook` of `on_breach.late` names no program", "[]", "no shell reads it");
    line(&with("\" \""), "names no program", "\" \"", "/usr/local/bin/alarm");
    line(&with("[\"a\", \"b\\u0000\"]"), "names no program", "[\"a\", \"b\\u0000\"]", "alarm");
    line(&with("[\"a\", 3]"), "is a whole number", "3", "/usr/local/bin/alarm");
    line(&with("7"), "is a whole number", "7", "with brackets");
}

#[test]
fn an_end_must_be_there_that_sees_it_and_can_act() {
    let silent = ("echo = true", "echo = false");
    wrong(
        &[silent],
        "on_breach = { missed = { at = \"writer\" } }",
        "is for the writer, which reads nothing",
        (12, "{ at = \"writer\" }"),
        "echo = true",
    );
    let safe = "{ action = \"safe\", value = 0 }";
    wrong(
        &[silent],
        &format!("on_breach = {{ missed = {safe} }}"),
        "publishes nothing in this stream",
        (12, safe),
        "action = \"override\"",
    );
    let requirement = "requirement = { round_trip_stack = \"4ms\", round_trip_counter = 5, one_way_stack = \"2ms\" }";
    let late = "on_breach = { late = \"count\" }";
    let wire = (requirement, "requirement = { round_trip_wire = \"4ms\" }");
    wrong(&[wire], late, "has nothing to compare", (12, "\"count\""), "add one to `requirement`");
    wrong(&[(requirement, "")], late, "has nothing to compare", (12, "\"count\""), "round_trip_stack = \"4ms\"");
    // Without an echo only the reader can tell, and only by a Timestamp.
    let round_trip = (requirement, "requirement = { round_trip_stack = \"4ms\" }");
    wrong(&[round_trip, silent], late, "has nothing to compare", (12, "\"count\""), "add one to `requirement`");
    let raw = ("variables = 3", "variables = 3\nencoding = \"raw\"");
    wrong(&[silent, raw], late, "has nothing to compare", (13, "\"count\""), "carry no Timestamp");
    let at_reader = "on_breach = { late = { at = \"reader\" } }";
    wrong(&[raw], at_reader, "has nothing to compare", (13, "{ at = \"reader\" }"), "carry no Timestamp");
    right(&[raw], late);
    right(&[silent], late);
    right(&[(requirement, "requirement = { class = \"motion-control\" }")], late);
    // A requirement with a mistake is complained about once.
    let mistake = (requirement, "requirement = { latency = \"4ms\" }");
    wrong(&[mistake], late, "has to name its quantity", (2, "latency"), "one_way_stack");
}
