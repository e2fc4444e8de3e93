//! What must hold under faults and floods: a run goes on, takes nothing false, and names who was at fault.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{DOWNBEAT, alone, can_run, downbeat, namespaces, run_json, signal, start, started, stderr, wait_for};
use serde_json::Value;

/// Frames of a flood.
const MANY: u64 = 1_000_000;

/// Frames that a stranger sends to the reader of the stream "loop".
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// With the head of its messages, and nonsense behind.
    Garbage,
    /// Messages of a publisher that nobody reads.
    Foreign,
    /// A message that the writer sent at its start.
    Replayed,
}

/// A bridge with a third host at it, which has no stream.
fn with_a_stranger(name: &str) -> String {
    let stranger = "\n[hosts.mob]\n\n[[links]]\nbetween = [\"mob\", \"bridge\"]\nrate = \"1Gbit/s\"\ncable = \"5m\"\n";
    common::scenario_text("bridged", name) + stranger
}

fn frame(scenario: &scenario::Scenario, kind: Kind) -> Vec<u8> {
    let stream = &scenario.streams[0];
    let mut writer = pubsub::Endpoint::new(stream.endpoint(scenario, true)).unwrap();
    writer.application(0);
    let mut frame = writer.publish(0).unwrap().frame.to_vec();
    match kind {
        Kind::Replayed => {}
        // What the dispatcher looks at stays: flags, PublisherId, GroupFlags, WriterGroupId.
        Kind::Garbage => frame[18 + 7..].fill(0xA5),
        Kind::Foreign => {
            let mut layout = stream.layout(scenario, false);
            layout.publisher_id = pubsub::PublisherId::UInt16(60_000);
            let header = stream.ethernet(scenario, false).unwrap();
            frame = pubsub::WriterTemplate::new(&layout, Some(&header)).unwrap().frame().to_vec();
        }
    }
    frame
}

/// Sends frames from a namespace as fast as it goes; tells how many left.
fn flood(namespace: &str, frame: Vec<u8>) -> u64 {
    let path = format!("/run/netns/{namespace}");
    let send = move || {
        rt::process::enter_network_namespace(Path::new(&path)).unwrap();
        let sender = link::Sender::open("eth0", link::SenderOptions::default()).unwrap();
        (0..MANY).filter(|_| sender.send(&frame).is_ok()).count() as u64
    };
    std::thread::spawn(send).join().unwrap()
}

fn incidents<'a>(run: &'a Value, kind: &str) -> Vec<&'a Value> {
    run["incidents"].as_array().unwrap().iter().filter(|incident| incident["kind"] == kind).collect()
}

/// Those that name a host at the place and at the beginning of the cause.
fn named<'a>(run: &'a Value, kind: &str, host: &str) -> Vec<&'a Value> {
    let begins = |incident: &&Value| incident["cause"].as_str().unwrap().starts_with(&format!("{host}: "));
    incidents(run, kind).into_iter().filter(begins).filter(|incident| incident["place"] == host).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number expected, found {value}"))
}

#[test]
fn a_million_frames_of_strangers_are_not_taken_and_all_are_accounted_for() {
    if !can_run("a_million_frames_of_strangers") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for (kind, name) in [(Kind::Garbage, "t-garbage"), (Kind::Foreign, "t-foreign"), (Kind::Replayed, "t-replay")] {
        let file = folder.path().join(format!("{name}.toml"));
        std::fs::write(&file, with_a_stranger(name)).unwrap();
        let (scenario, _) = scenario::read_file(&file).unwrap();
        let out = folder.path().join(name);
        let child = start(&file, &out, &["--duration", "60s"]);
        wait_for("the run's processes", || common::children(child.id()).len() == 2 && namespaces(name).len() == 4);
        std::thread::sleep(Duration::from_millis(1500));
        let sent = flood(&format!("db-{name}-mob"), frame(&scenario, kind));
        std::thread::sleep(Duration::from_millis(300));
        signal(child.id(), "INT");
        let output = child.wait_with_output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{kind:?}: {}", stderr(&output));
        assert!(sent > MANY / 2, "{kind:?}: {sent} frames were sent");

        let run = run_json(&out);
        let (stream, machine) = (&run["streams"][0], &run["machine"]);
        let counters = &stream["counters"];
        assert_eq!(machine["allocations_in_cycles"], 0, "{kind:?}");
        assert_eq!(machine["trace_records_lost"], 0, "{kind:?}: a flood must not fill the trace");
        assert_eq!((&counters["inconsistent"], &counters["wrong_tag"]), (&0.into(), &0.into()), "{kind:?}");
        let (foreign, stale) = (number(&counters["foreign"]), number(&counters["stale"]));
        // Every frame was counted by the loop, by its queue, or by a processor's; in the queue some of its own may have
        // found no room.
        let dropped = number(&machine["receiver_drops"]) + number(&machine["backlog_drops"]);
        let frames = number(&stream["frames"]);
        let (counted, other) = if kind == Kind::Replayed { (stale, foreign) } else { (foreign, stale) };
        assert_eq!(other, 0, "{kind:?}: {counters}");
        let floods = named(&run, "flood", "loop");
        if kind == Kind::Foreign {
            assert_eq!((counted, number(&machine["receiver_drops"])), (0, 0), "the kernel keeps them from the loop");
            assert!(incidents(&run, "flood").is_empty(), "{:#?}", run["incidents"]);
        } else {
            assert!(counted + dropped >= sent, "{kind:?}: {counted} + {dropped} of {sent}");
            assert!(
                counted <= sent && counted + dropped <= sent + 2 * frames,
                "{kind:?}: {counted} + {dropped} of {sent}"
            );
            let told: u64 = floods.iter().map(|flood| number(&flood["frames"])).sum();
            assert!(told > counted / 2, "{kind:?}: {told} of {counted} are told as a flood: {floods:#?}");
            assert!(named(&run, "flood", "pub").is_empty(), "its address is another: {:#?}", run["incidents"]);
        }
        // Its own messages: none was taken twice or backwards, and what was missed has a cause.
        let missed = number(&counters["missed"]) + counters["missed_at_reader"].as_u64().unwrap_or(0);
        let explained = run["incidents"].as_array().unwrap().iter().any(|incident| {
            ["flood", "receive-overflow", "host-late", "frames-lost"].iter().any(|kind| incident["kind"] == *kind)
        });
        assert!(missed == 0 || explained, "{kind:?}: {missed} missed: {:#?}", run["incidents"]);
        if number(&machine["receiver_drops"]) > 0 {
            let overflow = named(&run, "receive-overflow", "loop");
            assert!(overflow.iter().any(|one| one["cause"].as_str().unwrap().contains("flood")), "{overflow:#?}");
        }
        // The phases kept their cycle: a flood costs readings.
        let begun = number(
            &run["hosts"]
                .as_array()
                .unwrap()
                .iter()
                .find(|host| host["host"] == "loop" && host["phase"] == "publish")
                .unwrap()["late"]["count"],
        );
        assert!(begun > 1000, "{kind:?}: {begun} publish phases");
    }
}

#[test]
fn a_full_receive_queue_is_counted_where_it_was() {
    if !can_run("a_full_receive_queue") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for link in ["packet", "ring", "xdp"] {
        let name = format!("t-full-{link}");
        let text = common::scenario_text("two-hosts", &name)
            .replace("cycle = \"1ms\"", "cycle = \"250us\"")
            .replace("offset = \"600us\"", "offset = \"150us\"")
            .replace("variables = 8 ", "variables = 160 ");
        assert!(text.contains("variables = 160"));
        let scenario = folder.path().join(format!("{name}.toml"));
        std::fs::write(&scenario, text).unwrap();
        let out = folder.path().join(&name);
        // 8000 frames are published meanwhile, and no queue has room for more than 4000.
        let arguments = ["--duration", "4s", "--pause", "loop@1s+2s", "--link", link];
        let output = start(&scenario, &out, &arguments).wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{link}: frames were lost: {}", stderr(&output));
        let run = run_json(&out);
        let dropped = number(&run["machine"]["receiver_drops_at"]["loop"]["eth0"]);
        assert!(dropped > 1000, "{link}: {dropped}");
        assert!(run["machine"]["receiver_drops_at"].get("pub").is_none(), "{link}: {}", run["machine"]);
        assert_eq!(run["machine"]["receiver_drops"], dropped, "{link}");
        let overflow = named(&run, "receive-overflow", "loop");
        assert_eq!(overflow.len(), 1, "{link}: {:#?}", run["incidents"]);
        assert_eq!(number(&overflow[0]["frames"]), dropped, "{link}");
        let cause = overflow[0]["cause"].as_str().unwrap();
        assert!(cause.contains("receive queue of eth0") && cause.contains("stood still"), "{link}: {cause}");
        assert!(!named(&run, "host-late", "loop").is_empty(), "{link}");
        assert!(number(&run["streams"][0]["loss"]["dSum"]) >= dropped / 2, "{link}: they count as lost");
    }
}

#[test]
fn a_collector_that_stands_still_costs_records_and_never_the_loop() {
    if !can_run("a_collector_that_stands_still") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let text = common::scenario_text("two-hosts", "t-trace")
        .replace("cycle = \"1ms\"", "cycle = \"250us\"")
        .replace("offset = \"600us\"", "offset = \"150us\"");
    let scenario = folder.path().join("t-trace.toml");
    std::fs::write(&scenario, text).unwrap();
    let out = folder.path().join("out");
    let child = start(&scenario, &out, &["--duration", "10s"]);
    wait_for("the run's processes", || common::children(child.id()).len() == 2 && namespaces("t-trace").len() == 2);
    std::thread::sleep(Duration::from_millis(1500));
    // Seven records a cycle: the rings are full after some two and a half seconds.
    signal(child.id(), "STOP");
    std::thread::sleep(Duration::from_millis(6000));
    signal(child.id(), "CONT");
    let output = child.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let (run, rows, _) = measure::read_run(&out).unwrap();
    let lost = run.machine["trace_records_lost"].as_u64().unwrap();
    assert!(lost > 1000, "{lost} records lost");
    let json = run_json(&out);
    for host in ["pub", "loop"] {
        let overflow = named(&json, "trace-overflow", host);
        assert_eq!(overflow.len(), 1, "{:#?}", json["incidents"]);
        assert!(overflow[0]["cause"].as_str().unwrap().contains("figures are incomplete"), "{overflow:#?}");
        assert!(number(&overflow[0]["lasted_ns"]) > 1_000_000_000, "{overflow:#?}");
    }
    // The writer counts in every cycle: where nothing was recorded it counted on.
    let (first, last) = (rows.first().unwrap(), rows.last().unwrap());
    let (cycles, counted) = (last.cycle - first.cycle, last.counter - first.counter);
    assert!(cycles > 20_000, "the trace goes on after the gap: {cycles} cycles");
    assert!(counted > cycles as u64 / 2, "{counted} counters in {cycles} cycles");
    assert!((rows.len() as u64) < counted, "{} rows, {counted} counters", rows.len());
    // What is not known is not taken for lost.
    let loss = &run.streams[0].loss;
    assert!(loss.dSum.unwrap() < loss.published / 5, "{loss:?}");
    assert_eq!(run.machine["allocations_in_cycles"], 0);
}

#[test]
fn without_the_right_to_real_time_a_run_goes_on_and_says_so() {
    if !can_run("without_the_right_to_real_time") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "t-nofifo");
    let out = folder.path().join("out");
    let output = Command::new("setpriv")
        .args([
            "--bounding-set",
            "-sys_nice,-ipc_lock,-sys_resource",
            "--inh-caps",
            "-sys_nice,-ipc_lock,-sys_resource",
        ])
        .args(["prlimit", "--rtprio=0:0", "--memlock=65536:65536", DOWNBEAT])
        .args(["run", scenario.to_str().unwrap(), "--out", out.to_str().unwrap(), "--duration", "2s"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = stderr(&output);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{text}");
    let run = run_json(&out);
    for host in ["pub", "loop"] {
        let granted: Vec<_> =
            run["machine"]["granted"][host].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        for wish in ["SCHED_FIFO 80: not allowed", "locked memory: not allowed"] {
            assert!(text.contains(&format!("{host}: {wish}")), "{wish} is noted: {text}");
            assert!(granted.iter().any(|line| line.starts_with(wish)), "{wish} is in the result: {granted:?}");
        }
    }
    assert!(number(&run["streams"][0]["frames"]) > 500, "it went on");
    assert!(namespaces("t-nofifo").is_empty());
}

#[test]
fn a_disk_that_fills_up_during_the_run_leaves_nothing_that_looks_whole() {
    if !can_run("a_disk_that_fills_up") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "t-filling");
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    // So much that the scenario fits, and then the scenario and a part of the frames.
    for left_kib in [0, 24] {
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&disk).status().unwrap();
        assert!(mount.success());
        let out = disk.join("out");
        let (child, _) = started(&scenario, &out, "t-filling");
        // Somebody else's file.
        let mut file = std::fs::File::create(disk.join("other")).unwrap();
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
        let size = file.metadata().unwrap().len();
        file.set_len(size - (left_kib << 10)).unwrap();
        drop(file);
        signal(child.id(), "INT");
        let output = child.wait_with_output().unwrap();
        let files: Vec<_> = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        let report =
            downbeat(&["report", out.to_str().unwrap(), "--out", folder.path().join("r.html").to_str().unwrap()]);
        assert!(Command::new("umount").arg(&disk).status().unwrap().success());
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{text}");
        assert!(text.contains("the disk is full") && text.contains("out"), "{text}");
        let half = |file: &&std::ffi::OsString| *file == "run.json" || file.to_string_lossy().ends_with(".part");
        assert_eq!(files.iter().find(half), None, "{files:?}");
        assert_ne!(report.status.code(), Some(0), "no report is made of it");
        assert!(namespaces("t-filling").is_empty());
    }
}
