//! `downbeat apply`: what a scenario asks of this machine, put onto it.

mod all;
mod held;
mod watch;

use std::io;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use host::{Applied, Apply, ApplyError, LockError, Refused, Standing, StepFailure, StepState, ThisMachine, WatchUnit};
use serde_json::json;

use crate::commands::render;
use crate::commands::settings::Settings;
use crate::output::{self, CANNOT, Failure, MET, Outcome};

pub(crate) const HELP: &str = "\
Examples:
  downbeat apply cell.toml --host sw --dry-run    # how this machine differs from the plan
  sudo downbeat apply cell.toml --host sw
  sudo downbeat restore                           # as before, also after a crash

  sudo downbeat apply cell.toml --host sw --watch # and kept so, until Ctrl-C
  sudo downbeat apply cell.toml --host sw --watch --probe 10s   # seen by frames, too
  sudo downbeat apply cell.toml --host sw --unit  # and kept so by systemd, also after a boot

  downbeat apply cell.toml --all --ssh sw=root@10.0.0.2 --ssh pub=here   # every host by ssh, all or none

Applying twice does nothing the second time; another plan takes the place of the one that is applied. Whatever fails, the
machine is as before. See docs/apply.md.";

/// Arguments of `apply`.
#[derive(Args)]
#[command(group = ArgGroup::new("kept").args(["watch", "unit"]).multiple(true))]
pub(crate) struct Arguments {
    /// The scenario file
    file: PathBuf,
    #[command(flatten)]
    settings: Settings,
    /// The host that this machine is
    #[arg(long, value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
    host: Option<String>,
    /// Every host of the scenario, by ssh: all of them or none
    #[arg(long, conflicts_with_all = ["watch", "unit"])]
    all: bool,
    /// With --all: how ssh reaches a host, such as sw=root@10.0.0.2; `here` is this machine, `none` leaves a host out. One
    /// that is not named is reached as `ssh` of its table in the scenario says, else by its name there
    #[arg(long, value_name = "HOST=DESTINATION", requires = "all")]
    ssh: Vec<String>,
    /// With --all: be root there by `sudo -n`
    #[arg(long, requires = "all")]
    sudo: bool,
    /// With --all: take off what is applied, on every host
    #[arg(long, requires = "all", conflicts_with = "dry_run")]
    restore: bool,
    /// One host's end of --all: asked on standard input
    #[arg(long, hide = true, requires = "host", conflicts_with_all = ["watch", "unit", "dry_run", "json"])]
    held: bool,
    /// Change nothing: print how the machine differs from the plan
    #[arg(long, conflicts_with = "watch")]
    dry_run: bool,
    /// Print JSON; with --watch a line for each thing that happens
    #[arg(long)]
    json: bool,
    /// Have systemd keep the plan true from now on, also after a boot: a unit that runs `apply --watch` with the same
    /// options; `downbeat restore` takes it off again
    #[arg(long)]
    unit: bool,
    #[command(flatten)]
    watch: watch::WatchArguments,
}

impl Arguments {
    pub(crate) fn execute(self) -> Outcome {
        let name = self.host.unwrap_or_default();
        if self.held {
            return held::execute(&name);
        }
        let scenario = self.settings.read(&self.file)?;
        if self.all {
            let hosts: Vec<_> = scenario.hosts.iter().filter_map(|host| scenario.host_named(&host.name)).collect();
            if !self.restore {
                render::tell_rules(&scenario, &hosts);
            }
            let wanted = match (self.dry_run, self.restore) {
                (true, _) => all::Wanted::DryRun,
                (_, true) => all::Wanted::Restore,
                _ => all::Wanted::Apply,
            };
            return all::execute(&scenario, &self.ssh, self.sudo, wanted, self.json);
        }
        let Some(host) = scenario.host_named(&name) else {
            let known: Vec<_> = scenario.hosts.iter().map(|host| host.name.as_str()).collect();
            return Err(Failure::input(format!(
                "the scenario has no host \"{name}\"\n  mend: name one of {} with --host",
                known.join(", ")
            )));
        };
        // Frames may be lost by what Linux takes without a word.
        render::tell_rules(&scenario, &[host]);
        render::tell_speeds(&scenario, host);
        let mut plan = tsn::plan(&scenario, host);
        if self.unit {
            let program =
                std::env::current_exe().map_err(|error| Failure::machine(format!("this program: {error}")))?;
            let (options, probes) = (self.watch.options(), self.watch.probes());
            let unit = WatchUnit { program: &program, scenario: &scenario.source, options: &options, probes };
            plan = unit.added_to(plan);
        }
        let apply = Apply::here();
        if self.dry_run {
            let states = apply.examine(&plan);
            return if self.json {
                output::json(&json!({ "format": FORMAT, "steps": states }))
            } else {
                Ok(tell(&states))
            };
        }
        if self.watch.is_asked_for() {
            return self.watch.execute(plan, self.json);
        }
        let (applied, unit) =
            if self.unit { with_unit(&apply, &plan)? } else { (apply.apply(&plan).map_err(failure)?, None) };
        if self.json {
            return output::json(&json!({ "format": FORMAT, "applied": applied, "unit": unit }));
        }
        tell_applied(&applied);
        unit.iter().for_each(|unit| println!("{unit} keeps it so; `journalctl -u {unit}` shows what it does"));
        for line in &plan.advice {
            println!("by hand: {}", line.trim_start_matches("# "));
        }
        Ok(MET)
    }
}

const FORMAT: &str = "downbeat/apply/1";

/// Applies a plan that has the unit of its watch, and starts that.
fn with_unit(apply: &Apply<ThisMachine>, plan: &tsn::Plan) -> Result<(Applied, Option<String>), Failure> {
    let stopped = apply.stop_watch().map_err(failure)?;
    let applied = apply.apply(plan).map_err(|error| {
        // As before: that one ran.
        let again = if stopped.is_some() { apply.start_watch().err() } else { None };
        let mut told = failure(error);
        again
            .iter()
            .for_each(|error| told.text.push_str(&format!("\n  and the watch that ran does not any more: {error}")));
        told
    })?;
    match apply.start_watch() {
        Ok(unit) => Ok((applied, unit)),
        Err(error) => Err(Failure::machine(format!(
            "the plan is applied, but its watch does not begin: {}\n  mend: `journalctl -u downbeat-watch@{}` says why; \
             `downbeat restore` takes all off",
            match error {
                ApplyError::Step { line, why, .. } => format!("`{line}`: {why}"),
                other => other.to_string(),
            },
            plan.host
        ))),
    }
}

/// How the machine differs from the plan, a line a step.
fn tell(states: &[StepState]) -> u8 {
    for state in states {
        let line = &state.line;
        match &state.standing {
            Standing::AsPlanned if !state.due => println!("  = {line}"),
            Standing::AsPlanned => println!("  ~ {line}   (again: something changes under it)"),
            Standing::ToDo => println!("  + {line}"),
            Standing::Different { now } => println!("  ~ {line}   ({now})"),
            Standing::Foreign { now } => println!("  ! {line}   ({now})"),
            Standing::Untold if state.due => println!("  + {line}"),
            Standing::Untold => println!("  - {line}   (the device does not tell of it: left out)"),
        }
    }
    let due = states.iter().filter(|state| state.due).count();
    let foreign = states.iter().filter(|state| matches!(state.standing, Standing::Foreign { .. })).count();
    match (due, foreign) {
        (0, _) => println!("the machine is as planned"),
        (due, 0) => println!("{due} steps to do"),
        (_, foreign) => {
            println!("{foreign} things are in the way that could not be put back: apply would refuse");
            return CANNOT;
        }
    }
    MET
}

fn tell_applied(applied: &Applied) {
    applied.undone.iter().for_each(|line| println!("  undone: {line}"));
    applied.done.iter().for_each(|line| println!("  {line}"));
    applied.left_out.iter().for_each(|line| println!("  left out, the device does not tell of it: {line}"));
    match applied.done.len() {
        0 => println!("the machine is as planned already, {} things looked at", applied.kept),
        done => println!(
            "{done} steps done and read back, {} were as planned; `sudo downbeat restore` undoes them",
            applied.kept
        ),
    }
}

/// In words, with how to mend it.
pub(crate) fn failure(error: ApplyError) -> Failure {
    let mend = match &error {
        ApplyError::Foreign(_) => {
            "remove it if nobody needs it (`tc qdisc del dev IFACE root`, `ip link set IFACE nomaster`), then apply again"
        }
        ApplyError::Step { failure: StepFailure::NoRight, .. } => "run as root",
        ApplyError::Step { failure: StepFailure::Machine, .. } => {
            "`downbeat check FILE --here --host NAME` looks for what the machine lacks"
        }
        ApplyError::NotTaken { .. } => "change what the machine cannot keep, or another kernel or driver",
        ApplyError::Undo { .. } => "`downbeat restore` goes on where it stopped, once the cause is mended",
        ApplyError::Journal { error, .. } if error.kind() == io::ErrorKind::InvalidData => {
            "if nothing is applied that you would have undone, move the file away"
        }
        ApplyError::Journal { .. } => "run as root, with room on the disk",
        ApplyError::Refused(Refused::Lock(LockError::Held { .. })) => "one at a time",
        ApplyError::Refused(Refused::Lock(LockError::Folder { .. })) => "run as root",
        ApplyError::Refused(Refused::Missing { .. } | Refused::NoJson { .. }) => {
            "`downbeat check FILE --here --host NAME` looks for what else is missing"
        }
        ApplyError::Refused(Refused::Deaf(_)) => "a kernel with rtnetlink, and a right to open sockets",
    };
    Failure::machine(format!("{error}\n  mend: {mend}"))
}
