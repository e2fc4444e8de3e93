//! What stands in front of the UADP part of a frame.

use crate::ETHERTYPE_VLAN;

const HEADER_BYTES: usize = 14;
const TAG_BYTES: usize = 4;

/// The 802.1Q tag a frame carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// VLAN identifier; 0 for a tag that has a priority only.
    pub vid: u16,
    /// Priority code point.
    pub pcp: u8,
    /// Drop eligible.
    pub dei: bool,
}

impl Tag {
    /// From tag control information (802.1Q-2022 §9.6).
    #[inline]
    pub(crate) const fn new(tci: u16) -> Self {
        Self { vid: tci & 0x0FFF, pcp: (tci >> 13) as u8, dei: tci & 0x1000 != 0 }
    }
}

/// A tag that is still in the frame, and what follows the EtherType.
#[inline]
pub(crate) fn split(frame: &[u8]) -> (Option<Tag>, &[u8]) {
    // One comparison of the length for the frames that count.
    if frame.len() < HEADER_BYTES + TAG_BYTES {
        return (None, frame.get(HEADER_BYTES..).unwrap_or_default());
    }
    if frame[12..14] != ETHERTYPE_VLAN.to_be_bytes() {
        return (None, &frame[HEADER_BYTES..]);
    }
    (Some(Tag::new(u16::from_be_bytes([frame[14], frame[15]]))), &frame[HEADER_BYTES + TAG_BYTES..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_taken_apart() {
        assert_eq!(Tag::new(0xEBB8), Tag { vid: 3000, pcp: 7, dei: false });
        assert_eq!(Tag::new(0x1000), Tag { vid: 0, pcp: 0, dei: true });
        assert_eq!(Tag::new(0x3FFF), Tag { vid: 4095, pcp: 1, dei: true });
    }

    #[test]
    fn short_frames_have_no_content() {
        let mut frame = [0_u8; 20];
        frame[12..14].copy_from_slice(&[0x81, 0x00]);
        frame[14..18].copy_from_slice(&[0xEB, 0xB8, 0xB6, 0x2C]);
        assert_eq!(split(&frame), (Some(Tag { vid: 3000, pcp: 7, dei: false }), &frame[18..]));
        for length in 0..14 {
            assert_eq!(split(&frame[..length]), (None, &[][..]), "{length}");
        }
        frame[12..14].copy_from_slice(&[0xB6, 0x2C]);
        assert_eq!(split(&frame), (None, &frame[14..]));
        assert_eq!(split(&frame[..16]), (None, &frame[14..16]));
    }
}
