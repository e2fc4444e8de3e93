//! The packet model applied to every stream of a scenario.

use num_traits::Zero;
use scenario::{Backlog, PortId, Queue, Scenario};
use units::Nanos;

use crate::cycle::{Delay, Ends, Scheduled};
use crate::exact::{Bound, Exact, Number, micros_up, whole};
use crate::flow::{latency, propagation, transmission};
use crate::phased::{release, scheduled};
use crate::report::{BoundReport, Count, Direction, PortBound, RoundTrip, StreamBound, Terms};
use crate::service::{Analysis, Service, Stretch};
use crate::{Model, Options};

pub(crate) fn report(scenario: &Scenario, options: &Options) -> BoundReport {
    let mut analysis = Analysis::new(scenario, options);
    BoundReport {
        format: "downbeat/bound/1".into(),
        model: Model::Packet.key().into(),
        scenario: scenario.name.clone(),
        assumptions: assumptions(scenario, options),
        streams: (0..scenario.streams.len()).map(|index| stream(&mut analysis, index, options)).collect(),
    }
}

fn assumptions(scenario: &Scenario, options: &Options) -> Vec<String> {
    let clocks = match options.clock_error {
        Nanos::ZERO => "their clocks agree".to_owned(),
        error => format!("their clocks are at most {error} apart"),
    };
    let hosts = if options.host_jitter.0 == 0 {
        format!("Hosts act on time, {clocks}, reading and building a frame takes no time.")
    } else {
        format!("Hosts act at most {} late, {clocks}.", options.host_jitter)
    };
    let unnamed = match options.unnamed_frame_bytes {
        0 => "No frames but those of the scenario's streams and traffic.".into(),
        bytes => format!("Frames the scenario does not name: lower priority, at most {bytes} physical bytes."),
    };
    vec![
        "Whole physical frames (preamble, FCS and gap included), stored and forwarded; one frame a cycle and stream."
            .into(),
        "UDP traffic is paced evenly at its rate; every phase of it and of other streams is allowed.".into(),
        "A shaper counts physical bits, one of Linux' software whole bytes of what a socket sends. Queues are long enough to lose nothing (see the backlog).".into(),
        "A bridge takes at most its latency and keeps the order of a class; best cases take all of it.".into(),
        unnamed,
        hosts,
    ]
    .into_iter()
    .chain(scenario.ports.iter().any(|port| matches!(port.queue, Queue::Taprio { .. })).then(|| GATES.into()))
    .chain(scenario.ports.iter().any(|port| port.queue == Queue::FqCodel).then(|| CODEL.into()))
    .chain((options.unnamed_frame_bytes > 0 && shaped_by_linux(scenario)).then(|| UNNAMED.into()))
    .collect()
}

const CODEL: &str = "What fq_codel drops has no delay; it drops none while none waits for more than its target, 5 ms.";

/// Each of them may cost a class up to a byte of credit.
const UNNAMED: &str =
    "Frames the scenario does not name are too rare to count for a software shaper's forgotten fractions of a byte.";

fn shaped_by_linux(scenario: &Scenario) -> bool {
    (0..scenario.ports.len()).any(|port| scenario.linux_credits(PortId(port)).iter().any(Option::is_some))
}

const GATES: &str = "Gates keep their schedule from the first frame on.";

/// One direction of a stream.
struct Way {
    delay: Result<Delay, String>,
    best: Exact,
    ports: Vec<PortBound>,
    words: Vec<String>,
}

/// Why nothing that a reader has a part in is bounded when it reads one message a cycle.
const KEPT: &str = "with `backlog = \"keep\"` a reader never makes up for a cycle in which two messages came; \
                    `backlog = \"drain\"` has a bound";

fn stream(analysis: &mut Analysis, index: usize, options: &Options) -> StreamBound {
    let scenario = analysis.scenario;
    let stream = &scenario.streams[index];
    let ends = Ends::new(scenario, stream, options, &release(scenario, stream));
    let there = way(analysis, index, Direction::Out, &ends);
    let one_way = Bound::from(there.delay.clone().map(|delay| delay.worst));
    // What waits for the application, as far as that has a bound.
    let read = match scenario.backlog {
        Backlog::Drain => there.delay.as_ref().map_err(Clone::clone),
        Backlog::Keep { .. } => Err(KEPT.into()),
    };
    let spacing = |delay: &Delay| {
        let scheduled = &delay.scheduled.latest - &delay.scheduled.earliest;
        scheduled.min(&delay.worst - &there.best) + ends.irregularity()
    };
    let mut ports = there.ports;
    let mut certificate = there.words;
    let mut round_trip = None;
    if stream.echo {
        let back = way(analysis, index, Direction::Back, &ends);
        ports.extend(back.ports);
        certificate.extend(back.words);
        let trips = match scenario.backlog {
            Backlog::Drain => there.delay.clone().and_then(|there| Ok(ends.trips(&there, &back.delay?))),
            Backlog::Keep { .. } => Err(KEPT.into()),
        };
        if let Ok(trips) = &trips {
            certificate.extend(trips.words.iter().cloned());
        }
        round_trip = Some(match trips {
            Ok(trips) => {
                let [[wire, wire_best], [stack, stack_best]] =
                    [trips.wire, trips.stack].map(|pair| pair.map(Bound::At));
                let variation = Bound::At(&trips.wire_scheduled[0] - &trips.wire_scheduled[1]);
                let [wire_scheduled, wire_scheduled_best] = trips.wire_scheduled.map(Bound::At);
                let [stack_scheduled, stack_scheduled_best] = trips.stack_scheduled.map(Bound::At);
                let [counter, counter_best] = trips.counter;
                RoundTrip {
                    wire,
                    wire_best,
                    stack,
                    stack_best,
                    wire_scheduled,
                    wire_scheduled_best,
                    variation,
                    stack_scheduled,
                    stack_scheduled_best,
                    counter,
                    counter_best,
                }
            }
            Err(reason) => RoundTrip::unbounded(&reason),
        });
    }
    StreamBound {
        name: stream.name.clone(),
        one_way_best: Bound::At(there.best.clone()),
        spacing_error: there.delay.as_ref().map(spacing).map_err(Clone::clone).into(),
        one_way_scheduled: there
            .delay
            .as_ref()
            .map(|delay| ends.one_way_scheduled(&delay.scheduled).min(delay.worst.clone()))
            .map_err(Clone::clone)
            .into(),
        one_way_stack: read.clone().map(|delay| ends.one_way_stack(&delay.worst)).into(),
        one_way_stack_scheduled: read.map(|delay| ends.one_way_stack_scheduled(&delay.scheduled)).into(),
        one_way,
        round_trip,
        certificate,
        ports,
    }
}

impl RoundTrip {
    /// No figure at all, for one reason.
    pub(crate) fn unbounded(reason: &str) -> Self {
        let none = || Bound::Unbounded(reason.to_owned());
        let count = || Count::Unbounded { unbounded: reason.to_owned() };
        Self {
            wire: none(),
            wire_best: none(),
            stack: none(),
            stack_best: none(),
            wire_scheduled: none(),
            wire_scheduled_best: none(),
            variation: none(),
            stack_scheduled: none(),
            stack_scheduled_best: none(),
            counter: count(),
            counter_best: count(),
        }
    }
}

fn way(analysis: &mut Analysis, index: usize, direction: Direction, ends: &Ends) -> Way {
    let scenario = analysis.scenario;
    let Some(flow) = analysis.flows.of_stream(index, direction) else {
        let none = Err("the stream has no answer".to_owned());
        return Way { delay: none, best: Exact::zero(), ports: Vec::new(), words: Vec::new() };
    };
    let path = analysis.flows.flows[flow].path.clone();
    let frame = analysis.flows.flows[flow].frame.clone();
    let label = match direction {
        Direction::Out => "one way",
        Direction::Back => "way back",
    };
    let mut way = Way { delay: Err(String::new()), best: Exact::zero(), ports: Vec::new(), words: Vec::new() };
    for port in &path {
        way.best += latency(scenario, *port) + transmission(scenario, *port, &frame) + propagation(scenario, *port);
    }
    // Stretches, from the last port backwards.
    let mut stretches = Vec::new();
    let mut end = path.len();
    while end > 0 {
        let start = analysis.flows.stretch_start(scenario, flow, end - 1);
        stretches.push((start, end - 1));
        end = start;
    }
    stretches.reverse();
    let mut worst: Result<Exact, String> = Ok(Exact::zero());
    let mut wait = Exact::zero();
    for (number, (start, end)) in stretches.into_iter().enumerate() {
        match analysis.stretch(flow, start, end) {
            Ok(stretch) => {
                if start == 0 {
                    wait = first_wait(&stretch, &frame);
                }
                way.words.push(words(analysis, &path[start..=end], &stretch, &frame, label, number + 1));
                for at in start..=end {
                    let bound = bounded(analysis, flow, direction, at, (start, end, number + 1), &stretch);
                    worst = worst.and_then(|sum| match &bound.contribution {
                        Bound::At(part) => Ok(sum + part),
                        Bound::Unbounded(reason) => Err(reason.clone()),
                    });
                    way.ports.push(bound);
                }
            }
            Err(reason) => {
                for port in &path[start..=end] {
                    let why = match analysis.service(*port, analysis.class_of(flow, *port)) {
                        Err(own) => own,
                        Ok(_) => reason.clone(),
                    };
                    way.ports.push(unbounded(analysis, flow, direction, *port, why));
                }
                worst = worst.and(Err(reason));
            }
        }
    }
    way.words.push(match &worst {
        Ok(sum) => format!("{label}: sum of the ports = {} µs", micros_up(sum)),
        Err(reason) => format!("{label}: unbounded: {reason}"),
    });
    way.delay = worst.and_then(|worst| {
        let any_phase = Scheduled { latest: worst.clone(), earliest: way.best.clone(), begins: [Exact::zero(), wait] };
        let scheduled = scheduled(analysis, flow, ends.leaves(direction), ends.cycle(), any_phase)?;
        Ok(Delay { worst, best: way.best.clone(), scheduled })
    });
    way
}

/// Between entering the queue of a stretch's first port and starting there, at most.
fn first_wait(stretch: &Stretch, frame: &Exact) -> Exact {
    (&stretch.burst - frame) / &stretch.services[0].rate + &stretch.services[0].latency
}

fn words(
    analysis: &Analysis,
    path: &[scenario::PortId],
    stretch: &Stretch,
    frame: &Exact,
    label: &str,
    number: usize,
) -> String {
    format!(
        "{label}, stretch {number} ({} ports from {}): D ≤ (b − L)/min R + Σ(T + x) + Σ L_max/C (but the last) + L/C (last) \
         with b {} bit, L {} bit, min R {} bit/s, L_max {} bit, r {} bit/s; first term {} µs",
        path.len(),
        analysis.scenario.port_name(path[0]),
        Number(stretch.burst.clone()),
        frame,
        Number(stretch.services[stretch.slowest].rate.clone()),
        stretch.largest,
        Number(stretch.rate.clone()),
        micros_up(&stretch.burst_delay(frame))
    )
}

fn bounded(
    analysis: &mut Analysis,
    flow: usize,
    direction: Direction,
    at: usize,
    (start, end, number): (usize, usize, usize),
    stretch: &Stretch,
) -> PortBound {
    let scenario = analysis.scenario;
    let port = analysis.flows.flows[flow].path[at];
    let frame = analysis.flows.flows[flow].frame.clone();
    let service: &Service = &stretch.services[at - start];
    // The burst of the class at this very queue, for the backlog.
    let mut burst = Exact::zero();
    for member in analysis.members(port, analysis.class_of(flow, port)) {
        let position = analysis.flows.position(member, port);
        match analysis.burst(member, position) {
            Ok(bits) => burst += bits,
            Err(reason) => return unbounded(analysis, flow, direction, port, reason),
        }
    }
    let burst_delay = if at - start == stretch.slowest { stretch.burst_delay(&frame) } else { Exact::zero() };
    let sent = transmission(scenario, port, if at == end { &frame } else { &stretch.largest });
    let (bridge, cable) = (latency(scenario, port), propagation(scenario, port));
    let contribution = &bridge + &burst_delay + &service.latency + &sent + &cable;
    PortBound {
        contribution: Bound::At(contribution),
        terms: Some(Terms {
            service: service.words.clone(),
            service_rate: Number(service.rate.clone()),
            service_latency: Bound::At(service.latency.clone()),
            lower_frame_bits: Number(service.lower.clone()),
            largest_frame_bits: Number(stretch.largest.clone()),
            backlog_bits: Number(&burst + &stretch.rate * &service.latency),
            burst_bits: Number(burst),
            arrival_rate: Number(stretch.rate.clone()),
            stretch: u32::try_from(number).unwrap_or(u32::MAX),
            burst_delay: Bound::At(burst_delay),
            transmission: Bound::At(sent),
            bridge_latency: Bound::At(bridge),
            propagation: Bound::At(cable),
            utilisation_percent: Number(&stretch.rate * whole(100) / &service.rate),
        }),
        ..unbounded(analysis, flow, direction, port, String::new())
    }
}

fn unbounded(
    analysis: &Analysis,
    flow: usize,
    direction: Direction,
    port: scenario::PortId,
    reason: String,
) -> PortBound {
    let scenario = analysis.scenario;
    PortBound {
        port: scenario.port_name(port),
        direction,
        queue: scenario.port(port).queue.kind().into(),
        class: analysis.class_of(flow, port),
        line_rate: scenario.port_rate(port).0,
        frame_bits: Number(analysis.flows.flows[flow].frame.clone()),
        contribution: Bound::Unbounded(reason),
        terms: None,
    }
}
