//! open62541 as a contestant of `cargo xtask bench`: the stack of the papers, as it is today.
//!
//! A child of the bench, in its network namespace. It reads a job a line from the standard input and answers each with
//! a line; the end of the input ends it.
//!
//! - `codec CPU FIELDS,…`: builds and takes apart messages, without a socket ([`codec`]).
//! - `echo INTERFACE CPU FIELDS loop|socket|codec`: answers frames, with the stack's event loop, with a socket of our own
//!   before its server, or with its codec alone.
//! - `cycle NEAR CPU FAR CPU FIELDS socket|codec`: both ends of the papers' cycle.

mod alone;
mod codec;
mod message;
mod server;
mod socket;

#[allow(dead_code, reason = "the bench writes jobs and reads outcomes; here it is the other way round")]
#[path = "../../../xtask/src/bench/contest/drive.rs"]
mod drive;

use std::io::{BufRead, Write};
use std::sync::mpsc;

use alone::Alone;
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
        ["cycle", near, near_cpu, far, far_cpu, fields, receive] => {
            cycle([(near, near_cpu), (far, far_cpu)], fields, receive, &mut answers)
        }
        _ => {
            Err("expected: codec CPU FIELDS,… | echo INTERFACE CPU FIELDS loop|socket|codec | cycle NEAR CPU FAR CPU FIELDS socket|codec"
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
    prepare(&Requested { fifo_priority: Some(FIFO_PRIORITY), cpu: Some(cpu), ..Requested::default() })
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
    let ids = Ids { reads: THERE, writes: BACK };
    if receive == "codec" {
        return answer(Alone::open(interface, ids, number(fields)?)?, cpu, answers);
    }
    answer(Server::start(interface, ids, number(fields)?, Receive::parse(receive)?, 0)?, cpu, answers)
}

fn answer(mut end: impl End, cpu: &str, answers: &mut std::fs::File) -> Result<(), String> {
    let _granted = settle(number(cpu)?);
    serve(answers, |line| Ok(drive::run(&mut end, Side::Loopback, Job::parse(line)?)?.line()))
}

/// Each end in a thread with a server of its own.
fn cycle(ends: [(&str, &str); 2], fields: &str, receive: &str, answers: &mut std::fs::File) -> Result<(), String> {
    let fields: u16 = number(fields)?;
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
                let served = if receive == "codec" {
                    Alone::open(interface, ids, fields.into()).map(|end| work(end, side, cpu, &orders, &outcomes))
                } else {
                    Receive::parse(receive)
                        .and_then(|receive| Server::start(interface, ids, fields, receive, index as u16))
                        .map(|end| work(end, side, cpu, &orders, &outcomes))
                };
                if let Err(error) = served {
                    _ = outcomes.send(Err(error));
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

/// Does jobs until nobody gives any.
fn work(
    mut end: impl End,
    side: Side,
    cpu: usize,
    orders: &mpsc::Receiver<Job>,
    outcomes: &mpsc::Sender<Result<Outcome, String>>,
) {
    let _granted = settle(cpu);
    let mut answer = outcomes.send(Ok(Outcome::default()));
    while let (Ok(()), Ok(job)) = (answer, orders.recv()) {
        answer = outcomes.send(drive::run(&mut end, side, job));
    }
}
