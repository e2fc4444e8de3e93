//! Frames made by hand, and opening both ends.

use downbeat_link::{ReceiveWay, Receiver, ReceiverOptions, Sender, SenderOptions, Tag};
use units::{Nanos, Tai};

pub(crate) const DESTINATION: [u8; 6] = [0x01, 0x00, 0x5E, 0x7F, 0x00, 0x01];
pub(crate) const SECOND: Nanos = Nanos(1_000_000_000);
/// Not the machine's offset: the tests would not see one that is left out.
pub(crate) const TAI_MINUS_UTC: Nanos = Nanos(37_000_000_000);

pub(crate) fn frame(destination: [u8; 6], tag: Option<Tag>, ethertype: u16, content: &[u8]) -> Vec<u8> {
    let mut frame = destination.to_vec();
    frame.extend([0x02, 0, 0, 0, 0, 1]);
    if let Some(tag) = tag {
        frame.extend(0x8100_u16.to_be_bytes());
        frame.extend(tci(tag).to_be_bytes());
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend(content);
    frame
}

/// Tag control information.
pub(crate) fn tci(Tag { vid, pcp, dei }: Tag) -> u16 {
    u16::from(pcp) << 13 | u16::from(dei) << 12 | vid
}

pub(crate) fn uadp(tag: Option<Tag>, content: &[u8]) -> Vec<u8> {
    frame(DESTINATION, tag, 0xB62C, content)
}

pub(crate) fn tag(vid: u16, pcp: u8) -> Option<Tag> {
    Some(Tag { vid, pcp, dei: false })
}

pub(crate) fn sender(interface: &str) -> Sender {
    Sender::open(interface, SenderOptions { priority: 7, ..SenderOptions::default() }).unwrap()
}

/// Opens a receiver and makes sure that frames come the way they shall.
pub(crate) fn receiver(interface: &str, way: ReceiveWay, options: ReceiverOptions<'_>) -> Receiver {
    let options = ReceiverOptions { way, tai_minus_utc: TAI_MINUS_UTC, ..options };
    let receiver = Receiver::open(interface, options).unwrap();
    assert_eq!(receiver.way(), way);
    receiver
}

/// Tag, content and stamp of the next frame; none when none comes.
pub(crate) fn next(receiver: &mut Receiver) -> Option<(Option<Tag>, Vec<u8>, Option<Tai>)> {
    receiver.wait(Nanos::from_millis(500)).unwrap();
    receiver.receive().unwrap().map(|received| (received.tag, received.uadp.to_vec(), received.stamp))
}

/// The test's own idea of TAI.
pub(crate) fn now() -> Tai {
    let utc = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Tai(utc.as_nanos() as i64) + TAI_MINUS_UTC
}
