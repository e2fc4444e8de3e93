//! What a port gives a class at least, and how bursts grow from port to port.
//!
//! # Why the bound holds
//!
//! Count the bits of a class in the order of its frames; `B(k..n)` are those of frames k to n − 1. Every
//! port here guarantees when frame n *starts* at the latest:
//!
//! > start(n) ≤ max over k ≤ n of arrival(k) + T + B(k..n)/R
//!
//! * One queue, or all shaped alike at the root: k opens the busy period (or the last period of credit
//!   below zero, which recovers at idleSlope); T = 0, R = line rate (idleSlope).
//! * Strict priority: k is the class's first frame in the busy period of it and what is above it. One
//!   lower frame is already on the line, all from above goes first: with their arrivals within
//!   b_H + r_H·t, R = C − r_H and T = (L_N + b_H)/R.
//! * A shaped class above may be waiting for credit, so its arrivals say nothing; but what it sends
//!   within t is at most R_A·t + highest − lowest credit = R_A·t + R_A·T_A + L_A·(C − R_A)/C, whatever arrives.
//! * Behind gates: see [`crate::gates`] and [`crate::gated`], [`crate::assisted`] and [`crate::gated_cbs`].
//! * Released by launch time: as if it came when it is released, `delta` before the launch without offload. A frame that
//!   an etf queue drops has no delay.
//! * Shaped: start(n) is where credit says, arrival(k) + (credit at start + B(k..n))/R. Credit above zero is
//!   gained only while blocked, at most R·T with T as for strict priority (R = C − r_H there), and L_N the
//!   larger of a lower and an own frame when unshaped classes are above. Needs R ≤ C − r_H.
//! * Any order (FQ-CoDel): with arrivals of all flows within b + r·t, a busy period is over, and a frame has begun, after at
//!   most (b − L)/(C − r) ≤ (b − L)/C + T with R = C and T = b·r/(C·(C − r)), whichever flow has its turn and whichever share a
//!   queue: that is a hash, new at each boot. What is dropped makes it shorter. Such a port is a stretch of its own, as frames
//!   overtake each other there.
//! * Shaped by Linux itself: see [`crate::linux_cbs`].
//!
//! A frame is at the next queue L/C + propagation + bridge latency after its start. Inserting one port
//! into the next, the B(k..n) add up to one sum, hence one burst over a stretch that all flows of the
//! class share (b − L bits before the frame itself, r ≤ min R), one T for each port, one frame L_max/C
//! for each port but the last and the frame's own L/C there.

use std::collections::HashMap;

use num_traits::Zero;
use scenario::{Classes, Credits, PortId, Queue, Scenario, Shaper};
use units::Rate;

use crate::Options;
use crate::assisted::Assist;
use crate::exact::{Exact, Number, bits, seconds, whole};
use crate::flow::{Flows, latency, transmission};
use crate::gates::Turns;
use crate::linux_cbs::Others;

/// What a class gets at a port: frames start at the latest as the module's head says.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    /// Bits per second.
    pub(crate) rate: Exact,
    /// Seconds.
    pub(crate) latency: Exact,
    /// Largest frame of a lower class, in bits.
    pub(crate) lower: Exact,
    /// When frames may start, behind gates that are not always open.
    pub(crate) turns: Option<Turns>,
    /// The kernel's launch times, where it gives them.
    pub(crate) assist: Option<Assist>,
    /// Rate and bits ahead of it that a shaped class behind gates takes of the line at most, whatever comes to it.
    pub(crate) takes: Option<[Exact; 2]>,
    /// How rate and latency came about, for people.
    pub(crate) words: String,
}

impl Service {
    /// Nobody else in front of the line.
    pub(crate) fn alone(rate: Exact, words: &str) -> Self {
        Self {
            rate,
            latency: Exact::zero(),
            lower: Exact::zero(),
            turns: None,
            assist: None,
            takes: None,
            words: words.into(),
        }
    }
}

/// A stretch of a path that all flows of the class share.
#[derive(Debug)]
pub(crate) struct Stretch {
    /// Burst of the class where the stretch begins, in bits.
    pub(crate) burst: Exact,
    /// Bits per second of the class.
    pub(crate) rate: Exact,
    /// Largest frame of the class, in bits.
    pub(crate) largest: Exact,
    /// Each port's service.
    pub(crate) services: Vec<Service>,
    /// Index within the stretch of the port with the lowest rate.
    pub(crate) slowest: usize,
}

impl Stretch {
    /// (b − L)/min R for a frame of `frame` bits.
    pub(crate) fn burst_delay(&self, frame: &Exact) -> Exact {
        (&self.burst - frame) / &self.services[self.slowest].rate
    }
}

/// Bursts and services of one scenario, each computed once.
pub(crate) struct Analysis<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) flows: Flows,
    pub(crate) unnamed: Exact,
    /// How far clocks of two hosts are apart, in seconds.
    pub(crate) clocks: Exact,
    /// By flow and index in its path; `None` while being computed.
    bursts: HashMap<(usize, usize), Option<Result<Exact, String>>>,
    services: HashMap<(PortId, u8), Result<Service, String>>,
}

impl<'a> Analysis<'a> {
    pub(crate) fn new(scenario: &'a Scenario, options: &Options) -> Self {
        Self {
            scenario,
            flows: Flows::new(scenario, options),
            unnamed: bits(options.unnamed_frame_bytes),
            clocks: seconds(options.clock_error),
            bursts: HashMap::new(),
            services: HashMap::new(),
        }
    }

    /// The class of a flow at a port.
    pub(crate) fn class_of(&self, flow: usize, port: PortId) -> u8 {
        self.scenario.port(port).queue.class_of(self.flows.flows[flow].pcp)
    }

    /// Flows of a class at a port.
    pub(crate) fn members(&self, port: PortId, class: u8) -> Vec<usize> {
        self.flows.in_class(self.scenario, port, class).collect()
    }

    /// What `class` gets at `port`.
    pub(crate) fn service(&mut self, port: PortId, class: u8) -> Result<Service, String> {
        let name = self.scenario.port_name(port);
        self.service_here(port, class).map_err(|reason| format!("port {name}: {reason}"))
    }

    /// The same for a reason that names the port itself.
    pub(crate) fn service_here(&mut self, port: PortId, class: u8) -> Result<Service, String> {
        if let Some(known) = self.services.get(&(port, class)) {
            return known.clone();
        }
        let found = self.find_service(port, class);
        self.services.insert((port, class), found.clone());
        found
    }

    fn find_service(&mut self, port: PortId, class: u8) -> Result<Service, String> {
        let scenario = self.scenario;
        let line = whole(scenario.port_rate(port).0);
        if let Some(credits) = self.linux_credits(port, class) {
            self.keeps_fractions(port, class, &credits)?;
        }
        match &scenario.port(port).queue {
            Queue::Fifo => Ok(Service::alone(line, "one queue: R = C, T = 0")),
            Queue::Cbs(cbs) => {
                if let Some(credits) = self.linux_credits(port, 0) {
                    return self.linux_shaped(port, 0, &credits, Others::default());
                }
                Ok(Service::alone(slope(cbs.idle_slope).min(line), "shaped at the root: R = idleSlope, T = 0"))
            }
            Queue::Etf(_) => {
                self.launched(port, class)?;
                Ok(Service::alone(line, "released by launch time: R = C, T = 0 from then on"))
            }
            Queue::FqCodel => self.any_order(port),
            Queue::Taprio { classes, schedule } => self.gated(port, class, classes, schedule),
            Queue::Mqprio(classes) => self.strict(port, class, classes),
        }
    }

    /// Strict priority between shaped and unshaped classes.
    fn strict(&mut self, port: PortId, class: u8, classes: &Classes) -> Result<Service, String> {
        let scenario = self.scenario;
        let line = whole(scenario.port_rate(port).0);
        // What classes above take: rate, and bits ahead of it.
        let (mut above_rate, mut above_bits) = (Exact::zero(), Exact::zero());
        let mut unshaped_above = false;
        for above in class.saturating_add(1)..8 {
            let members = self.members(port, above);
            if members.is_empty() {
                continue;
            }
            match (self.linux_credits(port, above), classes.shapers.get(usize::from(above))) {
                (Some(credits), _) => {
                    let (rate, bits) = self.linux_share(port, above, &credits);
                    above_bits += bits;
                    above_rate += rate;
                }
                (None, Some(Shaper::Cbs(_))) => {
                    let largest = self.flows.largest(scenario, port, above..above + 1);
                    let service = self.service_here(port, above)?;
                    above_bits += &service.rate * service.latency + largest * (&line - &service.rate) / &line;
                    above_rate += service.rate;
                }
                (None, shaper) => {
                    if matches!(shaper, Some(Shaper::Etf(_))) {
                        self.launched(port, above)?;
                    }
                    unshaped_above = true;
                    let (burst, rate) = self.arrivals(port, above).map_err(|reason| goes_first(above, &reason))?;
                    above_rate += rate;
                    above_bits += burst;
                }
            }
        }
        let lower = self.flows.largest(scenario, port, 0..class).max(self.unnamed.clone());
        let residual = &line - &above_rate;
        if residual <= Exact::zero() {
            return Err(format!("classes above {class} may take the whole line of {}", scenario.port_rate(port)));
        }
        if let Some(credits) = self.linux_credits(port, class) {
            return self.linux_shaped(port, class, &credits, Others { above_bits, above_rate, lower });
        }
        let top = above_rate.is_zero();
        let (rate, blocking, words) = match classes.shapers.get(usize::from(class)) {
            Some(Shaper::Cbs(cbs)) => {
                let idle = slope(cbs.idle_slope);
                if !top && idle > residual {
                    return Err(format!(
                        "idleSlope {} of class {class} is more than the {} bit/s that classes above leave",
                        cbs.idle_slope,
                        Number(residual)
                    ));
                }
                let own = self.flows.largest(scenario, port, class..class + 1);
                let blocking = if unshaped_above { own.max(lower.clone()) } else { lower.clone() };
                let words = if top {
                    "shaped, top class: R = idleSlope, T = L_N/C"
                } else {
                    "shaped, below others: R = idleSlope, T = (L_N + b_H)/(C − r_H)"
                };
                (idle.min(residual.clone()), blocking, words)
            }
            shaper => {
                if matches!(shaper, Some(Shaper::Etf(_))) {
                    self.launched(port, class)?;
                }
                let words = if top {
                    "top class: R = C, T = L_N/C"
                } else {
                    "below others: R = C − r_H, T = (L_N + b_H)/(C − r_H)"
                };
                (residual.clone(), lower.clone(), words)
            }
        };
        let mut words = words.to_owned();
        if !top {
            words += &format!(", r_H = {} bit/s, b_H = {} bit", Number(above_rate), Number(above_bits.clone()));
        }
        Ok(Service { latency: (blocking + above_bits) / residual, lower, ..Service::alone(rate, &words) })
    }

    /// A port that sends whenever something waits, in an order of its own.
    fn any_order(&mut self, port: PortId) -> Result<Service, String> {
        let line = whole(self.scenario.port_rate(port).0);
        let (burst, rate) = self.arrivals(port, 0).map_err(|reason| {
            format!("fq_codel may put all flows into one queue, by a hash that is new at each boot: {reason}")
        })?;
        if rate >= line {
            return Err(format!("{} bit/s of {} bit/s arrive: fq_codel drops", Number(rate), Number(line)));
        }
        let latency = burst * &rate / (&line * (&line - rate));
        Ok(Service { latency, ..Service::alone(line, "flows in any order: R = C, T = b·r/(C·(C − r))") })
    }

    /// What Linux is told of a class that it shapes itself.
    pub(crate) fn linux_credits(&self, port: PortId, class: u8) -> Option<Credits> {
        self.scenario.linux_credits(port).get(usize::from(class)).copied().flatten()
    }

    /// Burst and rate of all frames of a class that come to a port.
    pub(crate) fn arrivals(&mut self, port: PortId, class: u8) -> Result<(Exact, Exact), String> {
        let (mut burst, mut rate) = (Exact::zero(), Exact::zero());
        for flow in self.members(port, class) {
            let position = self.flows.position(flow, port);
            let source = self.flows.flows[flow].source.clone();
            rate += source?.1;
            burst += self.burst(flow, position)?;
        }
        Ok((burst, rate))
    }

    /// Refuses a class released by launch times that has frames without: an etf queue drops them.
    pub(crate) fn launched(&self, port: PortId, class: u8) -> Result<(), String> {
        let without = |flow: &usize| {
            let given = &self.flows.flows[*flow];
            !given.launch || self.flows.position(*flow, port) > 0
        };
        match self.members(port, class).into_iter().find(without) {
            None => Ok(()),
            Some(flow) => {
                Err(format!("etf drops frames of {}: they have no launch time here", self.flows.flows[flow].label))
            }
        }
    }

    /// Bits that `flow` may bring at once to the queue at `index` of its path.
    pub(crate) fn burst(&mut self, flow: usize, index: usize) -> Result<Exact, String> {
        let (burst, rate) = self.flows.flows[flow].source.clone()?;
        if index == 0 {
            return Ok(burst);
        }
        match self.bursts.get(&(flow, index)) {
            Some(Some(known)) => return known.clone(),
            Some(None) => {
                return Err(format!(
                    "the burst of {} depends on itself around a ring of ports",
                    self.flows.flows[flow].label
                ));
            }
            None => {}
        }
        self.bursts.insert((flow, index), None);
        let found = self.find_burst(flow, index, &rate);
        self.bursts.insert((flow, index), Some(found.clone()));
        found
    }

    /// The burst where the stretch before `index` begins, plus what the rate brings while the first frame
    /// of an interval may be delayed and the last may not. Bridges may be faster than they say: their
    /// whole latency counts as uncertain.
    fn find_burst(&mut self, flow: usize, index: usize, rate: &Exact) -> Result<Exact, String> {
        let scenario = self.scenario;
        let start = self.flows.stretch_start(scenario, flow, index - 1);
        let stretch = self.stretch(flow, start, index - 1)?;
        let frame = self.flows.flows[flow].frame.clone();
        let mut uncertain = stretch.burst_delay(&frame);
        for (offset, service) in stretch.services.iter().enumerate() {
            let position = start + offset;
            let path = &self.flows.flows[flow].path;
            uncertain += &service.latency + latency(scenario, path[position + 1]);
            // None is faster.
            uncertain -= service.assist.as_ref().map_or_else(Exact::zero, |assist| assist.least.clone());
            if position + 1 < index {
                uncertain += transmission(scenario, path[position], &(&stretch.largest - &frame));
            }
        }
        Ok(self.burst(flow, start)? + rate * uncertain)
    }

    /// The stretch from `start` to `end` (inclusive) of a flow's path, all of it shared by the same flows.
    pub(crate) fn stretch(&mut self, flow: usize, start: usize, end: usize) -> Result<Stretch, String> {
        let path = self.flows.flows[flow].path[start..=end].to_vec();
        let class = self.class_of(flow, path[0]);
        let mut services = Vec::with_capacity(path.len());
        for port in &path {
            services.push(self.service(*port, self.class_of(flow, *port))?);
        }
        let slowest = (0..services.len()).min_by(|a, b| services[*a].rate.cmp(&services[*b].rate)).unwrap_or(0);
        let (mut burst, mut rate) = (Exact::zero(), Exact::zero());
        for member in self.members(path[0], class) {
            let name = |this: &Self| this.scenario.port_name(path[0]);
            rate += match &self.flows.flows[member].source {
                Ok((_, rate)) => rate.clone(),
                Err(reason) => return Err(format!("port {}: the same queue holds more: {reason}", name(self))),
            };
            burst += self.burst(member, self.flows.position(member, path[0]))?;
        }
        if rate > services[slowest].rate {
            return Err(format!(
                "port {}: {} bit/s arrive on average (physical bits of whole frames), {} bit/s are served",
                self.scenario.port_name(path[slowest]),
                Number(rate),
                Number(services[slowest].rate.clone())
            ));
        }
        let largest = self.flows.largest(self.scenario, path[0], class..class + 1);
        Ok(Stretch { burst, rate, largest, services, slowest })
    }
}

/// Why a class gets nothing for sure.
pub(crate) fn goes_first(class: u8, reason: &str) -> String {
    format!("class {class} goes first and {reason}")
}

fn slope(rate: Rate) -> Exact {
    whole(rate.0)
}
