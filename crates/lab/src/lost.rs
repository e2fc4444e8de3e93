//! What found no room at the hosts of a run: frames in receive queues, records in traces.

use std::collections::BTreeMap;

use measure::{Incident, kinds};
use scenario::HostId;
use station::Dropped;

/// What found no room.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    /// Frames by host and interface.
    pub(crate) frames: BTreeMap<String, BTreeMap<String, u64>>,
    /// Trace records by host.
    pub(crate) records: Vec<(HostId, u64)>,
}

impl Lost {
    /// Counts frames that a thread of a host has reported.
    pub(crate) fn frames(&mut self, host: &str, dropped: &Dropped) {
        let host = self.frames.entry(host.into()).or_default();
        *host.entry(dropped.interface.clone()).or_default() += dropped.frames;
    }

    pub(crate) fn all_frames(&self) -> u64 {
        self.frames.values().flat_map(BTreeMap::values).sum()
    }

    pub(crate) fn all_records(&self) -> u64 {
        self.records.iter().map(|(_, records)| records).sum()
    }

    /// One incident an interface whose queue had no room. When that was the kernel does not say; `others`, what else was
    /// found, tells what held the host up or filled the queue.
    pub(crate) fn incidents(&self, others: &[Incident]) -> Vec<Incident> {
        let of_host = |(host, interfaces): (&String, &BTreeMap<String, u64>)| {
            let of = |(interface, &frames): (&String, &u64)| incident(host, interface, frames, others);
            interfaces.iter().map(of).collect::<Vec<_>>()
        };
        self.frames.iter().flat_map(of_host).collect()
    }
}

fn incident(host: &str, interface: &str, frames: u64, others: &[Incident]) -> Incident {
    let here = |kind: &'static str| {
        others.iter().filter(move |other| other.kind == kind && other.place.as_deref() == Some(host))
    };
    let longest = here(kinds::HOST_LATE).max_by_key(|late| late.lasted_ns);
    let flood = here(kinds::FLOOD).max_by_key(|flood| flood.frames);
    let why = match (flood, longest) {
        (Some(flood), _) => format!("a flood of {} frames or more had filled it", flood.frames),
        (None, Some(late)) => {
            format!("the host stood still for {:.1} ms meanwhile, or shorter", late.lasted_ns.unwrap_or(0) as f64 / 1e6)
        }
        (None, None) => "more came than was read".into(),
    };
    Incident {
        at_ns: flood.or(longest).map_or_else(|| rt::clock::now().0, |cause| cause.at_ns),
        kind: kinds::RECEIVE_OVERFLOW.into(),
        cause: format!(
            "{host}: {frames} frames found no room in the receive queue of {interface}: {why}. Frames of its streams \
             among them count as lost on the link before it"
        ),
        frames,
        lasted_ns: None,
        place: Some(host.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_is_named_with_what_filled_it() {
        let mut lost = Lost::default();
        for (host, interface, frames) in
            [("loop", "eth0", 5), ("loop", "eth0", 2), ("loop", "eth1", 1), ("pub", "eth0", 9)]
        {
            lost.frames(host, &Dropped { interface: interface.into(), frames });
        }
        let other = |kind: &str, place: &str, at_ns, frames| Incident {
            at_ns,
            kind: kind.into(),
            cause: String::new(),
            frames,
            lasted_ns: Some(2_000_000_000),
            place: Some(place.into()),
        };
        let others = [other(kinds::HOST_LATE, "loop", 70, 3), other(kinds::FLOOD, "pub", 80, 1_000)];
        let found = lost.incidents(&others);
        let told: Vec<_> = found.iter().map(|incident| (incident.at_ns, incident.frames)).collect();
        assert_eq!(told, [(70, 7), (70, 1), (80, 9)]);
        assert!(found[0].cause.starts_with("loop: 7 frames found no room in the receive queue of eth0"));
        assert!(found[0].cause.contains("stood still for 2000.0 ms"), "{}", found[0].cause);
        assert!(found[2].cause.contains("flood of 1000"), "{}", found[2].cause);
        assert_eq!(lost.all_frames(), 17);
    }
}
