//! What every bench tells about the machine that it ran on.

use std::fmt::Write as _;

use rt::machine::Machine;
use serde_json::{Value, json};

/// The machine, how busy it was, and what the measuring threads were granted.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    pub(super) machine: Machine,
    /// What the measuring thread was granted, one line each.
    pub(super) thread: Vec<String>,
    /// Load of the machine before and after.
    pub(super) load: [Option<f64>; 2],
}

impl Surroundings {
    /// Those at the beginning of a measurement.
    pub(super) fn begin() -> Self {
        Self { machine: Machine::read(), thread: Vec::new(), load: [load(), None] }
    }

    /// The same at its end.
    pub(super) fn end(mut self, thread: Vec<String>) -> Self {
        self.thread = thread;
        self.load[1] = load();
        self
    }

    pub(super) fn head(&self) -> String {
        let Machine { kernel_release, cpu_model, cpus, .. } = &self.machine;
        let mut text = format!(
            "{}, {cpus} processors, Linux {kernel_release}, {}\n",
            cpu_model.as_deref().unwrap_or("unknown processor"),
            self.machine.hypervisor.as_ref().map_or_else(
                || "no virtual machine".to_owned(),
                |hypervisor| format!("virtual machine (hypervisor {hypervisor})")
            ),
        );
        _ = writeln!(text, "{}", self.thread.join(", "));
        _ = writeln!(text, "Load of the machine {} before, {} after.", shown(self.load[0]), shown(self.load[1]));
        text
    }

    pub(super) fn caveats(&self) -> String {
        let mut text = String::new();
        if self.machine.hypervisor.is_some() {
            text += "This is a virtual machine: its neighbours and its host take time that cannot be seen from inside. \
                     Ratios within\nblocks suffer less from that than nanoseconds do. A claim about hardware needs \
                     hardware.\n";
        }
        let busiest = self.load.iter().flatten().copied().fold(0.0, f64::max);
        if busiest > 0.5 * self.machine.cpus as f64 {
            _ = writeln!(
                text,
                "The machine was not quiet (load {busiest:.1} on {} processors): take these figures as a trial only.",
                self.machine.cpus
            );
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        let Machine { kernel_release, cpu_model, cpus, hypervisor, .. } = &self.machine;
        json!({
            "cpu_model": cpu_model, "cpus": cpus, "kernel": kernel_release, "hypervisor": hypervisor,
            "load": self.load, "thread": self.thread,
        })
    }
}

/// How many threads wanted a processor, on average over the last minute.
fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

fn shown(load: Option<f64>) -> String {
    load.map_or_else(|| "unknown".to_owned(), |load| format!("{load:.1}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_is_named() {
        let machine = Machine { cpus: 2, hypervisor: Some("kvm".to_owned()), ..Machine::default() };
        let surroundings =
            Surroundings { machine, thread: vec!["SCHED_FIFO 50".to_owned()], load: [Some(0.2), Some(1.7)] };
        let head = surroundings.head();
        assert!(head.contains("virtual machine (hypervisor kvm)") && head.contains("0.2 before, 1.7 after"), "{head}");
        let caveats = surroundings.caveats();
        assert!(caveats.contains("load 1.7 on 2 processors") && caveats.contains("neighbours"), "{caveats}");
        assert_eq!(Surroundings::default().caveats(), "");
    }
}
