//! The workspace as cargo sees it: our crates, what they depend on, where their sources begin.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Our packages are called `downbeat-…`; within the repository the prefix says nothing.
const PREFIX: &str = "downbeat-";

/// The repository's folder.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the repository")
}

/// The cargo that started us, so that one toolchain does everything.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The Rust that `rust-toolchain.toml` pins for rustup; a distribution's cargo does not read that file.
pub(crate) fn pinned_rust() -> Option<String> {
    let text = std::fs::read_to_string(root().join("rust-toolchain.toml")).ok()?;
    let channel = text.lines().find_map(|line| line.trim().strip_prefix("channel")?.trim_start().strip_prefix('='))?;
    Some(channel.trim().trim_matches('"').to_owned())
}

/// One of our crates.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Member {
    /// Without prefix: `sim`.
    pub(crate) name: String,
    /// Names of our crates it is built from.
    pub(crate) dependencies: BTreeSet<String>,
    /// Names of our crates only its tests, examples and benches use.
    pub(crate) test_dependencies: BTreeSet<String>,
    /// `lib.rs` and `main.rs`: where a crate-wide attribute has to stand.
    pub(crate) roots: Vec<PathBuf>,
}

/// Asks cargo for the members.
pub(crate) fn members() -> Result<Vec<Member>, String> {
    let output = cargo()
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .output()
        .map_err(|error| format!("cargo metadata did not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    let metadata = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata printed something other than JSON: {error}"))?;
    Ok(from_metadata(&metadata))
}

fn from_metadata(metadata: &Value) -> Vec<Member> {
    let packages = array(&metadata["packages"]);
    let ours: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    packages
        .iter()
        .map(|package| {
            let mut member = Member { name: short(package["name"].as_str().unwrap_or_default()), ..Member::default() };
            for dependency in array(&package["dependencies"]) {
                let Some(name) = dependency["name"].as_str().filter(|name| ours.contains(name)) else { continue };
                let only_tests = dependency["kind"] == "dev";
                let set = if only_tests { &mut member.test_dependencies } else { &mut member.dependencies };
                set.insert(short(name));
            }
            for target in array(&package["targets"]) {
                let crate_wide = array(&target["kind"]).iter().any(|kind| kind == "lib" || kind == "bin");
                if let (true, Some(path)) = (crate_wide, target["src_path"].as_str()) {
                    member.roots.push(path.into());
                }
            }
            // Used by both: the drawing shows the stronger arrow.
            member.test_dependencies.retain(|name| !member.dependencies.contains(name));
            member
        })
        .collect()
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn short(package: &str) -> String {
    package.strip_prefix(PREFIX).unwrap_or(package).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_our_crates_count_and_the_prefix_goes() {
        let metadata = json!({ "packages": [
            { "name": "downbeat-units", "dependencies": [], "targets": [] },
            { "name": "downbeat-wire", "targets": [
                { "kind": ["lib"], "src_path": "/r/crates/wire/src/lib.rs" },
                { "kind": ["test"], "src_path": "/r/crates/wire/tests/golden.rs" },
              ], "dependencies": [
                { "name": "downbeat-units", "kind": null, "rename": "units" },
                { "name": "serde", "kind": null },
                { "name": "downbeat-units", "kind": "dev" },
              ] },
            { "name": "xtask", "targets": [], "dependencies": [{ "name": "downbeat-wire", "kind": "dev" }] },
        ] });
        let members = from_metadata(&metadata);
        assert_eq!(members[1].name, "wire");
        assert_eq!(members[1].dependencies, BTreeSet::from(["units".to_owned()]));
        assert!(members[1].test_dependencies.is_empty());
        assert_eq!(members[1].roots, [PathBuf::from("/r/crates/wire/src/lib.rs")]);
        assert_eq!(members[2].test_dependencies, BTreeSet::from(["wire".to_owned()]));
    }
}
