//! The example applications in C and Python against an engine: whole sets only, in order, and a killed application is
//! noticed and succeeded by the next.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use downbeat_rt::clock::{Clock, SystemClock};
use downbeat_rt::image::{Image, ImageSpec, Life, Link, Presence, Reader, Writer};
use downbeat_rt::wait::{Pacer, Wait};
use units::{Nanos, Tai};

const COUNTERS: usize = 8;
const UINT64: u8 = 9;
const CYCLE: Nanos = Nanos::from_millis(1);
/// Long enough for the most loaded machine; only a test that hangs gets there.
const PATIENCE: Duration = Duration::from_secs(120);
/// Names the path of the image to the process that plays an engine.
const ENGINE_AT: &str = "DOWNBEAT_TEST_ENGINE_AT";

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/application")
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("image-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Builds the C example; none where there is no C compiler and none is demanded.
fn c_example(folder: &Path) -> Option<Vec<OsString>> {
    let program = folder.join("echo");
    let mut build = Command::new("cc");
    build.args(["-O2", "-Wall", "-Wextra", "-Werror", "-std=c11", "-o"]).arg(&program).arg(examples().join("echo.c"));
    let output = there_or_demanded(build.output(), "cc")?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(vec![program.into()])
}

fn python_example() -> Option<Vec<OsString>> {
    let look = "import ctypes; ctypes.CDLL('libatomic.so.1')";
    let output = there_or_demanded(Command::new("python3").args(["-c", look]).output(), "python3")?;
    if !output.status.success() {
        let error = std::io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned());
        there_or_demanded::<()>(Err(error), "libatomic")?;
    }
    Some(vec!["python3".into(), "-B".into(), examples().join("echo.py").into()])
}

fn there_or_demanded<T>(found: std::io::Result<T>, what: &str) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(error) if std::env::var_os("DOWNBEAT_REQUIRE_ALL").is_some() => panic!("{what}: {error}"),
        Err(error) => {
            eprintln!("left out, {what}: {error}");
            None
        }
    }
}

/// Ends the application with the test, however that ends.
struct Application(Child);

impl Application {
    fn start(command: &[OsString], path: &Path) -> Self {
        Self(Command::new(&command[0]).args(&command[1..]).arg(path).stdin(Stdio::null()).spawn().unwrap())
    }

    /// Waits until it has ended by itself.
    fn finish(mut self) {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                assert!(status.success(), "{status}");
                return;
            }
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

struct Engine {
    image: Image,
    link: Link,
    clock: SystemClock,
    pacer: Pacer,
    inputs: Writer,
    outputs: Reader,
    cycle: i64,
    /// Cycle and number of the newest set of outputs.
    last: (i64, u64),
}

impl Engine {
    fn new(path: &Path) -> Self {
        let mut spec = ImageSpec::new();
        for index in 0..COUNTERS {
            spec = spec.input(&format!("in{index}"), UINT64, 8).unwrap();
            spec = spec.output(&format!("out{index}"), UINT64, 8).unwrap();
        }
        let image = Image::create("echo", &spec).unwrap();
        let link = image.link_at(path).unwrap();
        let (inputs, outputs) = (image.input_writer().unwrap(), image.output_reader().unwrap());
        image.set_life(Life::Running).unwrap();
        let pacer = Pacer::new(Wait::Sleep, CYCLE);
        Self { image, link, clock: SystemClock::new(), pacer, inputs, outputs, cycle: 0, last: (-1, 0) }
    }

    /// One cycle: eight equal counters out, and what came back is looked at. Says whether it is new.
    fn cycle(&mut self) -> bool {
        let began = self.pacer.wait(&self.clock, self.clock.now() + CYCLE);
        self.cycle += 1;
        let count = (self.cycle as u64).to_le_bytes();
        self.inputs
            .write(self.cycle, began, |bytes| bytes.chunks_exact_mut(8).for_each(|it| it.copy_from_slice(&count)));
        let Some(set) = self.outputs.read() else { return false };
        let counters: Vec<u64> =
            set.bytes.chunks_exact(8).map(|it| u64::from_le_bytes(it.try_into().unwrap())).collect();
        assert_eq!(counters, [set.cycle as u64; COUNTERS], "a torn set");
        assert!(set.at > Tai(0) && set.at <= began && set.status == 0, "{set:?}");
        let now = (set.cycle, set.sequence);
        assert!(
            if set.fresh { now.0 > self.last.0 && now.1 > self.last.1 } else { now == self.last },
            "{now:?} after {:?}",
            self.last
        );
        self.last = now;
        set.fresh
    }

    /// Cycles until so many fresh sets have come.
    fn cycle_until_fresh(&mut self, wanted: u32) {
        let until = Instant::now() + PATIENCE;
        let mut fresh = 0;
        while fresh < wanted {
            fresh += u32::from(self.cycle());
            assert!(Instant::now() < until, "{fresh} of {wanted} sets came");
        }
    }
}

fn an_application_is_killed_and_succeeded(folder: &Path, command: Option<Vec<OsString>>) {
    let Some(command) = command else { return };
    let mut engine = Engine::new(&folder.join("image"));
    let path = engine.link.path().to_owned();
    assert_eq!(engine.image.application(), Presence::Absent);
    // Ten are killed at whatever instruction they are, so that successors find slots in different hands.
    for round in 0..10 {
        let mut application = Application::start(&command, &path);
        let pid = application.0.id();
        engine.cycle_until_fresh(if round == 0 { 200 } else { 20 });
        assert_eq!(engine.image.application(), Presence::Alive { pid });
        application.0.kill().unwrap();
        application.0.wait().unwrap();
        assert_eq!(engine.image.application(), Presence::Gone { pid });
        let beats = engine.image.application_heartbeat();
        assert!(beats > 0);
        // What it wrote last may still come; then nothing does, and the engine goes on.
        engine.cycle();
        assert!((0..20).all(|_| !engine.cycle()), "outputs of a dead application");
        assert_eq!(engine.image.application_heartbeat(), beats);
    }
    let application = Application::start(&command, &path);
    engine.cycle_until_fresh(700);
    assert!(engine.cycle > 1_000);
    // A second application is turned away and does no harm.
    let second = Command::new(&command[0]).args(&command[1..]).arg(&path).output().unwrap();
    assert!(!second.status.success());
    assert!(String::from_utf8_lossy(&second.stderr).contains("held by another application"), "{second:?}");
    engine.cycle_until_fresh(20);
    engine.image.set_life(Life::Stopped).unwrap();
    application.finish();
    assert_eq!(engine.image.application(), Presence::Absent, "it gave its ends back");
    drop(engine);
    assert!(!path.exists());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_c_example_is_killed_and_succeeded() {
    let folder = folder("c");
    an_application_is_killed_and_succeeded(&folder, c_example(&folder));
}

#[test]
fn the_python_example_is_killed_and_succeeded() {
    an_application_is_killed_and_succeeded(&folder("python"), python_example());
}

#[test]
fn applications_end_when_their_engine_is_killed() {
    let folder = folder("engine");
    let path = folder.join("image");
    for command in [c_example(&folder), python_example()].into_iter().flatten() {
        let mut engine = Command::new(std::env::current_exe().unwrap());
        engine.args(["--exact", "engine_of_another_test", "--ignored"]).env(ENGINE_AT, &path);
        let mut engine = Application(engine.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
        let until = Instant::now() + PATIENCE;
        // The link of the engine before is still there, and leads nowhere.
        let image = loop {
            match Image::attach(&path) {
                Ok(image) if image.engine() == (Presence::Alive { pid: engine.0.id() }) => break image,
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
            assert!(Instant::now() < until);
        };
        let application = Application::start(&command, &path);
        while image.application_heartbeat() < 50 {
            assert!(Instant::now() < until);
            std::thread::sleep(Duration::from_millis(5));
        }
        engine.0.kill().unwrap();
        engine.0.wait().unwrap();
        assert_eq!(image.engine(), Presence::Gone { pid: engine.0.id() });
        assert_eq!(image.life(), Life::Running, "it had no time to say stop");
        application.finish();
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
#[ignore = "not a test: the engine that another test starts and kills"]
fn engine_of_another_test() {
    let Some(path) = std::env::var_os(ENGINE_AT) else { return };
    let mut engine = Engine::new(Path::new(&path));
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        _ = engine.cycle();
    }
}
