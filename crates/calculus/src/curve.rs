//! The min-plus pieces the fluid model needs: concave arrival curves and rate-latency service.
//!
//! A concave curve through zero is a minimum of affine pieces (burst, rate), valid for t > 0. Of such
//! curves the convolution is the minimum, and a sum of minima is the minimum of all sums, so
//! everything stays a short list of pieces.

use num_traits::Zero;

use crate::exact::Exact;

/// Arrival curve: min over (burst in bits, rate in bit/s) of burst + rate·t for t > 0, and 0 at t = 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Curve {
    /// Rates falling, bursts rising: each piece is the lowest somewhere.
    pieces: Vec<(Exact, Exact)>,
}

/// Service of at least rate·(t − latency).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLatency {
    /// Bits per second.
    pub rate: Exact,
    /// Seconds.
    pub latency: Exact,
}

impl Curve {
    /// The curve burst + rate·t.
    pub fn affine(burst: Exact, rate: Exact) -> Self {
        Self { pieces: vec![(burst, rate)] }
    }

    /// The lower of two curves, which is also their convolution.
    #[must_use]
    pub fn min(mut self, other: Self) -> Self {
        self.pieces.extend(other.pieces);
        Self::hull(self.pieces)
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let sums = self.pieces.iter().flat_map(|(b, r)| other.pieces.iter().map(move |(c, s)| (b + c, r + s)));
        Self::hull(sums.collect())
    }

    /// Keeps the pieces that are the lowest for some t ≥ 0.
    fn hull(mut pieces: Vec<(Exact, Exact)>) -> Self {
        pieces.sort_by(|(b, r), (c, s)| s.cmp(r).then_with(|| b.cmp(c)));
        let mut kept: Vec<(Exact, Exact)> = Vec::new();
        for (burst, rate) in pieces {
            if kept.last().is_some_and(|(_, last)| *last == rate) {
                continue;
            }
            while let Some((b, r)) = kept.last() {
                // The lower rate takes over where it becomes lower; the last piece goes when that is not
                // after the point from which it is the lowest itself.
                let from = match kept.len() {
                    1 => Exact::zero(),
                    n => Self::crossing(&kept[n - 2], &kept[n - 1]),
                };
                if (&burst - b) / (r - &rate) > from {
                    break;
                }
                kept.pop();
            }
            kept.push((burst, rate));
        }
        Self { pieces: kept }
    }

    /// Where the second piece, of lower rate, becomes the lower.
    fn crossing(first: &(Exact, Exact), second: &(Exact, Exact)) -> Exact {
        (&second.0 - &first.0) / (&first.1 - &second.1)
    }

    /// The long-term rate.
    pub fn rate(&self) -> Exact {
        self.pieces.last().map(|(_, rate)| rate.clone()).unwrap_or_default()
    }

    /// Index of the first piece not steeper than `rate`, and the t from which it is the lowest.
    fn turn(&self, rate: &Exact) -> Option<(usize, Exact)> {
        let index = self.pieces.iter().position(|(_, r)| r <= rate)?;
        let at = match index {
            0 => Exact::zero(),
            i => Self::crossing(&self.pieces[i - 1], &self.pieces[i]),
        };
        Some((index, at))
    }

    /// Horizontal deviation: the longest delay of this arrival in that service; none when more arrives
    /// than is served in the long run.
    pub fn delay(&self, service: &RateLatency) -> Option<Exact> {
        let (index, at) = self.turn(&service.rate)?;
        let (burst, rate) = &self.pieces[index];
        Some(&service.latency + (burst + rate * &at) / &service.rate - at)
    }

    /// Deconvolution: what leaves the service at most; none as for [`Self::delay`].
    pub fn output(&self, service: &RateLatency) -> Option<Self> {
        let (index, at) = self.turn(&service.rate)?;
        let (burst, rate) = &self.pieces[index];
        // Steeper pieces are slowed to the service rate, through the point where the slope turns.
        let slowed = (burst + rate * &at - &service.rate * &at, service.rate.clone());
        let mut pieces = self.pieces[index..].to_vec();
        pieces.push(slowed);
        for (burst, rate) in &mut pieces {
            *burst += &*rate * &service.latency;
        }
        Some(Self::hull(pieces))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exact::whole;

    fn affine(burst: i64, rate: i64) -> Curve {
        Curve::affine(whole(burst), whole(rate))
    }

    #[test]
    fn the_hull_keeps_what_is_lowest_somewhere() {
        let curve = affine(0, 10).min(affine(100, 1)).min(affine(90, 5)).min(affine(200, 1));
        assert_eq!(curve, affine(100, 1).min(affine(0, 10)));
        assert_eq!(affine(0, 10).min(affine(10, 5)).min(affine(25, 1)).pieces.len(), 3);
    }

    #[test]
    fn delay_and_output_of_a_token_bucket() {
        let service = RateLatency { rate: whole(10), latency: whole(2) };
        assert_eq!(affine(30, 5).delay(&service), Some(whole(5)));
        assert_eq!(affine(30, 5).output(&service), Some(affine(40, 5)));
        assert_eq!(affine(30, 11).delay(&service), None);
        // Through a line of rate 20 the burst of 30 (to 40 at t = 2) is there later.
        let lined = affine(0, 20).min(affine(30, 5));
        assert_eq!(lined.delay(&service), Some(whole(4)));
        assert_eq!(lined.output(&service), Some(affine(40, 10).min(affine(40, 5))));
    }

    #[test]
    fn sums_are_taken_piece_by_piece() {
        let lined = affine(0, 20).min(affine(30, 5));
        assert_eq!(lined.plus(&lined), affine(0, 40).min(affine(60, 10)));
    }
}
