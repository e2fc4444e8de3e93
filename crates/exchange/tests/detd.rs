//! Requests of detd: read, added, answered, written.

mod common;

use common::{golden, golden_scenario, mangled, same};
use downbeat_exchange::detd::{self, Request, Told};
use proptest::prelude::*;
use scenario::Scenario;
use units::Nanos;

fn request() -> Request {
    detd::read(&golden("request.json"), "request.json").unwrap().0
}

fn told(scenario: &Scenario) -> Told {
    Told { reader: scenario.host_named("loop"), ..Told::default() }
}

fn added(scenario: &Scenario, request: &Request) -> Scenario {
    let made = detd::add(request, scenario, &told(scenario), "request.json").unwrap();
    scenario::read(&made.text, "plant.toml").unwrap_or_else(|error| panic!("{}", error.render()))
}

#[test]
fn a_request_becomes_a_stream_and_is_granted() {
    let before = golden_scenario("plant.toml");
    let refused = detd::answer(&request(), &before, None);
    assert!(!refused.ok && refused.notes[0].what.contains("downbeat import detd"), "{refused:?}");
    assert_eq!(refused.to_json(), "{\n  \"ok\": false\n}\n");

    let made = detd::add(&request(), &before, &told(&before), "request.json").unwrap();
    same("plant-with-talker.toml", &made.text);
    // What stood there stands there still, comments too.
    let heading = made.text.find("# request.json").unwrap();
    assert!(made.text.starts_with(golden("plant.toml").split("\n[[traffic]]").next().unwrap().trim_end()));
    assert!(made.text[heading..].contains("[[traffic]]"));

    let after = golden_scenario("plant-with-talker.toml");
    let stream = &after.streams[2];
    assert_eq!((stream.cycle, stream.offset, stream.vid, stream.pcp), (Nanos(2_000_000), Nanos(250_000), 3, 6));
    assert_eq!((stream.frame().link_bytes(), made.notes.len()), (1521, 1));
    let reply = detd::answer(&request(), &after, None);
    assert!(reply.ok && reply.notes.is_empty(), "{reply:?}");
    same("reply.json", &reply.to_json());
    // The plan has that interface, and gives a socket's priority as PCP.
    let plan = tsn::plan(&after, stream.writer);
    let made = plan.text(tsn::Form::Ip).unwrap();
    assert!(
        made.contains("name enp2s0.3 type vlan id 3") && made.contains("egress-qos-map") && made.contains("6:6"),
        "{made}"
    );
    same("requests.json", &detd::of_host(&after, stream.writer).unwrap().0);
}

#[test]
fn a_plan_that_differs_refuses() {
    let after = added(&golden_scenario("plant.toml"), &request());
    let ask = |from: &str, to: &str| {
        let (request, _) = detd::read(&golden("request.json").replace(from, to), "request.json").unwrap();
        detd::answer(&request, &after, None)
    };
    for (from, to, at) in [
        ("\"period\": 2000000", "\"period\": 4000000", "period"),
        ("\"size\": 1522", "\"size\": 200", "size"),
        ("\"vid\": 3", "\"vid\": 4", "request"),
        ("\"pcp\": 6", "\"pcp\": 5", "request"),
        ("7a:b9:ed:d6:d2:12", "7a:b9:ed:d6:d2:13", "request"),
        ("enp2s0", "enp9s0", "interface"),
    ] {
        let reply = ask(from, to);
        assert!(!reply.ok && reply.vlan_interface.is_none() && reply.socket_priority.is_none());
        assert_eq!(reply.notes[0].at, at, "{to}: {reply:?}");
    }
    let launch = golden("request.json").replace("250000", "260000");
    let reply = detd::answer(&detd::read(&launch, "r").unwrap().0, &after, None);
    assert!(!reply.ok && reply.notes[0].at == "txmin", "{reply:?}");
    // The host that is named has to be the one with the interface.
    assert!(!detd::answer(&request(), &after, after.host_named("loop")).ok);
}

#[test]
fn a_listener_is_answered_and_not_added() {
    let after = added(&golden_scenario("plant.toml"), &request());
    let text = r#"{ "interface": "eth0", "dmac": "7a:b9:ed:d6:d2:12", "vid": 3, "pcp": 6, "talker": false }"#;
    let (listener, _) = detd::read(text, "l.json").unwrap();
    let reply = detd::answer(&listener, &after, after.host_named("loop"));
    assert!(reply.ok && reply.vlan_interface.as_deref() == Some("eth0.3"), "{reply:?}");
    // "loop" gets no VLAN interfaces in this plan, and the reply says so.
    assert!(reply.notes[0].what.contains("[hosts.loop]"), "{reply:?}");
    let error = detd::add(&listener, &after, &told(&after), "l.json").unwrap_err().to_string();
    assert!(error.contains("a listener's request adds no stream"), "{error}");
}

#[test]
fn other_words_for_the_same_are_read() {
    let text = r#"{ "interface": "enp2s0", "interval": 2000000, "size": 1522, "addr": "7A:B9:ED:D6:D2:12", "vid": 3, "pcp": 6,
        "txoffset": 250000, "setupSocket": true, "basetime": 7, "qdiscmap": "x" }"#;
    let (read, notes) = detd::read(text, "r.json").unwrap();
    assert_eq!(read, request());
    let at: Vec<&str> = notes.iter().map(|note| note.at.as_str()).collect();
    assert_eq!(at, ["qdiscmap", "setupSocket", "basetime"], "{notes:?}");
    let ranged = golden("request.json").replace("\"txmax\": 250000", "\"txmax\": 260000");
    assert_eq!(detd::read(&ranged, "r").unwrap().1[0].at, "txmax");
}

#[test]
fn streams_in_braces_get_one_more() {
    let text = r#"
name = "two"
time = { cycle = "2ms", offset = "150us" }
hosts = { pub = { interface = "enp2s0" }, loop = {} }
links = [{ between = ["pub", "loop"] }]
streams = [{ name = "talker-1", writer = "pub", reader = "loop", variables = 3, vid = 8, pcp = 3 }]
"#;
    let scenario = scenario::read(text, "two.toml").unwrap();
    let made = detd::add(&request(), &scenario, &Told::default(), "r.json").unwrap();
    let after = scenario::read(&made.text, "two.toml").unwrap_or_else(|error| panic!("{}", error.render()));
    assert_eq!((after.streams.len(), after.streams[1].name.as_str()), (2, "talker-2"));
}

#[test]
fn what_is_wrong_is_told_with_place_and_mend() {
    for (from, to, words) in [
        ("\"vid\": 3,", "\"vid\": 3", "line 7, column 3: not JSON"),
        ("\"vid\": 3", "\"vid\": 0", "vid: is 0\n  expected: a whole number from 1 to 4094"),
        ("\"size\": 1522", "\"size\": 63", "size: is 63"),
        ("\"period\": 2000000", "\"period\": 4294967296", "period: is 4294967296"),
        ("\"txmin\": 250000", "\"txmin\": 2000000", "txmin: is 2000000\n  expected: a whole number from 0 to 1999999"),
        ("\"txmax\": 250000", "\"txmax\": 249999", "txmax: is 249999, before txmin"),
        ("\"txmin\"", "\"txoffset\"", "\"txoffset\" and \"txmax\" say the same"),
        ("\"txmin\"", "\"txmni\"", "\"txmin\" is missing"),
        ("\"dmac\"", "\"mac\"", "\"dmac\" is missing"),
        ("\"talker\": true", "\"talker\": 1", "talker: is 1"),
    ] {
        let told = detd::read(&golden("request.json").replace(from, to), "request.json").unwrap_err().to_string();
        assert!(told.contains(words) && told.contains("\n  mend: "), "{to}: {told}");
    }
}

#[test]
fn who_asks_and_who_reads_has_to_be_clear() {
    let scenario = golden_scenario("plant.toml");
    let add = |text: &str, told: &Told| {
        let (request, _) = detd::read(text, "r.json").unwrap();
        detd::add(&request, &scenario, told, "r.json").map(|_| ()).map_err(|error| error.to_string())
    };
    let text = golden("request.json");
    assert_eq!(add(&text, &Told::default()), Ok(()), "one other station");
    let bridge = Told { reader: scenario.host_named("left"), ..Told::default() };
    assert!(add(&text, &bridge).unwrap_err().contains("left cannot read it\n  expected: one of: loop"));
    let loops = Told { host: scenario.host_named("loop"), ..Told::default() };
    assert!(add(&text, &loops).unwrap_err().contains("loop has no interface \"enp2s0\""));
    // Of bridges, no interface talks.
    assert!(add(&text.replace("enp2s0", "sw0p2"), &Told::default()).unwrap_err().contains("\"sw0p2\""));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_request_is_what_its_stream_asks_for(
        period in 1_000..4_294_967_295i64, size in 64..1523u32, dmac in any::<[u8; 6]>(), vid in 1..4095u16, pcp in 0..8u8, share in 0.0..1.0f64
    ) {
        prop_assume!(dmac != [0; 6] && ![8, 3000].contains(&vid));
        let launch = Nanos((period as f64 * share) as i64);
        let talker = detd::Talker { period: Nanos(period), size_bytes: size, launch };
        let asked = Request { interface: "enp2s0".into(), destination: dmac, vid, pcp, talker: Some(talker) };
        let (read, notes) = detd::read(&asked.to_json(), "r.json").unwrap();
        prop_assert_eq!(&read, &asked);
        prop_assert!(notes.is_empty());
        let after = added(&golden_scenario("plant.toml"), &read);
        let reply = detd::answer(&asked, &after, None);
        prop_assert!(reply.ok && reply.notes.is_empty(), "{:?}", reply);
        prop_assert_eq!(reply.socket_priority, Some(u32::from(pcp)));
        // What it asks for itself is the same, but for bytes that make no variable.
        let (text, _) = detd::of_host(&after, after.host_named("pub").unwrap()).unwrap();
        let all: serde_json::Value = serde_json::from_str(&text).unwrap();
        let (again, _) = detd::read(&all["requests"][1]["request"].to_string(), "again.json").unwrap();
        let bytes = again.talker.unwrap().size_bytes;
        prop_assert!(bytes <= size && size - bytes < 9, "{} for {}", bytes, size);
        prop_assert_eq!(Request { talker: Some(detd::Talker { size_bytes: size, ..again.talker.unwrap() }), ..again }, asked);
    }

    #[test]
    fn nothing_mangled_panics(text in mangled(golden("request.json"))) {
        if let Ok((request, _)) = detd::read(&text, "r.json") {
            let scenario = golden_scenario("plant.toml");
            let _ = detd::answer(&request, &scenario, None);
            let _ = detd::add(&request, &scenario, &told(&scenario), "r.json");
        }
    }
}
