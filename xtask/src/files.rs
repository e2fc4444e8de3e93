//! Rules about source files: where unsafe code may stand, which crates touch nothing outside, how long a file gets,
//! and that every dependency says why it is there.

use std::fs;
use std::path::{Path, PathBuf};

use crate::workspace::Member;

/// Crates that talk to the kernel by structures and pointers.
const MAY_BE_UNSAFE: [&str; 3] = ["link", "rt", "capi"];

/// Crates that take time and bytes as arguments and give actions back, so that one code runs on a NIC, in virtual time
/// and in a test.
const NO_OUTSIDE: [&str; 5] = ["units", "wire", "pubsub", "calculus", "sim"];

/// What those do not say.
const OUTSIDE: [&str; 9] = [
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "Instant::now",
    "SystemTime",
    "println!",
    "print!(",
];

/// A file gets hard to read here …
const LONG_LINES: usize = 500;
/// … and is refused here.
const TOO_LONG_LINES: usize = 600;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// To be mended.
    pub(crate) findings: Vec<String>,
    /// Worth knowing.
    pub(crate) notes: Vec<String>,
}

/// Looks through the sources and manifests below `root`.
pub(crate) fn look(root: &Path, members: &[Member]) -> Report {
    let mut report = Report::default();
    for member in members.iter().filter(|member| !MAY_BE_UNSAFE.contains(&member.name.as_str())) {
        for path in &member.roots {
            let text = read(path, root, &mut report);
            if !text.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]") {
                report.findings.push(format!("{}: #![forbid(unsafe_code)] is missing", shown(path, root)));
            }
        }
    }
    for path in files_below(root) {
        let text = read(&path, root, &mut report);
        let name = shown(&path, root);
        if path.extension().is_some_and(|extension| extension == "rs") {
            let lines = text.lines().count();
            if lines > TOO_LONG_LINES {
                report.findings.push(format!("{name}: {lines} lines; more than {TOO_LONG_LINES} are refused"));
            } else if lines > LONG_LINES {
                report.notes.push(format!("{name}: {lines} lines; above {LONG_LINES} a file wants to be two"));
            }
            let tests = name.ends_with("/tests.rs");
            if !tests && NO_OUTSIDE.iter().any(|member| name.starts_with(&format!("crates/{member}/src/"))) {
                let words = outside_words(&text);
                report.findings.extend(words.into_iter().map(|(line, word)| {
                    format!(
                        "{name}:{line}: {word}: this crate takes time and bytes as arguments and touches nothing else"
                    )
                }));
            }
        } else {
            let unexplained = dependencies_without_reason(&text);
            report.findings.extend(unexplained.into_iter().map(|(line, dependency)| {
                format!("{name}:{line}: {dependency}: a dependency says why it is there, in a comment on its line")
            }));
        }
    }
    report
}

fn read(path: &Path, root: &Path, report: &mut Report) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| {
        report.findings.push(format!("{}: {error}", shown(path, root)));
        String::new()
    })
}

fn shown(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

/// Rust sources and manifests, in a fixed order.
fn files_below(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.join("Cargo.toml")];
    let mut folders = vec![root.join("crates"), root.join("xtask")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                if entry.file_name() != "target" {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") || path.ends_with("Cargo.toml") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Line and word of what reaches outside, up to the tests at a file's end; comments may name it.
fn outside_words(text: &str) -> Vec<(usize, &'static str)> {
    let code = text.lines().zip(1..).take_while(|(line, _)| line.trim() != "#[cfg(test)]");
    code.filter_map(|(line, number)| {
        let code = line.split("//").next().unwrap_or_default();
        OUTSIDE.iter().find(|word| code.contains(**word)).map(|word| (number, *word))
    })
    .collect()
}

/// Line and name of dependencies on other people's crates that have no comment, neither on their line nor above it.
fn dependencies_without_reason(manifest: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_dependencies = false;
    let mut above = "";
    for (line, number) in manifest.lines().zip(1..) {
        let text = line.trim();
        if let Some(table) = text.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            in_dependencies = table.ends_with("dependencies");
        } else if in_dependencies
            && !line.starts_with(char::is_whitespace)
            && let Some((name, value)) = text.split_once('=')
        {
            let explained = text.starts_with('#') || value.contains('#') || above.starts_with('#');
            let explained_elsewhere = value.contains("path =") || text.contains("workspace = true");
            if !explained && !explained_elsewhere {
                found.push((number, name.trim().to_owned()));
            }
        }
        above = text;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_is_explained_on_its_line_or_above() {
        let manifest = "\
[package]
name = \"x\"

[dependencies]
units.workspace = true
sim = { path = \"../sim\" }
serde = \"1\" # the form of results
# exact bounds
num = { version = \"0.4\", features = [
    \"std\",
] }
bare = \"2\"

[dev-dependencies]
tempfile = \"3\"

[features]
fast = []
";
        let found = dependencies_without_reason(manifest);
        assert_eq!(found, [(12, "bare".to_owned()), (15, "tempfile".to_owned())]);
    }

    #[test]
    fn comments_and_tests_may_name_the_outside() {
        let text =
            "// std::fs is not used\nlet a = 1; // println!\nuse std::env;\n#[cfg(test)]\nmod tests { use std::fs; }\n";
        assert_eq!(outside_words(text), [(3, "std::env")]);
    }
}
