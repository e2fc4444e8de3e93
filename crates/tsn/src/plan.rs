//! The plan for one host: commands in their order, each with its reason and its undoing, files, and advice.

use std::fmt::Write as _;

use scenario::{HostId, Scenario};
use serde::Serialize;

use crate::port::LinuxPort;
use crate::{advice, bridge, ethtool, ptp, qdiscs, vlan};

/// A program that a step calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// `ip`, of iproute2.
    Ip,
    /// `bridge`, of iproute2.
    Bridge,
    /// `tc`, of iproute2.
    Tc,
    /// `ethtool`.
    Ethtool,
    /// `ovs-vsctl`, of Open vSwitch.
    OvsVsctl,
    /// `dcb`, of iproute2.
    Dcb,
    /// `systemctl`.
    Systemctl,
}

impl Program {
    /// What is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Bridge => "bridge",
            Self::Tc => "tc",
            Self::Ethtool => "ethtool",
            Self::OvsVsctl => "ovs-vsctl",
            Self::Dcb => "dcb",
            Self::Systemctl => "systemctl",
        }
    }
}

/// A command: a program and its words. No word has blanks, so that words joined by blanks are a line of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Command {
    /// The program.
    pub program: Program,
    /// Its words, without the program.
    pub words: Vec<String>,
}

impl Command {
    pub(crate) fn new(program: Program, line: &str) -> Self {
        Self { program, words: line.split_whitespace().map(str::to_owned).collect() }
    }

    /// The words as one line, without the program: what `-batch` reads.
    pub fn line(&self) -> String {
        self.words.join(" ")
    }
}

/// A setting of an interface whose value before has to be read and put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setting {
    /// Number of queues, `ethtool -l`.
    Channels,
    /// Sizes of rings, `ethtool -g`.
    Rings,
    /// Held back interrupts, `ethtool -c`.
    Coalescing,
    /// Energy-efficient Ethernet, `ethtool --show-eee`.
    Eee,
    /// Offloads of segmentation and reassembly, `ethtool -k`.
    Features,
    /// The MAC merge layer, `ethtool --show-mm`.
    MacMerge,
    /// Up or down, `ip link`.
    State,
    /// The bridge it belongs to, `ip link`.
    Master,
}

/// How a step is undone. Undoing goes through the steps backwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Undo {
    /// By this command.
    Run(Command),
    /// With the step of this index: its undoing takes this along.
    With(usize),
    /// By putting back what was read before the step.
    Former(Setting),
    /// By nothing: the step changes nothing that an earlier one did not.
    Nothing,
}

/// What is done when the thing that a step makes is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Existing {
    /// The command replaces it, if it is of the same kind; another kind is removed first.
    Replaced,
    /// It is removed first unless it is equal: Linux cannot change one that runs.
    RemovedFirst,
    /// It is used as it is, and not undone.
    Kept,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The interface or the bridge that it changes; the unit for `systemctl`.
    pub target: String,
    /// What is run.
    pub command: Command,
    /// Why, and where its numbers come from: lines for people.
    pub why: Vec<String>,
    /// How it is undone.
    pub undo: Undo,
    /// What if it is there already.
    pub existing: Existing,
}

/// A file that a plan writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedFile {
    /// Where it goes.
    pub path: String,
    /// What it says, comments included.
    pub text: String,
}

/// What Linux is told on one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The scenario.
    pub scenario: String,
    /// The host.
    pub host: String,
    /// Files, written before the first step and removed after the last one is undone.
    pub files: Vec<PlannedFile>,
    /// Commands in their order.
    pub steps: Vec<Step>,
    /// What is done by hand, once: kernel command line, processors, interrupts. Lines for people.
    pub advice: Vec<String>,
}

/// Plans a host: VLANs and bridges, then NICs, then filters, queue disciplines and their children, a software
/// schedule once more, and clock synchronisation.
///
/// The order keeps schedules alive. Linux stops the timer of a software taprio when a child is put under it or
/// when clsact is added, and shows no sign of it; so clsact and filters come first, and the schedule is issued
/// again behind its children.
///
/// # Panics
/// If `host` is not one of the scenario's.
pub fn plan(scenario: &Scenario, host: HostId) -> Plan {
    let ports = LinuxPort::all(scenario, host);
    let mut steps = Vec::new();
    bridge::steps(scenario, host, &ports, &mut steps);
    vlan::steps(scenario, host, &ports, &mut steps);
    ports.iter().for_each(|port| ethtool::steps(scenario, port, &mut steps));
    bridge::priority_steps(scenario, host, &ports, &mut steps);
    ports.iter().for_each(|port| qdiscs::steps(port, &mut steps));
    let files = ptp::plan(scenario, host, &ports, &mut steps);
    Plan {
        scenario: scenario.name.clone(),
        host: scenario.host(host).name.clone(),
        files,
        steps,
        advice: advice::lines(scenario, host, &ports),
    }
}

/// One of the texts that a plan can be written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// For `ip -batch`.
    Ip,
    /// For `bridge -batch`.
    Bridge,
    /// For `tc -batch`.
    Tc,
    /// Lines of `ethtool` for a shell.
    Ethtool,
    /// Lines of `ovs-vsctl` for a shell.
    Ovs,
    /// Lines of `dcb` for a shell.
    Dcb,
    /// Lines of `systemctl` for a shell.
    Systemctl,
    /// What is done by hand.
    Advice,
}

impl Form {
    /// All of them, in the order in which they are used.
    pub const ALL: [Self; 8] =
        [Self::Ip, Self::Bridge, Self::Ovs, Self::Ethtool, Self::Dcb, Self::Tc, Self::Systemctl, Self::Advice];

    /// Its name, and the end of its file's.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Bridge => "bridge",
            Self::Tc => "tc",
            Self::Ethtool => "ethtool",
            Self::Ovs => "ovs",
            Self::Dcb => "dcb",
            Self::Systemctl => "systemctl",
            Self::Advice => "advice",
        }
    }

    fn program(self) -> Option<Program> {
        match self {
            Self::Ip => Some(Program::Ip),
            Self::Bridge => Some(Program::Bridge),
            Self::Tc => Some(Program::Tc),
            Self::Ethtool => Some(Program::Ethtool),
            Self::Ovs => Some(Program::OvsVsctl),
            Self::Dcb => Some(Program::Dcb),
            Self::Systemctl => Some(Program::Systemctl),
            Self::Advice => None,
        }
    }

    /// How its text is put to use.
    fn usage(self) -> &'static str {
        match self {
            Self::Ip => "ip -batch FILE",
            Self::Bridge => "bridge -batch FILE",
            Self::Tc => "tc -batch FILE",
            Self::Ethtool | Self::Ovs | Self::Dcb | Self::Systemctl => "sh FILE",
            Self::Advice => "by hand",
        }
    }
}

impl Plan {
    /// The steps of a program as a text that it reads, with comments; `None` when there are none.
    pub fn text(&self, form: Form) -> Option<String> {
        let lines = match form.program() {
            None => self.advice.iter().map(|line| format!("{line}\n")).collect(),
            Some(program) => self.lines(program),
        };
        (!lines.is_empty())
            .then(|| format!("# {} of scenario {}: {}\n\n{lines}", self.host, self.scenario, form.usage()))
    }

    fn lines(&self, program: Program) -> String {
        let shell = !matches!(program, Program::Ip | Program::Bridge | Program::Tc);
        let mut text = String::new();
        for step in self.steps.iter().filter(|step| step.command.program == program) {
            if !step.why.is_empty() && !text.is_empty() {
                text.push('\n');
            }
            step.why.iter().for_each(|why| text.push_str(&format!("# {why}\n")));
            let name = if shell { format!("{} ", program.name()) } else { String::new() };
            _ = writeln!(text, "{name}{}", step.command.line());
        }
        text
    }

    /// Everything in one text, for a person: forms under headings, then files.
    pub fn all(&self) -> String {
        let mut text = String::new();
        for form in Form::ALL {
            if let Some(part) = self.text(form) {
                _ = write!(text, "### {}\n{part}\n", form.name());
            }
        }
        for file in &self.files {
            _ = write!(text, "### {}\n{}\n", file.path, file.text);
        }
        if text.is_empty() {
            _ = writeln!(text, "# {} of scenario {}: nothing to be done", self.host, self.scenario);
        }
        text
    }

    /// Commands that undo the steps up to and with `last`, backwards. What was there before is put back by whoever
    /// has read it: those steps are given by their index in the second part.
    pub fn undoing(&self, last: usize) -> (Vec<&Command>, Vec<(usize, Setting)>) {
        let (mut commands, mut settings) = (Vec::new(), Vec::new());
        for (index, step) in self.steps.iter().enumerate().take(last.saturating_add(1)).rev() {
            match &step.undo {
                Undo::Run(command) => commands.push(command),
                Undo::Former(setting) => settings.push((index, *setting)),
                Undo::With(_) | Undo::Nothing => {}
            }
        }
        (commands, settings)
    }
}
