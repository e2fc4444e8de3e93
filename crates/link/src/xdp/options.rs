//! How a port is set up, and what became of it.

use std::fmt;

use super::pool::Shares;
use crate::stampmode::Stamps;

/// Where the programme runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum XdpMode {
    /// In the driver if it can, else generic.
    #[default]
    Auto,
    /// In the driver, before the kernel makes a packet of the frame.
    Driver,
    /// Behind the driver, on any interface: the frame is a packet already.
    Generic,
}

/// How frames come from the driver's memory to ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum XdpCopy {
    /// Zero copy if the driver can, else a copy.
    #[default]
    Auto,
    /// The network card reads and writes our memory. Needs a driver that can.
    ZeroCopy,
    /// The kernel copies each frame.
    Copy,
}

/// How an [`XdpPort`](super::XdpPort) is set up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct XdpOptions {
    /// Where the programme runs.
    pub mode: XdpMode,
    /// How frames come to us.
    pub copy: XdpCopy,
    /// The receive and transmit queue, from 0.
    pub queue: u32,
    /// The caller has seen to it that the wanted frames arrive on `queue` (`ethtool -N`). Without this an interface
    /// with several receive queues is refused.
    pub steered: bool,
    /// Only frames to this address; none for all that reach the interface.
    pub destination: Option<[u8; 6]>,
    /// Only frames of these PublisherIds, of type UInt16; empty for all.
    pub publishers: Vec<u16>,
    /// Room for received frames, for each receiver, rounded up to a power of two; 0 for 256. Each takes 4096 bytes, and
    /// all receivers together have no more than 65536.
    pub receive_frames: u32,
    /// Room for frames on their way out, for each sender; 0 for 64, and else the same.
    pub send_frames: u32,
    /// How long the kernel polls the driver, in microseconds, instead of waiting for its interrupt; 0 for not at all.
    /// Whether the kernel took it is told by [`XdpHow::busy_poll`].
    pub busy_poll_us: u32,
    /// Whether it shall be said when each frame arrived, and when it left ([`SendStamps`]). What was asked for of the
    /// hardware and cannot be had comes as software stamps: see [`XdpHow::receive_stamps`]. With zero copy the network
    /// card alone knows when a frame left, and tells only who asks for hardware stamps.
    pub stamps: Stamps,
}

/// Whose messages go to one receiver of several on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct XdpKey {
    /// Who publishes: a PublisherId of type UInt16.
    pub publisher_id: u16,
    /// Which WriterGroup; none takes messages of all those that no other receiver names, and messages that carry no
    /// WriterGroupId. 0 is no WriterGroupId (OPC 10000-14 §7.2.4.4).
    pub writer_group_id: Option<u16>,
}

/// Who says when a frame has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SendStamps {
    /// Nobody.
    #[default]
    None,
    /// The kernel, in copy mode since 6.8: `CLOCK_TAI` when it got the frame back from the driver. The frame left
    /// before; on a veth pair it has even arrived.
    Completion,
    /// The network card, by its own clock, which `ptp4l` keeps on TAI.
    Hardware,
}

/// The most frames of either direction, of all ends together: 256 MiB.
const MAX_FRAMES: u32 = 1 << 16;

impl XdpOptions {
    pub(super) fn shares(&self, receivers: usize, senders: usize) -> Shares {
        let (receivers, senders) = (receivers as u32, senders as u32);
        Shares {
            receivers,
            receive_chunks: share(frames(self.receive_frames, 256), receivers),
            senders,
            send_chunks: share(frames(self.send_frames, 64), senders),
        }
    }
}

/// Of what one may have alone, what each of several may have, so that all together have no more than the most.
fn share(wanted: u32, of: u32) -> u32 {
    let most = (MAX_FRAMES / of.max(1)).max(1);
    wanted.min(1 << most.ilog2())
}

fn frames(wanted: u32, default: u32) -> u32 {
    let wanted = if wanted == 0 { default } else { wanted };
    wanted.min(MAX_FRAMES).next_power_of_two()
}

/// What a port got, for the result file: a figure without it is worth little. Printed as one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpHow {
    /// Whether the programme runs in the driver; else generic.
    pub driver: bool,
    /// Whether the network card reads and writes our memory; else the kernel copies.
    pub zero_copy: bool,
    /// The queue, from 0.
    pub queue: u32,
    /// How many receive queues the interface has.
    pub queues: u32,
    /// Whether the kernel says when it needs a system call, so that others can be spared. In copy mode sending
    /// always needs one.
    pub need_wakeup: bool,
    /// Whether the kernel polls the driver for us.
    pub busy_poll: bool,
    /// Which stamps the frames received carry: by the system's clock, taken when the programme runs, or by the network
    /// card's. A frame that the card did not stamp has none.
    pub receive_stamps: Stamps,
    /// Why stamps of the network card were asked for and are not had.
    pub no_hardware_stamps: Option<&'static str>,
    /// Whether the kernel takes metadata with a frame to be sent (since 6.8).
    pub send_metadata: bool,
    /// Who says when a frame has left.
    pub send_stamps: SendStamps,
    /// Whether a frame can be given a launch time.
    pub launch_time: bool,
}

impl fmt::Display for XdpHow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let either = |yes, this, that| if yes { this } else { that };
        write!(
            f,
            "AF_XDP {}, {}, queue {} of {}",
            either(self.driver, "driver", "generic"),
            either(self.zero_copy, "zero copy", "copy"),
            self.queue,
            self.queues
        )?;
        for (has, what) in [
            (self.need_wakeup, "need-wakeup"),
            (self.busy_poll, "busy poll"),
            (self.receive_stamps == Stamps::Software, "software receive stamps"),
            (self.receive_stamps == Stamps::Hardware, "hardware receive stamps"),
            (self.send_metadata, "TX metadata"),
            (self.send_stamps == SendStamps::Completion, "completion TX stamps"),
            (self.send_stamps == SendStamps::Hardware, "hardware TX stamps"),
            (self.launch_time, "launch time"),
        ] {
            if has {
                write!(f, ", {what}")?;
            }
        }
        if let Some(why) = self.no_hardware_stamps {
            write!(f, ", no hardware receive stamps: {why}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_a_power_of_two() {
        let options = |receive_frames, send_frames| XdpOptions { receive_frames, send_frames, ..Default::default() };
        let rooms = |options: XdpOptions| {
            let shares = options.shares(1, 1);
            (shares.receive_chunks, shares.send_chunks)
        };
        assert_eq!(rooms(options(0, 0)), (256, 64));
        assert_eq!(rooms(options(1, 100)), (1, 128));
        assert_eq!(rooms(options(u32::MAX, 1 << 31)), (MAX_FRAMES, MAX_FRAMES));
        let shares = options(1024, 64).shares(300, 3);
        assert_eq!((shares.receive_chunks, shares.send_chunks), (128, 64));
        assert!(shares.received() <= MAX_FRAMES);
    }
}
