//! `cargo xtask papers`: the tables of docs/papers.md, from the tests that measure them.

use std::collections::HashMap;
use std::process::ExitCode;

use crate::workspace::{cargo, root};

const PAGE: &str = "docs/papers.md";

/// Prints what the tests print and compares the page with it; with `--write` brings the page up to date.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let write = match arguments {
        [] => false,
        [only] if only == "--write" => true,
        _ => {
            eprintln!("cargo xtask papers takes --write alone: bring {PAGE} up to date");
            return ExitCode::from(2);
        }
    };
    match compared(write) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn compared(write: bool) -> Result<bool, String> {
    let mut command = cargo();
    command.args(["test", "--quiet", "--package", "downbeat-cli", "--test", "lab", "--", "papers::", "--nocapture"]);
    // Without the laboratory's kernel there is nothing to print.
    command.arg("--test-threads=1").env("DOWNBEAT_REQUIRE_ALL", "1").env_remove("DOWNBEAT_WITHOUT_KERNEL_LAB");
    let output = command.output().map_err(|error| format!("cargo test did not start: {error}"))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    print!("{printed}");
    if !output.status.success() {
        return Err(format!("{}\nthe page was left as it is", String::from_utf8_lossy(&output.stderr)));
    }
    let path = root().join(PAGE);
    let page = std::fs::read_to_string(&path).map_err(|error| format!("{PAGE}: {error}"))?;
    let fresh = renewed(&page, &printed)?;
    if fresh == page {
        println!("{PAGE} says so");
    } else if write {
        std::fs::write(&path, fresh).map_err(|error| format!("{PAGE}: {error}"))?;
        println!("{PAGE} is up to date now; read whether its text still holds");
    } else {
        println!("{PAGE} has other figures; mend: cargo xtask papers --write");
        return Ok(false);
    }
    Ok(true)
}

/// The page with each table that was printed in place of its own of the same head.
fn renewed(page: &str, printed: &str) -> Result<String, String> {
    let mut tables: HashMap<&str, Vec<&str>> = blocks(printed)
        .into_iter()
        .filter(|block| block.len() > 2 && block[1].starts_with("|---"))
        .map(|block| (block[0], block))
        .collect();
    let mut lines = Vec::new();
    for block in blocks(page) {
        let fresh = tables.remove(block[0]).unwrap_or(block);
        lines.extend(fresh);
    }
    if let Some(head) = tables.into_keys().next() {
        return Err(format!("{PAGE} has no table with this head, give it one:\n{head}"));
    }
    Ok(lines.into_iter().map(|line| format!("{line}\n")).collect())
}

/// Tables as a whole, and every other line by itself.
fn blocks(text: &str) -> Vec<Vec<&str>> {
    let mut found: Vec<Vec<&str>> = Vec::new();
    for line in text.lines() {
        match found.last_mut().filter(|block| line.starts_with('|') && block[0].starts_with('|')) {
            Some(block) => block.push(line),
            None => found.push(vec![line]),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE_TEXT: &str = "# Head\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nText.\n\n| c |\n|---|\n| 3 |\n";

    #[test]
    fn tables_are_found_by_their_heads() {
        let printed = "test one ... \nTitle\n\n| a | b |\n|---|---|\n| 7 | 8 |\n| 9 | 9 |\n\nok\n";
        let fresh = renewed(PAGE_TEXT, printed).unwrap();
        assert_eq!(fresh, PAGE_TEXT.replace("| 1 | 2 |", "| 7 | 8 |\n| 9 | 9 |"));
        assert_eq!(renewed(PAGE_TEXT, "").unwrap(), PAGE_TEXT);
    }

    #[test]
    fn a_table_without_a_place_is_an_error() {
        let error = renewed(PAGE_TEXT, "| d |\n|---|\n| 7 |\n").unwrap_err();
        assert!(error.contains("| d |"), "{error}");
    }
}
