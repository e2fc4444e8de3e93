//! From the text of a file to the checked model.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use toml_edit::Document;

use crate::checks::Model;
use crate::diagnostic::{Diagnostics, Placed, Severity, Sink};
use crate::installation::Installation;
use crate::model::Scenario;
use crate::node::Table;
use crate::settings::{Setting, SettingError, with_settings};
use crate::{hosts, limits, links, machines, ports, streams, time, traffic};

/// Largest file that is read: far above any scenario, far below what fills a memory.
const LARGEST_BYTES: u64 = 4 << 20;

/// Reads a scenario; `file_name` is what diagnostics call it. Warnings are dropped: [`read_with_warnings`]
/// gives them.
///
/// # Errors
/// Everything that is wrong with the text.
pub fn read(text: &str, file_name: &str) -> Result<Scenario, Diagnostics> {
    read_with_warnings(text, file_name).map(|(scenario, _)| scenario)
}

/// Reads a scenario and gives what may not be meant along with it.
///
/// # Errors
/// Everything that is wrong with the text, warnings included.
pub fn read_with_warnings(text: &str, file_name: &str) -> Result<(Scenario, Diagnostics), Diagnostics> {
    let mut sink = Sink::default();
    let scenario = match Document::parse(text) {
        Ok(document) => {
            let end = text.trim_end().len();
            // What is missing in the file as a whole is missing at its end.
            let root = Table::new(document.as_table(), end.saturating_sub(1).min(end)..end, "the file");
            model(&root, text, &mut sink)
        }
        Err(error) => {
            let span = error.span().unwrap_or(0..0);
            let help = syntax_help(text, &span, error.message());
            let message = error.message().lines().collect::<Vec<_>>().join(", ");
            let expected = match message.split_once("expected ") {
                Some((_, expected)) => format!("expected {expected}"),
                None => "expected TOML".to_owned(),
            };
            sink.error(&span, format!("not TOML: {message}"), expected, help);
            None
        }
    };
    match scenario.filter(|_| !sink.has_errors()) {
        Some(scenario) => Ok((scenario, Diagnostics::new(file_name, text, sink.list))),
        None => Err(Diagnostics::new(file_name, text, sink.list)),
    }
}

fn syntax_help(text: &str, span: &Range<usize>, message: &str) -> String {
    let line_start = text.get(..span.start).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1);
    let line = text.get(line_start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    if message.contains("duplicate") {
        return "a key or a table can stand in a file once: remove one of them, or write `[[…]]` where there are several"
            .to_owned();
    }
    if let Some((key, value)) = line.split_once('=') {
        let value = value.split('#').next().unwrap_or_default().trim();
        let bare = !value.is_empty() && value.chars().all(|c| c.is_alphanumeric() || "./-_%:".contains(c));
        if bare && value.parse::<f64>().is_err() {
            return format!("texts and quantities stand in quotes: `{} = \"{value}\"`", key.trim());
        }
    }
    "https://toml.io describes the syntax; nothing else in the file has been looked at yet".to_owned()
}

fn model(root: &Table<'_>, text: &str, sink: &mut Sink) -> Option<Scenario> {
    root.only(sink, &["name", "requirement", "time", "hosts", "links", "ports", "streams", "traffic", "ptp"]);
    let name = streams::name(root, sink, "my-scenario");
    let (requirement, requirement_class) = limits::read(root, sink);
    let time = time::read(root, sink);
    let hosts = hosts::read(root, &time, sink);
    let links = links::read(root, &hosts, sink);
    // A requirement that could not be read is not missed in streams.
    let limits = (!requirement.is_empty() || root.get("requirement").is_none()).then_some(&*requirement);
    let streams = streams::read(root, &time, &hosts, &links, limits, sink);
    let traffic = traffic::read(root, &hosts, &links, sink);
    let ptp = machines::ptp(root, links.list.iter().any(|link| link.ptp_only), sink);
    let ports = ports::read(root, &time, &hosts, &links, &streams.list, sink);
    Model { hosts: &hosts, links: &links, ports: &ports, streams: &streams, traffic: &traffic }.check(sink);
    if streams.list.is_empty() && streams.complete {
        sink.warning(
            &root.span,
            "the scenario has no stream",
            "nothing is published",
            "add `[[streams]]` with `name`, `writer`, `reader` and `variables`",
        );
    }
    Some(Scenario {
        name: name?,
        cycle: time.cycle,
        base_time: time.base_time,
        threads: time.threads,
        backlog: time.backlog,
        hosts: hosts.list,
        links: links.list,
        ports: ports.list,
        streams: streams.list,
        traffic: traffic.list,
        requirement,
        requirement_class,
        installation: Installation {
            machines: hosts.machines.into_iter().map(|draft| draft.machine).collect(),
            nics: ports.nics,
            ptp,
        },
        source: text.to_owned(),
    })
}

/// Why a scenario file gave no scenario.
#[derive(Debug)]
pub enum ReadError {
    /// There is no such file.
    Missing(PathBuf),
    /// It is a folder.
    Folder(PathBuf),
    /// It is not UTF-8; the number is the first byte that is not.
    NotText(PathBuf, usize),
    /// It is larger than a scenario can be.
    TooLarge(PathBuf),
    /// It could not be read.
    Io(PathBuf, io::Error),
    /// A setting finds no place in it.
    Setting(PathBuf, SettingError),
    /// What it says is wrong.
    Invalid(Diagnostics),
}

/// Reads a scenario file and gives warnings along with it.
///
/// # Errors
/// Why there is none, with everything that is wrong in the file.
pub fn read_file(path: &Path) -> Result<(Scenario, Diagnostics), ReadError> {
    read_file_with(path, &[])
}

/// Reads a scenario file with other values in it than its own.
///
/// # Errors
/// As [`read_file`]; and a setting that finds no place in the file.
pub fn read_file_with(path: &Path, settings: &[Setting]) -> Result<(Scenario, Diagnostics), ReadError> {
    let fail = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => ReadError::Missing(path.to_owned()),
        io::ErrorKind::IsADirectory => ReadError::Folder(path.to_owned()),
        _ => ReadError::Io(path.to_owned(), error),
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(fail)?;
    file.take(LARGEST_BYTES + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > LARGEST_BYTES {
        return Err(ReadError::TooLarge(path.to_owned()));
    }
    let text = String::from_utf8(bytes)
        .map_err(|error| ReadError::NotText(path.to_owned(), error.utf8_error().valid_up_to()))?;
    let text = match settings {
        [] => text,
        settings => with_settings(&text, settings).map_err(|error| ReadError::Setting(path.to_owned(), error))?,
    };
    read_with_warnings(&text, &path.display().to_string()).map_err(ReadError::Invalid)
}

impl ReadError {
    fn path(&self) -> String {
        match self {
            Self::Missing(path)
            | Self::Folder(path)
            | Self::NotText(path, _)
            | Self::TooLarge(path)
            | Self::Setting(path, _)
            | Self::Io(path, _) => path.display().to_string(),
            Self::Invalid(diagnostics) => diagnostics.file().to_owned(),
        }
    }

    fn expected(&self) -> &'static str {
        match self {
            Self::NotText(..) => "expected UTF-8",
            _ => "expected a scenario file",
        }
    }

    fn mend(&self) -> String {
        match self {
            Self::Missing(path) => {
                format!("write one with `downbeat init two-hosts > {}`, or check the path", path.display())
            }
            Self::Folder(path) => format!("name the file in it, for example {}", path.join("scenario.toml").display()),
            Self::NotText(..) => "save the file as UTF-8, or name another: this may be no text at all".to_owned(),
            Self::TooLarge(_) => format!("a scenario has less than {} MiB: name another file", LARGEST_BYTES >> 20),
            Self::Setting(_, error) => error.mend(),
            Self::Io(..) => "check that the file can be read, with `ls -l` for example".to_owned(),
            Self::Invalid(_) => String::new(),
        }
    }

    /// The error as a compiler would show it, without colours.
    pub fn render(&self) -> String {
        match self {
            Self::Invalid(diagnostics) => diagnostics.render(),
            _ => format!("  × {self}\n  help: {}\n", self.mend()),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path();
        match self {
            Self::Missing(_) => write!(f, "there is no file {path}"),
            Self::Folder(_) => write!(f, "{path} is a folder, not a scenario file"),
            Self::NotText(_, at) => write!(f, "{path} is not UTF-8 text: byte {at} begins no character"),
            Self::TooLarge(_) => write!(f, "{path} is larger than {} MiB", LARGEST_BYTES >> 20),
            Self::Io(_, error) => write!(f, "{path} could not be read: {error}"),
            Self::Setting(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Invalid(diagnostics) => diagnostics.fmt(f),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(_, error) => Some(error),
            _ => None,
        }
    }
}

impl miette::Diagnostic for ReadError {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(self.mend()).filter(|help| !help.is_empty()).map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        match self {
            Self::Invalid(diagnostics) => diagnostics.source_code(),
            _ => None,
        }
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn miette::Diagnostic> + 'a>> {
        match self {
            Self::Invalid(diagnostics) => diagnostics.related(),
            _ => None,
        }
    }
}

/// The list of [`Diagnostics`]; a file that could not be read makes a list of one, at line 1.
impl Serialize for ReadError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Self::Invalid(diagnostics) = self {
            return diagnostics.serialize(serializer);
        }
        let only = Placed {
            severity: Severity::Error,
            file: &self.path(),
            line: 1,
            column: 1,
            text: "",
            message: &self.to_string(),
            expected: self.expected(),
            help: &self.mend(),
        };
        serializer.collect_seq([only])
    }
}
