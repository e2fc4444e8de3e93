//! The part of the BPF program that lets the NetworkMessages of certain publishers pass.

use libc::sock_filter;

use crate::filter::{
    ACCEPT, AND, DROP, JUMP, JUMP_ABOVE, JUMP_BITS, JUMP_EQUAL, LOAD_BYTE_AT_X, LOAD_HALF_AT_X, RETURN, branch,
    instruction, only,
};

/// Offset of the UADP header in an untagged frame; register X has what a tag in the frame adds.
const UADP: u32 = 14;
/// Longer lists are halved; so many comparisons stand in a row at the end.
const IN_A_ROW: usize = 4;

/// Lets a NetworkMessage pass whose PublisherId is a UInt16 out of `publishers`, drops all else.
///
/// OPC 10000-14 §7.2.4.4: the PublisherId follows UADPFlags, ExtendedFlags1 and, when it is there, ExtendedFlags2.
pub(crate) fn only_of(publishers: &[u16]) -> Vec<sock_filter> {
    let mut program = vec![instruction(LOAD_BYTE_AT_X, UADP)];
    // Version 1, PublisherId and ExtendedFlags1 present; without the latter it would be a Byte.
    program.push(instruction(AND, 0x9F));
    program.extend(only(0x91));
    program.push(instruction(LOAD_BYTE_AT_X, UADP + 1));
    // Its type: UInt16.
    program.push(instruction(AND, 0x07));
    program.extend(only(0x01));
    program.extend([
        instruction(LOAD_BYTE_AT_X, UADP + 1),
        // ExtendedFlags2 present?
        branch(JUMP_BITS, 0x80, 0, 2),
        instruction(LOAD_HALF_AT_X, UADP + 3),
        instruction(JUMP, 1),
        instruction(LOAD_HALF_AT_X, UADP + 2),
    ]);
    // The load takes the bytes in the other order than the wire means them.
    let mut wanted: Vec<u16> = publishers.iter().map(|id| id.swap_bytes()).collect();
    wanted.sort_unstable();
    wanted.dedup();
    program.extend(search(&wanted));
    program
}

/// A binary search for the loaded value; ends in a return, whatever it finds.
fn search(wanted: &[u16]) -> Vec<sock_filter> {
    if wanted.len() <= IN_A_ROW {
        let mut row: Vec<_> = (wanted.iter().enumerate())
            .map(|(at, id)| branch(JUMP_EQUAL, u32::from(*id), wanted.len() - at, 0))
            .collect();
        row.extend([instruction(RETURN, DROP), instruction(RETURN, ACCEPT)]);
        return row;
    }
    let (below, above) = wanted.split_at(wanted.len() / 2);
    let greatest_below = u32::from(below[below.len() - 1]);
    let (below, above) = (search(below), search(above));
    // A conditional jump reaches 255 instructions, the unconditional one any of them.
    let mut program = if below.len() <= usize::from(u8::MAX) {
        vec![branch(JUMP_ABOVE, greatest_below, below.len(), 0)]
    } else {
        vec![branch(JUMP_ABOVE, greatest_below, 0, 1), instruction(JUMP, below.len() as u32)]
    };
    program.extend(below);
    program.extend(above);
    program
}
