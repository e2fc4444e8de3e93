//! What follows from what the kernel tells, on a kernel that is not there.

use std::path::Path;

use tsn::Plan;

use super::heard::{Heard, ROOT};
use super::keeper::Keeper;
use super::{OnChange, Told, What};
use crate::apply::Apply;
use crate::apply::tests::fake::{Fake, Trouble};
use crate::apply::tests::{SCENARIO, planned};
use crate::look::{Act, Look};

/// A machine with the plan of a bridge applied: `p1` has filters, a schedule and no children.
fn watched(on_change: OnChange) -> (Keeper<Fake>, Plan, tempfile::TempDir) {
    let (fake, plan, folder) = (Fake::with(&["p0", "p1"]), planned(SCENARIO, "sw"), tempfile::tempdir().unwrap());
    for (name, index) in [("p0", "1"), ("p1", "2")] {
        let device = Path::new("/sys/class/net").join(name);
        fake.write_file(&device.join("ifindex"), index).unwrap();
        fake.write_file(&device.join("carrier"), "1").unwrap();
    }
    let apply = Apply::on(fake, folder.path());
    let applied = apply.apply(&plan).unwrap();
    let mut keeper = Keeper::new(apply, plan.clone(), on_change, &applied);
    // Its own words come back.
    keeper.hear_our_own(&[root()]);
    assert_eq!(keeper.issue(), []);
    (keeper, plan, folder)
}

fn root() -> Heard {
    Heard::Discipline { index: 2, parent: ROOT, kind: "taprio".into() }
}

fn clsact() -> Heard {
    Heard::DisciplineGone { index: 2, parent: 0xFFFF_FFF1, kind: "clsact".into() }
}

fn child(kind: &str, there: bool) -> Heard {
    let (index, parent, kind) = (2, 0x0100_0001, kind.to_owned());
    if there { Heard::Discipline { index, parent, kind } } else { Heard::DisciplineGone { index, parent, kind } }
}

fn link(runs: bool) -> Heard {
    Heard::Link { index: 2, name: "p1".into(), runs }
}

fn whats(told: &[Told]) -> Vec<What> {
    told.iter().map(|told| told.what).collect()
}

/// How often the schedule was issued.
fn issued(keeper: &Keeper<Fake>) -> usize {
    keeper.apply.machine().log.borrow().iter().filter(|line| line.contains("taprio")).count()
}

#[test]
fn a_schedule_is_issued_once_for_what_came_after_it() {
    let (mut keeper, _, _folder) = watched(OnChange::Mend);
    let before = issued(&keeper);
    keeper.hear(&[child("cbs", false), child("pfifo", true)]);
    let told = keeper.issue();
    assert_eq!((whats(&told), told[0].device.as_str()), (vec![What::IssuedAgain], "p1"));
    assert_eq!(told[0].cause, "the child 100:1 was replaced: cbs by pfifo");
    assert_eq!((issued(&keeper), keeper.issue()), (before + 1, Vec::new()));
    // What stopped it came before our own: cured. What comes after is not.
    keeper.hear(&[clsact(), root()]);
    assert_eq!(keeper.issue(), []);
    keeper.hear(&[root(), child("pfifo", true)]);
    assert_eq!(whats(&keeper.issue()), [What::IssuedAgain]);
    assert_eq!(issued(&keeper), before + 2);
    // Nothing of this differs from the plan.
    assert_eq!(keeper.look(), []);
}

#[test]
fn a_link_that_is_down_is_waited_for() {
    let (mut keeper, _, _folder) = watched(OnChange::Mend);
    assert_eq!(whats(&keeper.hear(&[link(false), clsact()])), [What::Down]);
    assert_eq!(keeper.issue(), []);
    assert_eq!(keeper.hear(&[link(true), link(true)]), []);
    let told = keeper.issue();
    assert_eq!(told[0].cause, "clsact was removed; the link was down and is there again");
    // Other interfaces are nothing to it.
    keeper.look();
    keeper.hear(&[Heard::Link { index: 9, name: "eth0".into(), runs: false }, Heard::Filter { index: 9 }]);
    keeper.hear(&[Heard::Discipline { index: 9, parent: ROOT, kind: "htb".into() }]);
    assert!(!keeper.has_something_to_look_at());
}

#[test]
fn what_was_lost_may_have_been_anything() {
    let (mut keeper, _, _folder) = watched(OnChange::Mend);
    keeper.hear(&[Heard::Lost]);
    assert_eq!(whats(&keeper.issue()), [What::IssuedAgain]);
    assert!(keeper.has_something_to_look_at());
}

#[test]
fn a_root_that_was_removed_is_mended_or_told_and_told_once() {
    for on_change in [OnChange::Mend, OnChange::Tell] {
        let (mut keeper, plan, _folder) = watched(on_change);
        keeper.apply.machine().run(&["tc", "qdisc", "del", "dev", "p1", "root"]);
        let before = issued(&keeper);
        keeper.hear(&[Heard::DisciplineGone { index: 2, parent: ROOT, kind: "taprio".into() }, clsact()]);
        let told: Vec<Told> = keeper.issue().into_iter().chain(keeper.look()).collect();
        match on_change {
            OnChange::Mend => {
                assert!(whats(&told).contains(&What::IssuedAgain) && issued(&keeper) > before, "{told:#?}");
                assert!(keeper.apply.examine(&plan).iter().all(|state| !state.due));
                assert_eq!(keeper.look(), []);
            }
            OnChange::Tell => {
                assert_eq!((whats(&told), issued(&keeper)), (vec![What::Differs], before));
                assert_eq!(keeper.look(), [], "told once");
                keeper.apply.apply(&plan).unwrap();
                keeper.hear(&[root()]);
                assert_eq!(whats(&keeper.look()), [What::AsPlanned]);
            }
        }
    }
}

#[test]
fn what_cannot_be_mended_is_told_once_and_tried_again() {
    let (mut keeper, plan, _folder) = watched(OnChange::Mend);
    keeper.apply.machine().run(&["tc", "qdisc", "del", "dev", "p1", "root"]);
    keeper.hear(&[Heard::DisciplineGone { index: 2, parent: ROOT, kind: "taprio".into() }]);
    let next = |keeper: &Keeper<Fake>| {
        let machine = keeper.apply.machine();
        machine.trouble.set(Some(Trouble::Refuse(machine.changes.get())));
    };
    next(&keeper);
    let told = keeper.look();
    assert_eq!(whats(&told), [What::NotMended]);
    assert!(told[0].lines.last().unwrap().contains("Invalid argument"), "{told:#?}");
    next(&keeper);
    assert_eq!(keeper.look(), [], "the same again");
    keeper.apply.machine().trouble.set(None);
    assert_eq!(whats(&keeper.look()), [What::Mended]);
    assert!(keeper.apply.examine(&plan).iter().all(|state| !state.due));
    // A schedule that cannot be issued is not tried in a circle.
    keeper.hear(&[root(), child("pfifo", true)]);
    next(&keeper);
    assert_eq!(whats(&keeper.issue()), [What::NotMended]);
    keeper.apply.machine().trouble.set(None);
    assert_eq!(keeper.issue(), []);
    assert_eq!(whats(&keeper.look()), [What::IssuedAgain]);
}

#[test]
fn an_interface_that_comes_back_is_planned_anew() {
    let (mut keeper, plan, _folder) = watched(OnChange::Mend);
    keeper.apply.machine().state.borrow_mut().unplug("p1");
    let told = keeper.hear(&[Heard::LinkGone { index: 2, name: "p1".into() }]);
    assert_eq!(whats(&told), [What::Gone]);
    assert_eq!(whats(&keeper.look()), [What::NotMended]);
    keeper.apply.machine().state.borrow_mut().plug("p1");
    // Another index: it is another interface of this name.
    keeper.hear(&[Heard::Link { index: 3, name: "p1".into(), runs: true }]);
    assert_eq!(whats(&keeper.look()), [What::Mended]);
    assert!(keeper.apply.examine(&plan).iter().all(|state| !state.due));
    assert!(keeper.apply.restore().is_ok());
}
