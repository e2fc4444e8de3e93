use measure::PtpFile;

use super::*;

const GRANDMASTER: ClockIdentity = ClockIdentity([1; 8]);
const OWN: ClockIdentity = ClockIdentity([2; 8]);

fn observer(dir: &tempfile::TempDir, facts: &Facts) -> Observer {
    let options = Options {
        uds: "/nowhere".into(),
        domain: 0,
        poll: Nanos::from_millis(50),
        duration: None,
        rows: 1_000_000,
        dir: dir.path().into(),
    };
    Observer::new(&options, facts)
}

fn started() -> Facts {
    Facts { started: true, free_running: Some(false), stamps: None, log: true }
}

/// Seconds after the watch began, as a log stamps them.
fn stamp(observer: &Observer, seconds: i64) -> String {
    let at = observer.began + Nanos(seconds * 1_000_000_000);
    format!("{}.{:09}", at.0 / 1_000_000_000, at.0 % 1_000_000_000)
}

fn port(observer: &mut Observer, seconds: i64, words: &str) {
    let line = format!("ptp4l[{}]: port 1: {words}", stamp(observer, seconds));
    observer.line(&line);
}

fn sync(observer: &mut Observer, ingress: i64, offset: i64) {
    observer.answer(&Answer::TimeStatus { offset, ingress, followed: true, grandmaster: GRANDMASTER }).unwrap();
}

fn kinds(file: &PtpFile) -> Vec<&str> {
    file.events.iter().map(|event| event.kind.as_str()).collect()
}

#[test]
fn convergence_is_told_apart_and_samples_count_from_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = observer(&dir, &started());
    seen.answer(&Answer::Default { clock: OWN }).unwrap();
    seen.answer(&Answer::Properties { number: 1, stamps: "hardware", interface: "eth0".into() }).unwrap();
    port(&mut seen, 0, "INITIALIZING to LISTENING on INIT_COMPLETE");
    port(&mut seen, 3, "LISTENING to UNCALIBRATED on RS_SLAVE");
    seen.answer(&Answer::Current { path_delay: 412 }).unwrap();
    // Not computed yet; then one a message, told twice.
    sync(&mut seen, 1, 0);
    for ingress in [2, 2, 3] {
        sync(&mut seen, ingress, 5_000);
    }
    port(&mut seen, 5, "UNCALIBRATED to SLAVE on MASTER_CLOCK_SELECTED");
    (0..16).for_each(|index| sync(&mut seen, 10 + index, if index % 2 == 0 { 20 } else { -30 }));
    let line = format!("phc2sys[{}]: CLOCK_REALTIME phc offset -140 s2 freq +1 delay 500", stamp(&seen, 6));
    seen.line(&line);
    let file = seen.finish("duration".into()).unwrap();
    assert_eq!(file.convergence.best_master_ns, Some(3_000_000_000));
    assert_eq!(file.convergence.servo_lock_ns, Some(2_000_000_000));
    assert_eq!(file.offset_all.as_ref().unwrap().count, 18);
    let offset = file.offset.as_ref().unwrap();
    assert_eq!((offset.count, offset.min_ns, offset.max_ns), (16, -30, 20));
    let eights = file.offset_rms8.as_ref().unwrap();
    // √((4·20² + 4·30²) / 8) = 25.5
    assert_eq!((eights.count, eights.max_ns), (2, 25));
    assert_eq!(file.path_delay.as_ref().unwrap().max_ns, 412);
    let error = file.clock_error.as_ref().unwrap();
    assert_eq!((error.epsilon_ns, error.offset_ns, error.system_ns, error.read_ns), (670, 30, 140, 500));
    assert!(
        error.words().contains("from 16 samples") && error.words().contains("hardware stamps"),
        "{}",
        error.words()
    );
    assert_eq!((file.stamps.as_str(), file.rows.count), ("hardware", 19));
    assert_eq!(kinds(&file), ["port_state", "port_state", "grandmaster", "port_state", "locked"]);
}

#[test]
fn a_new_grandmaster_a_lost_lock_and_a_step_are_events() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = observer(&dir, &started());
    port(&mut seen, 1, "LISTENING to UNCALIBRATED on RS_SLAVE");
    sync(&mut seen, 1, 90);
    let line = format!("ptp4l[{}]: master offset 5000000 s1 freq +0 path delay 100", stamp(&seen, 2));
    seen.line(&line);
    port(&mut seen, 2, "UNCALIBRATED to SLAVE on MASTER_CLOCK_SELECTED");
    seen.answer(&Answer::Parent { grandmaster: ClockIdentity([3; 8]) }).unwrap();
    port(&mut seen, 4, "SLAVE to FAULTY on FAULT_DETECTED");
    seen.silence(true, Some("gone".into()));
    let file = seen.finish("interrupted".into()).unwrap();
    let expected = [
        "port_state",
        "grandmaster",
        "step",
        "port_state",
        "locked",
        "grandmaster",
        "port_state",
        "unlocked",
        "silent",
    ];
    assert_eq!(kinds(&file), expected);
    assert!(file.events[5].text.contains("0303") && file.events[5].text.contains("0101"), "{:?}", file.events[5]);
}

#[test]
fn what_was_not_seen_is_not_said() {
    let dir = tempfile::tempdir().unwrap();
    // A ptp4l that was there before, and locked.
    let mut seen = observer(&dir, &Facts::default());
    let slave = |number| Answer::Port { number, state: "SLAVE", peer_delay: 77, peer_to_peer: true, log_sync: -3 };
    seen.answer(&slave(1)).unwrap();
    sync(&mut seen, 1, 40);
    let file = seen.finish("interrupted".into()).unwrap();
    assert_eq!((file.convergence.best_master_ns, file.convergence.servo_lock_ns), (None, None));
    assert_eq!(file.clock_error.as_ref().map(|error| error.epsilon_ns), Some(40));
    assert_eq!((file.stamps.as_str(), file.path_delay.unwrap().max_ns), ("unknown", 77));

    // One that steers nothing bounds nothing.
    let mut seen = observer(&dir, &Facts { free_running: Some(true), ..started() });
    sync(&mut seen, 1, 40);
    let file = seen.finish("duration".into()).unwrap();
    assert!(file.clock_error.is_none() && file.clock_error_unknown.unwrap().contains("free_running"));
    assert!(file.offset.is_none() && file.offset_all.is_some());

    // Nothing at all.
    let file = observer(&dir, &started()).finish("duration".into()).unwrap();
    assert!(file.clock_error_unknown.unwrap().contains("never locked") && file.offset_all.is_none());
}

#[test]
fn a_grandmaster_has_the_error_of_its_system_clock_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = observer(&dir, &started());
    seen.answer(&Answer::Default { clock: OWN }).unwrap();
    seen.answer(&Answer::Parent { grandmaster: OWN }).unwrap();
    port(&mut seen, 2, "LISTENING to MASTER on ANNOUNCE_RECEIPT_TIMEOUT_EXPIRES");
    let line = format!("phc2sys[{}]: eth0 sys offset 900 s2 freq +1 delay 100", stamp(&seen, 3));
    seen.line(&line);
    let file = seen.finish("duration".into()).unwrap();
    assert_eq!(file.clock_error.as_ref().map(|error| (error.offset_ns, error.epsilon_ns)), Some((0, 1_000)));
    assert_eq!(file.convergence.best_master_ns, Some(2_000_000_000));
}

#[test]
fn events_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = observer(&dir, &started());
    (0..EVENTS + 7).for_each(|_| seen.silence(true, None));
    let file = seen.finish("duration".into()).unwrap();
    assert_eq!((file.events.len(), file.events_left_out), (EVENTS, 7));
}

/// Puts the beginning of the watch, and all that was seen, so many seconds back.
fn later(observer: &mut Observer, seconds: i64) {
    observer.began -= Nanos(seconds * 1_000_000_000);
}

#[test]
fn a_clock_that_ran_off_unseen_has_no_stated_error() {
    let dir = tempfile::tempdir().unwrap();
    let locked = |log_sync| {
        let mut seen = observer(&dir, &started());
        let peer = Answer::Port { number: 1, state: "SLAVE", peer_delay: 77, peer_to_peer: true, log_sync };
        seen.answer(&peer).unwrap();
        (0..8).for_each(|index| sync(&mut seen, 1 + index, 40));
        seen
    };
    // Eight messages a second, and then none for a minute.
    let mut seen = locked(-3);
    later(&mut seen, 60);
    let file = seen.finish("duration".into()).unwrap();
    let why = file.clock_error_unknown.unwrap();
    assert!(file.clock_error.is_none() && why.contains("no sync message") && why.contains("60"), "{why}");
    // The same pause with a message behind it: its offset holds what the clock ran off.
    let mut seen = locked(-3);
    later(&mut seen, 60);
    sync(&mut seen, 99, -7_000);
    let file = seen.finish("duration".into()).unwrap();
    assert_eq!(file.clock_error.map(|error| error.offset_ns), Some(7_000));
    // A second without is nothing, and with a message every 32 s a minute is nothing.
    for (log_sync, seconds) in [(-3, 1), (5, 60)] {
        let mut seen = locked(log_sync);
        later(&mut seen, seconds);
        assert!(seen.finish("duration".into()).unwrap().clock_error.is_some(), "{log_sync} {seconds}");
    }
}

#[test]
fn an_interval_that_cannot_be_is_harmless() {
    assert_eq!((interval(-3), interval(0), interval(i8::MIN)), (125_000_000, 1_000_000_000, 0));
    assert_eq!(interval(i8::MAX), 86_400_000_000_000);
}

#[test]
fn last_words_are_told_whatever_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = observer(&dir, &started());
    assert!(!seen.line("failed to create a clock"), "it has no mark of ptp4l's");
    seen.last_words(["failed to create a clock".into()]);
    let file = seen.finish("ptp4l ended with code 255".into()).unwrap();
    assert_eq!((kinds(&file), file.events[0].text.as_str()), (vec!["fault"], "failed to create a clock"));
}
