//! Scripts in the laboratory, with the real kernel. Without it the tests are left out in words, and fail where all are
//! required.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use downbeat_kernel_lab::testing::kernel;
use downbeat_kernel_lab::{Kernel, KernelLabError, Script};

fn run(kernel: &Kernel, text: &str) -> downbeat_kernel_lab::Ended {
    Script::new(text).run(kernel).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn exit_codes_and_what_was_printed_come_out() {
    let Some(kernel) = kernel("exit codes") else { return };
    for code in [0_u8, 1, 3, 124, 255] {
        let ended = run(&kernel, &format!("echo out $KERNEL_LAB; echo err >&2; exit {code}"));
        assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (code, "out 1\n", "err\n"));
    }
    assert_eq!(run(&kernel, "kill -9 $$").code, 137);
    assert_eq!(run(&kernel, "#!/no/such/shell\n").code, 127, "what cannot be started");
    let version = run(&kernel, "uname -r").stdout;
    assert_eq!(version.trim(), kernel.release());
}

#[test]
fn files_go_in_and_out_and_the_host_s_stay_as_they_are() {
    let Some(kernel) = kernel("files") else { return };
    // Where anybody may write, so that only the laboratory's own root file system stands in the way.
    let host = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(host.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let file = host.path().join("file");
    fs::write(&file, "as it was").unwrap();
    let script = format!(
        "cat in; tr a-z A-Z < in > out; echo x > {0}; mount -o remount,rw /; echo x > /etc/of-the-laboratory; echo x > {0}2; true",
        file.display()
    );
    let ended = Script::new(script).file("in", "some words").run(&kernel).unwrap();
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "some words"));
    assert_eq!(fs::read(ended.folder().join("out")).unwrap(), b"SOME WORDS");
    assert_eq!(fs::read(&file).unwrap(), b"as it was");
    assert!(!Path::new("/etc/of-the-laboratory").exists());
    // As root the kernel runs as nobody; an ordinary user's own files are only kept by the mount.
    if nix::unistd::geteuid().is_root() {
        assert_eq!(fs::read_dir(host.path()).unwrap().count(), 1);
    }
    let folder = ended.folder().to_owned();
    drop(ended);
    assert!(!folder.exists(), "the folder goes");
    let refused = Script::new("true").file("../out", "").run(&kernel).unwrap_err();
    assert!(refused.to_string().contains("plain file name"), "{refused}");
}

/// What the crate that renders queueing disciplines is checked with.
#[test]
fn a_batch_of_tc_is_accepted_and_reads_back_equal() {
    let Some(kernel) = kernel("tc") else { return };
    let batch = "qdisc replace dev va parent root handle 100: mqprio num_tc 4 map 3 3 1 0 3 3 3 2 3 3 3 3 3 3 3 3 \
                 queues 1@0 1@1 1@2 1@3 hw 0\n\
                 qdisc replace dev va parent 100:1 handle 101: cbs idleslope 98688 sendslope -901312 hicredit 153 \
                 locredit -1389 offload 0\n\
                 qdisc replace dev va parent 100:2 handle 102: etf clockid CLOCK_TAI delta 200000\n";
    let script = "set -e\n\
                  echo 1000 > /sys/module/veth/parameters/speed\n\
                  ip link add va numtxqueues 4 numrxqueues 4 type veth peer name vb numtxqueues 4 numrxqueues 4\n\
                  tc -batch batch\n\
                  tc -j qdisc show dev va\n";
    let ended = Script::new(script).file("batch", batch).run(&kernel).unwrap();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for part in [
        "\"map\":[3,3,1,0,3,3,3,2,3,3,3,3,3,3,3,3]",
        "\"hicredit\":153,\"locredit\":-1389,\"sendslope\":-901312,\"idleslope\":98688,\"offload\":0",
        "\"clockid\":\"TAI\",\"delta\":200000",
    ] {
        assert!(ended.stdout.contains(part), "{part} in {}", ended.stdout);
    }
    let wrong = Script::new(script).file("batch", batch.replace("num_tc 4", "num_tc 5")).run(&kernel).unwrap();
    assert_ne!(wrong.code, 0, "what the kernel refuses is refused here");
    assert!(wrong.stderr.contains("batch:1"), "{}", wrong.stderr);
}

#[test]
fn virtual_time_begins_the_same_and_passes_in_no_time() {
    let Some(kernel) = kernel("virtual time") else { return };
    let began = std::time::Instant::now();
    let clocks = || run(&kernel, "date -u +%s.%N; sleep 3600; date -u +%s.%N; ls /proc | grep -c '^[0-9]'");
    let (first, second) = (clocks().stdout, clocks().stdout);
    assert_eq!(first, second);
    assert!(first.starts_with("1700000000."), "{first}");
    assert!(first.lines().nth(1).is_some_and(|line| line.starts_with("1700003600.")), "{first}");
    assert!(began.elapsed() < Duration::from_secs(600), "two hours of virtual time");
}

#[test]
fn what_spins_is_stopped_after_its_time() {
    let Some(kernel) = kernel("a spinning script") else { return };
    let error = Script::new("echo begun; while :; do :; done").limit(Duration::from_secs(3)).run(&kernel).unwrap_err();
    assert!(matches!(error, KernelLabError::TooLong { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("after 3 s") && text.contains("spins") && text.contains("begun"), "{text}");
}

#[test]
fn it_can_be_stopped_from_outside() {
    let Some(kernel) = kernel("stopping") else { return };
    let flag = Arc::new(AtomicBool::new(false));
    let setting = thread::spawn({
        let flag = Arc::clone(&flag);
        move || {
            thread::sleep(Duration::from_millis(700));
            flag.store(true, Ordering::Relaxed);
        }
    });
    let error = Script::new("while :; do :; done").stop_when(flag).run(&kernel).unwrap_err();
    assert!(matches!(error, KernelLabError::Interrupted), "{error}");
    setting.join().unwrap();
}

#[test]
fn too_little_memory_is_told() {
    let Some(kernel) = kernel("little memory") else { return };
    for mebibytes in [1, 14] {
        let error = Script::new("true").memory_mib(mebibytes).run(&kernel).unwrap_err();
        assert!(error.to_string().contains("memory"), "{mebibytes} MiB: {error}");
    }
    let error = Script::new("true").memory_mib(u32::MAX).run(&kernel).unwrap_err();
    assert!(error.to_string().contains("TMPDIR"), "{error}");
}

#[test]
fn the_shell_s_form_does_the_same() {
    let Some(_) = kernel("kernel-lab/run") else { return };
    let command = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel-lab/run");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("words"), "some words\n").unwrap();
    fs::write(folder.path().join("test"), "cat words; id -u; echo err >&2; echo kept > kept; exit 7\n").unwrap();
    let keep = folder.path().join("keep");
    let output = Command::new(&command)
        .args([folder.path().join("test"), folder.path().join("words")])
        .env("KEEP", &keep)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("some words\n0\n".into(), "err\n".into()));
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(fs::read(keep.join("kept")).unwrap(), b"kept\n");
    let wrong = Command::new(&command).arg("/no/such/script").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    let unbuilt = Command::new(&command)
        .arg(folder.path().join("test"))
        .env("DOWNBEAT_KERNEL_LAB", folder.path().join("none"))
        .output()
        .unwrap();
    assert_eq!(unbuilt.status.code(), Some(3));
    assert!(text(&unbuilt.stderr).contains("make kernel-lab"), "{}", text(&unbuilt.stderr));
}
