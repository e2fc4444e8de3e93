//! Roles: hosts of one scenario in networks that the test made, as if on machines of their own, and their control.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::bench::{Bench, ip};
use common::{DOWNBEAT, alone, can_run, ended, run_json, signal, stderr, stdout, wait_for};
use serde_json::Value;

/// A restarted writer is heard again within so many cycles (`pubsub::RESYNC_PHASES`), and a pause of this machine.
const HEARD_AGAIN_CYCLES: usize = pubsub::RESYNC_PHASES as usize + 100;

fn kinds(run: &Value) -> Vec<&str> {
    run["incidents"].as_array().unwrap().iter().filter_map(|incident| incident["kind"].as_str()).collect()
}

#[test]
fn hosts_on_machines_of_their_own_meet_by_the_time_alone() {
    if !can_run("hosts_on_machines_of_their_own") {
        return;
    }
    let _alone = alone();
    let bench = Bench::new("t-role");
    let looping = bench.start("loopback", "loop", &[]);
    let cycles = 1500;
    let publishing = bench.role("publish", "pub", &["--cycles", "1500"]).output().unwrap();
    assert!(matches!(publishing.status.code(), Some(0 | 1)), "{}", stderr(&publishing));
    signal(looping.id(), "INT");
    let said = ended(looping);
    assert!(said.contains("arrived") && said.contains("nothing was required that this end can know"), "{said}");

    let (writer, reader) = (run_json(&bench.out("pub")), run_json(&bench.out("loop")));
    let stream = &writer["streams"][0];
    let frames = stream["frames"].as_u64().unwrap();
    assert!((cycles / 3..=cycles).contains(&frames), "{frames}");
    for path in ["wire", "stack", "counter"] {
        let count = stream["round_trip"][path]["count"].as_u64().unwrap_or(0);
        assert!(count > frames / 2, "{count} round trips {path} of {frames}");
    }
    // What only the other end knows is absent; nothing is amiss for that.
    assert!(stream["one_way"].is_null() && stream["loss"]["dL"].is_null() && stream["arrived"].is_null(), "{stream}");
    assert!(!kinds(&writer).contains(&"trace-missing") && !kinds(&reader).contains(&"trace-missing"));
    assert_eq!(writer["machine"]["role"]["ends"][0]["end"], "writer");
    let way = &writer["machine"]["ways"]["pub"][0];
    assert_eq!((&way["stamps"], &writer["machine"]["stamps"]), (&"software".into(), &"software".into()));
    assert!(way["stamps_why"].as_str().unwrap().contains("eth0: it stamps neither"), "{way}");
    assert_eq!(reader["machine"]["role"]["command"], "loopback");
    let arrived = reader["streams"][0]["arrived"].as_u64().unwrap();
    assert!(arrived <= frames && arrived > frames / 2, "{arrived} of {frames} arrived");
    assert!(reader["streams"][0]["round_trip"]["wire"].is_null() && reader["streams"][0]["loss"]["dP"].is_null());
    assert!(reader["verdict"]["items"].as_array().unwrap().is_empty());

    // Every message came back, is lost or was under way; cycles are counted from the instant that both know.
    let (_, rows, _) = measure::read_run(&bench.out("pub")).unwrap();
    let back = rows.iter().filter(|row| row.at(8).is_some()).count() as u64;
    let lost = stream["loss"]["dSum"].as_u64().unwrap() + stream["loss"]["under_way"].as_u64().unwrap();
    assert_eq!(back + lost, rows.len() as u64);
    let last = rows.iter().map(|row| row.cycle).max().unwrap();
    assert!(last < cycles as i64 && last > cycles as i64 - 100, "the last of 1500 cycles is {last}");
    for run in [&writer, &reader] {
        let first = run["machine"]["first_cycle"].as_i64().unwrap();
        assert_eq!(run["machine"]["first_cycle_at_ns"].as_i64().unwrap(), first * 1_000_000);
    }
    let first = writer["machine"]["first_cycle"].as_u64().unwrap();
    assert!(rows[0].counter > first && rows[0].counter < first + 100, "counters are those of the time");
    let page = bench.out("r.html");
    let folders = [bench.out("pub"), bench.out("loop")].map(|folder| folder.to_str().unwrap().to_string());
    let output = common::downbeat(&["report", &folders[0], &folders[1], "--out", page.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));

    // Joined they are one run, with what neither could know.
    let both = bench.out("both");
    let join = |folders: [&str; 2], out: &Path| {
        let out = out.to_str().unwrap();
        common::downbeat(&["join", folders[0], folders[1], "--clock-error", "0us", "--out", out])
    };
    let output = join([&folders[0], &folders[1]], &both);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    assert!(stdout(&output).contains("one-way figures rest on clocks"), "{}", stdout(&output));
    let joined = run_json(&both);
    let whole = &joined["streams"][0];
    for path in
        ["/frames", "/round_trip/wire/count", "/round_trip/wire/p50", "/round_trip/counter/p50", "/counters/missed"]
    {
        assert_eq!(whole.pointer(path), stream.pointer(path), "{path}");
    }
    assert_eq!(whole["arrived"], reader["streams"][0]["arrived"]);
    // Of those that were not lost, where the reader's stamp came: one way is a part of the way there and back.
    let one_way = &whole["one_way"];
    assert!(one_way["count"].as_u64().unwrap() > frames / 2, "{one_way}");
    assert!(
        one_way["min"].as_i64().unwrap() > 0 && one_way["p50"].as_i64() < whole["round_trip"]["wire"]["p50"].as_i64()
    );
    assert!(whole["split"].is_object() && whole["loss"]["dL"].is_u64() && whole["loss"]["dLinkL"].is_u64(), "{whole}");
    assert!(!kinds(&joined).contains(&"clock-disagreement") && !kinds(&joined).contains(&"trace-missing"));
    assert_eq!(joined["machine"]["clock_error_ns"], 0);
    for (output, words) in [
        (join([&folders[0], &folders[0]], &bench.out("same")), "both hold the writer"),
        (join([&folders[0], &folders[1]], &both), "holds a run already"),
        (join([&folders[0], both.to_str().unwrap()], &bench.out("again")), "joined already"),
    ] {
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}

#[test]
fn somebody_elses_xdp_programme_is_left_alone() {
    if !can_run("somebody_elses_xdp_programme") {
        return;
    }
    let _alone = alone();
    let bench = Bench::new("t-xdp");
    let attached = || {
        let output =
            Command::new("ip").args(["-n", &bench.network("pub"), "-d", "link", "show", "eth0"]).output().unwrap();
        let text = stdout(&output);
        text.split_once("prog/xdp id ").and_then(|(_, rest)| rest.split_whitespace().next().map(str::to_owned))
    };
    // It is attached as long as its owner, a thread inside the network, has it open.
    let (ready, is_ready) = std::sync::mpsc::channel();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let network = Path::new("/run/netns").join(bench.network("pub"));
    let owner = std::thread::spawn(move || {
        rt::process::enter_network_namespace(&network).unwrap();
        let port = link::xdp::XdpPort::open("eth0", link::xdp::XdpOptions::default()).unwrap();
        ready.send(()).unwrap();
        _ = is_done.recv();
        drop(port);
    });
    is_ready.recv().unwrap();
    let programme = attached().expect("it is attached");
    let refused = bench.role("publish", "xdp", &["--cycles", "300", "--link", "xdp"]).output().unwrap();
    let text = stderr(&refused);
    assert_eq!(refused.status.code(), Some(3), "{text}");
    assert!(text.contains("eth0") && text.contains("XDP") && text.contains(&programme), "{text}");
    assert_eq!(attached().as_ref(), Some(&programme), "a refusal takes nothing away");
    let output = bench.role("publish", "auto", &["--cycles", "300"]).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let run = run_json(&bench.out("auto"));
    assert!(run["streams"][0]["frames"].as_u64().unwrap() > 100);
    let reached = &run["machine"]["ways"]["pub"][0];
    assert!(reached["receive"].as_str().unwrap().starts_with("packet"), "{reached}");
    assert!(reached["why"].as_str().is_some_and(|why| !why.is_empty()), "{reached}");
    assert_eq!(attached(), Some(programme), "nor does a run beside it");
    done.send(()).unwrap();
    owner.join().unwrap();
}

#[test]
fn roles_run_with_a_thread_a_phase_by_every_way() {
    if !can_run("roles_run_with_a_thread_a_phase") {
        return;
    }
    let _alone = alone();
    for (link, reader) in [("ring", "loopback"), ("xdp", "loopback"), ("xdp", "subscribe")] {
        let bench = Bench::new("t-phases");
        let mut text = std::fs::read_to_string(&bench.scenario).unwrap();
        text =
            text.replace("[time]\n", "[time]\nthreads = \"phase\"\n").replace("\nrequirement =", "\n# requirement =");
        if reader == "subscribe" {
            text = text.replace("echo = true", "echo = false");
        }
        std::fs::write(&bench.scenario, text).unwrap();
        let reading = bench.start(reader, "loop", &["--link", link]);
        let output = bench.role("publish", "pub", &["--link", link, "--cycles", "1000"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(bench.ctl(reader, "stop").status.success());
        ended(reading);
        let [writer, reader_run] = ["pub", "loop"].map(|name| run_json(&bench.out(name)));
        let frames = writer["streams"][0]["frames"].as_u64().unwrap();
        let arrived = reader_run["streams"][0]["arrived"].as_u64().unwrap();
        assert!((500..=1000).contains(&frames) && arrived > frames / 2, "{link} {reader}: {arrived} of {frames}");
        let trips = writer["streams"][0]["round_trip"]["stack"]["count"].as_u64().unwrap_or(0);
        assert_eq!(trips > frames / 2, reader == "loopback", "{link} {reader}: {trips} of {frames}");
        for run in [&writer, &reader_run] {
            assert_eq!(run["machine"]["allocations_in_cycles"], 0, "{link} {reader}");
            assert_eq!(run["machine"]["trace_records_lost"], 0, "{link} {reader}");
            let ways = run["machine"]["ways"].as_object().unwrap().values();
            let is_xdp = |way: &Value| way[0]["why"] == "asked for" && way.to_string().contains("AF_XDP");
            assert_eq!(ways.clone().all(is_xdp), link == "xdp", "{run:#}");
        }
    }
}

#[test]
fn a_killed_publisher_is_heard_again_when_it_is_back() {
    if !can_run("a_killed_publisher") {
        return;
    }
    let _alone = alone();
    let bench = Bench::new("t-repub");
    let looping = bench.start("loopback", "loop", &[]);
    let mut publishing = bench.start("publish", "pub", &[]);
    wait_for("messages", || bench.count("loopback", "arrived") > 300);
    publishing.kill().unwrap();
    publishing.wait().unwrap();
    // Its socket is still there, and nobody listens: the next one replaces it.
    assert!(bench.socket("publish").exists());
    let again = bench.role("publish", "again", &["--cycles", "1500"]).output().unwrap();
    assert!(matches!(again.status.code(), Some(0 | 1)), "{}", stderr(&again));
    let (run, rows, _) = measure::read_run(&bench.out("again")).unwrap();
    let silent = rows.iter().take_while(|row| row.at(8).is_none()).count();
    assert!(silent < HEARD_AGAIN_CYCLES, "unheard for {silent} cycles");
    let trips = run.streams[0].round_trip.stack.as_ref().map_or(0, |trips| trips.count);
    assert!(trips > run.streams[0].frames / 2, "{trips} of {}", run.streams[0].frames);
    // What the first life of the writer had sent is nothing that the second missed.
    assert!(run.streams[0].counters.missed.unwrap() < run.streams[0].frames / 2);
    assert!(bench.ctl("loopback", "stop").status.success());
    ended(looping);
    let arrived = run_json(&bench.out("loop"))["streams"][0]["arrived"].as_u64().unwrap();
    assert!(arrived > 300 + trips / 2, "both lives are in the loopback's result: {arrived}");
}

#[test]
fn a_killed_loopback_costs_messages_and_nothing_else() {
    if !can_run("a_killed_loopback") {
        return;
    }
    let _alone = alone();
    let bench = Bench::new("t-reloop");
    let publishing = bench.start("publish", "pub", &["--duration", "60s"]);
    let mut looping = bench.start("loopback", "one", &[]);
    wait_for("answers", || bench.count("publish", "answered") > 300);
    looping.kill().unwrap();
    looping.wait().unwrap();
    let before = bench.count("publish", "published");
    wait_for("the publisher to go on", || bench.count("publish", "published") > before + 200);
    let looping = bench.start("loopback", "two", &[]);
    let answered = bench.count("publish", "answered");
    wait_for("answers again", || bench.count("publish", "answered") > answered + 300);
    signal(publishing.id(), "TERM");
    let output = publishing.wait_with_output().unwrap();
    assert!(stderr(&output).contains("stopped by the user"), "{}", stderr(&output));
    signal(looping.id(), "INT");
    ended(looping);
    let run = run_json(&bench.out("pub"));
    let stream = &run["streams"][0];
    let (lost, frames) = (stream["loss"]["dSum"].as_u64().unwrap(), stream["frames"].as_u64().unwrap());
    assert!(lost >= 200 && lost < frames - 500, "{lost} of {frames}");
    assert!(kinds(&run).contains(&"frames-lost"), "{:?}", kinds(&run));
    assert!(run["incidents"].to_string().contains("loop runs elsewhere"), "{}", run["incidents"]);
}

#[test]
fn what_a_role_cannot_do_it_says_before_it_begins() {
    if !can_run("what_a_role_cannot_do") {
        return;
    }
    let bench = Bench::new("t-wrong");
    let network = bench.network("pub");
    ip(&format!("-n {network} link add down0 type veth peer name down1"));
    ip(&format!("-n {network} link add br0 type bridge"));
    ip(&format!("-n {network} link add port0 type veth peer name port1"));
    ip(&format!("-n {network} link set port0 master br0 up"));
    ip(&format!("-n {network} link add small0 mtu 68 type veth peer name small1"));
    ip(&format!("-n {network} link set small0 up"));
    let scenario = bench.scenario.to_str().unwrap();
    let out = bench.out("never");
    let cases: &[(&[&str], i32, &[&str])] = &[
        (&["publish", scenario], 3, &["pub → loop", "--interface loop=eth1"]),
        (&["publish", scenario, "--interface", "eth9"], 3, &["no interface eth9", "down0"]),
        (&["publish", scenario, "--interface", "down0"], 3, &["down0 is down", "ip link set down0 up"]),
        (&["publish", scenario, "--interface", "port0"], 3, &["port of br0"]),
        (&["publish", scenario, "--interface", "small0"], 3, &["68 bytes", "mtu 104"]),
        (
            &["publish", scenario, "--interface", "eth0", "--stamps", "hardware"],
            3,
            &["--stamps hardware: eth0: it stamps"],
        ),
        (&["publish", scenario, "--interface", "far=eth0"], 2, &["far", "loop=IFACE"]),
        (&["publish", scenario, "--host", "loop", "--interface", "eth0"], 2, &["loop is not the writer", "pub"]),
        (&["publish", scenario, "--host", "nobody", "--interface", "eth0"], 2, &["nobody", "pub"]),
        (&["subscribe", scenario, "--interface", "eth0"], 2, &["without echo"]),
        (&["publish", scenario, "--interface", "eth0", "--duration", "10ns"], 2, &["no cycle"]),
        (&["publish", scenario, "--interface", "eth0", "--rotate-every", "1ms"], 2, &["--rotate-every"]),
    ];
    for (arguments, code, words) in cases {
        let output =
            bench.command("pub", &[arguments, &["--out", out.to_str().unwrap()][..]].concat()).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(*code), "{arguments:?}: {text}");
        for word in *words {
            assert!(text.contains(word), "{arguments:?}: no `{word}` in {text}");
        }
        assert!(text.contains("mend:"), "{text}");
    }
    // Without any right.
    let program = bench.out("downbeat-for-all");
    std::fs::copy(DOWNBEAT, &program).unwrap();
    std::fs::set_permissions(bench.folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let output = Command::new("ip")
        .args(["netns", "exec", &network, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&program)
        .args(["publish", scenario, "--interface", "eth0", "--no-control", "--out", out.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("CAP_NET_RAW"), "{}", stderr(&output));
    assert!(!out.exists(), "nothing is left of what did not begin");
}

#[test]
fn roles_over_udp_need_the_addresses_of_the_scenario_and_then_meet() {
    if !can_run("roles_over_udp") {
        return;
    }
    let _alone = alone();
    let bench = Bench::new("t-udp");
    let text = std::fs::read_to_string(&bench.scenario).unwrap();
    let line = text.lines().find(|line| line.starts_with("vid =")).unwrap().to_string();
    let more = "transport = \"udp\"\ndestination = \"opc.udp://10.7.0.2\"\nanswer_destination = \"opc.udp://10.7.0.1\"";
    std::fs::write(&bench.scenario, text.replace(&line, more)).unwrap();
    for (part, ip) in [("loopback", "10.7.0.2"), ("publish", "10.7.0.1")] {
        let output = bench.role(part, "never", &["--duration", "1s"]).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{text}");
        assert!(text.contains(&format!("come to {ip} here, which is no address of eth0")), "{text}");
        assert!(text.contains(&format!("ip address add {ip}/24 dev eth0")), "{text}");
    }
    for (end, own) in [("pub", "10.7.0.1"), ("loop", "10.7.0.2")] {
        ip(&format!("-n {}-{end} address add {own}/24 dev eth0", bench.name));
    }
    let loopback = bench.start("loopback", "loop", &[]);
    let publish = bench.start("publish", "pub", &["--duration", "3s"]);
    ended(publish);
    signal(loopback.id(), "INT");
    ended(loopback);
    let (writer, reader) = (run_json(&bench.out("pub")), run_json(&bench.out("loop")));
    let frames = writer["streams"][0]["frames"].as_u64().unwrap();
    assert!(frames > 1500, "{frames}");
    let back = writer["streams"][0]["round_trip"]["wire"]["count"].as_u64().unwrap_or(0);
    assert!(back > frames / 2, "{back} of {frames} came back, with stamps of both sockets");
    for (run, host) in [(&writer, "pub"), (&reader, "loop")] {
        let reached = &run["machine"]["ways"][host][0];
        assert_eq!((&reached["receive"], &reached["send"]), (&"UDP socket".into(), &"UDP socket".into()), "{reached}");
    }
}

#[test]
fn a_role_that_waits_for_a_gate_schedule_says_when_it_begins() {
    if !can_run("a_role_that_waits") {
        return;
    }
    let _alone = alone();
    let bench = Bench::new("t-gated");
    let queue = r#"queue = { root = "taprio", map = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], classes = 2,
        schedule = [{ gates = [0], interval = "400us" }, { gates = [1], interval = "600us" }] }"#;
    let text = std::fs::read_to_string(&bench.scenario).unwrap() + &format!("\n[[ports]]\nat = \"pub\"\n{queue}\n");
    std::fs::write(&bench.scenario, text).unwrap();
    let base = rt::clock::now().0 / 1_000_000_000 + 8;
    let more = ["--cycles", "300", "--set", &format!("ports.0.queue.base_time={base}s")];
    let publishing = bench.role("publish", "pub", &more).spawn().unwrap();
    wait_for("its control socket", || bench.status("publish").is_some_and(|status| status["name"].is_string()));
    let waits = bench.status("publish").unwrap();
    assert!(waits["elapsed_ns"].as_i64() < Some(0) && waits["cycle"].as_i64() < Some(0), "{waits}");
    let told = Command::new(DOWNBEAT).args(["ctl", "status", bench.socket("publish").to_str().unwrap()]).output();
    assert!(stdout(&told.unwrap()).contains("begins in "));
    ended(publishing);
    let first = run_json(&bench.out("pub"))["machine"]["first_cycle_at_ns"].as_i64().unwrap();
    assert!(first >= base * 1_000_000_000, "it began at {first}, before {base} s");
}

fn ask(stream: &UnixStream, line: &[u8]) -> Value {
    let mut writer = stream;
    writer.write_all(line).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap_or_default()
}

#[test]
fn control_answers_its_user_and_is_not_disturbed() {
    if !can_run("control_answers") {
        return;
    }
    let _alone = alone();
    let bench = Bench::new("t-ctl");
    let path = bench.socket("publish");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    // A socket of a dead process is replaced, a file that is none is not.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let publishing = bench.start("publish", "pub", &["--duration", "60s"]);
    let metadata = std::fs::metadata(&path).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    let second = bench.role("publish", "second", &[]).output().unwrap();
    assert_eq!(second.status.code(), Some(2));
    assert!(stderr(&second).contains(&format!("process {}", publishing.id())), "{}", stderr(&second));
    assert!(path.exists(), "the living one keeps its socket");

    let status = bench.status("publish").unwrap();
    let name = format!("{}-publish", bench.network("pub"));
    assert_eq!((status["name"].as_str(), status["command"].as_str()), (Some(&*name), Some("publish")));
    assert!(status["granted"]["pub"].is_array() && status["folder"].as_str().unwrap().ends_with("/pub"), "{status}");
    assert!(status["streams"][0]["arrived"].is_null(), "what this end cannot know: {status}");

    // Garbage, a line without end, clients that never read, more than are served.
    let connect = || {
        let stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    };
    for garbage in [&b"hello\n"[..], b"{\"do\":7}\n", b"\xff\xfe\n", b"[]\n", b"\n"] {
        let answer = ask(&connect(), garbage);
        assert_eq!(answer["ok"], false, "{answer}");
    }
    let answer = ask(&connect(), &[b'x'; 9000]);
    assert!(answer["error"].as_str().unwrap_or_default().contains("4096"), "{answer}");
    let mut idle: Vec<_> = (0..20).map(|_| connect()).collect();
    for stream in &mut idle {
        stream.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
        for _ in 0..200 {
            if stream.write_all(&b"{\"do\":\"status\"}\n".repeat(100)).is_err() {
                break;
            }
        }
    }
    assert!(bench.status("publish").is_some(), "others are still answered");
    drop(idle);

    let cycle = bench.status("publish").unwrap()["cycle"].as_i64().unwrap();
    wait_for("cycles to go on", || bench.status("publish").unwrap()["cycle"].as_i64().unwrap() > cycle + 100);
    assert!(bench.ctl("publish", "stop").status.success());
    ended(publishing);
    assert!(!path.exists(), "the socket goes with the role");
    let run = run_json(&bench.out("pub"));
    assert_eq!(run["machine"]["trace_records_lost"], 0, "the run was not disturbed");
    let nobody = bench.ctl("publish", "status");
    assert_eq!(nobody.status.code(), Some(2));
    assert!(stderr(&nobody).contains("nothing runs"), "{}", stderr(&nobody));
    std::fs::write(&path, "mine").unwrap();
    let refused = bench.role("publish", "third", &["--control", path.to_str().unwrap()]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("no socket"), "{}", stderr(&refused));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

/// Sum of a count over the parts of a run.
fn sum(folder: &Path, run: &Value, pointer: &str) -> u64 {
    let parts = run["parts"].as_array().unwrap();
    let of = |part: &Value| run_json(&folder.join(part["folder"].as_str().unwrap()));
    parts.iter().map(|part| of(part).pointer(pointer).and_then(Value::as_u64).unwrap_or(0)).sum()
}

#[test]
fn a_rotation_counts_nothing_as_lost_and_every_message_once() {
    if !can_run("a_rotation") {
        return;
    }
    let _alone = alone();
    let bench = Bench::new("t-rot");
    let looping = bench.start("loopback", "loop", &["--rotate-every", "2s"]);
    let publishing = bench.start("publish", "pub", &[]);
    for part in 1..=2 {
        let published = bench.count("publish", "published");
        wait_for("messages", || bench.count("publish", "published") > published + 1500);
        let answer = bench.ctl("publish", "rotate");
        let answer: Value = serde_json::from_slice(&answer.stdout).unwrap();
        assert!(answer["part"].as_str().unwrap().ends_with(&format!("part-000{part}")), "{answer}");
        assert!(bench.out("pub").join(format!("part-000{part}/run.json")).exists());
    }
    assert_eq!(bench.status("publish").unwrap()["parts"], 2);
    for (child, part) in [(publishing, "publish"), (looping, "loopback")] {
        assert!(bench.ctl(part, "stop").status.success());
        ended(child);
    }
    let folder = bench.out("pub");
    let run = run_json(&folder);
    let stream = &run["streams"][0];
    assert_eq!(run["parts"].as_array().unwrap().len(), 3);
    for pointer in ["/frames", "/loss/published", "/loss/dSum", "/counters/missed"] {
        let whole = stream.pointer(pointer).unwrap().as_u64().unwrap();
        assert_eq!(sum(&folder, &run, &format!("/streams/0{pointer}")), whole, "{pointer}");
    }
    assert!(stream["round_trip"]["wire"].is_null(), "distributions are in the parts");
    let mut counters = Vec::new();
    for part in run["parts"].as_array().unwrap() {
        let (_, rows, _) = measure::read_run(&folder.join(part["folder"].as_str().unwrap())).unwrap();
        counters.extend(rows.iter().map(|row| row.counter));
        let lost = rows.iter().filter(|row| row.has(measure::flags::LOST)).count();
        assert!(lost < rows.len() / 4, "{lost} of {} lost in {part}", rows.len());
        // The cut is no place where messages get lost: the last ones of each part came back as the others did.
        let last = &rows[rows.len().saturating_sub(200)..rows.len().saturating_sub(50)];
        assert!(last.iter().filter(|row| row.at(8).is_some()).count() > last.len() / 2, "{part}");
    }
    assert!(counters.windows(2).all(|pair| pair[0] < pair[1]), "every message once, in order");
    assert_eq!(counters.len() as u64, stream["frames"].as_u64().unwrap());
    let reader = run_json(&bench.out("loop"));
    assert!(reader["parts"].as_array().unwrap().len() >= 2, "{}", reader["parts"]);
    assert_eq!(
        sum(&bench.out("loop"), &reader, "/streams/0/arrived"),
        reader["streams"][0]["arrived"].as_u64().unwrap()
    );
    // Parts of both sides are cut at different instants and are one run when joined.
    let (both, looping) = (bench.out("both"), bench.out("loop"));
    let [one, other, out] = [&folder, &looping, &both].map(|path| path.to_str().unwrap());
    let output = common::downbeat(&["join", other, one, "--clock-error", "0us", "--out", out]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let joined = run_json(&both);
    let whole = &joined["streams"][0];
    for known in ["/frames", "/counters/missed"] {
        assert_eq!(whole.pointer(known), stream.pointer(known), "{known}");
    }
    assert_eq!(whole["arrived"], reader["streams"][0]["arrived"]);
    assert!(
        whole["one_way"]["count"].as_u64().unwrap() > stream["frames"].as_u64().unwrap() / 2,
        "{}",
        whole["one_way"]
    );
    let page = bench.out("r.html");
    let output = common::downbeat(&["report", folder.to_str().unwrap(), "--out", page.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
}
