//! What the tests of AF_XDP share.
#![allow(dead_code, reason = "not every test uses everything")]

use downbeat_link::xdp::{XdpMode, XdpOptions, XdpPort, XdpReceiver, XdpSender};
use downbeat_link::{Receiver, ReceiverOptions, Sender, SenderOptions, Tag};
use units::Nanos;

use super::common::{PORT_A, PORT_B};

pub(crate) const DESTINATION: [u8; 6] = [0x01, 0x00, 0x5E, 0x7F, 0x00, 0x01];
pub(crate) const OTHER: [u8; 6] = [0x01, 0x00, 0x5E, 0x7F, 0x00, 0x02];
pub(crate) const MODES: [XdpMode; 2] = [XdpMode::Driver, XdpMode::Generic];

pub(crate) fn frame(destination: [u8; 6], tag: Option<Tag>, ethertype: u16, content: &[u8]) -> Vec<u8> {
    let mut frame = destination.to_vec();
    frame.extend([0x02, 0, 0, 0, 0, 1]);
    if let Some(Tag { vid, pcp, dei }) = tag {
        frame.extend(0x8100_u16.to_be_bytes());
        frame.extend((u16::from(pcp) << 13 | u16::from(dei) << 12 | vid).to_be_bytes());
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend(content);
    frame
}

pub(crate) fn uadp(tag: Option<Tag>, content: &[u8]) -> Vec<u8> {
    frame(DESTINATION, tag, 0xB62C, content)
}

pub(crate) fn tag(vid: u16, pcp: u8) -> Option<Tag> {
    Some(Tag { vid, pcp, dei: false })
}

pub(crate) fn in_mode(mode: XdpMode) -> XdpOptions {
    XdpOptions { mode, ..XdpOptions::default() }
}

pub(crate) fn open(interface: &str, options: XdpOptions) -> (XdpSender, XdpReceiver) {
    XdpPort::open(interface, options).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn packet_sender() -> Sender {
    Sender::open(PORT_A, SenderOptions::default()).unwrap()
}

pub(crate) fn packet_receiver() -> Receiver {
    Receiver::open(PORT_B, ReceiverOptions::default()).unwrap()
}

/// Tag and content of the next frame; none when none comes.
pub(crate) fn next(receiver: &mut XdpReceiver) -> Option<(Option<Tag>, Vec<u8>)> {
    receiver.wait(Nanos::from_millis(500)).unwrap();
    receiver.receive().unwrap().map(|received| (received.tag, received.uadp.to_vec()))
}

pub(crate) fn next_packet(receiver: &mut Receiver) -> Option<(Option<Tag>, Vec<u8>)> {
    receiver.wait(Nanos::from_millis(500)).unwrap();
    receiver.receive().unwrap().map(|received| (received.tag, received.uadp.to_vec()))
}
