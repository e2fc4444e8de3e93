//! Strict priority of bands, `sch_prio`.

use super::fifo::Fifo;
use super::{Discipline, Dropped, leaf};
use crate::port::Packet;

#[derive(Debug)]
pub(super) struct Prio {
    map: [u8; 16],
    bands: Vec<Fifo>,
    timer: Option<i64>,
}

impl Prio {
    pub(super) fn new(map: [u8; 16]) -> Self {
        let count = map.iter().max().map_or(1, |band| band + 1);
        Self { map, bands: (0..count).map(|_| leaf()).collect(), timer: None }
    }
}

impl Discipline for Prio {
    fn enqueue(&mut self, now: i64, packet: Packet, dropped: &mut Dropped) -> bool {
        let band = self.map[usize::from(packet.priority & 15)];
        self.bands[usize::from(band)].enqueue(now, packet, dropped)
    }

    fn peek(&mut self, _now: i64, _dropped: &mut Dropped) -> Option<Packet> {
        self.bands.iter().find_map(Fifo::front)
    }

    fn dequeue(&mut self, _now: i64, _dropped: &mut Dropped) -> Option<Packet> {
        self.bands.iter_mut().find_map(Fifo::pop)
    }

    fn len(&self) -> usize {
        self.bands.iter().map(Discipline::len).sum()
    }

    fn timer(&mut self) -> &mut Option<i64> {
        &mut self.timer
    }
}
