//! The unit as text, for systemd, and in a journal.

use std::process::Command as Process;

use super::*;
use crate::apply::tests::fake::Fake;
use crate::apply::tests::{SCENARIO, planned};
use crate::apply::{Apply, Standing};

fn with_unit(program: &str, options: &[&str]) -> Plan {
    let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
    let probes = options.iter().any(|option| option == "--probe");
    let unit = WatchUnit { program: program.as_ref(), scenario: SCENARIO, options: &options, probes };
    unit.added_to(planned(SCENARIO, "sw"))
}

fn text(plan: &Plan) -> &str {
    &plan.files.iter().find(|file| file.path.ends_with("downbeat-watch@sw.service")).unwrap().text
}

#[test]
fn it_comes_after_network_and_clocks_with_the_rights_it_needs() {
    let plan = with_unit("/opt/my tools/downbeat 100%", &["--probe", "10s"]);
    let text = text(&plan);
    for line in [
        "After=network-pre.target network.target network-online.target downbeat-ptp4l.service downbeat-phc2sys.service",
        "ExecStart=\"/opt/my tools/downbeat 100%%\" apply /var/lib/downbeat/sw.toml --host sw --unit --watch --probe 10s",
        "CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_RAW",
        "Restart=on-failure",
        "WatchdogSec=60",
        "Type=notify",
    ] {
        assert!(text.lines().any(|known| known == line), "{line} is not in\n{text}");
    }
    assert!(!self::text(&with_unit("/usr/bin/downbeat", &[])).contains("CAP_NET_RAW"));
    let reloads = plan.steps.iter().filter(|step| step.command.words == ["daemon-reload"]).count();
    assert_eq!((reloads, plan.steps.last().unwrap().command.line()), (1, "enable downbeat-watch@sw.service".into()));
}

#[test]
fn systemd_takes_it() {
    let verify = |text: &str| {
        let folder = tempfile::tempdir().unwrap();
        // The clocks' units are there on a machine where the plan is applied.
        for name in ["downbeat-ptp4l.service", "downbeat-phc2sys.service"] {
            std::fs::write(folder.path().join(name), "[Service]\nExecStart=/bin/true\n").unwrap();
        }
        let path = folder.path().join("downbeat-watch@sw.service");
        std::fs::write(&path, text).unwrap();
        let output = Process::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output();
        let output = output.ok()?;
        // Of units of this machine it tells, too.
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        Some(told.lines().filter(|line| line.contains("downbeat")).collect::<Vec<_>>().join("\n"))
    };
    let plan = with_unit("/bin/true", &["--probe", "10s", "--every", "60s"]);
    let Some(told) = verify(text(&plan)) else {
        // Nothing of ours installs systemd.
        eprintln!("skipped: systemd_takes_it needs systemd-analyze (systemd)");
        return;
    };
    assert_eq!(told, "");
    // It does look.
    for (right, wrong) in
        [("WatchdogSec=60", "WatchdogSec=often"), ("Type=notify", "Type=notified"), ("/bin/true", "/none")]
    {
        assert_ne!(verify(&text(&plan).replace(right, wrong)).unwrap(), "", "{wrong}");
    }
}

#[test]
fn it_is_read_back_and_undone_also_after_a_boot() {
    for boots in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (fake, plan) = (Fake::with(&["p0", "p1"]), with_unit("/usr/bin/downbeat", &[]));
        let apply = Apply::on(fake, folder.path());
        let before = apply.machine().state.borrow().clone();
        apply.apply(&plan).unwrap();
        let all = |apply: &Apply<Fake>| {
            apply.examine(&plan).iter().all(|state| matches!(state.standing, Standing::AsPlanned | Standing::Untold))
        };
        assert!(all(&apply) && apply.apply(&plan).unwrap().done.is_empty());
        assert_eq!(apply.watch_unit().unwrap().as_deref(), Some("downbeat-watch@sw.service"));
        if boots {
            apply.machine().reboot();
            assert_eq!(apply.watch_unit().unwrap().as_deref(), Some("downbeat-watch@sw.service"));
            // The unit applies the plan again, and nothing of it twice.
            let done = apply.apply(&plan).unwrap().done;
            assert!(done.iter().any(|line| line.contains("taprio")), "{done:#?}");
            assert!(!done.iter().any(|line| line.contains("downbeat-watch")), "{done:#?}");
        }
        apply.restore().unwrap();
        assert_eq!(*apply.machine().state.borrow(), before, "boots: {boots}");
        assert_eq!(apply.watch_unit().unwrap(), None);
    }
}
