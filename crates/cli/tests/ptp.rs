//! `downbeat ptp`: two ptp4l over a veth of the machine's, which steer nothing; in the laboratory's kernel, whose clock is
//! its own, a slave that locks; and what is refused. Nothing here asserts how well a clock was kept.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use common::{DOWNBEAT, can_run, children, downbeat, signal, stderr, stdout, wait_for};
use kernel_lab::{Kernel, Script};
use measure::{PtpFile, read_ptp};
use parquet::file::reader::{FileReader, SerializedFileReader};

const SCENARIO: &str = r#"
name = "clocks"
time = { cycle = "1ms", offset = "100us" }
hosts = { pub = { clock = "grandmaster", interface = "va", machine = { driver = "igb" } }, loop = { clock = "slave", interface = "vb", machine = { driver = "veth" } } }
links = [{ between = ["pub", "loop"] }]
streams = [{ name = "s", writer = "pub", reader = "loop", variables = 3, vid = 8, pcp = 3 }]
"#;

fn has_linuxptp(test: &str) -> bool {
    let able = ["/usr/sbin/ptp4l", "/usr/sbin/phc2sys"].iter().all(|path| Path::new(path).exists());
    if !able {
        assert!(std::env::var_os("DOWNBEAT_REQUIRE_ALL").is_none(), "{test} needs linuxptp (apt-get install linuxptp)");
        eprintln!("skipped: {test} needs linuxptp");
    }
    able
}

fn scenario(folder: &Path) -> PathBuf {
    let path = folder.join("clocks.toml");
    fs::write(&path, SCENARIO).unwrap();
    path
}

/// Two namespaces with a veth between them; they go with it.
struct Namespaces([String; 2]);

impl Namespaces {
    fn new(test: &str) -> Self {
        let names = ["a", "b"].map(|end| format!("dbt-ptp-{test}-{}-{end}", std::process::id()));
        let made = Self(names);
        for name in &made.0 {
            made.ip(&["netns", "add", name]);
        }
        let [a, b] = [&made.0[0], &made.0[1]];
        made.ip(&["link", "add", "va", "netns", a, "type", "veth", "peer", "name", "vb", "netns", b]);
        made.ip(&["-n", a, "link", "set", "va", "up"]);
        made.ip(&["-n", b, "link", "set", "vb", "up"]);
        made
    }

    fn ip(&self, arguments: &[&str]) {
        assert!(Command::new("ip").args(arguments).status().unwrap().success(), "ip {arguments:?}");
    }

    /// `ip netns exec` becomes the command: its process is the command's.
    fn start(&self, end: usize, arguments: &[&str]) -> Child {
        Command::new("ip")
            .args(["netns", "exec", &self.0[end], DOWNBEAT])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.0 {
            _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

fn wait(child: Child) -> Output {
    child.wait_with_output().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn socket(out: &Path) -> Option<String> {
    let configuration = fs::read_to_string(out.join("ptp4l.conf")).ok()?;
    let line = configuration.lines().find(|line| line.starts_with("uds_address"))?;
    line.split_whitespace().nth(1).map(str::to_owned)
}

fn samples(out: &Path, file: &PtpFile) -> usize {
    let rows = |name: &String| {
        let reader = SerializedFileReader::new(fs::File::open(out.join(name)).unwrap()).unwrap();
        reader.get_row_iter(None).unwrap().count()
    };
    file.rows.files.iter().map(rows).sum()
}

fn refused(output: &Output, code: i32, words: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{text}{}", stdout(output));
    for word in words {
        assert!(text.contains(word), "no `{word}` in {text}");
    }
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn what_cannot_be_watched_is_refused_in_words_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (scenario(folder.path()), folder.path().join("out"));
    let ptp = |arguments: &[&str]| downbeat(&[&["ptp"][..], arguments].concat());
    let nowhere = folder.path().join("no-socket");
    refused(&ptp(&["watch", "--uds", text(&nowhere), "--out", text(&out)]), 3, &["no ptp4l", "--uds", "mend"]);
    refused(&ptp(&["run", text(&file), "--host", "nobody"]), 2, &["no host nobody", "pub, loop"]);
    refused(
        &ptp(&["run", text(&file), "--host", "pub", "--out", text(&out)]),
        3,
        &["interface va", "there are lo", "mend"],
    );
    refused(&ptp(&["report", text(folder.path())]), 2, &["holds no ptp.json", "mend"]);
    refused(&ptp(&["watch", "--poll", "1ns"]), 2, &["5ms to 10s"]);
    refused(&ptp(&["watch", "--domain", "300"]), 2, &["300"]);
    refused(&ptp(&["watch", "--log", text(&nowhere)]), 2, &["no-socket"]);
    let silent = fs::read_to_string(&file).unwrap().replace("clock = \"grandmaster\", ", "");
    fs::write(&file, silent.replace("clock = \"slave\", ", "")).unwrap();
    refused(&ptp(&["run", text(&file), "--host", "pub"]), 2, &["synchronises no clock", "grandmaster"]);
    assert!(!out.exists(), "a refusal made a folder");

    // Somebody else's file under the name: another format is no result.
    fs::create_dir(&out).unwrap();
    fs::write(out.join("ptp.json"), "{\"format\": \"downbeat/run/1\"}").unwrap();
    refused(&ptp(&["report", text(&out)]), 2, &["downbeat/ptp/1"]);
    refused(&ptp(&["watch", "--out", text(&out)]), 2, &["holds a result already"]);
}

#[test]
fn two_ptp4l_over_a_veth_are_watched_and_end_with_us() {
    let test = "two ptp4l over a veth";
    if !can_run(test) || !has_linuxptp(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, net) = (scenario(folder.path()), Namespaces::new("two"));
    let outs = ["master", "slave", "watch", "page"].map(|name| folder.path().join(name));
    let run = |end: usize, host: &str| {
        let arguments = [
            "ptp",
            "run",
            text(&file),
            "--host",
            host,
            "--free-running",
            "--out",
            text(&outs[end]),
            "--duration",
            "5min",
        ];
        net.start(end, &arguments)
    };
    let (master, slave) = (run(0, "pub"), run(1, "loop"));
    let ids = [master.id(), slave.id()];
    wait_for("both ptp4l", || {
        ids.iter().all(|id| children(*id).len() == 1) && outs[..2].iter().all(|out| socket(out).is_some())
    });
    let of_theirs: Vec<u32> = ids.iter().flat_map(|id| children(*id)).collect();

    // The interface is taken.
    let rival =
        downbeat_in(&net, 0, &["ptp", "run", text(&file), "--host", "pub", "--free-running", "--out", text(&outs[2])]);
    refused(&rival, 3, &["another ptp4l", "va", "mend"]);

    // Somebody else may watch the same: until it has seen the slave follow, then for two seconds.
    let uds = socket(&outs[1]).unwrap();
    wait_for("ptp4l's socket", || Path::new(&uds).exists());
    refused(
        &downbeat(&["ptp", "watch", "--uds", &uds, "--domain", "7", "--out", text(&outs[3])]),
        3,
        &["domain 7", "--domain"],
    );
    assert!(!outs[3].exists());
    let mut watched = None;
    for _ in 0..20 {
        _ = fs::remove_dir_all(&outs[2]);
        let output = downbeat(&["ptp", "watch", "--uds", &uds, "--out", text(&outs[2]), "--duration", "2s"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let file = read_ptp(&outs[2]).unwrap();
        let enough = file.offset_all.as_ref().is_some_and(|figures| figures.count >= 8);
        watched = Some(file);
        if enough {
            break;
        }
    }
    let watched = watched.unwrap();
    assert!(watched.offset_all.is_some(), "the slave never followed: {:?}", watched.events);
    assert_eq!((watched.stamps.as_str(), watched.free_running), ("software", None));
    assert_eq!(watched.convergence.from, "watching began");

    // Ctrl-C, as a terminal sends it to the command.
    ids.iter().for_each(|id| signal(*id, "INT"));
    for child in [master, slave] {
        let output = wait(child);
        assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
        assert!(stdout(&output).contains("ended by interrupted"), "{}", stdout(&output));
    }
    for id in of_theirs {
        let state = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "process {id} is left: {state}");
    }

    let [master, slave] = [&outs[0], &outs[1]].map(|out| read_ptp(out).unwrap());
    assert_eq!(master.ports[0].state, "MASTER");
    assert_eq!(
        (master.grandmaster.as_ref(), slave.grandmaster.as_ref()),
        (master.clock.as_ref(), master.clock.as_ref())
    );
    assert!(master.offset_all.is_none() && master.clock.is_some());
    assert!(master.notes.iter().any(|note| note.contains("no hardware stamps")), "{:?}", master.notes);
    let all = slave.offset_all.as_ref().unwrap();
    assert!(all.count >= 8 && all.classes.iter().map(|class| class.1).sum::<u64>() == all.count);
    assert_eq!(slave.offset_rms8.as_ref().unwrap().count, all.count / 8);
    assert_eq!(slave.rows.count, all.count);
    assert_eq!(samples(&outs[1], &slave) as u64, all.count);
    assert!(slave.path_delay.is_some() && slave.offset.is_none(), "what steers nothing does not lock");
    assert_eq!(slave.ports[0].interface.as_deref(), Some("vb"));
    assert_eq!((slave.stamps.as_str(), slave.free_running), ("software", Some(true)));
    assert!(slave.clock_error.is_none() && slave.clock_error_unknown.as_ref().unwrap().contains("free_running"));
    assert!(slave.convergence.best_master_ns.is_some() && slave.convergence.servo_lock_ns.is_none());
    let has = |kind: &str| slave.events.iter().any(|event| event.kind == kind);
    assert!(has("port_state") && has("grandmaster"), "{:?}", slave.events);

    // What is unknown is above any limit.
    let output = downbeat(&["ptp", "report", text(&outs[0]), text(&outs[1]), "--out", text(&outs[3]), "--limit", "1s"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let page = fs::read_to_string(&outs[3]).unwrap();
    for word in [
        "Offset over time",
        "Path delay over time",
        "classes of 10 ns",
        "No clock error can be stated",
        "software stamps",
    ] {
        assert!(page.contains(word), "no `{word}` on the page");
    }
}

fn downbeat_in(net: &Namespaces, end: usize, arguments: &[&str]) -> Output {
    wait(net.start(end, arguments))
}

#[test]
fn ptp4l_ends_when_we_are_killed_and_its_own_end_is_told() {
    let test = "ptp4l that ends";
    if !can_run(test) || !has_linuxptp(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, net) = (scenario(folder.path()), Namespaces::new("end"));
    let start = |name: &str| {
        let out = folder.path().join(name);
        let arguments = ["ptp", "run", text(&file), "--host", "pub", "--free-running", "--out", text(&out)];
        let mut child = net.start(0, &arguments);
        wait_for("ptp4l", || children(child.id()).len() == 1 && socket(&out).is_some());
        wait_for("ptp4l itself", || {
            let name = children(child.id())
                .first()
                .map(|id| fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default());
            name.is_some_and(|name| name.trim() == "ptp4l") || child.try_wait().unwrap().is_some()
        });
        let id = children(child.id())[0];
        (child, id, out)
    };
    let gone = |id: u32| {
        let state = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        state.is_empty() || state.contains(") Z ")
    };
    let (mut child, id, _) = start("killed");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("its end", || gone(id));

    let (child, id, out) = start("ended");
    signal(id, "KILL");
    let output = wait(child);
    refused(&output, 3, &["ptp4l ended by signal 9", "mend"]);
    assert!(read_ptp(&out).unwrap().ended.contains("signal 9"), "the result is kept");
}

#[test]
fn a_program_that_fails_is_told_in_its_own_words() {
    let test = "a ptp4l that fails";
    if !can_run(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, net, out) = (scenario(folder.path()), Namespaces::new("words"), folder.path().join("out"));
    // Stands first on PATH, says what no list of faults knows, and ends.
    let program = folder.path().join("ptp4l");
    fs::write(&program, "#!/bin/sh\necho 'the moon is in the way' >&2\nexit 7\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let output = Command::new("ip")
        .args(["netns", "exec", &net.0[0], DOWNBEAT, "ptp", "run", text(&file), "--host", "pub", "--free-running"])
        .args(["--duration", "20s", "--out", text(&out)])
        .env("PATH", path)
        .output()
        .unwrap();
    refused(&output, 3, &["ptp4l ended with code 7", "mend"]);
    assert!(stdout(&output).contains("the moon is in the way"), "{}", stdout(&output));
    assert!(!stdout(&output).contains("rms"), "a table of nothing: {}", stdout(&output));
    let faults: Vec<_> = read_ptp(&out).unwrap().events.into_iter().filter(|event| event.kind == "fault").collect();
    assert_eq!(faults.len(), 1, "{faults:?}");
}

#[test]
fn a_slave_locks_in_the_laboratory() {
    let test = "a slave that locks";
    if !has_linuxptp(test) {
        return;
    }
    let kernel = match Kernel::find() {
        Ok(kernel) => kernel,
        Err(error) => {
            let set = |name| std::env::var_os(name).is_some();
            assert!(!set("DOWNBEAT_REQUIRE_ALL") || set("DOWNBEAT_WITHOUT_KERNEL_LAB"), "{test}: {error}");
            eprintln!("skipped: {test} needs the kernel laboratory (make kernel-lab)");
            return;
        }
    };
    // Both namespaces share the laboratory's clock, which is nobody else's: here it may be steered. Software stamps: neither
    // veth nor netdevsim has others. netdevsim's mock clock serves phc2sys.
    let script = r#"
        set -e
        mkdir -p /run/netns /var/run
        ip netns add A; ip netns add B
        ip link add va netns A type veth peer name vb netns B
        ip -n A link set va up; ip -n B link set vb up
        echo "1 1" > /sys/bus/netdevsim/new_device
        ip netns exec A ./downbeat ptp run clocks.toml --host pub --free-running --duration 80s --out master >/dev/null &
        ip netns exec B ./downbeat ptp run clocks.toml --host loop --duration 70s --out slave >slave.log &
        run=$!
        sleep 2
        uds=$(sed -n 's/^uds_address *//p' slave/ptp4l.conf)
        sleep 20
        (sleep 2; exec phc2sys -c /dev/ptp0 -s CLOCK_REALTIME -O 0 -m) | ./downbeat ptp watch --uds $uds --log - --duration 30s --out watch > watch.log
        wait $run
        # A clock alone makes no stamps: netdevsim has a mock one, and stamps nothing that it sends.
        mock=$(ls /sys/bus/netdevsim/devices/netdevsim1/net)
        sed "s/\"va\"/\"$mock\"/" clocks.toml > mock.toml
        if ./downbeat ptp run mock.toml --host pub --out mock 2> mock.log; then echo "$mock was taken" >&2; exit 9; fi
        grep -q 'stamps no frames' mock.log || { cat mock.log >&2; exit 9; }
        test ! -e mock || { echo 'a refusal made a folder' >&2; exit 9; }
        ./downbeat ptp report slave watch >&2
        cat slave/ptp.json; echo; echo ====; cat watch/ptp.json
    "#;
    let script = Script::new(script)
        .file("clocks.toml", SCENARIO)
        .program("downbeat", DOWNBEAT)
        .memory_mib(768)
        .limit(Duration::from_secs(300));
    let ended = script.run(&kernel).unwrap();
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    let (slave, watch) = ended.stdout.split_once("====").unwrap();
    let [slave, watch]: [PtpFile; 2] = [slave, watch].map(|text| serde_json::from_str(text).unwrap());

    assert_eq!((slave.ports[0].state.as_str(), slave.free_running), ("SLAVE", Some(false)));
    let convergence = &slave.convergence;
    assert!(convergence.best_master_ns.is_some_and(|ns| ns > 0) && convergence.servo_lock_ns.is_some_and(|ns| ns > 0));
    let (all, kept) = (slave.offset_all.as_ref().unwrap(), slave.offset.as_ref().unwrap());
    assert!(kept.count >= 8 && all.count > kept.count, "{} of {}", kept.count, all.count);
    let error = slave.clock_error.as_ref().unwrap();
    assert_eq!((error.samples, error.offset_ns, error.stamps.as_str()), (kept.count, kept.max_abs(), "software"));
    assert!(slave.events.iter().any(|event| event.kind == "locked"), "{:?}", slave.events);

    let mock = watch.system.iter().find(|system| system.clock == "/dev/ptp0").expect("the mock clock");
    let offset = mock.offset.as_ref().unwrap();
    // It begins at its kernel's start and is set to the system's.
    assert!(offset.count >= 5, "{offset:?}");
    assert!(
        watch.events.iter().any(|event| event.kind == "step" && event.text.contains("/dev/ptp0")),
        "{:?}",
        watch.events
    );
    assert!(ended.stderr.contains("apart by at most") || ended.stderr.contains("no clock error"), "{}", ended.stderr);
}
