//! Other people's stacks as contestants: programs under `interop/`, outside the workspace, each a process that gets a
//! job a line and answers each with a line.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::workspace::{cargo, root};

/// Lines at the end of a failed build that tell why it failed.
const TOLD_LINES: usize = 6;

/// A contestant's program, built.
#[derive(Debug)]
pub(super) struct Program(PathBuf);

impl Program {
    /// Builds open62541 with its driver, unless it is built already. Has to happen where crates can be fetched, and
    /// before the thread becomes a real-time one.
    ///
    /// # Errors
    /// Why it is left out, and what would help.
    pub(super) fn open62541() -> Result<Self, String> {
        for (program, package) in [("cmake", "cmake"), ("python3", "python3"), ("cc", "gcc")] {
            let there = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            if there.is_err() {
                return Err(format!("its build needs {program}: apt-get install {package} libclang-dev"));
            }
        }
        let target = std::env::current_exe()
            .ok()
            .and_then(|path| Some(path.ancestors().nth(2)?.join("interop")))
            .ok_or("the target folder is not known")?;
        eprintln!("Building open62541, about a minute the first time …");
        let output = cargo()
            .args(["build", "--release", "--quiet", "--locked", "--manifest-path"])
            .arg(root().join("interop/open62541/Cargo.toml"))
            .arg("--target-dir")
            .arg(&target)
            .output()
            .map_err(|error| format!("cargo build did not start: {error}"))?;
        if !output.status.success() {
            return Err(format!("it could not be built: {}", last_lines(&String::from_utf8_lossy(&output.stderr))));
        }
        Ok(Self(target.join("release/downbeat-interop-open62541")))
    }

    /// Starts it in the network namespace of the calling thread; back when it is ready.
    pub(super) fn start(&self, arguments: &[&str]) -> Result<Process, String> {
        let told = |error: std::io::Error| format!("{}: {error}", self.0.display());
        let mut child =
            Command::new(&self.0).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(told)?;
        let (input, output) = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        let (Some(input), Some(output)) = (input, output) else { return Err("a process without pipes".to_owned()) };
        let mut process = Process { child, input, output };
        match process.answer()?.as_str() {
            "ready" => Ok(process),
            other => Err(format!("{}: {other}", self.0.display())),
        }
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(TOLD_LINES)..].join("\n    ")
}

/// A contestant that waits for jobs. Ends when it is dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Gives it a job without waiting for the end.
    pub(super) fn tell(&mut self, job: &str) -> Result<(), String> {
        self.input.write_all(format!("{job}\n").as_bytes()).map_err(|error| format!("open62541 has ended: {error}"))
    }

    /// What came out of the job.
    pub(super) fn answer(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(1..) => Ok(line.trim_end().to_owned()),
            Ok(0) => Err("open62541 has ended without an answer".to_owned()),
            Err(error) => Err(format!("open62541: {error}")),
        }
    }

    /// Both.
    pub(super) fn ask(&mut self, job: &str) -> Result<String, String> {
        self.tell(job)?;
        self.answer()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The program has nothing to save. Both fail only when it has ended already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_answers_until_it_ends() {
        let program = Program(PathBuf::from("/bin/sh"));
        let script = "echo ready; while read -r job; do [ \"$job\" = end ] && exit; echo \"did $job\"; done";
        let mut process = program.start(&["-c", script]).unwrap();
        assert_eq!(process.ask("this").as_deref(), Ok("did this"));
        assert_eq!(process.ask("that").as_deref(), Ok("did that"));
        assert!(process.ask("end").unwrap_err().contains("without an answer"));
        let error = program.start(&["-c", "echo failed: no such interface"]).unwrap_err();
        assert!(error.ends_with("failed: no such interface"), "{error}");
    }

    #[test]
    fn only_the_end_of_a_build_is_told() {
        let text: String = (1..=20).map(|line| format!("line {line}\n\n")).collect();
        assert!(last_lines(&text).starts_with("line 15\n") && last_lines(&text).ends_with("line 20"));
        assert_eq!(last_lines(""), "");
    }
}
