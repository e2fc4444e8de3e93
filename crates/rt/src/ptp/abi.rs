//! The kernel's structures and calls: `linux/ptp_clock.h`, `linux/ethtool.h`.

use std::ffi::c_char;

use nix::{ioctl_none, ioctl_read, ioctl_readwrite, ioctl_write_ptr};

/// `struct ptp_clock_time`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Time {
    seconds: i64,
    sub_nanos: u32,
    reserved: u32,
}

impl Time {
    pub(super) const fn from_nanos(nanos: i64) -> Self {
        Self {
            seconds: nanos.div_euclid(1_000_000_000),
            sub_nanos: nanos.rem_euclid(1_000_000_000) as u32,
            reserved: 0,
        }
    }

    /// None when it is no instant, or beyond the year 2262.
    pub(super) const fn nanos(&self) -> Option<i64> {
        nanos(self.seconds, self.sub_nanos)
    }
}

/// Seconds and nanoseconds in one; none when they are no instant, or beyond the year 2262.
pub(super) const fn nanos(seconds: i64, nanos: u32) -> Option<i64> {
    match seconds.checked_mul(1_000_000_000) {
        Some(seconds) if nanos < 1_000_000_000 => seconds.checked_add(nanos as i64),
        _ => None,
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

/// `PTP_MAX_SAMPLES`.
const MAX_SAMPLES: usize = 25;
/// Looks that are asked for at a time.
pub(super) const SAMPLES: usize = 16;

/// `struct ptp_sys_offset`: system, device, system, …, system.
#[repr(C)]
pub(super) struct Offset {
    samples: u32,
    reserved: [u32; 3],
    pub(super) times: [Time; 2 * MAX_SAMPLES + 1],
}

impl Offset {
    pub(super) fn asking() -> Self {
        Self { samples: SAMPLES as u32, reserved: [0; 3], times: [Time::default(); 2 * MAX_SAMPLES + 1] }
    }
}

/// `struct ptp_sys_offset_extended`: system, device, system of each look; the system's clock is `CLOCK_REALTIME`.
#[repr(C)]
pub(super) struct OffsetExtended {
    samples: u32,
    clock: i32,
    reserved: [u32; 2],
    pub(super) times: [[Time; 3]; MAX_SAMPLES],
}

impl OffsetExtended {
    pub(super) fn asking() -> Self {
        Self { samples: SAMPLES as u32, clock: 0, reserved: [0; 2], times: [[Time::default(); 3]; MAX_SAMPLES] }
    }
}

/// `struct ptp_sys_offset_precise`: both at the same instant.
#[repr(C)]
#[derive(Default)]
pub(super) struct OffsetPrecise {
    pub(super) device: Time,
    pub(super) system: Time,
    monotonic_raw: Time,
    reserved: [u32; 4],
}

const _: () = assert!(size_of::<Time>() == 16);
const _: () = assert!(size_of::<Offset>() == 832);
const _: () = assert!(size_of::<OffsetExtended>() == 1216);
const _: () = assert!(size_of::<OffsetPrecise>() == 64);
const _: () = assert!(size_of::<Capabilities>() == 80);
const _: () = assert!(size_of::<ExternalTimestamps>() == 16);
const _: () = assert!(size_of::<PeriodicOutput>() == 56);
const _: () = assert!(size_of::<Pin>() == 96);

ioctl_read!(get_capabilities, b'=', 1, Capabilities);
ioctl_write_ptr!(request_external_timestamps, b'=', 11, ExternalTimestamps);
ioctl_write_ptr!(request_periodic_output, b'=', 12, PeriodicOutput);
ioctl_write_ptr!(set_pin, b'=', 16, Pin);
ioctl_readwrite!(get_pin, b'=', 15, Pin);
// Coded as if it only read; it writes the times all the same.
nix::ioctl_readwrite_bad!(offset, nix::request_code_write!(b'=', 5, size_of::<Offset>()), Offset);
ioctl_readwrite!(offset_precise, b'=', 8, OffsetPrecise);
ioctl_readwrite!(offset_extended, b'=', 9, OffsetExtended);
// Since Linux 6.7, with a queue for each descriptor.
ioctl_none!(mask_clear_all, b'=', 19);
ioctl_write_ptr!(mask_enable, b'=', 20, u32);

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
