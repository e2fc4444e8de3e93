//! The golden scenarios, and programs that the tests may lack.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use downbeat_tsn::{Plan, plan};
use scenario::Scenario;

/// Where they are.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Each scenario of the folder with the hosts that its head names.
pub(crate) fn scenarios() -> Vec<(String, Scenario, Vec<String>)> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    paths.sort();
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let hosts = text.lines().find_map(|line| line.strip_prefix("# hosts: ")).expect("a line `# hosts: …`");
        let hosts = hosts.split(", ").map(str::to_owned).collect();
        let scenario =
            scenario::read(&text, &path.display().to_string()).unwrap_or_else(|why| panic!("{}", why.render()));
        (path.file_stem().unwrap().to_string_lossy().into_owned(), scenario, hosts)
    };
    paths.iter().map(read).collect()
}

/// The plan of each of those hosts.
pub(crate) fn plans() -> Vec<(String, Plan)> {
    scenarios()
        .into_iter()
        .flat_map(|(name, scenario, hosts)| {
            hosts.into_iter().map(move |host| {
                let id = scenario.host_named(&host).unwrap_or_else(|| panic!("{name} has no host {host}"));
                (format!("{name}.{host}"), plan(&scenario, id))
            })
        })
        .collect()
}

/// Whether a program is there. With `DOWNBEAT_REQUIRE_ALL=1` it has to be.
pub(crate) fn has(program: &str, probe: &str) -> bool {
    let there = Command::new(program).arg(probe).output().is_ok();
    require(there, &format!("there is no {program}"))
}

/// Gives `met` back; says why a test is left out, or fails where all is required.
pub(crate) fn require(met: bool, why: &str) -> bool {
    let required = std::env::var_os("DOWNBEAT_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(met || !required, "DOWNBEAT_REQUIRE_ALL is set, and {why}");
    if !met {
        eprintln!("left out: {why}");
    }
    met
}
