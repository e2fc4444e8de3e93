//! Load beside a measurement: a process of its own that keeps processors, memory or network busy.
//!
//! The process is the same program started again, answering in [`load_process`]. It takes the profile on standard
//! input and ends when that is closed, so that it cannot outlive who started it; its network namespaces have no name
//! and end with it.

mod busy;
mod child;
mod cores;
mod mixed;
mod network;

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use measure::{LoadReport, LoadWork};

use crate::error::LabError;
use crate::traffic::OwnGroup as _;
pub use child::load_process;
use child::{Answer, Done};
use cores::CoreTimes;

/// From a load's start to the moment it counts as steady.
const SETTLE: Duration = Duration::from_secs(1);

/// How long the process may take to be ready: the memory load touches all of its memory first.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// How long it may take to end.
const END_WITHIN: Duration = Duration::from_secs(5);

/// What a load does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Nothing: only how busy the processors are is watched.
    Idle,
    /// An ordinary thread that computes without pause on every processor.
    Cpu,
    /// Copies between buffers larger than the caches, on every processor.
    Memory,
    /// UDP at full speed between two network namespaces over a veth pair.
    Network,
    /// A web server under requests and a computation, regulated so that every processor is about 30 % busy: the load
    /// of Gopiga et al.
    Mixed,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Idle, Self::Cpu, Self::Memory, Self::Network, Self::Mixed];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Network => "network",
            Self::Mixed => "mixed",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|profile| profile.name() == text);
        found.ok_or_else(|| format!("no load is called {text:?}; there are {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// Which load, and how to start it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadOptions {
    /// What it does.
    pub profile: Profile,
    /// The program that [`load_process`] answers in when started with [`Self::arguments`].
    pub program: PathBuf,
    /// Arguments that make it a load process.
    pub arguments: Vec<String>,
}

/// A load under way. Dropped, it ends.
#[derive(Debug)]
pub struct Load {
    profile: Profile,
    process: Option<Process>,
    cores: CoreTimes,
    since: Instant,
    notes: Vec<String>,
}

impl Load {
    /// Starts a load and waits until it is steady.
    ///
    /// # Errors
    /// The process could not be started or could not make its load, or `interrupted` was set meanwhile; nothing is
    /// left of it then.
    pub fn start(options: &LoadOptions, interrupted: &AtomicBool) -> Result<Self, LabError> {
        let mut notes = Vec::new();
        let process = match options.profile {
            Profile::Idle => None,
            _ => {
                let mut process = Process::start(options)?;
                notes = process.wait_until_ready(interrupted)?;
                Some(process)
            }
        };
        let began = Instant::now();
        while began.elapsed() < SETTLE {
            thread::sleep(Duration::from_millis(50));
            if interrupted.load(Ordering::Relaxed) {
                return Err(LabError::Interrupted);
            }
        }
        Ok(Self { profile: options.profile, process, cores: CoreTimes::read(), since: Instant::now(), notes })
    }

    /// The number of its process; none for [`Profile::Idle`].
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.child.id())
    }

    /// Ends it and says what it did.
    pub fn finish(mut self) -> LoadReport {
        let busy_percent = CoreTimes::read().busy_percent_since(&self.cores);
        let seconds = self.since.elapsed().as_secs_f64();
        let mut work = Vec::new();
        if let Some(process) = self.process.take() {
            match process.finish() {
                Ok(done) => {
                    let per_second = |count: u64| count as f64 / done.seconds.max(1e-9);
                    let entries = done.work.into_iter();
                    work =
                        entries.map(|(what, count)| LoadWork { what, count, per_second: per_second(count) }).collect();
                    self.notes.extend(done.notes);
                }
                Err(why) => self.notes.push(format!("the load did not last to the end: {why}")),
            }
        }
        if self.profile == Profile::Mixed {
            self.notes.extend(mixed::off_the_aim(&busy_percent));
        }
        LoadReport { profile: self.profile.name().into(), seconds, busy_percent, work, notes: self.notes }
    }
}

/// The process of a load, as its parent sees it.
#[derive(Debug)]
struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    fn start(options: &LoadOptions) -> Result<Self, LabError> {
        let what = || format!("starting the load {}", options.profile);
        let mut child = Command::new(&options.program)
            .args(&options.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group_of_its_own()
            .spawn()
            .map_err(LabError::io(what()))?;
        let (sender, lines) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                let lines = BufReader::new(stdout).lines().map_while(Result::ok);
                lines.take_while(|line| sender.send(line.clone()).is_ok()).count()
            });
        }
        let process = Self { child, lines };
        let told = process.child.stdin.as_ref().map_or(Ok(()), |mut stdin| writeln!(stdin, "{}", options.profile));
        told.map_err(LabError::io(what()))?;
        Ok(process)
    }

    fn wait_until_ready(&mut self, interrupted: &AtomicBool) -> Result<Vec<String>, LabError> {
        let fail = |message: String| LabError::io("making the load")(std::io::Error::other(message));
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            match self.lines.recv_timeout(Duration::from_millis(50)) {
                Ok(line) => {
                    return match serde_json::from_str(&line) {
                        Ok(Answer::Ready { notes }) => Ok(notes),
                        Ok(Answer::Failed { message }) => Err(fail(message)),
                        Err(_) => Err(fail(line)),
                    };
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(fail("its process ended at once".into())),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            if interrupted.load(Ordering::Relaxed) {
                return Err(LabError::Interrupted);
            }
            if Instant::now() > deadline {
                return Err(fail(format!("no word from its process within {READY_WITHIN:?}")));
            }
        }
    }

    /// Closes its input, which ends it, and reads what it did.
    fn finish(mut self) -> Result<Done, String> {
        drop(self.child.stdin.take());
        let line = self.lines.recv_timeout(END_WITHIN);
        let line = line.map_err(|_| match self.child.try_wait() {
            Ok(Some(status)) => format!("its process ended before ({status})"),
            _ => format!("its process did not end within {END_WITHIN:?}"),
        })?;
        serde_json::from_str(&line).map_err(|_| line)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Closed input ends it too, but not at once; after `finish` it is as good as gone.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_wrong_ones_told() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        let message = "heavy".parse::<Profile>().unwrap_err();
        assert!(message.contains("heavy") && message.contains("idle, cpu, memory, network, mixed"), "{message}");
    }

    #[test]
    fn a_program_that_is_no_load_process_is_told() {
        let start = |program: &str, arguments: &[&str]| {
            let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
            let options = LoadOptions { profile: Profile::Cpu, program: program.into(), arguments };
            Load::start(&options, &AtomicBool::new(false)).unwrap_err().to_string()
        };
        assert!(start("/no/such/program", &[]).contains("starting the load cpu"));
        assert!(start("/bin/echo", &["something else"]).contains("something else"));
        assert!(start("/bin/sh", &["-c", "read profile"]).contains("ended at once"));
        let options = LoadOptions { profile: Profile::Cpu, program: "sleep".into(), arguments: vec!["60".into()] };
        let error = Load::start(&options, &AtomicBool::new(true)).unwrap_err();
        assert!(matches!(error, LabError::Interrupted), "{error}");
    }

    #[test]
    fn idle_watches_the_processors() {
        let options = LoadOptions { profile: Profile::Idle, program: "/no/such/program".into(), arguments: Vec::new() };
        let load = Load::start(&options, &AtomicBool::new(false)).unwrap();
        assert_eq!(load.pid(), None);
        thread::sleep(Duration::from_millis(200));
        let report = load.finish();
        assert!(
            !report.busy_percent.is_empty() && report.busy_percent.values().all(|busy| (0.0..=100.0).contains(busy))
        );
        assert!(report.work.is_empty() && report.seconds >= 0.2);
    }
}
