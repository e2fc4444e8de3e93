//! ptp4l and phc2sys as processes of ours: they end with us, and nothing else is ended.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::error::PtpError;
use crate::rivals::program;
use crate::setup::Setup;
use crate::watch::{Line, follow};

/// How long they have to end by themselves.
const GRACE: Duration = Duration::from_secs(3);

/// What a program is started through: a command that gets its path and arguments, and makes it end with us.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The program in front.
    pub program: PathBuf,
    /// Its own arguments.
    pub arguments: Vec<String>,
}

/// The processes. Dropping it ends them.
#[derive(Debug)]
pub struct Children {
    folder: TempDir,
    children: Vec<(&'static str, Child)>,
}

impl Children {
    /// Starts what the setup asks for; their configurations go to `dir`, lines of their logs to `lines`.
    ///
    /// # Errors
    /// A folder cannot be made, or a program cannot be started.
    pub fn start(setup: &Setup, launcher: &Launcher, dir: &Path, lines: &Sender<Line>) -> Result<Self, PtpError> {
        let told = |what: &str| {
            let what = what.to_owned();
            move |error: io::Error| PtpError::Machine(format!("{what}: {error}"))
        };
        let folder = tempfile::Builder::new().prefix("downbeat-ptp-").tempdir().map_err(told("a folder for ptp4l"))?;
        let mut started = Self { folder, children: Vec::new() };
        let socket = started.socket();
        let conf = |name: &str, text: &str| {
            let path = dir.join(name);
            fs::write(&path, text).map(|()| path.clone()).map_err(told(&format!("writing {}", path.display())))
        };
        let path = conf("ptp4l.conf", &setup.at_socket(&socket))?.display().to_string();
        started.add("ptp4l", launcher, &["-f", &path, "-m"], lines)?;
        if let Some(text) = &setup.phc2sys {
            let path = conf("phc2sys.conf", text)?.display().to_string();
            let socket = socket.display().to_string();
            let mut arguments = vec!["-f", &path, "-m", "-z", &socket, "-a", "-r"];
            if setup.grandmaster {
                arguments.push("-r");
            }
            started.add("phc2sys", launcher, &arguments, lines)?;
        }
        Ok(started)
    }

    /// The socket of ptp4l.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("ptp4l")
    }

    fn add(
        &mut self,
        name: &'static str,
        launcher: &Launcher,
        arguments: &[&str],
        lines: &Sender<Line>,
    ) -> Result<(), PtpError> {
        let path = program(name).ok_or_else(|| PtpError::Machine(format!("{name} is not installed")))?;
        let mut child = Command::new(&launcher.program)
            .args(&launcher.arguments)
            .arg(path)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C is ours: the result comes first, then they are ended.
            .process_group(0)
            .spawn()
            .map_err(|error| PtpError::Machine(format!("starting {name}: {error}")))?;
        let outputs: [Option<Box<dyn Read + Send>>; 2] =
            [child.stdout.take().map(|out| Box::new(out) as _), child.stderr.take().map(|out| Box::new(out) as _)];
        for output in outputs.into_iter().flatten() {
            follow(BufReader::new(output), lines.clone());
        }
        self.children.push((name, child));
        Ok(())
    }

    /// Which of them has ended, in words; none while all run.
    pub fn ended(&mut self) -> Option<String> {
        self.children.iter_mut().find_map(|(name, child)| match child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(format!("{name} ended{}", how(status))),
            Err(error) => Some(format!("{name} is lost: {error}")),
        })
    }

    /// Ends them.
    pub fn end(&mut self) {
        for (_, child) in &mut self.children {
            if let (Ok(None), Ok(pid)) = (child.try_wait(), i32::try_from(child.id())) {
                // It has not been waited for, so the number is still its own.
                _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
            }
        }
        let until = Instant::now() + GRACE;
        for (_, child) in &mut self.children {
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(10));
            }
            _ = child.kill();
            _ = child.wait();
        }
        self.children.clear();
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        self.end();
    }
}

fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!(" with code {code}"),
        (None, Some(signal)) => format!(" by signal {signal}"),
        (None, None) => String::new(),
    }
}

/// Reads lines that need not be text, each cut to a length that a line of a log has.
pub(crate) fn each_line(mut from: impl BufRead, mut give: impl FnMut(&str) -> bool) {
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        match (&mut from).take(4_096).read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(_) if !give(String::from_utf8_lossy(&bytes).trim_end()) => return,
            Ok(_) => {}
        }
    }
}
