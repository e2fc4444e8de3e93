//! One host of a run, as a process of its own: inside the host's namespace, or in the machine's own network.
//!
//! The parent gives a [`RoleSpec`] on standard input; the process opens its sockets, answers with one line of JSON,
//! waits for the start instant in a shared cell, runs its cyclic threads, and answers with a second line.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use serde::Serialize;

use crate::sockets::Sockets;
use crate::spec::{Finished, Ready, RoleSpec};
use crate::worker::Worker;

/// Runs the role that standard input describes; the whole life of a role process.
///
/// Returns the exit code of the process. What goes wrong is told to the parent on standard output.
pub fn role_process() -> u8 {
    rt::process::die_with_parent();
    let mut line = String::new();
    if std::io::stdin().lock().read_line(&mut line).is_err() {
        return 3;
    }
    let outcome =
        serde_json::from_str::<RoleSpec>(&line).map_err(|error| error.to_string()).and_then(|spec| role(&spec));
    match outcome {
        Ok(finished) => u8::from(!say(&finished)) * 3,
        Err(message) => {
            say(&Ready::Failed { message });
            3
        }
    }
}

/// Tells the parent one line; false when it is gone.
fn say(message: &impl Serialize) -> bool {
    let Ok(text) = serde_json::to_string(message) else { return false };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).is_ok()
}

fn role(spec: &RoleSpec) -> Result<Finished, String> {
    if let Some(namespace) = &spec.namespace {
        rt::process::enter_network_namespace(namespace)
            .map_err(|error| format!("entering {}: {error}", namespace.display()))?;
    }
    let scenario = scenario::read(&spec.scenario, "scenario.toml").map_err(|errors| errors.render())?;
    let mut sockets = Sockets::new(spec, &scenario, rt::clock::tai_minus_utc());
    let workers = spec
        .workers
        .iter()
        .map(|worker| Worker::open(spec, worker, &scenario, &mut sockets))
        .collect::<Result<Vec<_>, _>>()?;
    let workers: Vec<_> = workers.into_iter().flatten().collect();
    let reached = sockets.reached();
    let terminated = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&terminated))
        .map_err(|error| format!("registering for SIGTERM: {error}"))?;
    let (granted, from_threads) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let handles: Vec<_> = workers
            .into_iter()
            .map(|worker| {
                let (granted, terminated) = (granted.clone(), &terminated);
                scope.spawn(move || worker.run(spec, &granted, terminated))
            })
            .collect();
        drop(granted);
        let mut lines: Vec<String> = from_threads.iter().take(handles.len()).flatten().collect();
        lines.dedup();
        say(&Ready::Ready { granted: lines, reached });
        let workers = handles
            .into_iter()
            .map(|handle| handle.join().map_err(|_| "a thread panicked".to_string()))
            .collect::<Result<_, _>>()?;
        Ok(Finished { workers })
    })
}
