//! Runs by every way to the interfaces, and what becomes of runs whose interfaces or frames are not as they should be.

mod common;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::{alone, can_run, children, downbeat, namespaces, run_json, signal, start, started, stderr, wait_for};

#[test]
fn every_way_carries_the_same_frames() {
    if !can_run("every_way_carries_the_same_frames") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let ways = [
        ("packet", "packet socket", "packet socket"),
        ("ring", "packet ring", "packet socket"),
        ("xdp", "AF_XDP", "AF_XDP"),
    ];
    for (link, receive, send) in ways {
        for template in ["two-hosts", "bridged"] {
            let name = format!("t-{link}-{}", &template[..3]);
            let scenario = common::scenario(folder.path(), template, &name);
            let out = folder.path().join(&name);
            let arguments = ["run", scenario.to_str().unwrap(), "--out", out.to_str().unwrap(), "--link", link];
            let output = downbeat(&[&arguments[..], &["--duration", "2s"]].concat());
            assert!(matches!(output.status.code(), Some(0 | 1)), "{name}: {}", stderr(&output));
            let run = run_json(&out);
            let stream = &run["streams"][0];
            let frames = stream["frames"].as_u64().unwrap();
            assert!((700..=2000).contains(&frames), "{name}: {frames} frames");
            for path in ["stack", "counter"] {
                let count = stream["round_trip"][path]["count"].as_u64().unwrap_or(0);
                assert!(count > frames / 2, "{name}: {count} round trips {path} of {frames}");
            }
            assert_eq!(stream["round_trip"]["counter"]["p50"], 4, "{name}");
            assert_eq!(stream["counters"]["inconsistent"], 0, "{name}");
            // Behind a bridge too, which takes the tag out and puts it back.
            assert_eq!(stream["counters"]["wrong_tag"], 0, "{name}");
            // Only packet sockets tell the departure; all tell the arrival.
            assert_eq!(stream["one_way"]["count"].as_u64().unwrap_or(0) > frames / 2, link != "xdp", "{name}");
            assert!(stream["spacing"]["count"].as_u64().unwrap() > frames / 2, "{name}");
            assert_eq!(run["machine"]["allocations_in_cycles"], 0, "{name}: the cyclic path allocates");
            assert_eq!(run["machine"]["link_wanted"], link);
            for host in ["pub", "loop"] {
                let reached = &run["machine"]["ways"][host][0];
                assert!(reached["receive"].as_str().unwrap().starts_with(receive), "{name}: {reached}");
                assert!(reached["send"].as_str().unwrap().starts_with(send), "{name}: {reached}");
            }
        }
    }
}

#[test]
fn what_serves_best_is_found_and_why_is_said() {
    if !can_run("what_serves_best_is_found") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "t-auto");
    let out = folder.path().join("out");
    downbeat(&["run", scenario.to_str().unwrap(), "--out", out.to_str().unwrap(), "--duration", "500ms"]);
    let reached = &run_json(&out)["machine"]["ways"]["loop"][0];
    assert_eq!(reached["receive"], "packet ring", "{reached}");
    assert!(reached["why"].as_str().unwrap().contains("copy"), "{reached}");
}

/// Three streams of different cycles, whose ends share the interfaces in threads of this kind.
fn sharing(name: &str, threads: &str, backlog: &str) -> String {
    let text = common::scenario_text("two-hosts", name);
    let (head, _) = text.split_once("[[streams]]").unwrap();
    let time = format!("[time]\nthreads = \"{threads}\"\nbacklog = \"{backlog}\"\n");
    let head = head.replace("[time]\n", &time).replace("\nrequirement =", "\n# requirement =");
    let stream = |(index, cycle): (usize, &str)| {
        format!(
            "[[streams]]\nname = \"s{index}\"\nwriter = \"pub\"\nreader = \"loop\"\necho = true\nvariables = {}\n\
             cycle = \"{cycle}\"\nvid = 300{index}\npcp = {index}\n",
            4 + index
        )
    };
    head.to_owned() + &["2ms", "8ms", "4ms"].into_iter().enumerate().map(stream).collect::<String>()
}

#[test]
fn ends_of_several_threads_and_cycles_share_an_interface_by_xdp() {
    if !can_run("ends_of_several_threads_and_cycles") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for (threads, backlog) in [("stream", "drain"), ("host", "drain"), ("phase", "drain"), ("host", "keep")] {
        let name = format!("t-x-{}-{backlog}", &threads[..2]);
        let scenario = folder.path().join(format!("{name}.toml"));
        std::fs::write(&scenario, sharing(&name, threads, backlog)).unwrap();
        let out = folder.path().join(&name);
        let arguments = ["run", scenario.to_str().unwrap(), "--out", out.to_str().unwrap(), "--link", "xdp"];
        let output = downbeat(&[&arguments[..], &["--duration", "2s"]].concat());
        assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
        let run = run_json(&out);
        for host in ["pub", "loop"] {
            let reached = &run["machine"]["ways"][host][0];
            assert!(reached["receive"].as_str().unwrap().starts_with("AF_XDP"), "{name}: {reached}");
            assert!(reached["send"].as_str().unwrap().starts_with("AF_XDP"), "{name}: {reached}");
        }
        for (stream, cycles) in run["streams"].as_array().unwrap().iter().zip([1000, 250, 500]) {
            let frames = stream["frames"].as_u64().unwrap();
            assert!((cycles / 4..=cycles).contains(&frames), "{name}: {frames} frames: {stream}");
            for figures in [&stream["one_way_stack"], &stream["round_trip"]["stack"], &stream["spacing"]] {
                assert!(figures["count"].as_u64().unwrap_or(0) > frames / 2, "{name}: {stream:#}");
            }
            // Each receiver gets its streams' frames and no others.
            for counter in ["inconsistent", "wrong_tag", "foreign"] {
                assert_eq!(stream["counters"][counter].as_u64().unwrap_or(0), 0, "{name}: {stream:#}");
            }
        }
        assert_eq!(run["machine"]["allocations_in_cycles"], 0, "{name}: the cyclic path allocates");
    }
}

#[test]
fn a_way_that_does_not_exist_is_refused_and_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "t-way");
    let out = folder.path().join("out");
    let output = downbeat(&["run", scenario.to_str().unwrap(), "--out", out.to_str().unwrap(), "--link", "dpdk"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("expected auto, packet, ring or xdp"), "{}", stderr(&output));
    assert!(namespaces("t-way").is_empty() && !out.exists());
}

#[test]
fn an_interface_down_and_up_again_and_one_removed_do_not_end_a_run() {
    if !can_run("an_interface_down") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for (name, commands) in [
        ("t-down", &[&["link", "set", "eth0", "down"][..], &["link", "set", "eth0", "up"]][..]),
        ("t-gone", &[&["link", "del", "eth0"]]),
    ] {
        let scenario = common::scenario(folder.path(), "two-hosts", name);
        let out = folder.path().join(name);
        let child = start(&scenario, &out, &["--duration", "4s"]);
        wait_for("the run's processes", || children(child.id()).len() == 2 && namespaces(name).len() == 2);
        for command in commands {
            std::thread::sleep(Duration::from_millis(1200));
            let loopback = format!("db-{name}-loop");
            assert!(Command::new("ip").args(["-n", &loopback]).args(*command).status().unwrap().success());
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "frames were lost: {}", stderr(&output));
        let run = run_json(&out);
        let incidents = run["incidents"].as_array().unwrap();
        let named = |host: &str| {
            let begins = |cause: &str| cause.starts_with(&format!("{host}: the interface of stream loop went down"));
            incidents
                .iter()
                .any(|incident| incident["kind"] == "link-down" && begins(incident["cause"].as_str().unwrap()))
        };
        // With one end of a veth pair deleted, the other goes too; set down, the other only has no carrier.
        assert!(named("loop") && (name == "t-down" || named("pub")), "{name}: {incidents:#?}");
        let frames = run["streams"][0]["frames"].as_u64().unwrap();
        assert!(frames > 1000, "{name}: the cycle went on: {frames} frames");
        let back = run["streams"][0]["round_trip"]["wire"]["count"].as_u64().unwrap();
        if name == "t-down" {
            assert!(back > 1200, "frames come back after the interface has: {back} of {frames}");
        }
        assert!(namespaces(name).is_empty(), "{name}");
    }
}

#[test]
fn an_interface_of_an_end_that_only_reads_is_named_too() {
    if !can_run("an_interface_of_an_end_that_only_reads") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let text = common::scenario_text("two-hosts", "t-sink").replace("echo = true", "echo = false");
    let text = text.replace("round_trip_wire = \"4ms\", ", "");
    // Nearly always waiting in its socket, so that it is the wait that hears of it.
    let text = text.replace("application = 0.3, publish = 0.6", "application = 0.97, publish = 0.98");
    let text = text.replace("window = 0.2", "window = 0.96");
    let scenario = folder.path().join("t-sink.toml");
    std::fs::write(&scenario, text).unwrap();
    let out = folder.path().join("out");
    let child = start(&scenario, &out, &["--duration", "3s"]);
    wait_for("the run's processes", || children(child.id()).len() == 2 && namespaces("t-sink").len() == 2);
    std::thread::sleep(Duration::from_millis(1200));
    let down = Command::new("ip").args(["-n", "db-t-sink-loop", "link", "set", "eth0", "down"]).status();
    assert!(down.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "frames were lost: {}", stderr(&output));
    let run = run_json(&out);
    let incidents = run["incidents"].as_array().unwrap();
    let named = incidents.iter().any(|incident| {
        incident["kind"] == "link-down" && incident["cause"].as_str().unwrap().starts_with("loop: the interface")
    });
    assert!(named, "no word is sent there that could be refused: {incidents:#?}");
}

#[test]
fn a_frame_with_another_tag_is_counted_and_not_taken() {
    if !can_run("a_frame_with_another_tag") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let file = common::scenario(folder.path(), "two-hosts", "t-tag");
    let out = folder.path().join("out");
    let (child, _) = started(&file, &out, "t-tag");
    let (scenario, _) = scenario::read_file(&file).unwrap();
    let stream = &scenario.streams[0];
    let mut header = stream.ethernet(&scenario, false).unwrap();
    let mut sent = 0;
    // Five with another VID, seven with another PCP: all else is the stream's own.
    for (count, vid, pcp) in [(5, stream.vid + 1, stream.pcp), (7, stream.vid, stream.pcp - 1)] {
        header.vlan = Some(pubsub::VlanTag { pcp, dei: false, vid });
        let template = pubsub::WriterTemplate::new(&stream.layout(&scenario, false), Some(&header)).unwrap();
        let frame = template.frame().to_vec();
        let send = move || {
            rt::process::enter_network_namespace(Path::new("/run/netns/db-t-tag-pub")).unwrap();
            let sender = link::Sender::open("eth0", link::SenderOptions::default()).unwrap();
            (0..count).for_each(|_| sender.send(&frame).unwrap());
        };
        std::thread::spawn(send).join().unwrap();
        sent += count;
    }
    std::thread::sleep(Duration::from_millis(300));
    signal(child.id(), "INT");
    let output = child.wait_with_output().unwrap();
    let run = run_json(&out);
    let stream = &run["streams"][0];
    assert_eq!(stream["counters"]["wrong_tag"], sent, "{}", stderr(&output));
    assert_eq!(stream["counters"]["inconsistent"], 0, "what they held was not taken");
    let named = run["incidents"].as_array().unwrap().iter().any(|incident| incident["kind"] == "wrong-tag");
    assert!(named, "{:#?}", run["incidents"]);
}

#[test]
fn who_keeps_launch_times_is_said_and_without_a_queue_for_it_the_kernel_does_not() {
    if !can_run("who_keeps_launch_times") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "t-launch");
    let run = |launch: &str| {
        let out = folder.path().join(launch);
        let arguments = ["run", scenario.to_str().unwrap(), "--out", out.to_str().unwrap(), "--launch", launch];
        (downbeat(&[&arguments[..], &["--duration", "300ms"]].concat()), out)
    };
    for (launch, why) in [("auto", "no queue keeps launch times: its queue is"), ("pace", "asked for")] {
        let (output, out) = run(launch);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
        let run = run_json(&out);
        assert_eq!(run["machine"]["launch_wanted"], launch);
        let reached = &run["machine"]["ways"]["pub"][0];
        assert!(reached["launch"].as_str().unwrap().starts_with("own pacing"), "{reached}");
        assert!(reached["launch_why"].as_str().unwrap().starts_with(why), "{reached}");
        assert!(run["streams"][0]["launch"]["mechanism"].as_str().unwrap().starts_with("own pacing"));
    }
    let (output, out) = run("txtime");
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("frames would leave at once") && text.contains("--launch pace"), "{text}");
    assert!(namespaces("t-launch").is_empty() && !out.exists());
    let (output, _) = run("etf");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("expected auto, pace or txtime"), "{}", stderr(&output));
}

/// What stands for `tc` where the kernel has no ETF: it tells of one. The frames then leave at once, and all else is real.
const TC_WITH_ETF: &str = r#"#!/bin/sh
case "$*" in
*"-j qdisc show"*)
    echo '[{"kind":"etf","handle":"1:","root":true,"options":{"clockid":"TAI","delta":300000,"offload":"off","deadline_mode":"off","skip_sock_check":"off"}}]'
    ;;
*)
    PATH="${PATH#*:}" exec tc "$@"
    ;;
esac
"#;

#[test]
fn what_a_queue_is_to_keep_goes_to_the_kernel_in_the_publish_phase() {
    use std::os::unix::fs::PermissionsExt as _;
    if !can_run("what_a_queue_is_to_keep") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    let tc = programs.join("tc");
    std::fs::write(&tc, TC_WITH_ETF).unwrap();
    std::fs::set_permissions(&tc, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let run = |name: &str, transport: &str, more: &[&str]| {
        let text = common::scenario_text("two-hosts", name);
        let tag = text.lines().find(|line| line.starts_with("vid =")).unwrap().to_string();
        let scenario = folder.path().join(format!("{name}.toml"));
        std::fs::write(&scenario, text.replace(&tag, transport)).unwrap();
        let out = folder.path().join(name);
        let arguments = ["run", scenario.to_str().unwrap(), "--out", out.to_str().unwrap(), "--duration", "1s"];
        let output = Command::new(common::DOWNBEAT).args(arguments).args(more).env("PATH", &path).output().unwrap();
        (output, out)
    };
    for (name, transport, link) in [
        ("t-etf", "vid = 3000", "packet"),
        ("t-etf-ring", "vid = 3000", "ring"),
        ("t-etf-udp", "transport = \"udp\"", "auto"),
    ] {
        let (output, out) = run(name, transport, &["--link", link]);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
        let run = run_json(&out);
        let reached = &run["machine"]["ways"]["pub"][0];
        assert_eq!(reached["launch_why"], "the class of priority 7 at eth0 has an etf queue", "{reached}");
        let launch = &run["streams"][0]["launch"];
        assert!(launch["mechanism"].as_str().unwrap().starts_with("ETF without offload: early"), "{launch}");
        // Nobody waits for the launch time, which is a cycle after the publish phase, and the veth does not either.
        assert!(launch["error"]["count"].as_u64().unwrap() > 300, "{launch}");
        assert!(launch["error"]["p50"].as_i64().unwrap() < 0, "{launch}");
        // The frame brings its launch time along in place of a stamp, and is stamped all the same.
        for figures in [&run["streams"][0]["one_way"], &run["streams"][0]["round_trip"]["wire"]] {
            assert!(figures["count"].as_u64().unwrap_or(0) > 300, "{name}: {figures}");
        }
        assert_eq!(run["machine"]["allocations_in_cycles"], 0, "{name}: the cyclic path allocates");
        let hosts = run["hosts"].as_array().unwrap();
        assert!(hosts.iter().all(|host| host["phase"] != "launch"), "{hosts:?}");
    }
    let (output, _) = run("t-etf-pace", "vid = 3000", &["--launch", "pace"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("drops every frame without a launch time"), "{}", stderr(&output));
    let (output, _) = run("t-etf-xdp", "vid = 3000", &["--launch", "txtime", "--link", "xdp"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("AF_XDP passes the queues by"), "{}", stderr(&output));
    assert!(namespaces("t-etf").is_empty() && namespaces("t-etf-xdp").is_empty());
}

#[test]
fn whose_stamps_frames_get_is_said_and_without_a_card_they_are_not_the_hardwares() {
    if !can_run("whose_stamps") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "t-stamps");
    let run = |stamps: &str| {
        let out = folder.path().join(stamps);
        let arguments = ["run", scenario.to_str().unwrap(), "--out", out.to_str().unwrap(), "--stamps", stamps];
        (downbeat(&[&arguments[..], &["--duration", "500ms"]].concat()), out)
    };
    for (stamps, had, why) in [
        ("auto", "software", "the ports of this run are veth pairs"),
        ("software", "software", "asked for"),
        ("off", "off", "asked for"),
    ] {
        let (output, out) = run(stamps);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
        let run = run_json(&out);
        assert_eq!((&run["machine"]["stamps_wanted"], &run["machine"]["stamps"]), (&stamps.into(), &had.into()));
        let reached = &run["machine"]["ways"]["loop"][0];
        assert_eq!(reached["stamps"], had, "{reached}");
        assert!(reached["stamps_why"].as_str().unwrap().starts_with(why), "{reached}");
        let wire = run["streams"][0]["round_trip"]["wire"]["count"].as_u64();
        assert_eq!(wire.is_some_and(|count| count > 0), had != "off", "{stamps}: {wire:?}");
        assert!(run["machine"].get("stamp_clocks").is_none());
    }
    let (output, out) = run("hardware");
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("--stamps hardware") && text.contains("veth") && text.contains("mend: "), "{text}");
    assert!(!out.exists(), "nothing was begun");
    let (output, _) = run("both");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("expected auto, software, hardware or off"), "{}", stderr(&output));
}
