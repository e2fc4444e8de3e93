//! Traps of Linux, each in the kernel of the laboratory: by hand, where it is seen, and by a plan or a run of ours, where it is
//! not. `docs/traps.md` is the table of them. Where the laboratory is not built the tests are left out in words, and fail where
//! all are required.

mod boot;
mod gates;
mod queues;
mod runs;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::{downbeat, stderr, stdout};
use serde_json::Value;

/// What `downbeat check` says of a scenario.
#[derive(Debug)]
struct Checked {
    code: Option<i32>,
    rules: BTreeSet<String>,
}

impl Checked {
    fn says(&self, rule: &str) -> bool {
        self.rules.contains(rule)
    }

    fn refused(&self) -> bool {
        self.code == Some(2)
    }
}

/// Runs a command on a scenario of this text.
fn with(text: &str, command: &[&str], more: &[&str]) -> std::process::Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trap.toml");
    fs::write(&path, text).unwrap();
    downbeat(&[command, &[path.to_str().unwrap()], more].concat())
}

/// Checks a scenario that its reader takes.
#[track_caller]
fn checked(text: &str) -> Checked {
    let output = with(text, &["check"], &["--json"]);
    let form: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let findings = form["plan"]["findings"].as_array().unwrap_or_else(|| panic!("not read: {form:#}"));
    let rules = findings.iter().map(|finding| finding["rule"].as_str().unwrap().to_owned()).collect();
    Checked { code: output.status.code(), rules }
}

/// What the reader says of a scenario that it does not take.
#[track_caller]
fn refused_by_reader(text: &str) -> String {
    let output = with(text, &["check"], &[]);
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    stderr(&output)
}

/// The commands of `tc` for the writer of a scenario.
#[track_caller]
fn rendered(text: &str) -> String {
    let output = with(text, &["render"], &["--host", "pub", "--form", "tc"]);
    let all = stdout(&output);
    assert!(!all.is_empty(), "{}", stderr(&output));
    all.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}

/// Names of the tests of a file.
fn tests_of(text: &str) -> BTreeSet<String> {
    let behind = text.split("#[test]\n").skip(1).filter_map(|part| part.split_once("fn ")?.1.split_once('('));
    behind.map(|(name, _)| name.to_owned()).collect()
}

/// The page and the tests must not drift apart: every test that the page names is there, and the page names all of these.
#[test]
fn the_page_names_tests_that_exist_and_all_of_these() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let page = read(&root.join("docs/traps.md"));
    let mut named = BTreeSet::new();
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        // "`file.rs`: `test`, `test`; …" is the last column; without a folder the file is one of this crate's tests.
        let cell = line.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        for part in cell.split("; ").filter(|part| part.contains(".rs`")) {
            let (file, tests) = part.split_once(": ").unwrap_or_else(|| panic!("no test in {part}"));
            let file = file.trim_matches('`');
            let whole = if file.contains("/src/") || file.contains("/tests/") {
                file.to_owned()
            } else {
                format!("cli/tests/{file}")
            };
            let there = tests_of(&read(&root.join("crates").join(whole)));
            for test in tests.split(", ").map(|test| test.trim_matches('`')) {
                assert!(there.contains(test), "{file} has no test {test}; it has {there:?}");
                named.insert((file.to_owned(), test.to_owned()));
            }
        }
    }
    assert!(named.len() > 20, "{named:?}");
    for file in ["lab/traps/gates.rs", "lab/traps/queues.rs", "lab/traps/runs.rs"] {
        for test in tests_of(&read(&root.join("crates/cli/tests").join(file))) {
            assert!(named.contains(&(file.to_owned(), test.clone())), "docs/traps.md does not name {test} of {file}");
        }
    }
}
