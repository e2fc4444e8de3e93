//! Sizes of Ethernet frames.

/// Destination, source and EtherType.
const HEADER_BYTES: u32 = 14;
/// The 802.1Q tag.
const TAG_BYTES: u32 = 4;
/// Frame check sequence.
const FCS_BYTES: u32 = 4;
/// Preamble and start delimiter (8) and inter-frame gap (12).
const PHYSICAL_BYTES: u32 = 20;
/// Smallest frame from header to FCS, tag included, that a sender may send (802.3 §4.2.3.3).
const MIN_LINK_BYTES: u32 = 64;

/// Largest payload of an Ethernet frame, with or without tag.
pub const MAX_PAYLOAD_BYTES: u32 = 1500;

/// The size of one Ethernet frame, known by its payload and whether it has an 802.1Q tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameSize {
    payload_bytes: u32,
    tag: bool,
}

impl FrameSize {
    /// A frame with an 802.1Q tag around `payload_bytes`.
    pub const fn tagged(payload_bytes: u32) -> Self {
        Self { payload_bytes, tag: true }
    }

    /// A frame without a tag around `payload_bytes`.
    pub const fn untagged(payload_bytes: u32) -> Self {
        Self { payload_bytes, tag: false }
    }

    /// What the frame carries, without padding.
    pub const fn payload_bytes(self) -> u32 {
        self.payload_bytes
    }

    /// Header, tag and payload without FCS and padding: what a socket sends and `qdisc_pkt_len` counts.
    pub const fn socket_bytes(self) -> u32 {
        self.payload_bytes + HEADER_BYTES + if self.tag { TAG_BYTES } else { 0 }
    }

    /// From the destination address to the FCS, padded to the minimum of 64 bytes.
    pub const fn link_bytes(self) -> u32 {
        let bytes = self.socket_bytes() + FCS_BYTES;
        if bytes < MIN_LINK_BYTES { MIN_LINK_BYTES } else { bytes }
    }

    /// What the frame takes of the line: link bytes, preamble, start delimiter and inter-frame gap.
    pub const fn physical_bytes(self) -> u32 {
        self.link_bytes() + PHYSICAL_BYTES
    }

    /// [`Self::physical_bytes`] in bits.
    pub const fn physical_bits(self) -> u64 {
        self.physical_bytes() as u64 * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_the_papers() {
        // Kirdan et al. Table VIII: UADP, link, physical.
        for (uadp, link, physical) in
            [(59, 81, 101), (140, 162, 182), (302, 324, 344), (617, 639, 659), (1256, 1278, 1298), (1499, 1521, 1541)]
        {
            let frame = FrameSize::tagged(uadp);
            assert_eq!((frame.link_bytes(), frame.physical_bytes()), (link, physical));
        }
        // Rezabek et al. Table II: without PHY.
        assert_eq!(FrameSize::tagged(59).socket_bytes(), 77);
    }

    #[test]
    fn short_frames_are_padded() {
        assert_eq!(FrameSize::tagged(1).link_bytes(), 64);
        assert_eq!(FrameSize::untagged(46).link_bytes(), 64);
        assert_eq!(FrameSize::untagged(1).physical_bytes(), 84);
    }
}
