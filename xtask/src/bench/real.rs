//! Real runs of the command, watched from outside.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::rounds::Failure;
use crate::workspace::cargo;

/// SCHED_FIFO in `/proc/PID/task/TID/stat`.
const FIFO: &str = "1";
/// Fields of that file after the name of the thread, before the policy: it is the 41st.
const BEFORE_POLICY: usize = 38;
/// How long a run may take until its hosts are there.
const READY_WITHIN: Duration = Duration::from_secs(15);

/// The command, optimised, built if it has to be.
pub(super) fn program() -> Result<PathBuf, Failure> {
    let status = cargo().args(["build", "--release", "--quiet", "--package", "downbeat-cli"]).status()?;
    if !status.success() {
        return Err("building downbeat failed".into());
    }
    // This program was built into the same folder.
    let path = std::env::current_exe()?.with_file_name("downbeat");
    if path.exists() { Ok(path) } else { Err(format!("{} is not there", path.display()).into()) }
}

/// A folder that goes with its value.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("downbeat-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A run that goes on.
pub(super) struct Run {
    child: Child,
    pub(super) folder: PathBuf,
    /// The processes that play its hosts, in the order of the scenario.
    pub(super) hosts: Vec<u32>,
}

impl Run {
    /// Starts a scenario and waits until its hosts keep their cycle.
    pub(super) fn start(
        program: &Path,
        scratch: &Scratch,
        name: &str,
        text: &str,
        arguments: &[&str],
        hosts: usize,
    ) -> Result<Self, Failure> {
        let file = scratch.path().join(format!("{name}.toml"));
        std::fs::write(&file, text)?;
        let folder = scratch.path().join(name);
        _ = std::fs::remove_dir_all(&folder);
        let child = Command::new(program)
            .arg("run")
            .arg(&file)
            .arg("--out")
            .arg(&folder)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()?;
        let mut run = Self { child, folder, hosts: Vec::new() };
        let deadline = Instant::now() + READY_WITHIN;
        while run.hosts.len() < hosts || !run.hosts.iter().all(|&host| is_real_time(host)) {
            if let Some(status) = run.child.try_wait()? {
                return Err(format!("the run of {name} ended at its start: {status}").into());
            }
            if Instant::now() > deadline {
                return Err(format!("the hosts of {name} are not there; without SCHED_FIFO there is no figure").into());
            }
            std::thread::sleep(Duration::from_millis(50));
            run.hosts = children(run.child.id());
        }
        // Cycle 0 is a fifth of a second away, the first receive timestamps another fifth.
        std::thread::sleep(Duration::from_millis(600));
        Ok(run)
    }

    /// The process that collects.
    pub(super) fn parent(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn has_ended(&mut self) -> Result<bool, Failure> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Asks it to end, as Ctrl-C does, and waits for it.
    pub(super) fn stop(mut self) -> Result<PathBuf, Failure> {
        Command::new("kill").args(["-INT", &self.child.id().to_string()]).status()?;
        self.child.wait()?;
        Ok(self.folder.clone())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // An interrupted run undoes what it made; one that was killed would leave it.
        if matches!(self.child.try_wait(), Ok(None)) {
            _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
            _ = self.child.wait();
        }
    }
}

fn children(parent: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    // Others than hosts have no threads of their own there: generators, `ip`.
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).filter(|&pid| is_real_time(pid)).collect()
}

/// Processor time of the real-time threads of a process so far, in nanoseconds.
pub(super) fn loop_time_ns(pid: u32) -> u64 {
    let time = |task: &PathBuf| {
        let text = std::fs::read_to_string(task.join("schedstat")).unwrap_or_default();
        text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0)
    };
    tasks(pid).iter().filter(|task| is_fifo(task)).map(time).sum()
}

fn is_real_time(pid: u32) -> bool {
    tasks(pid).iter().any(|task| is_fifo(task))
}

fn tasks(pid: u32) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn is_fifo(task: &Path) -> bool {
    let text = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
    // The name may hold spaces and brackets.
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name.split_whitespace().nth(BEFORE_POLICY) == Some(FIFO)
}

/// Resident memory of a process in KiB.
pub(super) fn resident_kib(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok())
}

/// A template of `downbeat init` under another name, with replacements that must apply.
pub(super) fn template(
    program: &Path,
    template: &str,
    name: &str,
    replacements: &[(&str, &str)],
) -> Result<String, Failure> {
    let output = Command::new(program).args(["init", template]).output()?;
    let mut text = String::from_utf8(output.stdout)?;
    let own_name = format!("name = \"{template}\"");
    let name = format!("name = \"{name}\"");
    for (old, new) in std::iter::once((own_name.as_str(), name.as_str())).chain(replacements.iter().copied()) {
        if !text.contains(old) {
            return Err(format!("the template {template} has no `{old}`").into());
        }
        text = text.replacen(old, new, 1);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_process_is_seen() {
        // Not this one: other tests ask for real-time threads in it.
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        let seen = (is_real_time(pid), loop_time_ns(pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen, (false, 0));
        assert!(resident_kib(std::process::id()).is_some_and(|kib| kib > 100));
        assert_eq!(resident_kib(u32::MAX), None);
    }
}
