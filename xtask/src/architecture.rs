//! The picture of the crates in ARCHITECTURE.md against the crates as they are.
//!
//! The picture is a fenced block that begins with "```crates". A line is a crate and what it is built from;
//! behind a bar stands what only its tests use. A blank line ends a layer:
//!
//! ```text
//! sim      → units pubsub scenario measure | calculus
//! calculus → units scenario
//!
//! scenario → units pubsub
//! ```
//!
//! Arrows point to a lower layer. Tests may look sideways, never upwards.

use std::collections::{BTreeMap, BTreeSet};

use crate::workspace::Member;

const FENCE: &str = "```crates";

/// A crate as drawn.
#[derive(Debug, PartialEq, Eq)]
struct Drawn {
    /// 0 is the top.
    layer: usize,
    line: usize,
    dependencies: BTreeSet<String>,
    test_dependencies: BTreeSet<String>,
}

type Picture = BTreeMap<String, Drawn>;

/// Everything in which `page` (the text of ARCHITECTURE.md) and `members` differ, one sentence each.
pub(crate) fn differences(page: &str, members: &[Member]) -> Vec<String> {
    match parse(page) {
        Ok(picture) => {
            let mut found = drawn_upwards(&picture);
            found.extend(drawn_wrongly(&picture, members));
            found
        }
        Err(error) => vec![error],
    }
}

fn parse(page: &str) -> Result<Picture, String> {
    let mut lines = page.lines().zip(1usize..).skip_while(|(line, _)| line.trim_end() != FENCE).skip(1).peekable();
    if lines.peek().is_none() {
        return Err(format!("ARCHITECTURE.md has no block that begins with {FENCE}"));
    }
    let mut picture = Picture::new();
    let mut layer = 0;
    let mut layer_is_empty = true;
    for (line, number) in lines {
        let text = line.trim();
        if text == "```" {
            return Ok(picture);
        }
        if text.is_empty() {
            layer += usize::from(!layer_is_empty);
            layer_is_empty = true;
            continue;
        }
        let Some((name, targets)) = text.split_once('→') else {
            return Err(format!(
                "ARCHITECTURE.md:{number}: expected \"crate → what it is built from\", found \"{text}\""
            ));
        };
        let (built, tested) = targets.split_once('|').unwrap_or((targets, ""));
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        let drawn = Drawn { layer, line: number, dependencies: words(built), test_dependencies: words(tested) };
        let name = name.trim();
        if let Some(first) = picture.insert(name.to_owned(), drawn) {
            return Err(format!(
                "ARCHITECTURE.md:{number}: {name} is drawn a second time, first in line {}",
                first.line
            ));
        }
        layer_is_empty = false;
    }
    Err(format!("ARCHITECTURE.md: the block that begins with {FENCE} does not end"))
}

fn drawn_upwards(picture: &Picture) -> Vec<String> {
    let mut found = Vec::new();
    for (name, drawn) in picture {
        let mut complain = |target: &String, why: &str| {
            found.push(format!("ARCHITECTURE.md:{}: {name} → {target}: {why}", drawn.line));
        };
        for target in &drawn.dependencies {
            match picture.get(target) {
                None => complain(target, "there is no such crate in the picture"),
                Some(below) if below.layer <= drawn.layer => {
                    complain(target, "an arrow points to a lower layer; what both need belongs further down");
                }
                Some(_) => {}
            }
        }
        for target in &drawn.test_dependencies {
            match picture.get(target) {
                None => complain(target, "there is no such crate in the picture"),
                Some(other) if other.layer < drawn.layer => complain(target, "not even tests look upwards"),
                Some(_) => {}
            }
        }
    }
    found
}

fn drawn_wrongly(picture: &Picture, members: &[Member]) -> Vec<String> {
    let mut found = Vec::new();
    for member in members {
        let name = &member.name;
        let Some(drawn) = picture.get(name) else {
            found.push(format!("ARCHITECTURE.md does not draw the crate {name}"));
            continue;
        };
        let line = drawn.line;
        let mut compare = |true_arrows: &BTreeSet<String>, drawn_arrows: &BTreeSet<String>, kind: &str| {
            for target in true_arrows.difference(drawn_arrows) {
                found.push(format!("ARCHITECTURE.md:{line}: {name} → {target} is missing: Cargo.toml has it{kind}"));
            }
            for target in drawn_arrows.difference(true_arrows) {
                found.push(format!("ARCHITECTURE.md:{line}: {name} → {target} is drawn, Cargo.toml lacks it{kind}"));
            }
        };
        compare(&member.dependencies, &drawn.dependencies, "");
        compare(&member.test_dependencies, &drawn.test_dependencies, " under dev-dependencies");
    }
    for (name, drawn) in picture {
        if !members.iter().any(|member| member.name == *name) {
            found.push(format!("ARCHITECTURE.md:{}: {name} is drawn, there is no such crate", drawn.line));
        }
    }
    found
}

/// Paths of the repository that `page` names in backquotes and that do not exist, one sentence each.
pub(crate) fn broken_paths(page: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (line, number) in page.lines().zip(1..) {
        // Between the first and the second backquote, the third and the fourth, …
        for quoted in line.split('`').skip(1).step_by(2) {
            let ours = quoted.starts_with("crates/") || quoted.starts_with("xtask/");
            if ours && !exists(quoted) {
                found.push(format!("ARCHITECTURE.md:{number}: {quoted} does not exist"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, dependencies: &[&str], test_dependencies: &[&str]) -> Member {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Member {
            name: name.to_owned(),
            dependencies: set(dependencies),
            test_dependencies: set(test_dependencies),
            roots: Vec::new(),
        }
    }

    fn page(block: &str) -> String {
        format!("# Title\n\n```text\nnot → this\n```\n\n```crates\n{block}```\n\nMore.\n")
    }

    const BLOCK: &str =
        "sim      → units scenario | calculus\ncalculus → units scenario\n\nscenario → units\n\nunits →\n";

    fn true_members() -> Vec<Member> {
        vec![
            member("units", &[], &[]),
            member("scenario", &["units"], &[]),
            member("calculus", &["units", "scenario"], &[]),
            member("sim", &["units", "scenario"], &["calculus"]),
        ]
    }

    #[test]
    fn a_true_picture_passes() {
        assert_eq!(differences(&page(BLOCK), &true_members()), Vec::<String>::new());
    }

    #[test]
    fn layers_are_counted_from_the_top() {
        let picture = parse(&page("a → b\n\n\n\nb →\n")).unwrap();
        assert_eq!((picture["a"].layer, picture["b"].layer), (0, 1));
        assert_eq!(picture["a"].line, 8);
    }

    #[test]
    fn a_missing_arrow_and_an_invented_one_are_found() {
        let mut members = true_members();
        members[1].dependencies.clear();
        members[2].dependencies.insert("wire".to_owned());
        let found = differences(&page(BLOCK), &members);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("scenario → units is drawn, Cargo.toml lacks it"), "{found:?}");
        assert!(found[1].contains("calculus → wire is missing"), "{found:?}");
    }

    #[test]
    fn a_crate_not_drawn_and_one_only_drawn_are_found() {
        let mut members = true_members();
        members.push(member("lab", &[], &[]));
        members.remove(3);
        let found = differences(&page(BLOCK), &members);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("does not draw the crate lab"));
        assert!(found[1].contains("sim is drawn, there is no such crate"));
    }

    #[test]
    fn sideways_is_refused_but_for_tests_and_upwards_always() {
        let sideways = page("sim → calculus\ncalculus →\n");
        let members = [member("sim", &["calculus"], &[]), member("calculus", &[], &[])];
        assert!(differences(&sideways, &members)[0].contains("points to a lower layer"));

        let upwards = page("sim →\n\nunits → | sim\n");
        let members = [member("sim", &[], &[]), member("units", &[], &["sim"])];
        assert!(differences(&upwards, &members)[0].contains("not even tests look upwards"));
    }

    #[test]
    fn paths_that_are_gone_are_found() {
        let page = "a `crates/wire/` and `crates/gone.rs`\n`frames.parquet`, `xtask/src/`";
        let found = broken_paths(page, |path| path == "crates/wire/");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("ARCHITECTURE.md:1: crates/gone.rs"));
        assert!(found[1].starts_with("ARCHITECTURE.md:2: xtask/src/"));
    }

    #[test]
    fn a_block_that_cannot_be_read_says_where() {
        assert!(parse("no block").unwrap_err().contains("no block that begins with"));
        assert!(parse("```crates\na → b\n").unwrap_err().contains("does not end"));
        assert!(parse("```crates\na b\n```\n").unwrap_err().contains("ARCHITECTURE.md:2"));
        assert!(parse("```crates\na →\na →\n```\n").unwrap_err().contains("second time"));
    }
}
