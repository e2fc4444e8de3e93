//! The kernel's structures and calls: `linux/ptp_clock.h`, `linux/ethtool.h`.

use std::ffi::c_char;

use nix::{ioctl_read, ioctl_write_ptr};

/// `struct ptp_clock_time`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Time {
    pub(super) seconds: i64,
    pub(super) nanos: u32,
    reserved: u32,
}

impl Time {
    pub(super) const fn from_nanos(nanos: i64) -> Self {
        Self { seconds: nanos.div_euclid(1_000_000_000), nanos: nanos.rem_euclid(1_000_000_000) as u32, reserved: 0 }
    }
}

/// `struct ptp_clock_caps`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Capabilities {
    pub(super) max_adjustment: i32,
    alarms: i32,
    pub(super) external_timestamps: i32,
    pub(super) periodic_outputs: i32,
    pulse_per_second: i32,
    pub(super) pins: i32,
    rest: [i32; 14],
}

/// `struct ptp_extts_request`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ExternalTimestamps {
    pub(super) index: u32,
    pub(super) flags: u32,
    pub(super) reserved: [u32; 2],
}

/// `PTP_ENABLE_FEATURE`.
pub(super) const ENABLE: u32 = 1 << 0;
/// `PTP_RISING_EDGE`.
pub(super) const RISING: u32 = 1 << 1;
/// `PTP_FALLING_EDGE`.
pub(super) const FALLING: u32 = 1 << 2;
/// `PTP_STRICT_FLAGS`: refuse edges that the hardware cannot tell apart.
pub(super) const STRICT: u32 = 1 << 3;

/// `struct ptp_perout_request`, its unions as they are without flags.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PeriodicOutput {
    pub(super) start: Time,
    pub(super) period: Time,
    pub(super) index: u32,
    pub(super) flags: u32,
    pub(super) reserved: [u32; 4],
}

/// `struct ptp_pin_desc`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Pin {
    pub(super) name: [c_char; 64],
    pub(super) index: u32,
    pub(super) function: u32,
    pub(super) channel: u32,
    pub(super) reserved: [u32; 5],
}

impl Default for Pin {
    fn default() -> Self {
        Self { name: [0; 64], index: 0, function: PIN_NONE, channel: 0, reserved: [0; 5] }
    }
}

/// `PTP_PF_NONE`.
pub(super) const PIN_NONE: u32 = 0;
/// `PTP_PF_EXTTS`.
pub(super) const PIN_EXTERNAL_TIMESTAMPS: u32 = 1;
/// `PTP_PF_PEROUT`.
pub(super) const PIN_PERIODIC_OUTPUT: u32 = 2;

/// `sizeof(struct ptp_extts_event)`.
pub(super) const EVENT_BYTES: usize = 32;

/// Seconds, nanoseconds and channel of a `struct ptp_extts_event`.
pub(super) fn event(bytes: &[u8; EVENT_BYTES]) -> (i64, u32, u32) {
    let number = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    (i64::from_ne_bytes(std::array::from_fn(|byte| bytes[byte])), number(8), number(16))
}

const _: () = assert!(size_of::<Time>() == 16);
const _: () = assert!(size_of::<Capabilities>() == 80);
const _: () = assert!(size_of::<ExternalTimestamps>() == 16);
const _: () = assert!(size_of::<PeriodicOutput>() == 56);
const _: () = assert!(size_of::<Pin>() == 96);

ioctl_read!(get_capabilities, b'=', 1, Capabilities);
ioctl_write_ptr!(request_external_timestamps, b'=', 11, ExternalTimestamps);
ioctl_write_ptr!(request_periodic_output, b'=', 12, PeriodicOutput);
ioctl_write_ptr!(set_pin, b'=', 16, Pin);

/// `struct ethtool_ts_info`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct TimestampingInfo {
    command: u32,
    /// Bits of `SOF_TIMESTAMPING_…`.
    pub(super) so_timestamping: u32,
    /// Below 0: none.
    pub(super) clock_index: i32,
    tx_types: u32,
    tx_reserved: [u32; 3],
    rx_filters: u32,
    rx_reserved: [u32; 3],
}
const _: () = assert!(size_of::<TimestampingInfo>() == 44);

impl TimestampingInfo {
    pub(super) const fn asking() -> Self {
        const ETHTOOL_GET_TS_INFO: u32 = 0x41;
        Self {
            command: ETHTOOL_GET_TS_INFO,
            so_timestamping: 0,
            clock_index: -1,
            tx_types: 0,
            tx_reserved: [0; 3],
            rx_filters: 0,
            rx_reserved: [0; 3],
        }
    }
}

/// `struct ifreq` with a pointer in its union.
#[repr(C)]
#[derive(Debug)]
pub(super) struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    data: *mut TimestampingInfo,
    rest: [usize; 2],
}
const _: () = assert!(size_of::<InterfaceRequest>() == size_of::<libc::ifreq>());

impl InterfaceRequest {
    /// None for a name that is none.
    pub(super) fn new(interface: &str, data: *mut TimestampingInfo) -> Option<Self> {
        let length = interface.len();
        if length == 0 || length >= libc::IFNAMSIZ || interface.contains('\0') {
            return None;
        }
        let mut name = [0; libc::IFNAMSIZ];
        name[..length].copy_from_slice(interface.as_bytes());
        Some(Self { name, data, rest: [0; 2] })
    }
}

nix::ioctl_readwrite_bad!(ethtool, 0x8946, InterfaceRequest);
