//! Frames of a round: handed over one a cycle, and when they left.

use std::io;

use link::{Departure, Sender, SenderOptions, StampReader, Stamps, interface};
use rt::clock;
use units::{Nanos, Tai};

use super::Class;
use super::gates::Gates;

/// Of frames for experiments, 802-2014 §9.2.3. No station takes them in.
const ETHERTYPE: u16 = 0x88B6;
/// The group of the nearest bridge, 802.1Q-2022 table 8-1: it passes no frame of it on.
const DESTINATION: [u8; 6] = [0x01, 0x80, 0xC2, 0x00, 0x00, 0x0E];
/// Without FCS: the shortest that there is.
const FRAME_BYTES: usize = 60;
const TEXT: &[u8] = b"downbeat probe: does this gate move?";

/// One frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sent {
    /// It was handed over after this instant …
    pub(super) before: Tai,
    /// … and before this one.
    pub(super) after: Tai,
    /// When it left, as far as was told.
    pub(super) left: Option<Tai>,
}

/// The bytes of a probe of an interface.
pub(super) fn frame(source: [u8; 6]) -> [u8; FRAME_BYTES] {
    let mut bytes = [0; FRAME_BYTES];
    bytes[..6].copy_from_slice(&DESTINATION);
    bytes[6..12].copy_from_slice(&source);
    bytes[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
    bytes[14..14 + TEXT.len()].copy_from_slice(TEXT);
    bytes
}

/// Frames of a class that are under way.
#[derive(Debug)]
pub(super) struct Underway {
    _sender: Sender,
    stamps: StampReader,
    /// What came of each call, none when it failed.
    calls: Vec<Option<Sent>>,
}

/// Hands frames of a class over, one a cycle, spread over the times when its gate is shut.
pub(super) fn send(device: &str, gates: &Gates, class: &Class, frames: usize) -> io::Result<Underway> {
    let options = SenderOptions { priority: class.priority, stamps: Stamps::Software, txtime: None };
    let sender = Sender::open(device, options)?;
    let stamps = sender.stamps(clock::tai_minus_utc())?;
    let bytes = frame(interface::mac(device)?);
    let mut calls: Vec<Option<Sent>> = Vec::new();
    let mut earliest = clock::now() + Nanos(gates.cycle.0 / 2);
    for number in 0..frames {
        let span = class.shut[number % class.shut.len()];
        let thousandths = (number as i64 * 1000 + 500) / frames as i64;
        let at = gates.instant(span, thousandths, earliest);
        clock::sleep_through(at);
        let before = clock::now();
        let handed_over = sender.send(&bytes).is_ok();
        let after = clock::now();
        calls.push(handed_over.then_some(Sent { before, after, left: None }));
        earliest = (at + Nanos(gates.cycle.0 / 2)).max(after);
    }
    Ok(Underway { _sender: sender, stamps, calls })
}

impl Underway {
    /// Waits until all have left, at most until then.
    pub(super) fn wait(mut self, deadline: Tai) -> io::Result<Vec<Sent>> {
        while self.calls.iter().flatten().any(|sent| sent.left.is_none()) {
            // What is there already is read in any case.
            let patience = (deadline - clock::now()).max(Nanos::ZERO);
            let Some(Departure::Left(stamp)) = self.stamps.wait(patience)? else { break };
            if let Some(Some(sent)) = self.calls.get_mut(stamp.id as usize) {
                sent.left = Some(stamp.at);
            }
        }
        Ok(self.calls.into_iter().flatten().collect())
    }
}
