//! A scenario told of other machines than its own.

use scenario::{Kernel, Nic, PortId, Scenario};

/// The same scenario on machines of one kind, for a plan of a laboratory: all interfaces are of this `driver` (a name of
/// [`crate::drivers`]) and named by `interface`, all hosts have this `kernel`. A port for which `interface` says nothing keeps its
/// name. What the file says of other NICs and kernels is left out, preemption too.
pub fn elsewhere(
    scenario: &Scenario,
    driver: &str,
    kernel: Option<Kernel>,
    interface: impl Fn(PortId) -> Option<String>,
) -> Scenario {
    let mut told = scenario.clone();
    told.installation.machines = vec![scenario::Machine { kernel, ..Default::default() }; told.hosts.len()];
    told.installation.nics = vec![Nic { driver: Some(driver.to_owned()), ..Nic::default() }; told.ports.len()];
    for (index, port) in told.ports.iter_mut().enumerate() {
        port.interface = interface(PortId(index)).or_else(|| port.interface.take());
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Program, plan};

    #[test]
    fn a_plan_is_for_the_other_names_and_drivers() {
        let scenario = scenario::read(
            r#"
name = "two"
time = { cycle = "250us", offset = "150us" }
hosts = { pub = { interface = "enp3s0", machine = { driver = "igb", kernel = "5.4" } }, loop = {} }
links = [{ between = ["pub", "loop"] }]
ports = [{ at = "pub", queue = { root = "cbs", idle_slope = "110%" } }]
streams = [{ name = "s", writer = "pub", reader = "loop", variables = 3, vid = 8, pcp = 3 }]
"#,
            "two.toml",
        )
        .unwrap();
        let told =
            elsewhere(&scenario, "veth", Some(Kernel { major: 6, minor: 12 }), |port| Some(format!("va{}", port.0)));
        let plan = plan(&told, told.host_named("pub").unwrap());
        let [step] = plan.steps.as_slice() else { panic!("ethtool is for hardware: {:?}", plan.steps) };
        assert_eq!((step.command.program, step.target.as_str()), (Program::Tc, "va0"));
        // A stock veth tells 10 Gbit/s of itself, whatever its link.
        assert!(step.command.line().contains("cbs idleslope 3556 sendslope -9996444 "), "{}", step.command.line());
    }
}
