//! Control of a run from outside: a Unix socket on which one line of JSON asks and one line answers.
//!
//! `{"do":"status"}`, `{"do":"stop"}`, `{"do":"rotate"}`, `{"do":"drain"}` with or without `"stream"`; every answer has `"ok"`,
//! and `"error"` where that is false.
//! One thread serves all clients and never waits for one of them: the run neither knows nor notices them.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use measure::StreamCounts;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::{Value, json};
use std::os::fd::AsFd;
use units::Nanos;

use crate::error::LabError;
use crate::socket::ControlSocket;

/// Clients served at a time; one more replaces the one that has been silent longest.
const CLIENTS: usize = 8;
/// Longest request.
const REQUEST_BYTES: usize = 4096;
/// How long an answer may wait for its reader.
const ANSWER_TAKEN_WITHIN: Duration = Duration::from_secs(5);
/// How often waiting answers and the end of the run are looked after.
const GLANCE_MS: u16 = 50;

/// What a run tells about itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Status {
    /// What stays as it is: scenario, place, folder, rights granted.
    pub(crate) fixed: serde_json::Map<String, Value>,
    /// Whether readers take one message a cycle, so that there is something to drain.
    pub(crate) keeps_backlog: bool,
    /// Names of the streams.
    pub(crate) streams: Vec<String>,
    /// Nanoseconds since cycle 0 began; below zero before it.
    pub(crate) elapsed_ns: i64,
    /// The cycle that is going on.
    pub(crate) cycle: i64,
    /// What each stream has counted so far.
    pub(crate) counts: Vec<StreamCounts>,
    /// Images of applications outside, and who is attached to each.
    pub(crate) images: Vec<Value>,
    /// Part folders that are written.
    pub(crate) parts: u32,
}

impl Status {
    /// Notes how far the run is, of cycles of this length.
    pub(crate) fn stands(&mut self, elapsed: Nanos, cycle: Nanos) {
        (self.elapsed_ns, self.cycle) = (elapsed.0, elapsed / cycle);
    }
}

/// Where the run and the thread that serves the socket meet.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    status: Mutex<Status>,
    stop: AtomicBool,
    rotate: AtomicBool,
    /// What became of the rotation that was asked for: the part folder, or why there is none.
    rotated: Mutex<Option<Result<String, String>>>,
    drains: Mutex<Requests>,
    ended: AtomicBool,
}

/// Requests to drain, each with a ticket.
#[derive(Debug, Default)]
struct Requests {
    /// The last ticket.
    ticket: u64,
    /// Those that no host has been told of: the stream, or none for all.
    waiting: VecDeque<(u64, Option<u16>)>,
    /// What became of the others, until whoever asked has it.
    answers: Vec<(u64, Value)>,
}

impl Desk {
    /// The next request to drain: its ticket, and the stream or none for all.
    pub(crate) fn take_drain(&self) -> Option<(u64, Option<u16>)> {
        self.drains().waiting.pop_front()
    }

    /// What became of a request to drain.
    pub(crate) fn answer_drain(&self, ticket: u64, answer: Value) {
        self.drains().answers.push((ticket, answer));
    }

    fn drains(&self) -> MutexGuard<'_, Requests> {
        self.drains.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a request to drain: its ticket.
    ///
    /// # Errors
    /// Why there is none: the answer.
    fn drain(&self, request: &Value) -> Result<u64, Value> {
        let status = self.status();
        let stream = match &request["stream"] {
            Value::Null => None,
            name => match status.streams.iter().position(|stream| name.as_str() == Some(stream)) {
                Some(index) => u16::try_from(index).ok(),
                None => return Err(refusal(format!("no stream {name}; there are: {}", status.streams.join(", ")))),
            },
        };
        if !status.keeps_backlog {
            return Err(refusal(
                "readers drain their queues in every cycle; only with `backlog = \"keep\"` in [time] one can stand",
            ));
        }
        let mut drains = self.drains();
        if drains.waiting.len() == CLIENTS {
            return Err(refusal("too many requests to drain wait already; ask again later"));
        }
        drains.ticket += 1;
        let ticket = drains.ticket;
        drains.waiting.push_back((ticket, stream));
        Ok(ticket)
    }

    /// Takes the answers to requests to drain.
    fn drained(&self) -> Vec<(u64, Value)> {
        std::mem::take(&mut self.drains().answers)
    }

    /// The status, to be brought up to date.
    pub(crate) fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody asked for the end.
    pub(crate) fn is_to_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether somebody asked for a rotation.
    pub(crate) fn is_to_rotate(&self) -> bool {
        self.rotate.load(Ordering::Relaxed)
    }

    /// Answers who asked for a rotation.
    pub(crate) fn rotated(&self, outcome: Result<String, String>) {
        if self.rotate.swap(false, Ordering::Relaxed) {
            *self.rotated.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        }
    }

    fn answer_status(&self) -> Value {
        let status = self.status().clone();
        let mut answer = status.fixed;
        let streams = status.streams.iter().zip(&status.counts).map(|(name, counts)| {
            json!({ "name": name, "published": counts.published, "arrived": counts.arrived,
                    "answered": counts.answered, "lost": counts.lost, "missed": counts.missed })
        });
        answer.insert("ok".into(), true.into());
        answer.insert("elapsed_ns".into(), status.elapsed_ns.into());
        answer.insert("cycle".into(), status.cycle.into());
        answer.insert("parts".into(), status.parts.into());
        answer.insert("streams".into(), streams.collect());
        if !status.images.is_empty() {
            answer.insert("images".into(), status.images.into());
        }
        answer.into()
    }
}

/// A socket that is being served. Dropped, it is closed and removed.
#[derive(Debug)]
pub(crate) struct Control {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
    _socket: ControlSocket,
}

impl Control {
    /// Serves `socket`.
    ///
    /// # Errors
    /// No further thread.
    pub(crate) fn serve(socket: ControlSocket, desk: Arc<Desk>) -> Result<Self, LabError> {
        let failed = "serving the control socket";
        let listener = socket.listener().try_clone().map_err(LabError::io(failed))?;
        let theirs = Arc::clone(&desk);
        let thread = std::thread::Builder::new()
            .name("downbeat-control".into())
            .spawn(move || serve(&listener, &theirs))
            .map_err(LabError::io(failed))?;
        Ok(Self { desk, thread: Some(thread), _socket: socket })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.desk.rotated(Err("the run has ended".into()));
        self.desk.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

fn serve(listener: &UnixListener, desk: &Desk) {
    let mut clients: Vec<Client> = Vec::new();
    loop {
        let ending = desk.ended.load(Ordering::Relaxed);
        if let Some(outcome) = desk.rotated.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let answer = match &outcome {
                Ok(folder) => json!({ "ok": true, "part": folder }),
                Err(error) => refusal(error),
            };
            clients.iter_mut().filter(|client| client.waits_for_rotation).for_each(|client| {
                client.waits_for_rotation = false;
                client.say(&answer);
            });
        }
        for (ticket, answer) in desk.drained() {
            clients.iter_mut().filter(|client| client.waits_for_drain == Some(ticket)).for_each(|client| {
                client.waits_for_drain = None;
                client.say(&answer);
            });
        }
        if ending {
            for client in &mut clients {
                if client.waits_for_drain.take().is_some() {
                    client.say(&refusal("the run has ended"));
                }
            }
        }
        clients.retain_mut(Client::goes_on);
        if ending {
            return;
        }
        wait(listener, &clients);
        while let Ok((stream, _)) = listener.accept() {
            if let Some(client) = Client::admit(stream) {
                if clients.len() == CLIENTS
                    && let Some(silent) = (0..clients.len()).min_by_key(|index| clients[*index].heard)
                {
                    clients.swap_remove(silent);
                }
                clients.push(client);
            }
        }
        clients.iter_mut().for_each(|client| client.listen(desk));
    }
}

/// Until somebody says something, or a glance is due.
fn wait(listener: &UnixListener, clients: &[Client]) {
    let mut polled = vec![PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    polled.extend(clients.iter().map(|client| {
        let flags = if client.is_free() { PollFlags::POLLIN } else { PollFlags::POLLOUT };
        let waits = client.waits_for_rotation || client.waits_for_drain.is_some();
        let idle = waits && client.answer.is_empty();
        PollFd::new(client.stream.as_fd(), if idle { PollFlags::empty() } else { flags })
    }));
    let begun = Instant::now();
    if poll(&mut polled, PollTimeout::from(GLANCE_MS)).is_err() || begun.elapsed() < Duration::from_millis(1) {
        // Whoever talks without end gets a turn a millisecond, not a processor.
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn refusal(error: impl std::fmt::Display) -> Value {
    json!({ "ok": false, "error": error.to_string() })
}

/// Somebody who is connected.
struct Client {
    stream: UnixStream,
    request: Vec<u8>,
    answer: Vec<u8>,
    /// Since when the answer waits.
    answered: Instant,
    heard: Instant,
    waits_for_rotation: bool,
    /// The ticket of what it asked for.
    waits_for_drain: Option<u64>,
    /// Goes once it has its answer.
    leaving: bool,
    gone: bool,
}

impl Client {
    /// Takes a connection of the same user; others are closed.
    fn admit(stream: UnixStream) -> Option<Self> {
        let peer = nix::sys::socket::getsockopt(&stream, nix::sys::socket::sockopt::PeerCredentials).ok()?;
        let same = peer.uid() == nix::unistd::geteuid().as_raw();
        stream.set_nonblocking(true).ok().filter(|()| same)?;
        let now = Instant::now();
        Some(Self {
            stream,
            request: Vec::new(),
            answer: Vec::new(),
            answered: now,
            heard: now,
            waits_for_rotation: false,
            waits_for_drain: None,
            leaving: false,
            gone: false,
        })
    }

    /// Whether it may ask: one request at a time.
    fn is_free(&self) -> bool {
        self.answer.is_empty() && !self.waits_for_rotation && self.waits_for_drain.is_none() && !self.leaving
    }

    /// Reads at most one turn's bytes and carries out whole lines, one after the other's answer is taken.
    fn listen(&mut self, desk: &Desk) {
        if !self.is_free() {
            return;
        }
        let mut bytes = [0; REQUEST_BYTES];
        match self.stream.read(&mut bytes) {
            Ok(0) => self.gone = self.request.is_empty() || !self.request.contains(&b'\n'),
            Ok(count) => {
                self.heard = Instant::now();
                self.request.extend_from_slice(&bytes[..count]);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => self.gone = true,
        }
        while self.is_free()
            && let Some(end) = self.request.iter().position(|byte| *byte == b'\n')
        {
            let line: Vec<u8> = self.request.drain(..=end).collect();
            self.carry_out(&line[..end], desk);
            self.deliver();
        }
        if self.request.len() > REQUEST_BYTES {
            self.say(&refusal(format!("a request is one line of at most {REQUEST_BYTES} bytes")));
            self.leaving = true;
        }
    }

    fn carry_out(&mut self, line: &[u8], desk: &Desk) {
        let request = serde_json::from_slice::<Value>(line).ok();
        let wanted = request.as_ref().and_then(|request| request["do"].as_str());
        let answer = match wanted {
            Some("status") => desk.answer_status(),
            Some("stop") => {
                desk.stop.store(true, Ordering::Relaxed);
                json!({ "ok": true })
            }
            Some("rotate") => {
                self.waits_for_rotation = true;
                desk.rotate.store(true, Ordering::Relaxed);
                return;
            }
            Some("drain") => match desk.drain(request.as_ref().unwrap_or(&Value::Null)) {
                Ok(ticket) => {
                    self.waits_for_drain = Some(ticket);
                    return;
                }
                Err(refusal) => refusal,
            },
            _ => refusal("expected {\"do\":\"status\"}, \"stop\", \"rotate\" or \"drain\", one a line"),
        };
        self.say(&answer);
    }

    fn say(&mut self, answer: &Value) {
        self.answer.extend(answer.to_string().bytes());
        self.answer.push(b'\n');
        self.answered = Instant::now();
    }

    /// Sends what it takes of its answer.
    fn deliver(&mut self) {
        while !self.answer.is_empty() {
            match self.stream.write(&self.answer) {
                Ok(count) => drop(self.answer.drain(..count)),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.gone = true;
                    return;
                }
            }
        }
    }

    fn goes_on(&mut self) -> bool {
        self.deliver();
        let overdue = !self.answer.is_empty() && self.answered.elapsed() > ANSWER_TAKEN_WITHIN;
        !(self.gone || overdue || self.leaving && self.answer.is_empty())
    }
}
