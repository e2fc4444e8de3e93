//! Plans of the papers' set-ups as golden files, read by a person.

mod common;

use std::fs;

use common::{folder, plans};

#[test]
fn plans_are_as_they_were_read_by_a_person() {
    let bless = std::env::var_os("DOWNBEAT_BLESS").is_some();
    let mut changed = Vec::new();
    for (name, plan) in plans() {
        let path = folder().join(format!("{name}.txt"));
        let (now, before) = (plan.all(), fs::read_to_string(&path).unwrap_or_default());
        if now == before {
            continue;
        }
        if bless {
            fs::write(&path, now).unwrap();
            continue;
        }
        let differs = now.lines().zip(before.lines()).find(|(now, before)| now != before);
        changed.push(format!("{}: {differs:?}", path.display()));
    }
    assert!(changed.is_empty(), "plans changed; DOWNBEAT_BLESS=1 writes them, read them then:\n{}", changed.join("\n"));
}

/// Undoing goes backwards, and leaves nothing that a step has made.
#[test]
fn every_step_is_undone_by_itself_or_with_one_before_it() {
    for (name, plan) in plans() {
        for (index, step) in plan.steps.iter().enumerate() {
            assert!(step.command.words.iter().all(|word| !word.is_empty()), "{name}: {step:?}");
            if let downbeat_tsn::Undo::With(other) = step.undo {
                assert!(other < index, "{name}: step {index} is undone with step {other}, which comes later");
                assert!(!matches!(plan.steps[other].undo, downbeat_tsn::Undo::With(_)), "{name}: {step:?}");
            }
        }
        let (commands, settings) = plan.undoing(plan.steps.len());
        let own =
            |undo: &downbeat_tsn::Undo| !matches!(undo, downbeat_tsn::Undo::With(_) | downbeat_tsn::Undo::Nothing);
        let expected = plan.steps.iter().filter(|step| own(&step.undo)).count();
        assert_eq!(commands.len() + settings.len(), expected, "{name}");
        assert!(settings.windows(2).all(|pair| pair[0].0 > pair[1].0), "{name}: not backwards");
    }
}

/// What stops a software schedule comes before it, or it comes again.
#[test]
fn no_step_stops_a_schedule_for_good() {
    for (name, plan) in plans() {
        let lines: Vec<(&str, String)> =
            plan.steps.iter().map(|step| (step.target.as_str(), step.command.line())).collect();
        for (device, _) in
            lines.iter().filter(|(_, line)| line.contains("clockid CLOCK_TAI") && line.contains("taprio"))
        {
            let of_device = || lines.iter().enumerate().filter(|(_, (of, _))| of == device);
            let last = of_device().filter(|(_, (_, line))| line.contains(" taprio ")).map(|(at, _)| at).max().unwrap();
            for (at, (_, line)) in of_device() {
                let child = line.starts_with("qdisc") && line.contains(" parent ");
                let stops = line.contains("clsact") || child;
                let software = !lines[last].1.contains("flags");
                assert!(!(stops && software && at > last), "{name}: `{line}` after the last schedule");
            }
            assert!(of_device().all(|(at, (_, line))| !line.contains("clsact") || at < last), "{name}");
        }
    }
}
