//! Network interfaces of hosts that are machines of their own.

use downbeat_scenario::{Scenario, read};

fn text(hosts: &str, more: &str) -> String {
    format!(
        "name = \"interfaces\"\n[time]\ncycle = \"1ms\"\n{hosts}\n[[links]]\nbetween = [\"pub\", \"one\"]\n[[links]]\n\
         between = [\"pub\", \"two\"]\n{more}\n[[streams]]\nname = \"s\"\nwriter = \"pub\"\nreader = \"one\"\nvariables = 1\n\
         vid = 3\npcp = 7\n[[streams]]\nname = \"t\"\nwriter = \"pub\"\nreader = \"two\"\nvariables = 1\nvid = 4\npcp = 7\n"
    )
}

const HOSTS: &str = "[hosts.pub]\n[hosts.one]\ninterface = \"enp3s0\"\n[hosts.two]";

fn wrong(text: &str) -> String {
    read(text, "interfaces.toml").map(|_| String::new()).unwrap_or_else(|wrong| wrong.render())
}

fn named(scenario: &Scenario) -> Vec<(String, Option<&str>)> {
    scenario.ports.iter().map(|port| (scenario.host(port.host).name.clone(), port.interface.as_deref())).collect()
}

#[test]
fn a_host_names_the_interface_of_its_port_and_ports_name_theirs() {
    let ports = "[[ports]]\nat = \"pub\"\ntowards = \"one\"\ninterface = \"eth1\"\n[[ports]]\nat = \"pub\"\ntowards = \"two\"\ninterface = \"eth2\"";
    let scenario = read(&text(HOSTS, ports), "interfaces.toml").unwrap();
    let expected = [("pub", Some("eth1")), ("one", Some("enp3s0")), ("pub", Some("eth2")), ("two", None)];
    assert_eq!(named(&scenario), expected.map(|(host, name)| (host.to_string(), name)));
}

#[test]
fn what_is_no_interface_or_two_ports_is_pointed_at() {
    for name in ["", "a-name-of-16-chars", "a/b", "a b", ".."] {
        let hosts = HOSTS.replace("enp3s0", name);
        let found = wrong(&text(&hosts, ""));
        assert!(found.contains("hosts.one") || found.contains("interface"), "{name}: {found}");
        assert!(found.contains("eth1"), "{name}: {found}");
    }
    let twice = wrong(&text(&HOSTS.replace("[hosts.pub]", "[hosts.pub]\ninterface = \"eth1\""), ""));
    assert!(twice.contains("its port to one and its port to two") && twice.contains("towards = \"two\""), "{twice}");
    let bridge =
        wrong(&text(&HOSTS.replace("[hosts.pub]", "[hosts.pub]\nkind = \"bridge\"\ninterface = \"eth1\""), ""));
    assert!(bridge.contains("only a station has `interface`"), "{bridge}");
    let number = wrong(&text(&HOSTS.replace("\"enp3s0\"", "3"), ""));
    assert!(number.contains("interface"), "{number}");
}
