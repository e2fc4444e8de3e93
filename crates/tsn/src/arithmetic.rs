//! The numbers that Linux is given, computed exactly and rounded to the safe side.

use units::{FrameSize, Nanos, Rate, Tai};

/// The longest frame that anybody may send on a line: 1500 B of payload, tagged, with FCS, preamble and gap.
pub const LONGEST_FRAME_BYTES: u32 = FrameSize::tagged(units::MAX_PAYLOAD_BYTES).physical_bytes();
/// The shortest interval of a gate schedule holds this much at the speed of the link (`taprio_change` of Linux).
pub const SHORTEST_INTERVAL_BYTES: u32 = 60;
/// What `stab overhead` adds to the length that a qdisc counts: FCS 4, preamble and start delimiter 8, gap 12.
pub const LINE_OVERHEAD_BYTES: u32 = 24;
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

/// What a class reserves of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    /// Physical bits a second.
    pub idle_slope: Rate,
    /// Its longest frame on the line, preamble and gap included.
    pub longest_frame_bytes: u32,
}

/// The four parameters of `tc … cbs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credits {
    /// kbit/s, rounded up.
    pub idle_slope_kbit: i64,
    /// kbit/s: idleSlope less the rate of the port, negative.
    pub send_slope_kbit: i64,
    /// Bytes, rounded up.
    pub hi_credit_bytes: i64,
    /// Bytes, negative, rounded down.
    pub lo_credit_bytes: i64,
}

/// Slopes and credits of the classes of a port that are shaped by credit (802.1Q §8.6.8.2, Annex L), the highest
/// priority first.
///
/// With C the rate of the port, L the longest frame of any other class, and of each class its idleSlope `i` and
/// longest frame `m`:
///
/// - loCredit = ⌊m·(i − C)/C⌋: one frame sent out of an empty account,
/// - hiCredit = ⌈i·(L·C + Σ (C − iₕ)·mₕ) / (C·(C − Σ iₕ))⌉ over the higher classes h: the longest time a frame has to
///   wait. Without a higher class that is ⌈i·L/C⌉, with one it is Annex L's formula for class B.
///
/// A credit that has no bound, because the classes above take the whole port, is the largest that `tc` can say.
pub fn credits(port: Rate, classes: &[Reservation], longest_other_bytes: u32) -> Vec<Credits> {
    let kbit = |bits: i128| bits.div_euclid(1_000) + i128::from(bits.rem_euclid(1_000) != 0);
    let c = i128::from(port.0);
    let (mut taken, mut ahead) = (0_i128, i128::from(longest_other_bytes) * c);
    let mut all = Vec::with_capacity(classes.len());
    for class in classes {
        let (idle, longest) = (i128::from(class.idle_slope.0), i128::from(class.longest_frame_bytes));
        // The slope as Linux is told it, so that the credits fit what it computes with.
        let idle_kbit = kbit(idle);
        let send_kbit = idle_kbit - kbit(c);
        let left = c - taken;
        let hi = if left > 0 {
            let (over, under) = (idle * ahead, c * left);
            over.div_euclid(under) + i128::from(over.rem_euclid(under) != 0)
        } else {
            i128::from(i32::MAX)
        };
        let lo = (longest * (idle - c)).div_euclid(c);
        all.push(Credits {
            idle_slope_kbit: in_tc(idle_kbit),
            send_slope_kbit: in_tc(send_kbit),
            hi_credit_bytes: in_tc(hi),
            lo_credit_bytes: in_tc(lo),
        });
        taken += idle;
        ahead += (c - idle) * longest;
    }
    all
}

/// `tc` keeps these as 32-bit integers.
fn in_tc(value: i128) -> i64 {
    value.clamp(i128::from(i32::MIN), i128::from(i32::MAX)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_page_of_cbs() {
        // 20 frames of 1542 B every 2.5 ms: tc-cbs(8) gives 98688, −901312, 153, and −1389, which is rounded
        // towards zero there; a loCredit that small lets the class catch up too early.
        let [one] = credits(
            Rate::from_gbit(1),
            &[Reservation { idle_slope: Rate(98_688_000), longest_frame_bytes: 1542 }],
            LONGEST_FRAME_BYTES,
        )[..] else {
            panic!("one class")
        };
        assert_eq!((one.idle_slope_kbit, one.send_slope_kbit), (98_688, -901_312));
        assert_eq!((one.hi_credit_bytes, one.lo_credit_bytes), (153, -1390));
    }

    #[test]
    fn class_b_as_annex_l_has_it() {
        let class = |idle_slope, longest_frame_bytes| Reservation { idle_slope, longest_frame_bytes };
        let c = 1e9_f64;
        let (a, b) = (class(Rate::from_mbit(20), 400), class(Rate::from_mbit(100), 1542));
        let both = credits(Rate::from_gbit(1), &[a, b], LONGEST_FRAME_BYTES);
        let hi_a = 20e6 * 1542.0 / c;
        let hi_b = 100e6 * (hi_a / (c - 20e6) + 400.0 / c + 1542.0 / c);
        assert_eq!(both[0].hi_credit_bytes, hi_a.ceil() as i64);
        assert_eq!(both[1].hi_credit_bytes, hi_b.ceil() as i64);
    }

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
