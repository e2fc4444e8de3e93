//! `xtask/counts.toml`: what was counted when someone looked last.

use std::fmt;
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::workspace::root;

/// How much longer than in the file a path may be. Smaller changes come with any edit nearby: another order of
/// instructions, one more register saved.
pub(super) const MARGIN_PERCENT: f64 = 5.0;
/// The same for the shortest paths, in instructions.
const MARGIN: f64 = 3.0;

const HEAD: &str = "\
# Instructions of one call of each hot path in crates/station/benches/counted.rs, those of the C library not among them.
# 'cargo xtask counts' compares with these, 'cargo xtask counts --bless' writes them.

";

#[derive(Debug, PartialEq)]
pub(super) struct Expected {
    /// The compiler that the numbers hold for.
    pub(super) toolchain: String,
    /// Name and instructions.
    pub(super) paths: Vec<(String, f64)>,
}

impl Expected {
    pub(super) fn new(toolchain: String) -> Self {
        Self { toolchain, paths: Vec::new() }
    }

    fn path() -> PathBuf {
        root().join("xtask/counts.toml")
    }

    pub(super) fn read() -> Result<Self, String> {
        let path = Self::path();
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}; 'cargo xtask counts --bless' writes it", path.display()))?;
        Self::parse(&text)
    }

    pub(super) fn write(&self) -> Result<(), String> {
        let path = Self::path();
        std::fs::write(&path, self.text()).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn text(&self) -> String {
        let mut text = format!("{HEAD}toolchain = \"{}\"\n\n[instructions]\n", self.toolchain);
        for (name, instructions) in &self.paths {
            _ = writeln!(text, "{name} = {instructions:.1}");
        }
        text
    }

    /// The few forms of TOML that [`Self::write`] uses.
    fn parse(text: &str) -> Result<Self, String> {
        let mut expected = Self::new(String::new());
        for (line, number) in text.lines().map(str::trim).zip(1..) {
            if line.is_empty() || line.starts_with(['#', '[']) {
                continue;
            }
            let told = || format!("xtask/counts.toml:{number}: expected NAME = NUMBER, found {line:?}");
            let (key, value) = line.split_once('=').ok_or_else(told)?;
            let (key, value) = (key.trim(), value.trim());
            if key == "toolchain" {
                expected.toolchain = value.trim_matches('"').to_owned();
            } else {
                expected.paths.push((key.to_owned(), value.parse().map_err(|_| told())?));
            }
        }
        Ok(expected)
    }

    /// What is to be said about each path, those that are gone at the end.
    pub(super) fn compare<'a>(&'a self, counted: &'a [(String, f64)]) -> Vec<Verdict<'a>> {
        let find =
            |paths: &[(String, f64)], name: &str| paths.iter().find(|(known, _)| known == name).map(|path| path.1);
        let verdict = |(name, counted): &'a (String, f64)| Verdict {
            name,
            expected: find(&self.paths, name),
            counted: Some(*counted),
        };
        let gone = self.paths.iter().filter(|(name, _)| find(counted, name).is_none());
        let gone = gone.map(|(name, expected)| Verdict { name, expected: Some(*expected), counted: None });
        counted.iter().map(verdict).chain(gone).collect()
    }
}

/// What is to be said about one path.
#[derive(Debug, PartialEq)]
pub(super) struct Verdict<'a> {
    name: &'a str,
    expected: Option<f64>,
    counted: Option<f64>,
}

impl Verdict<'_> {
    /// Whether it is in the file, in the program, and not longer than it was.
    pub(super) fn is_well(&self) -> bool {
        matches!((self.expected, self.counted), (Some(expected), Some(counted)) if counted <= Self::most(expected))
    }

    fn most(expected: f64) -> f64 {
        (expected * (1.0 + MARGIN_PERCENT / 100.0)).max(expected + MARGIN)
    }
}

impl fmt::Display for Verdict<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:<24}", self.name)?;
        match (self.expected, self.counted) {
            (Some(expected), Some(counted)) => {
                write!(
                    formatter,
                    " {counted:>8.1}  expected {expected:>8.1}  {:+.1} %",
                    (counted / expected - 1.0) * 100.0
                )?;
                if counted > Self::most(expected) {
                    formatter.write_str("  LONGER")?;
                } else if expected > Self::most(counted) {
                    formatter.write_str("  shorter: bless it, so that it stays so")?;
                }
                Ok(())
            }
            (None, Some(counted)) => write!(formatter, " {counted:>8.1}  NOT IN xtask/counts.toml"),
            (_, None) => formatter.write_str(" NO SUCH PATH any more, but in xtask/counts.toml"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(paths: &[(&str, f64)]) -> Vec<(String, f64)> {
        paths.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn a_file_comes_back_as_it_was_written() {
        let expected =
            Expected { toolchain: "rustc 1 for x".to_owned(), paths: paths(&[("a_9", 71.5), ("b", 1200.0)]) };
        assert_eq!(Expected::parse(&expected.text()), Ok(expected));
        assert!(Expected::parse("toolchain = \"x\"\n\nb = many\n").unwrap_err().contains("counts.toml:3"));
    }

    #[test]
    fn longer_new_and_missing_paths_are_not_well() {
        let expected = Expected {
            toolchain: String::new(),
            paths: paths(&[("same", 100.0), ("longer", 100.0), ("short", 10.0), ("shorter", 100.0), ("gone", 5.0)]),
        };
        let counted = paths(&[("same", 105.0), ("longer", 106.0), ("short", 13.0), ("shorter", 80.0), ("new", 1.0)]);
        let verdicts = expected.compare(&counted);
        let well: Vec<_> = verdicts.iter().map(|verdict| (verdict.name, verdict.is_well())).collect();
        let all =
            [("same", true), ("longer", false), ("short", true), ("shorter", true), ("new", false), ("gone", false)];
        assert_eq!(well, all);
        assert!(verdicts[1].to_string().contains("106.0  expected    100.0  +6.0 %  LONGER"), "{}", verdicts[1]);
        assert!(verdicts[3].to_string().contains("bless it"), "{}", verdicts[3]);
    }
}
