//! Plans put onto a kernel that is not there, and taken off it whatever goes wrong.

pub(crate) mod fake;

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::lock::LockError;
use crate::look::Look;
use fake::{Fake, Trouble};

pub(crate) const SCENARIO: &str = r#"
name = "three"
time = { cycle = "250us", offset = "150us" }
links = [{ between = ["pub", "sw"] }, { between = ["sw", "loop"] }]
streams = [{ name = "s", writer = "pub", reader = "loop", echo = true, variables = 3, vid = 8, pcp = 3 }]

[hosts.pub]
interface = "eth1"
clock = "grandmaster"

[hosts.sw]
kind = "bridge"
clock = "slave"

[hosts.loop]
clock = "slave"

[[ports]]
at = "sw"
towards = "pub"
interface = "p0"

[[ports]]
at = "sw"
towards = "loop"
interface = "p1"
queue = { root = "taprio", map = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], classes = [{}, {}], schedule = [
    { gates = [1], interval = "50us" }, { gates = [0], interval = "185us" }, { gates = [], interval = "15us" } ] }

[[ports]]
at = "pub"
queue = { root = "mqprio", map = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], classes = [
    {}, { cbs = { idle_slope = "110%" } }] }
"#;

pub(crate) fn planned(text: &str, host: &str) -> Plan {
    let scenario = scenario::read(text, "three.toml").unwrap_or_else(|error| panic!("{}", error.render()));
    tsn::plan(&scenario, scenario.host_named(host).unwrap())
}

/// A machine before anything, its plan, and where the journal goes.
fn machine() -> (Fake, Plan, tempfile::TempDir) {
    (Fake::with(&["p0", "p1"]), planned(SCENARIO, "sw"), tempfile::tempdir().unwrap())
}

/// How many changes applying takes.
fn changes_of(plan: &Plan) -> usize {
    let (fake, _, folder) = machine();
    let apply = Apply::on(fake, folder.path());
    apply.apply(plan).unwrap();
    apply.machine.changes.get()
}

fn all_as_planned(apply: &Apply<Fake>, plan: &Plan) -> bool {
    apply.examine(plan).iter().all(|state| matches!(state.standing, Standing::AsPlanned | Standing::Untold))
}

#[test]
fn a_plan_is_applied_once_and_undone() {
    let (fake, plan, folder) = machine();
    let before = fake.state.borrow().clone();
    let apply = Apply::on(fake, folder.path());
    assert!(apply.examine(&plan).iter().all(|state| state.due || matches!(state.standing, Standing::Untold)));
    let applied = apply.apply(&plan).unwrap();
    assert!(applied.done.len() > 20 && applied.kept == 0, "{applied:#?}");
    assert!(all_as_planned(&apply, &plan), "{:#?}", apply.examine(&plan));
    assert_eq!(apply.current().unwrap(), Some(("three".into(), "sw".into())));
    let changed = apply.machine.changes.get();
    let again = apply.apply(&plan).unwrap();
    assert_eq!((again.done.len(), apply.machine.changes.get()), (0, changed), "the second time there is nothing to do");
    let undone = apply.restore().unwrap();
    assert!(undone.len() > 5, "{undone:#?}");
    assert_eq!(*apply.machine.state.borrow(), before);
    assert_eq!((apply.restore().unwrap().len(), apply.current().unwrap()), (0, None));
}

#[test]
fn a_station_is_planned_and_undone_as_well() {
    let plan = planned(SCENARIO, "pub");
    let folder = tempfile::tempdir().unwrap();
    let apply = Apply::on(Fake::with(&["eth1"]), folder.path());
    let before = apply.machine.state.borrow().clone();
    apply.apply(&plan).unwrap();
    assert!(all_as_planned(&apply, &plan) && apply.machine.has("eth1", "root"), "{:#?}", apply.examine(&plan));
    apply.restore().unwrap();
    assert_eq!(*apply.machine.state.borrow(), before);
}

#[test]
fn whatever_step_is_refused_all_is_as_before() {
    let (_, plan, _) = machine();
    for step in 0..changes_of(&plan) {
        let (fake, plan, folder) = machine();
        let before = fake.state.borrow().clone();
        fake.trouble.set(Some(Trouble::Refuse(step)));
        let apply = Apply::on(fake, folder.path());
        let error = apply.apply(&plan).unwrap_err();
        assert!(matches!(error, ApplyError::Step { .. }), "step {step}: {error}");
        assert!(error.to_string().contains("Invalid argument"), "{error}");
        assert_eq!(*apply.machine.state.borrow(), before, "step {step}");
        assert_eq!(apply.current().unwrap(), None);
    }
}

#[test]
fn wherever_it_is_killed_restore_brings_all_back() {
    let (_, plan, _) = machine();
    let steps = changes_of(&plan);
    for trouble in (0..steps).flat_map(|step| [Trouble::DieBefore(step), Trouble::DieAfter(step)]) {
        let (fake, plan, folder) = machine();
        let before = fake.state.borrow().clone();
        fake.trouble.set(Some(trouble));
        let apply = Apply::on(fake, folder.path());
        catch_unwind(AssertUnwindSafe(|| apply.apply(&plan))).expect_err("it was killed");
        apply.machine.trouble.set(None);
        // Another process, later.
        let apply = Apply::on(apply.machine, folder.path());
        apply.restore().unwrap_or_else(|error| panic!("{trouble:?}: {error}"));
        assert_eq!(*apply.machine.state.borrow(), before, "{trouble:?}");
        // And killed in the middle of undoing: not for every step, each takes many writes to the disk.
        if !matches!(trouble, Trouble::DieBefore(step) if step % 10 == 0) {
            continue;
        }
        apply.apply(&plan).unwrap();
        let half = apply.machine.changes.get() + 3;
        apply.machine.trouble.set(Some(Trouble::DieAfter(half)));
        catch_unwind(AssertUnwindSafe(|| apply.restore())).expect_err("it was killed again");
        apply.machine.trouble.set(None);
        apply.restore().unwrap_or_else(|error| panic!("{trouble:?}, undoing: {error}"));
        assert_eq!(*apply.machine.state.borrow(), before, "{trouble:?}, undoing");
    }
}

#[test]
fn what_could_not_be_made_again_is_refused_before_the_first_change() {
    let (fake, plan, folder) = machine();
    fake.put_root("p1", "handle 1: htb default 10");
    let before = fake.state.borrow().clone();
    let apply = Apply::on(fake, folder.path());
    let error = apply.apply(&plan).unwrap_err();
    assert!(
        matches!(error, ApplyError::Foreign(_)) && error.to_string().contains("htb 1: at the root of p1"),
        "{error}"
    );
    assert_eq!((apply.machine.changes.get(), &*apply.machine.state.borrow()), (0, &before));
}

#[test]
fn what_the_kernel_keeps_otherwise_is_found_and_undone() {
    let (fake, plan, folder) = machine();
    let before = fake.state.borrow().clone();
    fake.trouble.set(Some(Trouble::Keep("250000", "260000")));
    let apply = Apply::on(fake, folder.path());
    let error = apply.apply(&plan).unwrap_err();
    assert!(matches!(error, ApplyError::NotTaken { .. }), "{error}");
    assert!(error.to_string().contains("cycle-time is 260000, planned 250000"), "{error}");
    assert_eq!(*apply.machine.state.borrow(), before);
}

#[test]
fn another_plan_takes_the_place_of_the_first_or_leaves_it() {
    let (fake, plan, folder) = machine();
    let before = fake.state.borrow().clone();
    let apply = Apply::on(fake, folder.path());
    apply.apply(&plan).unwrap();
    let first = apply.machine.state.borrow().clone();
    let other = planned(&SCENARIO.replace("185us", "195us").replace("15us", "5us"), "sw");
    // Refused in the middle: the first is there again.
    for step in [9, 12, 20] {
        apply.machine.trouble.set(Some(Trouble::Refuse(apply.machine.changes.get() + step)));
        let error = apply.apply(&other).unwrap_err();
        apply.machine.trouble.set(None);
        if matches!(error, ApplyError::Step { .. }) {
            assert_eq!(*apply.machine.state.borrow(), first, "step {step}: {error}");
        }
        apply.apply(&plan).unwrap();
        assert!(all_as_planned(&apply, &plan));
    }
    let applied = apply.apply(&other).unwrap();
    assert!(!applied.undone.is_empty() && all_as_planned(&apply, &other) && !all_as_planned(&apply, &plan));
    apply.restore().unwrap();
    assert_eq!(*apply.machine.state.borrow(), before);
}

#[test]
fn what_is_held_goes_back_to_what_was_there_before() {
    let (fake, plan, folder) = machine();
    let bare = fake.state.borrow().clone();
    let apply = Apply::on(fake, folder.path());
    let state = |apply: &Apply<Fake>| apply.machine.state.borrow().clone();
    // On a bare machine.
    let (_, held) = apply.hold(&plan).unwrap();
    assert!(matches!(apply.apply(&plan).unwrap_err(), ApplyError::Refused(Refused::Lock(LockError::Held { .. }))));
    assert!(!apply.undo_held(held).unwrap().is_empty());
    assert_eq!((state(&apply), apply.current().unwrap()), (bare.clone(), None));
    // Kept by letting go.
    drop(apply.hold(&plan).unwrap());
    let first = state(&apply);
    assert!(all_as_planned(&apply, &plan));
    // The same again: nothing of it is undone.
    let (applied, held) = apply.hold(&plan).unwrap();
    assert_eq!((applied.done.len(), apply.undo_held(held).unwrap().len(), state(&apply)), (0, 0, first.clone()));
    // Another in its place: the first is there again.
    let other = planned(&SCENARIO.replace("185us", "195us").replace("15us", "5us"), "sw");
    let (_, held) = apply.hold(&other).unwrap();
    assert!(all_as_planned(&apply, &other));
    apply.undo_held(held).unwrap();
    assert_eq!(state(&apply), first);
    apply.restore().unwrap();
    assert_eq!(state(&apply), bare);
}

#[test]
fn after_a_boot_only_files_are_undone() {
    let (fake, plan, folder) = machine();
    fake.write_file("/etc/linuxptp/downbeat-ptp4l.conf".as_ref(), "# mine\n").unwrap();
    let files = fake.state.borrow().files.clone();
    let apply = Apply::on(fake, folder.path());
    apply.apply(&plan).unwrap();
    assert_ne!(apply.machine.state.borrow().files, files);
    apply.machine.reboot();
    let log = apply.machine.log.borrow().len();
    apply.restore().unwrap();
    assert_eq!(apply.machine.state.borrow().files, files);
    let since: Vec<_> = apply.machine.log.borrow()[log..].to_vec();
    assert!(!since.is_empty() && since.iter().all(|line| line.starts_with("systemctl")), "{since:#?}");
}

#[test]
fn an_interface_that_is_pulled_out_does_not_keep_the_rest_from_being_undone() {
    let (_, plan, _) = machine();
    for step in 0..changes_of(&plan) {
        let (fake, plan, folder) = machine();
        fake.trouble.set(Some(Trouble::Unplug(step, "p1")));
        let apply = Apply::on(fake, folder.path());
        let error = apply.apply(&plan).err();
        apply.restore().unwrap_or_else(|error| panic!("step {step}: {error}"));
        let left = apply.machine.state.borrow().clone();
        assert_eq!(left, *Fake::with(&["p0"]).state.borrow(), "step {step}: {error:?}");
    }
}

#[test]
fn a_schedule_is_issued_again_when_something_changed_under_it() {
    let (fake, plan, folder) = machine();
    let apply = Apply::on(fake, folder.path());
    apply.apply(&plan).unwrap();
    // Somebody takes the filters away: putting them back stops the schedule's timer.
    apply.machine.run(&["tc", "qdisc", "del", "dev", "p1", "clsact"]);
    let log = apply.machine.log.borrow().len();
    apply.apply(&plan).unwrap();
    let since: Vec<_> = apply.machine.log.borrow()[log..].to_vec();
    let last = since.last().unwrap();
    assert!(last.contains("dev p1") && last.contains("taprio"), "{since:#?}");
    assert!(since.iter().all(|line| line.contains("dev p1")), "{since:#?}");
}

#[test]
fn two_at_once_exclude_each_other() {
    let (fake, plan, folder) = machine();
    let _other = exclusive(folder.path(), None).unwrap();
    let apply = Apply::on(fake, folder.path());
    let error = apply.apply(&plan).unwrap_err();
    let held =
        matches!(&error, ApplyError::Refused(Refused::Lock(LockError::Held { holder, .. })) if holder.is_empty());
    assert!(held && error.to_string().contains("another downbeat"), "{error}");
}
