//! The fluid model of Rezabek et al. (seed 002, § IV), with its quirks: the arrival counts 18 bytes around the
//! payload, the service 42; no frame is whole; every port pays the burst again; the receive window ends
//! at 0.3 of the cycle whatever the scenario says; bridges take no time.

use std::fmt;

use num_traits::Zero;
use scenario::{PortId, Scenario, Stream};

use crate::curve::{Curve, RateLatency};
use crate::exact::{Bound, Exact, Number, bits, decimal_cut, micros_up, seconds, whole};
use crate::report::{BoundReport, Direction, PortBound, RoundTrip, StreamBound, Terms};
use crate::{Model, Options};

/// One port of the paper's model: reserved rate, line rate, lower-priority frame, largest own frame.
struct Shaped {
    /// idleSlope, bit/s.
    reserved: Exact,
    line: Exact,
    /// L_N, bits.
    lower: Exact,
    /// m of the largest frame, bits.
    frame: Exact,
}

impl Shaped {
    fn service(&self) -> RateLatency {
        RateLatency { rate: self.reserved.clone(), latency: &self.lower / &self.line }
    }

    /// s = m(C − R)/(R·C).
    fn recovery(&self) -> Exact {
        &self.frame * (&self.line - &self.reserved) / (&self.reserved * &self.line)
    }

    /// The delay here, and the curve behind: min{ shaper, (in ⊗ maximum service) ⊘ minimum service }.
    fn pass(&self, arrival: &Curve) -> Option<(Exact, Curve)> {
        let delay = arrival.delay(&self.service())?;
        let burst = &self.reserved * self.recovery();
        let maximum = Curve::affine(burst.clone(), self.reserved.clone());
        let shaper = Curve::affine(burst + &self.reserved * &self.lower / &self.line, self.reserved.clone());
        Some((delay, arrival.clone().min(maximum).output(&self.service())?.min(shaper)))
    }
}

/// min{ C·t, m(1 − r/C) + r·t }.
fn source(frame: &Exact, rate: &Exact, line: &Exact) -> Curve {
    let burst = frame * (whole(1) - rate / line);
    Curve::affine(Exact::zero(), line.clone()).min(Curve::affine(burst, rate.clone()))
}

/// 1.7c + o, or 0.7c + o at best.
fn node(cycle: &Exact, offset: &Exact, tenths: u32) -> Exact {
    cycle * Exact::new(tenths.into(), 10.into()) + offset
}

/// Bytes around the payload that the paper counts on arrival: addresses, EtherType, tag.
const ARRIVAL_EXTRA: u32 = 18;
/// And in the reservation: those, FCS, preamble and gap.
const RESERVED_EXTRA: u32 = 42;

/// Table IV of Rezabek et al.: bounds of the round trip, 250 µs cycle, 150 µs offset, 1 Gbit/s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaperTable {
    /// UADP bytes of the columns.
    pub payloads: [u32; 8],
    /// For 1 to 7 links (rows) and each payload, seconds.
    pub cells: [[Exact; 8]; 7],
}

/// Computes the 56 cells of Table IV of Rezabek et al.
pub fn paper_table() -> PaperTable {
    let payloads = [59, 77, 113, 185, 329, 617, 1193, 1481];
    let (cycle, offset) = (Exact::new(1.into(), 4_000.into()), Exact::new(3.into(), 20_000.into()));
    let line = whole(1_000_000_000);
    let mut cells: [[Exact; 8]; 7] = Default::default();
    for (column, payload) in payloads.into_iter().enumerate() {
        let frame = bits(payload + ARRIVAL_EXTRA);
        let reserved = bits(payload + RESERVED_EXTRA) / &cycle;
        let mut curve = source(&frame, &(&frame / &cycle), &line);
        let port = Shaped { reserved, line: line.clone(), lower: Exact::zero(), frame };
        let mut sum = node(&cycle, &offset, 17);
        for row in &mut cells {
            // Two ports a link; the reservation always exceeds what arrives, so each has a delay.
            for _ in 0..2 {
                if let Some((delay, behind)) = port.pass(&curve) {
                    sum += delay;
                    curve = behind;
                }
            }
            row[column] = sum.clone();
        }
    }
    PaperTable { payloads, cells }
}

/// As the paper prints it: milliseconds, cut off after three decimals.
impl fmt::Display for PaperTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Round trip `wire` at most, ms (cut off, not rounded, as printed by Rezabek et al., Table IV)")?;
        write!(f, "links")?;
        for payload in self.payloads {
            write!(f, "{:>9}", format!("{payload} B"))?;
        }
        writeln!(f)?;
        for (row, cells) in self.cells.iter().enumerate() {
            write!(f, "{:>5}", row + 1)?;
            for cell in cells {
                write!(f, "{:>9}", decimal_cut(&(cell * whole(1_000))))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

pub(crate) fn report(scenario: &Scenario, options: &Options) -> BoundReport {
    let lower = match options.unnamed_frame_bytes {
        0 => "Lower-priority frames L_N = 0, as in the paper's table, whatever the scenario has.".into(),
        bytes => format!("Lower-priority frames L_N of {bytes} bytes at every port."),
    };
    BoundReport {
        format: "downbeat/bound/1".into(),
        model: Model::Paper.key().into(),
        scenario: scenario.name.clone(),
        assumptions: vec![
            "The fluid model of Rezabek et al. § IV, for comparison with their tables only: not sound for whole frames.".into(),
            "Arrival counts payload + 18 bytes, reservation payload + 42; idleSlope of the port if it has one, else the exact need.".into(),
            "Cables and bridges take no time; the PubSub node takes 1.7c + o at most: its window ends at 0.3c, whatever the scenario says, with launch time.".into(),
            lower,
        ],
        streams: scenario.streams.iter().map(|stream| stream_bound(scenario, stream, options)).collect(),
    }
}

fn stream_bound(scenario: &Scenario, stream: &Stream, options: &Options) -> StreamBound {
    let missing = |what: &str| Bound::Unbounded(format!("the paper's model has no {what}; use the packet model"));
    let (cycle, offset) = (seconds(stream.cycle), seconds(stream.offset));
    let mut ports = Vec::new();
    let mut certificate = vec![
        "each port: delay = horizontal deviation of the arrival from R(t − L_N/C); source min{C·t, m(1 − r/C) + r·t}; \
         behind a port min{R(L_N/C + s) + R·t, (in ⊗ (R·s + R·t)) ⊘ R(t − L_N/C)}, s = m(C − R)/(R·C)"
            .to_owned(),
    ];
    // The paper's curve goes on through the node: 2·links ports in a row.
    let mut curve = None;
    let one_way = way(scenario, stream, Direction::Out, options, &mut curve, &mut ports);
    let mut round_trip = None;
    if stream.echo {
        let back = way(scenario, stream, Direction::Back, options, &mut curve, &mut ports);
        let (worst, best) = (node(&cycle, &offset, 17), node(&cycle, &offset, 7));
        let wire = one_way.with(&back, |there, back| there + &worst + back);
        if let (Bound::At(there), Bound::At(home), Bound::At(sum)) = (&one_way, &back, &wire) {
            certificate.push(format!(
                "wire: ports there + (1.7c + o) + ports back = {} + {} + {} = {} µs",
                micros_up(there),
                micros_up(&worst),
                micros_up(home),
                micros_up(sum)
            ));
        }
        round_trip = Some(RoundTrip {
            wire,
            wire_best: Bound::At(best),
            ..RoundTrip::unbounded("the paper's model has only the round trip `wire`; use the packet model")
        });
    }
    StreamBound {
        name: stream.name.clone(),
        one_way_scheduled: one_way.clone(),
        one_way,
        one_way_best: Bound::At(Exact::zero()),
        spacing_error: missing("spacing error"),
        one_way_stack: missing("stack delay"),
        one_way_stack_scheduled: missing("stack delay"),
        round_trip,
        certificate,
        ports,
    }
}

fn path(stream: &Stream, direction: Direction) -> &[PortId] {
    match direction {
        Direction::Out => &stream.path,
        Direction::Back => &stream.return_path,
    }
}

/// Streams of this one's class somewhere on its way, each with its payload and cycle; they must go the same way.
fn companions<'a>(scenario: &'a Scenario, own: &[PortId], pcp: u8) -> Result<Vec<&'a Stream>, String> {
    let class = |port: PortId, pcp: u8| scenario.port(port).queue.class_of(pcp);
    let meets =
        |other: &[PortId], priority: u8| own.iter().any(|p| other.contains(p) && class(*p, priority) == class(*p, pcp));
    let mut found = Vec::new();
    for stream in &scenario.streams {
        for (way, there) in [(&stream.path, true), (&stream.return_path, stream.echo)] {
            if there && meets(way, stream.pcp) {
                if way != own {
                    return Err(format!(
                        "stream \"{}\" shares only a part of the way; the paper's model has one line",
                        stream.name
                    ));
                }
                found.push(stream);
            }
        }
    }
    if scenario.traffic.iter().any(|traffic| meets(&traffic.path, traffic.pcp)) {
        return Err("traffic shares the stream's class; the paper's model has PubSub streams alone".into());
    }
    Ok(found)
}

fn way(
    scenario: &Scenario,
    stream: &Stream,
    direction: Direction,
    options: &Options,
    curve: &mut Option<(Vec<String>, Curve)>,
    ports: &mut Vec<PortBound>,
) -> Bound {
    let path = path(stream, direction);
    let companions = companions(scenario, path, stream.pcp);
    let mut sum: Result<Exact, String> = companions.as_ref().map(|_| Exact::zero()).map_err(String::clone);
    let companions = companions.unwrap_or_default();
    let lower = bits(options.unnamed_frame_bytes);
    let sizes = || companions.iter().map(|s| (s.payload_bytes(), seconds(s.cycle)));
    let need: Exact = sizes().map(|(payload, cycle)| bits(payload + RESERVED_EXTRA) / cycle).sum();
    let arriving: Exact = sizes().map(|(payload, cycle)| bits(payload + ARRIVAL_EXTRA) / cycle).sum();
    let largest = sizes().map(|(payload, _)| bits(payload + ARRIVAL_EXTRA)).max().unwrap_or_default();
    // Only if the very same streams come back; otherwise answers start like sources.
    let names: Vec<String> = companions.iter().map(|stream| stream.name.clone()).collect();
    let mut arrival = curve.take().filter(|(there, _)| *there == names).map(|(_, curve)| curve);
    for port in path {
        let queue = &scenario.port(*port).queue;
        let class = queue.class_of(stream.pcp);
        let line = whole(scenario.port_rate(*port).0);
        let idle = queue.cbs(class).map(|cbs| whole(cbs.idle_slope.0));
        let service = if idle.is_some() { "R = idleSlope of the port" } else { "R = exact need, 8·(payload + 42)/c" };
        let reserved = idle.unwrap_or_else(|| need.clone());
        let name = scenario.port_name(*port);
        let passed = match &sum {
            Err(reason) => Err(reason.clone()),
            Ok(_) if reserved > line || reserved.is_zero() => Err(format!(
                "port {name}: {} bit/s reserved on {}",
                Number(reserved.clone()),
                scenario.port_rate(*port)
            )),
            Ok(_) => {
                let shaped = Shaped {
                    reserved: reserved.clone(),
                    line: line.clone(),
                    lower: lower.clone(),
                    frame: largest.clone(),
                };
                let incoming = arrival.take().unwrap_or_else(|| {
                    let each = sizes().map(|(payload, cycle)| {
                        let frame = bits(payload + ARRIVAL_EXTRA);
                        source(&frame, &(&frame / cycle), &line)
                    });
                    each.reduce(|sum, curve| sum.plus(&curve))
                        .unwrap_or_else(|| Curve::affine(Exact::zero(), Exact::zero()))
                });
                shaped.pass(&incoming).ok_or_else(|| {
                    format!(
                        "port {name}: {} bit/s arrive on average (payload + 18 bytes), {} bit/s are reserved",
                        Number(arriving.clone()),
                        Number(reserved.clone())
                    )
                })
            }
        };
        let zero = || Bound::At(Exact::zero());
        let terms = passed.as_ref().ok().map(|_| Terms {
            service: format!("{service}, T = L_N/C"),
            service_rate: Number(reserved.clone()),
            service_latency: Bound::At(&lower / &line),
            lower_frame_bits: Number(lower.clone()),
            largest_frame_bits: Number(largest.clone()),
            burst_bits: Number(sizes().map(|(payload, _)| bits(payload + ARRIVAL_EXTRA)).sum()),
            arrival_rate: Number(arriving.clone()),
            stretch: 0,
            burst_delay: Bound::from(passed.as_ref().map(|(d, _)| d - &lower / &line).map_err(String::clone)),
            transmission: zero(),
            bridge_latency: zero(),
            propagation: zero(),
            backlog_bits: Number(
                sizes().map(|(payload, _)| bits(payload + ARRIVAL_EXTRA)).sum::<Exact>() + &arriving * &lower / &line,
            ),
            utilisation_percent: Number(&arriving * whole(100) / &reserved),
        });
        let delay = passed.map(|(delay, behind)| {
            arrival = Some(behind);
            delay
        });
        ports.push(PortBound {
            port: name,
            direction,
            queue: queue.kind().into(),
            class,
            line_rate: scenario.port_rate(*port).0,
            frame_bits: Number(bits(stream.payload_bytes() + ARRIVAL_EXTRA)),
            contribution: delay.clone().into(),
            terms,
        });
        sum = sum.and_then(|sum| Ok(sum + delay?));
    }
    *curve = arrival.map(|arrival| (names, arrival));
    sum.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With L_N = 0 every port costs m(1/R − 1/C), from the general curves.
    #[test]
    fn without_lower_frames_the_model_collapses() {
        let (line, frame) = (whole(1_000_000_000), bits(77));
        for reserve in [bits(101), bits(120), bits(77)] {
            let reserved = reserve * whole(4_000);
            let port =
                Shaped { reserved: reserved.clone(), line: line.clone(), lower: Exact::zero(), frame: frame.clone() };
            let mut curve = source(&frame, &(&frame * whole(4_000)), &line);
            for _ in 0..5 {
                let (delay, behind) = port.pass(&curve).unwrap();
                assert_eq!(delay, &frame * (reserved.recip() - line.recip()));
                curve = behind;
            }
        }
    }
}
