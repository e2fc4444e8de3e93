//! Runs on this machine, in network namespaces: what they leave, and what they undo.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{
    DOWNBEAT, alone, can_run, downbeat, namespaces, run_json, signal, start, started, stderr, stdout, wait_for,
};

#[test]
fn frames_cross_real_sockets_and_everything_is_counted() {
    if !can_run("frames_cross_real_sockets") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for (template, name) in [("two-hosts", "t-two"), ("bridged", "t-bridged"), ("line-7", "t-line")] {
        let scenario = common::scenario(folder.path(), template, name);
        let out = folder.path().join(name);
        let output = downbeat(&["run", scenario.to_str().unwrap(), "--out", out.to_str().unwrap(), "--duration", "3s"]);
        let text = stderr(&output);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{text}");
        let run = run_json(&out);
        assert_eq!(run["kind"], "measured");
        let stream = &run["streams"][0];
        let frames = stream["frames"].as_u64().unwrap();
        // A stopped machine skips cycles; most of the 3000 happen all the same.
        assert!((1000..=3000).contains(&frames), "{template}: {frames} frames");
        for path in ["wire", "stack", "counter"] {
            let count = stream["round_trip"][path]["count"].as_u64().unwrap_or(0);
            assert!(count > frames / 2, "{template}: {count} round trips {path} of {frames}");
        }
        // The papers' cycle: two cycles on the wire, four by the counter.
        let wire = stream["round_trip"]["wire"]["p50"].as_i64().unwrap();
        assert!((1_900_000..2_900_000).contains(&wire), "{template}: {wire} ns");
        assert_eq!(stream["round_trip"]["counter"]["p50"], 4, "{template}");
        // The first frames already find every bridge forwarding.
        let lost_on_links = stream["loss"]["dbL"].as_u64().unwrap_or(0) + stream["loss"]["dbP"].as_u64().unwrap_or(0);
        assert!(lost_on_links < 100, "{template}: {lost_on_links} frames lost between the hosts");
        // Every part of most round trips is known, and they add up.
        let split = &stream["split"];
        assert!(split["stack"]["count"].as_u64().unwrap_or(0) > frames / 2, "{template}: {split}");
        for message in [&split["median"], &split["p99"]] {
            let parts = ["schedule_ns", "wire_ns", "host_ns", "stack_ns"].map(|part| message[part].as_i64().unwrap());
            assert_eq!(parts.iter().sum::<i64>(), message["whole_ns"].as_i64().unwrap(), "{template}: {message}");
        }
        assert_eq!(stream["counter_reference"]["scenario_best"], 5, "{template}");
        assert!(stream["margins"]["reader"]["transfer_safety_margin"]["count"].as_u64().unwrap() > frames / 2);
        assert_eq!(stream["counters"]["inconsistent"], 0);
        assert_eq!(stream["counters"]["wrong_tag"], 0, "VID and PCP are those of the scenario");
        assert_eq!(run["machine"]["allocations_in_cycles"], 0, "{template}: the cyclic path allocates");
        assert_eq!(run["machine"]["trace_records_lost"], 0, "{template}");
        assert!(namespaces(name).is_empty(), "{template} left namespaces");
        assert!(out.join("frames.parquet").exists() && out.join("scenario.toml").exists());
    }
}

#[test]
fn one_thread_drives_streams_of_several_cycles_and_priorities() {
    if !can_run("one_thread_drives_streams") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let text = common::scenario_text("two-hosts", "t-host").replace("[time]\n", "[time]\nthreads = \"host\"\n");
    let more = |name: &str, rest: &str| {
        format!(
            "\n[[streams]]\nname = \"{name}\"\nwriter = \"pub\"\nreader = \"loop\"\nvariables = 4\nvid = 3000\n{rest}"
        )
    };
    let text = text
        + &more("slow", "echo = true\ncycle = \"4ms\"\noffset = \"2400us\"\npcp = 7\n")
        + &more("low", "echo = true\npcp = 3\n")
        + &more("once", "launch = false\npcp = 7\n");
    let scenario = folder.path().join("t-host.toml");
    std::fs::write(&scenario, text).unwrap();
    let out = folder.path().join("out");
    let output = downbeat(&["run", scenario.to_str().unwrap(), "--out", out.to_str().unwrap(), "--duration", "3s"]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let run = run_json(&out);
    for (stream, cycles) in run["streams"].as_array().unwrap().iter().zip([3000, 750, 3000, 3000]) {
        let name = &stream["name"];
        let frames = stream["frames"].as_u64().unwrap();
        assert!((cycles / 3..=cycles).contains(&frames), "{name}: {frames} frames of {cycles}");
        assert_eq!(stream["counters"]["wrong_tag"], 0, "{name}");
        // Transmit stamps of two sockets find their streams.
        let one_way = stream["one_way"]["count"].as_u64().unwrap_or(0);
        assert!(one_way > frames / 2, "{name}: {one_way} of {frames}");
        if name != "once" {
            assert_eq!(stream["round_trip"]["counter"]["p50"], 4, "{name}");
        }
    }
    assert_eq!(run["machine"]["allocations_in_cycles"], 0);
    assert_eq!(run["machine"]["trace_records_lost"], 0);
}

#[test]
fn a_kept_backlog_stands_and_a_drained_one_does_not() {
    if !can_run("a_kept_backlog") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for (backlog, stands) in [("drain", false), ("keep", true)] {
        let name = format!("t-{backlog}");
        let text = common::scenario_text("two-hosts", &name);
        let text = text.replace("[time]\n", &format!("[time]\nbacklog = \"{backlog}\"\n"));
        let scenario = folder.path().join(format!("{name}.toml"));
        std::fs::write(&scenario, text).unwrap();
        let out = folder.path().join(&name);
        let arguments = ["run", scenario.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let output = downbeat(&[&arguments[..], &["--duration", "3s", "--pause", "loop@500ms+300ms"]].concat());
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
        let run = run_json(&out);
        let trip = run["streams"][0]["round_trip"]["counter"]["p50"].as_u64().unwrap();
        // Three hundred cycles stood still: kept, they stay in every round trip after it, but for those in which the
        // machine let the writer stand still as well.
        assert_eq!(trip > 50, stands, "{backlog}: {trip} cycles");
        // Who stood still is the hiccup it began with.
        let standing = |incident: &&serde_json::Value| {
            incident["kind"] == "standing-backlog" && incident["cause"].as_str().unwrap().contains("loop")
        };
        let named = run["incidents"].as_array().unwrap().iter().any(|incident| standing(&incident));
        assert!(named || !stands, "{backlog}: {:#?}", run["incidents"]);
    }
}

#[test]
fn a_standing_backlog_is_drained_on_request() {
    if !can_run("a_standing_backlog") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let text = common::scenario_text("two-hosts", "t-ctl-drain").replace("[time]\n", "[time]\nbacklog = \"keep\"\n");
    let scenario = folder.path().join("t-ctl-drain.toml");
    std::fs::write(&scenario, text).unwrap();
    let (out, socket) = (folder.path().join("out"), folder.path().join("control"));
    let socket = socket.to_str().unwrap();
    let more = ["--duration", "6s", "--pause", "loop@500ms+300ms", "--control", socket];
    let run = start(&scenario, &out, &more);
    let ctl = |more: &[&str]| downbeat(&[&["ctl", "drain", socket], more].concat());
    let cycle = || {
        let status = downbeat(&["ctl", "status", socket, "--json"]);
        serde_json::from_str::<serde_json::Value>(&stdout(&status)).ok().and_then(|status| status["cycle"].as_i64())
    };
    wait_for("the backlog stands", || cycle().is_some_and(|cycle| cycle > 1_500));
    let wrong = ctl(&["--stream", "no-such-stream"]);
    assert!(!wrong.status.success() && stderr(&wrong).contains("no-such-stream"), "{}", stderr(&wrong));
    // It is answered with what was done: three hundred messages waited for the loopback, none for the other end.
    let asked = ctl(&["--json"]);
    assert!(asked.status.success(), "{}", stderr(&asked));
    let answer: serde_json::Value = serde_json::from_str(&stdout(&asked)).unwrap();
    let drained = |end: &str| {
        let all = answer["drained"].as_array().unwrap();
        all.iter().find(|drained| drained["end"] == end).and_then(|drained| drained["messages"].as_u64())
    };
    assert!(drained("reader").is_some_and(|messages| messages > 100), "{answer}");
    assert!(drained("writer").is_some() && answer.get("silent").is_none(), "{answer}");
    let again = ctl(&[]);
    assert!(again.status.success() && stdout(&again).contains("at loop (reader): "), "{}", stdout(&again));
    let output = run.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let run = run_json(&out);
    // It stood for a quarter of the run at most: what came after it is the rule again.
    let trip = run["streams"][0]["round_trip"]["counter"]["p50"].as_u64().unwrap();
    assert!(trip < 30, "{trip} cycles");
    let incidents = run["incidents"].as_array().unwrap();
    let drained = |incident: &serde_json::Value| {
        incident["kind"] == "standing-backlog" && incident["cause"].as_str().unwrap().contains("asked to drain")
    };
    assert!(incidents.iter().any(drained), "{incidents:#?}");
    assert_eq!(run["machine"]["allocations_in_cycles"], 0);
}

#[test]
fn a_standing_backlog_is_drained_by_the_scenario() {
    if !can_run("a_standing_backlog_by_the_scenario") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let text = common::scenario_text("two-hosts", "t-drain-after");
    let text = text.replace("[time]\n", "[time]\nbacklog = \"keep\"\ndrain_after = 100\n");
    let scenario = folder.path().join("t-drain-after.toml");
    std::fs::write(&scenario, text).unwrap();
    let out = folder.path().join("out");
    let output =
        start(&scenario, &out, &["--duration", "4s", "--pause", "loop@500ms+300ms"]).wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let run = run_json(&out);
    // It stood for some hundred cycles, a few times more where the machine stood still: what came after is the rule again.
    let trip = run["streams"][0]["round_trip"]["counter"]["p50"].as_u64().unwrap();
    assert!(trip < 30, "{trip} cycles");
    let drains = run["streams"][0]["drains"].as_array().unwrap();
    let reader = drains.iter().find(|drains| drains["end"] == "reader").unwrap();
    assert!(reader["standing"].as_u64().unwrap() > 0 && reader["asked"] == 0, "{reader}");
    assert!(reader["messages"].as_u64().unwrap() > 100, "{reader}");
    let incidents = run["incidents"].as_array().unwrap();
    let named = |incident: &serde_json::Value| {
        let cause = incident["cause"].as_str().unwrap();
        incident["kind"] == "standing-backlog" && cause.contains("by itself (`drain_after = 100`)")
    };
    assert!(incidents.iter().any(named), "{incidents:#?}");
    assert!(stdout(&output).contains("because a backlog stood"), "{}", stdout(&output));
    assert_eq!(run["machine"]["allocations_in_cycles"], 0);
}

#[test]
fn without_stamps_kernel_times_are_absent_not_zero() {
    if !can_run("without_stamps") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "t-nostamp");
    let out = folder.path().join("out");
    let child =
        start(&scenario, &out, &["--duration", "1s", "--stamps", "off", "--no-realtime"]).wait_with_output().unwrap();
    assert!(matches!(child.status.code(), Some(0 | 1)), "{}", stderr(&child));
    let run = run_json(&out);
    let stream = &run["streams"][0];
    assert!(stream["round_trip"].get("wire").is_none() && stream.get("one_way").is_none(), "{stream}");
    assert!(stream["round_trip"]["stack"]["count"].as_u64().unwrap() > 100);
    let split = &stream["split"];
    assert!(["schedule", "wire", "host", "stack"].iter().all(|part| split.get(part).is_none()), "{split}");
    assert_eq!(split["worst"].as_array().unwrap().len(), 10);
}

#[test]
fn a_paused_host_is_named_as_the_cause() {
    if !can_run("a_paused_host") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "t-pause");
    let out = folder.path().join("out");
    let output = start(&scenario, &out, &["--duration", "3s", "--pause", "loop@1s+150ms"]).wait_with_output().unwrap();
    let text = stderr(&output);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{text}");
    let run = run_json(&out);
    let incidents = run["incidents"].as_array().unwrap();
    let named = incidents.iter().any(|incident| {
        incident["kind"] == "host-late"
            && incident["cause"].as_str().unwrap().contains("loop")
            && incident["lasted_ns"].as_i64().unwrap_or(0) > 100_000_000
    });
    assert!(named, "{incidents:#?}");
}

#[test]
fn an_end_by_ctrl_c_keeps_what_was_measured() {
    if !can_run("an_end_by_ctrl_c") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "t-ctrlc");
    let out = folder.path().join("out");
    let (child, _) = started(&scenario, &out, "t-ctrlc");
    signal(child.id(), "INT");
    let output = child.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    assert!(stderr(&output).contains("stopped by the user"));
    assert!(run_json(&out)["streams"][0]["frames"].as_u64().unwrap() > 100);
    assert!(namespaces("t-ctrlc").is_empty());
}

#[test]
fn ctrl_c_in_the_first_second_undoes_everything() {
    if !can_run("ctrl_c_in_the_first_second") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "line-7", "t-early");
    for delay_ms in [5, 60, 150, 300] {
        let out = folder.path().join(format!("out-{delay_ms}"));
        let child = start(&scenario, &out, &["--duration", "30s"]);
        std::thread::sleep(Duration::from_millis(delay_ms));
        signal(child.id(), "INT");
        let output = child.wait_with_output().unwrap();
        let text = stderr(&output);
        assert!(!text.contains("panicked"), "{text}");
        wait_for("the namespaces to go", || namespaces("t-early").is_empty() || delay_ms < 50);
        // Before the handler is there the signal ends the process; nothing has been made then.
        assert!(namespaces("t-early").is_empty(), "after {delay_ms} ms: {text}");
    }
}

#[test]
fn a_killed_host_process_ends_the_run_in_words() {
    if !can_run("a_killed_host_process") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for (victim, host) in [(0, "pub"), (1, "loop")] {
        let name = format!("t-kill{victim}");
        let scenario = common::scenario(folder.path(), "two-hosts", &name);
        let out = folder.path().join(&name);
        let (child, hosts) = started(&scenario, &out, &name);
        signal(hosts[victim], "KILL");
        let output = child.wait_with_output().unwrap();
        let text = stderr(&output);
        assert!(text.contains(&format!("the process of host {host}")) && text.contains("signal 9"), "{text}");
        let run = run_json(&out);
        assert!(run["streams"][0]["frames"].as_u64().unwrap() > 100, "what was measured is kept");
        let kinds: Vec<_> = run["incidents"].as_array().unwrap().iter().map(|incident| &incident["kind"]).collect();
        assert!(kinds.iter().any(|kind| *kind == "process-ended"), "{kinds:?}");
        assert!(namespaces(&name).is_empty());
    }
}

#[test]
fn what_a_killed_run_left_is_undone_by_restore_and_by_the_next_run() {
    if !can_run("what_a_killed_run_left") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "t-crash");
    for by_restore in [true, false] {
        let out = folder.path().join(format!("crashed-{by_restore}"));
        let (mut child, hosts) = started(&scenario, &out, "t-crash");
        child.kill().unwrap();
        child.wait().unwrap();
        wait_for("the hosts to follow", || hosts.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()));
        assert_eq!(namespaces("t-crash").len(), 2, "a killed run cannot clean up");
        if by_restore {
            let output = downbeat(&["restore"]);
            assert!(output.status.success(), "{}", stderr(&output));
        } else {
            let out = folder.path().join("next");
            let output = start(&scenario, &out, &["--duration", "200ms"]).wait_with_output().unwrap();
            assert!(stderr(&output).contains("an earlier run of t-crash"), "{}", stderr(&output));
        }
        assert!(namespaces("t-crash").is_empty());
    }
}

#[test]
fn a_namespace_of_somebody_else_is_left_alone() {
    if !can_run("a_namespace_of_somebody_else") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let name = format!("t-taken-{}", std::process::id());
    let theirs = format!("db-{name}-pub");
    let scenario = common::scenario(folder.path(), "two-hosts", &name);
    assert!(Command::new("ip").args(["netns", "add", &theirs]).status().unwrap().success());
    let output = downbeat(&["run", scenario.to_str().unwrap(), "--out", folder.path().join("out").to_str().unwrap()]);
    let still = namespaces(&name);
    assert!(Command::new("ip").args(["netns", "del", &theirs]).status().unwrap().success());
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains(&theirs), "{}", stderr(&output));
    assert_eq!(still, [theirs]);
}

/// The program and a scenario where an ordinary user can reach them, whatever the folder of the build allows.
fn for_everyone(name: &str) -> (tempfile::TempDir, [std::path::PathBuf; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("downbeat");
    std::fs::copy(DOWNBEAT, &program).unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", name);
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    (folder, [program, scenario])
}

const AS_NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

#[test]
fn without_root_a_run_has_a_user_namespace_of_its_own() {
    if !can_run("without_root") {
        return;
    }
    let _alone = alone();
    let (folder, [program, scenario]) = for_everyone("t-noroot");
    let out = folder.path().join("out");
    let output = Command::new(AS_NOBODY[0])
        .args(&AS_NOBODY[1..])
        .arg(&program)
        .args(["run", scenario.to_str().unwrap(), "--out", out.to_str().unwrap(), "--duration", "2s"])
        .output()
        .unwrap();
    let text = stderr(&output);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{text}");
    assert!(text.contains("SCHED_FIFO 80: not allowed"), "what is lost is said: {text}");
    let run = run_json(&out);
    assert_eq!(run["machine"]["rights"], "a user namespace of its own");
    assert!(run["streams"][0]["round_trip"]["wire"]["count"].as_u64().unwrap() > 100);
    assert!(namespaces("t-noroot").is_empty());
    // Its own /run ends with it: results must not go there.
    let output = Command::new(AS_NOBODY[0])
        .args(&AS_NOBODY[1..])
        .arg(&program)
        .args(["run", scenario.to_str().unwrap(), "--out", "/run/out"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("--out"), "{}", stderr(&output));
}

#[test]
fn without_any_right_a_run_says_what_it_needs() {
    if !can_run("without_any_right") {
        return;
    }
    let _alone = alone();
    let (_folder, [program, scenario]) = for_everyone("t-noright");
    // A user namespace in which no further one is allowed. It waits until this process, whose right that is, has told
    // it who its users are.
    let line = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces && exec {} {} run {} --out /tmp/never",
        AS_NOBODY.join(" "),
        program.display(),
        scenario.display()
    );
    let mut child = Command::new("unshare")
        .args(["--user", "sh", "-c", "echo here && read go && exec sh -c \"$0\"", &line])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut here = [0; 5];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut here).unwrap();
    for map in ["uid_map", "gid_map"] {
        std::fs::write(format!("/proc/{}/{map}", child.id()), "0 0 65536").unwrap();
    }
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"go\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let text = stderr(&output);
    assert!(text.contains("root") && text.contains("sudo"), "{text}");
}

#[test]
fn a_full_disk_is_said_plainly() {
    if !can_run("a_full_disk") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "t-full");
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=16k", "tmpfs"]).arg(&disk).status().unwrap();
    assert!(mount.success());
    let out = disk.join("out");
    let output = downbeat(&["run", scenario.to_str().unwrap(), "--out", out.to_str().unwrap(), "--duration", "1s"]);
    let whole = out.join("run.json").exists();
    assert!(Command::new("umount").arg(&disk).status().unwrap().success());
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.to_lowercase().contains("space") || text.contains("full"), "{text}");
    assert!(!whole, "no half result passes for a whole one");
    assert!(namespaces("t-full").is_empty());
}
