//! What the kernel tells of its interfaces, queueing disciplines and filters while nobody asks: messages of rtnetlink(7).
//!
//! Only what a plan can suffer from is read: which interface, whether it runs, which discipline came or went.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, setsockopt, socket, sockopt,
};

/// One thing that the kernel told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard {
    /// An interface came, or is as told now.
    Link { index: i32, name: String, runs: bool },
    /// An interface is gone.
    LinkGone { index: i32, name: String },
    /// Something about a port of a bridge.
    Port { index: i32 },
    /// A discipline is there: new, replaced or changed.
    Discipline { index: i32, parent: u32, kind: String },
    /// A discipline is gone.
    DisciplineGone { index: i32, parent: u32, kind: String },
    /// A filter came or went.
    Filter { index: i32 },
    /// The kernel had more to tell than there was room for.
    Lost,
}

/// `TC_H_ROOT` of `linux/pkt_sched.h`: the parent of a root discipline.
pub(crate) const ROOT: u32 = 0xFFFF_FFFF;

// Kinds of messages, `linux/rtnetlink.h`.
const NEW_LINK: u16 = 16;
const DEL_LINK: u16 = 17;
const NEW_QDISC: u16 = 36;
const DEL_QDISC: u16 = 37;
const NEW_FILTER: u16 = 44;
const DEL_FILTER: u16 = 45;
/// `RTMGRP_LINK | RTMGRP_TC`: interfaces; disciplines and filters.
const GROUPS: u32 = 0x1 | 0x8;
/// `AF_BRIDGE`: what a bridge tells of its ports comes in the words of interfaces.
const OF_A_BRIDGE: u8 = 7;
// Attributes.
const IFLA_IFNAME: u16 = 3;
const TCA_KIND: u16 = 1;
// `linux/if.h`.
const IFF_UP: u32 = 0x1;
const IFF_LOWER_UP: u32 = 0x1_0000;
/// `struct nlmsghdr`, `struct ifinfomsg`, `struct tcmsg`, `struct rtattr`, in bytes.
const HEADER: usize = 16;
const IFINFO: usize = 16;
const TC: usize = 20;
const ATTRIBUTE: usize = 4;
/// Room in the kernel for a burst: a bridge of many ports that comes up.
const BUFFER_BYTES: usize = 1 << 20;

/// A socket that hears them.
#[derive(Debug)]
pub(crate) struct Ear {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Ear {
    /// Hears from now on what happens in the network namespace of this process.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn open() -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
        setsockopt(&socket, sockopt::RcvBuf, &BUFFER_BYTES)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, GROUPS))?;
        Ok(Self { socket, buffer: vec![0; 1 << 16] })
    }

    /// Waits until there is something to hear, or for so long, or until a signal comes.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn wait(&self, longest: Duration) -> io::Result<bool> {
        // poll(2) counts whole milliseconds: rounded up, or the last of them would be spent in asking again and again.
        let whole = Duration::from_millis(u64::try_from(longest.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX));
        let timeout = PollTimeout::try_from(whole).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::EINTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// All that was told since.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn hear(&mut self) -> io::Result<Vec<Heard>> {
        let mut heard = Vec::new();
        loop {
            match recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(bytes) => read(&self.buffer[..bytes], &mut heard),
                Err(Errno::EAGAIN) => return Ok(heard),
                Err(Errno::EINTR) => {}
                Err(Errno::ENOBUFS) => heard.push(Heard::Lost),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    word(bytes, at).map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    word(bytes, at).map(u32::from_ne_bytes)
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    word(bytes, at).map(i32::from_ne_bytes)
}

/// Reads the messages of a datagram; what is cut off or of another kind is passed by.
fn read(mut bytes: &[u8], heard: &mut Vec<Heard>) {
    while let (Some(length), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
        let length = length as usize;
        let Some(body) = bytes.get(HEADER..length) else { return };
        heard.extend(message(kind, body));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
}

fn message(kind: u16, body: &[u8]) -> Option<Heard> {
    let index = i32_at(body, 4)?;
    let text = |first: usize, which: u16| attribute(body.get(first..).unwrap_or_default(), which);
    match kind {
        NEW_LINK | DEL_LINK if *body.first()? == OF_A_BRIDGE => Some(Heard::Port { index }),
        NEW_LINK => {
            let flags = u32_at(body, 8)?;
            let runs = flags & IFF_UP != 0 && flags & IFF_LOWER_UP != 0;
            Some(Heard::Link { index, name: text(IFINFO, IFLA_IFNAME)?, runs })
        }
        DEL_LINK => Some(Heard::LinkGone { index, name: text(IFINFO, IFLA_IFNAME)? }),
        NEW_QDISC => Some(Heard::Discipline { index, parent: u32_at(body, 12)?, kind: text(TC, TCA_KIND)? }),
        DEL_QDISC => Some(Heard::DisciplineGone { index, parent: u32_at(body, 12)?, kind: text(TC, TCA_KIND)? }),
        NEW_FILTER | DEL_FILTER => Some(Heard::Filter { index }),
        _ => None,
    }
}

/// A text among attributes.
fn attribute(mut bytes: &[u8], which: u16) -> Option<String> {
    loop {
        let (length, kind) = (usize::from(u16_at(bytes, 0)?), u16_at(bytes, 2)?);
        let value = bytes.get(ATTRIBUTE..length)?;
        if kind == which {
            let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
            return Some(String::from_utf8_lossy(&value[..end]).into_owned());
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of a kind: body, then attributes.
    fn told(kind: u16, body: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes.extend(body);
        for (which, value) in attributes {
            bytes.extend(((ATTRIBUTE + value.len()) as u16).to_ne_bytes());
            bytes.extend(which.to_ne_bytes());
            bytes.extend(*value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes
    }

    fn link(family: u8, flags: u32) -> [u8; IFINFO] {
        let mut body = [0; IFINFO];
        body[0] = family;
        body[4..8].copy_from_slice(&7i32.to_ne_bytes());
        body[8..12].copy_from_slice(&flags.to_ne_bytes());
        body
    }

    fn tc(parent: u32) -> [u8; TC] {
        let mut body = [0; TC];
        body[4..8].copy_from_slice(&7i32.to_ne_bytes());
        body[12..16].copy_from_slice(&parent.to_ne_bytes());
        body
    }

    #[test]
    fn messages_are_read() {
        let name = || "va".to_owned();
        let mut bytes = told(NEW_LINK, &link(0, IFF_UP | IFF_LOWER_UP), &[(9, &[1; 5]), (IFLA_IFNAME, b"va\0")]);
        bytes.extend(told(NEW_LINK, &link(0, IFF_UP), &[(IFLA_IFNAME, b"va\0")]));
        bytes.extend(told(DEL_LINK, &link(OF_A_BRIDGE, 0), &[(IFLA_IFNAME, b"va\0")]));
        bytes.extend(told(DEL_LINK, &link(0, 0), &[(IFLA_IFNAME, b"va\0")]));
        // A replaced child: both in one datagram.
        bytes.extend(told(DEL_QDISC, &tc(0x0100_0001), &[(TCA_KIND, b"cbs\0")]));
        bytes.extend(told(NEW_QDISC, &tc(0x0100_0001), &[(TCA_KIND, b"pfifo\0")]));
        bytes.extend(told(NEW_FILTER, &tc(0), &[(TCA_KIND, b"flower\0")]));
        // A class, which is nothing to us, and a message that is cut off.
        bytes.extend(told(40, &tc(0), &[]));
        bytes.extend(&told(NEW_QDISC, &tc(ROOT), &[(TCA_KIND, b"taprio\0")])[..30]);
        let mut heard = Vec::new();
        read(&bytes, &mut heard);
        let expected = [
            Heard::Link { index: 7, name: name(), runs: true },
            Heard::Link { index: 7, name: name(), runs: false },
            Heard::Port { index: 7 },
            Heard::LinkGone { index: 7, name: name() },
            Heard::DisciplineGone { index: 7, parent: 0x0100_0001, kind: "cbs".into() },
            Heard::Discipline { index: 7, parent: 0x0100_0001, kind: "pfifo".into() },
            Heard::Filter { index: 7 },
        ];
        assert_eq!(heard, expected);
    }

    #[test]
    fn no_bytes_make_it_fall() {
        let whole = told(NEW_QDISC, &tc(ROOT), &[(TCA_KIND, b"taprio\0")]);
        for end in 0..whole.len() {
            read(&whole[..end], &mut Vec::new());
        }
        for at in 0..whole.len() {
            for value in [0, 1, 3, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                read(&bytes, &mut Vec::new());
            }
        }
    }
}
