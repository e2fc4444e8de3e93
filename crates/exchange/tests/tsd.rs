//! Stream files there and back.

mod common;

use common::{golden, golden_scenario, mangled, same};
use downbeat_exchange::tsd::{self, StreamFile, TimedStream};
use proptest::prelude::*;
use units::{Nanos, Tai};

fn problems(text: &str) -> String {
    tsd::read(text, "flow.json").unwrap_err().to_string()
}

#[test]
fn the_papers_file_becomes_a_scenario_and_comes_back() {
    let text = golden("flow.json");
    let (read, notes) = tsd::read(&text, "flow.json").unwrap();
    assert_eq!((read.cycle, read.start, read.preemptable), (Nanos(250_000), Tai(0), 1));
    assert!(notes.is_empty(), "{notes:?}");
    let made = tsd::to_scenario(&read, "flow", "flow.json", &notes).unwrap();
    same("flow.toml", &made.text);
    let scenario = golden_scenario("flow.toml");
    let stream = &scenario.streams[0];
    assert_eq!((stream.vid, stream.pcp, stream.offset, stream.launch), (3000, 7, Nanos(200_000), true));
    assert_eq!(stream.destinations[0], [0x01, 0x00, 0x5E, 0, 0, 1]);
    let port = stream.path[0];
    assert_eq!((scenario.port(port).queue.class_of(7), scenario.nic(port).preemptable), (7, 1));
    let (back, _) = tsd::of_host(&scenario, stream.writer).unwrap();
    assert_eq!(back.to_json(), text);
}

#[test]
fn underscores_and_blanks_are_one() {
    let text = golden("flow.json");
    let other = ["tx time", "tclass mask", "stream objects", "cycle time", "dst mac", "start sec"]
        .iter()
        .fold(text.clone(), |text, key| text.replace(&format!("\"{key}\""), &format!("\"{}\"", key.replace(' ', "_"))));
    assert_ne!(text, other);
    assert_eq!(tsd::read(&text, "a").unwrap(), tsd::read(&other, "a").unwrap());
    let both = text.replace("\"vid\": 3000", "\"tx_time\": { \"offset\": 1 }, \"vid\": 3000");
    assert!(problems(&both).contains("\"tx_time\" and \"tx time\" say the same"), "{}", problems(&both));
}

#[test]
fn what_is_not_known_is_named_and_kept_in_a_comment() {
    let text = golden("flow.json").replace("\"vid\": 3000", "\"tx tmie\": 1, \"interval\": 7, \"vid\": 3000");
    let (read, notes) = tsd::read(&text, "flow.json").unwrap();
    let told: Vec<String> = notes.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].starts_with("stream objects[0].stream.tx tmie: ") && told[0].ends_with("did you mean \"tx time\"?")
    );
    let made = tsd::to_scenario(&read, "flow", "flow.json", &notes).unwrap();
    assert!(told.iter().all(|note| made.text.contains(note)), "{}", made.text);
}

#[test]
fn what_is_wrong_is_told_with_place_and_mend() {
    let text = golden("flow.json");
    for (from, to, words) in [
        ("\"vid\": 3000,", "\"vid\": 3000", "line 16, column 9: not JSON: "),
        (
            "\"vid\": 3000",
            "\"vid\": 4095",
            "stream objects[0].stream.vid: is 4095\n  expected: a whole number from 0 to 4094",
        ),
        ("\"vid\": 3000", "\"vid\": \"3000\"", "stream.vid: is \"3000\""),
        ("\"vid\": 3000", "\"vdi\": 3000", "stream objects[0].stream: \"vid\" is missing; did you mean it by \"vdi\"?"),
        ("\"vid\": 3000", "\"vid\": 1, \"vid\": 2", "the key \"vid\" stands twice"),
        ("\"pcp\": 7", "\"pcp\": 8", "stream.pcp: is 8\n  expected: a whole number from 0 to 7"),
        (
            "\"offset\": 200000",
            "\"offset\": 250000",
            "tx time.offset: is 250000\n  expected: a whole number from 0 to 249999",
        ),
        ("\"offset\": 200000", "\"offset\": 0.5", "tx time.offset: is 0.5"),
        ("\"cycle time\": 250000", "\"cycle time\": 999", "schedule.cycle time: is 999"),
        ("\"start nsec\": 0", "\"start nsec\": 1000000000", "schedule.start nsec: is 1000000000"),
        ("\"start sec\": 0", "\"start sec\": 4611686018", "schedule.start sec: is 4611686018"),
        ("\"tclass mask\": 1", "\"tclass mask\": 255", "preemption.tclass mask: makes every traffic class preemptable"),
        ("01:00:5E:00:00:01", "01:00:5E:00:00", "stream.dst mac: is \"01:00:5E:00:00\""),
        ("\"schedule\"", "\"plan\"", "the file: \"schedule\" is missing"),
    ] {
        let told = problems(&text.replace(from, to));
        assert!(told.contains(words) && told.contains("\n  mend: "), "{to}: {told}");
    }
    assert!(problems("[]").contains("the file: is a list of 0"));
    assert!(problems("").contains("line 1, column 0"));
    assert!(problems(&"[".repeat(100_000)).contains("recursion limit"));
    // All at once.
    let told = problems(&text.replace("\"vid\": 3000", "\"vid\": -1").replace("\"pcp\": 7", "\"pcp\": null"));
    assert!(told.contains("vid: is -1") && told.contains("pcp: is null"), "{told}");
}

fn stream(name: &str, octet: u8, pcp: u8, tclass: u8) -> TimedStream {
    TimedStream { name: name.into(), destination: [1, 0, 0x5E, 0, 0, octet], vid: 1, pcp, tclass, offset: None }
}

#[test]
fn what_one_network_cannot_have_is_refused() {
    let file = |streams| StreamFile { cycle: Nanos(250_000), start: Tai(0), streams, preemptable: 0 };
    let wrong = |streams| tsd::to_scenario(&file(streams), "x", "flow.json", &[]).unwrap_err().to_string();
    let told = wrong(vec![stream("a", 1, 7, 7), stream("b", 2, 7, 6)]);
    assert!(told.contains("PCP 7 is in traffic class 6 here and in 7 for \"a\""), "{told}");
    let told = wrong(vec![stream("a", 1, 7, 7), stream("b", 1, 7, 7)]);
    assert!(told.contains("vid and dst mac are those of \"a\""), "{told}");
    let told = wrong(vec![stream("a_b", 1, 7, 7), stream("a b", 2, 7, 7)]);
    assert!(told.contains("\"a_b\" and \"a b\" are both \"a-b\""), "{told}");
    // A name that a scenario cannot have is told of, in the text too; it cannot end the comment.
    let made = tsd::to_scenario(&file(vec![stream("a\n[x", 1, 7, 7)]), "", "flow\n.json", &[]).unwrap();
    assert_eq!(made.notes.len(), 1);
    let scenario = scenario::read(&made.text, "x.toml").unwrap_or_else(|error| panic!("{}", error.render()));
    assert_eq!((scenario.name.as_str(), scenario.streams[0].name.as_str()), ("streams", "a--x"));
}

#[test]
fn what_a_file_cannot_say_is_named() {
    let scenario = golden_scenario("plant.toml");
    let host = |name| scenario.host_named(name).unwrap();
    let (file, notes) = tsd::of_host(&scenario, host("loop")).unwrap();
    // Its own stream, and the answers of the other.
    let names: Vec<&str> = file.streams.iter().map(|stream| stream.name.as_str()).collect();
    assert_eq!((names, file.start), (vec!["control", "sensor"], Tai(1_700_000_000_000_000_100)));
    let told: Vec<String> = notes.iter().map(ToString::to_string).collect();
    for words in ["stream control (answer): its reader", "traffic: 1 flow", "hosts and links: not said"] {
        assert!(told.iter().any(|note| note.starts_with(words)), "{words}: {told:?}");
    }
    let none = tsd::of_host(&scenario, host("left")).unwrap_err().to_string();
    assert!(none.contains("host left") && none.contains("name one of: pub, loop"), "{none}");
}

/// Files that a scenario can hold: names of its alphabet, one class a PCP, addresses of their own.
fn files() -> impl Strategy<Value = StreamFile> {
    let cycle = prop_oneof![1_000..1_000_000i64, Just(3_600_000_000_000), Just(250_000)];
    let start = prop_oneof![Just(0i64), 0..4_611_686_018_000_000_000i64];
    let one = ("[A-Za-z0-9][A-Za-z0-9-]{0,12}", any::<[u8; 4]>(), 0..4095u16, 0..8u8, prop::option::of(0.0..1.0f64));
    (cycle, start, prop::collection::vec(one, 1..12), any::<[u8; 8]>(), 0..255u8).prop_map(
        |(cycle, start, parts, classes, preemptable)| {
            let streams =
                parts.into_iter().enumerate().map(|(index, (name, [a, b, c, d], vid, pcp, share))| TimedStream {
                    name: format!("{name}-{index}"),
                    destination: [a, b, c, d, 1, index as u8],
                    vid,
                    pcp,
                    tclass: classes[usize::from(pcp)] % 8,
                    offset: share.map(|share| Nanos((cycle as f64 * share) as i64)),
                });
            StreamFile { cycle: Nanos(cycle), start: Tai(start), streams: streams.collect(), preemptable }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_file_comes_back_as_it_was(file in files()) {
        let (read, notes) = tsd::read(&file.to_json(), "x.json").unwrap();
        prop_assert_eq!(&read, &file);
        prop_assert!(notes.is_empty());
        let made = tsd::to_scenario(&read, "x", "x.json", &notes).unwrap();
        let scenario = scenario::read(&made.text, "x.toml");
        prop_assert!(scenario.is_ok(), "{}\n{}", made.text, scenario.unwrap_err().render());
        let scenario = scenario.unwrap();
        let (back, _) = tsd::of_host(&scenario, scenario.host_named("talker").unwrap()).unwrap();
        prop_assert_eq!(back, file);
    }

    #[test]
    fn nothing_mangled_panics(text in mangled(golden("flow.json"))) {
        if let Ok((read, notes)) = tsd::read(&text, "x.json")
            && let Ok(made) = tsd::to_scenario(&read, "x", "x.json", &notes)
        {
            // What is taken is a scenario.
            let scenario = scenario::read(&made.text, "x.toml");
            prop_assert!(scenario.is_ok(), "{}\n{}", made.text, scenario.unwrap_err().render());
        }
    }

    #[test]
    fn any_text_is_told_of(text in ".{0,200}") {
        prop_assert!(tsd::read(&text, "x.json").is_err());
    }
}
