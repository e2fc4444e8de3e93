//! What a class gets from Linux' software shaper (`sch_cbs`), which is not quite what the standard's gives.
//!
//! Its credit is whole bytes of frames without FCS, preamble and gap (ℓ of p bits on the line). It is brought up to date only
//! when the kernel looks, and only while it is below 0. With I the idleSlope, C the line, and k the last frame up to n that
//! came to an empty queue with credit of 0 or more:
//!
//! * **The first wait is not credited.** k has no credit above 0 (what there is, is taken from it as it comes) and gains none
//!   while it waits: up to max(L_N, L)/C for a frame on the line, one of its own class too, and for classes above. The
//!   standard's credit would rise meanwhile and pay for the frames behind. Between k and n a wait for a lower frame is
//!   credited, as credit was below 0 at the look before, and hiCredit holds it; that for n itself, L_N/C, is not used up.
//! * **Each look while credit is below 0 forgets less than a byte** ([`scenario::LongRun`]). It looks at the end of each frame of other classes: at
//!   least m/C apart, in which ⌊I·m/C⌋ = q bytes are counted, so at least ρ = q/(q + 1) of what was earned. It looks once at the
//!   end of an own frame, once when there is enough, and once for each frame that comes: 2 bytes a frame, and one for each of
//!   the class that comes until n starts, of which there are (b + r·t)/L_min.
//! * **Classes above** take at most b_H + r_H·t of the line. Nothing of that is taken as credited.
//!
//! Σ over k ≤ i < n of ((ℓ + 2 bytes)/(ρI)), the waits and the line of classes above give, with u the least p − ℓ,
//! s = u·(1 − I/C) − 2 bytes − L_max/L_min bytes and g = L_max/(L_max − s) (L_min for a negative s):
//!
//! > R = ρ·I·g·(C − r_H)/C, T = ((max(L_N, L) + L_N + b_H)/C + (b/L_min bytes)/(ρI)) / ((C − r_H)/C·(1 − g byte/L_min))
//!
//! Where n is k itself, only the first wait T₁ counts, and where it is not, B(k..n) ≥ L_min: so T₁ with
//! 1/R₁ = 1/R + (T − T₁)/L_min holds as well, and is taken where that is less for the class's burst.
//!
//! What such a class sends within t is at most φ·(I·t + hiCredit − loCredit), φ = max p/(ℓ − 1 byte): a frame is charged
//! for ⌊ℓ·(C − I)/C⌋.

use num_traits::{One, Zero};
use scenario::{Credits, PortId, Ratio};
use units::Rate;

use crate::exact::{Exact, Number, bits, whole};
use crate::service::{Analysis, Service};

/// What others do to a shaped class, in bits and bits per second.
#[derive(Debug, Default)]
pub(crate) struct Others {
    /// What classes above bring at once.
    pub(crate) above_bits: Exact,
    /// Their rate.
    pub(crate) above_rate: Exact,
    /// Largest frame of a lower class.
    pub(crate) lower: Exact,
}

fn ratio([above, below]: Ratio) -> Exact {
    whole(above) / whole(below)
}

/// Why Linux may give a class less than it needs, though its slope is enough.
const BYTE_FRACTIONS: &str = "Linux' software shaper counts whole bytes and forgets the rest at every look:";

/// idleSlope as Linux is told it.
pub(crate) fn told(credits: &Credits) -> Rate {
    Rate(credits.idle_slope_kbit.unsigned_abs() * 1_000)
}

/// The same in bits per second.
fn idle_slope(credits: &Credits) -> Exact {
    whole(told(credits).0)
}

impl Analysis<'_> {
    /// Rate and bits ahead of it that a class shaped by Linux takes of the line, whatever comes to it.
    pub(crate) fn linux_share(&self, port: PortId, class: u8, credits: &Credits) -> (Exact, Exact) {
        let byte = bits(1);
        let counted = self.scenario.counted(port, class);
        let longer = |flow: usize| {
            let flow = &self.flows.flows[flow];
            &flow.frame / (bits(counted.bytes(flow.size)) - &byte).max(byte.clone())
        };
        let most = self.members(port, class).into_iter().map(longer).max().unwrap_or_else(Exact::one);
        let credit = whole(credits.hi_credit_bytes - credits.lo_credit_bytes) * byte;
        (&most * idle_slope(credits), most * credit)
    }

    /// Refuses a class whose slope would be enough if Linux forgot nothing of its credit: what `check` warns of.
    pub(crate) fn keeps_fractions(&self, port: PortId, class: u8, credits: &Credits) -> Result<(), String> {
        let slope = told(credits);
        match self.scenario.long_run(port, class) {
            Some(long_run) if long_run.loses(slope) => Err(format!(
                "{BYTE_FRACTIONS} class {class} with an idleSlope of {slope} is sure of less than the {} that arrive{}",
                Rate(long_run.arriving),
                match long_run.enough() {
                    Some(enough) => format!("; {enough} would do"),
                    None => String::new(),
                }
            )),
            _ => Ok(()),
        }
    }

    /// What `class` gets at `port` if Linux shapes it.
    pub(crate) fn linux_shaped(
        &mut self,
        port: PortId,
        class: u8,
        credits: &Credits,
        others: Others,
    ) -> Result<Service, String> {
        let line = whole(self.scenario.port_rate(port).0);
        let (byte, one) = (bits(1), Exact::one());
        let members = self.members(port, class);
        let sizes = || members.iter().map(|flow| self.flows.flows[*flow].frame.clone());
        let (Some(largest), Some(least)) = (sizes().max(), sizes().min()) else {
            return Err(format!("no frames of class {class} are known"));
        };
        let (burst, arriving) = self.arrivals(port, class)?;
        let idle = idle_slope(credits);
        let slope = told(credits);
        let Some(long_run) = self.scenario.long_run(port, class) else {
            return Err(format!("nothing limits what comes to a class above {class}"));
        };
        let [kept, gain] = [long_run.kept(slope), long_run.gain(slope)].map(ratio);
        if kept.is_zero() {
            return Err(format!("class {class} needs more than its idleSlope of {slope}, whatever is counted"));
        }
        let earned = &kept * &idle;
        let left = &one - &others.above_rate / &line;
        let looked = &one - &gain * &byte / &least;
        if left <= Exact::zero() || looked <= Exact::zero() {
            return Err(format!("classes above {class} may take the whole line of {}", self.scenario.port_rate(port)));
        }
        let first = (largest.max(others.lower.clone()) + &others.above_bits) / &line;
        let forgotten = &burst / &least * &byte / &earned;
        let latency = (&first + &others.lower / &line + forgotten) / (&left * looked);
        let words = format!(
            "shaped by Linux, in whole bytes: R = ρ·I·g·(C − r_H)/C, T = ((max(L_N, L) + L_N + b_H)/C + b/L_min bytes/(ρI))/…, \
             or T₁ and R₁ if less, \
             with I {} bit/s, ρ {}, g {}, r_H {} bit/s, b_H {} bit",
            Number(idle),
            Number(kept),
            Number(gain.clone()),
            Number(others.above_rate.clone()),
            Number(others.above_bits)
        );
        let rate = (earned * gain * &left).min(line);
        let first = first / left;
        let first_rate = &one / (&one / &rate + (&latency - &first) / &least);
        let behind = &burst - &least;
        let less = &first + &behind / &first_rate < &latency + &behind / &rate;
        let (rate, latency) = if less && arriving <= first_rate { (first_rate, first) } else { (rate, latency) };
        Ok(Service { latency, lower: others.lower, ..Service::alone(rate, &words) })
    }
}
