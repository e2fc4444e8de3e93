//! `application` of a stream: what is read, and what is wrong.

use downbeat_scenario::{ApplicationKind, Diagnostics, Scenario, StreamEnd, read};
use units::Nanos;

fn text(variables: u16, line: &str) -> String {
    format!(
        r#"name = "right"
time = {{ cycle = "1ms" }}
hosts = {{ pub = {{}}, loop = {{}} }}
links = [{{ between = ["pub", "loop"] }}]
[[streams]]
name = "loop"
writer = "pub"
reader = "loop"
echo = true
variables = {variables}
{line}
"#
    )
}

fn right(line: &str) -> Scenario {
    read(&text(3, line), "right.toml").unwrap_or_else(|wrong: Diagnostics| panic!("{}", wrong.render()))
}

#[test]
fn each_end_has_the_application_it_names_and_counters_by_default() {
    const COUNTER: ApplicationKind = ApplicationKind::Counter;
    const IMAGE: ApplicationKind = ApplicationKind::Image;
    for (line, expected) in [
        ("", [COUNTER, COUNTER]),
        (r#"application = "counter""#, [COUNTER, COUNTER]),
        (r#"application = "image""#, [IMAGE, IMAGE]),
        (r#"application = { reader = "image" }"#, [COUNTER, IMAGE]),
        (r#"application = { writer = "image", reader = "counter" }"#, [IMAGE, COUNTER]),
    ] {
        let stream = &right(line).streams[0];
        assert_eq!(stream.applications, expected, "{line}");
        assert_eq!(stream.has_values(), expected.contains(&IMAGE), "{line}");
        assert_eq!([StreamEnd::Writer, StreamEnd::Reader].map(|end| stream.application(end)), expected);
    }
}

#[test]
fn inputs_are_bad_after_the_receive_timeout_or_ten_cycles() {
    assert_eq!(right("application = \"image\"").streams[0].receive_timeout(), Nanos::from_millis(10));
    let line = "application = \"image\"\nreceive_timeout = \"3ms\"";
    assert_eq!(right(line).streams[0].receive_timeout(), Nanos::from_millis(3));
}

#[test]
fn mistakes_are_told_with_their_mend() {
    let told = |variables: u16, line: &str| read(&text(variables, line), "wrong.toml").expect_err(line).render();
    let found = told(3, r#"application = "images""#);
    assert!(found.contains("did you mean \"image\"?"), "{found}");
    let found = told(3, r#"application = { loop = "image" }"#);
    assert!(found.contains("unknown key `loop`") && found.contains("`writer` and `reader`"), "{found}");
    let found = told(3, "application = 3");
    assert!(found.contains("a table"), "{found}");
    let found = told(1, r#"application = "image""#);
    assert!(found.contains("variables = 2"), "{found}");
    let found = told(3, "application = \"image\"\non_breach = { inconsistent = \"count\" }");
    assert!(found.contains("remove `inconsistent`"), "{found}");
}
