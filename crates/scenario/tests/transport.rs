//! Streams over UDP: addresses, sizes, and what is said about wrong ones.

use downbeat_scenario::{Scenario, read, read_with_warnings};

const RIGHT: &str = r#"name = "right"
[time]
cycle = "1ms"
[hosts.pub]
[hosts.loop]
[[links]]
between = ["pub", "loop"]
[[streams]]
name = "first"
writer = "pub"
reader = "loop"
echo = true
variables = 3
transport = "udp"
pcp = 5
"#;

fn with(more: &str) -> String {
    format!("{RIGHT}{more}")
}

fn scenario(text: &str) -> Scenario {
    read(text, "right.toml").map_err(|wrong| wrong.render()).unwrap()
}

/// What is said about a wrong file, all of it.
fn wrong(text: &str) -> String {
    read_with_warnings(text, "wrong.toml").expect_err("it is wrong").render()
}

#[test]
fn every_direction_has_a_group_of_its_own() {
    let second =
        "[[streams]]\nname = \"second\"\nwriter = \"pub\"\nreader = \"loop\"\nvariables = 3\ntransport = \"udp\"\n";
    let scenario = scenario(&with(second));
    let addresses = |stream: usize| scenario.streams[stream].udp.unwrap().map(|address| address.to_string());
    assert_eq!(addresses(0), ["239.192.0.1:4840", "239.192.0.2:4840"]);
    assert_eq!(addresses(1), ["239.192.0.3:4840", "239.192.0.4:4840"]);
    assert_eq!((scenario.streams[0].tag(), scenario.streams[0].pcp), (None, 5));
    assert_eq!(scenario.streams[0].ethernet(&scenario, false), None);
}

#[test]
fn addresses_are_read_as_the_standard_writes_them() {
    let hosts = |answer: &str| format!("answer_destination = \"opc.udp://{answer}\"\n");
    for (text, there, more, back) in [
        ("opc.udp://239.1.1.1", "239.1.1.1:4840", String::new(), "239.1.1.1:4841"),
        ("opc.udp://192.0.2.2:50000/", "192.0.2.2:50000", hosts("192.0.2.1"), "192.0.2.1:4840"),
        ("opc.udp://[ff02::1:2]", "[ff02::1:2]:4840", String::new(), "[ff02::1:2]:4841"),
        ("opc.udp://[fd00::2]:4850", "[fd00::2]:4850", hosts("[fd00::1]:4850"), "[fd00::1]:4850"),
    ] {
        let scenario = scenario(&with(&format!("destination = \"{text}\"\n{more}")));
        let addresses = scenario.streams[0].udp.unwrap().map(|address| address.to_string());
        assert_eq!(addresses, [there, back], "{text}");
    }
}

#[test]
fn headers_of_udp_and_ip_count() {
    // 14 Ethernet, 20 or 40 IP, 8 UDP; no tag.
    let socket_bytes = |more: &str| scenario(&with(more)).streams[0].frame().socket_bytes();
    assert_eq!(socket_bytes(""), 14 + 20 + 8 + 59);
    assert_eq!(socket_bytes("destination = \"opc.udp://[ff02::1]\"\n"), 14 + 40 + 8 + 59);
}

#[test]
fn wrong_ones_are_told() {
    for (more, message, mend) in [
        ("vid = 8\n", "has no place in a stream over UDP", "remove it"),
        ("destination = \"01-00-5E-00-00-01\"\n", "is not an address of UDP", "opc.udp://239.192.0.1:4840"),
        ("destination = \"opc.udp://plc1:4840\"\n", "is not an address of UDP", "names are not looked up"),
        ("destination = \"opc.udp://192.0.2.2:0\"\n", "is not an address of UDP", "opc.udp://"),
        ("destination = \"opc.udp://0.0.0.0\"\n", "is not an address of UDP", "opc.udp://"),
        ("destination = \"opc.udp://255.255.255.255\"\n", "is not an address of UDP", "a host or group"),
        ("destination = \"opc.udp://[::ffff:192.0.2.2]\"\n", "is not an address of UDP", "opc.udp://"),
        ("destination = \"opc.udp://[ff02::1]:99999\"\n", "is not an address of UDP", "opc.udp://"),
        (
            "destination = \"opc.udp://192.0.2.2\"\nanswer_destination = \"opc.udp://[fd00::1]\"\n",
            "expected one version of the Internet Protocol",
            "give both addresses of IPv4",
        ),
    ] {
        let said = wrong(&with(more));
        assert!(said.contains(message) && said.contains(mend), "{more}\n{said}");
    }
    let said = wrong(&RIGHT.replace("transport = \"udp\"", "transport = \"tcp\""));
    assert!(said.contains("expected one of `ethernet` and `udp`"), "{said}");
    let said = wrong(&RIGHT.replace("transport = \"udp\"", "destination = \"opc.udp://192.0.2.2\""));
    assert!(said.contains("add `transport = \"udp\"`"), "{said}");
}

#[test]
fn what_does_not_fit_a_datagram_is_told() {
    let of = |variables: u32| RIGHT.replace("variables = 3", &format!("variables = {variables}"));
    // 32 + 9·160 + 28 = 1500.
    assert_eq!(scenario(&of(160)).streams[0].frame().payload_bytes(), 1500);
    let said = wrong(&of(161));
    assert!(said.contains("1481 bytes of UADP and 28") && said.contains("at most 160 variables"), "{said}");
}

#[test]
fn one_address_for_two_directions_is_told() {
    let said = wrong(&with("destination = \"opc.udp://239.1.1.1\"\nanswer_destination = \"opc.udp://239.1.1.1\"\n"));
    assert!(said.contains("two directions of streams have destination 239.1.1.1:4840"), "{said}");
}

#[test]
fn an_address_of_another_host_is_told() {
    // Without one of their own, answers go to the next port of where they come from: for a host that is itself.
    let said = wrong(&with("destination = \"opc.udp://192.0.2.2\"\n"));
    for words in ["to host \"pub\" would go to 192.0.2.2, an address of host \"loop\"", "give `answer_destination`"] {
        assert!(said.contains(words), "{said}");
    }
    let said = wrong(&with(
        "destination = \"opc.udp://[fd00::2]\"\nanswer_destination = \"opc.udp://[fd00::1]\"\n[[streams]]\n\
         name = \"more\"\nwriter = \"pub\"\nreader = \"loop\"\nvariables = 3\ntransport = \"udp\"\n\
         destination = \"opc.udp://[fd00::1]:5000\"\n",
    ));
    for words in ["\"more\" to host \"loop\" would go to fd00::1", "give `destination`", "first told here"] {
        assert!(said.contains(words), "{said}");
    }
    // Without answers there is nothing to say.
    scenario(&with("destination = \"opc.udp://192.0.2.2\"\n").replace("echo = true", "echo = false"));
}
