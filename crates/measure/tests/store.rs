//! Run folders: what is written is read back, what is damaged is said.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Exchange, Fate, scenario};
use downbeat_measure::{FrameRow, ResultsError, RunFile, read_run, write_run};
use scenario::Scenario;

fn example() -> (Scenario, RunFile, Vec<FrameRow>) {
    let mut scenario = scenario(1);
    scenario.source = "# as read\nname = \"line\"\n".to_owned();
    let exchange = Exchange::run(3_000, |counter| if counter % 100 == 0 { Fate::LostOut } else { Fate::Fine });
    let rows = exchange.observe(&scenario).rows;
    (scenario.clone(), exchange.summarise(&scenario), rows)
}

fn written(dir: &Path) -> (Scenario, RunFile, Vec<FrameRow>) {
    let (scenario, run, rows) = example();
    write_run(dir, &scenario, &run, &rows).unwrap();
    (scenario, run, rows)
}

#[test]
fn a_run_comes_back_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("runs/line-1");
    let (scenario, run, rows) = written(&folder);
    assert_eq!(read_run(&folder).unwrap(), (run, rows, scenario.source));
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["frames.parquet", "run.json", "scenario.toml"]);
}

#[test]
fn a_run_without_rows_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let (scenario, run, _) = example();
    write_run(dir.path(), &scenario, &run, &[]).unwrap();
    assert!(read_run(dir.path()).unwrap().1.is_empty());
}

#[test]
fn equal_runs_are_equal_bytes() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    dirs.iter().for_each(|dir| drop(written(dir.path())));
    for name in ["run.json", "frames.parquet", "scenario.toml"] {
        let [a, b] = dirs.each_ref().map(|dir| fs::read(dir.path().join(name)).unwrap());
        assert!(a == b, "{name}");
    }
}

#[test]
fn the_form_has_the_names_of_the_design() {
    let (_, run, _) = example();
    let value = serde_json::to_value(&run).unwrap();
    assert_eq!(value["format"], "downbeat/run/1");
    assert_eq!(value["kind"], "simulated");
    let stream = &value["streams"][0];
    // Thirty were lost, the last of them so late that it may be under way.
    assert_eq!(stream["loss"]["dbL"], 29);
    assert!(stream["round_trip"]["wire"]["p99_9"].is_i64() && stream["jitter"]["spacing_error"]["p99_99"].is_i64());
    // Not measured is absent, not null and not zero.
    assert!(stream["counters"].get("missed_at_reader").is_none());
    assert!(value.get("hosts").is_none());
}

#[test]
fn a_cut_file_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path());
    for name in ["frames.parquet", "run.json"] {
        let path = dir.path().join(name);
        let whole = fs::read(&path).unwrap();
        let lengths =
            (0..16).chain((16..whole.len() - 2).step_by(whole.len() / 40)).chain(whole.len() - 9..whole.len() - 2);
        for length in lengths {
            fs::write(&path, &whole[..length]).unwrap();
            let error = read_run(dir.path()).unwrap_err();
            assert!(matches!(error, ResultsError::Broken { .. }), "{length} of {}: {error}", whole.len());
            let text = error.to_string();
            assert!(text.contains(name) && text.contains("cut short or damaged"), "{text}");
        }
        fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn damaged_rows_never_panic() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path());
    let path = dir.path().join("frames.parquet");
    let whole = fs::read(&path).unwrap();
    for position in (0..whole.len()).step_by(whole.len() / 200) {
        let mut damaged = whole.clone();
        damaged[position] ^= 0x5a;
        fs::write(&path, &damaged).unwrap();
        let _ = read_run(dir.path());
    }
}

#[test]
fn missing_and_foreign_files_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let told = || read_run(folder).unwrap_err().to_string();
    assert!(told().contains("run.json: not found"));
    written(folder);
    let whole = fs::read_to_string(folder.join("run.json")).unwrap();
    fs::write(folder.join("run.json"), whole.replace("downbeat/run/1", "downbeat/run/2")).unwrap();
    assert!(told().contains("names format \"downbeat/run/2\", expected \"downbeat/run/1\""), "{}", told());
    fs::write(folder.join("run.json"), "{}").unwrap();
    assert!(told().contains("names no format"));
    fs::write(folder.join("run.json"), whole.replace("\"name\": \"flow1\"", "\"name\": \"other\"")).unwrap();
    assert!(told().contains("stream \"flow1\""), "{}", told());
    fs::write(folder.join("run.json"), whole).unwrap();
    fs::write(folder.join("scenario.toml"), "changed").unwrap();
    assert!(told().contains("scenario.toml: its SHA-256"), "{}", told());
    fs::remove_file(folder.join("frames.parquet")).unwrap();
    fs::write(folder.join("scenario.toml"), example().0.source).unwrap();
    assert!(told().contains("frames.parquet: not found"), "{}", told());
}

/// Runs this test binary again on a file system of 64 kB in a mount namespace of its own.
#[test]
fn a_full_disk_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=64k none \"$1\" || exit 77; \
                  DOWNBEAT_SMALL_DISK=\"$1\" \"$2\" --exact on_a_small_disk --ignored --nocapture";
    let binary = std::env::current_exe().unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script, "sh"])
        .args([dir.path(), &binary])
        .output();
    match output {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(text.contains("1 passed"), "{text}");
        }
        Ok(output) if output.status.code() == Some(101) => {
            panic!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
        }
        other => {
            let required = std::env::var("DOWNBEAT_REQUIRE_ALL").is_ok_and(|value| value == "1");
            assert!(!required, "no small file system can be mounted here: {other:?}");
            println!("SKIP a_full_disk_is_told: no small file system can be mounted here");
        }
    }
}

#[test]
#[ignore = "run by a_full_disk_is_told on a file system of 64 kB"]
fn on_a_small_disk() {
    let Some(dir) = std::env::var_os("DOWNBEAT_SMALL_DISK") else { return };
    let dir = Path::new(&dir);
    let (scenario, run, rows) = example();
    let error = write_run(dir, &scenario, &run, &rows).unwrap_err();
    assert!(matches!(error, ResultsError::DiskFull { .. }), "{error}");
    assert!(error.to_string().contains("the disk is full"));
    assert!(!dir.join("run.json").exists() && !dir.join("frames.parquet.part").exists());
}
