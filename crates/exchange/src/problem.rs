//! What is wrong with a file, and what was not taken over from one.

use std::fmt;

/// One thing wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where: line and column of the text, or the way to a value, `stream objects[0].stream.vid`.
    pub at: String,
    /// What is wrong.
    pub what: String,
    /// What was expected there.
    pub expected: String,
    /// How to mend it.
    pub help: String,
}

/// Everything that is wrong with a file; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    /// The file as it was named.
    pub file: String,
    /// The items, in the order they were found.
    pub list: Vec<Problem>,
}

/// Something that one side says and the other cannot hold, or a default that stands for what is not said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The key or thing.
    pub at: String,
    /// What becomes of it.
    pub what: String,
}

impl Note {
    pub(crate) fn new(at: impl Into<String>, what: impl Into<String>) -> Self {
        Self { at: at.into(), what: what.into() }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.list.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}: {}: {}", self.file, problem.at, problem.what)?;
            write!(f, "\n  expected: {}\n  mend: {}", problem.expected, problem.help)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Where readers put what they find.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub(crate) problems: Vec<Problem>,
    pub(crate) notes: Vec<Note>,
}

impl Sink {
    pub(crate) fn problem(
        &mut self,
        at: impl Into<String>,
        what: impl Into<String>,
        expected: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.problems.push(Problem { at: at.into(), what: what.into(), expected: expected.into(), help: help.into() });
    }

    /// `value` with the notes when nothing was wrong.
    pub(crate) fn finish<T>(self, value: Option<T>, file: &str) -> Result<(T, Vec<Note>), Problems> {
        match value {
            Some(value) if self.problems.is_empty() => Ok((value, self.notes)),
            _ => Err(Problems { file: file.to_owned(), list: self.problems }),
        }
    }
}

/// A single problem as an error.
pub(crate) fn one(
    file: &str,
    at: impl Into<String>,
    what: impl Into<String>,
    expected: impl Into<String>,
    help: impl Into<String>,
) -> Problems {
    let mut sink = Sink::default();
    sink.problem(at, what, expected, help);
    Problems { file: file.to_owned(), list: sink.problems }
}
