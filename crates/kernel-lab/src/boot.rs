//! Starting the laboratory's kernel, waiting for it, ending it.

use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::error::KernelLabError;
use crate::kernel::Kernel;
use crate::processor::Processor;
use crate::room;
use crate::stage::Stage;

/// Name of the script in the folder.
pub(crate) const SCRIPT: &str = "script";

/// When virtual time begins, in nanoseconds UTC: 14 November 2023. Any instant would do, as long as it is the same.
const BEGINS_NS: u64 = 1_700_000_000_000_000_000;

/// How often is looked whether it has ended.
const TURN: Duration = Duration::from_millis(5);

/// How long it may take to end when asked to.
const END_WITHIN: Duration = Duration::from_millis(500);

/// Lines of the console that an error tells.
const CONSOLE_LINES: usize = 15;

/// Boots the kernel on a folder that holds the script; returns the script's exit code.
pub(crate) fn boot(
    kernel: &Kernel,
    stage: &Stage,
    memory_mib: u32,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<u8, KernelLabError> {
    let folder = stage.path();
    let memory = room::for_memory(u64::from(memory_mib) << 20, stage.user.is_some())?;
    stage.bring(&kernel.linux(), &folder.join("linux"))?;
    stage.bring(&kernel.init(), &folder.join("lab-init"))?;
    let processor = Processor::take();
    let mut running = Running(start(stage, memory_mib, &memory)?);
    if let Some(processor) = &processor {
        processor.keep(running.group());
    }
    let deadline = Instant::now() + limit;
    let status = loop {
        if let Some(status) = running.0.try_wait().map_err(KernelLabError::io("waiting for the kernel"))? {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            return Err(KernelLabError::Interrupted);
        }
        if Instant::now() > deadline {
            running.end();
            let printed = printed(stage, "stdout") + &printed(stage, "stderr");
            return Err(KernelLabError::TooLong { limit, printed: last_lines(&printed) });
        }
        thread::sleep(TURN);
    };
    // Written by the first process when the script has ended: without it the code is that of something else.
    let ended = fs::read_to_string(folder.join("ended")).ok().and_then(|text| text.trim().parse().ok());
    match ended {
        Some(code) if status.code() == Some(i32::from(code)) => Ok(code),
        _ => Err(died(stage, status)),
    }
}

/// What the script printed so far.
pub(crate) fn printed(stage: &Stage, name: &str) -> String {
    fs::read(stage.path().join(name)).map_or_else(|_| String::new(), |text| String::from_utf8_lossy(&text).into_owned())
}

fn start(stage: &Stage, memory_mib: u32, memory: &Path) -> Result<Child, KernelLabError> {
    let folder = stage.path();
    let shown = folder.display();
    let failed = || KernelLabError::io(format!("starting {shown}/linux"));
    let console = File::create(folder.join("console")).map_err(failed())?;
    let errors = console.try_clone().map_err(failed())?;
    let mut command = with_parent(&folder.join("linux"));
    command
        .args([format!("mem={memory_mib}M"), format!("init={shown}/lab-init")])
        // The host's own tree, changed by nobody: the laboratory's own files are in memory and in its folder.
        .args(["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"])
        .args(["time-travel=inf-cpu".into(), format!("time-travel-start={BEGINS_NS}")])
        .args(["con=null", "con0=fd:0,fd:1", "quiet", "umid=lab"])
        .args([format!("uml_dir={shown}/uml/"), format!("LAB_DIR={shown}"), format!("LAB_RUN=./{SCRIPT}")])
        .current_dir(folder)
        .env_clear()
        .env("TMPDIR", memory)
        .env("HOME", folder)
        .stdin(Stdio::null())
        .stdout(console)
        .stderr(errors)
        // So that it ends with all its processes, and the terminal's Ctrl-C is ours to pass on.
        .process_group(0);
    if let Some(user) = stage.user {
        command.uid(user).gid(user);
    }
    let patience = Instant::now() + Duration::from_secs(2);
    loop {
        match command.spawn() {
            // Another thread of this process was starting a program while the kernel was being copied.
            Err(error) if error.raw_os_error() == Some(Errno::ETXTBSY as i32) && Instant::now() < patience => {
                thread::sleep(TURN);
            }
            other => return other.map_err(failed()),
        }
    }
}

/// A command that ends when the thread that starts it does, even by SIGKILL, where there is a program that sees to it.
fn with_parent(program: &Path) -> Command {
    let setpriv = Path::new("/usr/bin/setpriv");
    if !setpriv.is_file() {
        return Command::new(program);
    }
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// A kernel that runs; ended when dropped.
struct Running(Child);

impl Running {
    /// Its first process, after which the group is named.
    fn group(&self) -> Pid {
        Pid::from_raw(self.0.id() as i32)
    }

    fn end(&mut self) {
        let group = self.group();
        _ = killpg(group, Signal::SIGTERM);
        let deadline = Instant::now() + END_WITHIN;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(TURN);
        }
        // Its programs are processes of the host in the same group.
        _ = killpg(group, Signal::SIGKILL);
        _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            self.end();
        }
    }
}

fn died(stage: &Stage, status: ExitStatus) -> KernelLabError {
    let console = printed(stage, "console");
    let how = match (status.code(), status.signal()) {
        _ if console.contains("noexec") => {
            "did not start: the folder of its memory is mounted noexec; name another in TMPDIR".into()
        }
        _ if console.contains("Out of memory") || console.contains("out of memory") => {
            "ran out of memory; give it more".into()
        }
        _ if console.contains("Too few physical memory") => "did not start: it was given too little memory".into(),
        _ if console.contains("Kernel panic") => "panicked; with too little memory it does so at its start".into(),
        (_, Some(signal)) if signal == Signal::SIGBUS as i32 => {
            "was ended by SIGBUS: the file system of its memory (TMPDIR, else /dev/shm) is full".into()
        }
        (_, Some(signal)) => format!("was ended by signal {signal}"),
        (Some(code), _) => format!("ended with code {code} before the script did"),
        (None, None) => "ended in an unknown way".into(),
    };
    KernelLabError::Died { how, console: last_lines(&console) }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(CONSOLE_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn staged(console: &str) -> Stage {
        let stage = Stage::make().unwrap();
        fs::write(stage.path().join("console"), console).unwrap();
        stage
    }

    #[test]
    fn an_end_before_the_script_s_is_explained() {
        let told = |console: &str, status: i32| died(&staged(console), ExitStatus::from_raw(status)).to_string();
        assert!(told("a\nKernel panic - not syncing: x\n", 134 << 8).contains("panicked"));
        assert!(told("/dev/shm must be not mounted noexec\n", 1 << 8).contains("TMPDIR"));
        assert!(told("", Signal::SIGBUS as i32).contains("is full"));
        assert!(told("", Signal::SIGKILL as i32).contains("signal 9"));
        let told = told("first\r\n\nlast\r\n", 1 << 8);
        assert!(told.contains("code 1 before") && told.ends_with("first\nlast"), "{told}");
        let many: String = (0..40).map(|line| format!("line {line}\n")).collect();
        assert_eq!(last_lines(&many).lines().count(), CONSOLE_LINES);
        assert!(last_lines(&many).ends_with("line 39"));
    }

    #[test]
    fn what_is_no_kernel_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let built = folder.path().join("current");
        fs::create_dir(&built).unwrap();
        fs::write(built.join("about"), "kernel 6\nsource x 6\n").unwrap();
        fs::write(built.join("linux"), "#!/bin/sh\necho this is no kernel\nexit 7\n").unwrap();
        fs::write(built.join("lab-init"), "").unwrap();
        let kernel = Kernel::at(folder.path()).unwrap();
        let ran = crate::Script::new("true").run(&kernel);
        let error = ran.map(|ended| ended.code).unwrap_err().to_string();
        assert!(error.contains("code 7") && error.contains("this is no kernel"), "{error}");
    }
}
