//! Frames under way, in slots that are used again: after the first cycles nothing is allocated.

use units::Picos;

/// Slot of a frame under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FrameId(u32);

impl FrameId {
    /// The frame of an index, where frames are not in slots.
    pub(crate) fn of(index: u32) -> Self {
        Self(index)
    }

    /// Its index.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A frame under way.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    /// Index of its flow.
    pub(crate) flow: u32,
    /// Which port of the path of its flow it is at or goes to next.
    pub(crate) hop: u32,
    /// Number of the send of its stream end.
    pub(crate) handle: u32,
    /// When it entered the queue of the first port.
    pub(crate) entered: Picos,
    /// The bytes of a stream's frame, Ethernet header included; empty for traffic.
    pub(crate) bytes: Vec<u8>,
}

/// All frames under way.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    slots: Vec<Frame>,
    free: Vec<FrameId>,
}

impl Frames {
    /// A new frame of `flow` with a copy of `bytes`.
    pub(crate) fn add(&mut self, flow: u32, handle: u32, bytes: &[u8]) -> FrameId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Frame::default());
            FrameId(self.slots.len() as u32 - 1)
        });
        let frame = self.get_mut(id);
        (frame.flow, frame.hop, frame.handle, frame.entered) = (flow, 0, handle, Picos::ZERO);
        frame.bytes.clear();
        frame.bytes.extend_from_slice(bytes);
        id
    }

    /// Gives the slot back.
    pub(crate) fn remove(&mut self, id: FrameId) {
        self.free.push(id);
    }

    /// The frame in a slot.
    pub(crate) fn get(&self, id: FrameId) -> &Frame {
        &self.slots[id.0 as usize]
    }

    /// The frame in a slot, to change.
    pub(crate) fn get_mut(&mut self, id: FrameId) -> &mut Frame {
        &mut self.slots[id.0 as usize]
    }
}
