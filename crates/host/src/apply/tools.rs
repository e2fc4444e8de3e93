//! Whether the programs that a plan calls are there, and new enough to be understood.

use tsn::{Plan, Program};

use super::{ApplyError, Refused, qdisc};
use crate::look::Look;

/// Says what is missing before anything is changed.
pub(super) fn check(look: &impl Look, plan: &Plan) -> Result<(), ApplyError> {
    let mut known: Vec<Program> = Vec::new();
    for program in plan.steps.iter().map(|step| step.command.program) {
        if known.contains(&program) {
            continue;
        }
        known.push(program);
        let (version, package) = match program {
            Program::Ip | Program::Bridge | Program::Tc | Program::Dcb => ("-V", "iproute2"),
            Program::Ethtool => ("--version", "ethtool"),
            Program::OvsVsctl => ("--version", "openvswitch-switch"),
            Program::Systemctl => ("--version", "systemd"),
        };
        let name = program.name();
        let Some(told) = look.run(&[name, version]) else {
            return Err(Refused::Missing { program: name, package }.into());
        };
        if program == Program::Tc {
            speaks_json(look, &told.out)?;
        }
    }
    Ok(())
}

/// What is there is read as JSON. Every namespace has `lo`.
fn speaks_json(look: &impl Look, version: &str) -> Result<(), ApplyError> {
    let Some(shown) = look.run(&["tc", "-j", "qdisc", "show", "dev", "lo"]) else { return Ok(()) };
    let unknown = !shown.well && shown.error.contains("-j");
    if unknown || shown.well && qdisc::parse(&shown.out).is_err() {
        let which = if version.is_empty() { "tc" } else { version };
        return Err(Refused::NoJson { version: which.to_owned() }.into());
    }
    Ok(())
}
