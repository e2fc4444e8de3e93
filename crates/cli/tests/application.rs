//! Applications of somebody's own at the ends of a run: the examples in Python and C, killed and started again.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::bench::Bench;
use common::{alone, can_run, downbeat, run_json, start, stderr, wait_for};
use rt::image::{Image, Life, Presence, Reader, Writer};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/application")
}

/// The command of the example in Python; none where Python or libatomic is missing and nobody demands them.
fn python() -> Option<Vec<String>> {
    let look = "import ctypes; ctypes.CDLL('libatomic.so.1')";
    let found = Command::new("python3").args(["-c", look]).output().is_ok_and(|output| output.status.success());
    demanded(found, "python3 with libatomic")?;
    Some(vec!["python3".into(), "-B".into(), examples().join("echo.py").display().to_string()])
}

/// The same for the example in C.
fn c(folder: &Path) -> Option<Vec<String>> {
    let program = folder.join("echo");
    let mut build = Command::new("cc");
    let built = build.args(["-O2", "-std=c11", "-o"]).arg(&program).arg(examples().join("echo.c")).output();
    demanded(built.is_ok_and(|output| output.status.success()), "cc")?;
    Some(vec![program.display().to_string()])
}

fn demanded(found: bool, what: &str) -> Option<()> {
    assert!(found || std::env::var_os("DOWNBEAT_REQUIRE_ALL").is_none(), "{what} is needed");
    found.then_some(()).or_else(|| {
        eprintln!("left out: {what} is not here");
        None
    })
}

/// Ends with the test, however that ends.
struct Process(Child);

impl Process {
    fn start(command: &[String], image: &Path) -> Self {
        Self(Command::new(&command[0]).args(&command[1..]).arg(image).stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// The application at the writer: it counts up, and looks what came back of it.
struct Counting {
    inputs: Reader,
    outputs: Writer,
    written: u64,
    /// The newest value that came back.
    back: u64,
}

impl Counting {
    fn turn(&mut self) {
        let Some(given) = self.inputs.read() else { return };
        let (cycle, at) = (given.cycle, given.at);
        let value = |index: usize| u64::from_le_bytes(given.bytes[8 * index..8 * index + 8].try_into().unwrap());
        let values: Vec<u64> = (0..7).map(value).collect();
        assert!(values.iter().all(|value| *value == values[0]), "one set, not two halves: {values:?}");
        assert!(values[0] <= self.written && values[0] >= self.back, "{values:?} after {}", self.back);
        self.back = values[0];
        self.written += 1;
        let value = self.written.to_le_bytes();
        self.outputs.write(cycle, at, |bytes| bytes.as_chunks_mut().0.iter_mut().for_each(|place| *place = value));
    }

    /// Waits until values that are not written yet have come back.
    fn until_heard(&mut self) {
        let (from, until) = (self.written, Instant::now() + Duration::from_secs(20));
        while self.back <= from {
            assert!(Instant::now() < until, "nothing newer than {} comes back", self.back);
            self.turn();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn turns(&mut self, count: usize) {
        for _ in 0..count {
            self.turn();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn killed_and_started_again(command: &[String], name: &str, threads: &str, folder: &Path) {
    let text = common::scenario_text("two-hosts", name);
    let text = text.replacen("[time]\n", &format!("[time]\nthreads = \"{threads}\"\n"), 1);
    let scenario = folder.join(format!("{name}.toml"));
    std::fs::write(&scenario, text.replacen("[[streams]]", "[[streams]]\napplication = \"image\"", 1)).unwrap();
    let (out, images) = (folder.join(format!("{name}-out")), folder.join(format!("{name}-images")));
    let control = folder.join(format!("{name}.sock"));
    let options = ["--image", images.to_str().unwrap(), "--control", control.to_str().unwrap(), "--duration", "60s"];
    let run = start(&scenario, &out, &options);
    let image_of = |end: &str| {
        let paths = std::fs::read_dir(&images).into_iter().flatten().flatten().map(|entry| entry.path());
        paths.filter(|path| path.extension().is_some_and(|extension| extension == end)).find(|path| path.exists())
    };
    wait_for("the images", || image_of("writer").is_some() && image_of("reader").is_some());
    let ours = Image::attach(&image_of("writer").unwrap()).unwrap();
    let (inputs, outputs) = (ours.input_reader().unwrap(), ours.output_writer().unwrap());
    let mut counting = Counting { inputs, outputs, written: 0, back: 0 };
    wait_for("the cycles", || counting.inputs.read().is_some());
    assert_eq!(ours.life(), Life::Running);
    // Nobody answers for a while.
    counting.turns(400);
    assert_eq!(counting.back, 0, "nobody is attached at the other end");

    let reader = image_of("reader").unwrap();
    let first = Process::start(command, &reader);
    counting.until_heard();
    let status = |what: &str| {
        let output = downbeat(&["ctl", "status", control.to_str().unwrap()]);
        common::stdout(&output).lines().any(|line| line.contains(".reader") && line.contains(what))
    };
    wait_for("its name in the status", || status("is attached"));
    drop(first);
    counting.turns(300);
    let stood = counting.back;
    counting.turns(100);
    assert_eq!(counting.back, stood, "the last values stay");
    wait_for("its end in the status", || status("was attached and is gone"));
    let theirs = Image::attach(&reader).unwrap();
    assert!(matches!(theirs.application(), Presence::Gone { .. }));

    let mut second = Process::start(command, &reader);
    counting.until_heard();
    counting.turns(300);
    let asked = downbeat(&["ctl", "stop", control.to_str().unwrap()]);
    assert!(asked.status.success(), "{}", stderr(&asked));
    let output = run.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    assert!(stderr(&output).contains("image for an application: "), "{}", stderr(&output));
    wait_for("the application's own end", || second.0.try_wait().unwrap().is_some());
    assert!(second.0.wait().unwrap().success(), "it ends in order when the engine does");
    assert!(!images.exists(), "the folder goes with the run that made it");

    let run = run_json(&out);
    assert_eq!(run["machine"]["allocations_in_cycles"], 0, "the cyclic path allocates");
    let stream = &run["streams"][0];
    let applications = stream["applications"].as_array().unwrap();
    assert_eq!(applications.len(), 2);
    for (application, end) in applications.iter().zip(["writer", "reader"]) {
        assert_eq!((&application["end"], &application["attached"]), (&end.into(), &true.into()), "{application}");
        let (cycles, without) = (&application["cycles"], &application["without_new"]);
        assert!(cycles.as_u64().unwrap() > without.as_u64().unwrap(), "{application}");
    }
    let answering = &applications[1];
    assert!(answering["longest_without"].as_u64().unwrap() >= 100, "{answering}");
    let answered = answering["answered_after"]["count"].as_u64().unwrap();
    // What was answered outside is what came all the way, up to what was lost or replaced on the way.
    let trips = stream["round_trip"]["stack"]["count"].as_u64().unwrap();
    assert!(trips > 0 && trips <= answered, "{trips} round trips, {answered} answers");
    let silent: Vec<_> = run["incidents"].as_array().unwrap().iter().collect();
    let told = |words: &str| {
        let is = |incident: &&&serde_json::Value| {
            incident["kind"] == "application-silent" && incident["cause"].as_str().unwrap().contains(words)
        };
        silent.iter().any(|incident| is(&incident))
    };
    assert!(told("nobody was attached") && told("what it wrote last was published on"), "{silent:#?}");
}

#[test]
fn a_run_goes_on_when_its_application_in_python_is_killed_and_started_again() {
    if !can_run("a_run_goes_on_when_its_application_in_python") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    // A thread a phase: one gives the application what came, another takes what it wrote.
    if let Some(command) = python() {
        killed_and_started_again(&command, "t-app-python", "phase", folder.path());
    }
}

#[test]
fn a_run_goes_on_when_its_application_in_c_is_killed_and_started_again() {
    if !can_run("a_run_goes_on_when_its_application_in_c") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    if let Some(command) = c(folder.path()) {
        killed_and_started_again(&command, "t-app-c", "host", folder.path());
    }
}

#[test]
fn without_such_an_end_nothing_is_made_and_a_file_in_the_way_is_named() {
    if !can_run("without_such_an_end") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (scenario, images) = (common::scenario(folder.path(), "two-hosts", "t-app-none"), folder.path().join("images"));
    let run = |scenario: &Path, out: &str| {
        let options = ["--image", images.to_str().unwrap(), "--cycles", "100", "--no-control"];
        start(scenario, &folder.path().join(out), &options).wait_with_output().unwrap()
    };
    let output = run(&scenario, "none");
    assert!(stderr(&output).contains("--image is of no use"), "{}", stderr(&output));
    assert!(!images.exists());
    assert!(run_json(&folder.path().join("none"))["streams"][0]["applications"].is_null());
    let text = std::fs::read_to_string(&scenario).unwrap();
    std::fs::write(&scenario, text.replacen("[[streams]]", "[[streams]]\napplication = \"image\"", 1)).unwrap();
    std::fs::write(&images, "").unwrap();
    let output = run(&scenario, "file");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("is no folder"), "{}", stderr(&output));
}

/// The scenario of a bench, with applications outside at both ends and messages that have a Status.
fn with_images(scenario: &Path) {
    let text = std::fs::read_to_string(scenario).unwrap();
    let more = "[[streams]]\napplication = \"image\"\nencoding = \"raw\"\nreceive_timeout = \"50ms\"";
    std::fs::write(scenario, text.replacen("[[streams]]", more, 1)).unwrap();
}

/// UncertainLastUsableValue.
const LAST_USABLE: u32 = 0x4090_0000;

/// The application at the writer of roles, until the status of its inputs is this one.
fn until_status(counting: &mut Counting, wanted: u32, more: impl Fn(&Counting) -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    let mut seen = None;
    while seen != Some(wanted) || !more(counting) {
        assert!(Instant::now() < until, "inputs are {seen:x?}, {wanted:x} is waited for");
        counting.turn();
        seen = counting.inputs.read().map(|given| given.status);
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn in_roles(command: &[String], name: &str, threads: &str) {
    let bench = Bench::new(name);
    with_images(&bench.scenario);
    let images = ["pub", "loop"].map(|end| bench.out(&format!("{end}-images")));
    let option = |index: usize| ["--image", images[index].to_str().unwrap()];
    let threads = format!("time.threads=\"{threads}\"");
    let looping = bench.start("loopback", "loop", &[&option(1)[..], &["--set", &threads]].concat());
    let publishing = bench.start("publish", "pub", &[&option(0)[..], &["--set", &threads]].concat());
    let ours = Image::attach(&images[0].join("loop.writer")).unwrap();
    let (inputs, outputs) = (ours.input_reader().unwrap(), ours.output_writer().unwrap());
    let mut counting = Counting { inputs, outputs, written: 0, back: 0 };
    let first = Process::start(command, &images[1].join("loop.reader"));
    counting.until_heard();
    until_status(&mut counting, 0, |_| true);
    // What an application says of its outputs comes back from the one that echoes it.
    counting.outputs.set_status(0x4000_0000);
    until_status(&mut counting, 0x4000_0000, |_| true);
    counting.outputs.set_status(0x8000_0000);
    until_status(&mut counting, 0x8000_0000, |_| true);
    counting.outputs.set_status(0);
    until_status(&mut counting, 0, |_| true);
    // It dies: what it had written goes on, as uncertain.
    drop(first);
    until_status(&mut counting, LAST_USABLE, |_| true);
    let stood = counting.back;
    counting.turns(100);
    assert_eq!(counting.back, stood, "the last values stay");
    let second = Process::start(command, &images[1].join("loop.reader"));
    until_status(&mut counting, 0, |counting| counting.back > stood);
    for (child, part) in [(publishing, "publish"), (looping, "loopback")] {
        assert!(bench.ctl(part, "stop").status.success());
        let output = child.wait_with_output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
        assert!(!stderr(&output).contains("have no Status"), "{}", stderr(&output));
    }
    drop(second);
    let at = |folder: &Path| run_json(folder)["streams"][0]["applications"][0].clone();
    let (writer, reader) = (at(&bench.out("pub")), at(&bench.out("loop")));
    for (application, end) in [(&writer, "writer"), (&reader, "reader")] {
        assert_eq!((&application["end"], &application["status_sent"]), (&end.into(), &true.into()), "{application}");
        assert!(application["bad"].as_u64() > Some(0), "before it wrote: {application}");
        assert!(application["uncertain"].as_u64() > Some(0), "{application}");
    }
    // Joined, both are there as they were.
    let [out, one, other] = ["both", "pub", "loop"].map(|name| bench.out(name).to_str().unwrap().to_owned());
    let joined = downbeat(&["join", &one, &other, "--clock-error", "0us", "--out", &out]);
    assert!(matches!(joined.status.code(), Some(0 | 1)), "{}", stderr(&joined));
    assert_eq!(run_json(Path::new(&out))["streams"][0]["applications"], serde_json::json!([writer, reader]));
}

#[test]
fn roles_have_applications_too_and_their_status_is_sent_in_python() {
    if !can_run("roles_have_applications_too") {
        return;
    }
    let _alone = alone();
    if let Some(command) = python() {
        in_roles(&command, "t-ro-py", "phase");
    }
}

#[test]
fn roles_have_applications_too_and_their_status_is_sent_in_c() {
    if !can_run("roles_have_applications_too") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    if let Some(command) = c(folder.path()) {
        in_roles(&command, "t-ro-c", "host");
    }
}

/// As a user who is not root, and has no rights but those of a namespace of his own.
fn as_nobody(command: &[String], folder: &Path) -> Command {
    let mut nobody = Command::new("setpriv");
    nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).args(command).current_dir(folder);
    nobody.env("HOME", folder).env("XDG_RUNTIME_DIR", folder.join("runtime")).stdin(Stdio::null());
    nobody
}

#[test]
fn applications_attach_to_a_run_without_root() {
    if !can_run("applications_attach_to_a_run_without_root") {
        return;
    }
    let probe = as_nobody(&["unshare", "-Urn", "true"].map(String::from), Path::new("/")).output();
    if demanded(probe.is_ok_and(|output| output.status.success()), "a user namespace for everybody").is_none() {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), all).unwrap();
    let program = folder.path().join("downbeat");
    std::fs::copy(common::DOWNBEAT, &program).unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "t-app-user");
    with_images(&scenario);
    std::fs::create_dir(folder.path().join("examples")).unwrap();
    for file in ["echo.py", "image.py"] {
        std::fs::copy(examples().join(file), folder.path().join("examples").join(file)).unwrap();
    }
    let images = folder.path().join("images");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let mut run = vec![text(&program), "run".into(), text(&scenario), "--image".into(), text(&images)];
    run.extend(["--duration", "60s", "--out", "out"].map(String::from));
    let mut run = as_nobody(&run, folder.path());
    let run = Process(run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    wait_for("the images", || images.join("loop.writer").exists() && images.join("loop.reader").exists());
    let c = c(folder.path()).map(|command| (command, "loop.reader"));
    // One that others than root may run.
    let runs = |python: &&str| {
        let command = [*python, "-c", "import ctypes; ctypes.CDLL('libatomic.so.1')"].map(String::from);
        as_nobody(&command, folder.path()).output().is_ok_and(|output| output.status.success())
    };
    let python = ["/usr/bin/python3", "python3"].into_iter().find(runs);
    demanded(python.is_some(), "python3 with libatomic for everybody");
    let python = python.map(|python| ([python, "-B", "examples/echo.py"].map(String::from).to_vec(), "loop.writer"));
    let mut applications: Vec<_> = [c, python]
        .into_iter()
        .flatten()
        .map(|(command, end)| {
            let command = [command, vec![text(&images.join(end))]].concat();
            Process(as_nobody(&command, folder.path()).spawn().unwrap())
        })
        .collect();
    let attached = || {
        let command = [text(&program), "ctl".into(), "status".into()];
        let status = common::stdout(&as_nobody(&command, folder.path()).output().unwrap());
        status.lines().filter(|line| line.contains("process") && line.ends_with("is attached")).count()
    };
    wait_for("both attached", || attached() == applications.len());
    std::thread::sleep(Duration::from_millis(500));
    common::signal(run.0.id(), "INT");
    let mut run = run;
    assert!(matches!(run.0.wait().unwrap().code(), Some(0 | 1)));
    for application in &mut applications {
        let ended = application.0.wait().unwrap();
        assert!(ended.success(), "it ends in order: {ended}");
    }
    let run = run_json(&folder.path().join("out"));
    assert!(run["machine"]["rights"].as_str().is_some_and(|rights| rights.contains("user namespace")), "{run}");
    let heard = run["streams"][0]["applications"].as_array().unwrap();
    let attached = heard.iter().filter(|one| one["attached"] == true).count();
    assert_eq!((heard.len(), attached), (2, applications.len()), "{heard:?}");
    if applications.len() == 2 {
        assert!(run["streams"][0]["round_trip"]["stack"]["count"].as_u64() > Some(100), "its answers come back");
    }
}
