//! The XDP programme in front of the socket: UADP frames that are asked for go to the socket, everything else goes
//! on to the stack as if the programme were not there.
//!
//! Taken is EtherType 0xB62C, alone or behind one 802.1Q tag (0x8100). A frame with two tags, or with an outer
//! S-tag (0x88A8), passes to the stack. VID and PCP are deliberately not looked at: a frame with a wrong tag must be
//! seen to be counted.
//!
//! Of several sockets each gets the messages of its publishers and WriterGroups. They are bound to one receive queue:
//! the kernel drops what is handed to a socket of another.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;

use super::assembler::{Assembler, Instruction, Label, Reg, Size};
use super::bpf::{self, MapKind};
use super::options::XdpKey;
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
    /// Wanted, but arrived on a receive queue that has no socket, or for a receiver that is closed: went on to the stack.
    pub missed: u64,
    /// Of the wanted ones those that the network card gave no stamp, where its stamps are used.
    pub unstamped: u64,
}

/// The programme with the maps it uses. Dropping it detaches nothing: the link holds it.
#[derive(Debug)]
pub(super) struct Programme {
    pub(super) fd: OwnedFd,
    /// The sockets, in the order of what they want.
    sockets: OwnedFd,
    counters: OwnedFd,
    /// The kernel keeps it alive with the programme; held to name it in one place.
    _keys: Option<OwnedFd>,
}

/// What a frame must be to go to the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted<'a> {
    pub(super) destination: Option<[u8; 6]>,
    /// The receive queue that the sockets are bound to, from 0.
    pub(super) queue: u32,
    /// What each socket gets. Nothing at all in it is everything, for the first.
    pub(super) receivers: &'a [Vec<XdpKey>],
    /// What is put before each frame.
    pub(super) stamp: Stamp,
}

/// Who says when a frame arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stamp {
    Nobody,
    /// The kernel, when the programme runs.
    Kernel,
    /// The network card, by a function of its driver.
    Card(CardStamps),
}

/// How to ask for a card's stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CardStamps {
    /// The number of [`RX_TIMESTAMP`] in this kernel.
    pub(super) function: u32,
    /// Index of the only interface that the programme can be attached to.
    pub(super) interface: u32,
}

/// The function that gives a card's stamp (`Documentation/networking/xdp-rx-metadata.rst`).
pub(super) const RX_TIMESTAMP: &str = "bpf_xdp_metadata_rx_timestamp";

impl Wanted<'_> {
    fn keys(&self) -> impl Iterator<Item = (u32, &XdpKey)> {
        (0..).zip(self.receivers).flat_map(|(socket, keys)| keys.iter().map(move |key| (socket, key)))
    }

    /// Whether a WriterGroupId matters.
    fn steers_groups(&self) -> bool {
        self.keys().any(|(_, key)| key.writer_group_id.is_some())
    }

    fn device(&self) -> Option<u32> {
        match self.stamp {
            Stamp::Card(card) => Some(card.interface),
            Stamp::Nobody | Stamp::Kernel => None,
        }
    }
}

impl Programme {
    /// Loads the programme. Nothing is attached.
    pub(super) fn load(wanted: Wanted<'_>, interface: InterfaceName) -> Result<Self, LinkError> {
        let refused = |call| move |errno| LinkError::of(errno, call, CAP_BPF, interface);
        let sockets = bpf::create_map(MapKind::Sockets, 4, 4, wanted.receivers.len().max(1) as u32)
            .map_err(refused("creating the XDP socket map"))?;
        let counters =
            bpf::create_map(MapKind::Array, 4, COUNTERS_BYTES, 1).map_err(refused("creating the XDP counters"))?;
        let keys = key_map(wanted).map_err(refused("creating the XDP map of PublisherIds"))?;
        let instructions =
            assemble(wanted, sockets.as_raw_fd(), counters.as_raw_fd(), keys.as_ref().map(AsRawFd::as_raw_fd));
        let fd = bpf::load(&instructions, wanted.device(), &mut []).map_err(refused("loading the XDP programme"))?;
        Ok(Self { fd, sockets, counters, _keys: keys })
    }

    /// From now on frames for the receiver of this `number` go to `socket`.
    pub(super) fn connect(&self, number: u32, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        bpf::update(self.sockets.as_fd(), &number, &socket.as_raw_fd())
    }

    /// From now on these frames go on to the stack.
    pub(super) fn disconnect(&self, number: u32) {
        // Fails only if it is not there.
        _ = bpf::delete(self.sockets.as_fd(), &number);
    }

    /// What it has counted.
    pub(super) fn filtered(&self) -> Result<Filtered, Errno> {
        let [foreign, unwanted, redirected, missed, unstamped] = bpf::read_array(self.counters.as_fd())?;
        Ok(Filtered { foreign, unwanted, redirected, missed, unstamped })
    }
}

/// From PublisherId and WriterGroupId, as they stand in a message, to the number of a socket; none when all is wanted.
fn key_map(wanted: Wanted<'_>) -> Result<Option<OwnedFd>, Errno> {
    let count = wanted.keys().count();
    if count == 0 {
        return Ok(None);
    }
    // A hash: the cost of a look-up does not grow with the number of publishers.
    let map = bpf::create_map(MapKind::Hash, 4, 4, count as u32)?;
    for (socket, key) in wanted.keys() {
        let [p0, p1] = key.publisher_id.to_le_bytes();
        let [g0, g1] = key.writer_group_id.unwrap_or(ANY_GROUP).to_le_bytes();
        bpf::update(map.as_fd(), &[p0, p1, g0, g1], &socket)?;
    }
    Ok(Some(map))
}

/// Stands for all WriterGroups that are not named: 0 is invalid on the wire.
const ANY_GROUP: u16 = 0;

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
const UNSTAMPED: i16 = 32;
const COUNTERS_BYTES: u32 = 40;

// UADP header (OPC 10000-14 §7.2.4.4.2): the flags in the first two bytes.
const PUBLISHER_ID_AND_EXTENDED_FLAGS_1: i32 = 0x90;
const PUBLISHER_ID_TYPE: i32 = 0x07;
const UINT16: u32 = 1;
const EXTENDED_FLAGS_2: i32 = 0x80;
const GROUP_HEADER: i32 = 0x20;
const DATA_SET_CLASS_ID: i32 = 0x08;
const DATA_SET_CLASS_ID_BYTES: i32 = 16;
// GroupFlags, with which the group header begins (§7.2.4.4.3).
const WRITER_GROUP_ID: i32 = 0x01;

// Offsets from the end of the stack: the key, PublisherId and WriterGroupId; and what the driver writes.
const KEY: i16 = -8;
const KEY_GROUP: i16 = -6;
const CARD_STAMP: i16 = -16;

const RESULT: Reg = Reg(0);
const ARGUMENTS: [Reg; 3] = [Reg(1), Reg(2), Reg(3)];
const START: Reg = Reg(2);
const END: Reg = Reg(3);
const CURSOR: Reg = Reg(4);
const SCRATCH: Reg = Reg(5);
// Until the first call.
const FLAGS: Reg = Reg(0);
const FLAGS_1: Reg = Reg(7);
// These survive calls.
const SOCKET: Reg = Reg(6);
const STAMP: Reg = Reg(7);
const COUNTERS: Reg = Reg(8);
const CONTEXT: Reg = Reg(9);
const STACK_END: Reg = Reg(10);

/// A 16-bit field of a frame as a little- or big-endian load of this machine sees it.
fn field_16(value: u16) -> u32 {
    u32::from(value.to_be())
}

fn assemble(wanted: Wanted<'_>, sockets: i32, counters: i32, keys: Option<i32>) -> Vec<Instruction> {
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
    match keys {
        Some(map) => steer(&mut a, map, wanted.steers_groups(), unwanted),
        None => a.set(SOCKET, 0),
    }
    match wanted.stamp {
        Stamp::Nobody => {}
        Stamp::Kernel => {
            a.call(KTIME_GET_TAI_NS);
            a.copy(STAMP, RESULT);
            let done = a.label();
            put_stamp(&mut a, done);
            a.place(done);
        }
        Stamp::Card(CardStamps { function, .. }) => card_stamp(&mut a, function),
    }
    redirect(&mut a, sockets, wanted.queue);
    pass(&mut a, foreign, FOREIGN);
    // The verifier refuses what nothing leads to.
    if wanted.destination.is_some() || keys.is_some() {
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
    count(a, counter);
    a.exit();
}

fn count(a: &mut Assembler, counter: i16) {
    a.set(SCRATCH, 1);
    a.atomic_add(COUNTERS, counter, SCRATCH);
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

/// Finds the socket: the PublisherId is there, a UInt16, and in the map, if it must be with its WriterGroupId.
fn steer(a: &mut Assembler, map: i32, groups: bool, unwanted: Label) {
    let at_id = a.label();
    a.copy(SCRATCH, CURSOR);
    a.add(SCRATCH, 2);
    need(a, SCRATCH, unwanted);
    a.load(Size::Byte, FLAGS, CURSOR, 0);
    a.copy(SCRATCH, FLAGS);
    a.and(SCRATCH, PUBLISHER_ID_AND_EXTENDED_FLAGS_1);
    a.jump_unequal(SCRATCH, PUBLISHER_ID_AND_EXTENDED_FLAGS_1.cast_unsigned(), unwanted);
    a.load(Size::Byte, FLAGS_1, CURSOR, 1);
    a.copy(SCRATCH, FLAGS_1);
    a.and(SCRATCH, PUBLISHER_ID_TYPE);
    a.jump_unequal(SCRATCH, UINT16, unwanted);
    a.add(CURSOR, 2);
    a.copy(SCRATCH, FLAGS_1);
    a.and(SCRATCH, EXTENDED_FLAGS_2);
    a.jump_equal(SCRATCH, 0, at_id);
    a.add(CURSOR, 1);
    a.place(at_id);
    a.copy(SCRATCH, CURSOR);
    a.add(SCRATCH, 2);
    need(a, SCRATCH, unwanted);
    copy_field(a, 0, KEY);
    a.store_value(Size::Half, STACK_END, KEY_GROUP, ANY_GROUP.into());
    if groups {
        writer_group(a);
    }
    look_up(a, map);
    if groups {
        let (named, found) = (a.label(), a.label());
        a.jump_equal(RESULT, 0, named);
        a.load(Size::Word, SOCKET, RESULT, 0);
        a.jump(found);
        a.place(named);
        a.store_value(Size::Half, STACK_END, KEY_GROUP, ANY_GROUP.into());
        look_up(a, map);
        a.jump_equal(RESULT, 0, unwanted);
        a.load(Size::Word, SOCKET, RESULT, 0);
        a.place(found);
    } else {
        a.jump_equal(RESULT, 0, unwanted);
        a.load(Size::Word, SOCKET, RESULT, 0);
    }
}

/// Puts the WriterGroupId behind the PublisherId, where the cursor stands, into the key; leaves that when there is none.
fn writer_group(a: &mut Assembler) {
    let (at_header, without) = (a.label(), a.label());
    a.and(FLAGS, GROUP_HEADER);
    a.jump_equal(FLAGS, 0, without);
    a.add(CURSOR, 2);
    a.and(FLAGS_1, DATA_SET_CLASS_ID);
    a.jump_equal(FLAGS_1, 0, at_header);
    a.add(CURSOR, DATA_SET_CLASS_ID_BYTES);
    a.place(at_header);
    a.copy(SCRATCH, CURSOR);
    a.add(SCRATCH, 3);
    need(a, SCRATCH, without);
    a.load(Size::Byte, SCRATCH, CURSOR, 0);
    a.and(SCRATCH, WRITER_GROUP_ID);
    a.jump_equal(SCRATCH, 0, without);
    copy_field(a, 1, KEY_GROUP);
    a.place(without);
}

/// Copies two bytes of the frame into the key. Singly: they may stand at an odd address.
fn copy_field(a: &mut Assembler, from: i16, to: i16) {
    for byte in 0..2 {
        a.load(Size::Byte, SCRATCH, CURSOR, from + byte);
        a.store(Size::Byte, STACK_END, to + byte, SCRATCH);
    }
}

fn look_up(a: &mut Assembler, map: i32) {
    a.map(ARGUMENTS[0], map);
    a.copy(ARGUMENTS[1], STACK_END);
    a.add(ARGUMENTS[1], KEY.into());
    a.call(MAP_LOOKUP_ELEM);
}

/// Puts the card's stamp before the frame, or counts that there is none: one of another clock would be none of the same.
fn card_stamp(a: &mut Assembler, function: u32) {
    let (without, done) = (a.label(), a.label());
    a.store_value(Size::Double, STACK_END, CARD_STAMP, 0);
    a.copy(ARGUMENTS[0], CONTEXT);
    a.copy(ARGUMENTS[1], STACK_END);
    a.add(ARGUMENTS[1], CARD_STAMP.into());
    a.call_kernel(function);
    a.jump_unequal(RESULT, 0, without);
    a.load(Size::Double, STAMP, STACK_END, CARD_STAMP);
    // Some drivers say that there is one, and give none.
    a.jump_equal(STAMP, 0, without);
    put_stamp(a, without);
    a.jump(done);
    a.place(without);
    count(a, UNSTAMPED);
    a.place(done);
}

/// Puts the time, and its check word, before the frame. A driver without room for it delivers the frame unstamped.
fn put_stamp(a: &mut Assembler, without: Label) {
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
}

fn redirect(a: &mut Assembler, sockets: i32, queue: u32) {
    let missed = a.label();
    a.set(RESULT, XDP_PASS);
    a.load(Size::Word, SCRATCH, CONTEXT, RX_QUEUE_INDEX);
    a.jump_unequal(SCRATCH, queue, missed);
    a.map(ARGUMENTS[0], sockets);
    a.copy(ARGUMENTS[1], SOCKET);
    // What to answer when there is no socket.
    a.set(ARGUMENTS[2], XDP_PASS);
    a.call(REDIRECT_MAP);
    a.jump_unequal(RESULT, XDP_REDIRECT as u32, missed);
    count_and_exit(a, REDIRECTED);
    a.place(missed);
    count_and_exit(a, MISSED);
}

#[cfg(test)]
#[path = "programme_tests.rs"]
pub(super) mod tests;
