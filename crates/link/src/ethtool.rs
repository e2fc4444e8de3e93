//! Settings of a driver that `ethtool` shows: VLAN offload and queues.

use nix::errno::Errno;

use crate::error::{InterfaceName, LinkError};
use crate::interface;
use crate::socket::CAP_NET_ADMIN;

// Commands and flags of linux/ethtool.h.
const GFLAGS: u32 = 0x25;
const SFLAGS: u32 = 0x26;
const GCHANNELS: u32 = 0x3C;
const FLAG_TXVLAN: u32 = 1 << 7;
const FLAG_RXVLAN: u32 = 1 << 8;
const SIOCETHTOOL: u32 = 0x8946;

/// Whether a driver keeps VLAN tags beside the frame instead of in it (`ethtool -k`, "rx-vlan-offload" and
/// "tx-vlan-offload"). A tag kept beside the frame is invisible to XDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VlanOffload {
    /// Tags of frames that are sent are put in by the driver.
    pub transmit: bool,
    /// Tags of frames that arrive are taken out by the driver.
    pub receive: bool,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Channels {
    command: u32,
    /// Greatest numbers of receive, transmit, other and combined queues.
    maximum: [u32; 4],
    /// Queues in use, in the same order.
    count: [u32; 4],
}

/// The VLAN offload of an interface.
///
/// # Errors
/// There is none of this name, or its driver cannot say (`EOPNOTSUPP`).
pub fn vlan_offload(name: &str) -> Result<VlanOffload, LinkError> {
    let flags = flags(name)?;
    Ok(VlanOffload { transmit: flags & FLAG_TXVLAN != 0, receive: flags & FLAG_RXVLAN != 0 })
}

/// Switches the VLAN offload of an interface on or off, for both directions; returns what it was before.
///
/// XDP sees a tag only when it stands in the frame. On a network card that receives, switch it off there. On a veth
/// pair the *sending* end decides: behind a Linux bridge, which takes the tag out, switch it off on the bridge's port.
///
/// # Errors
/// There is none of this name; `CAP_NET_ADMIN` is missing; or the driver has it fixed ([`LinkError::Unsupported`]).
pub fn set_vlan_offload(name: &str, on: bool) -> Result<VlanOffload, LinkError> {
    let before = flags(name)?;
    let both = FLAG_TXVLAN | FLAG_RXVLAN;
    let data = if on { before | both } else { before & !both };
    request(name, &mut Value { command: SFLAGS, data }, "ETHTOOL_SFLAGS")?;
    // The kernel leaves alone what it cannot change, without an error.
    if flags(name)? & both != data & both {
        return Err(LinkError::Unsupported {
            interface: InterfaceName::new(name),
            what: "switching VLAN offload",
            mend: "`ethtool -k` shows it as [fixed]; use a packet socket, which sees the tag either way",
        });
    }
    Ok(VlanOffload { transmit: before & FLAG_TXVLAN != 0, receive: before & FLAG_RXVLAN != 0 })
}

/// How many receive queues an interface uses; none when its driver does not say.
///
/// # Errors
/// There is none of this name.
pub fn receive_queues(name: &str) -> Result<Option<u32>, LinkError> {
    let mut channels = Channels { command: GCHANNELS, ..Channels::default() };
    match request(name, &mut channels, "ETHTOOL_GCHANNELS") {
        Ok(()) => {
            let [receive, _, _, combined] = channels.count;
            Ok(Some(receive + combined).filter(|count| *count > 0))
        }
        Err(LinkError::System { errno: Errno::EOPNOTSUPP, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn flags(name: &str) -> Result<u32, LinkError> {
    let mut value = Value { command: GFLAGS, data: 0 };
    request(name, &mut value, "ETHTOOL_GFLAGS")?;
    Ok(value.data)
}

/// `T` is the structure of the command it begins with.
fn request<T: Copy>(name: &str, command: &mut T, call: &'static str) -> Result<(), LinkError> {
    let mut request = interface::request(name)?;
    request.ifr_ifru.ifru_data = std::ptr::from_mut(command).cast();
    interface::ioctl(&mut request, SIOCETHTOOL as _)
        .map_err(|errno| LinkError::of(errno, call, CAP_NET_ADMIN, InterfaceName::new(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_interface_is_said() {
        let expected = LinkError::NoSuchInterface { interface: InterfaceName::new("no-such") };
        assert_eq!(vlan_offload("no-such"), Err(expected));
        assert_eq!(set_vlan_offload("no-such", true), Err(expected));
        assert_eq!(receive_queues("no-such"), Err(expected));
        assert_eq!(receive_queues("lo"), Ok(None));
    }
}
