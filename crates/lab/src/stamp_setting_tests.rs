use std::cell::Cell;
use std::rc::Rc;

use super::*;

const PTP_ONLY: [i32; 2] = [1, 12];
const ALL: [i32; 2] = [1, 1];

/// A card of which the driver tells what is set, or not, and which stamps all frames, or not.
#[derive(Debug, Clone)]
struct Scripted {
    set: Rc<Cell<[i32; 2]>>,
    tells: bool,
    can: bool,
}

fn card(set: [i32; 2]) -> Scripted {
    Scripted { set: Rc::new(Cell::new(set)), tells: true, can: true }
}

impl Card for Scripted {
    fn setting(&self) -> Result<Option<StampSetting>, String> {
        let [transmit, receive] = self.set.get();
        Ok(self.tells.then_some(StampSetting { transmit, receive }))
    }

    fn set(&self, setting: StampSetting) -> Result<(), String> {
        self.set.set([setting.transmit, setting.receive]);
        Ok(())
    }

    fn stamp_all(&self) -> Result<(), String> {
        self.set.set(ALL);
        self.can.then_some(()).ok_or_else(|| "it takes none".into())
    }
}

/// A file, and this process, and one that is gone.
fn bench() -> (tempfile::TempDir, PathBuf, Process, Process) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deep/stamps.notes");
    let gone = Process { pid: 1, start_time: u64::MAX };
    assert!(!gone.is_alive());
    (folder, file, Process::of(std::process::id()).unwrap(), gone)
}

fn noted(file: &Path) -> usize {
    open(file).unwrap().1.len()
}

#[test]
fn the_card_stamps_all_as_long_as_it_is_needed() {
    let (_folder, file, me, _) = bench();
    let card = card(PTP_ONLY);
    let kept = StampsAll::begin(card.clone(), ("eth0", 7), &file, me).unwrap();
    assert_eq!((card.set.get(), noted(&file)), (ALL, 1));
    drop(kept);
    assert_eq!((card.set.get(), noted(&file)), (PTP_ONLY, 0));
}

#[test]
fn the_last_of_several_sets_back() {
    let (_folder, file, me, _) = bench();
    let parent = Process::of(std::os::unix::process::parent_id()).unwrap();
    let card = card(PTP_ONLY);
    let first = StampsAll::begin(card.clone(), ("eth0", 7), &file, me).unwrap();
    let second = StampsAll::begin(card.clone(), ("eth0", 7), &file, parent).unwrap();
    drop(first);
    assert_eq!(card.set.get(), ALL, "the other one needs it");
    drop(second);
    assert_eq!(card.set.get(), PTP_ONLY);
}

#[test]
fn what_somebody_else_has_set_meanwhile_stays() {
    let (_folder, file, me, _) = bench();
    let card = card([0, 0]);
    let kept = StampsAll::begin(card.clone(), ("eth0", 7), &file, me).unwrap();
    card.set.set(PTP_ONLY);
    drop(kept);
    assert_eq!((card.set.get(), noted(&file)), (PTP_ONLY, 0));
}

#[test]
fn what_a_killed_process_left_is_set_back_where_its_name_means_it() {
    let (_folder, file, me, gone) = bench();
    let card = card(PTP_ONLY);
    std::mem::forget(StampsAll::begin(card.clone(), ("eth0", 7), &file, gone).unwrap());
    assert_eq!(restore_of(&file, 8, |_| card.clone()), Vec::<String>::new(), "another namespace's eth0");
    assert_eq!(card.set.get(), ALL);
    // Who comes next does not take it for what was before.
    drop(StampsAll::begin(card.clone(), ("eth0", 7), &file, me).unwrap());
    assert_eq!((card.set.get(), noted(&file)), (PTP_ONLY, 0));
    std::mem::forget(StampsAll::begin(card.clone(), ("eth0", 7), &file, gone).unwrap());
    assert_eq!(restore_of(&file, 7, |_| card.clone()), ["eth0"]);
    assert_eq!((card.set.get(), noted(&file)), (PTP_ONLY, 0));
    let kept = StampsAll::begin(card.clone(), ("eth0", 7), &file, me).unwrap();
    assert!(restore_of(&file, 7, |_| card.clone()).is_empty(), "it is needed");
    assert_eq!(card.set.get(), ALL);
    drop(kept);
}

#[test]
fn a_card_that_does_not_is_left_as_it_was() {
    let (_folder, file, me, _) = bench();
    let unable = Scripted { can: false, ..card(PTP_ONLY) };
    let refused = StampsAll::begin(unable.clone(), ("eth0", 7), &file, me).unwrap_err();
    assert_eq!(refused, "it takes none");
    assert_eq!((unable.set.get(), noted(&file)), (PTP_ONLY, 0));
    let silent = Scripted { tells: false, ..card(PTP_ONLY) };
    drop(StampsAll::begin(silent.clone(), ("eth0", 7), &file, me).unwrap());
    assert_eq!((silent.set.get(), noted(&file)), (ALL, 0), "nobody knows what to set back");
    std::fs::write(&file, "{\"cut sho").unwrap();
    let card = card(PTP_ONLY);
    drop(StampsAll::begin(card.clone(), ("eth0", 7), &file, me).unwrap());
    assert_eq!(card.set.get(), PTP_ONLY, "a file cut short is no hindrance");
}
