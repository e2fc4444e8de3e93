//! What a file says of machines, network interfaces and clock synchronisation.

use downbeat_scenario::{HostId, Kernel, PortId, PtpWay, TimeSource, read};
use units::Nanos;

const HEAD: &str = "name = \"machines\"\n[time]\ncycle = \"1ms\"\n";
const TAIL: &str = "[[links]]\nbetween = [\"pub\", \"sub\"]\n[[streams]]\nname = \"s\"\nwriter = \"pub\"\nreader = \"sub\"\n\
                    variables = 1\nvid = 3\npcp = 7\n";
const QUEUE: &str =
    "queue = { root = \"mqprio\", map = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], classes = 2 }";

fn text(machine: &str, more: &str) -> String {
    format!("{HEAD}[hosts.pub]\n{machine}\n[hosts.sub]\n{TAIL}{more}")
}

#[test]
fn machines_and_interfaces_are_kept() {
    let machine = "machine = { kernel = \"6.12.41-rt11\", driver = \"igc\", wake_up = \"40us\", cpus = [3, 2], vlan_devices = true }";
    let ports = format!(
        "[[ports]]\nat = [\"pub\", \"sub\"]\n{QUEUE}\nnic = {{ queues = 4, preemptable = [0], fragment = 128 }}\n[ptp]\nover = \"vlan\"\n\
         vid = 10\ndomain = 3\nsource = \"pps\"\n"
    );
    let scenario = read(&text(machine, &ports), "machines.toml").unwrap();
    let machine = scenario.machine(HostId(0));
    assert_eq!(machine.kernel, Some(Kernel { major: 6, minor: 12 }));
    assert_eq!((machine.wake_up, &*machine.cpus, machine.vlan_devices), (Some(Nanos(40_000)), &[2, 3][..], true));
    let nic = scenario.nic(PortId(0));
    assert_eq!(
        (nic.driver.as_deref(), nic.queues, nic.preemptable, nic.fragment_bytes),
        (Some("igc"), Some(4), 1, 128)
    );
    // The driver belongs to the machine, the rest to the port.
    assert_eq!(scenario.nic(PortId(1)).driver, None);
    let ptp = &scenario.installation.ptp;
    assert_eq!((ptp.way, ptp.domain, ptp.source), (Some(PtpWay::OwnVlan(10)), 3, TimeSource::Pulse));
}

#[test]
fn a_file_without_them_has_none() {
    let scenario = read(&text("", ""), "machines.toml").unwrap();
    assert_eq!(scenario.machine(HostId(0)), Default::default());
    assert_eq!(scenario.nic(PortId(0)), Default::default());
    assert_eq!(scenario.installation.ptp, Default::default());
}

#[test]
fn mistakes_are_pointed_at() {
    let port = |nic: &str| format!("[[ports]]\nat = \"pub\"\n{QUEUE}\nnic = {{ {nic} }}\n");
    let link = |keys: &str| format!("[[links]]\nbetween = [\"pub\", \"sub\"]\n{keys}\n");
    for (machine, more, words) in [
        ("machine = { kernel = \"new\" }", String::new(), "kernel = \"6.12\""),
        ("machine = { kernl = \"6.12\" }", String::new(), "did you mean `kernel`"),
        ("machine = { driver = \"i g b\" }", String::new(), "ethtool -i"),
        ("machine = { cpus = [1, 1] }", String::new(), "processor 1 twice"),
        ("machine = { wake_up = \"0s\" }", String::new(), "above 0"),
        ("machine = 3", String::new(), "braces"),
        ("", port("queues = 0"), "1 to 4096"),
        ("", port("preemptable = [2]"), "class 2, which pub → sub does not have"),
        ("", port("preemptable = [0, 1]"), "every class of pub → sub is preemptable"),
        ("", port("preemptable = [0], fragment = 100"), "64, 128, 192 or 256"),
        ("", port("fragment = 64"), "without `preemptable`"),
        ("", "[[ports]]\nat = \"pub\"\nnic = { preemptable = [0] }\n".into(), "every class"),
        ("", "[ptp]\nover = \"link\"\n".into(), "ptp_only = true"),
        ("", "[ptp]\nover = \"vlan\"\n".into(), "vid = 10"),
        ("", "[ptp]\nvid = 10\n".into(), "over = \"vlan\""),
        ("", "[ptp]\nover = \"air\"\n".into(), "data-vlan"),
        ("", link("interfaces = [\"eth1\"]\nptp_only = true"), "in the order of `between`"),
        ("", link("interfaces = [\"eth1\", \"eth1\"]"), "only a link with `ptp_only = true`"),
        ("", link("interfaces = [\"eth1\", \"a/b\"]\nptp_only = true"), "a/b"),
    ] {
        let wrong = read(&text(machine, &more), "machines.toml").map(|_| ()).expect_err(words);
        let shown = wrong.render();
        assert!(shown.contains(words), "no `{words}` in {shown}");
        // A second link between the two makes a second way, which is a mistake of its own.
        assert!(wrong.list().len() == 1 || more.contains("[[links]]"), "{shown}");
    }
}

#[test]
fn a_link_for_clocks_names_its_interfaces() {
    let link = "[[links]]\nbetween = [\"sub\", \"pub\"]\nptp_only = true\ninterfaces = [\"eth2\", \"eth3\"]\n";
    let scenario = read(&text("interface = \"eth0\"", link), "machines.toml").unwrap();
    let names: Vec<_> = scenario.ports.iter().map(|port| port.interface.as_deref()).collect();
    assert_eq!(names, [Some("eth0"), None, Some("eth2"), Some("eth3")]);
    let same = read(&text("interface = \"eth3\"", link), "machines.toml").unwrap_err();
    assert!(same.render().contains("an interface of its own"), "{}", same.render());
}
