//! Instance data against what the modules of IEEE 802.1Q say: a golden file that a person has read, a table of leaves
//! and their types, and yanglint where the modules are.

mod common;

use std::process::Command;

use common::{golden_scenario, same};
use downbeat_exchange::yang::{self, Called};
use serde_json::{Value, json};

fn instance(host: &str, called: &Called) -> (Value, String, Vec<String>) {
    let scenario = golden_scenario("plant.toml");
    let (text, notes) = yang::of_bridge(&scenario, scenario.host_named(host).unwrap(), called).unwrap();
    (serde_json::from_str(&text).unwrap(), text, notes.iter().map(ToString::to_string).collect())
}

fn port(document: &Value, index: usize) -> &Value {
    &document["ietf-interfaces:interfaces"]["interface"][index]["ieee802-dot1q-bridge:bridge-port"]
}

#[test]
fn a_bridge_is_written_as_it_was_read_by_a_person() {
    let (_, text, _) = instance("left", &Called::default());
    same("left.json", &text);
}

#[test]
fn gates_are_those_of_the_scenario() {
    let (document, ..) = instance("left", &Called::default());
    assert!(port(&document, 0).get("ieee802-dot1q-sched-bridge:gate-parameter-table").is_none());
    let gates = &port(&document, 1)["ieee802-dot1q-sched-bridge:gate-parameter-table"];
    let entry = |index: u32, interval: u32, gates: u8| {
        json!({ "index": index, "operation-name": "ieee802-dot1q-sched:set-gate-states",
                "time-interval-value": interval, "gate-states-value": gates })
    };
    assert_eq!(
        gates["admin-control-list"]["gate-control-entry"],
        json!([entry(0, 120_000, 0b011), entry(1, 30_000, 0), entry(2, 100_000, 0b100)])
    );
    assert_eq!(gates["admin-cycle-time"], json!({ "numerator": 1, "denominator": 4000 }));
    // 20 µs before 1970 is 230 µs after it, in cycles of 250.
    assert_eq!(gates["admin-base-time"], json!({ "seconds": "0", "nanoseconds": 230_000 }));
}

#[test]
fn classes_and_preemption_follow_the_priority() {
    let (document, ..) = instance("left", &Called::default());
    let table = &port(&document, 1)["traffic-class"]["traffic-class-table"];
    let status = &port(&document, 1)["ieee802-dot1q-preemption-bridge:frame-preemption-parameters"]["frame-preemption-status-table"];
    assert_eq!(table["number-of-traffic-classes"], 3);
    for (priority, class) in [0, 0, 0, 1, 0, 0, 1, 2].into_iter().enumerate() {
        assert_eq!(table[format!("priority{priority}")], class, "{priority}");
        let word = if class == 0 { "preemptable" } else { "express" };
        assert_eq!(status[format!("priority{priority}")], word, "{priority}");
    }
}

#[test]
fn vlans_have_the_ports_that_their_streams_pass() {
    let (document, ..) = instance("right", &Called::default());
    let component = &document["ieee802-dot1q-bridge:bridges"]["bridge"][0]["component"][0];
    let entries = component["filtering-database"]["vlan-registration-entry"].as_array().unwrap();
    let of = |vid: &str| entries.iter().find(|entry| entry["vids"] == vid).unwrap();
    for (vid, transmitted) in [("3000", "tagged"), ("8", "tagged"), ("1", "untagged")] {
        let map = of(vid)["port-map"].as_array().unwrap();
        assert_eq!(map.len(), 2, "{vid}");
        assert!(map.iter().all(|port| port["static-vlan-registration-entries"]["vlan-transmitted"] == transmitted));
    }
    assert_eq!(entries.len(), 3);
}

#[test]
fn names_are_those_told_and_what_is_not_said_is_named() {
    let called = Called {
        bridge: Some("SWITCH".into()),
        component: Some("main".into()),
        address: Some([0, 0x1B, 0x21, 0xAB, 0xCD, 0xEF]),
    };
    let (document, _, notes) = instance("right", &called);
    let bridge = &document["ieee802-dot1q-bridge:bridges"]["bridge"][0];
    assert_eq!((&bridge["name"], &bridge["address"]), (&json!("SWITCH"), &json!("00-1B-21-AB-CD-EF")));
    assert_eq!(port(&document, 0)["component-name"], bridge["component"][0]["name"]);
    assert!(
        notes.iter().any(|note| note.contains("credit-based shaper of class 1, 20Mbit/s, is not said")),
        "{notes:?}"
    );
    assert!(!notes.iter().any(|note| note.starts_with("address")), "{notes:?}");
    let (_, _, notes) = instance("left", &Called::default());
    assert!(
        notes[0].starts_with("address: left out") && notes[1].contains("1 = eth0 to pub, 2 = sw0p2 to right"),
        "{notes:?}"
    );
    let scenario = golden_scenario("plant.toml");
    let error = yang::of_bridge(&scenario, scenario.host_named("pub").unwrap(), &called).unwrap_err().to_string();
    assert!(error.contains("host pub: is a station") && error.contains("name one of: left, right"), "{error}");
}

/// The leaves that may be written, as the modules name and type them. Of `ieee802-dot1q-bridge` and `-types` as of
/// 802.1Qcw, `-sched` 2023-10-22, `-sched-bridge` 2023-03-08, `-preemption` 2023-10-26.
const LEAVES: [(&str, Type); 27] = [
    ("B:bridges/bridge/name", Type::Text(32)),
    ("B:bridges/bridge/address", Type::Mac),
    ("B:bridges/bridge/bridge-type", Type::Of("ieee802-dot1q-bridge", &["customer-vlan-bridge"])),
    ("B:bridges/bridge/component/name", Type::Text(usize::MAX)),
    ("B:bridges/bridge/component/type", Type::Of("ieee802-dot1q-bridge", &["c-vlan-component"])),
    ("B:bridges/bridge/component/filtering-database/vlan-registration-entry/database-id", Type::Number(0, U32)),
    ("B:bridges/bridge/component/filtering-database/vlan-registration-entry/vids", Type::Text(4)),
    ("B:bridges/bridge/component/filtering-database/vlan-registration-entry/entry-type", Type::Word(&["static"])),
    ("B:bridges/bridge/component/filtering-database/vlan-registration-entry/port-map/port-ref", Type::Number(1, 4095)),
    (
        "B:bridges/bridge/component/filtering-database/vlan-registration-entry/port-map/static-vlan-registration-entries/registrar-admin-control",
        Type::Word(&["fixed-new-ignored"]),
    ),
    (
        "B:bridges/bridge/component/filtering-database/vlan-registration-entry/port-map/static-vlan-registration-entries/vlan-transmitted",
        Type::Word(&["tagged", "untagged"]),
    ),
    ("B:bridges/bridge/component/bridge-vlan/vlan/vid", Type::Number(1, 4094)),
    ("ietf-interfaces:interfaces/interface/name", Type::Text(15)),
    ("ietf-interfaces:interfaces/interface/type", Type::Of("iana-if-type", &["ethernetCsmacd"])),
    ("P/component-name", Type::Text(usize::MAX)),
    ("P/port-type", Type::Of("ieee802-dot1q-bridge", &["c-vlan-bridge-port"])),
    ("P/pvid", Type::Number(1, 4094)),
    ("P/priority-regeneration/priorityN", Type::Number(0, 7)),
    ("P/pcp-selection", Type::Word(&["8P0D"])),
    ("P/traffic-class/traffic-class-table/number-of-traffic-classes", Type::Number(1, 8)),
    ("P/traffic-class/traffic-class-table/priorityN", Type::Number(0, 7)),
    ("P/G/admin-gate-states", Type::Number(0, 255)),
    ("P/G/admin-control-list/gate-control-entry/index", Type::Number(0, U32)),
    ("P/G/admin-control-list/gate-control-entry/time-interval-value", Type::Number(0, U32)),
    ("P/G/admin-control-list/gate-control-entry/gate-states-value", Type::Number(0, 255)),
    (
        "P/G/admin-control-list/gate-control-entry/operation-name",
        Type::Of("ieee802-dot1q-sched", &["set-gate-states", "set-and-hold-mac", "set-and-release-mac"]),
    ),
    (
        "P/ieee802-dot1q-preemption-bridge:frame-preemption-parameters/frame-preemption-status-table/priorityN",
        Type::Word(&["express", "preemptable"]),
    ),
];
const GATE_LEAVES: [(&str, Type); 6] = [
    ("P/G/gate-enabled", Type::Boolean),
    ("P/G/config-change", Type::Boolean),
    ("P/G/admin-cycle-time/numerator", Type::Number(0, U32)),
    ("P/G/admin-cycle-time/denominator", Type::Number(1, U32)),
    ("P/G/admin-base-time/seconds", Type::Uint64),
    ("P/G/admin-base-time/nanoseconds", Type::Number(0, 999_999_999)),
];
const U32: u64 = u32::MAX as u64;

#[derive(Clone, Copy)]
enum Type {
    Text(usize),
    Word(&'static [&'static str]),
    /// An identity with the module that defines it in front.
    Of(&'static str, &'static [&'static str]),
    Number(u64, u64),
    /// RFC 7951 §6.1: a text.
    Uint64,
    Boolean,
    Mac,
}

impl Type {
    fn holds(self, value: &Value) -> bool {
        match self {
            Self::Text(most) => value.as_str().is_some_and(|text| !text.is_empty() && text.chars().count() <= most),
            Self::Word(words) => value.as_str().is_some_and(|text| words.contains(&text)),
            Self::Of(module, words) => {
                let parts = value.as_str().and_then(|text| text.split_once(':'));
                parts.is_some_and(|(of, word)| of == module && words.contains(&word))
            }
            Self::Number(low, high) => value.as_u64().is_some_and(|number| (low..=high).contains(&number)),
            Self::Uint64 => value.as_str().is_some_and(|text| text.parse::<u64>().is_ok()),
            Self::Boolean => value.is_boolean(),
            Self::Mac => value.as_str().is_some_and(|text| text.len() == 17 && text.split('-').count() == 6),
        }
    }
}

fn leaves(value: &Value, at: &str, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let key = if key.starts_with("priority") && key.len() == 9 { "priorityN" } else { key };
                let below = if at.is_empty() { key.to_owned() } else { format!("{at}/{key}") };
                leaves(value, &below, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| leaves(value, at, found)),
        leaf => found.push((at.to_owned(), leaf.clone())),
    }
}

#[test]
fn every_leaf_is_one_of_the_modules_and_has_its_type() {
    let called = Called { address: Some([2, 0, 0, 0, 0, 1]), ..Called::default() };
    let mut found = Vec::new();
    leaves(&instance("left", &called).0, "", &mut found);
    let known: Vec<(String, Type)> = LEAVES
        .iter()
        .chain(&GATE_LEAVES)
        .map(|(path, of)| {
            let path = path.replace("P/G/", "P/ieee802-dot1q-sched-bridge:gate-parameter-table/");
            let path = path.replace("P/", "ietf-interfaces:interfaces/interface/ieee802-dot1q-bridge:bridge-port/");
            (path.replace("B:", "ieee802-dot1q-bridge:"), *of)
        })
        .collect();
    for (path, value) in &found {
        let of = known.iter().find(|(known, _)| known == path).unwrap_or_else(|| panic!("{path} is no leaf")).1;
        assert!(of.holds(value), "{path} is {value}");
    }
    for (path, _) in &known {
        assert!(found.iter().any(|(found, _)| found == path), "{path} is not written");
    }
}

/// The modules may not be kept here. Whoever has them names their folder: `standard/ieee` and `standard/ietf` of
/// github.com/YangModels/yang, flat.
#[test]
fn yanglint_takes_it() {
    let Some(modules) = std::env::var_os("DOWNBEAT_YANG_MODULES") else {
        eprintln!("left out: DOWNBEAT_YANG_MODULES names no folder of YANG modules");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for host in ["left", "right"] {
        let called = Called { address: Some([2, 0, 0, 0, 0, 1]), ..Called::default() };
        let mut document = instance(host, &called).0;
        // What the switch itself has: the modules' conditions compare with it, at ports without gates too.
        for interface in document["ietf-interfaces:interfaces"]["interface"].as_array_mut().unwrap() {
            let gates =
                &mut interface["ieee802-dot1q-bridge:bridge-port"]["ieee802-dot1q-sched-bridge:gate-parameter-table"];
            if gates.is_null() {
                *gates = json!({ "admin-cycle-time": { "numerator": 1, "denominator": 1 } });
            }
            gates["supported-list-max"] = 1024.into();
            gates["supported-cycle-max"] = json!({ "numerator": 1, "denominator": 1 });
            gates["supported-interval-max"] = 1_000_000_000.into();
        }
        let path = folder.path().join(format!("{host}.json"));
        std::fs::write(&path, document.to_string()).unwrap();
        let names = ["bridge", "sched", "sched-bridge", "preemption", "preemption-bridge"];
        let files = names.map(|name| std::path::Path::new(&modules).join(format!("ieee802-dot1q-{name}.yang")));
        let output = Command::new("yanglint")
            .args(["-t", "config", "-F", "ieee802-dot1q-preemption-bridge:frame-preemption", "-p"])
            .arg(&modules)
            .args(files)
            .arg(std::path::Path::new(&modules).join("iana-if-type.yang"))
            .arg(&path)
            .output()
            .expect("yanglint (Debian: libyang2-tools)");
        assert!(output.status.success(), "{host}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
