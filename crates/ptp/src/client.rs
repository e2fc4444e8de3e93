//! The Unix socket of a ptp4l.

use std::cell::Cell;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::management::{self, Answer, Id};

/// A datagram socket of our own, in a folder of our own: ptp4l answers to where a question came from.
#[derive(Debug)]
pub(crate) struct Client {
    socket: UnixDatagram,
    server: PathBuf,
    domain: u8,
    /// transportSpecific; none until an answer told.
    transport: Cell<Option<u8>>,
    sequence: Cell<u16>,
    _folder: TempDir,
}

impl Client {
    pub(crate) fn new(server: &Path, domain: u8) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("downbeat-ptp-").tempdir()?;
        let socket = UnixDatagram::bind(folder.path().join("ask"))?;
        let server = server.to_owned();
        Ok(Self { socket, server, domain, transport: Cell::new(None), sequence: Cell::new(0), _folder: folder })
    }

    /// Asks; until it is known which transportSpecific is answered to, with both that are in use (1 is 802.1AS).
    pub(crate) fn ask(&self, id: Id) -> io::Result<()> {
        let own = std::process::id() as u16;
        let both = [1, 0];
        let one = self.transport.get().map(|transport| [transport]);
        for transport in one.as_ref().map_or(&both[..], |one| &one[..]) {
            self.sequence.set(self.sequence.get().wrapping_add(1));
            let message = management::question(id, *transport, self.domain, self.sequence.get(), own);
            // A server that reads too slowly must not hold us.
            self.socket.set_write_timeout(Some(Duration::from_millis(200)))?;
            self.socket.send_to(&message, &self.server)?;
        }
        Ok(())
    }

    /// The next answer; none when `until` comes first.
    pub(crate) fn answer(&self, until: Instant) -> io::Result<Option<Answer>> {
        let mut bytes = [0; 1500];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.socket.set_read_timeout(Some(left))?;
            match self.socket.recv(&mut bytes) {
                Ok(length) => {
                    let message = bytes.get(..length).unwrap_or_default();
                    if let Some(answer) = management::read(message) {
                        self.transport.set(management::transport_specific(message));
                        return Ok(Some(answer));
                    }
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
