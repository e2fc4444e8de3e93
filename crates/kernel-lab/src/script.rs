//! A script, what it needs, and what came of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::boot;
use crate::error::KernelLabError;
use crate::kernel::Kernel;
use crate::stage::Stage;

/// A shell script to run in the laboratory, as root there, with the host's programs and its own files.
#[derive(Debug, Clone)]
pub struct Script {
    text: String,
    files: Vec<(String, Vec<u8>)>,
    programs: Vec<(String, PathBuf)>,
    limit: Duration,
    memory_mib: u32,
    stop: Arc<AtomicBool>,
}

/// How a script ended. Its folder goes with this value.
#[derive(Debug)]
pub struct Ended {
    /// Exit code of the script; 128 + number when a signal ended it.
    pub code: u8,
    /// What it printed to standard output.
    pub stdout: String,
    /// What it printed to standard error.
    pub stderr: String,
    pub(crate) stage: Stage,
}

impl Script {
    /// A script for `/bin/sh`, or for what its first line names after `#!`. It starts in the folder that holds its
    /// files, and what it writes there can be read afterwards.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            files: Vec::new(),
            programs: Vec::new(),
            limit: Duration::from_secs(120),
            memory_mib: 256,
            stop: Arc::default(),
        }
    }

    /// Adds a file.
    #[must_use]
    pub fn file(mut self, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push((name.into(), bytes.into()));
        self
    }

    /// Adds a program of the host under this name. Those that everybody may run are there anyway; this one may lie
    /// where the laboratory cannot look, and keeps the libraries it is linked with where they are.
    #[must_use]
    pub fn program(mut self, name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        self.programs.push((name.into(), path.into()));
        self
    }

    /// How long it may take, of real time: 120 s if nothing is said.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Memory of the laboratory: 256 MiB if nothing is said. The host spends what is used of it.
    #[must_use]
    pub fn memory_mib(mut self, mebibytes: u32) -> Self {
        self.memory_mib = mebibytes;
        self
    }

    /// Stops it when the flag is set.
    #[must_use]
    pub fn stop_when(mut self, flag: Arc<AtomicBool>) -> Self {
        self.stop = flag;
        self
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// The kernel did not start or died, or the script was stopped. Any exit code of the script is a success here.
    pub fn run(&self, kernel: &Kernel) -> Result<Ended, KernelLabError> {
        let stage = Stage::make()?;
        for (name, bytes) in &self.files {
            stage.write(&stage.place(name)?, bytes, 0o644)?;
        }
        for (name, program) in &self.programs {
            stage.bring(program, &stage.place(name)?)?;
        }
        stage.write(&stage.place(boot::SCRIPT)?, self.text.as_bytes(), 0o755)?;
        let code = boot::boot(kernel, &stage, self.memory_mib, self.limit, &self.stop)?;
        let text = |name| boot::printed(&stage, name);
        Ok(Ended { code, stdout: text("stdout"), stderr: text("stderr"), stage })
    }
}

impl Ended {
    /// The folder with what the script has written.
    pub fn folder(&self) -> &Path {
        self.stage.path()
    }
}
