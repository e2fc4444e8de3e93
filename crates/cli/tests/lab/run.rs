//! `downbeat run --in kernel-lab`. What needs the laboratory's kernel is left out in words where it is not built, and
//! fails where all tests are required.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::{DOWNBEAT, downbeat, run_json, scenario, signal, stderr, stdout, wait_for};
use serde_json::Value;

fn has_kernel(test: &str) -> bool {
    kernel_lab::testing::kernel(test).is_some()
}

fn run_in_lab(scenario: &Path, out: &Path, more: &[&str]) -> Output {
    let arguments = ["run", scenario.to_str().unwrap(), "--in", "kernel-lab", "--out", out.to_str().unwrap()];
    downbeat(&[&arguments, more].concat())
}

/// A run of half a second; panics when its requirement is not met.
fn good_run(scenario: &Path, out: &Path) -> Value {
    let output = run_in_lab(scenario, out, &["--duration", "500ms"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    run_json(out)
}

/// A template with traffic of this kind beside its stream.
fn with_traffic(folder: &Path, name: &str, kind: &str, rate: &str) -> PathBuf {
    let path = scenario(folder, "bridged", name);
    let traffic =
        format!("\n[[traffic]]\nfrom = \"pub\"\nto = \"loop\"\nkind = \"{kind}\"\nrate = \"{rate}\"\npcp = 0\n");
    fs::write(&path, fs::read_to_string(&path).unwrap() + &traffic).unwrap();
    path
}

/// A frame's time on a cable: link rate in Mbit/s, 18 bytes of headers, 24 of the wire.
fn on_the_wire_ns(uadp_bytes: i64, mbit: i64) -> i64 {
    (uadp_bytes + 18 + 24) * 8 * 1000 / mbit
}

#[test]
fn three_runs_give_the_same_bytes() {
    if !has_kernel("three runs") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for scenario in [
        scenario(folder.path(), "two-hosts", "lab-same"),
        with_traffic(folder.path(), "lab-same-udp", "udp", "50Mbit/s"),
    ] {
        let name = scenario.file_stem().unwrap().to_str().unwrap();
        let outs: Vec<_> = (1..=3).map(|number| folder.path().join(format!("{name}-{number}"))).collect();
        let first = good_run(&scenario, &outs[0]);
        assert!(first["streams"][0]["frames"].as_u64().unwrap() >= 499);
        for out in &outs[1..] {
            good_run(&scenario, out);
            for file in ["frames.parquet", "run.json", "scenario.toml"] {
                let read = |folder: &Path| fs::read(folder.join(file)).unwrap();
                assert!(read(&outs[0]) == read(out), "{name}: {file} differs");
            }
        }
        assert_eq!(fs::read_to_string(outs[0].join("scenario.toml")).unwrap(), fs::read_to_string(&scenario).unwrap());
    }
}

#[test]
fn links_take_their_time() {
    if !has_kernel("links") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Rates of the links one after the other; 25 ns of cable each, and 2 µs of the bridge.
    for (template, mbit) in
        [("two-hosts", &[1000][..]), ("two-hosts", &[100]), ("bridged", &[1000, 1000]), ("bridged", &[100, 1000])]
    {
        let name = format!("lab-{template}-{}", mbit[0]);
        let path = scenario(folder.path(), template, &name);
        let text = fs::read_to_string(&path).unwrap();
        // The first link is that of the publisher.
        fs::write(&path, text.replacen("rate = \"1Gbit/s\"", &format!("rate = \"{}Mbit/s\"", mbit[0]), 1)).unwrap();
        let run = good_run(&path, &folder.path().join(&name));
        let stream = &run["streams"][0];
        let bytes = stream["bytes"].as_i64().unwrap();
        let links: i64 = mbit.iter().map(|mbit| on_the_wire_ns(bytes, *mbit) + 25).sum();
        let wanted = links + 2_000 * (mbit.len() as i64 - 1);
        for what in ["min", "max"] {
            let found = stream["one_way"][what].as_i64().unwrap();
            // Each reading of the clock that a frame's interrupt falls into holds it up for 10 ns.
            assert!((wanted..wanted + 200).contains(&found), "{name}: one way {what} {found}, wanted {wanted}");
        }
        assert_eq!(stream["loss"]["dSum"], 0, "{name}");
    }
}

#[test]
fn every_way_to_the_interface_works() {
    if !has_kernel("the ways") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = scenario(folder.path(), "two-hosts", "lab-ways");
    for way in ["packet", "ring", "xdp"] {
        let out = folder.path().join(way);
        let output = run_in_lab(&path, &out, &["--duration", "200ms", "--link", way]);
        // In copy mode AF_XDP tells no departures, so that round trip is not measured: not met, as on any veth.
        let code = i32::from(way == "xdp");
        assert_eq!(output.status.code(), Some(code), "{way}: {}{}", stdout(&output), stderr(&output));
        let run = run_json(&out);
        assert_eq!(run["streams"][0]["loss"]["dSum"], 0, "{way}");
        assert!(run["streams"][0]["round_trip"]["stack"]["count"].as_u64().unwrap() > 150, "{way}");
        let receives = run["machine"]["ways"]["loop"][0]["receive"].as_str().unwrap().to_lowercase();
        assert!(receives.contains(if way == "packet" { "socket" } else { way }), "{way}: {receives}");
    }
}

#[test]
fn the_result_says_where_it_comes_from() {
    if !has_kernel("the result") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = scenario(folder.path(), "two-hosts", "lab-told");
    let output = run_in_lab(&path, &folder.path().join("out"), &["--cycles", "100", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let told: Value = serde_json::from_slice(&output.stdout).expect("run.json on standard output");
    assert_eq!(told, run_json(&folder.path().join("out")));
    let machine = &told["machine"];
    let says = |key: &str, word: &str| {
        let text = machine[key].to_string();
        assert!(text.contains(word), "{key}: {text} does not say {word}");
    };
    says("place", "kernel-lab");
    says("time", "virtual");
    says("kernel", kernel_lab::Kernel::find().unwrap().release());
    says("wire", "on: ");
    says("links", "\"rate_bit_s\":1000000000");
    says("bridge_latency_ns", "{}");
    says("pacing", "own pacing");
    says("wait", "sleep");
    says("qdiscs", "eth0: pfifo");
    assert_eq!(told["kind"], "measured");
    assert!(machine.get("memory_bytes").is_none(), "it differs from start to start");
    assert!(!machine["command"].as_str().unwrap().contains(folder.path().to_str().unwrap()), "{machine}");
    // A second run into the same folder is refused, before anything is started.
    let again = run_in_lab(&path, &folder.path().join("out"), &[]);
    assert_eq!(again.status.code(), Some(2), "{}", stderr(&again));
}

#[test]
fn a_pause_and_a_missed_requirement_are_as_in_any_run() {
    if !has_kernel("a pause") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = scenario(folder.path(), "two-hosts", "lab-pause");
    let out = folder.path().join("out");
    let output = run_in_lab(&path, &out, &["--duration", "500ms", "--pause", "loop@200ms+100ms"]);
    assert_eq!(output.status.code(), Some(1), "{}{}", stdout(&output), stderr(&output));
    let run = run_json(&out);
    assert_eq!(run["verdict"]["met"], false);
    assert!(run["incidents"].as_array().unwrap().iter().any(|found| found["cause"].to_string().contains("loop")));
}

#[test]
fn hosts_wake_up_late_as_they_are_told() {
    if !has_kernel("late hosts") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = scenario(folder.path(), "two-hosts", "lab-late");
    let late = ["--cycles", "100", "--host-latency", "const:20us", "--host-latency", "loop=uniform:100us..150us"];
    let outs = ["one", "two", "other"].map(|name| folder.path().join(name));
    for (out, seed) in outs.iter().zip(["0", "0", "1"]) {
        let output = run_in_lab(&path, out, &[&late, ["--seed", seed].as_slice()].concat());
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}{}", stdout(&output), stderr(&output));
    }
    let read = |out: &Path| fs::read(out.join("frames.parquet")).unwrap();
    assert!(read(&outs[0]) == read(&outs[1]) && read(&outs[0]) != read(&outs[2]), "a seed is a run");
    let run = run_json(&outs[0]);
    assert_eq!(run["machine"]["host_latency"]["pub"], "const:20us, seed 0");
    let phases = run["hosts"].as_array().unwrap();
    assert_eq!(phases.len(), 8, "the launches of our own thread, too");
    for phase in phases {
        let wanted = if phase["host"] == "pub" { 20_000..22_000 } else { 100_000..152_000 };
        for what in ["min", "max"] {
            let found = phase["late"][what].as_i64().unwrap();
            assert!(wanted.contains(&found), "{} {}: {what} {found} ns late", phase["host"], phase["phase"]);
        }
    }
}

#[test]
fn lateness_in_the_wrong_place_or_form_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = scenario(folder.path(), "two-hosts", "lab-late-refused");
    for (options, word) in [
        (["--in", "kernel-lab", "--host-latency", "5us"].as_slice(), "const:5us"),
        (&["--in", "kernel-lab", "--host-latency", "other=const:5us"], "no host other"),
        (&["--host-latency", "const:5us"], "--in"),
        (&["--in", "kernel-lab", "--seed", "1"], "--host-latency"),
        (&["--in", "kernel-lab", "--set", "time.cycles=1ms"], "unknown key"),
        (&["--in", "kernel-lab", "--set", "streams.other.launch=true"], "no `other` there"),
    ] {
        let output = downbeat(&[&["run", path.to_str().unwrap()], options].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(word), "{options:?}: {}", stderr(&output));
    }
}

#[test]
fn ctrl_c_leaves_nothing() {
    if !has_kernel("Ctrl-C") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = scenario(folder.path(), "two-hosts", "lab-stopped");
    let out = folder.path().join("out");
    let scratch = folder.path().join("scratch");
    fs::create_dir(&scratch).unwrap();
    for folder in [folder.path(), &scratch] {
        fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    }
    let child = Command::new(DOWNBEAT)
        .args(["run", path.to_str().unwrap(), "--in", "kernel-lab", "--duration", "1h", "--out", out.to_str().unwrap()])
        .env("TMPDIR", &scratch)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let below = || fs::read_dir(&scratch).unwrap().flatten().map(|entry| entry.path()).next();
    wait_for("the run in the laboratory", || below().is_some_and(|folder| folder.join("results").exists()));
    signal(child.id(), "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("stopped"), "{}", stderr(&output));
    assert!(below().is_none() && !out.exists(), "folders are left");
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let of_ours = |cmdline: Vec<u8>| String::from_utf8_lossy(&cmdline).contains(scratch.to_str().unwrap());
    assert!(
        !processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok()).any(of_ours),
        "a process is left"
    );
}

#[test]
fn without_the_kernel_it_says_how_to_get_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = scenario(folder.path(), "two-hosts", "lab-none");
    let out = folder.path().join("out");
    let output = Command::new(DOWNBEAT)
        .args(["run", path.to_str().unwrap(), "--in", "kernel-lab", "--out", out.to_str().unwrap()])
        .env("DOWNBEAT_KERNEL_LAB", folder.path().join("none"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("make kernel-lab"), "{}", stderr(&output));
    assert!(!out.exists(), "nothing is made");
}

#[test]
fn what_virtual_time_cannot_have_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = scenario(folder.path(), "two-hosts", "lab-refused");
    for (options, word) in [
        (["--wait", "spin"].as_slice(), "sleeps"),
        (&["--wait", "hybrid"], "sleeps"),
        (&["--metrics", "9464"], "--metrics"),
        (&["--control", "/tmp/none.sock"], "--control"),
        (&["--load", "cpu"], "--load"),
        (&["--image", "/tmp/none"], "--image"),
    ] {
        let output = run_in_lab(&path, &folder.path().join("out"), options);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(word) && stderr(&output).contains("mend:"), "{}", stderr(&output));
    }
    let slow = scenario(folder.path(), "bridged", "lab-slow");
    let text = fs::read_to_string(&slow).unwrap().replacen("1Gbit/s", "1500kbit/s", 1);
    fs::write(&slow, text).unwrap();
    let output = run_in_lab(&slow, &folder.path().join("out"), &[]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("whole Mbit/s"), "{}", stderr(&output));
    assert!(!folder.path().join("out").exists());
}
