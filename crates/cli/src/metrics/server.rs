//! A small HTTP server: one thread, a bounded number of connections, each with a bounded head and time.
//!
//! Our own, with `httparse` for the requests: `tiny_http` has no limit of time and as many threads as clients.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::request::{HEAD_BYTES, answer};

/// Connections at a time. One more ends the oldest: whoever opens many and says nothing keeps nobody out.
const CONNECTIONS: usize = 32;

/// From its acceptance on, a connection lasts no longer.
const TIME: Duration = Duration::from_secs(5);

/// How long the end of the server may go unnoticed.
const TURN_MS: u16 = 100;

/// A server. Dropped, it ends.
pub(crate) struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves `page` at `/metrics`.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(listener: TcpListener, page: impl Fn() -> Vec<u8> + Send + 'static) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name("metrics".into()).spawn(move || {
            let mut connections = Vec::with_capacity(CONNECTIONS);
            while !stopped.load(Ordering::Relaxed) {
                turn(&listener, &mut connections, &page);
            }
        })?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

/// Waits for something to do, and does it.
fn turn(listener: &TcpListener, connections: &mut Vec<Connection>, page: &impl Fn() -> Vec<u8>) {
    let mut waited: Vec<PollFd<'_>> =
        connections.iter().map(|connection| PollFd::new(connection.stream.as_fd(), connection.waits_for())).collect();
    waited.push(PollFd::new(listener.as_fd(), PollFlags::POLLIN));
    if poll(&mut waited, PollTimeout::from(TURN_MS)).is_err() {
        // Interrupted, or no memory for a moment.
        thread::sleep(Duration::from_millis(10));
    }
    let ready: Vec<bool> = waited.iter().map(|fd| fd.any().unwrap_or(false)).collect();
    let now = Instant::now();
    let mut number = 0;
    connections.retain_mut(|connection| {
        let is_ready = ready[number];
        number += 1;
        now < connection.until && (!is_ready || connection.go_on(page))
    });
    if ready.last() == Some(&true) {
        accept(listener, connections, now);
    }
}

fn accept(listener: &TcpListener, connections: &mut Vec<Connection>, now: Instant) {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                if stream.set_nonblocking(true).is_ok() {
                    if connections.len() == CONNECTIONS {
                        // In the order of acceptance.
                        connections.remove(0);
                    }
                    connections.push(Connection { stream, state: State::Reading(Vec::new()), until: now + TIME });
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            // The client has gone again.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => {
                // Out of descriptors: the listener stays ready, and this must not spin.
                thread::sleep(Duration::from_millis(50));
                return;
            }
        }
    }
}

struct Connection {
    stream: TcpStream,
    state: State,
    until: Instant,
}

enum State {
    /// The head so far.
    Reading(Vec<u8>),
    /// The answer, and how much of it is sent.
    Writing(Vec<u8>, usize),
    /// All is sent. What still comes in is thrown away until the client closes: closed with something unread, the
    /// kernel would reset the connection and the answer might be lost.
    Ending,
}

impl Connection {
    fn waits_for(&self) -> PollFlags {
        match self.state {
            State::Writing(..) => PollFlags::POLLOUT,
            State::Reading(_) | State::Ending => PollFlags::POLLIN,
        }
    }

    /// Does what can be done without waiting; tells whether the connection lasts.
    fn go_on(&mut self, page: &impl Fn() -> Vec<u8>) -> bool {
        match self.step(page) {
            Ok(lasts) => lasts,
            Err(error) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        }
    }

    fn step(&mut self, page: &impl Fn() -> Vec<u8>) -> io::Result<bool> {
        let mut buffer = [0; 1024];
        match &mut self.state {
            State::Reading(head) => {
                let room = buffer.len().min(HEAD_BYTES - head.len());
                let count = self.stream.read(&mut buffer[..room])?;
                head.extend_from_slice(&buffer[..count]);
                if count == 0 {
                    return Ok(false);
                }
                if let Some(answer) = answer(head, page) {
                    self.state = State::Writing(answer, 0);
                }
                Ok(true)
            }
            State::Writing(answer, sent) => {
                *sent += self.stream.write(&answer[*sent..])?;
                if *sent == answer.len() {
                    self.stream.shutdown(Shutdown::Write)?;
                    self.state = State::Ending;
                }
                Ok(true)
            }
            State::Ending => Ok(self.stream.read(&mut buffer)? > 0),
        }
    }
}

#[cfg(test)]
mod tests;
