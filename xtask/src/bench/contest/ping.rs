//! The other side of an echo, the same for all contestants: written by hand, on a receive ring, never asleep.

use std::os::fd::AsFd;

use link::bare::Ring;
use link::{Sender, SenderOptions};
use rt::clock::{now, tai_minus_utc};
use units::Nanos;

use super::super::hand;
use super::drive::{BACK, THERE, spin_until};
use super::simple::frame;

/// Ethernet header of a received frame: the kernel has taken the tag out.
const HEADER_BYTES: usize = 14;
/// Longer than the pauses of a virtual machine.
const TIMEOUT: Nanos = Nanos::from_millis(100);
/// Frames without an answer after which a block is given up.
const MOST_LOST: u32 = 20;
/// Answers at the beginning of a block that are not timed.
const WARM_UP: u32 = 16;
/// Looks at the ring between two looks at the clock.
const LOOKS: u32 = 256;

pub(super) struct Pinger {
    ring: Ring,
    sender: Sender,
    writer: hand::Writer,
    reader: hand::Reader,
    tai_minus_utc: Nanos,
    counter: u64,
}

/// What one block showed.
#[derive(Debug, Clone, Default)]
pub(super) struct Pings {
    /// From handing over a frame to having its answer.
    pub(super) round_trips_ns: Vec<f64>,
    /// Frames that got no answer in time.
    pub(super) lost: u32,
}

impl Pinger {
    pub(super) fn open(interface: &str, fields: u16) -> Result<Self, String> {
        Ok(Self {
            ring: Ring::open(interface, 0).map_err(|error| error.to_string())?,
            sender: Sender::open(interface, SenderOptions { priority: 3, ..SenderOptions::default() })
                .map_err(|error| error.to_string())?,
            writer: hand::Writer::new(&frame(THERE, fields)?, fields),
            reader: hand::Reader::new(&frame(BACK, fields)?, fields),
            tai_minus_utc: tai_minus_utc(),
            counter: 0,
        })
    }

    /// Frames that a contestant is told to answer in a block of so many timed ones.
    pub(super) fn answers(timed: u32) -> u32 {
        WARM_UP + timed
    }

    /// Sends until so many have been answered: one each `rhythm`, or at once when the answer is there.
    pub(super) fn block(&mut self, rhythm: Option<Nanos>, timed: u32) -> Result<Pings, String> {
        let mut pings = Pings { round_trips_ns: Vec::with_capacity(timed as usize), lost: 0 };
        let (mut answered, mut due) = (0, now());
        while answered < Self::answers(timed) {
            if let Some(rhythm) = rhythm {
                // After a pause of the machine the rhythm begins anew.
                due = (due + rhythm).max(now());
                spin_until(due);
            }
            self.counter += 1;
            let frame = self.writer.build(self.counter, now().to_date_time(self.tai_minus_utc));
            let sent = now();
            link::bare::send(self.sender.as_fd(), frame).map_err(|error| format!("send: {error}"))?;
            let mut looks = 0_u32;
            loop {
                if let Some(counter) = self.read() {
                    let took = now() - sent;
                    answered += 1;
                    // An answer that comes too late is one nevertheless: the contestant has counted it.
                    if counter == self.counter {
                        if answered > WARM_UP {
                            pings.round_trips_ns.push(took.0 as f64);
                        }
                        break;
                    }
                }
                looks = looks.wrapping_add(1);
                if looks.is_multiple_of(LOOKS) && now() - sent > TIMEOUT {
                    pings.lost += 1;
                    break;
                }
                std::hint::spin_loop();
            }
            if pings.lost > MOST_LOST {
                return Err(format!("{} of {} frames got no answer", pings.lost, pings.lost + answered));
            }
        }
        Ok(pings)
    }

    #[inline]
    fn read(&mut self) -> Option<u64> {
        let frame = self.ring.frame()?;
        let values = frame.get(HEADER_BYTES..).and_then(|uadp| self.reader.take_apart(uadp));
        let counter = values.and_then(|values| values.last().copied());
        self.ring.release();
        counter
    }
}
