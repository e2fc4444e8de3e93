//! The programs, run as the kernel would.

use std::collections::BTreeSet;

use super::*;

const PACKET_HOST: u32 = 0;
const PACKET_OTHERHOST: u32 = 3;
const DESTINATION: [u8; 6] = [0x01, 0x00, 0x5E, 0x7F, 0x00, 0x01];
const ALL: Wanted<'static> = Wanted { destination: None, tag: TagUse::Report, publishers: &[] };

/// A frame as the socket gets it: what the core has stripped stands beside it.
struct Seen<'a> {
    frame: &'a [u8],
    packet_type: u32,
    /// TPID and tag control information.
    stripped: Option<(u16, u16)>,
}

impl Seen<'_> {
    /// What a load finds; none beyond the frame.
    fn load(&self, offset: usize, bytes: usize) -> Option<u32> {
        let ancillary = (offset as u32).wrapping_sub(libc::SKF_AD_OFF as u32);
        let (tpid, tci) = self.stripped.unwrap_or_default();
        match i32::try_from(ancillary).ok().filter(|offset| *offset < 64) {
            Some(libc::SKF_AD_PKTTYPE) => Some(self.packet_type),
            Some(libc::SKF_AD_VLAN_TAG_PRESENT) => Some(self.stripped.is_some().into()),
            Some(libc::SKF_AD_VLAN_TPID) => Some(tpid.into()),
            Some(libc::SKF_AD_VLAN_TAG) => Some(tci.into()),
            Some(other) => panic!("ancillary load {other}"),
            None => {
                let bytes = self.frame.get(offset..offset + bytes)?;
                Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
            }
        }
    }

    /// Whether the program lets it pass, and after how many steps.
    fn run(&self, program: &[sock_filter]) -> (bool, usize) {
        let (mut at, mut a, mut x, mut steps) = (0, 0_u32, 0_u32, 0);
        loop {
            let next = program[at];
            at += 1;
            steps += 1;
            let k = next.k as usize;
            let jump = |yes| usize::from(if yes { next.jt } else { next.jf });
            let loaded = match next.code {
                LOAD_BYTE => self.load(k, 1),
                LOAD_HALF => self.load(k, 2),
                LOAD_WORD => self.load(k, 4),
                LOAD_BYTE_AT_X => self.load(k + x as usize, 1),
                LOAD_HALF_AT_X => self.load(k + x as usize, 2),
                _ => Some(a),
            };
            // A load beyond the frame drops it.
            let Some(value) = loaded else { return (false, steps) };
            a = value;
            match next.code {
                LOAD_BYTE | LOAD_HALF | LOAD_WORD | LOAD_BYTE_AT_X | LOAD_HALF_AT_X => {}
                SET_X => x = next.k,
                AND => a &= next.k,
                JUMP => at += k,
                JUMP_EQUAL => at += jump(a == next.k),
                JUMP_ABOVE => at += jump(a > next.k),
                JUMP_BITS => at += jump(a & next.k != 0),
                RETURN => return (next.k != 0, steps),
                code => panic!("{code}"),
            }
        }
    }
}

fn accepts(program: &Program, frame: &[u8], packet_type: u32) -> bool {
    Seen { frame, packet_type, stripped: None }.run(&program.instructions).0
}

fn frame(destination: [u8; 6], types: &[u16]) -> Vec<u8> {
    let mut frame = destination.to_vec();
    frame.extend([2, 0, 0, 0, 0, 1]);
    for (place, ethertype) in types.iter().enumerate() {
        if place > 0 {
            frame.extend([0xE0, 0x0A]);
        }
        frame.extend(ethertype.to_be_bytes());
    }
    frame
}

#[test]
fn only_uadp_passes() {
    let program = uadp(&ALL);
    assert!(!program.checks_publishers);
    for packet_type in [PACKET_HOST, PACKET_OTHERHOST] {
        assert!(accepts(&program, &frame(DESTINATION, &[0xB62C]), packet_type));
        assert!(accepts(&program, &frame(DESTINATION, &[0x8100, 0xB62C]), packet_type));
        assert!(!accepts(&program, &frame(DESTINATION, &[0x88A8, 0xB62C]), packet_type));
        assert!(!accepts(&program, &frame(DESTINATION, &[0x8100, 0x0800]), packet_type));
        assert!(!accepts(&program, &frame(DESTINATION, &[0x0800]), packet_type));
        assert!(!accepts(&program, &[0; 13], packet_type));
    }
    assert!(!accepts(&program, &frame(DESTINATION, &[0xB62C]), u32::from(libc::PACKET_OUTGOING)));
}

#[test]
fn only_the_destination_passes() {
    let program = uadp(&Wanted { destination: Some(DESTINATION), ..ALL });
    assert!(accepts(&program, &frame(DESTINATION, &[0xB62C]), PACKET_HOST));
    assert!(accepts(&program, &frame(DESTINATION, &[0x8100, 0xB62C]), PACKET_HOST));
    assert!(!accepts(&program, &frame(DESTINATION, &[0x0800]), PACKET_HOST));
    for byte in 0..6 {
        let mut other = DESTINATION;
        other[byte] ^= 0x80;
        assert!(!accepts(&program, &frame(other, &[0xB62C]), PACKET_HOST), "{byte}");
    }
}

#[test]
fn only_the_tag_passes() {
    let program = uadp(&Wanted { tag: TagUse::Require { vid: 10, pcp: 7 }, ..ALL });
    let stripped = |types: &[u16], stripped| {
        let frame = frame(DESTINATION, types);
        Seen { frame: &frame, packet_type: PACKET_HOST, stripped }.run(&program.instructions).0
    };
    for (tci, passes) in [(0xE00A, true), (0xF00A, true), (0xC00A, false), (0xE00B, false), (0, false)] {
        assert_eq!(stripped(&[0xB62C], Some((0x8100, tci))), passes, "{tci:x}");
        // Two tags: the outer one counts, whatever the inner is (here VID 10, PCP 7).
        assert_eq!(stripped(&[0x8100, 0xB62C], Some((0x8100, tci))), passes, "{tci:x}");
    }
    assert!(!stripped(&[0xB62C], None), "without a tag");
    assert!(stripped(&[0x8100, 0xB62C], None), "a tag that is still in the frame");
    assert!(stripped(&[0x8100, 0xB62C], Some((0x88A8, 5))), "a service tag around it");
    assert!(!stripped(&[0xB62C], Some((0x88A8, 0xE00A))), "a service tag alone");
}

/// Ethernet header and the first bytes of a NetworkMessage.
fn message(tagged: bool, first: &[u8]) -> Vec<u8> {
    let mut bytes = frame(DESTINATION, if tagged { &[0x8100, 0xB62C] } else { &[0xB62C] });
    bytes.extend(first);
    bytes.resize(64, 0x55);
    bytes
}

#[test]
fn only_the_publishers_pass() {
    let program = uadp(&Wanted { publishers: &[0x0102, 7], ..ALL });
    assert!(program.checks_publishers);
    for tagged in [false, true] {
        let passes = |first: &[u8]| accepts(&program, &message(tagged, first), PACKET_HOST);
        assert!(passes(&[0xB1, 0x01, 0x02, 0x01]), "little endian");
        assert!(passes(&[0x91, 0x21, 7, 0]), "with a Timestamp, without GroupHeader");
        assert!(passes(&[0xF1, 0x81, 0x00, 7, 0]), "behind ExtendedFlags2");
        assert!(passes(&[0xF1, 0xF9, 0x1C, 7, 0]), "all flags set");
        assert!(!passes(&[0xB1, 0x01, 0x01, 0x02]), "big endian");
        assert!(!passes(&[0xB1, 0x01, 8, 0]), "another publisher");
        assert!(!passes(&[0xB1, 0x81, 7, 0, 0]), "ExtendedFlags2 is not the PublisherId");
        assert!(!passes(&[0xB2, 0x01, 7, 0]), "version 2");
        assert!(!passes(&[0xA1, 0x01, 7, 0]), "no PublisherId");
        assert!(!passes(&[0x31, 7, 0]), "a Byte");
        for other in [0, 2, 3, 4, 5, 6, 7] {
            assert!(!passes(&[0xB1, other, 7, 0, 0, 0]), "type {other}");
        }
    }
    let cut = message(false, &[0xB1, 0x01, 7, 0]);
    for bytes in 0..18 {
        assert!(!accepts(&program, &cut[..bytes], PACKET_HOST), "{bytes} bytes");
    }
    assert!(accepts(&program, &cut[..18], PACKET_HOST));
}

#[test]
fn many_publishers_cost_little_more_than_few() {
    for count in (1..=40).chain([63, 64, 65, 255, 256, 257, 600, 1500_u16]) {
        // Scattered over the whole range, in no order, with repetitions.
        let mut ids: Vec<u16> = (0..count).map(|number| number.wrapping_mul(40_503)).collect();
        ids.push(ids[0]);
        let program = uadp(&Wanted { publishers: &ids, tag: TagUse::Require { vid: 10, pcp: 7 }, ..ALL });
        assert!(program.checks_publishers);
        let wanted: BTreeSet<u16> = ids.iter().copied().collect();
        let mut most = 0;
        let probed = wanted.iter().flat_map(|id| [id.wrapping_sub(1), *id, id.swap_bytes(), id ^ 0x0100]);
        for id in probed.chain([0, u16::MAX]) {
            let [low, high] = id.to_le_bytes();
            let frame = message(true, &[0xB1, 0x01, low, high]);
            let (passes, steps) =
                Seen { frame: &frame, packet_type: PACKET_HOST, stripped: None }.run(&program.instructions);
            assert_eq!(passes, wanted.contains(&id), "{id} of {count}");
            most = most.max(steps);
        }
        // 35 steps before the search, then two at most for each halving, and the last few in a row.
        assert!(most <= 35 + 2 * (usize::from(count).ilog2() as usize + 1) + IN_A_ROW_AND_RETURN, "{most} of {count}");
    }
}

const IN_A_ROW_AND_RETURN: usize = 5;

#[test]
fn too_many_publishers_are_left_out() {
    let ids: Vec<u16> = (0..4000).collect();
    let counts: Vec<usize> = (1..4000).collect();
    let fits = |count: &usize| uadp(&Wanted { publishers: &ids[..*count], ..ALL }).checks_publishers;
    let most = counts.partition_point(fits);
    assert!((2000..3000).contains(&most), "{most}");
    let program = uadp(&Wanted { publishers: &ids[..=most], ..ALL });
    assert!(!program.checks_publishers);
    assert!(accepts(&program, &message(false, &[0xB1, 0x01, 0xFF, 0xFF]), PACKET_HOST), "all pass");
}
