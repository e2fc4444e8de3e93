//! `downbeat import` and `downbeat export`, as somebody with another tool's file uses them.

mod common;

use std::path::Path;

use common::{downbeat, scenario_text, stderr, stdout};
use serde_json::Value;

/// The listing of Wind River's paper, with the section on preemption that it adds later; keys as in the text here.
const STREAMS: &str = r#"{
  "schedule": { "cycle time": 250000, "start sec": 0, "start nsec": 0 },
  "preemption": { "tclass_mask": 1 },
  "stream_objects": [
    { "stream": { "name": "flow1", "dst mac": "01:00:5E:00:00:01", "vid": 3000, "pcp": 7, "tclass": 7, "tx_time": { "offset": 200000 } } }
  ]
}"#;
const REQUEST: &str = r#"{ "interface": "enp2s0", "period": 2000000, "size": 1522, "dmac": "7a:b9:ed:d6:d2:12", "vid": 3, "pcp": 6,
  "txmin": 250000, "txmax": 250000, "setup_socket": false, "talker": true }"#;

fn put(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_string_lossy().into_owned()
}

#[test]
fn a_stream_file_is_imported_checked_simulated_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    let file = put(folder.path(), "my flow.json", STREAMS);
    let toml = folder.path().join("flow.toml").to_string_lossy().into_owned();
    let made = downbeat(&["import", "tsd", &file, "--out", &toml]);
    assert_eq!((made.status.code(), stdout(&made), stderr(&made)), (Some(0), String::new(), String::new()));
    let checked = downbeat(&["check", &toml]);
    assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
    assert!(stdout(&checked).starts_with("my-flow: 2 hosts"), "{}", stdout(&checked));

    let simulated = downbeat(&["simulate", &toml, "--cycles", "100", "--json"]);
    assert_eq!(simulated.status.code(), Some(0), "{}", stderr(&simulated));
    let run: Value = serde_json::from_str(&stdout(&simulated)).unwrap();
    let spacing = &run["streams"][0]["spacing"];
    assert_eq!((&spacing["min"], &spacing["max"]), (&250_000.into(), &250_000.into()), "{spacing}");

    let back = downbeat(&["export", "tsd", &toml]);
    assert_eq!(back.status.code(), Some(0), "{}", stderr(&back));
    let [there, again]: [Value; 2] = [
        STREAMS
            .replace("stream_objects", "stream objects")
            .replace("tx_time", "tx time")
            .replace("tclass_mask", "tclass mask"),
        stdout(&back),
    ]
    .map(|text| serde_json::from_str(&text).unwrap());
    assert_eq!(there, again);
    // What the file has no words for is named.
    assert!(stderr(&back).contains("note: hosts and links: not said"), "{}", stderr(&back));
}

#[test]
fn a_request_is_added_in_place_and_answered() {
    let folder = tempfile::tempdir().unwrap();
    let text = scenario_text("bridged", "asked").replace("[hosts.pub]", "[hosts.pub]\ninterface = \"enp2s0\"");
    let (scenario, request) = (put(folder.path(), "plant.toml", &text), put(folder.path(), "request.json", REQUEST));
    let refused = downbeat(&["export", "detd", &scenario, "--request", &request]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(serde_json::from_str::<Value>(&stdout(&refused)).unwrap()["ok"], false);

    let added = downbeat(&["import", "detd", &request, "--into", &scenario, "--name", "asked-for", "--out", &scenario]);
    assert_eq!(added.status.code(), Some(0), "{}", stderr(&added));
    assert!(stderr(&added).contains("note: size: 1522 B were asked for"), "{}", stderr(&added));
    let granted = downbeat(&["export", "detd", &scenario, "--request", &request, "--host", "pub"]);
    assert_eq!(granted.status.code(), Some(0), "{}", stderr(&granted));
    let reply: Value = serde_json::from_str(&stdout(&granted)).unwrap();
    assert_eq!((&reply["vlan_interface"], &reply["socket_priority"]), (&"enp2s0.3".into(), &6.into()));
    assert!(stderr(&granted).contains("vlan_devices = true"), "{}", stderr(&granted));

    // A second time its address is taken, and the file stays as it is.
    let before = std::fs::read_to_string(&scenario).unwrap();
    let again = downbeat(&["import", "detd", &request, "--into", &scenario, "--out", &scenario]);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("vid 3 and destination 7A-B9-ED-D6-D2-12"), "{}", stderr(&again));
    assert_eq!(std::fs::read_to_string(&scenario).unwrap(), before);
}

#[test]
fn each_bridge_gets_a_document_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let line = put(folder.path(), "line.toml", &scenario_text("line-7", "line"));
    let out = folder.path().join("switches");
    let several = downbeat(&["export", "yang", &line]);
    assert_eq!(several.status.code(), Some(2));
    assert!(stderr(&several).contains("several hosts are bridges") && stderr(&several).contains("--host"));
    let written = downbeat(&["export", "yang", &line, "--out", &out.to_string_lossy()]);
    assert_eq!(written.status.code(), Some(0), "{}", stderr(&written));
    let files: Vec<_> = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), stdout(&written).lines().count());
    assert!(files.len() > 1);
    for file in files {
        let document: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let name = &document["ieee802-dot1q-bridge:bridges"]["bridge"][0]["name"];
        assert_eq!(Some(name.as_str().unwrap()), file.file_stem().and_then(|stem| stem.to_str()));
        assert_eq!(document["ietf-interfaces:interfaces"]["interface"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn what_is_wrong_is_told_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.toml").to_string_lossy().into_owned();
    for (text, words) in [
        (STREAMS.replace("\"pcp\": 7,", "\"pcp\": 7"), "line 5, column "),
        (STREAMS.replace("\"pcp\": 7", "\"pcp\": 9"), "stream_objects[0].stream.pcp: is 9"),
        (STREAMS.replace("\"vid\"", "\"vlan\""), "\"vid\" is missing"),
        (String::new(), "not JSON"),
    ] {
        let file = put(folder.path(), "wrong.json", &text);
        let made = downbeat(&["import", "tsd", &file, "--out", &out]);
        assert_eq!(made.status.code(), Some(2));
        let told = stderr(&made);
        assert!(told.contains(words) && told.contains("wrong.json: ") && told.contains("mend: "), "{told}");
        assert!(!Path::new(&out).exists());
    }
    std::fs::write(folder.path().join("wrong.json"), [0xFF, 0xFE, 0]).unwrap();
    let made = downbeat(&["import", "tsd", &folder.path().join("wrong.json").to_string_lossy()]);
    assert!(made.status.code() == Some(2) && stderr(&made).contains("could not be read"), "{}", stderr(&made));
    let missing = downbeat(&["import", "tsd", "/nowhere/flow.json"]);
    assert!(missing.status.code() == Some(2) && stderr(&missing).contains("/nowhere/flow.json could not be read"));
    let bare = downbeat(&["export"]);
    assert!(bare.status.code() == Some(2) && stderr(&bare).contains("downbeat export yang"), "{}", stderr(&bare));
}
