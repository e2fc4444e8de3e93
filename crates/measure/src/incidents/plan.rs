//! What the scenario itself explains: payloads too long for their window, ports asked for too much.

use scenario::{HostId, PortId, Scenario};
use units::{FrameSize, Nanos};

use super::Seen;
use crate::{FrameRow, Incident, flags, kinds, words};

/// Gap between frames, in bits: a receive stamp is of the last bit of a frame, not of the gap after it.
const GAP_BITS: u64 = 96;

/// How long a frame alone takes from its first bit out of the writer to its last bit into the last host:
/// stored and forwarded by every bridge.
fn lone_delay(scenario: &Scenario, path: &[PortId], frame: FrameSize) -> i64 {
    let hop = |&port: &PortId| {
        let link = scenario.link(scenario.port(port).link);
        let bits = frame.physical_bits() - GAP_BITS;
        let sent = if link.rate.0 == 0 { Nanos::ZERO } else { link.rate.transmission(bits).to_nanos_ceil() };
        sent + link.propagation + scenario.bridge_latency(scenario.port(port).peer)
    };
    path.iter().map(hop).sum::<Nanos>().0
}

/// Number of the receive window, counted from that of the launch's cycle, in which a frame arrives `after` the start
/// of that cycle.
fn window_of(after: i64, window_end: i64, cycle: i64) -> i64 {
    let beyond = after.saturating_sub(window_end);
    if beyond <= 0 { 0 } else { beyond.saturating_add(cycle - 1).div_euclid(cycle) }
}

/// A payload so long that its frames miss a window which a short frame would reach.
pub(super) fn payload_late(seen: &Seen<'_>) -> Vec<Incident> {
    let stream = seen.stream;
    let mut incidents = Vec::new();
    incidents.extend(direction(seen, [stream.writer, stream.reader], &stream.path, [1, 2, 3]));
    if stream.echo {
        incidents.extend(direction(seen, [stream.reader, stream.writer], &stream.return_path, [5, 6, 7]));
    }
    incidents
}

/// One direction; `points` are hand-over, departure and arrival.
fn direction(
    seen: &Seen<'_>,
    [from, to]: [HostId; 2],
    path: &[PortId],
    [handed_over, left, arrived]: [usize; 3],
) -> Option<Incident> {
    let (scenario, stream) = (seen.scenario, seen.stream);
    let cycle = stream.cycle.0;
    if cycle <= 0 {
        return None;
    }
    let (sender, receiver) = (scenario.host(from), scenario.host(to));
    let depart =
        if stream.launch { stream.offset.0.rem_euclid(cycle) } else { sender.phases.publish.of(stream.cycle).0 };
    let window_begin = receiver.phases.subscribe.of(stream.cycle).0;
    let window_end = window_begin + receiver.phases.window.of(stream.cycle).0;
    let delay = lone_delay(scenario, path, stream.frame());
    let shortest = lone_delay(scenario, path, FrameSize::tagged(0));
    let reached = window_of(depart + shortest, window_end, cycle);
    if window_of(depart + delay, window_end, cycle) <= reached {
        return None;
    }
    // The arrivals must show it: counted from the cycle in which the frame departed. Half a cycle before the planned
    // phase belongs to the same cycle, so that an early departure is not taken for one nearly a cycle late.
    let origin = seen.log.ends[usize::from(from != stream.writer)].origin.unwrap_or(scenario.base_time.0);
    let start = |departed: i64| {
        let phase = departed.saturating_sub(origin).saturating_sub(depart);
        departed.saturating_sub((phase.saturating_add(cycle / 2)).rem_euclid(cycle) - cycle / 2 + depart)
    };
    let misses = |row: &FrameRow| {
        let departed = row.at(left).or(row.at(handed_over))?;
        let after = row.at(arrived)?.checked_sub(start(departed))?;
        Some(window_of(after, window_end, cycle) > reached)
    };
    let rows = || seen.rows.iter().filter(|row| !row.has(flags::HOST_OUTLIER));
    let (all, late) = rows().filter_map(misses).fold((0, 0), |(all, late), miss| (all + 1, late + u64::from(miss)));
    if late * 2 <= all {
        return None;
    }
    let first = rows().find(|row| misses(row) == Some(true))?;
    let cause = format!(
        "stream {}: a payload of {} B needs {} from {} to {} at these rates and arrives after the receive window \
         [{}, {}] of its cycle ({} of {}); a frame of 64 B would make it; shorten the payload, raise the rate, or \
         launch earlier",
        stream.name,
        stream.payload_bytes(),
        words::span(delay),
        sender.name,
        receiver.name,
        words::span(window_begin),
        words::span(window_end),
        late,
        words::number(all, "frame"),
    );
    Some(seen.incident(kinds::PAYLOAD_LATE, first.at(arrived)?, cause, late))
}

/// Ports that are asked for at least their rate. Traffic without a stated rate takes what is left and does not count.
pub(super) fn overloaded(scenario: &Scenario, at_ns: i64) -> Vec<Incident> {
    let mut asked = vec![0_f64; scenario.ports.len()];
    let mut ask = |path: &[PortId], rate: f64| path.iter().for_each(|port| asked[port.0] += rate);
    for stream in scenario.streams.iter().filter(|stream| stream.cycle.0 > 0) {
        let rate = stream.frame().physical_bits() as f64 * 1e9 / stream.cycle.0 as f64;
        ask(&stream.path, rate);
        if stream.echo {
            ask(&stream.return_path, rate);
        }
    }
    for traffic in &scenario.traffic {
        if let Some(rate) = traffic.rate {
            let overhead = f64::from(traffic.frame().physical_bytes()) / f64::from(traffic.payload_bytes.max(1));
            ask(&traffic.path, rate.0 as f64 * overhead);
        }
    }
    let overload = |(index, &asked): (usize, &f64)| {
        let port = PortId(index);
        let rate = scenario.port_rate(port);
        let utilisation = asked / rate.0 as f64;
        (utilisation >= 1.0).then(|| Incident {
            at_ns,
            kind: kinds::LINK_OVERLOAD.to_owned(),
            cause: format!(
                "{}: streams and traffic need {:.1} Mbit/s of a line of {rate}, {:.1} %; its queue grows until frames \
                 are dropped: lower the rates, lengthen the cycle, or use a faster link",
                scenario.port_name(port),
                asked / 1e6,
                utilisation * 100.0
            ),
            frames: 0,
            lasted_ns: None,
            place: Some(scenario.port_name(port)),
        })
    };
    asked.iter().enumerate().filter_map(overload).collect()
}
