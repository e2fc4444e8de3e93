//! What the counter's round trip would take by plan, and what the literature promises.

use std::collections::BTreeMap;

use scenario::{HostKind, PortId, Scenario, Stream};
use units::Picos;

use super::{Beat, CounterReference, CounterSeen};

/// Best and worst case of Gopiga et al. in cycles used: 1 + 1 + 2 + 1 and 3 + 1 + 4 + 1 (their figures 13 and 14).
const PAPERS: (i64, i64) = (5, 9);
/// How many values the histogram keeps apart.
const KEPT: usize = 64;

/// What `counter_used` of a stream is to be compared with; `None` without an echo.
pub(crate) fn counter_reference(
    scenario: &Scenario,
    stream: &Stream,
    round_trip_cycles: &[i64],
) -> Option<CounterReference> {
    stream.echo.then(|| {
        let papers = is_line(scenario).then_some(PAPERS);
        CounterReference {
            scenario_best: best(scenario, stream).saturating_add(1),
            seed_001_best: papers.map(|(best, _)| best),
            seed_001_worst: papers.map(|(_, worst)| worst),
            seen: histogram(round_trip_cycles),
        }
    })
}

/// Cycles from the application phase that writes a counter to the one that reads it back, for punctual hosts with
/// stacks of zero cost and frames that meet no others on links of their rate.
fn best(scenario: &Scenario, stream: &Stream) -> i64 {
    let beat = |host| Beat::new(&scenario.host(host).phases, stream, 0);
    let (writer, reader) = (beat(stream.writer), beat(stream.reader));
    let wrote = writer.application_after(0);
    let departs = writer.departure(writer.publish_after(wrote));
    let read = reader.read(departs + lone(scenario, stream, &stream.path));
    let answer = reader.departure(reader.publish_after(read));
    let back = writer.read(answer + lone(scenario, stream, &stream.return_path));
    let elapsed = (writer.application_after(back) - wrote) / writer.cycle();
    i64::try_from(elapsed).unwrap_or(i64::MAX)
}

/// How long a frame that meets no others takes from its departure to its last bit in, stored and forwarded by every
/// bridge; whole nanoseconds as a receive stamp shows them.
fn lone(scenario: &Scenario, stream: &Stream, path: &[PortId]) -> i128 {
    let bits = stream.frame().physical_bits();
    let hop = |&port: &PortId| {
        let link = scenario.link(scenario.port(port).link);
        let sent = if link.rate.0 == 0 { Picos(0) } else { link.rate.transmission(bits) };
        sent + link.propagation.to_picos() + scenario.bridge_latency(scenario.port(port).peer).to_picos()
    };
    path.iter().map(hop).sum::<Picos>().to_nanos_floor().0.into()
}

/// Whether the network is one link or one line of bridges, like that of the paper.
fn is_line(scenario: &Scenario) -> bool {
    let mut degree = vec![0_usize; scenario.hosts.len()];
    let links = || scenario.links.iter().filter(|link| !link.ptp_only);
    links().for_each(|link| link.ends.iter().for_each(|end| degree[end.0] += 1));
    let in_place = |(host, &degree): (&scenario::Host, &usize)| match host.kind {
        HostKind::Station => degree == 1,
        HostKind::Bridge { .. } => degree == 2,
    };
    links().count() + 1 == scenario.hosts.len() && scenario.hosts.iter().zip(&degree).all(in_place)
}

fn histogram(round_trip_cycles: &[i64]) -> Vec<CounterSeen> {
    let mut counts = BTreeMap::new();
    for elapsed in round_trip_cycles {
        *counts.entry(elapsed.saturating_add(1)).or_insert(0_u64) += 1;
    }
    let mut seen: Vec<_> = counts.into_iter().map(|(used, readings)| CounterSeen { used, readings }).collect();
    let beyond = seen.split_off(KEPT.min(seen.len()));
    if let (Some(last), false) = (seen.last_mut(), beyond.is_empty()) {
        last.readings += beyond.iter().map(|entry| entry.readings).sum::<u64>();
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::{HostId, LineSpec, Link, line};
    use units::{Nanos, Rate};

    fn used(spec: &LineSpec) -> CounterReference {
        let scenario = line(spec);
        counter_reference(&scenario, &scenario.streams[0], &[]).unwrap()
    }

    #[test]
    fn the_best_case_follows_from_the_plan() {
        // Launch 150 µs into cycle 1, read at the start of 2, answered 150 µs into 3, read in 4: five cycles.
        let reference = used(&LineSpec::default());
        assert_eq!((reference.scenario_best, reference.seed_001_best, reference.seed_001_worst), (5, Some(5), Some(9)));
        // Launched at the start of a cycle it arrives within the open window.
        assert_eq!(used(&LineSpec { offset: Nanos(0), ..LineSpec::default() }).scenario_best, 3);
        // 101 physical bytes at 10 Mbit/s take 80.8 µs: past the window of 50 µs.
        let slow = LineSpec { offset: Nanos(0), rate: Rate::from_mbit(10), bridges: 1, ..LineSpec::default() };
        assert_eq!(used(&slow).scenario_best, 5);
    }

    #[test]
    fn the_papers_case_is_one_line() {
        assert!(is_line(&line(&LineSpec { bridges: 6, ..LineSpec::default() })));
        let mut branched = line(&LineSpec { bridges: 1, ..LineSpec::default() });
        branched.hosts.push(branched.hosts[0].clone());
        branched.links.push(Link { ends: [HostId(1), HostId(3)], ..branched.links[0].clone() });
        assert!(!is_line(&branched));
        let reference = counter_reference(&branched, &branched.streams[0], &[]).unwrap();
        assert_eq!((reference.seed_001_best, reference.seed_001_worst), (None, None));
        branched.streams[0].echo = false;
        assert_eq!(counter_reference(&branched, &branched.streams[0], &[]), None);
    }

    #[test]
    fn readings_are_counted_by_cycles_used() {
        let seen = histogram(&[4, 4, 6]);
        assert_eq!(seen, [CounterSeen { used: 5, readings: 2 }, CounterSeen { used: 7, readings: 1 }]);
        let many = histogram(&(0..100).collect::<Vec<_>>());
        assert_eq!((many.len(), many[63]), (64, CounterSeen { used: 64, readings: 37 }));
    }
}
