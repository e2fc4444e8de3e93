//! `--wake`: values that are explained, and clocks that are missing or cannot do it.

mod common;

use std::path::Path;
use std::process::Output;

use common::{can_run, downbeat, namespaces, run_json, scenario, stderr};

fn run(scenario: &Path, out: &Path, options: &[&str]) -> Output {
    let arguments = ["run", scenario.to_str().unwrap(), "--out", out.to_str().unwrap(), "--cycles", "300"];
    downbeat(&[&arguments[..], &["--no-control"], options].concat())
}

#[track_caller]
fn refused(output: &Output, code: i32, words: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn a_value_that_is_none_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (scenario(folder.path(), "two-hosts", "t-wake-bad"), folder.path().join("out"));
    for (value, words) in [
        ("tick", "expected monotonic or ptp:DEVICE, for example ptp:/dev/ptp0"),
        ("ptp:", "a device or a network interface expected"),
        ("ptp:/dev/ptp0:pin=1", "there is no `pin`: expected out, in, out-channel or in-channel"),
        ("ptp:/dev/ptp0:out=SDP0", "a number expected"),
        ("ptp:/dev/ptp0:out=1,in=1", "join two by a wire"),
    ] {
        refused(&run(&file, &out, &["--wake", value]), 2, &[words]);
        let role = downbeat(&["publish", file.to_str().unwrap(), "--wake", value]);
        refused(&role, 2, &[words]);
    }
    let spinning = run(&file, &out, &["--wake", "ptp:/dev/ptp0", "--wait", "spin"]);
    refused(&spinning, 2, &["a thread that never sleeps is not woken", "mend:"]);
    let virtual_time = run(&file, &out, &["--wake", "ptp:/dev/ptp0", "--in", "kernel-lab"]);
    refused(&virtual_time, 2, &["--wake ptp:/dev/ptp0 with --in kernel-lab", "mend:"]);
    assert!(!out.exists());
}

#[test]
fn a_clock_that_is_not_there_is_refused_before_anything_is_made() {
    if !can_run("a_clock_that_is_not_there") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (scenario(folder.path(), "two-hosts", "t-wake-no"), folder.path().join("out"));
    for (wake, words) in [
        (
            "ptp:/dev/ptp987654",
            &["hardware clock /dev/ptp987654: No such file", "mend: name a clock that there is"][..],
        ),
        ("ptp:/dev/null", &["hardware clock /dev/null", "this is no PTP hardware clock", "mend:"]),
        ("ptp:lo", &["interface lo: it has no PTP hardware clock", "mend: name a clock that there is"]),
        ("ptp:no-such-if:out=0,in=1", &["--wake ptp:no-such-if:out=0,in=1: interface no-such-if: there is no such"]),
    ] {
        refused(&run(&file, &out, &["--wake", wake]), 3, words);
        assert!(!out.exists() && namespaces("t-wake-no").is_empty(), "{wake}");
    }
}

#[test]
fn a_run_says_what_woke_its_threads() {
    if !can_run("a_run_says_what_woke_its_threads") {
        return;
    }
    let _alone = common::alone();
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (scenario(folder.path(), "two-hosts", "t-wake"), folder.path().join("out"));
    let output = run(&file, &out, &["--wake", "monotonic"]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let machine = &run_json(&out)["machine"];
    assert_eq!(machine["wake"], "monotonic");
    assert!(machine.get("wake_clock").is_none() && machine.get("wake_events").is_none(), "{machine}");
}

/// The laboratory's network cards have mock clocks, which put nothing out and stamp nothing.
#[test]
fn a_clock_without_events_is_refused_with_what_it_lacks() {
    let script = r#"
echo "1 1" > /sys/bus/netdevsim/new_device
card=$(ls /sys/bus/netdevsim/devices/netdevsim1/net); ip link set $card up
[ -e /dev/ptp0 ] || mknod /dev/ptp0 c $(sed 's/:/ /' /sys/class/ptp/ptp0/dev)
for wake in ptp:/dev/ptp0 ptp:$card; do
    ./downbeat publish roles.toml --interface $card --duration 1s --no-control --out out --wake $wake; echo "code $?"
    [ -e out ] && echo "WRONG: a folder was made"
done
true
"#;
    let text = common::scenario_text("two-hosts", "roles");
    let Some(ended) = common::lab::lab("a clock without events", script, &[("roles", text)]) else { return };
    let told = format!("{}\n{}", ended.stdout, ended.stderr);
    assert_eq!(ended.stdout.matches("code 3").count(), 2, "{told}");
    let lacks = "hardware clock /dev/ptp0: it has 0 periodic outputs and 0 external timestamps";
    assert_eq!(told.matches(lacks).count(), 2, "{told}");
    common::lab::holds(&ended, &["mend: take a network card whose clock has both", "i210, i225 and i226"]);
}

/// The device's calls against a real kernel, as far as a mock clock has them.
#[test]
fn a_real_clock_is_compared_and_its_queue_waited_on() {
    let Some(kernel) = kernel_lab::testing::kernel("a real clock") else { return };
    let script = r#"
echo "1 1" > /sys/bus/netdevsim/new_device
[ -e /dev/ptp0 ] || mknod /dev/ptp0 c $(sed 's/:/ /' /sys/class/ptp/ptp0/dev)
./inside --exact inside_the_laboratory --ignored --nocapture
"#;
    let inside = std::env::current_exe().unwrap();
    let ended = kernel_lab::Script::new(script).program("inside", &inside).run(&kernel).unwrap();
    let told = format!("{}\n{}", ended.stdout, ended.stderr);
    assert_eq!(ended.code, 0, "{told}");
    assert!(told.contains("1 passed"), "{told}");
}

#[test]
#[ignore = "started by a_real_clock_is_compared in the kernel laboratory"]
fn inside_the_laboratory() {
    use rt::events::Events;
    let path = Path::new("/dev/ptp0");
    let clock = rt::ptp::HardwareClock::open(path).unwrap();
    let (first, second) = (clock.ahead().unwrap(), clock.ahead().unwrap());
    println!("{first:?} {second:?}");
    // It counts from its making, TAI from 1970.
    let hour = units::Nanos::from_millis(3_600_000);
    assert!(rt::clock::now() + first.by < units::Tai(0) + hour, "{first:?}");
    assert!(first.error >= units::Nanos::ZERO && first.error < units::Nanos::from_millis(1), "{first:?}");
    let apart = (second.by - first.by).abs();
    assert!(apart <= first.error + second.error + units::Nanos::from_micros(1), "{first:?} {second:?}");
    assert!(clock.pin(0).unwrap_err().to_string().contains("it has 0"));
    let mut queue = rt::ptp::EventQueue::open(path, 0).unwrap();
    assert!(queue.is_apart(), "Linux 6.7 and later");
    let (began, patience) = (rt::clock::monotonic(), units::Nanos(1_500_000));
    assert_eq!(queue.next(patience).unwrap(), None);
    assert!(rt::clock::monotonic() - began >= patience);
    assert_eq!(queue.ahead().unwrap().by.0.signum(), first.by.0.signum());
}
