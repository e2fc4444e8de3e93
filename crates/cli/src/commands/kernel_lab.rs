//! `downbeat run --in kernel-lab`: the same command again, inside the laboratory's kernel, and its results brought out.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use ::kernel_lab::{Ended, Kernel, KernelLabError, MARK, Script};
use measure::RunFile;
use scenario::Scenario;
use units::Nanos;

use crate::output::{self, Failure, Outcome};

/// Names in the folder that both sides see.
const PROGRAM: &str = "downbeat";
const SCENARIO: &str = "scenario.toml";
const RESULTS: &str = "results";

/// A run's own, its traces, and this program's file in the page cache.
const MEMORY_MIB: u32 = 512;

/// Real time that a run may take: to start and end, and as a multiple of virtual time. Streams need about three times
/// theirs; iperf3, which reads the clock all the time, fifty.
const LIMIT: Duration = Duration::from_secs(120);
const LIMIT_SHARE: u32 = 300;

/// Whether this process is in the laboratory.
pub(crate) fn is_here() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Runs the scenario there with these options, and leaves the results in `folder`.
pub(crate) fn run(scenario: &Scenario, duration: Nanos, options: Vec<String>, folder: &Path, json: bool) -> Outcome {
    let kernel = Kernel::find().map_err(failure)?;
    let interrupted = lab::interrupt_flag()?;
    make_folder(folder)?;
    let outcome = ran(scenario, duration, &options, &kernel, interrupted).and_then(|ended| {
        ended.stderr.lines().for_each(|line| eprintln!("{line}"));
        bring_out(&ended, folder)?;
        Ok(ended.code)
    });
    // Only if there is nothing in it.
    _ = fs::remove_dir(folder);
    let code = outcome?;
    if !folder.exists() {
        // It said why.
        return Ok(code);
    }
    let run = read(&folder.join("run.json"))?;
    if json {
        output::json(&run)?;
    } else {
        output::tell_run(&run);
        println!("written to {}", folder.display());
    }
    Ok(code)
}

/// The result alone; the frames are told by nothing here.
fn read(path: &Path) -> Result<RunFile, Failure> {
    let wrong = |why: String| Failure::machine(format!("{}: {why}", path.display()));
    let text = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))
}

fn ran(
    scenario: &Scenario,
    duration: Nanos,
    options: &[String],
    kernel: &Kernel,
    interrupted: std::sync::Arc<std::sync::atomic::AtomicBool>,
) -> Result<Ended, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::machine(format!("finding this program's own file: {error}")))?;
    let options: String = options.iter().map(|option| format!(" {}", quoted(option))).collect();
    let text = format!("exec ./{PROGRAM} run {SCENARIO} --in kernel-lab --out {RESULTS}{options}\n");
    eprintln!("note: in the kernel laboratory: Linux {}, virtual time", kernel.release());
    Script::new(text)
        .file(SCENARIO, scenario.source.as_bytes())
        .program(PROGRAM, program)
        .memory_mib(MEMORY_MIB)
        .limit(LIMIT + Duration::from_nanos(duration.0.unsigned_abs()).saturating_mul(LIMIT_SHARE))
        .stop_when(interrupted)
        .run(kernel)
        .map_err(failure)
}

fn failure(error: KernelLabError) -> Failure {
    let code = if matches!(error, KernelLabError::Interrupted) { 130 } else { output::CANNOT };
    Failure { text: error.to_string(), code }
}

/// For a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn make_folder(folder: &Path) -> Result<(), Failure> {
    if folder.join("run.json").exists() || folder.join("part-0001").exists() {
        return Err(Failure::input(format!(
            "{} holds a run already\n  mend: name another folder with --out, or remove it",
            folder.display()
        )));
    }
    fs::create_dir_all(folder).map_err(|error| Failure::machine(format!("making {}: {error}", folder.display())))
}

/// Copies what the run has written, `run.json` last: with it the folder is whole.
fn bring_out(ended: &Ended, folder: &Path) -> Result<(), Failure> {
    let results = ended.folder().join(RESULTS);
    if !results.join("run.json").exists() {
        return Ok(());
    }
    copy(&results, folder).map_err(|error| Failure::machine(format!("writing to {}: {error}", folder.display())))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let mut entries = fs::read_dir(from)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(|entry| (entry.file_name() == "run.json", entry.file_name()));
    for entry in entries {
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            // The bytes alone: owner and permissions are the laboratory's.
            fs::write(&target, fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(quoted("loop@3s+40ms"), "'loop@3s+40ms'");
        assert_eq!(quoted("a'b $c"), r"'a'\''b $c'");
    }
}
