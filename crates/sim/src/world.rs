//! The network in virtual time: what happens when, and to whom.

use measure::{Event, EventKind, LAUNCH_INVALID, LAUNCH_MISSED};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;
use scenario::{PortId, Queue, Scenario};
use units::{Nanos, Picos};

use crate::agenda::{Agenda, Happening};
use crate::flow::{Flow, Receiver, Source};
use crate::frames::{FrameId, Frames};
use crate::latency::HostLatency;
use crate::outcome::{Drops, Network, Options, SimError, StreamDelays, TrafficCount};
use crate::port::{Cause, Making, OutputPort, Packet};
use crate::station::{Hand, StreamEnd};

/// ENOBUFS: what a socket hears from a full queue.
const NO_BUFFER_SPACE: i32 = 105;

/// Ends of a stream by index into [`World::ends`] and, the same, flows of its directions into [`World::flows`].
const DIRECTIONS: usize = 2;

/// A run of a scenario.
pub(crate) struct World<'a> {
    agenda: Agenda,
    frames: Frames,
    ports: Vec<OutputPort>,
    flows: Vec<Flow>,
    ends: Vec<StreamEnd>,
    sources: Vec<Source>,
    /// Phases and traffic stop here, and so do the events; frames under way still finish their way.
    end: Picos,
    keep_delays: bool,
    network: Network,
    drops: Vec<Vec<Drops>>,
    sink: &'a mut dyn FnMut(Event),
}

impl<'a> World<'a> {
    /// Everything in its place at the base time.
    pub(crate) fn new(
        scenario: &Scenario,
        options: &Options,
        sink: &'a mut dyn FnMut(Event),
    ) -> Result<Self, SimError> {
        options.latencies().try_for_each(HostLatency::check)?;
        let end = length(scenario, options)?;
        let (flows, sources) = flows(scenario, options.seed);
        let ports = ports(scenario, &flows)?;
        let drops = ports
            .iter()
            .enumerate()
            .map(|(port, it)| {
                let class = |class| Drops { port: PortId(port), class, stream_frames: 0, traffic_frames: 0 };
                (0..it.classes() as u8).map(class).collect()
            })
            .collect();
        let mut ends = Vec::with_capacity(DIRECTIONS * scenario.streams.len());
        for index in 0..scenario.streams.len() {
            for direction in 0..DIRECTIONS {
                ends.push(StreamEnd::new(scenario, options, index, direction)?);
            }
        }
        let network = Network {
            delays: vec![StreamDelays::default(); scenario.streams.len()],
            drops: Vec::new(),
            traffic: vec![TrafficCount::default(); scenario.traffic.len()],
            frame_hops: 0,
        };
        Ok(Self {
            agenda: Agenda::default(),
            frames: Frames::default(),
            ports,
            flows,
            ends,
            sources,
            end,
            keep_delays: options.keep_delays,
            network,
            drops,
            sink,
        })
    }

    /// Runs to the end.
    pub(crate) fn run(mut self) -> Network {
        for index in 0..self.ends.len() {
            self.plan_phase(index, Picos::ZERO);
        }
        for index in 0..self.sources.len() {
            let at = self.sources[index].next_at();
            self.agenda.push(at, Happening::Traffic(index as u32));
        }
        while let Some((now, what)) = self.agenda.pop() {
            match what {
                Happening::Enqueue(frame) => self.enqueue(now, frame, None),
                Happening::Arrive(frame) => self.arrive(now, frame),
                Happening::Sent(port) => self.sent(now, port as usize),
                Happening::Look(port) => {
                    if self.ports[port as usize].looked(now) {
                        self.serve(now, port as usize);
                    }
                }
                Happening::Traffic(source) => self.traffic(now, source as usize),
                Happening::Phase(end) => self.phase(now, end as usize),
            }
        }
        let dropped = |drops: &Drops| drops.stream_frames + drops.traffic_frames > 0;
        self.network.drops = self.drops.into_iter().flatten().filter(dropped).collect();
        self.network
    }

    fn plan_phase(&mut self, index: usize, now: Picos) {
        if let Some(at) = self.ends[index].plan(now, self.end, self.sink) {
            self.agenda.push(at, Happening::Phase(index as u32));
        }
    }

    fn phase(&mut self, now: Picos, index: usize) {
        if now >= self.end {
            return;
        }
        match self.ends[index].phase(now, &mut self.frames, self.sink) {
            Hand::Nothing => {}
            Hand::ToLaunch(frame, launch) => self.enqueue(now, frame, Some(launch)),
            // A frame without launch time, or too late for it, goes to the port as it is handed over.
            Hand::Over(frame, at) if at <= now => self.enqueue(now, frame, None),
            Hand::Over(frame, at) => self.agenda.push(at, Happening::Enqueue(frame)),
        }
        if self.ends[index].is_stopped() {
            // A breach stops the run.
            self.end = self.end.min(now);
        }
        self.plan_phase(index, now);
    }

    fn traffic(&mut self, now: Picos, index: usize) {
        if now >= self.end {
            return;
        }
        let flow = self.sources[index].flow;
        let greedy = self.sources[index].is_greedy();
        self.add_traffic(now, flow);
        if !greedy {
            self.sources[index].count();
            let at = self.sources[index].next_at();
            self.agenda.push(at, Happening::Traffic(index as u32));
        }
    }

    fn add_traffic(&mut self, now: Picos, flow: usize) {
        if let Receiver::Traffic(traffic) = self.flows[flow].receiver {
            self.network.traffic[traffic].sent += 1;
        }
        let frame = self.frames.add(flow as u32, 0, &[]);
        self.enqueue(now, frame, None);
    }

    /// A frame reaches the output queue of its hop.
    fn enqueue(&mut self, now: Picos, id: FrameId, launch: Option<Picos>) {
        let frame = self.frames.get_mut(id);
        let flow = &self.flows[frame.flow as usize];
        let hop = flow.hops[frame.hop as usize];
        if frame.hop == 0 {
            frame.entered = self.ports[hop.port].release(now, hop.class, launch);
        }
        // A greedy source blocks on its full socket instead of losing.
        let always = flow.greedy && frame.hop == 0;
        let (priority, flow, counted) = (flow.priority, flow.bucket, flow.counted);
        let packet = Packet { frame: id, priority, flow, counted, launch };
        if let Err(cause) = self.ports[hop.port].enqueue(now, hop.class, packet, always) {
            self.lose(now, id, cause);
        }
        self.serve(now, hop.port);
    }

    /// A port has lost a frame.
    fn lose(&mut self, now: Picos, id: FrameId, cause: Cause) {
        let frame = self.frames.get(id);
        let flow = &self.flows[frame.flow as usize];
        let hop = flow.hops[frame.hop as usize];
        let errno = match cause {
            Cause::Full | Cause::TooLong | Cause::Gate => Some(NO_BUFFER_SPACE),
            Cause::LaunchInvalid => Some(LAUNCH_INVALID),
            Cause::LaunchMissed => Some(LAUNCH_MISSED),
            Cause::Codel => None,
        };
        let (first, handle) = (frame.hop == 0, frame.handle);
        let (receiver, index) = (flow.receiver, frame.flow as usize);
        let again = first && flow.greedy && now < self.end;
        let drops = &mut self.drops[hop.port][hop.class];
        match receiver {
            Receiver::Traffic(traffic) => {
                drops.traffic_frames += 1;
                self.network.traffic[traffic].dropped += 1;
            }
            Receiver::End(end) => {
                drops.stream_frames += 1;
                if let (true, Some(errno)) = (first, errno) {
                    self.emit(now, end ^ 1, EventKind::NotSent { handle, errno });
                }
            }
        }
        self.frames.remove(id);
        if again {
            // A greedy source keeps one frame waiting.
            self.add_traffic(now, index);
        }
    }

    /// Lets a port begin to send if it can.
    fn serve(&mut self, now: Picos, port: usize) {
        let next = self.ports[port].next(now);
        while let Some((id, cause)) = self.ports[port].lost() {
            self.lose(now, id, cause);
        }
        if let Some(at) = self.ports[port].look() {
            self.agenda.push(at, Happening::Look(port as u32));
        }
        let Some(id) = next else { return };
        let frame = self.frames.get(id);
        let (index, hop, handle) = (frame.flow as usize, frame.hop, frame.handle);
        let flow = &self.flows[index];
        let (receiver, greedy) = (flow.receiver, flow.greedy);
        self.agenda.push(now + flow.hops[hop as usize].transmission, Happening::Sent(port as u32));
        self.network.frame_hops += 1;
        if hop > 0 {
            return;
        }
        if let Receiver::End(end) = receiver {
            let at = self.ends[end].tai(now);
            self.emit(now, end ^ 1, EventKind::Left { handle, at });
        } else if greedy && now < self.end {
            self.add_traffic(now, index);
        }
    }

    fn sent(&mut self, now: Picos, port: usize) {
        if let Some(id) = self.ports[port].sent(now) {
            let frame = self.frames.get_mut(id);
            let hops = &self.flows[frame.flow as usize].hops;
            let at = now + hops[frame.hop as usize].after;
            frame.hop += 1;
            let last = frame.hop as usize == hops.len();
            self.agenda.push(at, if last { Happening::Arrive(id) } else { Happening::Enqueue(id) });
        }
        self.serve(now, port);
    }

    fn arrive(&mut self, now: Picos, id: FrameId) {
        let frame = self.frames.get(id);
        match self.flows[frame.flow as usize].receiver {
            Receiver::Traffic(traffic) => {
                self.network.traffic[traffic].received += u64::from(now < self.end);
                self.frames.remove(id);
            }
            Receiver::End(end) => {
                let delays = &mut self.network.delays[end / DIRECTIONS];
                let delays = if end % DIRECTIONS == 1 { &mut delays.forward } else { &mut delays.back };
                delays.push(now - frame.entered, self.keep_delays);
                if now < self.end {
                    self.ends[end].arrive(now, id, &mut self.frames, self.sink);
                } else {
                    self.frames.remove(id);
                }
            }
        }
    }

    fn emit(&mut self, now: Picos, end: usize, kind: EventKind) {
        if now < self.end {
            (self.sink)(self.ends[end].event(kind));
        }
    }
}

/// How long a run lasts; everything later has to fit into the clock too, so half of it may be used.
fn length(scenario: &Scenario, options: &Options) -> Result<Picos, SimError> {
    if options.cycles == 0 {
        return Err(SimError::NoCycles);
    }
    let cycle = i128::from(scenario.cycle.0) * 1000;
    // What may come on top of the end: a launch offset, a cycle of a stream and a late wake-up.
    let longest = scenario
        .streams
        .iter()
        .map(|stream| i128::from(stream.offset.0.max(0)) + 2 * i128::from(stream.cycle.0))
        .max()
        .unwrap_or(0)
        + i128::from(options.latencies().map(|latency| latency.max().0).max().unwrap_or(0));
    let fits = (i128::from(i64::MAX) / 2 - longest * 1000).min(i128::from(i64::MAX - scenario.base_time.0) * 1000);
    let most = (fits / cycle.max(1)).max(0);
    if i128::from(options.cycles) > most {
        return Err(SimError::TooLong { cycles: options.cycles, most: most as u64 });
    }
    Ok(Picos((i128::from(options.cycles) * cycle) as i64))
}

/// Flows of the streams (two each) and of traffic, and the sources of traffic.
fn flows(scenario: &Scenario, seed: u64) -> (Vec<Flow>, Vec<Source>) {
    let mut flows = Vec::new();
    for (index, stream) in scenario.streams.iter().enumerate() {
        let flow = |path, end| Flow::new(scenario, path, stream.frame(), stream.pcp, Receiver::End(end));
        flows.push(flow(&stream.path, DIRECTIONS * index + 1));
        flows.push(flow(&stream.return_path, DIRECTIONS * index));
        // Linux tells flows apart by what is in an IP header; of other frames it knows EtherType and tag.
        let alike =
            |other: &scenario::Stream| other.udp.is_none() && (other.vid, other.pcp) == (stream.vid, stream.pcp);
        let first = scenario.streams.iter().position(alike).filter(|_| stream.udp.is_none());
        for (direction, flow) in flows[DIRECTIONS * index..].iter_mut().enumerate() {
            flow.bucket = first.map_or(DIRECTIONS * index + direction, |first| DIRECTIONS * first) as u32;
        }
    }
    let mut sources = Vec::new();
    for (index, traffic) in scenario.traffic.iter().enumerate() {
        // Named by its ends and its place among those between the same ends.
        let same = |other: &&scenario::Traffic| (other.from, other.to) == (traffic.from, traffic.to);
        let place = scenario.traffic[..index].iter().filter(same).count();
        let ends = [&scenario.host(traffic.from).name, &scenario.host(traffic.to).name];
        let mut random = random(seed, &["traffic", ends[0], ends[1], &place.to_string()]);
        let source = Source::new(scenario, traffic, flows.len(), &mut random);
        let mut flow = Flow::new(scenario, &traffic.path, traffic.frame(), traffic.pcp, Receiver::Traffic(index));
        flow.greedy = source.is_greedy();
        flow.bucket = flows.len() as u32;
        flows.push(flow);
        sources.push(source);
    }
    (flows, sources)
}

/// All output ports; those nobody uses are left plain, whatever their discipline.
fn ports(scenario: &Scenario, flows: &[Flow]) -> Result<Vec<OutputPort>, SimError> {
    let mut used = vec![false; scenario.ports.len()];
    for (index, flow) in flows.iter().enumerate() {
        // The way back of a stream without echo carries nothing.
        let idle =
            scenario.streams.get(index / DIRECTIONS).is_some_and(|stream| index % DIRECTIONS == 1 && !stream.echo);
        for hop in flow.hops.iter().filter(|_| !idle) {
            used[hop.port] = true;
        }
    }
    let port = |(index, used): (usize, bool)| {
        let id = PortId(index);
        let queue = if used { &scenario.port(id).queue } else { &Queue::Fifo };
        let cycle = match queue {
            Queue::Taprio { schedule, .. } => schedule.cycle,
            _ => Nanos::ZERO,
        };
        let making = Making {
            rate: scenario.port_rate(id),
            linux: scenario.has_linux_gates(id),
            // They have been running when the simulation begins.
            gates: scenario.gate_phase(id) - cycle,
            late: Picos::ZERO,
            credits: &scenario.linux_credits(id),
        };
        OutputPort::new(queue, &making)
            .map_err(|discipline| SimError::Unsupported { port: scenario.port_name(id), discipline })
    };
    used.into_iter().enumerate().map(port).collect()
}

/// A generator for one thing in the scenario: the key is `seed`, the stream is chosen by the thing's names, so that
/// adding another thing changes nothing for this one.
pub(crate) fn random(seed: u64, names: &[&str]) -> ChaCha8Rng {
    // FNV-1a, 64 bits.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in names.iter().flat_map(|name| name.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(hash);
    random
}
