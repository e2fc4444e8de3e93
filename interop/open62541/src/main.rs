//! open62541 as a contestant of `cargo xtask bench`: the stack of the papers, as it is today.
//!
//! A child of the bench, in its network namespace. It reads a job a line from the standard input and answers each with
//! a line; the end of the input ends it.
//!
//! - `codec CPU FIELDS,…`: builds and takes apart messages, without a socket ([`codec`]).
//! - `echo INTERFACE CPU FIELDS loop|socket`: answers frames, with the stack's event loop or a socket of our own.
//! - `cycle NEAR CPU FAR CPU FIELDS`: both ends of the papers' cycle.

mod codec;
mod message;
mod server;
mod socket;

#[allow(dead_code, reason = "the bench writes jobs and reads outcomes; here it is the other way round")]
#[path = "../../../xtask/src/bench/contest/drive.rs"]
mod drive;

use std::io::{BufRead, Write};
use std::sync::mpsc;

use drive::{BACK, End, Job, Outcome, Side, THERE};
use rt::thread::{Granted, Requested, prepare};
use server::{Ids, Receive, Server};

/// As the threads of the other contestants.
const FIFO_PRIORITY: u8 = 50;

fn main() {
    rt::process::die_with_parent();
    let mut answers = keep_stdout();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["codec", cpu, fields] => number(cpu).and_then(|cpu| codec::run(cpu, fields, &mut answers)),
        ["echo", interface, cpu, fields, receive] => echo(interface, cpu, fields, receive, &mut answers),
        ["cycle", near, near_cpu, far, far_cpu, fields] => {
            cycle([(near, near_cpu), (far, far_cpu)], fields, &mut answers)
        }
        _ => {
            Err("expected: codec CPU FIELDS,… | echo INTERFACE CPU FIELDS loop|socket | cycle NEAR CPU FAR CPU FIELDS"
                .into())
        }
    };
    if let Err(error) = result {
        // On the line of an answer, where the bench looks for one.
        _ = writeln!(answers, "failed: {error}");
        eprintln!("{error}");
        std::process::exit(1);
    }
}

/// The standard output for answers alone: what the stack logs goes where errors go.
fn keep_stdout() -> std::fs::File {
    use std::os::fd::FromRawFd;
    // SAFETY: descriptors 1 and 2 are open in a child of the bench; the copy belongs to nobody else.
    unsafe {
        let copy = libc::dup(1);
        libc::dup2(2, 1);
        std::fs::File::from_raw_fd(copy)
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("expected a number, found {text:?}"))
}

fn settle(cpu: usize) -> Granted {
    prepare(&Requested {
        fifo_priority: Some(FIFO_PRIORITY),
        cpu: Some(cpu),
        lock_memory: true,
        ..Requested::default()
    })
}

/// Runs `job` for each line of the input and writes what it tells.
fn serve(answers: &mut std::fs::File, mut job: impl FnMut(&str) -> Result<String, String>) -> Result<(), String> {
    let told = |error: std::io::Error| error.to_string();
    writeln!(answers, "ready").map_err(told)?;
    for line in std::io::stdin().lock().lines() {
        let answer = job(&line.map_err(told)?)?;
        writeln!(answers, "{answer}").map_err(told)?;
    }
    Ok(())
}

fn echo(interface: &str, cpu: &str, fields: &str, receive: &str, answers: &mut std::fs::File) -> Result<(), String> {
    let receive = match receive {
        "loop" => Receive::EventLoop,
        "socket" => Receive::OwnSocket,
        other => return Err(format!("expected loop or socket, found {other:?}")),
    };
    let mut server = Server::start(interface, Ids { reads: THERE, writes: BACK }, number(fields)?, receive, 0)?;
    let _granted = settle(number(cpu)?);
    serve(answers, |line| match Job::parse(line)? {
        Job::Echo { waiting, frames } => {
            drain(&mut server)?;
            Ok(drive::echo(&mut server, waiting, frames)?.line())
        }
        Job::Cycle(_) => Err("this end only echoes".to_owned()),
    })
}

fn drain(end: &mut impl End) -> Result<(), String> {
    while end.read()?.is_some() {}
    Ok(())
}

/// Each end in a thread with a server of its own.
fn cycle(ends: [(&str, &str); 2], fields: &str, answers: &mut std::fs::File) -> Result<(), String> {
    let fields = number(fields)?;
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (index, (interface, cpu)) in ends.into_iter().enumerate() {
            let cpu = number(cpu)?;
            let (side, ids) = match index {
                0 => (Side::Source, Ids { reads: BACK, writes: THERE }),
                _ => (Side::Loopback, Ids { reads: THERE, writes: BACK }),
            };
            let (jobs, orders) = mpsc::channel::<Job>();
            let (outcomes, results) = mpsc::channel::<Result<Outcome, String>>();
            scope.spawn(move || {
                let started = Server::start(interface, ids, fields, Receive::OwnSocket, index as u16);
                let mut server = match started {
                    Ok(server) => server,
                    Err(error) => return drop(outcomes.send(Err(error))),
                };
                let _granted = settle(cpu);
                _ = outcomes.send(Ok(Outcome::default()));
                for job in orders {
                    let outcome = match job {
                        Job::Cycle(plan) => drive::cycle(&mut server, side, plan),
                        Job::Echo { .. } => Err("these ends run cycles".to_owned()),
                    };
                    if outcomes.send(outcome).is_err() {
                        break;
                    }
                }
            });
            threads.push((jobs, results));
        }
        let gone = || "a thread has ended".to_owned();
        for (_, results) in &threads {
            results.recv().map_err(|_| gone())??;
        }
        serve(answers, move |line| {
            let job = Job::parse(line)?;
            for (jobs, _) in &threads {
                jobs.send(job).map_err(|_| gone())?;
            }
            let [source, loopback] = [0, 1].map(|index| threads[index].1.recv().map_err(|_| gone()));
            // Both have ended before either is looked at.
            let (source, loopback) = (source??, loopback??);
            Ok(Outcome::both(source, &loopback).line())
        })
    })
}
