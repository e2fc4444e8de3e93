//! What is known of the ports of a plan from what the kernel tells, and what follows from it.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Instant;

use tsn::{Plan, Step};

use super::heard::{Heard, ROOT};
use super::{OnChange, Told, What};
use crate::apply::{Applied, Apply, ApplyError, Standing, StepState, line_of, loses_its_timer};
use crate::look::Act;

/// An interface of the plan.
#[derive(Debug, Default)]
struct Port {
    /// The step that issues its software schedule the last time, by its index in the plan.
    schedule: Option<usize>,
    /// Its link is not there, or it was set down.
    down: bool,
    /// What has stopped the schedule since it was issued.
    stopped: Vec<String>,
    /// Its root discipline was changed by somebody, and not yet compared: to issue ours might undo what is only to be told.
    /// Or ours could not be issued.
    in_doubt: bool,
    /// So many times we have changed the root ourselves, and not yet heard of it.
    ours: u32,
}

/// Keeps a plan true on a machine, given what the kernel tells.
#[derive(Debug)]
pub(super) struct Keeper<M> {
    pub(super) apply: Apply<M>,
    plan: Plan,
    on_change: OnChange,
    ports: BTreeMap<String, Port>,
    names: HashMap<i32, String>,
    /// Why the plan is to be compared.
    to_look: Vec<String>,
    /// When the first of what is not yet mended was heard.
    since: Option<Instant>,
    /// In what the machine differed at the last look, so that it is told once.
    differed: Vec<String>,
}

impl<M: Act> Keeper<M> {
    /// After a plan was applied.
    pub(super) fn new(apply: Apply<M>, plan: Plan, on_change: OnChange, applied: &Applied) -> Self {
        let mut ports: BTreeMap<String, Port> = BTreeMap::new();
        for (index, step) in plan.steps.iter().enumerate() {
            let port = ports.entry(step.target.clone()).or_default();
            if loses_its_timer(step) {
                port.schedule = Some(index);
            }
        }
        let mut names = HashMap::new();
        for (name, port) in &mut ports {
            let folder = Path::new("/sys/class/net").join(name);
            if let Some(index) = apply.machine().number(&folder.join("ifindex")) {
                names.insert(index as i32, name.clone());
                port.down = apply.machine().number(&folder.join("carrier")) != Some(1);
            }
            let Some(step) = port.schedule else { continue };
            let line = line_of(&plan.steps[step]);
            // Nobody sees whether one that was there already still goes.
            match applied.done.iter().filter(|done| **done == line).count() {
                0 => port.stopped.push("the watch begins; whether the schedule still ran is not known".into()),
                times => port.ours = times as u32,
            }
        }
        let (to_look, since, differed) = (Vec::new(), None, Vec::new());
        Self { apply, plan, on_change, ports, names, to_look, since, differed }
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether a schedule should run on this interface, as far as is known.
    pub(super) fn should_run(&self, name: &str) -> bool {
        let runs = |port: &Port| port.schedule.is_some() && port.stopped.is_empty() && !port.down && !port.in_doubt;
        self.ports.get(name).is_some_and(runs)
    }

    /// A schedule was seen to stand still, and nothing was heard that stopped it: it is issued again.
    pub(super) fn dead(&mut self, name: &str, why: String) -> Vec<Told> {
        self.since.get_or_insert_with(Instant::now);
        if let Some(port) = self.ports.get_mut(name) {
            port.stopped.push(why);
        }
        self.issue()
    }

    /// It stands still all the same.
    pub(super) fn dead_still(&self, name: &str, why: String) -> Told {
        self.told(name, What::NotMended, why, Vec::new())
    }

    /// Whether it runs cannot be seen.
    pub(super) fn unseen(&self, name: &str, why: String) -> Told {
        self.told(name, What::Unseen, why, Vec::new())
    }

    pub(super) fn has_something_to_look_at(&self) -> bool {
        !self.to_look.is_empty()
    }

    /// After changes of our own: what was told until now is theirs, and whatever else was changed meanwhile is found by
    /// comparing once more.
    pub(super) fn hear_our_own(&mut self, heard: &[Heard]) -> Vec<Told> {
        let told = self.hear(heard);
        (self.to_look, self.since) = (Vec::new(), None);
        told
    }

    pub(super) fn restore(&self) -> Result<Vec<String>, ApplyError> {
        self.apply.restore_held()
    }

    /// Takes in what was told, in its order.
    pub(super) fn hear(&mut self, heard: &[Heard]) -> Vec<Told> {
        let mut told = Vec::new();
        for one in heard {
            match one {
                Heard::Link { index, name, runs } => told.extend(self.link(*index, name, *runs)),
                Heard::LinkGone { index, name } => told.extend(self.gone(*index, name)),
                Heard::Port { index } => self.look_at(*index, "its place in a bridge or its VLANs were changed"),
                Heard::Filter { index } => self.look_at(*index, "a filter was changed"),
                Heard::Discipline { index, parent, kind } => self.discipline(*index, *parent, kind, true),
                Heard::DisciplineGone { index, parent, kind } => self.discipline(*index, *parent, kind, false),
                Heard::Lost => {
                    let cause = "the kernel told more than could be heard";
                    self.ports.values_mut().for_each(|port| port.stopped.push(cause.into()));
                    self.note(cause.into());
                }
            }
        }
        told
    }

    fn note(&mut self, cause: String) {
        self.since.get_or_insert_with(Instant::now);
        if !self.to_look.contains(&cause) {
            self.to_look.push(cause);
        }
    }

    fn look_at(&mut self, index: i32, what: &str) {
        let Some(name) = self.names.get(&index).filter(|name| self.ports.contains_key(*name)) else { return };
        self.note(format!("{name}: {what}"));
    }

    fn link(&mut self, index: i32, name: &str, runs: bool) -> Option<Told> {
        let known = self.names.insert(index, name.to_owned());
        let port = self.ports.get_mut(name)?;
        if known.as_deref() != Some(name) {
            // Plugged in again, or renamed to what the plan says: nothing of the plan is on it.
            (port.down, port.in_doubt, port.ours) = (!runs, true, 0);
            self.note(format!("{name}: the interface is there again"));
            return None;
        }
        let was_down = std::mem::replace(&mut port.down, !runs);
        let gated = port.schedule.is_some();
        match (was_down, runs) {
            (true, true) => port.stopped.push("the link was down and is there again".into()),
            (false, false) if gated => {
                self.note(format!("{name}: the link went down"));
                return Some(self.told(name, What::Down, "the link went down".into(), Vec::new()));
            }
            _ => {}
        }
        self.note(format!("{name}: the interface was changed"));
        None
    }

    fn gone(&mut self, index: i32, name: &str) -> Option<Told> {
        self.names.remove(&index);
        let port = self.ports.get_mut(name)?;
        *port = Port { schedule: port.schedule, down: true, in_doubt: true, ..Port::default() };
        self.note(format!("{name}: the interface went away"));
        Some(self.told(name, What::Gone, "the interface went away".into(), Vec::new()))
    }

    fn discipline(&mut self, index: i32, parent: u32, kind: &str, there: bool) {
        let Some(name) = self.names.get(&index).cloned() else { return };
        let Some(port) = self.ports.get_mut(&name) else { return };
        if parent == ROOT && there && kind == "taprio" && port.schedule.is_some() {
            // Issued: it runs from here on.
            port.stopped.clear();
            if port.ours > 0 {
                port.ours -= 1;
                return;
            }
            port.in_doubt = self.on_change == OnChange::Tell;
            return self.note(format!("{name}: somebody issued a schedule"));
        }
        let verb = if there { "added" } else { "removed" };
        if parent == ROOT {
            port.in_doubt = self.on_change == OnChange::Tell;
            return self.note(format!("{name}: the root {kind} was {verb}"));
        }
        let what = if matches!(kind, "clsact" | "ingress") {
            format!("{kind} was {verb}")
        } else {
            let place = format!("{:x}:{:x}", parent >> 16, parent & 0xFFFF);
            // A replaced child is told as one that went and one that came.
            let went = format!("the child {place} was removed: ");
            match port.stopped.iter().position(|cause| there && cause.starts_with(&went)) {
                Some(at) => {
                    let former = port.stopped.remove(at);
                    format!("the child {place} was replaced: {} by {kind}", former[went.len()..].to_owned())
                }
                None => format!("the child {place} was {verb}: {kind}"),
            }
        };
        if port.schedule.is_some() {
            port.stopped.push(what.clone());
        }
        self.note(format!("{name}: {what}"));
    }

    /// Issues schedules that were stopped once more, where nothing else is in doubt.
    pub(super) fn issue(&mut self) -> Vec<Told> {
        let mut told = Vec::new();
        let due = |port: &Port| !port.stopped.is_empty() && !port.down && !port.in_doubt;
        let names: Vec<String> =
            self.ports.iter().filter(|(_, port)| due(port)).map(|(name, _)| name.clone()).collect();
        for name in names {
            let Some(port) = self.ports.get_mut(&name) else { continue };
            let cause = std::mem::take(&mut port.stopped).join("; ");
            let Some(step) = port.schedule else { continue };
            let line = line_of(&self.plan.steps[step]);
            port.ours += 1;
            match self.apply.run_step(&self.plan.steps[step]) {
                Ok(()) => told.push(self.told(&name, What::IssuedAgain, cause, vec![line])),
                Err(why) => {
                    if let Some(port) = self.ports.get_mut(&name) {
                        port.ours -= 1;
                        // Not tried in a circle: what is wrong is seen by comparing.
                        (port.in_doubt, port.stopped) = (true, vec![cause.clone()]);
                    }
                    self.note(format!("{name}: the schedule could not be issued"));
                    told.push(self.told(&name, What::NotMended, cause, vec![line, why]));
                }
            }
        }
        if self.to_look.is_empty() {
            self.since = None;
        }
        told
    }

    /// Compares the plan with the machine, and mends or tells in what it differs.
    pub(super) fn look(&mut self) -> Vec<Told> {
        let cause = match std::mem::take(&mut self.to_look) {
            none if none.is_empty() => "seen at a look; nothing had told of it".to_owned(),
            causes => causes.join("; "),
        };
        self.since.get_or_insert_with(Instant::now);
        let states = self.apply.examine(&self.plan);
        let lines = self.differing(&states);
        let mut told = Vec::new();
        if lines.is_empty() {
            if !self.differed.is_empty() && self.on_change == OnChange::Tell {
                told.push(self.told(&self.devices_of(&self.differed), What::AsPlanned, cause, Vec::new()));
            }
        } else if lines != self.differed || self.on_change == OnChange::Mend {
            let devices = self.devices_of(&lines);
            told.extend(match self.on_change {
                OnChange::Tell => Some(self.told(&devices, What::Differs, cause, lines.clone())),
                OnChange::Mend => self.mend(devices, cause, &lines),
            });
        }
        // What was mended does not differ any more.
        let mended = told.iter().any(|one| one.what == What::Mended);
        self.differed = if mended { Vec::new() } else { lines };
        for port in self.ports.values_mut() {
            let at_fault = port.schedule.map(|step| &states[self.plan.files.len() + step].standing);
            let as_planned = matches!(at_fault, None | Some(Standing::AsPlanned));
            port.in_doubt = !mended && !as_planned;
        }
        told.extend(self.issue());
        self.since = None;
        told
    }

    /// The lines of what is not as planned. What the machine does not tell is not compared.
    fn differing(&self, states: &[StepState]) -> Vec<String> {
        let differs = |state: &StepState| match &state.standing {
            Standing::ToDo => Some(format!("{}   (it is not there)", state.line)),
            Standing::Different { now } | Standing::Foreign { now } => Some(format!("{}   ({now})", state.line)),
            Standing::AsPlanned | Standing::Untold => None,
        };
        let mut all: Vec<String> = Vec::new();
        for line in states.iter().filter_map(differs) {
            // A schedule has two steps.
            if !all.contains(&line) {
                all.push(line);
            }
        }
        all
    }

    fn devices_of(&self, lines: &[String]) -> String {
        let steps = self.plan.steps.iter().map(|step| (line_of(step), &step.target));
        let files = self.plan.files.iter().map(|file| (file.path.clone(), &file.path));
        let mut found: Vec<&String> = Vec::new();
        for (line, target) in files.chain(steps) {
            if lines.iter().any(|known| known.starts_with(&line)) && !found.contains(&target) {
                found.push(target);
            }
        }
        found.into_iter().cloned().collect::<Vec<_>>().join(", ")
    }

    fn mend(&mut self, devices: String, cause: String, lines: &[String]) -> Option<Told> {
        match self.apply.mend_held(&self.plan) {
            Ok(done) => {
                let issued = |step: &Step| {
                    let line = line_of(step);
                    done.iter().filter(|known| **known == line).count() as u32
                };
                for port in self.ports.values_mut() {
                    if let Some(step) = port.schedule {
                        let times = issued(&self.plan.steps[step]);
                        port.ours += times;
                        if times > 0 {
                            port.stopped.clear();
                        }
                    }
                }
                Some(self.told(&devices, What::Mended, cause, done))
            }
            Err(error) => {
                let mut why = lines.to_vec();
                why.push(match error {
                    ApplyError::Step { line, why, .. } => format!("`{line}` failed: {why}"),
                    ApplyError::NotTaken { line, now } => {
                        format!("`{line}` was taken, and yet the machine shows otherwise: {now}")
                    }
                    other => other.to_string(),
                });
                // The same again is not told again.
                (self.differed != lines).then(|| self.told(&devices, What::NotMended, cause, why))
            }
        }
    }

    fn told(&self, device: &str, what: What, cause: String, lines: Vec<String>) -> Told {
        let took_ns = self.since.map_or(0, |since| since.elapsed().as_nanos() as i64);
        Told { at_ns: rt::clock::now().0, took_ns, device: device.to_owned(), what, cause, lines }
    }
}
