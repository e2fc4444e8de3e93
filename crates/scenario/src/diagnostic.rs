//! What is wrong with a file, shown where it is wrong.

use std::fmt;
use std::ops::Range;

use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};
use serde::{Serialize, Serializer};

/// Whether a file can still be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing can be done with the file until it is mended.
    Error,
    /// The file is used as it stands; its author may have meant something else.
    Warning,
}

/// One thing wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether the file can still be used.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// Where: bytes of the file.
    pub span: Range<usize>,
    /// What was expected there.
    pub expected: String,
    /// How to mend it.
    pub help: String,
    /// Other places that have to do with it, each with a word on why.
    pub others: Vec<(Range<usize>, String)>,
}

impl Diagnostic {
    /// Adds another place that has to do with it.
    pub(crate) fn and(&mut self, span: Range<usize>, why: impl Into<String>) -> &mut Self {
        self.others.push((span, why.into()));
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Diagnostic {}

impl miette::Diagnostic for Diagnostic {
    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        (!self.help.is_empty()).then(|| Box::new(&self.help) as Box<dyn fmt::Display>)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label = |text: &String, span: &Range<usize>| {
            LabeledSpan::new((!text.is_empty()).then(|| text.clone()), span.start, span.len())
        };
        let first = std::iter::once(label(&self.expected, &self.span));
        Some(Box::new(first.chain(self.others.iter().map(move |(span, why)| label(why, span)))))
    }
}

/// Everything wrong with one file, in the order of the file.
///
/// As [`miette::Diagnostic`] its items are related diagnostics that point into the file. Serialised it is a list
/// of objects with `severity`, `file`, `line`, `column`, `text`, `message`, `expected` and `help`.
#[derive(Debug)]
pub struct Diagnostics {
    source: NamedSource<String>,
    list: Vec<Diagnostic>,
}

/// A [`Diagnostic`] with its place resolved: what `--json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Placed<'a> {
    /// Whether the file can still be used.
    pub severity: Severity,
    /// The file as it was named.
    pub file: &'a str,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The underlined text; empty when something is missing.
    pub text: &'a str,
    /// What is wrong.
    pub message: &'a str,
    /// What was expected there.
    pub expected: &'a str,
    /// How to mend it.
    pub help: &'a str,
}

impl Diagnostics {
    pub(crate) fn new(file: &str, text: &str, mut list: Vec<Diagnostic>) -> Self {
        list.sort_by_key(|diagnostic| (diagnostic.span.start, diagnostic.severity));
        Self { source: NamedSource::new(file, text.to_owned()), list }
    }

    /// The items, in the order of the file.
    pub fn list(&self) -> &[Diagnostic] {
        &self.list
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many have this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.list.iter().filter(|diagnostic| diagnostic.severity == severity).count()
    }

    /// The items with file, line, column and text.
    pub fn placed(&self) -> impl Iterator<Item = Placed<'_>> {
        let text = self.source.inner();
        self.list.iter().map(move |diagnostic| {
            let before = text.get(..diagnostic.span.start).unwrap_or_default();
            let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
            Placed {
                severity: diagnostic.severity,
                file: self.source.name(),
                line: before.matches('\n').count() + 1,
                column: before[line_start..].chars().count() + 1,
                text: text.get(diagnostic.span.clone()).unwrap_or_default(),
                message: &diagnostic.message,
                expected: &diagnostic.expected,
                help: &diagnostic.help,
            }
        })
    }

    /// The items as a compiler would show them, without colours.
    pub fn render(&self) -> String {
        let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor())
            .with_links(false)
            .with_width(110)
            .with_context_lines(1);
        let mut out = String::new();
        match handler.render_report(&mut out, self) {
            Ok(()) => out,
            // Only a formatter can fail here; the bare messages are better than nothing.
            Err(fmt::Error) => self.list.iter().map(|diagnostic| format!("{diagnostic}\n")).collect(),
        }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |severity, word: &str| match self.count(severity) {
            0 => None,
            1 => Some(format!("1 {word}")),
            n => Some(format!("{n} {word}s")),
        };
        let counts: Vec<_> =
            [count(Severity::Error, "error"), count(Severity::Warning, "warning")].into_iter().flatten().collect();
        write!(
            f,
            "{} in {}",
            if counts.is_empty() { "nothing wrong".into() } else { counts.join(" and ") },
            self.file()
        )
    }
}

impl Diagnostics {
    /// The file as it was named.
    pub fn file(&self) -> &str {
        self.source.name()
    }
}

impl std::error::Error for Diagnostics {}

impl miette::Diagnostic for Diagnostics {
    fn severity(&self) -> Option<miette::Severity> {
        let error = self.count(Severity::Error) > 0;
        Some(if error { miette::Severity::Error } else { miette::Severity::Warning })
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.source)
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn miette::Diagnostic> + 'a>> {
        Some(Box::new(self.list.iter().map(|diagnostic| diagnostic as &dyn miette::Diagnostic)))
    }
}

impl Serialize for Diagnostics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.placed())
    }
}

/// Where the readers of this crate put what they find.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub(crate) list: Vec<Diagnostic>,
}

impl Sink {
    /// Something that makes the file useless.
    pub(crate) fn error(
        &mut self,
        span: &Range<usize>,
        message: impl Into<String>,
        expected: impl Into<String>,
        help: impl Into<String>,
    ) -> &mut Diagnostic {
        self.add(Severity::Error, span, message.into(), expected.into(), help.into())
    }

    /// Something that may be meant.
    pub(crate) fn warning(
        &mut self,
        span: &Range<usize>,
        message: impl Into<String>,
        expected: impl Into<String>,
        help: impl Into<String>,
    ) -> &mut Diagnostic {
        self.add(Severity::Warning, span, message.into(), expected.into(), help.into())
    }

    fn add(
        &mut self,
        severity: Severity,
        span: &Range<usize>,
        message: String,
        expected: String,
        help: String,
    ) -> &mut Diagnostic {
        let at = self.list.len();
        self.list.push(Diagnostic { severity, message, span: span.clone(), expected, help, others: Vec::new() });
        &mut self.list[at]
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.list.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}
