//! Runs with real queueing disciplines in the kernel laboratory: each does what it is there for, and none is above its bound.
//! What needs the laboratory's kernel is left out in words where it is not built, and fails where all tests are required.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::common::{can_run, downbeat, run_json, scenario, stderr, stdout};
use measure::FrameRow;
use serde_json::Value;

/// Priority 7 is class 1, all others are class 0.
const MAP: &str = "map = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]";
/// Of a cycle of 1 ms, class 1 has 500 µs to 700 µs.
const GATES: &str = "schedule = [{ gates = [0], interval = \"400us\" }, { gates = [], interval = \"100us\" }, \
                     { gates = [1], interval = \"200us\" }, { gates = [0], interval = \"200us\" }, \
                     { gates = [], interval = \"100us\" }]";
const WINDOW: std::ops::Range<i64> = 500_000..700_000;
const CYCLE: i64 = 1_000_000;
/// A frame of 104 B UADP on the wire at 1 Gbit/s.
const FRAME_NS: i64 = (104 + 18 + 24) * 8;
/// Readings of the clock into which an interrupt falls hold it up for 10 ns each.
const READINGS_NS: i64 = 200;
/// A wire's timer goes off 1 ns late, and once a reading of the clock is over that it falls into, at each of the two links that
/// a way has at most.
const TIMERS_NS: i64 = 2 * (1 + 10);

fn has_kernel(test: &str) -> bool {
    kernel_lab::testing::kernel(test).is_some()
}

fn run_in_lab(scenario: &Path, out: &Path, link: &str) -> Output {
    let (scenario, out) = (scenario.to_str().unwrap(), out.to_str().unwrap());
    downbeat(&["run", scenario, "--in", "kernel-lab", "--link", link, "--duration", "300ms", "--out", out])
}

/// What a run left, whatever its verdict.
fn run(scenario: &Path) -> (Value, Vec<FrameRow>) {
    run_by(scenario, "auto")
}

/// The same by this way to the interfaces: a ring stamps arrivals to the nanosecond.
fn run_by(scenario: &Path, link: &str) -> (Value, Vec<FrameRow>) {
    let out = scenario.with_extension("run");
    let output = run_in_lab(scenario, &out, link);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}{}", stdout(&output), stderr(&output));
    (run_json(&out), measure::read_run(&out).unwrap().1)
}

/// A direct link with this queue at both ends and this offset of the launch.
fn direct(folder: &Path, name: &str, queue: &str, offset: &str) -> PathBuf {
    let path = scenario(folder, "two-hosts", name);
    let text = fs::read_to_string(&path).unwrap().replace("offset = \"600us\"", &format!("offset = \"{offset}\""));
    fs::write(&path, format!("{text}\n[[ports]]\nat = \"*\"\nqueue = {{ {queue} }}\n")).unwrap();
    path
}

fn traffic(from: &str, rate: &str) -> String {
    format!("\n[[traffic]]\nfrom = \"{from}\"\nto = \"loop\"\nkind = \"udp\"\nrate = \"{rate}\"\npcp = 0\n")
}

/// A publisher and two stations of best effort behind one bridge, all towards one loopback.
fn crowded(folder: &Path, name: &str, queue: &str, rate: &str, more: &str) -> PathBuf {
    let links: String = ["pub", "one", "two", "loop"]
        .map(|host| format!("[[links]]\nbetween = [\"{host}\", \"bridge\"]\nrate = \"1Gbit/s\"\n"))
        .concat();
    let text = format!(
        "name = \"{name}\"\n[time]\ncycle = \"1ms\"\nphases = {{ subscribe = 0.0, application = 0.3, publish = 0.6 }}\n\
         window = 0.2\noffset = \"600us\"\n[hosts]\npub = {{}}\none = {{}}\ntwo = {{}}\nloop = {{}}\n\
         bridge = {{ kind = \"bridge\", latency = \"2us\" }}\n{links}\
         [[streams]]\nname = \"s\"\nwriter = \"pub\"\nreader = \"loop\"\necho = true\nvariables = 8\nvid = 3000\npcp = 7\n\
         {more}{}{}\n[[ports]]\nat = \"bridge\"\nqueue = {{ {queue} }}\n",
        traffic("one", rate),
        traffic("two", rate)
    );
    let path = folder.join(format!("{name}.toml"));
    fs::write(&path, text).unwrap();
    path
}

fn largest(run: &Value, stream: usize) -> i64 {
    run["streams"][stream]["one_way"]["max"].as_i64().expect("one way was measured")
}

/// Asserts that no stream's frames took longer than the bound says, and tells how close they came.
fn within_bound(scenario: &Path, run: &Value) {
    within(scenario, run, "one_way");
}

/// The same with another figure of the bound.
fn within(scenario: &Path, run: &Value, figure: &str) {
    let output = downbeat(&["bound", scenario.to_str().unwrap(), "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let bound: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (index, stream) in bound["streams"].as_array().unwrap().iter().enumerate() {
        let us: f64 = stream[figure]["us"].as_str().expect("a finite bound").parse().unwrap();
        let (found, bound_ns) = (largest(run, index), (us * 1000.0).round() as i64);
        let name = stream["name"].as_str().unwrap();
        let share = 100 * found / bound_ns;
        println!("{}, {name}: {figure} {found} ns of {bound_ns} ns, {share} %", bound["scenario"]);
        assert!(found <= bound_ns + TIMERS_NS, "{name}: {found} ns is above its bound of {bound_ns} ns");
    }
}

fn lost(run: &Value) -> u64 {
    run["streams"].as_array().unwrap().iter().map(|stream| stream["loss"]["dSum"].as_u64().unwrap()).sum()
}

/// Where in the cycle the frames of a stream were at this point (1 is T2, 2 is T3), the earliest and the latest.
fn phases(rows: &[FrameRow], stream: u16, point: usize) -> std::ops::RangeInclusive<i64> {
    let found = || rows.iter().filter(|row| row.stream == stream).filter_map(|row| row.t[point]);
    assert!(found().count() > 250, "only {} frames were seen", found().count());
    let phases = || found().map(|at| at.rem_euclid(CYCLE));
    phases().min().unwrap()..=phases().max().unwrap()
}

fn holds(wanted: std::ops::Range<i64>, found: std::ops::RangeInclusive<i64>) -> bool {
    wanted.start <= *found.start() && *found.end() < wanted.end
}

#[test]
fn mqprio_keeps_a_stream_unhurt_where_fifo_does_not() {
    if !has_kernel("mqprio") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mqprio = format!("root = \"mqprio\", {MAP}, classes = 2");
    // 1.25 Gbit/s of best effort want to go through a link of 1 Gbit/s.
    let fifo = crowded(folder.path(), "ports-fifo-over", "root = \"fifo\"", "600Mbit/s", "");
    let classes = crowded(folder.path(), "ports-mqprio", &mqprio, "600Mbit/s", "");
    let ((hurt, _), (unhurt, _)) = (run(&fifo), run(&classes));
    assert!(largest(&hurt, 0) > 100 * largest(&unhurt, 0), "{} and {} ns", largest(&hurt, 0), largest(&unhurt, 0));
    assert_eq!(lost(&unhurt), 0);
    within_bound(&classes, &unhurt);
    let tc = unhurt["machine"]["tc"]["bridge"].to_string();
    assert!(tc.contains("mqprio") && tc.contains("vlan_prio 7 action skbedit priority 7"), "{tc}");
    assert!(unhurt["machine"]["qdiscs"].to_string().contains("ports-mqprio-bridge/eth3: mqprio"));
    // With less than the link carries fifo has a bound, too.
    let fifo = crowded(folder.path(), "ports-fifo", "root = \"fifo\"", "300Mbit/s", "");
    within_bound(&fifo, &run(&fifo).0);
}

#[test]
fn segments_of_tcp_are_single_frames_for_queues_and_wire() {
    if !has_kernel("TCP segments") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mqprio = format!("root = \"mqprio\", {MAP}, classes = 2");
    let path = crowded(folder.path(), "ports-tcp", &mqprio, "600Mbit/s", "");
    // One connection: iperf3 reads the clock all the time, and a reading takes 10 ns there.
    let text = fs::read_to_string(&path).unwrap().replacen("\"udp\"", "\"tcp\"", 1).replace("600Mbit/s", "100Mbit/s");
    fs::write(&path, text).unwrap();
    let out = folder.path().join("run");
    let (file, out_arg) = (path.to_str().unwrap(), out.to_str().unwrap());
    let output = downbeat(&["run", file, "--in", "kernel-lab", "--duration", "60ms", "--out", out_arg]);
    assert!(matches!(output.status.code(), Some(0)), "{}{}", stdout(&output), stderr(&output));
    let run = run_json(&out);
    assert!(
        run["machine"]["traffic"][0]["received_bit_s"].as_u64().unwrap() > 10_000_000,
        "{}",
        run["machine"]["traffic"]
    );
    within_bound(&path, &run);
}

#[test]
fn cbs_spaces_the_frames_of_a_class() {
    if !has_kernel("cbs") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let others = ["t", "u"]
        .map(|name| {
            format!(
                "[[streams]]\nname = \"{name}\"\nwriter = \"pub\"\nreader = \"loop\"\nvariables = 8\nvid = 3000\npcp = 7\n"
            )
        })
        .concat();
    // 122 bytes as Linux counts them, at 20 Mbit/s.
    let apart = 122 * 8 * 1000 / 20;
    for (name, shaper, shaped) in
        [("ports-cbs", "{ cbs = { idle_slope = \"20Mbit/s\" } }", true), ("ports-no-cbs", "{}", false)]
    {
        let queue = format!("root = \"mqprio\", {MAP}, classes = [{{}}, {shaper}]");
        let path = crowded(folder.path(), name, &queue, "300Mbit/s", &others);
        let (run, rows) = run(&path);
        let mut arrivals: Vec<i64> = rows.iter().filter_map(|row| row.t[2]).collect();
        arrivals.sort_unstable();
        let closest = arrivals.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap();
        // A frame that waits for the line meanwhile makes the distance to the next one shorter by a frame of best effort.
        assert_eq!(closest > apart - 13_000, shaped, "{name}: {closest} ns apart");
        assert_eq!(lost(&run), 0, "{name}");
        within_bound(&path, &run);
    }
}

/// CBS of the kernel forgets the rest of a byte each time it is looked at, at every end of a frame beside a busy class; where too
/// little is left there is no bound.
#[test]
fn cbs_of_the_kernel_falls_behind_a_small_idle_slope() {
    if !has_kernel("cbs with a small idle slope") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let found = |name: &str, slope: &str| {
        let queue = format!("root = \"mqprio\", {MAP}, classes = [{{}}, {{ cbs = {{ idle_slope = \"{slope}\" }} }}]");
        let path = crowded(folder.path(), name, &queue, "600Mbit/s", "");
        (run(&path).0, path)
    };
    let (behind, path) = found("ports-cbs-small", "110%");
    let told = downbeat(&["bound", path.to_str().unwrap(), "--json"]);
    let bound: Value = serde_json::from_slice(&told.stdout).unwrap();
    let why = bound["streams"][0]["one_way"]["unbounded"].as_str().expect("no bound");
    assert!(why.contains("is sure of less than"), "{why}");
    assert!(largest(&behind, 0) > 10 * CYCLE, "{} ns", largest(&behind, 0));
    let (enough, path) = found("ports-cbs-enough", "150%");
    within_bound(&path, &enough);
}

#[test]
fn taprio_lets_frames_out_in_their_windows_with_children_too() {
    if !has_kernel("taprio") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let arrived = WINDOW.start + FRAME_NS..WINDOW.start + FRAME_NS + READINGS_NS;
    for (name, classes) in
        [("ports-taprio", "2"), ("ports-taprio-cbs", "[{}, { cbs = { idle_slope = \"100Mbit/s\" } }]")]
    {
        // Launched 50 µs before its window opens.
        let path =
            direct(folder.path(), name, &format!("root = \"taprio\", {MAP}, classes = {classes}, {GATES}"), "450us");
        fs::write(&path, fs::read_to_string(&path).unwrap() + &traffic("pub", "300Mbit/s")).unwrap();
        let (run, rows) = run_by(&path, "ring");
        let found = phases(&rows, 0, 2);
        assert!(holds(arrived.clone(), found.clone()), "{name}: {found:?}, wanted {arrived:?}");
        assert_eq!(lost(&run), 0, "{name}");
        if classes == "2" {
            within_bound(&path, &run);
            within(&path, &run, "one_way_scheduled");
        }
        let carried = run["machine"]["traffic"][0]["payload_bytes_received"].as_u64().unwrap();
        assert!(carried > 1_000_000, "best effort has windows, too: {carried} B");
        // The link's time is on the wire, and the gates are issued again behind a child.
        let tc = run["machine"]["tc"]["pub"].as_array().unwrap();
        assert_eq!(tc.first() == tc.last() && tc.len() == 3, classes != "2", "{tc:?}");
    }
}

/// Two stations of best effort and a stream through the gates of a bridge, the stream in the middle of its window, and in front
/// of it.
#[test]
fn gates_of_a_bridge_keep_a_stream_within_what_the_phases_say() {
    if !has_kernel("taprio on a bridge") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, offset) in [("ports-gates-within", "600us"), ("ports-gates-before", "440us")] {
        let path =
            crowded(folder.path(), name, &format!("root = \"taprio\", {MAP}, classes = 2, {GATES}"), "200Mbit/s", "");
        let text = fs::read_to_string(&path).unwrap().replace("offset = \"600us\"", &format!("offset = \"{offset}\""));
        fs::write(&path, text).unwrap();
        let (run, _) = run_by(&path, "ring");
        assert_eq!(lost(&run), 0, "{name}");
        within_bound(&path, &run);
        within(&path, &run, "one_way_scheduled");
    }
}

#[test]
fn taprio_by_launch_times_drops_what_is_launched_outside_of_its_window() {
    if !has_kernel("txtime-assist") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let etf = "{ etf = { delta = \"100us\", skip_sock_check = true } }";
    let queue = format!(
        "root = \"taprio\", {MAP}, classes = [{etf}, {etf}], {GATES}, mode = \"txtime-assist\", txtime_delay = \"200us\""
    );
    let (inside, rows) = run(&direct(folder.path(), "ports-assist", &queue, "600us"));
    let left = 500_000..500_000 + READINGS_NS;
    assert!(holds(left, phases(&rows, 0, 1)), "{:?}", phases(&rows, 0, 1));
    assert_eq!(lost(&inside), 0);
    within_bound(&folder.path().join("ports-assist.toml"), &inside);
    let (outside, _) = run(&direct(folder.path(), "ports-assist-out", &queue, "450us"));
    let stream = &outside["streams"][0];
    assert!(stream["frames"].as_u64().unwrap() >= 299);
    assert!(stream["loss"]["launches"]["enobufs"].as_u64().unwrap() >= 299, "{}", stream["loss"]);
    // Without launch times of its own taprio gives it the window's: it leaves `delta` before the opening.
    let path = direct(folder.path(), "ports-assist-own", &queue, "600us");
    let text = fs::read_to_string(&path).unwrap().replace("pcp = 7\n", "pcp = 7\nlaunch = false\n");
    fs::write(&path, text).unwrap();
    let (given, rows) = run(&path);
    let left = 400_000..400_000 + READINGS_NS;
    assert!(holds(left, phases(&rows, 0, 1)), "{:?}", phases(&rows, 0, 1));
    assert_eq!(lost(&given), 0);
    within_bound(&path, &given);
}

#[test]
fn etf_sends_before_the_launch_time_and_says_what_it_lost() {
    if !has_kernel("etf") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let queue =
        |delta: &str| format!("root = \"mqprio\", {MAP}, classes = [{{}}, {{ etf = {{ delta = \"{delta}\" }} }}]");
    let path = direct(folder.path(), "ports-etf", &queue("100us"), "600us");
    let (early, rows) = run(&path);
    // T2 is the launch time less delta.
    let left = 500_000..500_000 + READINGS_NS;
    assert!(holds(left, phases(&rows, 0, 1)), "{:?}", phases(&rows, 0, 1));
    let arrived = 500_000 + FRAME_NS..500_000 + FRAME_NS + READINGS_NS;
    assert!(holds(arrived, phases(&rows, 0, 2)), "{:?}", phases(&rows, 0, 2));
    assert_eq!(lost(&early), 0);
    within_bound(&path, &early);
    let mechanism = early["streams"][0]["launch"]["mechanism"].as_str().unwrap();
    assert!(mechanism.contains("ETF without offload") && mechanism.contains("100us"), "{mechanism}");
    assert!(early["streams"][0]["loss"].get("launches").is_none());

    // With the line busy for most of the time, and a delta shorter than a frame, launch times pass while frames wait.
    let path = direct(folder.path(), "ports-etf-late", &queue("1us"), "600us");
    fs::write(&path, fs::read_to_string(&path).unwrap() + &traffic("pub", "900Mbit/s")).unwrap();
    let (late, _) = run(&path);
    within_bound(&path, &late);
    let loss = &late["streams"][0]["loss"];
    let missed = loss["launches"]["txtime_missed"].as_u64().unwrap_or(0);
    assert!(missed > 50, "{loss}");
    assert_eq!(loss["launches"]["invalid_param"], 0, "{loss}");
    assert_eq!(loss["dP"].as_u64().unwrap() + loss["dL"].as_u64().unwrap(), missed, "each is lost once: {loss}");
    let incidents = late["incidents"].to_string();
    assert!(incidents.contains("launch-lost"), "{incidents}");
}

#[test]
fn three_runs_through_gates_and_shapers_give_the_same_bytes() {
    if !has_kernel("three runs") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let queue =
        format!("root = \"taprio\", {MAP}, classes = [{{}}, {{ cbs = {{ idle_slope = \"100Mbit/s\" }} }}], {GATES}");
    let path = crowded(folder.path(), "ports-same", &queue, "300Mbit/s", "");
    let outs: Vec<_> = (1..=3).map(|number| folder.path().join(format!("run-{number}"))).collect();
    for out in &outs {
        let output = run_in_lab(&path, out, "auto");
        assert!(matches!(output.status.code(), Some(0)), "{}{}", stdout(&output), stderr(&output));
    }
    for file in ["frames.parquet", "run.json", "scenario.toml"] {
        let read = |folder: &Path| fs::read(folder.join(file)).unwrap();
        assert!(outs[1..].iter().all(|out| read(&outs[0]) == read(out)), "{file} differs");
    }
}

#[test]
fn what_only_network_cards_do_is_refused_in_words() {
    if !can_run("refusals") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let full = format!("root = \"taprio\", {MAP}, classes = 2, {GATES}, mode = \"full-offload\"");
    for (name, queue, word) in [
        ("ports-cbs-card", "root = \"cbs\", idle_slope = \"110%\", offload = true", "cbs with offload"),
        ("ports-etf-card", "root = \"etf\", delta = \"100us\", offload = true", "etf with offload"),
        ("ports-taprio-card", full.as_str(), "full offload"),
    ] {
        let path = direct(folder.path(), name, queue, "600us");
        let out = folder.path().join("out");
        let output = downbeat(&["run", path.to_str().unwrap(), "--cycles", "10", "--out", out.to_str().unwrap()]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{name}: {text}");
        assert!(text.contains(word) && text.contains("mend:"), "{name}: {text}");
        assert!(!out.exists(), "{name}: nothing is made");
    }
}

#[test]
fn a_discipline_that_this_kernel_lacks_is_named_and_what_was_made_is_gone() {
    if !can_run("a missing discipline") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = direct(folder.path(), "ports-here", &format!("root = \"mqprio\", {MAP}, classes = 2"), "600us");
    let out = folder.path().join("out");
    let output = downbeat(&["run", path.to_str().unwrap(), "--cycles", "20", "--out", out.to_str().unwrap()]);
    let text = stderr(&output);
    if output.status.code() == Some(3) {
        for word in ["mqprio", "modprobe sch_mqprio", "--in kernel-lab"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(!out.exists());
    } else {
        // This kernel has it.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}{text}", stdout(&output));
        assert!(run_json(&out)["machine"]["qdiscs"].to_string().contains("mqprio"));
    }
    assert!(crate::common::namespaces("ports-here").is_empty());
}
