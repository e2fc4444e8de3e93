//! `downbeat apply --all`: every host of a scenario, from one place, all of them or none.
//!
//! Every host looks at its plan first; one that would refuse it keeps all from being changed. Then all apply theirs and hold
//! them; only when each has, all are told to keep them. Until then a host that hears nothing more goes back to what it was.

mod remote;

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use scenario::Scenario;
use serde_json::{Value, json};

use crate::output::{CANNOT, Failure, MET, Outcome};
use remote::{Remote, Said, Way};

const FORMAT: &str = "downbeat/apply-all/1";
/// So long a signal may go unseen.
const TURN: Duration = Duration::from_millis(100);

/// What is to be done on all hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The plans are applied.
    Apply,
    /// Nothing is changed.
    DryRun,
    /// What is applied is undone.
    Restore,
}

/// One host.
struct Host {
    way: Way,
    remote: Option<Remote>,
    /// Its last answer.
    answer: Value,
    /// What it said that was no answer.
    words: Vec<String>,
    ended: bool,
}

impl Host {
    fn state(&self) -> &str {
        self.answer["state"].as_str().unwrap_or("silent")
    }

    fn line(&self, text: &str) -> String {
        format!("{}: {text}", self.way.host)
    }

    /// Why it did not do what it was told.
    fn why(&self) -> String {
        match self.answer["why"].as_str() {
            Some(why) => why.to_owned(),
            None if self.words.is_empty() => "the connection ended without a word".into(),
            None => self.words.join("\n  "),
        }
    }
}

struct All {
    hosts: Vec<Host>,
    said: Receiver<(usize, Said)>,
    json: bool,
    /// The hosts were told to change something.
    ordered: bool,
}

/// Does it on the hosts that have something to do. `map` has `HOST=DESTINATION`; a host that is not in it is reached as the
/// scenario says, else by its name.
pub(super) fn execute(scenario: &Scenario, map: &[String], sudo: bool, wanted: Wanted, json: bool) -> Outcome {
    let ways = ways(scenario, map, sudo)?;
    if ways.is_empty() {
        return Err(Failure::input(
            "the scenario asks nothing of any host\n  mend: give a port a `queue`, or a host a `clock`",
        ));
    }
    let interrupted = lab::interrupt_flag().map_err(Failure::from)?;
    unbroken()?;
    let (to, said) = channel();
    let host = |way| Host { way, remote: None, answer: Value::Null, words: Vec::new(), ended: false };
    let mut all = All { hosts: ways.into_iter().map(host).collect(), said, json, ordered: false };
    for (index, host) in all.hosts.iter_mut().enumerate() {
        if interrupted.load(Ordering::Relaxed) {
            return all.back("interrupted");
        }
        match host.way.begin(index, &scenario.source, &to) {
            Ok(remote) => host.remote = Some(remote),
            Err(why) => {
                let mend = format!(
                    "  mend: `ssh {0} true` has to work without a question; `ssh` of [hosts.{1}] or --ssh {1}=DESTINATION names another way there",
                    host.way.destination, host.way.host
                );
                host.answer = json!({ "state": "failed", "why": format!("{why}\n  {mend}") });
                host.ended = true;
                return all.back("a host cannot be reached");
            }
        }
    }
    if !all.wait_for("examined", &interrupted) {
        return all.back("a host cannot tell how it stands");
    }
    match wanted {
        Wanted::DryRun => {
            all.tell_examined();
            let refuses = all.hosts.iter().any(|host| host.answer["foreign"].as_u64().unwrap_or(0) > 0);
            all.hear_out();
            all.finish(if refuses { CANNOT } else { MET })
        }
        Wanted::Restore => {
            all.order("restore");
            let done = all.wait_for("undone", &interrupted);
            all.tell_undone();
            all.finish(if done { MET } else { CANNOT })
        }
        Wanted::Apply => all.apply(&interrupted),
    }
}

/// How each host is reached for which there is anything to do.
fn ways(scenario: &Scenario, map: &[String], sudo: bool) -> Result<Vec<Way>, Failure> {
    let mut named: Vec<(&str, &str)> = Vec::new();
    for entry in map {
        let Some((host, destination)) = entry.split_once('=').filter(|(host, to)| !host.is_empty() && !to.is_empty())
        else {
            return Err(Failure::input(format!(
                "--ssh {entry}: expected HOST=DESTINATION, such as --ssh sw=root@10.0.0.2"
            )));
        };
        if scenario.host_named(host).is_none() {
            let known: Vec<_> = scenario.hosts.iter().map(|host| host.name.as_str()).collect();
            return Err(Failure::input(format!(
                "--ssh {entry}: the scenario has no host \"{host}\"\n  mend: name one of {}",
                known.join(", ")
            )));
        }
        named.push((host, destination));
    }
    let ids = scenario.hosts.iter().filter_map(|host| scenario.host_named(&host.name));
    let plans = ids.map(|id| tsn::plan(scenario, id)).filter(|plan| !plan.steps.is_empty() || !plan.files.is_empty());
    let way = |plan: tsn::Plan| {
        let told = named.iter().rev().find(|(host, _)| *host == plan.host).map(|(_, to)| *to);
        let written = || scenario.hosts.iter().find(|host| host.name == plan.host)?.ssh.as_deref();
        let destination = told.or_else(written).unwrap_or(&plan.host).to_owned();
        Way { destination, host: plan.host, sudo }
    };
    // Somebody else sees to those.
    Ok(plans.map(way).filter(|way| way.destination != "none").collect())
}

impl All {
    fn apply(mut self, interrupted: &AtomicBool) -> Outcome {
        let foreign = |host: &Host| host.answer["foreign"].as_u64().unwrap_or(0) > 0;
        if self.hosts.iter().any(foreign) {
            self.tell_examined();
            return self.back("something is in the way that could not be put back");
        }
        self.order("apply");
        if !self.wait_for("applied", interrupted) {
            return self.back(match interrupted.load(Ordering::Relaxed) {
                true => "interrupted",
                false => "a host could not apply its plan",
            });
        }
        let applied: Vec<Value> = self.hosts.iter().map(|host| host.answer.clone()).collect();
        self.order("keep");
        // From here on it is decided: a signal does not take it back.
        let kept = self.wait_for("kept", &AtomicBool::new(false));
        if !self.json {
            for (host, answer) in self.hosts.iter().zip(&applied) {
                tell_applied(host, answer);
            }
        }
        if !kept {
            let lost: Vec<&str> =
                self.hosts.iter().filter(|host| host.state() != "kept").map(|host| host.way.host.as_str()).collect();
            let text = format!(
                "all hosts had applied their plans, and the connection to {} was lost as they were told to keep them: whether it \
                 did is not known\n  mend: the same command with --dry-run shows it; with --restore all is undone",
                lost.join(", ")
            );
            self.end();
            return Err(Failure::machine(text));
        }
        if self.json {
            let hosts = self.hosts.iter().zip(&applied).map(|(host, answer)| {
                json!({ "host": host.way.host, "ssh": host.way.destination, "applied": answer["applied"], "state": "kept" })
            });
            let value = json!({ "format": FORMAT, "state": "applied", "hosts": hosts.collect::<Vec<_>>() });
            say(format!("{value:#}"));
        } else {
            say(format!("{} hosts are as planned; the same command with --restore undoes it", self.hosts.len()));
        }
        self.hear_out();
        self.end();
        Ok(MET)
    }

    /// Hears what hosts still have to say, and tells what they said beside their answers: of the speed of an interface, say.
    fn hear_out(&mut self) {
        self.hosts.iter_mut().filter_map(|host| host.remote.as_mut()).for_each(Remote::hang_up);
        while self.hosts.iter().any(|host| !host.ended) {
            self.listen();
        }
        for host in &self.hosts {
            host.words.iter().for_each(|words| eprintln!("{}", host.line(words)));
        }
    }

    fn order(&mut self, word: &str) {
        self.ordered = true;
        self.hosts.iter().filter_map(|host| host.remote.as_ref()).for_each(|remote| remote.order(word));
    }

    /// Waits until every host says that it is there; false when one says otherwise, or its connection ends, or on a signal.
    fn wait_for(&mut self, state: &str, interrupted: &AtomicBool) -> bool {
        loop {
            if self.hosts.iter().all(|host| host.state() == state) {
                return true;
            }
            let fails = |host: &Host| host.state() != state && (host.ended || host.state() == "failed");
            if interrupted.load(Ordering::Relaxed) || self.hosts.iter().any(fails) {
                return false;
            }
            self.listen();
        }
    }

    fn listen(&mut self) {
        match self.said.recv_timeout(TURN) {
            Ok((index, Said::Answer(answer))) => self.hosts[index].answer = answer,
            Ok((index, Said::Words(words))) => self.hosts[index].words.push(words),
            Ok((index, Said::Ended)) => self.hosts[index].ended = true,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }

    /// Nothing is kept: every host that applied its plan undoes it, and says so.
    fn back(mut self, why: &str) -> Outcome {
        let failed: Vec<(usize, String)> = self.failures();
        for host in &mut self.hosts {
            if let Some(remote) = &mut host.remote {
                remote.order("undo");
                remote.hang_up();
            }
        }
        while self.hosts.iter().any(|host| host.remote.is_some() && !host.ended) {
            self.listen();
        }
        let mut text = format!("{why}; on no host anything stays changed");
        for (index, why) in &failed {
            text.push_str(&format!("\n  {}", self.hosts[*index].line(why)));
        }
        let mut sure = true;
        let mut reports = Vec::new();
        for host in &self.hosts {
            let undone = host.answer["lines"].as_array().map_or(0, Vec::len);
            let known = host.remote.is_none() || !self.ordered || matches!(host.state(), "undone" | "failed");
            sure &= known;
            reports.push(json!({ "host": host.way.host, "ssh": host.way.destination, "answer": host.answer }));
            match (known, undone) {
                (false, _) => text.push_str(&format!(
                    "\n  {}",
                    host.line(
                        "goes back to what it was by itself, as soon as it hears nothing; with --dry-run you see when"
                    )
                )),
                (true, 0) => {}
                (true, steps) => {
                    text.push_str(&format!("\n  {}", host.line(&format!("as before, {steps} steps undone"))))
                }
            }
        }
        if !sure {
            text =
                text.replacen("on no host anything stays changed", "not every host has said that it is as before", 1);
        }
        if self.json {
            say(format!("{:#}", json!({ "format": FORMAT, "state": "undone", "why": why, "hosts": reports })));
        }
        self.end();
        Err(Failure::machine(text))
    }

    fn failures(&self) -> Vec<(usize, String)> {
        let failed = |host: &Host| host.state() == "failed" || (host.ended && host.state() != "undone");
        self.hosts
            .iter()
            .enumerate()
            .filter(|(_, host)| failed(host))
            .map(|(index, host)| (index, host.why()))
            .collect()
    }

    fn tell_examined(&self) {
        if self.json {
            let hosts = self.hosts.iter().map(
                |host| json!({ "host": host.way.host, "ssh": host.way.destination, "steps": host.answer["steps"] }),
            );
            say(format!("{:#}", json!({ "format": FORMAT, "state": "examined", "hosts": hosts.collect::<Vec<_>>() })));
            return;
        }
        for host in &self.hosts {
            let steps = host.answer["steps"].as_array().cloned().unwrap_or_default();
            let due = steps.iter().filter(|step| step["due"] == true).count();
            say(host.line(&match (due, host.answer["foreign"].as_u64().unwrap_or(0)) {
                (0, _) => "as planned".to_owned(),
                (due, 0) => format!("{due} steps to do"),
                (_, foreign) => format!("{foreign} things are in the way that could not be put back"),
            }));
            for step in &steps {
                let (line, now) = (step["line"].as_str().unwrap_or_default(), step["now"].as_str());
                let sign = match step["state"].as_str().unwrap_or_default() {
                    "foreign" => '!',
                    "different" => '~',
                    _ if step["due"] == true => '+',
                    "untold" => '-',
                    _ => '=',
                };
                say(host.line(&format!("  {sign} {line}{}", now.map_or(String::new(), |now| format!("   ({now})")))));
            }
        }
    }

    fn tell_undone(&self) {
        if self.json {
            let hosts = self
                .hosts
                .iter()
                .map(|host| json!({ "host": host.way.host, "ssh": host.way.destination, "answer": host.answer }));
            say(format!("{:#}", json!({ "format": FORMAT, "state": "restored", "hosts": hosts.collect::<Vec<_>>() })));
            return;
        }
        for host in &self.hosts {
            match host.state() {
                "undone" => {
                    let lines = host.answer["lines"].as_array().cloned().unwrap_or_default();
                    if lines.is_empty() {
                        say(host.line("nothing to undo"));
                    }
                    lines.iter().filter_map(Value::as_str).for_each(|line| say(host.line(&format!("undone: {line}"))));
                }
                _ => eprintln!("{}", host.line(&format!("NOT undone: {}", host.why()))),
            }
        }
    }

    fn finish(mut self, code: u8) -> Outcome {
        self.hosts.iter_mut().filter_map(|host| host.remote.as_mut()).for_each(Remote::hang_up);
        self.end();
        Ok(code)
    }

    fn end(self) {
        self.hosts.into_iter().filter_map(|host| host.remote).for_each(Remote::end);
    }
}

fn tell_applied(host: &Host, answer: &Value) {
    let lines = |key: &str| answer["applied"][key].as_array().cloned().unwrap_or_default();
    let tell = |lines: &[Value], before: &str| {
        lines.iter().filter_map(Value::as_str).for_each(|line| say(host.line(&format!("  {before}{line}"))));
    };
    tell(&lines("undone"), "undone: ");
    tell(&lines("done"), "");
    tell(&lines("left_out"), "left out, the device does not tell of it: ");
    let with =
        if host.remote.as_ref().is_some_and(|remote| remote.sent) { ", by the downbeat sent there for it" } else { "" };
    say(host.line(&match lines("done").len() {
        0 => format!("as planned already{with}"),
        done => format!("{done} steps done and read back{with}"),
    }));
    for line in answer["advice"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        say(host.line(&format!("by hand: {}", line.trim_start_matches("# "))));
    }
}

/// A pipe whose other end is gone is no reason to leave hosts half changed: writing fails then, and does not kill.
pub(super) fn unbroken() -> Result<(), Failure> {
    let seen = Arc::new(AtomicBool::new(false));
    let registered = signal_hook::flag::register(signal_hook::consts::SIGPIPE, seen);
    registered.map(|_| ()).map_err(|error| Failure::machine(format!("registering for signals: {error}")))
}

fn say(text: impl AsRef<str>) {
    _ = writeln!(io::stdout(), "{}", text.as_ref());
}
