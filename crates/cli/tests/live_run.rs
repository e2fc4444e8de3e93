//! Runs watched while they go on: metrics over HTTP, and the view on a terminal.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use common::exposition::Page;
use common::{DOWNBEAT, alone, can_run, children, downbeat, namespaces, run_json, signal, stderr, wait_for};

fn get(address: &str, path: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split_once("\r\n\r\n").map(|(head, body)| (head.to_owned(), body.to_owned()))
}

/// A run that serves metrics on a free port, and where.
fn served(scenario: &Path, out: &Path, duration: &str) -> (Child, BufReader<ChildStderr>, String) {
    let mut child = Command::new(DOWNBEAT)
        .args(["run", scenario.to_str().unwrap(), "--out", out.to_str().unwrap(), "--duration", duration])
        .args(["--metrics", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut words = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    words.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("metrics: http://").and_then(|rest| rest.strip_suffix("/metrics"));
    let address = address.unwrap_or_else(|| panic!("no address: {line}")).to_owned();
    (child, words, address)
}

#[test]
fn a_run_is_scraped_while_it_goes_on() {
    if !can_run("a_run_is_scraped") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "t-scrape");
    let out = folder.path().join("out");
    let (mut child, _words, address) = served(&scenario, &out, "4s");
    let mut pages: Vec<Page> = Vec::new();
    while let Some((head, body)) = get(&address, "/metrics") {
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("version=0.0.4"), "{head}");
        pages.push(Page::read(&body).unwrap());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(matches!(child.wait().unwrap().code(), Some(0 | 1)));
    let of = |page: &Page, name: &str, labels: &[(&str, &str)]| page.get(&format!("downbeat_{name}"), labels);
    for name in ["messages_published_total", "messages_answered_total", "trace_events_total", "run_elapsed_seconds"] {
        let counts: Vec<f64> = pages.iter().map(|page| of(page, name, &[("scenario", "t-scrape")]).unwrap()).collect();
        assert!(counts.windows(2).all(|pair| pair[0] <= pair[1]), "{name}: {counts:?}");
        assert!(counts.first() < counts.last(), "{name}: {counts:?}");
    }
    let run = run_json(&out);
    let stream = &run["streams"][0];
    let name = stream["name"].as_str().unwrap();
    let last = pages.last().unwrap();
    for (quantity, labels) in [("wire", "wire"), ("stack", "stack")] {
        let count = of(last, "round_trip_seconds_count", &[("stream", name), ("quantity", labels)]).unwrap();
        let whole = stream["round_trip"][quantity]["count"].as_f64().unwrap();
        assert!(count > 100.0 && count <= whole, "{quantity}: {count} of {whole}");
        // Two cycles of 1 ms and a little: as the median of the result says.
        let of_bound =
            |le| of(last, "round_trip_seconds_bucket", &[("stream", name), ("quantity", labels), ("le", le)]);
        assert!(of_bound("0.001").unwrap() < count / 2.0, "{quantity}");
    }
    assert!(of(last, "wakeup_lateness_seconds_count", &[("host", "loop"), ("phase", "publish")]).unwrap() > 100.0);
    assert!(of(last, "trace_fill_ratio", &[("host", "pub")]).unwrap() < 0.5);
    assert!(TcpStream::connect(&address).is_err(), "it ends with the run");
}

#[test]
fn others_than_scrapers_get_an_answer_and_do_no_harm() {
    if !can_run("others_than_scrapers") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "t-garbage");
    let out = folder.path().join("out");
    let (child, _words, address) = served(&scenario, &out, "30s");
    assert!(get(&address, "/").unwrap().0.starts_with("HTTP/1.1 404"));
    let idle: Vec<_> = (0..100).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for mut stream in &idle {
        _ = stream.write_all(b"\x16\x03\x01 no HTTP at all \r\n\r\n");
    }
    wait_for("the first frames", || {
        let page = get(&address, "/metrics").and_then(|(_, body)| Page::read(&body).ok());
        page.and_then(|page| page.get("downbeat_messages_published_total", &[])).unwrap_or(0.0) > 500.0
    });
    signal(child.id(), "TERM");
    let output = child.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)));
    let run = run_json(&out);
    assert!(run["streams"][0]["frames"].as_u64().unwrap() > 500);
    assert_eq!(run["machine"]["trace_records_lost"], 0);
    assert!(namespaces("t-garbage").is_empty());
}

#[test]
fn an_address_that_cannot_be_had_is_said_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "t-port");
    let out = folder.path().join("out");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let run = ["run", scenario.to_str().unwrap(), "--out", out.to_str().unwrap(), "--metrics"];
    let output = downbeat(&[&run[..], &[&address]].concat());
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains(&address) && stderr(&output).contains("mend:"), "{}", stderr(&output));
    let output = downbeat(&[&run[..], &["localhost"]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("127.0.0.1:9464"), "{}", stderr(&output));
    assert!(!out.exists());
}

#[test]
fn without_a_terminal_a_live_view_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "t-noterm");
    let output = downbeat(&["run", scenario.to_str().unwrap(), "--live"]);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.contains("no terminal") && text.contains("leave --live out"), "{text}");
}

/// A run with a live view on a terminal of its own, which `script` makes. What the terminal is set to after it is
/// told at the end.
struct OnTerminal {
    child: Child,
    shown: Option<std::thread::JoinHandle<String>>,
    seen: std::sync::Arc<std::sync::Mutex<Vec<u8>>>,
}

impl OnTerminal {
    fn start(folder: &Path, out: &Path, scenario: &Path, duration: &str) -> Self {
        let run = format!(
            "stty rows 30 columns 100; stty -a > {before}; {DOWNBEAT} run {scenario} --out {out} --live --duration \
             {duration}; echo \"exit=$?\"; stty -a > {after}",
            before = folder.join("before").display(),
            after = folder.join("after").display(),
            scenario = scenario.display(),
            out = out.display(),
        );
        let mut child = Command::new("script")
            .args(["-qec", &run, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let into = std::sync::Arc::clone(&seen);
        let shown = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut buffer) {
                into.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
            String::from_utf8_lossy(&into.lock().unwrap()).into_owned()
        });
        Self { child, shown: Some(shown), seen }
    }

    fn sees(&self, wanted: &str) -> bool {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).contains(wanted)
    }

    /// Until it is drawn, and there is something to keep. What is drawn later is drawn in pieces, where it differs.
    fn wait_for_figures(&self) {
        wait_for("the first picture", || self.sees("q end  p freeze"));
        std::thread::sleep(Duration::from_millis(1500));
    }

    fn press(&mut self, keys: &str) {
        self.child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// The process of the run: the child of the shell that `script` started.
    fn run_pid(&self) -> u32 {
        let found = |pid: u32| children(pid).into_iter().find(|&child| is_downbeat(child));
        let shells = children(self.child.id());
        shells.into_iter().find_map(|shell| if is_downbeat(shell) { Some(shell) } else { found(shell) }).unwrap()
    }

    /// Waits for the end; everything shown, once the terminal was looked at.
    fn end(mut self, folder: &Path) -> String {
        self.child.wait().unwrap();
        let shown = self.shown.take().unwrap().join().unwrap();
        let settings = |name| std::fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(settings("before"), settings("after"), "the terminal is set as before");
        let (last, first) = (shown.rfind("\u{1b}[?1049l"), shown.rfind("\u{1b}[?1049h"));
        assert!(first.is_some() && last > first, "the screen from before is back: {shown:?}");
        assert!(shown.rfind("\u{1b}[?25h") > shown.rfind("\u{1b}[?25l"), "the cursor is back");
        shown
    }
}

/// A test that fails leaves no run behind: without its terminal it ends.
impl Drop for OnTerminal {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn is_downbeat(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "downbeat")
}

fn can_script(test: &str) -> bool {
    let there = Command::new("script").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        assert!(std::env::var_os("DOWNBEAT_REQUIRE_ALL").is_none(), "{test} needs script(1)");
        eprintln!("skipped: {test} needs script(1)");
    }
    there && can_run(test)
}

fn files(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    // Without a requirement, so that the end is 0 however late this machine is.
    let text = common::scenario_text("two-hosts", name);
    let text: String = text.lines().filter(|line| !line.starts_with("requirement")).map(|l| format!("{l}\n")).collect();
    let path = folder.join(format!("{name}.toml"));
    std::fs::write(&path, text).unwrap();
    (path, folder.join("out"))
}

#[test]
fn q_ends_a_live_run_and_keeps_its_results() {
    if !can_script("q_ends_a_live_run") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (scenario, out) = files(folder.path(), "t-live");
    let mut terminal = OnTerminal::start(folder.path(), &out, &scenario, "60s");
    terminal.wait_for_figures();
    terminal.press("p");
    wait_for("the frozen picture", || terminal.sees("FROZEN"));
    terminal.press("\u{1b}[Bp");
    std::thread::sleep(Duration::from_millis(300));
    terminal.press("q");
    let shown = terminal.end(folder.path());
    assert!(shown.contains("exit=0"), "{shown:?}");
    let after = &shown[shown.rfind("\u{1b}[?1049l").unwrap()..];
    assert!(after.contains("stopped by the user") && after.contains("verdict: nothing was required"), "{after}");
    assert!(run_json(&out)["streams"][0]["frames"].as_u64().unwrap() > 100);
    assert!(namespaces("t-live").is_empty());
}

#[test]
fn ctrl_c_and_signals_give_the_terminal_back() {
    if !can_script("ctrl_c_and_signals") {
        return;
    }
    let _alone = alone();
    for how in ["ctrl-c", "TERM", "QUIT"] {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("t-{}", how.to_lowercase());
        let (scenario, out) = files(folder.path(), &name);
        let mut terminal = OnTerminal::start(folder.path(), &out, &scenario, "60s");
        terminal.wait_for_figures();
        match how {
            "ctrl-c" => terminal.press("\u{3}"),
            signal_name => signal(terminal.run_pid(), signal_name),
        }
        let shown = terminal.end(folder.path());
        assert!(shown.contains("exit=0") && shown.contains("stopped by the user"), "{how}: {shown:?}");
        assert!(run_json(&out)["streams"][0]["frames"].as_u64().unwrap() > 50, "{how}");
        assert!(namespaces(&name).is_empty());
    }
}

#[test]
fn a_live_run_that_cannot_be_written_gives_the_terminal_back_too() {
    if !can_script("a_live_run_that_cannot_be_written") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (scenario, _) = files(folder.path(), "t-nowrite");
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=16k", "tmpfs"]).arg(&disk).status().unwrap();
    assert!(mount.success());
    let terminal = OnTerminal::start(folder.path(), &disk.join("out"), &scenario, "2s");
    let shown = terminal.end(folder.path());
    assert!(Command::new("umount").arg(&disk).status().unwrap().success());
    assert!(shown.contains("exit=3"), "{shown:?}");
    let after = &shown[shown.rfind("\u{1b}[?1049l").unwrap()..];
    assert!(after.contains("could not be written"), "{after}");
}
