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

#[test]
fn a_host_says_how_it_is_reached() {
    let hosts = HOSTS
        .replace("[hosts.pub]", "[hosts.pub]\nssh = \"root@10.0.0.2\"")
        .replace("[hosts.two]", "[hosts.two]\nssh = \"none\"");
    let scenario = read(&text(&hosts, ""), "interfaces.toml").unwrap();
    let ways: Vec<_> = scenario.hosts.iter().map(|host| host.ssh.as_deref()).collect();
    assert_eq!(ways, [Some("root@10.0.0.2"), None, Some("none")]);
    for odd in ["", "root@10.0.0.2 -v", "-oProxyCommand=x"] {
        let found = wrong(&text(&hosts.replace("root@10.0.0.2", odd), ""));
        assert!(
            found.contains("is no destination of ssh") && found.contains("ssh = \"root@10.0.0.2\""),
            "{odd}: {found}"
        );
    }
}
