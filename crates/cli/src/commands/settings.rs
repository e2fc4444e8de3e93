//! `--set`: other values than those of the file, in every command that reads a scenario.

use std::path::Path;

use clap::Args;
use scenario::{Diagnostics, ReadError, Scenario, Setting};

use crate::output::{self, Failure};

/// Values put in place of those of the scenario file.
#[derive(Args)]
pub(crate) struct Settings {
    /// Another value than the file has, for example time.offset=50us, streams.loop.launch=false (a stream by its name) or
    /// ports.0.queue.root=fifo (places count from 0); may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "file")]
    set: Vec<Setting>,
}

impl Settings {
    /// Reads a scenario with them in it, as every command does; its warnings go to standard error.
    pub(crate) fn read(&self, path: &Path) -> Result<Scenario, Failure> {
        let (scenario, warnings) = self.read_file(path).map_err(|error| Failure::input(error.render()))?;
        output::tell_warnings(&warnings);
        Ok(scenario)
    }

    /// The same with everything that is to be said of the file.
    pub(crate) fn read_file(&self, path: &Path) -> Result<(Scenario, Diagnostics), ReadError> {
        scenario::read_file_with(path, &self.set)
    }

    /// As they were given, to be repeated in a command line.
    pub(crate) fn words(&self) -> impl Iterator<Item = String> {
        self.set.iter().map(|setting| format!(" --set {setting}"))
    }
}
