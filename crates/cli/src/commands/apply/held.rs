//! One host's end of `downbeat apply --all`: a plan that is applied, and undone unless the other end says that it stays.
//!
//! Asked on standard input, answered on standard output, a line each. First `scenario BYTES` and so many bytes. Then
//! `apply`, `keep`, `undo`, `restore`; `alive` at any time. The end of input is `undo`, and so is silence: whoever asks may
//! be gone, or have been cut off by what was applied. Answers are JSON: `state` and what belongs to it.

use std::io::{self, BufRead as _, Read as _, Write as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use host::{Apply, ApplyError, Held, Standing, ThisMachine};
use scenario::Scenario;
use serde_json::{Value, json};
use tsn::Plan;

use super::failure;
use crate::commands::render;
use crate::output::{CANNOT, Failure, MET, Outcome};

/// As long as nothing is heard from the other end, so long it may still be there. It gives a sign once a second.
const SILENCE: Duration = Duration::from_secs(20);
/// No scenario is longer.
const MOST_BYTES: u64 = 64 << 20;

/// What this end was told.
enum Asked {
    Scenario(String),
    Word(String),
    Wrong(String),
}

/// Plays this machine's part until the other end has decided.
pub(super) fn execute(host: &str) -> Outcome {
    // A signal to this end decides nothing; the other end does, or its silence.
    let _deaf = lab::interrupt_flag().map_err(Failure::from)?;
    super::all::unbroken()?;
    let (to, asked) = channel();
    thread::spawn(move || listen(&to));
    let plan = match next(&asked) {
        Some(Asked::Scenario(text)) => planned(&text, host),
        Some(Asked::Wrong(why)) => Err(why),
        Some(Asked::Word(word)) => Err(format!("\"{word}\" before the scenario")),
        None => return Ok(CANNOT),
    };
    let plan = match plan {
        Ok(plan) => plan,
        Err(why) => return failed(&why),
    };
    let apply = Apply::here();
    let states = apply.examine(&plan);
    let foreign = states.iter().filter(|state| matches!(state.standing, Standing::Foreign { .. })).count();
    answer(&json!({ "state": "examined", "steps": states, "foreign": foreign }));
    let mut held = None;
    loop {
        match next(&asked) {
            Some(Asked::Word(word)) if word == "apply" && held.is_none() => match apply.hold(&plan) {
                Ok((applied, holding)) => {
                    held = Some(holding);
                    answer(&json!({ "state": "applied", "applied": applied, "advice": plan.advice }));
                }
                Err(error) => return failed(&failure(error).text),
            },
            Some(Asked::Word(word)) if word == "keep" => {
                drop(held);
                answer(&json!({ "state": "kept" }));
                return Ok(MET);
            }
            Some(Asked::Word(word)) if word == "restore" && held.is_none() => {
                return told_undone(apply.restore());
            }
            _ => return undo(&apply, held),
        }
    }
}

fn planned(text: &str, host: &str) -> Result<Plan, String> {
    let scenario: Scenario = scenario::read(text, "the scenario").map_err(|error| error.render())?;
    let id = scenario.host_named(host).ok_or_else(|| format!("the scenario has no host \"{host}\""))?;
    // What only this machine knows; the other end tells the rest.
    render::tell_speeds(&scenario, id);
    Ok(tsn::plan(&scenario, id))
}

fn undo(apply: &Apply<ThisMachine>, held: Option<Held>) -> Outcome {
    told_undone(held.map_or_else(|| Ok(Vec::new()), |held| apply.undo_held(held)))
}

fn told_undone(undone: Result<Vec<String>, ApplyError>) -> Outcome {
    match undone {
        Ok(lines) => {
            answer(&json!({ "state": "undone", "lines": lines }));
            Ok(MET)
        }
        Err(error) => failed(&failure(error).text),
    }
}

fn failed(why: &str) -> Outcome {
    answer(&json!({ "state": "failed", "why": why }));
    Ok(CANNOT)
}

/// Whoever asked may be gone: that is no reason to leave anything half done.
fn answer(value: &Value) {
    let mut out = io::stdout().lock();
    _ = writeln!(out, "{value}").and_then(|()| out.flush());
}

/// What is asked next; none when the other end is gone, or silent for too long.
fn next(asked: &Receiver<Asked>) -> Option<Asked> {
    loop {
        match asked.recv_timeout(SILENCE) {
            Ok(Asked::Word(word)) if word == "alive" => {}
            Ok(other) => return Some(other),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
        }
    }
}

fn listen(to: &Sender<Asked>) {
    let mut input = io::stdin().lock();
    loop {
        let mut line = String::new();
        match input.read_line(&mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let word = line.trim();
        let asked = match word.strip_prefix("scenario ").map(str::parse::<u64>) {
            None => Asked::Word(word.to_owned()),
            Some(Ok(bytes)) if bytes <= MOST_BYTES => {
                let mut text = Vec::new();
                match input.by_ref().take(bytes).read_to_end(&mut text).map(|_| String::from_utf8(text)) {
                    Ok(Ok(text)) if text.len() as u64 == bytes => Asked::Scenario(text),
                    _ => Asked::Wrong("the scenario was cut off on its way, or is no text".into()),
                }
            }
            Some(_) => Asked::Wrong(format!("\"{word}\": no length of a scenario")),
        };
        if to.send(asked).is_err() {
            return;
        }
    }
}
