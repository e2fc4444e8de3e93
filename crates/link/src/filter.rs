//! The classic BPF program in front of a receiving socket: what is not ours is dropped before it is copied.
//!
//! The core has stripped the outer tag by then, so the EtherType stands at offset 12; a tag inside another
//! one is still in place. VID and PCP are deliberately not looked at: a frame with a wrong tag must be seen to
//! be counted.

use libc::sock_filter;

use crate::{ETHERTYPE_UADP, ETHERTYPE_VLAN};

// The BPF opcodes used, from linux/bpf_common.h.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

const WHOLE_FRAME: u32 = u32::MAX;
const DROP: u32 = 0;

/// The program: UADP frames, only those to `destination` when there is one, and none that this host sends itself.
pub(crate) fn uadp(destination: Option<[u8; 6]>) -> Vec<sock_filter> {
    // Index of the first instruction after the type is known, and of the last one, which drops.
    let checked: usize = 7;
    let drop = checked + 1 + if destination.is_some() { 4 } else { 0 };
    let mut program = vec![
        load(LOAD_BYTE, (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32),
        branch(1, u32::from(libc::PACKET_OUTGOING), drop, 2),
        load(LOAD_HALF, 12),
        branch(3, u32::from(ETHERTYPE_UADP), checked, 4),
        branch(4, u32::from(ETHERTYPE_VLAN), 5, drop),
        load(LOAD_HALF, 16),
        branch(6, u32::from(ETHERTYPE_UADP), checked, drop),
    ];
    if let Some([a, b, c, d, e, f]) = destination {
        program.extend([
            load(LOAD_WORD, 0),
            branch(8, u32::from_be_bytes([a, b, c, d]), 9, drop),
            load(LOAD_HALF, 4),
            branch(10, u32::from_be_bytes([0, 0, e, f]), 11, drop),
        ]);
    }
    program.extend([instruction(RETURN, WHOLE_FRAME), instruction(RETURN, DROP)]);
    program
}

const fn instruction(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

/// Loads from an offset of the frame.
const fn load(code: u16, offset: u32) -> sock_filter {
    instruction(code, offset)
}

/// The instruction at index `here`: goes to `equal` when the loaded value is `value`, else to `other`.
const fn branch(here: usize, value: u32, equal: usize, other: usize) -> sock_filter {
    sock_filter { code: JUMP_EQUAL, jt: (equal - here - 1) as u8, jf: (other - here - 1) as u8, k: value }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET_HOST: u32 = 0;
    const PACKET_OTHERHOST: u32 = 3;
    const DESTINATION: [u8; 6] = [0x01, 0x00, 0x5E, 0x7F, 0x00, 0x01];

    /// Runs the program as the kernel would; a load beyond the frame drops it.
    fn accepts(program: &[sock_filter], frame: &[u8], packet_type: u32) -> bool {
        let (mut at, mut value) = (0, 0);
        loop {
            let next = program[at];
            at += 1;
            let bytes = |length: usize| frame.get(next.k as usize..next.k as usize + length);
            match next.code {
                LOAD_BYTE => value = packet_type,
                LOAD_HALF | LOAD_WORD => {
                    let Some(bytes) = bytes(if next.code == LOAD_WORD { 4 } else { 2 }) else { return false };
                    value = bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte));
                }
                JUMP_EQUAL => at += usize::from(if value == next.k { next.jt } else { next.jf }),
                RETURN => return next.k != 0,
                code => panic!("{code}"),
            }
        }
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
        let program = uadp(None);
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
        let program = uadp(Some(DESTINATION));
        assert!(accepts(&program, &frame(DESTINATION, &[0xB62C]), PACKET_HOST));
        assert!(accepts(&program, &frame(DESTINATION, &[0x8100, 0xB62C]), PACKET_HOST));
        assert!(!accepts(&program, &frame(DESTINATION, &[0x0800]), PACKET_HOST));
        for byte in 0..6 {
            let mut other = DESTINATION;
            other[byte] ^= 0x80;
            assert!(!accepts(&program, &frame(other, &[0xB62C]), PACKET_HOST), "{byte}");
        }
    }
}
