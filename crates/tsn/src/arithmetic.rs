//! The numbers that Linux is given, computed exactly and rounded to the safe side.

use units::{Nanos, Rate, Tai};

pub use scenario::{Credits, LINE_OVERHEAD_BYTES, LONGEST_FRAME_BYTES, Reservation, credits};

/// The shortest interval of a gate schedule holds this much at the speed of the link (`taprio_change` of Linux).
pub const SHORTEST_INTERVAL_BYTES: u32 = 60;
/// What a preempted frame may still send before an express frame begins: 63 B that cannot be cut, and 20 B of
/// preamble and gap behind it; a fragment's last 4 B are a checksum that comes on top (802.3br).
const UNCUT_BYTES: u32 = 63 + 20 - 4;

/// How long `bytes` take at `rate`, rounded up.
///
/// # Panics
/// If the rate is zero; a scenario has none.
pub fn line_time(rate: Rate, bytes: u32) -> Nanos {
    let bits = u128::from(bytes) * 8 * 1_000_000_000;
    Nanos(i64::try_from(bits.div_ceil(u128::from(rate.0))).unwrap_or(i64::MAX))
}

/// The guard band before a protected window: as long as the longest frame that may start just before it.
pub fn guard_band(rate: Rate, longest_frame_bytes: u32) -> Nanos {
    line_time(rate, longest_frame_bytes)
}

/// How many bytes of a preemptable frame an express frame may have to wait for: preamble and gap included.
pub fn express_blocking_bytes(fragment_bytes: u16) -> u32 {
    u32::from(if fragment_bytes == 0 { 64 } else { fragment_bytes }) + UNCUT_BYTES
}

/// The shortest interval of a schedule that Linux takes at this speed.
pub fn shortest_interval(rate: Rate) -> Nanos {
    line_time(rate, SHORTEST_INTERVAL_BYTES)
}

/// The base-time of a schedule shifted along a path: in whole cycles from there, and not negative.
pub fn base_time(base: Tai, shift: Nanos, cycle: Nanos) -> Tai {
    let shifted = base.0.saturating_add(shift.0);
    if shifted >= 0 || cycle <= Nanos::ZERO { Tai(shifted.max(0)) } else { Tai(shifted.rem_euclid(cycle.0)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guard_bands_and_fragments() {
        assert_eq!(LONGEST_FRAME_BYTES, 1542);
        assert_eq!(guard_band(Rate::from_gbit(1), LONGEST_FRAME_BYTES), Nanos(12_336));
        assert_eq!(guard_band(Rate::from_mbit(100), LONGEST_FRAME_BYTES), Nanos(123_360));
        assert_eq!([0, 64, 128, 192, 256].map(express_blocking_bytes), [143, 143, 207, 271, 335]);
        assert_eq!(shortest_interval(Rate::from_gbit(1)), Nanos(480));
        assert_eq!(shortest_interval(Rate::from_mbit(10)), Nanos(48_000));
    }

    #[test]
    fn base_times_stay_positive_and_in_phase() {
        let cycle = Nanos(250_000);
        assert_eq!(base_time(Tai(0), Nanos(-20_000), cycle), Tai(230_000));
        assert_eq!(base_time(Tai(1_000_000_000), Nanos(20_000), cycle), Tai(1_000_020_000));
        assert_eq!(base_time(Tai(100), Nanos(-600_100), cycle), Tai(150_000));
    }
}
