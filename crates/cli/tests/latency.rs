//! `downbeat latency`: what it measures, refuses, keeps and leaves behind, and what a simulation makes of it.

mod common;

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use common::{DOWNBEAT, alone, can_run, children, downbeat, run_json, signal, stderr, stdout, wait_for};
use measure::{Histogram, LatencyFigures, LatencyFile, Method, read_latency, write_latency};
use serde_json::Value;
use units::Nanos;

/// Runs the command with its own state folder, so that the host's stays as it is.
fn with_state(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(DOWNBEAT);
    command.args(arguments).env("XDG_STATE_HOME", folder).stdin(Stdio::null()).output().expect("the command starts")
}

/// The result that a command with `--json` printed.
fn json(output: &Output) -> LatencyFile {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

#[test]
fn bad_arguments_end_in_words() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["-i", "0"], &["interval", "microseconds"]),
        (&["-i", "2h"], &["interval"]),
        (&["-i", "fast"], &["fast", "--interval"]),
        (&["-D", "-5"], &["-5"]),
        (&["-D", "5parsecs"], &["5parsecs", "--duration"]),
        (&["-p", "0"], &["1..=99"]),
        (&["-p", "100"], &["1..=99"]),
        (&["-p", "80", "--policy", "other"], &["fifo and rr", "-p"]),
        (&["--policy", "deadline"], &["deadline", "batch"]),
        (&["-a", "9-1"], &["1-9"]),
        (&["-a", "8191"], &["no processor 8191"]),
        (&["-a", "x"], &["`x`"]),
        (&["-t", "100000"], &["1024"]),
        (&["-c", "realtime"], &["monotonic", "tai"]),
        (&["--load", "heavy"], &["heavy", "idle, cpu, memory, network, mixed"]),
        (&["--spin", "--hybrid"], &["--hybrid"]),
        (&["--limit", "5", "-b", "5"], &["--limit"]),
        (&["--histogram", "0"], &["--histogram"]),
        (&["--force"], &["--out"]),
        (&["-m", "--no-mlockall"], &["--no-mlockall"]),
    ];
    for (arguments, words) in cases {
        let output = downbeat(&[&["latency"][..], arguments].concat());
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        for word in *words {
            assert!(text.contains(word), "{arguments:?}: no `{word}` in {text}");
        }
        assert!(!text.contains("panicked") && output.stdout.is_empty(), "{text}");
    }
}

#[test]
fn counts_fit_each_other_and_nothing_is_allocated() {
    let _alone = alone();
    for (way, method) in [(&[][..], Method::Sleep), (&["--hybrid", "50"], Method::Hybrid), (&["--spin"], Method::Spin)]
    {
        let arguments = ["latency", "--json", "-t", "2", "-a", "0", "-i", "500", "-d", "250", "-l", "300"];
        let output = downbeat(&[&arguments[..], way].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let result = json(&output);
        assert_eq!((result.method, result.ended.as_str(), result.threads.len()), (method, "loops", 2));
        assert_eq!(result.threads.iter().map(|thread| thread.interval_ns).collect::<Vec<_>>(), [500_000, 750_000]);
        for thread in &result.threads {
            let dist = thread.figures.distribution.as_ref().unwrap();
            assert_eq!((dist.count, thread.cpu, thread.allocations), (300, 0, 0));
            assert!(0 <= dist.min && dist.min <= dist.p50 && dist.p50 <= dist.p99_99 && dist.p99_99 <= dist.max);
            let counted: u64 = thread.figures.histogram.iter().map(|(_, count)| count).sum();
            assert_eq!(counted, 300);
            assert!(thread.outliers >= thread.first_outliers.len() as u64);
            assert!(thread.first_outliers.iter().all(|outlier| outlier.late_ns > thread.outlier_above_ns));
            assert!(!thread.granted.is_empty());
        }
        let all = result.all.distribution.as_ref().unwrap();
        let each = |figure: fn(&measure::Dist) -> i64| {
            result.threads.iter().filter_map(move |thread| thread.figures.distribution.as_ref().map(figure))
        };
        assert_eq!((all.count, Some(all.max), Some(all.min)), (600, each(|d| d.max).max(), each(|d| d.min).min()));
        assert!(result.all.to_histogram().is_ok());
        assert_eq!(result.all.stolen_ns.is_some(), method == Method::Spin);
        assert_eq!(result.suggested_etf_delta_ns.is_some_and(|delta| delta > all.max), method == Method::Sleep);
        assert!(result.lasted_ns >= 299 * 500_000);
        assert!(result.machine.contains_key("kernel") && result.machine.contains_key("granted"));
        assert!(result.command.starts_with("downbeat latency --json"));
    }
}

#[test]
fn a_duration_is_kept_and_the_output_fits_a_terminal() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let output = with_state(folder.path(), &["latency", "-D", "1", "--spike", "0"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for word in ["p99.99", "µs", "suggested delta for ETF", "above 0", "stored in", "█"] {
        assert!(text.contains(word), "no `{word}` in {text}");
    }
    let lines = text.lines().filter(|line| !line.starts_with("stored in"));
    lines.for_each(|line| assert!(line.chars().count() <= 80, "{line}"));
    let result = read_latency(&folder.path().join("downbeat/latency.json")).unwrap();
    for thread in &result.threads {
        let instants = thread.figures.distribution.as_ref().unwrap().count + thread.figures.missed;
        assert_eq!(instants, 1_000, "every instant of 1 ms in a second has a wake-up or was missed");
        assert_eq!(thread.first_outliers.len(), 20);
    }
    assert_eq!(result.ended, "duration");
    let again = with_state(folder.path(), &["latency", "-l", "20", "-q", "--histogram", "200"]);
    let text = stdout(&again);
    assert!(text.contains("in place of the one before"), "{text}");
    let total = text.lines().find_map(|line| line.strip_prefix("# Total: ")).expect("as cyclictest -h prints it");
    assert!(total.split_whitespace().all(|count| count == "000000020"), "{total}");
    // What a spinning thread sees is not how late a sleeping one is: the stored one stays.
    for way in ["--spin", "--hybrid"] {
        let output = with_state(folder.path(), &["latency", "-l", "20", "-q", way]);
        assert!(output.status.success() && !stdout(&output).contains("stored in"));
    }
    assert_eq!(read_latency(&folder.path().join("downbeat/latency.json")).unwrap().method, Method::Sleep);
}

#[test]
fn limits_set_the_exit_code_and_files_are_not_replaced_unasked() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latency.json");
    let out = path.to_str().unwrap();
    let run = |more: &[&str]| downbeat(&[&["latency", "-q", "-t", "1", "--out", out][..], more].concat());
    assert_eq!(run(&["-l", "50", "--limit", "1min"]).status.code(), Some(0));
    assert_eq!(read_latency(&path).unwrap().limit_ns, Some(60_000_000_000));
    let refused = run(&["-l", "50"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("latency.json exists") && stderr(&refused).contains("--force"));
    let late = run(&["-l", "50", "--limit", "0", "--force"]);
    assert_eq!(late.status.code(), Some(1), "nothing wakes up in no time");
    assert!(stderr(&late).contains("above the limit"));
    assert_eq!(read_latency(&path).unwrap().ended, "loops");
    let broken = run(&["-b", "0", "--force"]);
    assert_eq!(broken.status.code(), Some(1));
    let result = read_latency(&path).unwrap();
    assert_eq!((result.ended.as_str(), result.all.distribution.unwrap().count), ("break", 1));
}

#[test]
fn without_rights_it_measures_all_the_same_and_says_so() {
    let _alone = alone();
    // No capability and no allowance for real-time priorities; who is not root has none to give up.
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.starts_with(b"0"));
    let without_rights = |arguments: &[&str]| {
        let mut command = Command::new("prlimit");
        command.args(["--rtprio=0:0", "--memlock=65536:65536"]);
        if root {
            command.args(["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"]);
        }
        command.arg(DOWNBEAT).args(["latency", "-l", "50", "-t", "1"]).args(arguments).stdin(Stdio::null());
        command.output().expect("util-linux has prlimit and setpriv")
    };
    let output = without_rights(&["--json"]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("SCHED_FIFO 80: not allowed"), "{text}");
    let result = json(&output);
    assert!(
        result.threads[0].granted.iter().any(|line| line.contains("not allowed")),
        "{:?}",
        result.threads[0].granted
    );
    assert_eq!(result.all.distribution.unwrap().count, 50);
    let strict = without_rights(&["--strict", "--load", "cpu", "--json"]);
    assert_eq!(strict.status.code(), Some(3));
    assert!(stderr(&strict).contains("SCHED_FIFO 80: not allowed") && strict.stdout.is_empty());
}

/// Starts a latency test under a load that would last a minute.
fn start(load: &str) -> Child {
    Command::new(DOWNBEAT)
        .args(["latency", "--json", "-D", "60", "-t", "1", "--load", load])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The network namespace of a process.
fn network_of(pid: u32) -> Option<std::path::PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

/// All processes there are.
fn processes() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Waits until a load is steady and measured; gives its process and network namespace.
fn under_way(child: &Child) -> (u32, std::path::PathBuf) {
    wait_for("the load's process", || children(child.id()).len() == 1);
    let load = children(child.id())[0];
    let threads = || std::fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten().flatten();
    let measures = |name: String| name.starts_with("latency-");
    wait_for("the measuring thread", || {
        threads().any(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(measures))
    });
    std::thread::sleep(Duration::from_millis(300));
    (load, network_of(load).expect("the load is running"))
}

fn nothing_is_left(load: u32, network: &Path) {
    wait_for("the load to end", || rt::process::start_time(load).is_none());
    let own = network_of(std::process::id()).unwrap();
    if network != own {
        let inside = || processes().into_iter().filter(|&pid| network_of(pid).is_some_and(|other| other == network));
        wait_for("the load's namespace to empty", || inside().next().is_none());
    }
    assert!(!Path::new("/sys/class/net/load0").exists() && !Path::new("/sys/class/net/load1").exists());
}

#[test]
fn loads_work_and_leave_nothing_when_interrupted() {
    let _alone = alone();
    for (load, work) in
        [("cpu", "computation steps"), ("memory", "bytes copied"), ("network", "UDP datagrams"), ("mixed", "HTTP")]
    {
        let child = start(load);
        let (pid, network) = under_way(&child);
        if matches!(load, "network" | "mixed") && can_run("loads in network namespaces") {
            assert_ne!(Some(&network), network_of(child.id()).as_ref(), "{load} has a network of its own");
        }
        signal(child.id(), "INT");
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{load}: {}", stderr(&output));
        assert!(stderr(&output).contains("stopped by the user"));
        nothing_is_left(pid, &network);
        let result = json(&output);
        assert_eq!(result.ended, "interrupted");
        let report = result.load.unwrap();
        assert_eq!(report.profile, load);
        assert!(report.work.iter().any(|done| done.what.contains(work) && done.count > 0), "{report:?}");
        assert!(report.busy_percent.values().any(|busy| *busy > 5.0), "{report:?}");
    }
}

#[test]
fn a_load_ends_with_whoever_started_it() {
    let _alone = alone();
    for load in ["cpu", "network"] {
        let mut child = start(load);
        let (pid, network) = under_way(&child);
        signal(child.id(), "KILL");
        child.wait().unwrap();
        nothing_is_left(pid, &network);
    }
    // Interrupted while the load settles: nothing was measured, and that is said.
    let child = start("memory");
    wait_for("the load's process", || children(child.id()).len() == 1);
    let pid = children(child.id())[0];
    let network = network_of(pid).unwrap();
    signal(child.id(), "TERM");
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty());
    nothing_is_left(pid, &network);
}

#[test]
fn idle_and_no_load_are_told_apart() {
    let _alone = alone();
    let idle = json(&downbeat(&["latency", "--json", "-l", "20", "-t", "1", "--load", "idle"]));
    let report = idle.load.unwrap();
    assert!(report.profile == "idle" && report.work.is_empty() && !report.busy_percent.is_empty());
    assert!(json(&downbeat(&["latency", "--json", "-l", "20", "-t", "1"])).load.is_none());
}

/// The earliest that any phase of a host began behind its instant, and the whole result.
fn lateness(run: &Output, host: &str) -> (i64, String) {
    assert!(matches!(run.status.code(), Some(0 | 1)), "{}", stderr(run));
    let value: Value = serde_json::from_slice(&run.stdout).unwrap();
    let hosts = value["hosts"].as_array().unwrap();
    let of_host = hosts.iter().filter(|entry| entry["host"] == host && entry["phase"] != "launch");
    (of_host.map(|entry| entry["late"]["min"].as_i64().unwrap()).min().unwrap(), stdout(run))
}

#[test]
fn a_simulation_takes_hosts_as_they_were_measured() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "t-latency");
    let simulate = |more: &[&str]| {
        let arguments = ["simulate", scenario.to_str().unwrap(), "--cycles", "200", "--json", "--seed", "7"];
        with_state(folder.path(), &[&arguments[..], more].concat())
    };
    let none = simulate(&["--host-latency", "measured"]);
    // Another result may be stored for the whole machine.
    if !Path::new("/var/lib/downbeat/latency.json").exists() {
        assert_eq!(none.status.code(), Some(2));
        assert!(stderr(&none).contains("sudo downbeat latency"), "{}", stderr(&none));
    }
    assert!(with_state(folder.path(), &["latency", "-l", "300", "-q"]).status.success());
    let stored = folder.path().join("downbeat/latency.json");
    let measured = simulate(&["--host-latency", "measured"]);
    assert!(stderr(&measured).contains("downbeat/latency.json"));
    let by_name = simulate(&["--host-latency", stored.to_str().unwrap()]);
    assert_eq!(lateness(&measured, "pub").0, lateness(&by_name, "pub").0);
    assert_eq!(by_name.stdout, simulate(&["--host-latency", stored.to_str().unwrap()]).stdout, "one seed, one result");

    // The same file with other figures: later wake-ups, later phases.
    let with_latency = |name: &str, us: i64| {
        let mut file = read_latency(&stored).unwrap();
        let mut histogram = Histogram::new();
        (0..1_000).for_each(|step| histogram.record(Nanos(us * 1_000 + step * 5)));
        file.all = LatencyFigures::of(&histogram, 0, None);
        let path = folder.path().join(name);
        write_latency(&path, &file).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (quick, slow) = (with_latency("quick.json", 2), with_latency("slow.json", 40));
    for host in ["pub", "loop"] {
        let (quick, slow) = (simulate(&["--host-latency", &quick]), simulate(&["--host-latency", &slow]));
        assert!((2_000..7_000).contains(&lateness(&quick, host).0));
        assert!((40_000..45_000).contains(&lateness(&slow, host).0));
    }
    let one = simulate(&["--host-latency", &quick, "--host-latency", &format!("loop={slow}")]);
    assert!(lateness(&one, "pub").0 < 7_000 && lateness(&one, "loop").0 >= 40_000);
    assert!(lateness(&one, "pub").1.contains("loop: measured (1000 wake-ups"));

    let mut file = read_latency(&stored).unwrap();
    file.method = Method::Spin;
    write_latency(&stored, &file).unwrap();
    assert!(stderr(&simulate(&["--host-latency", "measured"])).contains("a thread that spins is less late"));
}

#[test]
fn files_that_are_none_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "t-latency-bad");
    let broken = folder.path().join("broken.json");
    std::fs::write(&broken, "{\"format\": \"downbeat/run/1\"}").unwrap();
    let broken = broken.to_str().unwrap();
    for (latency, words) in [
        (broken, &["broken.json", "downbeat/latency/1"][..]),
        ("no-such.json", &["no-such.json", "downbeat latency --out"]),
        ("const:5", &["needs a unit"]),
        ("sometimes", &["sometimes", "const:5us", "downbeat latency"]),
        ("lop=zero", &["no host lop", "loop"]),
    ] {
        let output = downbeat(&["simulate", scenario.to_str().unwrap(), "--cycles", "5", "--host-latency", latency]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{latency}: {text}");
        words.iter().for_each(|word| assert!(text.contains(word), "{latency}: no `{word}` in {text}"));
    }
}

#[test]
fn a_run_under_load_says_what_the_load_reached() {
    if !can_run("a_run_under_load") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "t-loaded");
    for load in ["cpu", "network"] {
        let out = folder.path().join(load);
        let arguments = ["run", scenario.to_str().unwrap(), "--duration", "2s", "--load", load, "--out"];
        let output = downbeat(&[&arguments[..], &[out.to_str().unwrap()]].concat());
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
        assert!(stdout(&output).contains(&format!("load {load}: busy over")), "{}", stdout(&output));
        let run = run_json(&out);
        assert_eq!(run["machine"]["load"]["profile"], load);
        assert!(run["machine"]["load"]["work"][0]["count"].as_u64().unwrap() > 0);
        assert!(run["streams"][0]["frames"].as_u64().unwrap() > 500);
    }
    let without = folder.path().join("without");
    let arguments = ["run", scenario.to_str().unwrap(), "--duration", "1s", "--out", without.to_str().unwrap()];
    assert!(matches!(downbeat(&arguments).status.code(), Some(0 | 1)));
    assert!(run_json(&without)["machine"].get("load").is_none());
    assert_eq!(downbeat(&[&arguments[..], &["--load", "heavy"]].concat()).status.code(), Some(2));
    assert!(common::namespaces("t-loaded").is_empty());
}

#[test]
fn help_and_completions_know_the_command() {
    assert!(stdout(&downbeat(&["--help"])).contains("latency"));
    assert!(stdout(&downbeat(&["completions", "bash"])).contains("--histogram"));
}
