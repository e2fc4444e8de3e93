//! A machine out of a table, for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use units::Nanos;

use crate::look::{Look, Printed};

/// What is in no table is missing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scripted {
    pub(crate) files: BTreeMap<PathBuf, String>,
    pub(crate) links: BTreeMap<PathBuf, String>,
    /// Command lines and what they print.
    pub(crate) commands: BTreeMap<String, Printed>,
    pub(crate) machine: rt::machine::Machine,
    pub(crate) tai_minus_utc: Nanos,
    pub(crate) root: bool,
}

impl Scripted {
    pub(crate) fn file(mut self, path: impl Into<PathBuf>, text: &str) -> Self {
        self.files.insert(path.into(), text.into());
        self
    }

    pub(crate) fn prints(mut self, command: &str, out: &str) -> Self {
        self.commands.insert(command.into(), Printed { well: true, out: out.into(), error: String::new() });
        self
    }

    pub(crate) fn refuses(mut self, command: &str, error: &str) -> Self {
        self.commands.insert(command.into(), Printed { well: false, out: String::new(), error: error.into() });
        self
    }
}

impl Look for Scripted {
    fn read(&self, path: &Path) -> Option<String> {
        self.files.get(path).cloned()
    }

    fn list(&self, folder: &Path) -> Vec<String> {
        let below = self.files.keys().filter_map(|path| path.strip_prefix(folder).ok()?.components().next());
        let names: BTreeSet<_> = below.map(|name| name.as_os_str().to_string_lossy().into_owned()).collect();
        names.into_iter().collect()
    }

    fn leads_to(&self, link: &Path) -> Option<String> {
        self.links.get(link).cloned()
    }

    fn run(&self, arguments: &[&str]) -> Option<Printed> {
        self.commands.get(&arguments.join(" ")).cloned()
    }

    fn writable(&self, path: &Path) -> bool {
        self.root && self.files.contains_key(path)
    }

    fn machine(&self) -> rt::machine::Machine {
        self.machine.clone()
    }

    fn tai_minus_utc(&self) -> Nanos {
        self.tai_minus_utc
    }

    fn is_root(&self) -> bool {
        self.root
    }

    fn lockable_memory(&self) -> Option<u64> {
        (!self.root).then_some(64 << 10)
    }
}
