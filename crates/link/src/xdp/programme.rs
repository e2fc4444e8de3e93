//! The XDP programme in front of the socket: UADP frames that are asked for go to the socket, everything else goes
//! on to the stack as if the programme were not there.
//!
//! Taken is EtherType 0xB62C, alone or behind one 802.1Q tag (0x8100). A frame with two tags, or with an outer
//! S-tag (0x88A8), passes to the stack. VID and PCP are deliberately not looked at: a frame with a wrong tag must be
//! seen to be counted.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;

use super::assembler::{Assembler, Instruction, Label, Reg, Size};
use super::bpf::{self, MapKind};
use super::stamp;
use crate::error::{InterfaceName, LinkError};
use crate::{ETHERTYPE_UADP, ETHERTYPE_VLAN};

pub(super) const CAP_BPF: &str = "CAP_BPF and CAP_NET_ADMIN (not those of a user namespace)";

/// What the programme has seen since it was loaded, in frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Filtered {
    /// No UADP: went on to the stack.
    pub foreign: u64,
    /// UADP, but of another destination or PublisherId, or cut off within its header: went on to the stack.
    pub unwanted: u64,
    /// Wanted, and handed to the socket. It may still have been full: see [`drops`](super::XdpReceiver::drops).
    pub redirected: u64,
    /// Wanted, but arrived on a receive queue that has no socket: went on to the stack.
    pub missed: u64,
}

/// The programme with the maps it uses. Dropping it detaches nothing: the link holds it.
#[derive(Debug)]
pub(super) struct Programme {
    pub(super) fd: OwnedFd,
    /// From receive queue to socket.
    sockets: OwnedFd,
    counters: OwnedFd,
    /// The kernel keeps it alive with the programme; held to name it in one place.
    _publishers: Option<OwnedFd>,
}

/// What a frame must be to go to the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted<'a> {
    pub(super) destination: Option<[u8; 6]>,
    /// Any PublisherId when empty.
    pub(super) publishers: &'a [u16],
    /// Whether the time of arrival is put before each frame.
    pub(super) stamps: bool,
}

impl Programme {
    /// Loads the programme for sockets on receive queues up to `queue`. Nothing is attached.
    pub(super) fn load(wanted: Wanted<'_>, queue: u32, interface: InterfaceName) -> Result<Self, LinkError> {
        let refused = |call| move |errno| LinkError::of(errno, call, CAP_BPF, interface);
        let sockets =
            bpf::create_map(MapKind::Sockets, 4, 4, queue + 1).map_err(refused("creating the XDP socket map"))?;
        let counters = bpf::create_map(MapKind::Array, 4, 32, 1).map_err(refused("creating the XDP counters"))?;
        let publishers = publisher_set(wanted.publishers).map_err(refused("creating the XDP map of PublisherIds"))?;
        let instructions =
            assemble(wanted, sockets.as_raw_fd(), counters.as_raw_fd(), publishers.as_ref().map(AsRawFd::as_raw_fd));
        let fd = bpf::load(&instructions, &mut []).map_err(refused("loading the XDP programme"))?;
        Ok(Self { fd, sockets, counters, _publishers: publishers })
    }

    /// From now on frames of `queue` go to `socket`.
    pub(super) fn connect(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        bpf::update(self.sockets.as_fd(), &queue, &socket.as_raw_fd())
    }

    /// What it has counted.
    pub(super) fn filtered(&self) -> Result<Filtered, Errno> {
        let [foreign, unwanted, redirected, missed] = bpf::read_array(self.counters.as_fd())?;
        Ok(Filtered { foreign, unwanted, redirected, missed })
    }
}

fn publisher_set(publishers: &[u16]) -> Result<Option<OwnedFd>, Errno> {
    if publishers.is_empty() {
        return Ok(None);
    }
    // A hash: the cost of a look-up does not grow with the number of publishers.
    let map = bpf::create_map(MapKind::Hash, 2, 1, publishers.len() as u32)?;
    for publisher in publishers {
        bpf::update(map.as_fd(), publisher, &1_u8)?;
    }
    Ok(Some(map))
}

// The functions of the kernel that are called (linux/bpf.h).
const MAP_LOOKUP_ELEM: i32 = 1;
const REDIRECT_MAP: i32 = 51;
const XDP_ADJUST_META: i32 = 54;
const KTIME_GET_TAI_NS: i32 = 208;

const XDP_PASS: i32 = 2;
const XDP_REDIRECT: i32 = 4;

// Offsets in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const DATA_META: i16 = 8;
const RX_QUEUE_INDEX: i16 = 16;

// Offsets of the counters.
const FOREIGN: i16 = 0;
const UNWANTED: i16 = 8;
const REDIRECTED: i16 = 16;
const MISSED: i16 = 24;

// UADP header (OPC 10000-14 §7.2.4.4.2): the flags in the first two bytes.
const PUBLISHER_ID_AND_EXTENDED_FLAGS_1: i32 = 0x90;
const PUBLISHER_ID_TYPE: i32 = 0x07;
const UINT16: u32 = 1;
const EXTENDED_FLAGS_2: i32 = 0x80;

const RESULT: Reg = Reg(0);
const ARGUMENTS: [Reg; 3] = [Reg(1), Reg(2), Reg(3)];
const START: Reg = Reg(2);
const END: Reg = Reg(3);
const CURSOR: Reg = Reg(4);
const SCRATCH: Reg = Reg(5);
const SCRATCH_2: Reg = Reg(1);
// These survive calls.
const STAMP: Reg = Reg(7);
const COUNTERS: Reg = Reg(8);
const CONTEXT: Reg = Reg(9);
const STACK_END: Reg = Reg(10);

/// A 16-bit field of a frame as a little- or big-endian load of this machine sees it.
fn field_16(value: u16) -> u32 {
    u32::from(value.to_be())
}

fn assemble(wanted: Wanted<'_>, sockets: i32, counters: i32, publishers: Option<i32>) -> Vec<Instruction> {
    let mut a = Assembler::default();
    let (foreign, unwanted) = (a.label(), a.label());
    a.copy(CONTEXT, Reg(1));
    a.map_value(COUNTERS, counters);
    a.load(Size::Word, START, CONTEXT, DATA);
    a.load(Size::Word, END, CONTEXT, DATA_END);
    ethertype(&mut a, foreign);
    if let Some(address) = wanted.destination {
        destination(&mut a, address, unwanted);
    }
    if let Some(map) = publishers {
        publisher(&mut a, map, unwanted);
    }
    if wanted.stamps {
        put_stamp(&mut a);
    }
    redirect(&mut a, sockets);
    pass(&mut a, foreign, FOREIGN);
    // The verifier refuses what nothing leads to.
    if wanted.destination.is_some() || publishers.is_some() {
        pass(&mut a, unwanted, UNWANTED);
    }
    a.finish()
}

/// Where a frame goes on to the stack.
fn pass(a: &mut Assembler, label: Label, counter: i16) {
    a.place(label);
    a.set(RESULT, XDP_PASS);
    count_and_exit(a, counter);
}

fn count_and_exit(a: &mut Assembler, counter: i16) {
    a.set(SCRATCH, 1);
    a.atomic_add(COUNTERS, counter, SCRATCH);
    a.exit();
}

/// The verifier lets nothing be read before its end was compared with the end of the frame.
fn need(a: &mut Assembler, end: Reg, or: Label) {
    a.jump_greater(end, END, or);
}

/// Goes on with the cursor behind the EtherType 0xB62C.
fn ethertype(a: &mut Assembler, foreign: Label) {
    let found = a.label();
    a.copy(CURSOR, START);
    a.add(CURSOR, 14);
    need(a, CURSOR, foreign);
    a.load(Size::Half, SCRATCH, START, 12);
    a.jump_equal(SCRATCH, field_16(ETHERTYPE_UADP).cast_signed(), found);
    a.jump_unequal(SCRATCH, field_16(ETHERTYPE_VLAN), foreign);
    a.add(CURSOR, 4);
    need(a, CURSOR, foreign);
    a.load(Size::Half, SCRATCH, START, 16);
    a.jump_unequal(SCRATCH, field_16(ETHERTYPE_UADP), foreign);
    a.place(found);
}

fn destination(a: &mut Assembler, [b0, b1, b2, b3, b4, b5]: [u8; 6], unwanted: Label) {
    // By halves: a driver may put the frame at an address that is not a multiple of four.
    for (offset, half) in [(0, [b0, b1]), (2, [b2, b3]), (4, [b4, b5])] {
        a.load(Size::Half, SCRATCH, START, offset);
        a.jump_unequal(SCRATCH, field_16(u16::from_be_bytes(half)), unwanted);
    }
}

/// The PublisherId is there, a UInt16, and in the map.
fn publisher(a: &mut Assembler, map: i32, unwanted: Label) {
    let at_id = a.label();
    a.copy(SCRATCH, CURSOR);
    a.add(SCRATCH, 2);
    need(a, SCRATCH, unwanted);
    a.load(Size::Byte, SCRATCH, CURSOR, 0);
    a.and(SCRATCH, PUBLISHER_ID_AND_EXTENDED_FLAGS_1);
    a.jump_unequal(SCRATCH, PUBLISHER_ID_AND_EXTENDED_FLAGS_1.cast_unsigned(), unwanted);
    a.load(Size::Byte, SCRATCH, CURSOR, 1);
    a.copy(SCRATCH_2, SCRATCH);
    a.and(SCRATCH_2, PUBLISHER_ID_TYPE);
    a.jump_unequal(SCRATCH_2, UINT16, unwanted);
    a.add(CURSOR, 2);
    a.and(SCRATCH, EXTENDED_FLAGS_2);
    a.jump_equal(SCRATCH, 0, at_id);
    a.add(CURSOR, 1);
    a.place(at_id);
    a.copy(SCRATCH, CURSOR);
    a.add(SCRATCH, 2);
    need(a, SCRATCH, unwanted);
    // By bytes: it may stand at an odd address. The key is the number in this machine's order.
    a.load(Size::Byte, SCRATCH, CURSOR, 0);
    a.store(Size::Byte, STACK_END, -8, SCRATCH);
    a.load(Size::Byte, SCRATCH, CURSOR, 1);
    a.store(Size::Byte, STACK_END, -7, SCRATCH);
    a.load(Size::Half, SCRATCH, STACK_END, -8);
    a.little_endian_16(SCRATCH);
    a.store(Size::Half, STACK_END, -8, SCRATCH);
    a.map(ARGUMENTS[0], map);
    a.copy(ARGUMENTS[1], STACK_END);
    a.add(ARGUMENTS[1], -8);
    a.call(MAP_LOOKUP_ELEM);
    a.jump_equal(RESULT, 0, unwanted);
}

/// Puts the time, and its check word, before the frame. A driver without room for it delivers the frame unstamped.
fn put_stamp(a: &mut Assembler) {
    let without = a.label();
    a.call(KTIME_GET_TAI_NS);
    a.copy(STAMP, RESULT);
    a.copy(ARGUMENTS[0], CONTEXT);
    a.set(ARGUMENTS[1], -(stamp::BYTES as i32));
    a.call(XDP_ADJUST_META);
    a.jump_unequal(RESULT, 0, without);
    a.load(Size::Word, START, CONTEXT, DATA_META);
    a.load(Size::Word, END, CONTEXT, DATA);
    a.copy(CURSOR, START);
    a.add(CURSOR, stamp::BYTES as i32);
    need(a, CURSOR, without);
    a.set_wide(SCRATCH, stamp::MARK);
    a.xor(SCRATCH, STAMP);
    a.store(Size::Double, START, 0, SCRATCH);
    a.store(Size::Double, START, 8, STAMP);
    a.place(without);
}

fn redirect(a: &mut Assembler, sockets: i32) {
    let missed = a.label();
    a.load(Size::Word, ARGUMENTS[1], CONTEXT, RX_QUEUE_INDEX);
    a.map(ARGUMENTS[0], sockets);
    // What to answer when the queue has no socket.
    a.set(ARGUMENTS[2], XDP_PASS);
    a.call(REDIRECT_MAP);
    a.jump_unequal(RESULT, XDP_REDIRECT as u32, missed);
    count_and_exit(a, REDIRECTED);
    a.place(missed);
    count_and_exit(a, MISSED);
}

#[cfg(test)]
#[path = "programme_tests.rs"]
mod tests;
