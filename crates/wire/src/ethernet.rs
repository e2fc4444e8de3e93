//! The Ethernet header with its optional 802.1Q tag (802.3 §3.2, 802.1Q-2022 §9.6).

use core::fmt;

use crate::bytes::{Short, Writer, array_at};

/// EtherType of UADP over Ethernet (OPC 10000-14 §7.3.3).
pub const ETHERTYPE_UADP: u16 = 0xB62C;
/// EtherType of a customer VLAN tag (802.1Q-2022 §9.5).
pub const ETHERTYPE_VLAN: u16 = 0x8100;
/// Largest payload of a frame, with or without tag (802.3 §3.2.7).
pub const MAX_PAYLOAD_BYTES: usize = units::MAX_PAYLOAD_BYTES as usize;
/// Smallest payload of an untagged frame; shorter ones are padded with zeros (802.3 §3.2.8).
pub const MIN_PAYLOAD_BYTES: usize = 46;
/// Smallest untagged frame without frame check sequence.
pub const MIN_FRAME_BYTES: usize = UNTAGGED_BYTES + MIN_PAYLOAD_BYTES;

const UNTAGGED_BYTES: usize = 14;
const TAGGED_BYTES: usize = 18;
const SOURCE: usize = 6;
const ETHERTYPE: usize = 12;
const TAG_CONTROL: usize = 14;
const TAGGED_ETHERTYPE: usize = 16;
const DEI: u16 = 0x1000;
const VID_MASK: u16 = 0x0FFF;

/// Largest VLAN identifier; 4095 is reserved (802.1Q-2022 table 9-2).
const MAX_VID: u16 = 4094;
/// Largest priority code point.
const MAX_PCP: u8 = 7;

/// An 802.1Q tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VlanTag {
    /// Priority code point, 0 to 7.
    pub pcp: u8,
    /// Drop eligible indicator.
    pub dei: bool,
    /// VLAN identifier, 0 to 4094; 0 means priority only.
    pub vid: u16,
}

impl VlanTag {
    /// The tag out of its two bytes of tag control information.
    #[inline]
    pub const fn from_control(control: u16) -> Self {
        Self { pcp: (control >> 13) as u8, dei: control & DEI != 0, vid: control & VID_MASK }
    }

    /// Tag control information; bits out of range are cut, [`EthernetHeader::check`] refuses them.
    #[inline]
    pub const fn control(self) -> u16 {
        ((self.pcp as u16 & 7) << 13) | if self.dei { DEI } else { 0 } | (self.vid & VID_MASK)
    }
}

/// Addresses and tag of a frame; the EtherType is that of UADP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EthernetHeader {
    /// Destination address.
    pub destination: [u8; 6],
    /// Source address.
    pub source: [u8; 6],
    /// 802.1Q tag; `None` for an untagged frame.
    pub vlan: Option<VlanTag>,
}

/// What no frame can have in its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EthernetError {
    /// VLAN identifier above 4094.
    Vid(u16),
    /// Priority code point above 7.
    Pcp(u8),
    /// A group address as source: bridges drop such frames (802.1Q-2022 §8.6).
    GroupSource([u8; 6]),
}

impl fmt::Display for EthernetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vid(vid) => write!(f, "VLAN identifier {vid}: expected 0 to {MAX_VID} (4095 is reserved)"),
            Self::Pcp(pcp) => write!(f, "priority code point {pcp}: expected 0 to {MAX_PCP}"),
            Self::GroupSource([a, b, c, d, e, g]) => write!(
                f,
                "source address {a:02x}-{b:02x}-{c:02x}-{d:02x}-{e:02x}-{g:02x}: expected an individual address; \
                 make its first byte even"
            ),
        }
    }
}

impl core::error::Error for EthernetError {}

impl EthernetHeader {
    /// Whether a frame may have this header.
    pub fn check(&self) -> Result<(), EthernetError> {
        if let Some(tag) = self.vlan {
            if tag.vid > MAX_VID {
                return Err(EthernetError::Vid(tag.vid));
            }
            if tag.pcp > MAX_PCP {
                return Err(EthernetError::Pcp(tag.pcp));
            }
        }
        match self.source[0] & 1 {
            0 => Ok(()),
            _ => Err(EthernetError::GroupSource(self.source)),
        }
    }

    /// Length from the destination address to the EtherType: 14 or 18 bytes.
    pub const fn bytes(&self) -> usize {
        if self.vlan.is_some() { TAGGED_BYTES } else { UNTAGGED_BYTES }
    }

    /// Writes addresses, tag and EtherType.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), Short> {
        w.put(&self.destination)?;
        w.put(&self.source)?;
        if let Some(tag) = self.vlan {
            w.put(&ETHERTYPE_VLAN.to_be_bytes())?;
            w.put(&tag.control().to_be_bytes())?;
        }
        w.put(&ETHERTYPE_UADP.to_be_bytes())
    }

    /// Header, EtherType and payload of `frame`; `None` when it ends within its header.
    /// The EtherType is the one behind the tag, whatever it is.
    #[inline]
    pub fn parse(frame: &[u8]) -> Option<(Self, u16, &[u8])> {
        let destination = array_at(frame, 0)?;
        let source = array_at(frame, SOURCE)?;
        let ethertype = u16::from_be_bytes(array_at(frame, ETHERTYPE)?);
        if ethertype != ETHERTYPE_VLAN {
            return Some((Self { destination, source, vlan: None }, ethertype, frame.get(UNTAGGED_BYTES..)?));
        }
        let tag = VlanTag::from_control(u16::from_be_bytes(array_at(frame, TAG_CONTROL)?));
        let ethertype = u16::from_be_bytes(array_at(frame, TAGGED_ETHERTYPE)?);
        Some((Self { destination, source, vlan: Some(tag) }, ethertype, frame.get(TAGGED_BYTES..)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAGGED: EthernetHeader = EthernetHeader {
        destination: [0x01, 0, 0x5E, 0x7F, 0, 1],
        source: [2, 0, 0, 0, 0, 0x0A],
        vlan: Some(VlanTag { pcp: 3, dei: true, vid: 8 }),
    };

    #[test]
    fn emits_and_parses_tagged_and_untagged() {
        for header in [TAGGED, EthernetHeader { vlan: None, ..TAGGED }] {
            let mut bytes = [0x55; 20];
            header.emit(&mut Writer::new(&mut bytes)).unwrap();
            let (parsed, ethertype, rest) = EthernetHeader::parse(&bytes).unwrap();
            assert_eq!((parsed, ethertype, rest.len()), (header, ETHERTYPE_UADP, 20 - header.bytes()));
            for end in 0..header.bytes() {
                assert!(EthernetHeader::parse(&bytes[..end]).is_none(), "{end} bytes are no header");
            }
        }
    }

    #[test]
    fn tag_control_is_big_endian_pcp_dei_vid() {
        let mut bytes = [0; 18];
        TAGGED.emit(&mut Writer::new(&mut bytes)).unwrap();
        assert_eq!(bytes[12..], [0x81, 0x00, 0x70, 0x08, 0xB6, 0x2C]);
    }

    #[test]
    fn refuses_what_no_frame_can_have() {
        let with = |pcp, vid| EthernetHeader { vlan: Some(VlanTag { pcp, dei: false, vid }), ..TAGGED };
        assert_eq!(with(7, 4094).check(), Ok(()));
        assert_eq!(with(7, 4095).check(), Err(EthernetError::Vid(4095)));
        assert_eq!(with(8, 1).check(), Err(EthernetError::Pcp(8)));
        let source = [1, 0, 0, 0, 0, 1];
        assert_eq!(EthernetHeader { source, ..TAGGED }.check(), Err(EthernetError::GroupSource(source)));
    }
}
