//! Where frames go out.

use std::sync::Arc;

use link::Sender;

use crate::sends::{Publication, Sends};

/// A sending socket, shared by ends of one interface and priority.
#[derive(Debug)]
pub struct Outlet {
    sender: Sender,
    sends: Arc<Sends>,
    /// Calls of `send` so far.
    sent: u32,
}

impl Outlet {
    /// An outlet that sends through `sender`.
    pub fn new(sender: Sender) -> Self {
        Self { sender, sends: Arc::new(Sends::new()), sent: 0 }
    }

    /// The socket.
    pub(crate) fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Which publication each send was.
    pub(crate) fn sends(&self) -> &Arc<Sends> {
        &self.sends
    }

    /// Sends a frame now.
    ///
    /// # Errors
    /// `errno` of the refusal.
    #[inline]
    pub(crate) fn send(&mut self, publication: Publication, frame: &[u8]) -> Result<(), i32> {
        self.sends.note(self.sent, publication);
        self.sent = self.sent.wrapping_add(1);
        self.sender.send(frame).map_err(|error| error.errno())
    }
}
