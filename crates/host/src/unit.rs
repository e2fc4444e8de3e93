//! The watch as a unit of systemd: a plan that has it starts the watch at every boot.
//!
//! Unit and a copy of the scenario are files of the plan, so that they are in its journal, are read back, and go when it
//! is undone, also after a boot.

use std::path::Path;

use tsn::{Command, Existing, Plan, PlannedFile, Program, Step, Undo};

/// Where the copy of the scenario lies: nobody moves it, as may happen to the file that was applied.
const FOLDER: &str = "/var/lib/downbeat";
/// The watch tells systemd this often that it is alive, at least; else it is started again. A probe takes at most three
/// seconds a port, a step of a plan as long as its program.
const WATCHDOG_S: u32 = 60;

/// The unit that watches a host.
pub(crate) fn name(host: &str) -> String {
    format!("downbeat-watch@{host}.service")
}

/// Whether a command puts such a unit in place: the unit.
pub(crate) fn enabled_by(run: &[String]) -> Option<&str> {
    match run {
        [program, verb, unit] if program == "systemctl" && verb == "enable" && unit.starts_with("downbeat-watch@") => {
            Some(unit)
        }
        _ => None,
    }
}

/// What a unit of the watch is made of.
#[derive(Debug, Clone, Copy)]
pub struct WatchUnit<'a> {
    /// The `downbeat` that it starts.
    pub program: &'a Path,
    /// The scenario file's text.
    pub scenario: &'a str,
    /// Options of the watch, such as `--probe 10s`.
    pub options: &'a [String],
    /// The watch sends probes.
    pub probes: bool,
}

impl WatchUnit<'_> {
    /// The plan, with the unit behind everything else. It is enabled, not started: whoever applies a plan must not be
    /// hindered by its watch.
    #[must_use]
    pub fn added_to(&self, mut plan: Plan) -> Plan {
        let unit = name(&plan.host);
        let scenario = format!("{FOLDER}/{}.toml", plan.host);
        let text = self.text(&plan, &scenario);
        plan.files.push(PlannedFile { path: scenario, text: self.scenario.to_owned() });
        plan.files.push(PlannedFile { path: format!("/etc/systemd/system/{unit}"), text });
        let systemctl = |words: &[&str]| Command {
            program: Program::Systemctl,
            words: words.iter().map(|word| (*word).to_owned()).collect(),
        };
        let reload = systemctl(&["daemon-reload"]);
        if !plan.steps.iter().any(|step| step.command == reload) {
            plan.steps.push(Step {
                target: "systemd".into(),
                command: reload,
                why: vec!["Units are new or changed".into()],
                undo: Undo::Nothing,
                existing: Existing::Replaced,
            });
        }
        plan.steps.push(Step {
            target: unit.clone(),
            command: systemctl(&["enable", &unit]),
            why: vec!["The watch begins at every boot".into()],
            undo: Undo::Run(systemctl(&["disable", &unit])),
            existing: Existing::Replaced,
        });
        plan
    }

    fn text(&self, plan: &Plan, scenario: &str) -> String {
        let clocks = plan.steps.iter().filter_map(|step| match &step.command.words[..] {
            [verb, now, unit] if verb == "enable" && now == "--now" => Some(unit.as_str()),
            _ => None,
        });
        let calls = |program: Program| plan.steps.iter().any(|step| step.command.program == program);
        let virtual_switch = if calls(Program::OvsVsctl) { vec!["openvswitch-switch.service"] } else { Vec::new() };
        // Whoever sets up the network first would undo what is applied; ptp4l is asked for its clock by nobody here, but
        // its unit is looked after.
        let after = ["network-pre.target", "network.target", "network-online.target"].into_iter();
        let after: Vec<&str> = after.chain(virtual_switch.iter().copied()).chain(clocks).collect();
        let mut capabilities = vec!["CAP_NET_ADMIN"];
        // Packet sockets of the probe.
        capabilities.extend(self.probes.then_some("CAP_NET_RAW"));
        // Its socket may be another user's.
        capabilities.extend((!virtual_switch.is_empty()).then_some("CAP_DAC_OVERRIDE"));
        let mut line = vec![quoted(&self.program.to_string_lossy())];
        line.extend(["apply", scenario, "--host", &plan.host, "--unit", "--watch"].map(str::to_owned));
        line.extend(self.options.iter().map(|option| quoted(option)));
        format!(
            "[Unit]\n\
             Description=Downbeat keeps {host} as scenario {name} plans it\n\
             After={after}\n\
             Wants=network-online.target\n\
             # An interface may come late: tried again without end.\n\
             StartLimitIntervalSec=0\n\
             \n\
             [Service]\n\
             # It is started when the plan is applied.\n\
             Type=notify\n\
             ExecStart={line}\n\
             Restart=on-failure\n\
             RestartSec=5\n\
             WatchdogSec={WATCHDOG_S}\n\
             CapabilityBoundingSet={capabilities}\n\
             NoNewPrivileges=yes\n\
             ProtectSystem=yes\n\
             ProtectHome=read-only\n\
             PrivateTmp=yes\n\
             RestrictAddressFamilies=AF_UNIX AF_NETLINK AF_INET AF_INET6 AF_PACKET\n\
             \n\
             [Install]\n\
             WantedBy=multi-user.target\n",
            host = plan.host,
            name = plan.scenario.replace('%', "%%"),
            after = after.join(" "),
            line = line.join(" "),
            capabilities = capabilities.join(" "),
        )
    }
}

/// A word of `ExecStart=`, systemd.service(5) "Command lines".
fn quoted(word: &str) -> String {
    let word = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    if word.contains(|c: char| c.is_whitespace() || "\"'\\;".contains(c)) { format!("\"{word}\"") } else { word }
}

#[cfg(test)]
mod tests;
