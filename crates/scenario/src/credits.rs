//! What Linux is told of a credit-based shaper: slopes and credits of `tc … cbs`.

use units::{FrameSize, Rate};

use crate::model::{PortId, Scenario, Stream};
use crate::queue::Cbs;

/// The longest frame that anybody may send on a line: 1500 B of payload, tagged, with FCS, preamble and gap.
pub const LONGEST_FRAME_BYTES: u32 = FrameSize::tagged(units::MAX_PAYLOAD_BYTES).physical_bytes();

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

impl Scenario {
    /// What Linux is told of the class's shaper at a port, by class, where the interface tells `speed`; nothing for a class
    /// without one.
    pub fn credits(&self, port: PortId, speed: Rate) -> Vec<Option<Credits>> {
        let queue = &self.port(port).queue;
        let classes = queue.classes().map_or(1, |classes| classes.shapers.len() as u8);
        let shaped: Vec<(u8, &Cbs)> = (0..classes).rev().filter_map(|class| Some((class, queue.cbs(class)?))).collect();
        let reservation = |(class, cbs): &(u8, &Cbs)| Reservation {
            idle_slope: cbs.idle_slope,
            // The longest of all where nothing is known of the class.
            longest_frame_bytes: self.longest_frame(port, *class).unwrap_or(LONGEST_FRAME_BYTES),
        };
        let reservations: Vec<Reservation> = shaped.iter().map(reservation).collect();
        let mut all = vec![None; usize::from(classes)];
        for ((class, _), credits) in shaped.iter().zip(credits(speed, &reservations, LONGEST_FRAME_BYTES)) {
            all[usize::from(*class)] = Some(credits);
        }
        all
    }

    /// The same for the classes that the Linux kernel itself shapes, a frame at a time, and counts in its own way: neither
    /// a NIC nor a switch does.
    pub fn linux_credits(&self, port: PortId) -> Vec<Option<Credits>> {
        let at = self.port(port);
        let software = |class: usize| !at.queue.counted(class as u8, &self.host(at.host).kind).is_hardware();
        let all = self.credits(port, self.port_rate(port));
        all.into_iter().enumerate().map(|(class, credits)| credits.filter(|_| software(class))).collect()
    }

    /// Physical bytes of the longest known frame of a class at a port.
    fn longest_frame(&self, port: PortId, class: u8) -> Option<u32> {
        let of_class = |pcp: u8| self.port(port).queue.class_of(pcp) == class;
        let passes =
            |stream: &&Stream| stream.path.contains(&port) || (stream.echo && stream.return_path.contains(&port));
        let streams = self.streams.iter().filter(passes).filter(|stream| of_class(stream.pcp)).map(Stream::frame);
        let traffic = self.traffic.iter().filter(|traffic| traffic.path.contains(&port) && of_class(traffic.pcp));
        streams.chain(traffic.map(|traffic| traffic.frame())).map(FrameSize::physical_bytes).max()
    }
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
}
