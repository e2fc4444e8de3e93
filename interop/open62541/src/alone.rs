//! The stack's codec alone, with a packet socket: what someone would do whom the server is too slow for.

use rt::clock::{now, tai_minus_utc};
use units::Nanos;

use crate::drive::End;
use crate::message::Message;
use crate::server::Ids;
use crate::socket::Socket;

/// As the frames of all contestants: group address, VID 8, PCP 3, EtherType of UADP.
const HEADER: [u8; 18] = [1, 0, 0x5E, 0x7F, 0, 1, 2, 0, 0, 0, 0, 1, 0x81, 0, 0x60, 8, 0xB6, 0x2C];

pub(crate) struct Alone {
    message: Message,
    socket: Socket,
    tai_minus_utc: Nanos,
}

impl Alone {
    pub(crate) fn open(interface: &str, ids: Ids, fields: usize) -> Result<Self, String> {
        let mut message = Message::new(fields, ids.writes, ids.reads)?;
        message.set_header(HEADER);
        Ok(Self { message, socket: Socket::open(interface)?, tai_minus_utc: tai_minus_utc() })
    }
}

impl End for Alone {
    fn read(&mut self) -> Result<Option<u64>, String> {
        match self.socket.receive()? {
            Some(uadp) => self.message.decode(uadp, true),
            None => Ok(None),
        }
    }

    fn wait(&mut self, timeout: Nanos) -> Result<(), String> {
        self.socket.wait(timeout);
        Ok(())
    }

    fn wait_long(&mut self) -> Result<(), String> {
        self.socket.wait_long()
    }

    fn application(&mut self, counter: Option<u64>) {
        match counter {
            Some(counter) => self.message.fill(counter),
            None => self.message.echo(),
        }
    }

    fn publish(&mut self) -> Result<(), String> {
        self.message.encode(now().to_date_time(self.tai_minus_utc)).map(|_| ())
    }

    fn launch(&mut self) -> Result<(), String> {
        self.socket.send(self.message.frame())
    }
}
