//! The other end of a host: `downbeat apply --held` there, reached by ssh.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A sign of life once a second: the other end undoes what it was told after twenty without one.
const ALIVE: Duration = Duration::from_secs(1);
/// So long a connection may take to end once all is said.
const TO_END: Duration = Duration::from_secs(10);
/// No questions, which nobody could answer from here; a connection that is cut off is seen.
const OPTIONS: [&str; 10] = [
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=15",
    "-o",
    "ServerAliveInterval=5",
    "-o",
    "ServerAliveCountMax=3",
    "--",
];

/// How a host is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) host: String,
    /// What `ssh` is given, or `here` for this machine.
    pub(super) destination: String,
    pub(super) sudo: bool,
}

/// What a host says.
#[derive(Debug)]
pub(super) enum Said {
    /// An answer.
    Answer(Value),
    /// Words, of ssh or the programs there.
    Words(String),
    /// Nothing more: how the connection ended.
    Ended,
}

/// A host that plays its part.
#[derive(Debug)]
pub(super) struct Remote {
    child: Child,
    orders: Option<Sender<Vec<u8>>>,
    /// The binary was sent there for this time.
    pub(super) sent: bool,
}

impl Way {
    fn is_here(&self) -> bool {
        self.destination == "here"
    }

    /// A line for a shell there; nothing of the user's input is in it but the host's name, which has letters, digits and -.
    fn shell(&self, line: &str) -> Command {
        let program = std::env::var_os("DOWNBEAT_SSH").unwrap_or_else(|| "ssh".into());
        let mut command = Command::new(program);
        // Whatever shell the user has there.
        command.args(OPTIONS).arg(&self.destination).arg(format!("sh -c '{line}'"));
        command
    }

    /// Whether the `downbeat` there is ours, and the machine such that ours runs there.
    ///
    /// # Errors
    /// In words: ssh's, or that ours cannot run there.
    fn has_ours(&self) -> Result<bool, String> {
        if self.is_here() {
            return Ok(true);
        }
        let mut command = self.shell("uname -sm; command -v downbeat >/dev/null && downbeat --version; true");
        let output =
            command.process_group(0).stdin(Stdio::null()).output().map_err(|error| no_ssh(&command, &error))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if !output.status.success() {
            return Err(match text(&output.stderr) {
                silent if silent.is_empty() => format!("ssh {} failed", self.destination),
                words => words,
            });
        }
        let told = text(&output.stdout);
        let mut lines = told.lines();
        let machine = lines.next().unwrap_or_default();
        if lines.any(|line| line == concat!("downbeat ", env!("CARGO_PKG_VERSION"))) {
            return Ok(true);
        }
        let ours = format!("Linux {}", std::env::consts::ARCH);
        match machine == ours {
            true => Ok(false),
            false => Err(format!(
                "there is no downbeat {} there, and ours, of {ours}, does not run on {machine}: install it there",
                env!("CARGO_PKG_VERSION")
            )),
        }
    }

    /// Connects, and has the host look at its plan. What it says comes with its `index`.
    ///
    /// # Errors
    /// In words.
    pub(super) fn begin(&self, index: usize, scenario: &str, said: &Sender<(usize, Said)>) -> Result<Remote, String> {
        let own = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
        let sudo = if self.sudo { "sudo -n " } else { "" };
        let part = format!("apply - --host {} --held", self.host);
        let there = self.has_ours()?;
        let (mut command, bytes) = if self.is_here() {
            let mut command = Command::new(&own);
            command.args(part.split(' '));
            (command, Vec::new())
        } else if there {
            (self.shell(&format!("exec {sudo}downbeat {part}")), Vec::new())
        } else {
            let bytes = read(&own)?;
            // The file goes with the shell, whatever ends it.
            let line = format!(
                "f=$(mktemp) || exit 1; trap \"rm -f $f\" EXIT; trap \"exit 1\" HUP INT TERM; \
                 head -c {} > $f && chmod 700 $f && {sudo}$f {part}",
                bytes.len()
            );
            (self.shell(&line), bytes)
        };
        // Ctrl-C is ours to answer: each end is told in order.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| no_ssh(&command, &error))?;
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("its input and output are not there".into());
        };
        let (orders, ordered) = channel();
        thread::spawn(move || write(input, &ordered));
        let (to, words) = (said.clone(), said.clone());
        let errors = thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                _ = words.send((index, Said::Words(line)));
            }
        });
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let said = serde_json::from_str(&line).map_or(Said::Words(line), Said::Answer);
                _ = to.send((index, said));
            }
            _ = errors.join();
            _ = to.send((index, Said::Ended));
        });
        let remote = Remote { child, orders: Some(orders), sent: !there };
        remote.order_bytes(bytes);
        remote.order_bytes(format!("scenario {}\n{scenario}", scenario.len()).into_bytes());
        Ok(remote)
    }
}

impl Remote {
    /// Tells the host what to do.
    pub(super) fn order(&self, word: &str) {
        self.order_bytes(format!("{word}\n").into_bytes());
    }

    fn order_bytes(&self, bytes: Vec<u8>) {
        if let Some(orders) = &self.orders {
            // It has ended: that is said, too.
            _ = orders.send(bytes);
        }
    }

    /// Nothing more is told: what is not to be kept is undone.
    pub(super) fn hang_up(&mut self) {
        self.orders = None;
    }

    /// Waits for the connection to end; ends it when that takes too long.
    pub(super) fn end(mut self) {
        self.hang_up();
        let deadline = Instant::now() + TO_END;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(20)),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Writes what is ordered, and a sign of life when nothing is.
fn write(mut input: ChildStdin, ordered: &Receiver<Vec<u8>>) {
    loop {
        let bytes = match ordered.recv_timeout(ALIVE) {
            Ok(bytes) => bytes,
            Err(RecvTimeoutError::Timeout) => b"alive\n".to_vec(),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if input.write_all(&bytes).and_then(|()| input.flush()).is_err() {
            return;
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    read.map(|_| bytes).map_err(|error| format!("this program, {}: {error}", path.display()))
}

fn no_ssh(command: &Command, error: &io::Error) -> String {
    format!("{}: {error}", command.get_program().to_string_lossy())
}
