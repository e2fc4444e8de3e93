//! The queueing disciplines of a laboratory's ports: installed as `tsn` plans them, on the run's own interfaces.

use std::process::Command;

use scenario::{HostId, PortId, Queue, Scenario, Shaper, TaprioMode};
use tsn::Program;

use crate::error::LabError;
use crate::topology::{Topology, run};

/// Which virtual interfaces the ports are; it decides what rate Linux takes them for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Veth {
    /// Of any kernel.
    Stock,
    /// Of the kernel laboratory: with the rate of their link.
    KernelLab,
}

impl Veth {
    fn driver(self) -> &'static str {
        match self {
            Self::Stock => "veth",
            Self::KernelLab => "lab",
        }
    }
}

/// The commands of `tc` for one host.
pub(crate) struct HostPlan {
    host: HostId,
    steps: Vec<tsn::Step>,
}

impl HostPlan {
    /// The lines of `tc`, in their order.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.steps.iter().map(|step| step.command.line())
    }

    /// The host.
    pub(crate) fn host(&self) -> HostId {
        self.host
    }
}

/// What a run gives the ports of all hosts that have other queues than those of the kernel.
pub(crate) fn plans(scenario: &Scenario, topology: &Topology, veth: Veth) -> Vec<HostPlan> {
    let kernel = nix::sys::utsname::uname().ok().and_then(|name| name.release().to_str()?.parse().ok());
    let told = tsn::elsewhere(scenario, veth.driver(), kernel, |port| topology.interface(port).map(str::to_owned));
    let of_host = |host| {
        // Bridges and interfaces are made by the topology; there are no clocks to synchronise.
        let steps = tsn::plan(&told, host).steps.into_iter().filter(|step| step.command.program == Program::Tc);
        HostPlan { host, steps: steps.collect() }
    };
    (0..scenario.hosts.len()).map(HostId).map(of_host).filter(|plan| !plan.steps.is_empty()).collect()
}

/// Whether a virtual interface can be all that the ports are to be.
///
/// # Errors
/// A port asks for something of a network card.
pub(crate) fn check(scenario: &Scenario) -> Result<(), LabError> {
    for (index, port) in scenario.ports.iter().enumerate() {
        let id = PortId(index);
        if scenario.link(port.link).ptp_only {
            continue;
        }
        if let Some((what, mend)) = of_a_card(&port.queue, scenario.nic(id).preemptable != 0) {
            return Err(LabError::Host {
                what: format!(
                    "port {} asks for {what}, which a network card does; the virtual interfaces of a run have none",
                    scenario.port_name(id)
                ),
                mend: format!(
                    "{mend} for a run; on hosts with such cards take `downbeat publish` and `downbeat loopback`"
                ),
            });
        }
    }
    Ok(())
}

/// What only a network card can do of a queue, and what to take in its place.
fn of_a_card(queue: &Queue, preempts: bool) -> Option<(&'static str, &'static str)> {
    const SHAPER: &str = "leave `offload = true` out";
    let of_shaper = |shaper: &Shaper| match shaper {
        Shaper::Cbs(cbs) if cbs.offload => Some(("cbs with offload", SHAPER)),
        Shaper::Etf(etf) if etf.offload => Some(("etf with offload", SHAPER)),
        _ => None,
    };
    match queue {
        Queue::Cbs(cbs) if cbs.offload => Some(("cbs with offload", SHAPER)),
        Queue::Etf(etf) if etf.offload => Some(("etf with offload", SHAPER)),
        Queue::Taprio { schedule, .. } if schedule.mode == TaprioMode::FullOffload => {
            Some(("taprio with full offload", "take `mode = \"software\"`"))
        }
        Queue::Mqprio(_) | Queue::Taprio { .. } if preempts => {
            Some(("frame preemption", "leave `preemptable` out of its `nic`"))
        }
        Queue::Mqprio(classes) | Queue::Taprio { classes, .. } => classes.shapers.iter().find_map(of_shaper),
        _ => None,
    }
}

/// How many transmit queues the interface of a port needs: one a class. One alone where there are no classes: with more, the
/// kernel takes up to eight frames at once out of a root discipline.
pub(crate) fn queues_of(queue: &Queue) -> usize {
    match queue {
        Queue::Mqprio(classes) | Queue::Taprio { classes, .. } => classes.shapers.len().max(1),
        _ => 1,
    }
}

/// Whether a queue of the scenario keeps launch times.
pub(crate) fn keep_launch_times(scenario: &Scenario) -> bool {
    let etf = |shaper: &Shaper| matches!(shaper, Shaper::Etf(_));
    scenario.ports.iter().any(|port| match &port.queue {
        Queue::Etf(_) => true,
        Queue::Mqprio(classes) | Queue::Taprio { classes, .. } => classes.shapers.iter().any(etf),
        Queue::Fifo | Queue::FqCodel | Queue::Cbs(_) => false,
    })
}

/// Whether the queues are more than one discipline that any kernel has: then the links have to be up before.
pub(crate) fn are_scheduled(scenario: &Scenario) -> bool {
    scenario.ports.iter().any(|port| !matches!(port.queue, Queue::Fifo | Queue::FqCodel))
}

/// Installs them.
///
/// # Errors
/// The kernel has no such discipline, or refuses it.
pub(crate) fn install(scenario: &Scenario, topology: &Topology, plans: &[HostPlan]) -> Result<(), LabError> {
    plans.iter().try_for_each(|plan| {
        let batch: String = plan.lines().map(|line| line + "\n").collect();
        let mut command = Command::new("tc");
        command.args(["-n", topology.namespace(plan.host), "-batch", "-"]);
        run(&mut command, Some(&batch)).map_err(|error| match error {
            LabError::Command { output, .. } => refused(scenario, topology, plan, &output),
            other => other,
        })
    })
}

/// What is said of the step at which `tc` stopped.
fn refused(scenario: &Scenario, topology: &Topology, plan: &HostPlan, output: &str) -> LabError {
    let number = output.split("Command failed -:").nth(1).and_then(|rest| {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<usize>().ok()?.checked_sub(1)
    });
    let Some(step) = number.and_then(|number| plan.steps.get(number)) else {
        return LabError::Command {
            line: format!("tc -n {} -batch", topology.namespace(plan.host)),
            output: output.into(),
        };
    };
    let line = step.command.line();
    let port = port_of(scenario, topology, plan.host, &step.target);
    let said =
        output.lines().find(|line| line.starts_with("Error:")).or_else(|| output.lines().next()).unwrap_or("").trim();
    // Of an unknown discipline the kernel says so; of an action or classifier that it could not load it.
    let lacks = ["unknown", "Failed to load", "not found"].iter().any(|word| output.contains(word));
    match needs(&step.command.words) {
        Some((kind, module)) if lacks => LabError::Host {
            what: format!("this kernel has no {kind}, which port {port} asks for (tc {line}: {said})"),
            mend: format!(
                "load it (`modprobe {module}`; a kernel without modules needs {}), or use `downbeat run --in kernel-lab`, \
                 whose kernel has it",
                config_of(&module)
            ),
        },
        _ => LabError::Host {
            what: format!("the kernel does not take the queue of port {port}: `tc {line}` says {said}"),
            mend: format!(
                "`downbeat check` tells what Linux refuses; `downbeat render --host {}` shows where the numbers come from",
                scenario.host(plan.host).name
            ),
        },
    }
}

fn port_of(scenario: &Scenario, topology: &Topology, host: HostId, interface: &str) -> String {
    let mut ports = (0..scenario.ports.len()).map(PortId);
    let same = |port: &PortId| scenario.port(*port).host == host && topology.interface(*port) == Some(interface);
    ports.find(same).map_or_else(|| interface.to_owned(), |port| scenario.port_name(port))
}

/// What a command of `tc` needs of the kernel, in words, and the module that is.
fn needs(words: &[String]) -> Option<(String, String)> {
    let has = |word: &str| words.iter().any(|found| found == word);
    if has("filter") {
        return Some(("classifier flower with the action skbedit".into(), "cls_flower act_skbedit".into()));
    }
    let kinds = ["mqprio", "taprio", "cbs", "etf", "fq_codel"];
    if let Some(kind) = kinds.into_iter().find(|kind| has(kind)) {
        return Some((format!("queue discipline {kind}"), format!("sch_{kind}")));
    }
    has("clsact").then(|| ("queue discipline clsact".into(), "sch_ingress".into()))
}

/// The lines of a kernel's configuration for modules.
fn config_of(modules: &str) -> String {
    modules.split(' ').map(|module| format!("CONFIG_NET_{}", module.to_uppercase())).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use scenario::HostKind;

    use super::*;

    fn is_bridge(scenario: &Scenario, host: HostId) -> bool {
        scenario.host(host).kind != HostKind::Station
    }

    fn bridged(queue: &str) -> Scenario {
        let text = format!("{}\n[[ports]]\nat = \"*\"\nqueue = {queue}\n", scenario::template("bridged").unwrap());
        scenario::read(&text, "bridged.toml").unwrap()
    }

    const MQPRIO: &str = "{ root = \"mqprio\", map = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], classes = 2 }";

    #[test]
    fn every_host_gets_its_own_and_a_bridge_its_filters() {
        let scenario = bridged(MQPRIO);
        let plans = plans(&scenario, &Topology::of(&scenario), Veth::KernelLab);
        assert_eq!(plans.len(), 3);
        for plan in plans {
            let filters = plan.lines().filter(|line| line.starts_with("filter")).count();
            assert_eq!(filters, if is_bridge(&scenario, plan.host()) { 14 } else { 0 });
            let roots = plan.lines().filter(|line| line.contains("mqprio")).count();
            assert_eq!(roots, if is_bridge(&scenario, plan.host()) { 2 } else { 1 });
        }
    }

    #[test]
    fn what_cards_do_is_refused_in_words() {
        let error = check(&bridged("{ root = \"cbs\", idle_slope = \"110%\", offload = true }")).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        assert!(
            error.to_string().contains("cbs with offload") && error.to_string().contains("offload = true"),
            "{error}"
        );
        assert!(check(&bridged(MQPRIO)).is_ok());
    }

    #[test]
    fn a_missing_discipline_is_named_with_its_mend() {
        let scenario = bridged(MQPRIO);
        let topology = Topology::of(&scenario);
        let plans = plans(&scenario, &topology, Veth::Stock);
        let output = "Error: Specified qdisc kind is unknown.\nCommand failed -:1\n";
        let text = refused(&scenario, &topology, &plans[0], output).to_string();
        for word in ["mqprio", "pub", "modprobe sch_mqprio", "CONFIG_NET_SCH_MQPRIO", "--in kernel-lab"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        // Another refusal is not called a missing discipline.
        let text = refused(&scenario, &topology, &plans[0], "Error: Invalid\nCommand failed -:1\n").to_string();
        assert!(text.contains("Invalid") && !text.contains("modprobe"), "{text}");
    }
}
