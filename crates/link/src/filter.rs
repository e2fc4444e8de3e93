//! The classic BPF program in front of a receiving socket: what is not ours is dropped before it is copied.
//!
//! The core has stripped the outer tag by then, so the EtherType stands at offset 12, and the tag is reached by
//! ancillary loads; a tag inside another one is still in place.

use libc::sock_filter;

use crate::receiver::TagUse;
use crate::{ETHERTYPE_UADP, ETHERTYPE_VLAN, publishers};

// The BPF opcodes used, from linux/bpf_common.h.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
pub(crate) const LOAD_HALF_AT_X: u16 = 0x48;
pub(crate) const LOAD_BYTE_AT_X: u16 = 0x50;
const SET_X: u16 = 0x01;
pub(crate) const AND: u16 = 0x54;
pub(crate) const JUMP: u16 = 0x05;
pub(crate) const JUMP_EQUAL: u16 = 0x15;
pub(crate) const JUMP_ABOVE: u16 = 0x25;
pub(crate) const JUMP_BITS: u16 = 0x45;
pub(crate) const RETURN: u16 = 0x06;

/// What a program returns for a frame that passes: so many bytes of it, all of them.
pub(crate) const ACCEPT: u32 = u32::MAX;
pub(crate) const DROP: u32 = 0;

/// The longest program that the kernel takes (`BPF_MAXINSNS`).
const MOST_INSTRUCTIONS: usize = 4096;
const VID_AND_PCP: u32 = 0xEFFF;

/// What passes, beside the EtherType.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) destination: Option<[u8; 6]>,
    pub(crate) tag: TagUse,
    /// Empty for all.
    pub(crate) publishers: &'a [u16],
}

/// A program, and whether it looks at the PublisherId.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) instructions: Vec<sock_filter>,
    pub(crate) checks_publishers: bool,
}

/// The program: UADP frames as wanted, and none that this host sends itself. It leaves the PublisherId alone when there
/// are more of them than a program can hold (about 2300).
pub(crate) fn uadp(wanted: &Wanted<'_>) -> Program {
    let ancillary = |offset| (libc::SKF_AD_OFF + offset) as u32;
    let mut program = vec![
        instruction(LOAD_BYTE, ancillary(libc::SKF_AD_PKTTYPE)),
        branch(JUMP_EQUAL, u32::from(libc::PACKET_OUTGOING), 0, 1),
        instruction(RETURN, DROP),
        // X, which is 0 at the start, becomes the length of a tag in the frame.
        instruction(LOAD_HALF, 12),
        branch(JUMP_EQUAL, u32::from(ETHERTYPE_UADP), 6, 0),
    ];
    program.extend(only(ETHERTYPE_VLAN.into()));
    program.push(instruction(LOAD_HALF, 16));
    program.extend(only(ETHERTYPE_UADP.into()));
    program.push(instruction(SET_X, 4));
    if let Some([a, b, c, d, e, f]) = wanted.destination {
        program.push(instruction(LOAD_WORD, 0));
        program.extend(only(u32::from_be_bytes([a, b, c, d])));
        program.push(instruction(LOAD_HALF, 4));
        program.extend(only(u32::from_be_bytes([0, 0, e, f])));
    }
    if let TagUse::Require { vid, pcp } = wanted.tag {
        program.extend([
            instruction(LOAD_HALF, ancillary(libc::SKF_AD_VLAN_TAG_PRESENT)),
            branch(JUMP_EQUAL, 0, 4, 0),
            instruction(LOAD_HALF, ancillary(libc::SKF_AD_VLAN_TPID)),
            branch(JUMP_EQUAL, u32::from(ETHERTYPE_VLAN), 0, 2),
            instruction(LOAD_HALF, ancillary(libc::SKF_AD_VLAN_TAG)),
            instruction(JUMP, 4),
            // No stripped tag, or another kind: the one in the frame counts, if there is one.
            instruction(LOAD_HALF, 12),
        ]);
        program.extend(only(ETHERTYPE_VLAN.into()));
        program.extend([instruction(LOAD_HALF, 14), instruction(AND, VID_AND_PCP)]);
        program.extend(only(u32::from(pcp) << 13 | u32::from(vid)));
    }
    let checked = if wanted.publishers.is_empty() { Vec::new() } else { publishers::only_of(wanted.publishers) };
    let checks_publishers = !checked.is_empty() && program.len() + checked.len() <= MOST_INSTRUCTIONS;
    if checks_publishers {
        program.extend(checked);
    } else {
        program.push(instruction(RETURN, ACCEPT));
    }
    Program { instructions: program, checks_publishers }
}

pub(crate) const fn instruction(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

/// Skips `yes` instructions when the loaded value compares with `value`, else `no`.
pub(crate) const fn branch(code: u16, value: u32, yes: usize, no: usize) -> sock_filter {
    sock_filter { code, jt: yes as u8, jf: no as u8, k: value }
}

/// Goes on when the loaded value is `value`, else drops the frame.
pub(crate) const fn only(value: u32) -> [sock_filter; 2] {
    [branch(JUMP_EQUAL, value, 1, 0), instruction(RETURN, DROP)]
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
