//! `downbeat apply --watch`: the plan kept true until Ctrl-C.

use std::io::{self, Write as _};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, ValueEnum};
use host::{Applied, Notifier, OnChange, Told, Watch, What};
use serde_json::{Value, json};
use tsn::Plan;
use units::Nanos;

use super::{failure, tell_applied};
use crate::output::{Failure, MET, Outcome};

const FORMAT: &str = "downbeat/watch/1";
/// So long a signal may go unheard: one that comes just before we wait.
const TURN: Duration = Duration::from_millis(200);
/// Probes more often than this would be most of what the watch does, ns.
const SHORTEST_PROBE: u64 = 1_000_000;

/// Arguments of a watch.
#[derive(Args)]
pub(super) struct WatchArguments {
    /// Keep the plan true until Ctrl-C or SIGTERM: issue schedules again that something stopped, mend what is changed
    #[arg(long)]
    watch: bool,
    /// With --watch or --unit: what to do when something differs from the plan. Stopped schedules are issued again in any case
    #[arg(long, value_enum, default_value_t, requires = "kept")]
    on_change: Wanted,
    /// With --watch or --unit: compare the plan with the machine this often, too, for what the kernel does not tell; 0 for never
    #[arg(long, value_name = "SPAN", default_value = "60s", requires = "kept")]
    every: Nanos,
    /// With --watch or --unit: this often send frames, while gates are to be shut, and look when they leave: schedules that stand
    /// still without a word are issued again. Left out or 0, nothing is sent
    #[arg(long, value_name = "EVERY", requires = "kept")]
    probe: Option<Nanos>,
    /// With --watch: undo the plan at the end
    #[arg(long, requires = "watch", conflicts_with = "unit")]
    restore_on_exit: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Wanted {
    /// Make it as planned again
    #[default]
    Mend,
    /// Only tell
    Tell,
}

impl WatchArguments {
    /// Those that a unit of systemd is started with, so that its watch is as this one.
    pub(super) fn options(&self) -> Vec<String> {
        let mut options = vec!["--every".to_owned(), self.every.to_string()];
        if self.on_change == Wanted::Tell {
            options.extend(["--on-change", "tell"].map(str::to_owned));
        }
        if let Some(every) = self.probe {
            options.extend(["--probe".to_owned(), every.to_string()]);
        }
        options
    }

    pub(super) fn probes(&self) -> bool {
        self.probe.is_some_and(|every| every.0 > 0)
    }

    pub(super) fn is_asked_for(&self) -> bool {
        self.watch
    }

    pub(super) fn execute(self, plan: Plan, json: bool) -> Outcome {
        let interrupted = lab::interrupt_flag().map_err(Failure::from)?;
        let on_change = match self.on_change {
            Wanted::Mend => OnChange::Mend,
            Wanted::Tell => OnChange::Tell,
        };
        let every = u64::try_from(self.every.0).ok().filter(|every| *every > 0).map(Duration::from_nanos);
        let advice = plan.advice.clone();
        let (mut watch, applied) = Watch::begin(plan, on_change, every).map_err(failure)?;
        let unprobed = match self.probe.filter(|every| every.0 > 0) {
            Some(every) => watch.probe(Duration::from_nanos(every.0.unsigned_abs().max(SHORTEST_PROBE))),
            None => Vec::new(),
        };
        tell_begin(&applied, &advice, &unprobed, json)?;
        let mut systemd = Notifier::from_environment();
        systemd.ready();
        while !interrupted.load(Ordering::Relaxed) {
            for told in watch.turn(TURN).map_err(failure)? {
                tell(&told, json)?;
            }
            systemd.alive();
        }
        systemd.stopping();
        let undone = if self.restore_on_exit { watch.restore().map_err(failure)? } else { Vec::new() };
        if json {
            line(
                &json!({ "format": FORMAT, "what": "ended", "at_ns": rt::clock::now().0, "undone": undone })
                    .to_string(),
            )?;
        } else {
            for done in &undone {
                line(&format!("undone: {done}"))?;
            }
            line(match self.restore_on_exit {
                true => "the watch is over, the machine is as before",
                false => "the watch is over; what was applied stays, `sudo downbeat restore` undoes it",
            })?;
        }
        Ok(MET)
    }
}

fn tell_begin(applied: &Applied, advice: &[String], unprobed: &[String], json: bool) -> Result<(), Failure> {
    if json {
        let at_ns = rt::clock::now().0;
        let begin = json!({
            "format": FORMAT, "what": "begins", "at_ns": at_ns, "applied": applied, "unprobed": unprobed
        });
        return line(&begin.to_string());
    }
    tell_applied(applied);
    advice.iter().for_each(|text| println!("by hand: {}", text.trim_start_matches("# ")));
    unprobed.iter().for_each(|text| println!("not probed: {text}"));
    line("watching; Ctrl-C ends it")
}

/// A line for each, at once: who reads them may be a journal or a pipe.
fn tell(told: &Told, json: bool) -> Result<(), Failure> {
    if json {
        let mut value = json!(told);
        value["format"] = Value::from(FORMAT);
        return line(&value.to_string());
    }
    let what = match told.what {
        What::IssuedAgain => "the schedule is issued again",
        What::Mended => "mended",
        What::Differs => "NOT as planned",
        What::AsPlanned => "as planned again",
        What::NotMended => "NOT mended",
        What::Down => "waits for the link",
        What::Gone => "waits for the interface",
        What::Unseen => "whether gates move is not known",
    };
    let took = match told.took_ns {
        0 => String::new(),
        took => format!(" within {} ms", (took + 999_999) / 1_000_000),
    };
    let device = format!("{}: ", told.device);
    // A cause names its interface where there may be several.
    let cause = told.cause.strip_prefix(&device).unwrap_or(&told.cause);
    line(&format!("{}  {device}{cause}; {what}{took}", utc(told.at_ns)))?;
    told.lines.iter().try_for_each(|done| line(&format!("    {done}")))
}

fn line(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    written.map_err(|error| Failure::machine(format!("standard output: {error}")))
}

/// An instant of TAI as UTC in words, to the microsecond.
fn utc(tai_ns: i64) -> String {
    measure::utc_text(tai_ns - rt::clock::tai_minus_utc().0)
}
