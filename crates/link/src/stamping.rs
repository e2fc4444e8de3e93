//! Stamps that a network card takes itself: what a device offers, and switching them on.

use std::ffi::c_int;

use nix::errno::Errno;

use crate::error::{InterfaceName, LinkError};
use crate::interface;
use crate::socket::CAP_NET_ADMIN;

/// `ETHTOOL_GET_TS_INFO` of linux/ethtool.h.
const GET_TS_INFO: u32 = 0x41;
const SIOCETHTOOL: u32 = 0x8946;
const SIOCGHWTSTAMP: u32 = 0x89B1;

/// Which stamps the driver of an interface can take (`ethtool -T`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamping {
    /// Of frames that leave, in the driver.
    pub transmit_software: bool,
    /// Of frames that arrive, on entry into the stack.
    pub receive_software: bool,
    /// Of frames that leave, in the network card.
    pub transmit_hardware: bool,
    /// Of *all* frames that arrive, in the network card. Many cards stamp PTP frames alone: those do not count.
    pub receive_hardware: bool,
    /// Number N of the card's clock `/dev/ptpN`.
    pub clock: Option<u32>,
}

/// `struct ethtool_ts_info`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Info {
    command: u32,
    so_timestamping: u32,
    phc_index: i32,
    tx_types: u32,
    tx_reserved: [u32; 3],
    rx_filters: u32,
    rx_reserved: [u32; 3],
}

impl Stamping {
    fn new(info: &Info) -> Self {
        let can = |flags: u32| info.so_timestamping & flags == flags;
        let raw = libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        Self {
            transmit_software: can(libc::SOF_TIMESTAMPING_TX_SOFTWARE),
            receive_software: can(libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE),
            transmit_hardware: can(libc::SOF_TIMESTAMPING_TX_HARDWARE | raw)
                && info.tx_types & 1 << libc::HWTSTAMP_TX_ON != 0,
            receive_hardware: can(libc::SOF_TIMESTAMPING_RX_HARDWARE | raw)
                && info.rx_filters & 1 << libc::HWTSTAMP_FILTER_ALL != 0,
            clock: u32::try_from(info.phc_index).ok(),
        }
    }
}

/// Asks the driver of an interface which stamps it can take.
///
/// # Errors
/// There is none of this name.
pub fn stamping(name: &str) -> Result<Stamping, LinkError> {
    let mut info = Info { command: GET_TS_INFO, ..Info::default() };
    let mut request = interface::request(name)?;
    request.ifr_ifru.ifru_data = (&raw mut info).cast();
    interface::ioctl(&mut request, SIOCETHTOOL as _)
        .map_err(|errno| LinkError::of(errno, "ETHTOOL_GET_TS_INFO", "", InterfaceName::new(name)))?;
    Ok(Stamping::new(&info))
}

/// What the network card stamps: a setting of the device, the same for all programs (`SIOCGHWTSTAMP`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StampSetting {
    /// Of frames that leave (`hwtstamp_tx_types`).
    pub transmit: i32,
    /// Of frames that arrive (`hwtstamp_rx_filters`).
    pub receive: i32,
}

/// Reads what the network card stamps; none where its driver does not tell.
///
/// # Errors
/// There is no such interface, or the kernel's.
pub fn stamp_setting(name: &str) -> Result<Option<StampSetting>, LinkError> {
    let mut config = libc::hwtstamp_config { flags: 0, tx_type: 0, rx_filter: 0 };
    match configure(name, &mut config, SIOCGHWTSTAMP) {
        Ok(()) => Ok(Some(StampSetting { transmit: config.tx_type, receive: config.rx_filter })),
        Err(Errno::EOPNOTSUPP) => Ok(None),
        Err(errno) => Err(LinkError::of(errno, "SIOCGHWTSTAMP", CAP_NET_ADMIN, InterfaceName::new(name))),
    }
}

/// Sets what the network card stamps, as [`stamp_setting`] has read it. A driver may set more.
///
/// # Errors
/// `CAP_NET_ADMIN` is missing, there is no such interface, or the driver refuses.
pub fn set_stamp_setting(name: &str, setting: StampSetting) -> Result<(), LinkError> {
    let StampSetting { transmit: tx_type, receive: rx_filter } = setting;
    let mut config = libc::hwtstamp_config { flags: 0, tx_type, rx_filter };
    configure(name, &mut config, libc::SIOCSHWTSTAMP as u32)
        .map_err(|errno| LinkError::of(errno, "SIOCSHWTSTAMP", CAP_NET_ADMIN, InterfaceName::new(name)))
}

/// Makes the network card stamp all frames, those that arrive and those that leave and ask for it.
///
/// # Errors
/// [`LinkError::Unsupported`] where it does not; `CAP_NET_ADMIN` is missing, or the kernel's.
pub fn stamp_all(name: &str) -> Result<(), LinkError> {
    stamp_all_received(name)?;
    stamp_all_sent(name)
}

/// Makes the network card stamp every frame that arrives. The setting is the device's and stays: other programs may
/// rely on it meanwhile. What is set for frames that leave is kept.
pub(crate) fn stamp_all_received(name: &str) -> Result<(), LinkError> {
    let can = stamping(name)?.receive_hardware;
    let filter = libc::HWTSTAMP_FILTER_ALL as c_int;
    let done = |config: &libc::hwtstamp_config| stamps_all(config.rx_filter);
    switch_on(name, can, "hardware stamps of all received frames", done, |config| config.rx_filter = filter)
}

/// Makes the network card stamp the frames that leave and ask for it; the rest as [`stamp_all_received`].
pub(crate) fn stamp_all_sent(name: &str) -> Result<(), LinkError> {
    let can = stamping(name)?.transmit_hardware;
    let on = libc::HWTSTAMP_TX_ON as c_int;
    // One-step cards stamp other frames than PTP's as others do.
    let done = |config: &libc::hwtstamp_config| config.tx_type >= on;
    switch_on(name, can, "hardware stamps of sent frames", done, |config| config.tx_type = on)
}

/// Changes the device's setting by `change` unless it is `done` already.
fn switch_on(
    name: &str,
    can: bool,
    what: &'static str,
    done: impl Fn(&libc::hwtstamp_config) -> bool,
    change: impl Fn(&mut libc::hwtstamp_config),
) -> Result<(), LinkError> {
    let interface = InterfaceName::new(name);
    let mend = "`ethtool -T` shows what it can; ask for software stamps";
    let unsupported = LinkError::Unsupported { interface, what, mend };
    if !can {
        return Err(unsupported);
    }
    let mut config = libc::hwtstamp_config { flags: 0, tx_type: 0, rx_filter: 0 };
    // A driver that cannot tell its setting is set as if nothing were.
    match configure(name, &mut config, SIOCGHWTSTAMP) {
        Ok(()) if done(&config) => return Ok(()),
        Ok(()) | Err(Errno::EOPNOTSUPP) => {}
        Err(errno) => return Err(LinkError::of(errno, "SIOCGHWTSTAMP", CAP_NET_ADMIN, interface)),
    }
    change(&mut config);
    match configure(name, &mut config, libc::SIOCSHWTSTAMP as u32) {
        // The driver writes back what it has really set.
        Ok(()) if done(&config) => Ok(()),
        Ok(()) | Err(Errno::EOPNOTSUPP | Errno::ERANGE) => Err(unsupported),
        Err(errno) => Err(LinkError::of(errno, "SIOCSHWTSTAMP", CAP_NET_ADMIN, interface)),
    }
}

/// "Some" is what was asked for and more.
const fn stamps_all(filter: c_int) -> bool {
    filter == libc::HWTSTAMP_FILTER_ALL as c_int || filter == libc::HWTSTAMP_FILTER_SOME as c_int
}

fn configure(name: &str, config: &mut libc::hwtstamp_config, call: u32) -> Result<(), Errno> {
    let mut request = interface::request(name).map_err(|error| Errno::from_raw(error.errno()))?;
    request.ifr_ifru.ifru_data = std::ptr::from_mut(config).cast();
    interface::ioctl(&mut request, call as _)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HARDWARE: u32 =
        libc::SOF_TIMESTAMPING_TX_HARDWARE | libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;

    #[test]
    fn only_stamps_of_all_frames_count() {
        let mut info = Info { so_timestamping: HARDWARE, phc_index: 2, tx_types: 0b11, ..Info::default() };
        info.rx_filters = 1 << libc::HWTSTAMP_FILTER_NONE | 1 << libc::HWTSTAMP_FILTER_PTP_V2_EVENT;
        let ptp_only = Stamping::new(&info);
        assert_eq!((ptp_only.transmit_hardware, ptp_only.receive_hardware, ptp_only.clock), (true, false, Some(2)));
        info.rx_filters |= 1 << libc::HWTSTAMP_FILTER_ALL;
        assert!(Stamping::new(&info).receive_hardware);
        info.tx_types = 1;
        info.phc_index = -1;
        let no_clock = Stamping::new(&info);
        assert_eq!((no_clock.transmit_hardware, no_clock.clock), (false, None));
        assert!(!no_clock.transmit_software && !no_clock.receive_software);
    }

    #[test]
    fn the_loopback_interface_has_software_stamps_only() {
        let loopback = stamping("lo").unwrap();
        assert!(loopback.receive_software, "{loopback:?}");
        assert_eq!((loopback.receive_hardware, loopback.clock), (false, None));
        for refused in [stamp_all_received("lo").unwrap_err(), stamp_all_sent("lo").unwrap_err()] {
            assert!(matches!(refused, LinkError::Unsupported { .. }), "{refused:?}");
            assert!(refused.to_string().contains("ethtool -T"), "{refused}");
        }
        assert!(matches!(stamp_all("lo"), Err(LinkError::Unsupported { .. })));
        assert_eq!(stamp_setting("lo").unwrap(), None);
        let nothing = StampSetting { transmit: 0, receive: 0 };
        assert!(set_stamp_setting("lo", nothing).unwrap_err().to_string().contains("SIOCSHWTSTAMP"));
        assert!(matches!(stamp_setting("no-such"), Err(LinkError::NoSuchInterface { .. })));
        assert!(matches!(stamping("no-such"), Err(LinkError::NoSuchInterface { .. })));
    }
}
