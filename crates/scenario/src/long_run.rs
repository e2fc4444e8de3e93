//! What a class that Linux shapes itself gets in the long run: less than its idleSlope, as credit is whole bytes.
//!
//! `sch_cbs` forgets the rest of a byte at each look while credit is below 0: at the end of each frame of other classes, at
//! least m/C apart, in which q = ⌊I·m/C⌋ bytes are counted, so that at least ρ = q/(q + 1) of what was earned is kept; once at
//! the end of an own frame and once when there is enough (2 bytes a frame), and once for each frame that comes, of which there
//! are L_max/L_min a frame at most. With I the idleSlope, C the line, u what is not counted of a frame (p − ℓ), r_H what
//! classes above take,
//!
//! > R = ρ·I·g·(C − r_H)/C, s = u·(1 − I/C) − 2 bytes − L_max/L_min bytes, g = L/(L − s), L = L_max (L_min for a negative s)
//!
//! of the line is sure. Why, says `calculus::linux_cbs`, whose bound is made of the same numbers.

use units::{FrameSize, Nanos, Rate};

use crate::model::{PortId, Scenario, TrafficKind};

/// Bits of a byte a second, in nanoseconds.
const BYTES_A_SECOND: u128 = 8 * 1_000_000_000;
const KBIT: u64 = 1_000;

/// A class that Linux shapes itself, at one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongRun {
    line: Rate,
    /// Line time of the shortest frame of other classes; none where there are none.
    pub between: Option<Nanos>,
    /// Bytes on the line of its longest frame and of its shortest.
    longest: u32,
    shortest: u32,
    /// Bytes that are not counted, of the frame of which most is.
    uncounted: u32,
    /// Bits a second of the line that its frames need, rounded up.
    pub arriving: u64,
    /// Bits a second of the line that classes above may take, rounded up.
    above: u64,
}

/// Two whole numbers, one over the other.
pub type Ratio = [u128; 2];

impl LongRun {
    /// Whole bytes that are earned between two looks at the ends of frames of others; none where there are no others.
    pub fn earned(&self, idle_slope: Rate) -> Option<u128> {
        self.between.map(|apart| u128::from(idle_slope.0) * apart.0 as u128 / BYTES_A_SECOND)
    }

    /// ρ: the part of the credit that is kept beside frames of others.
    pub fn kept(&self, idle_slope: Rate) -> Ratio {
        self.earned(idle_slope).map_or([1, 1], |bytes| [bytes, bytes + 1])
    }

    /// g: bits of the line for a bit of credit that is kept.
    pub fn gain(&self, idle_slope: Rate) -> Ratio {
        let looks = self.per_frame(2) + self.line_scale() * u128::from(self.longest) / u128::from(self.shortest);
        self.gain_after(idle_slope, looks)
    }

    /// Bytes a frame, in the unit in which s is a whole number.
    fn per_frame(&self, bytes: u32) -> u128 {
        u128::from(bytes) * self.line_scale()
    }

    fn line_scale(&self) -> u128 {
        u128::from(self.line.0) * u128::from(self.shortest)
    }

    /// The gain where `forgotten` is lost of each frame.
    fn gain_after(&self, idle_slope: Rate, forgotten: u128) -> Ratio {
        let left = u128::from(self.line.0.saturating_sub(idle_slope.0));
        let won = u128::from(self.uncounted) * left * u128::from(self.shortest);
        // A negative s weighs most on the shortest frame.
        let size = self.per_frame(if forgotten > won { self.shortest } else { self.longest });
        [size, size + forgotten - won]
    }

    /// Whether R is less than what arrives, and would not be if nothing were forgotten.
    pub fn loses(&self, idle_slope: Rate) -> bool {
        let unforgotten = self.is_enough(idle_slope, [1, 1], self.gain_after(idle_slope, 0));
        unforgotten && !self.is_enough(idle_slope, self.kept(idle_slope), self.gain(idle_slope))
    }

    /// The lowest idleSlope for which R is enough, in whole kbit/s; none up to the line's rate.
    pub fn enough(&self) -> Option<Rate> {
        let rate = |kbit: u64| Rate(kbit * KBIT);
        let is_enough = |slope: Rate| self.is_enough(slope, self.kept(slope), self.gain(slope));
        // R rises with the slope.
        let (mut low, mut high) = (0, self.line.0 / KBIT);
        if !is_enough(rate(high)) {
            return None;
        }
        while high - low > 1 {
            let middle = low.midpoint(high);
            *(if is_enough(rate(middle)) { &mut high } else { &mut low }) = middle;
        }
        Some(rate(high))
    }

    /// Whether R by these is as much as arrives.
    fn is_enough(&self, idle_slope: Rate, kept: Ratio, gain: Ratio) -> bool {
        let (line, idle) = (u128::from(self.line.0), u128::from(idle_slope.0));
        let left = line.saturating_sub(self.above.into());
        let needed = [u128::from(self.arriving) * line, left];
        left > 0 && self.arriving <= self.line.0 && at_least([idle * kept[0] * gain[0], kept[1] * gain[1]], needed)
    }
}

/// Whether a/b ≥ c/d; neither b nor d is zero.
fn at_least([mut a, mut b]: Ratio, [mut c, mut d]: Ratio) -> bool {
    loop {
        let wholes = [a / b, c / d];
        let rests = [a % b, c % d];
        match (wholes[0] == wholes[1], rests) {
            (false, _) => return wholes[0] > wholes[1],
            (true, [_, 0]) => return true,
            (true, [0, _]) => return false,
            // r/b ≥ s/d where d/s ≥ b/r.
            (true, [r, s]) => ([a, b], [c, d]) = ([d, s], [b, r]),
        }
    }
}

/// Frames of one size that pass a port.
struct Passing {
    class: u8,
    frame: FrameSize,
    /// The shortest of them on the line, in bytes.
    shortest: u32,
    /// Bits a second of the line, rounded up; none where nothing limits them.
    rate: Option<u64>,
}

impl Scenario {
    /// The long run of a class that Linux shapes itself, without gates, at a port. None where another does, where the class
    /// has no frames, and where nothing limits these or those of classes above.
    pub fn long_run(&self, port: PortId, class: u8) -> Option<LongRun> {
        let credits = self.linux_credits(port);
        credits.get(usize::from(class))?.as_ref()?;
        if self.port(port).queue.is_gated() {
            return None;
        }
        let passing = self.passing(port);
        let of = |class: u8| passing.iter().filter(move |it| it.class == class);
        let line = self.port_rate(port);
        let counted = self.counted(port, class);
        let sizes = || of(class).map(|it| it.frame.physical_bytes());
        let shortest_other = passing.iter().filter(|it| it.class != class).map(|it| it.shortest).min();
        let mut above = 0_u64;
        for higher in class.saturating_add(1)..8 {
            above = above.saturating_add(match credits.get(usize::from(higher)).copied().flatten() {
                _ if of(higher).next().is_none() => 0,
                // Of frames that count for ℓ bytes it may send p/(ℓ − 1) of its slope.
                Some(credits) => {
                    let slope = credits.idle_slope_kbit.unsigned_abs() * KBIT;
                    let counted = self.counted(port, higher);
                    let taken = |it: &Passing| {
                        (slope * u64::from(it.frame.physical_bytes()))
                            .div_ceil(u64::from(counted.bytes(it.frame)).saturating_sub(1).max(1))
                    };
                    of(higher).map(taken).max().unwrap_or(0)
                }
                None => match self.port(port).queue.cbs(higher) {
                    Some(cbs) => cbs.idle_slope.0,
                    None => of(higher).map(|it| it.rate).sum::<Option<u64>>()?,
                },
            });
        }
        Some(LongRun {
            line,
            // The kernel's clock counts nanoseconds.
            between: shortest_other
                .map(|bytes| Nanos((BYTES_A_SECOND * u128::from(bytes) / u128::from(line.0.max(1))) as i64)),
            longest: sizes().max()?,
            shortest: sizes().min()?,
            uncounted: of(class).map(|it| it.frame.physical_bytes() - counted.bytes(it.frame)).min()?,
            arriving: of(class).map(|it| it.rate).sum::<Option<u64>>()?,
            above,
        })
    }

    /// Frames of streams, of their answers, of traffic and its acknowledgements.
    fn passing(&self, port: PortId) -> Vec<Passing> {
        let class = |pcp: u8| self.port(port).queue.class_of(pcp);
        let mut passing = Vec::new();
        for stream in &self.streams {
            let back = stream.echo && stream.return_path.contains(&port);
            let frame = stream.frame();
            let rate = (u128::from(frame.physical_bytes()) * BYTES_A_SECOND).div_ceil(stream.cycle.0.max(1) as u128);
            for _ in 0..usize::from(stream.path.contains(&port)) + usize::from(back) {
                passing.push(Passing {
                    class: class(stream.pcp),
                    frame,
                    shortest: frame.physical_bytes(),
                    rate: u64::try_from(rate).ok(),
                });
            }
        }
        for traffic in &self.traffic {
            let (class, frame) = (class(traffic.pcp), traffic.frame());
            let there = traffic.path.contains(&port);
            match traffic.kind {
                TrafficKind::Udp if there => {
                    let bits = |rate: Rate| u128::from(frame.physical_bytes()) * u128::from(rate.0);
                    let rate = traffic.rate.map(|rate| bits(rate).div_ceil(u128::from(traffic.payload_bytes.max(1))));
                    let rate = rate.and_then(|rate| u64::try_from(rate).ok());
                    passing.push(Passing { class, frame, shortest: frame.physical_bytes(), rate });
                }
                TrafficKind::Tcp if there || traffic.path.contains(&PortId(port.0 ^ 1)) => {
                    // Frames of any length, acknowledgements among them.
                    let shortest = FrameSize::untagged(0).physical_bytes();
                    passing.push(Passing { class, frame, shortest, rate: None });
                }
                TrafficKind::Udp | TrafficKind::Tcp => {}
            }
        }
        passing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The papers' smallest frame every 250 µs at 1 Gbit/s, beside frames of `other` bytes.
    fn small(other: Option<u32>) -> LongRun {
        LongRun {
            line: Rate::from_gbit(1),
            between: other.map(|bytes| Nanos(i64::from(bytes) * 8)),
            longest: 101,
            shortest: 101,
            uncounted: 24,
            arriving: 3_232_000,
            above: 0,
        }
    }

    #[test]
    fn fractions_are_compared_exactly() {
        for (left, right, expected) in [
            ([1, 3], [1, 3], true),
            ([1, 3], [333_333, 1_000_000], true),
            ([333_333, 1_000_000], [1, 3], false),
            ([u128::MAX, 3], [u128::MAX - 1, 3], true),
            ([u128::MAX - 1, u128::MAX], [1, 1], false),
            ([0, 5], [0, 7], true),
        ] {
            assert_eq!(at_least(left, right), expected, "{left:?} {right:?}");
        }
    }

    #[test]
    fn the_rest_of_a_byte_decides() {
        // 80 % of the line is 105 % of what is counted: 3.97 bytes are earned in 12.304 µs, 3 of 4 are sure.
        let slope = Rate(2_586_000);
        assert_eq!((small(Some(1_538)).earned(slope), small(Some(1_538)).kept(slope)), (Some(3), [3, 4]));
        assert!(small(Some(1_538)).loses(slope));
        assert!(!small(None).loses(slope), "nobody looks in between");
        assert!(!small(Some(1_538)).loses(Rate(3_232_000)), "4.97 bytes");
        assert!(small(Some(84)).loses(Rate(3_232_000)), "0.27 bytes");
        assert!(!small(Some(84)).loses(Rate(2_463_000)), "less than its frames count, forgotten or not");
        for other in [Some(84), Some(101), Some(1_538), None] {
            let enough = small(other).enough().unwrap();
            assert!(!small(other).loses(enough), "{other:?}: {enough}");
            assert!(small(other).loses(Rate(enough.0 - KBIT)), "{other:?}: {enough}");
        }
    }

    #[test]
    fn what_classes_above_take_is_missing() {
        let beside = |above| LongRun { above, ..small(Some(1_538)) };
        let slope = Rate(3_232_000);
        assert!(!beside(0).loses(slope) && beside(100_000_000).loses(slope));
        assert!(!beside(1_000_000_000).loses(slope), "that is another reason");
        assert_eq!(beside(1_000_000_000).enough(), None);
    }
}
