//! Everything a user can get wrong ends in words and the right exit code.

mod common;

use common::{downbeat, stderr, stdout};

/// Exit code of bad input.
const BAD_INPUT: Option<i32> = Some(2);

/// A change of the two-hosts template: what is replaced, by what, and what the message must say.
const BROKEN: &[(&str, &str, &str, &[&str])] = &[
    ("syntax", "[time]", "[time", &["TOML"]),
    ("unknown key", "window =", "windw =", &["windw", "window"]),
    ("cycle 0", "cycle = \"1ms\"", "cycle = \"0s\"", &["cycle"]),
    ("phase 1", "publish = 0.6", "publish = 1.0", &["publish"]),
    ("VID 4095", "vid = 3000", "vid = 4095", &["4095", "4094"]),
    ("PCP 8", "pcp = 7", "pcp = 8", &["pcp", "7"]),
    ("unknown host", "reader = \"loop\"", "reader = \"lop\"", &["lop", "loop"]),
    ("payload above the MTU", "variables = 8", "variables = 400", &["1500"]),
    ("requirement without a quantity", "round_trip_wire = \"4ms\"", "latency = \"4ms\"", &["latency", "one_way"]),
];

#[test]
fn a_broken_scenario_is_pointed_at() {
    let folder = tempfile::tempdir().unwrap();
    let good = stdout(&downbeat(&["init", "two-hosts"]));
    for (what, from, to, words) in BROKEN {
        assert!(good.contains(from), "the template has `{from}` no more");
        let path = folder.path().join("broken.toml");
        std::fs::write(&path, good.replacen(from, to, 1)).unwrap();
        for command in ["check", "bound", "simulate", "run"] {
            let output = downbeat(&[command, path.to_str().unwrap()]);
            let text = stderr(&output);
            assert_eq!(output.status.code(), BAD_INPUT, "{what}, {command}: {text}");
            assert!(text.contains("broken.toml"), "{what}: no file name in {text}");
            for word in *words {
                assert!(text.to_lowercase().contains(&word.to_lowercase()), "{what}: no `{word}` in {text}");
            }
            assert!(!text.contains("panicked"), "{text}");
        }
    }
}

#[test]
fn a_missing_file_tells_how_to_get_one() {
    for command in ["check", "bound", "simulate", "run"] {
        let output = downbeat(&[command, "no-such-file.toml"]);
        assert_eq!(output.status.code(), BAD_INPUT);
        let text = stderr(&output);
        assert!(text.contains("no-such-file.toml") && text.contains("downbeat init"), "{text}");
    }
}

#[test]
fn check_prints_every_error_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("broken.toml");
    let good = stdout(&downbeat(&["init", "two-hosts"]));
    std::fs::write(&path, good.replacen("vid = 3000", "vid = 4095", 1).replacen("pcp = 7", "pcp = 8", 1)).unwrap();
    let output = downbeat(&["check", "--json", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), BAD_INPUT);
    let answer: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(answer["ok"], false);
    let texts: Vec<&str> =
        answer["diagnostics"].as_array().unwrap().iter().filter_map(|entry| entry["text"].as_str()).collect();
    assert!(texts.contains(&"4095") && texts.contains(&"8"), "{answer}");
}

#[test]
fn a_cut_frames_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "cut");
    let run = folder.path().join("run");
    let output = downbeat(&["simulate", scenario.to_str().unwrap(), "--cycles", "500", "--out", run.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let frames = run.join("frames.parquet");
    let bytes = std::fs::read(&frames).unwrap();
    for keep in [0, 3, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&frames, &bytes[..keep]).unwrap();
        let output =
            downbeat(&["report", run.to_str().unwrap(), "--out", folder.path().join("r.html").to_str().unwrap()]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), BAD_INPUT, "{keep} bytes: {text}");
        assert!(text.contains("frames.parquet") && !text.contains("panicked"), "{text}");
    }
}

#[test]
fn wrong_arguments_end_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "args");
    let scenario = scenario.to_str().unwrap();
    let cases: &[&[&str]] = &[
        &["init", "three-hosts"],
        &["simulate", scenario, "--duration", "fast"],
        &["simulate", scenario, "--host-latency", "sometimes"],
        &["simulate", scenario, "--cycles", "0"],
        &["run", scenario, "--duration", "10ns"],
        &["run", scenario, "--pause", "loop"],
        &["run", scenario, "--pause", "nobody@1s+1ms"],
        &["run", scenario, "--rotate-every", "1ms"],
        &["run", scenario, "--control", "x", "--no-control"],
        &["publish", scenario, "--host", "loop"],
        &["loopback", scenario, "--host", "nobody"],
        &["subscribe", scenario],
        &["publish", scenario, "--interface", "far=eth0"],
        &["publish", scenario, "--duration", "1s", "--cycles", "7"],
        &["publish"],
        &["ctl", "dance"],
        &["ctl", "status", "no-such-run"],
        &["bound"],
        &["check", "--here", "--set", "time.offset=50us"],
        &["bound", "--model", "paper", "--set", "time.offset=50us"],
        &["report"],
        &["report", "no-such-folder"],
    ];
    for arguments in cases {
        let output = downbeat(arguments);
        let text = stderr(&output);
        assert_eq!(output.status.code(), BAD_INPUT, "{arguments:?}: {text}");
        assert!(!text.is_empty() && !text.contains("panicked"), "{arguments:?}: {text}");
    }
}

#[test]
fn every_command_that_reads_a_scenario_takes_other_values_than_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "set");
    let file = scenario.to_str().unwrap();
    let request = folder.path().join("request.json");
    let asked = r#"{ "interface": "eth0", "period": 2000000, "size": 64, "dmac": "7a:b9:ed:d6:d2:12", "vid": 3, "pcp": 6,
        "txmin": 250000, "txmax": 250000 }"#;
    std::fs::write(&request, asked).unwrap();
    let request = request.to_str().unwrap();
    let commands: &[&[&str]] = &[
        &["check", file],
        &["bound", file],
        &["simulate", file, "--cycles", "10"],
        &["run", file],
        &["publish", file],
        &["loopback", file],
        &["subscribe", file],
        &["render", file],
        &["apply", file, "--host", "pub", "--dry-run"],
        &["apply", file, "--all", "--dry-run"],
        &["ptp", "run", file, "--host", "pub"],
        &["export", "tsd", file],
        &["export", "detd", file],
        &["export", "yang", file],
        &["import", "detd", request, "--into", file],
    ];
    for command in commands {
        // A mistake that only the value put in place makes, and a key that the file has not.
        for (setting, words) in [("streams.loop.pcp=9", "0 to 7"), ("streams.other.pcp=1", "no `other` there")] {
            let output = downbeat(&[command, &["--set", setting][..]].concat());
            let text = stderr(&output);
            assert_eq!(output.status.code(), BAD_INPUT, "{command:?}: {text}");
            assert!(text.contains(words), "{command:?}: no `{words}` in {text}");
        }
    }
    // And it is what the command goes by.
    let exported = |more: &[&str]| stdout(&downbeat(&[&["export", "tsd", file, "--host", "pub"], more].concat()));
    assert!(exported(&[]).contains("3000") && !exported(&["--set", "streams.loop.vid=77"]).contains("3000"));
}

#[test]
fn every_command_has_help_with_an_example() {
    let plain = ["init", "check", "bound", "simulate", "run", "restore", "report", "render", "completions"];
    for command in plain.into_iter().chain(["publish", "loopback", "subscribe", "ctl"]) {
        let text = stdout(&downbeat(&[command, "--help"]));
        assert!(text.contains("Example") && text.contains(&format!("downbeat {command}")), "{command}: {text}");
    }
    assert!(stdout(&downbeat(&["--help"])).contains("Exit codes"));
    assert!(stdout(&downbeat(&["completions", "bash"])).contains("downbeat"));
}
