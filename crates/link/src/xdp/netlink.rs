//! Two questions over netlink: which XDP programme an interface has, and what its driver can do for AF_XDP.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use nix::sys::time::TimeVal;

const HEADER_BYTES: usize = 16;
const ATTRIBUTE_BYTES: usize = 4;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
/// Kind bits that say how an attribute is stored, not which it is.
const ATTRIBUTE_KIND: u16 = 0x3FFF;

const RTM_GETLINK: u16 = 18;
const INTERFACE_INFO_BYTES: usize = 16;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_XDP: u16 = 43;
/// Programme numbers: of whatever is attached, in the driver, generic, in the hardware.
const IFLA_XDP_IDS: [u16; 4] = [4, 5, 6, 7];

const GENERIC_HEADER_BYTES: usize = 4;
const CONTROL_FAMILY: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_A_DEV_XDP_RX_METADATA_FEATURES: u16 = 5;
const NETDEV_A_DEV_XSK_FEATURES: u16 = 6;
const XDP_FEATURE_ZERO_COPY: u64 = 8;
const RX_METADATA_TIMESTAMP: u64 = 1;
const XSK_FEATURE_TX_TIMESTAMP: u64 = 1;
const XSK_FEATURE_TX_LAUNCH_TIME_FIFO: u64 = 4;

/// What an interface has, whoever attached it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Interface {
    /// Number of the XDP programme attached; none when there is none.
    pub(super) programme: Option<u32>,
    /// Receive queues it was made with.
    pub(super) rx_queues: Option<u32>,
}

/// What the driver says it can do (`Documentation/netlink/specs/netdev.yaml`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Features {
    pub(super) zero_copy: bool,
    /// Hands the programme the card's stamps of received frames.
    pub(super) rx_stamps: bool,
    pub(super) tx_stamps: bool,
    pub(super) launch_time: bool,
}

/// Asks about interface `index`.
pub(super) fn interface(index: u32) -> Result<Interface, Errno> {
    let mut body = [0; INTERFACE_INFO_BYTES];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    let answer = ask(SockProtocol::NetlinkRoute, RTM_GETLINK, &body)?;
    Ok(read_interface(&answer))
}

fn read_interface(answer: &[u8]) -> Interface {
    let mut found = Interface::default();
    for (kind, value) in attributes(answer.get(INTERFACE_INFO_BYTES..).unwrap_or_default()) {
        match kind {
            IFLA_NUM_RX_QUEUES => found.rx_queues = u32_of(value),
            IFLA_XDP => {
                let ids = attributes(value).filter(|(kind, _)| IFLA_XDP_IDS.contains(kind));
                found.programme = ids.filter_map(|(_, id)| u32_of(id)).find(|id| *id != 0);
            }
            _ => {}
        }
    }
    found
}

/// Asks what the driver of interface `index` can do. Kernels before 6.3 cannot say: that is an error.
pub(super) fn features(index: u32) -> Result<Features, Errno> {
    let mut name = vec![CTRL_CMD_GETFAMILY, 1, 0, 0];
    put(&mut name, CTRL_ATTR_FAMILY_NAME, b"netdev\0");
    let answer = ask(SockProtocol::NetlinkGeneric, CONTROL_FAMILY, &name)?;
    let family = find(&answer, CTRL_ATTR_FAMILY_ID)
        .and_then(|id| Some(u16::from_ne_bytes(id.get(..2)?.try_into().ok()?)))
        .ok_or(Errno::EPROTO)?;
    let mut question = vec![NETDEV_CMD_DEV_GET, 1, 0, 0];
    put(&mut question, NETDEV_A_DEV_IFINDEX, &index.to_ne_bytes());
    let answer = ask(SockProtocol::NetlinkGeneric, family, &question)?;
    Ok(read_features(&answer))
}

fn read_features(answer: &[u8]) -> Features {
    let bits = |kind| find(answer, kind).and_then(u64_of).unwrap_or(0);
    let (xdp, xsk) = (bits(NETDEV_A_DEV_XDP_FEATURES), bits(NETDEV_A_DEV_XSK_FEATURES));
    Features {
        zero_copy: xdp & XDP_FEATURE_ZERO_COPY != 0,
        rx_stamps: bits(NETDEV_A_DEV_XDP_RX_METADATA_FEATURES) & RX_METADATA_TIMESTAMP != 0,
        tx_stamps: xsk & XSK_FEATURE_TX_TIMESTAMP != 0,
        launch_time: xsk & XSK_FEATURE_TX_LAUNCH_TIME_FIFO != 0,
    }
}

/// An attribute of a generic answer.
fn find(answer: &[u8], wanted: u16) -> Option<&[u8]> {
    let body = answer.get(GENERIC_HEADER_BYTES..)?;
    attributes(body).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

fn put(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend(((ATTRIBUTE_BYTES + value.len()) as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// Kinds and values; ends at the first that is cut.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let [l0, l1, k0, k1] = *bytes.first_chunk::<ATTRIBUTE_BYTES>()?;
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = bytes.get(ATTRIBUTE_BYTES..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([k0, k1]) & ATTRIBUTE_KIND, value))
    })
}

fn u32_of(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*value.first_chunk()?))
}

fn u64_of(value: &[u8]) -> Option<u64> {
    Some(u64::from_ne_bytes(*value.first_chunk()?))
}

/// Sends one request and returns the body of its answer.
fn ask(protocol: SockProtocol, kind: u16, body: &[u8]) -> Result<Vec<u8>, Errno> {
    let socket: OwnedFd = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    // The kernel answers within the call that asks; this is for the case that it does not.
    let patience = TimeVal::new(1, 0);
    nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::ReceiveTimeout, &patience)?;
    let mut request = Vec::with_capacity(HEADER_BYTES + body.len());
    request.extend(((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend(NLM_F_REQUEST.to_ne_bytes());
    request.extend([0; 8]);
    request.extend(body);
    send(socket.as_raw_fd(), &request, MsgFlags::empty())?;
    let mut answer = vec![0; 32 << 10];
    let received = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    answer.truncate(received);
    body_of(&answer)
}

fn body_of(answer: &[u8]) -> Result<Vec<u8>, Errno> {
    let length = u32_of(answer).ok_or(Errno::EPROTO)? as usize;
    let body = answer.get(HEADER_BYTES..length).ok_or(Errno::EPROTO)?;
    if u16::from_ne_bytes([answer[4], answer[5]]) == NLMSG_ERROR {
        let errno = body.first_chunk().map_or(libc::EPROTO, |code| i32::from_ne_bytes(*code).wrapping_neg());
        return Err(Errno::from_raw(errno));
    }
    Ok(body.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_known() {
        let index = crate::interface::index("lo").unwrap();
        assert_eq!(interface(index).unwrap().rx_queues, Some(1));
        assert_eq!(interface(u32::MAX >> 1), Err(Errno::ENODEV));
        assert_eq!(features(u32::MAX >> 1).unwrap_err(), Errno::ENODEV);
    }

    #[test]
    fn answers_are_read_and_cut_ones_survived() {
        let mut ids = Vec::new();
        put(&mut ids, 2, &[1]);
        put(&mut ids, 4, &77_u32.to_ne_bytes());
        let mut link = vec![0; INTERFACE_INFO_BYTES];
        put(&mut link, IFLA_NUM_RX_QUEUES, &4_u32.to_ne_bytes());
        put(&mut link, IFLA_XDP | 0x8000, &ids);
        assert_eq!(read_interface(&link), Interface { programme: Some(77), rx_queues: Some(4) });
        let mut device = vec![0; GENERIC_HEADER_BYTES];
        put(&mut device, NETDEV_A_DEV_XDP_FEATURES, &0xF_u64.to_ne_bytes());
        put(&mut device, NETDEV_A_DEV_XDP_RX_METADATA_FEATURES, &3_u64.to_ne_bytes());
        put(&mut device, NETDEV_A_DEV_XSK_FEATURES, &5_u64.to_ne_bytes());
        assert_eq!(
            read_features(&device),
            Features { zero_copy: true, rx_stamps: true, tx_stamps: true, launch_time: true }
        );
        for cut in 0..link.len() {
            read_interface(&link[..cut]);
        }
        for cut in 0..device.len() {
            read_features(&device[..cut]);
            assert_eq!(body_of(&device[..cut.min(3)]), Err(Errno::EPROTO));
        }
        let mut refused = vec![36, 0, 0, 0];
        refused.extend(NLMSG_ERROR.to_ne_bytes());
        refused.extend([0; 10]);
        refused.extend((-libc::ENODEV).to_ne_bytes());
        refused.extend([0; 16]);
        if cfg!(target_endian = "little") {
            assert_eq!(body_of(&refused), Err(Errno::ENODEV));
        }
    }
}
