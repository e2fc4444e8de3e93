use std::path::Path;

use scenario::Scenario;

use super::*;
use crate::role::{Part, Role};

const LIMIT: Nanos = Nanos(10_000);

/// What is known of an i210 that ptp4l keeps.
fn card(by: i64) -> Facts {
    let stamping = Stamping {
        transmit_software: true,
        receive_software: true,
        transmit_hardware: true,
        receive_hardware: true,
        clock: Some(0),
    };
    Facts { stamping, clock: Some(Ok(("/dev/ptp0".into(), Ahead { by: Nanos(by), error: Nanos(400) }))) }
}

#[test]
fn a_card_that_stamps_all_and_shows_tai_is_taken() {
    for by in [0, 250, -10_000, 10_000] {
        let (path, ahead) = decide("eth0", &card(by), LIMIT).unwrap();
        assert_eq!((path.as_path(), ahead.by), (Path::new("/dev/ptp0"), Nanos(by)));
    }
}

#[test]
fn what_a_card_lacks_is_said_with_the_mend() {
    let refused = |change: fn(&mut Facts)| {
        let mut facts = card(0);
        change(&mut facts);
        let (what, mend) = decide("eth7", &facts, LIMIT).unwrap_err();
        assert!(what.starts_with("eth7: ") && mend.contains("--stamps auto"), "{what}: {mend}");
        what
    };
    assert!(refused(|facts| facts.stamping.receive_hardware = false).contains("not stamp all frames that arrive"));
    assert!(refused(|facts| facts.stamping.transmit_hardware = false).contains("not stamp frames that leave"));
    let neither = refused(|facts| {
        (facts.stamping.transmit_hardware, facts.stamping.receive_hardware) = (false, false);
    });
    assert!(neither.contains("neither"), "{neither}");
    assert!(refused(|facts| facts.clock = None).contains("no PTP hardware clock"));
    assert!(refused(|facts| facts.clock = Some(Err("/dev/ptp0: Permission denied".into()))).contains("Permission"));
    for by in [10_001, -10_001] {
        let (what, mend) = decide("eth7", &card(by), LIMIT).unwrap_err();
        assert!(what.contains("/dev/ptp0") && what.contains(&Nanos(by).to_string()), "{what}");
        assert!(what.contains("of one time") && mend.contains("phc2sys") && mend.contains("--stamps auto"), "{mend}");
    }
}

#[test]
fn the_farthest_look_counts_with_its_error() {
    let look = |by, error| Ahead { by: Nanos(by), error: Nanos(error) };
    let mut seen = first(Path::new("/dev/ptp3"), look(-300, 400));
    assert_eq!((seen.error_ns, amiss("eth0", &seen, LIMIT)), (700, Vec::new()));
    note(&mut seen, Ok(look(12_000, 500)));
    note(&mut seen, Ok(look(20, 400)));
    assert_eq!((seen.ahead_ns, seen.error_ns, seen.looks), ([-300, 20], 12_500, 3));
    let told = amiss("eth0", &seen, LIMIT);
    assert!(told[0].contains("eth0") && told[0].contains(&Nanos(12_500).to_string()), "{told:?}");
    note(&mut seen, Err("No such device".into()));
    assert_eq!((seen.looks, seen.unread.as_deref()), (3, Some("No such device")));
    assert!(amiss("eth0", &seen, LIMIT)[1].contains("No such device"));
}

fn two_hosts() -> Scenario {
    scenario::read(scenario::template("two-hosts").unwrap(), "test.toml").unwrap()
}

/// The publisher of two hosts on the loopback interface, which has software stamps only.
fn on_loopback(scenario: &Scenario) -> Place {
    Place::Here(Role::choose(scenario, Part::Publish, None, &["lo".into()]).unwrap())
}

#[test]
fn an_interface_without_hardware_stamps_has_the_kernels_unless_others_are_asked_for() {
    let scenario = two_hosts();
    let find = |wanted| RunStamps::find(&scenario, &on_loopback(&scenario), wanted);
    let auto = find(WantedStamps::Auto).unwrap();
    assert_eq!((auto.of("lo").name(), auto.unused.len()), ("software", 0));
    assert!(auto.of("lo").why.contains("lo: it stamps neither"), "{:?}", auto.of("lo"));
    let refused = find(WantedStamps::Hardware).err().unwrap();
    assert_eq!(refused.exit_code(), 3);
    let text = refused.to_string();
    assert!(text.contains("--stamps hardware: lo: ") && text.contains("mend: "), "{text}");
    for (wanted, name) in [(WantedStamps::Software, "software"), (WantedStamps::Off, "off")] {
        let found = find(wanted).unwrap();
        assert_eq!((found.of("lo").name(), found.of("lo").why.as_str()), (name, "asked for"));
    }
}

#[test]
fn a_laboratory_has_no_hardware_that_stamps() {
    let scenario = two_hosts();
    let place = Place::Laboratory(crate::Rights::Root);
    let find = |wanted| RunStamps::find(&scenario, &place, wanted);
    let auto = find(WantedStamps::Auto).unwrap();
    assert_eq!(auto.of("eth0").name(), "software");
    assert!(auto.of("eth0").why.contains("veth"));
    let refused = find(WantedStamps::Hardware).err().unwrap();
    assert!(refused.exit_code() == 3 && refused.to_string().contains("veth"), "{refused}");
    assert!(find(WantedStamps::Off).unwrap().of("eth0").why == "asked for");
}

#[test]
fn one_kind_of_stamps_is_told_in_one_word() {
    let reached = |interface: &str, stamps: &str| -> Reached {
        let told = json!({ "interface": interface, "receive": null, "send": null, "why": "", "stamps": stamps });
        serde_json::from_value(told).unwrap()
    };
    let (first, second, third) =
        (reached("eth0", "hardware"), reached("eth1", "software"), reached("eth2", "software"));
    assert_eq!(told(&[&second, &third]), "software");
    assert_eq!(told(&[&first, &first, &second]), "hardware at eth0, software at eth1");
}
