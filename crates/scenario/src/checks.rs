//! Checks across tables: queues against the streams that use them, load against links.

use std::collections::HashSet;
use std::ops::Range;

use units::{FrameSize, Nanos, Rate};

use crate::counted::Counted;
use crate::diagnostic::Sink;
use crate::hosts::Hosts;
use crate::links::Links;
use crate::ports::{Ports, need, through};
use crate::queue::{Classes, GateSchedule, Queue, Shaper};
use crate::queues::QueueDraft;
use crate::streams::Streams;
use crate::traffic::AllTraffic;

/// Share of a link that credit-based shapers may reserve by convention (802.1Q §34.3), in percent.
const RESERVABLE_PERCENT: u128 = 75;

/// What the checks look at.
pub(crate) struct Model<'a> {
    pub(crate) hosts: &'a Hosts,
    pub(crate) links: &'a Links,
    pub(crate) ports: &'a Ports,
    pub(crate) streams: &'a Streams,
    pub(crate) traffic: &'a AllTraffic,
}

/// A port with a queue from the file.
struct At<'a> {
    index: usize,
    name: String,
    rate: Rate,
    queue: &'a Queue,
    draft: &'a QueueDraft,
}

/// What has been said already: an entry for many ports is blamed once.
type Said = HashSet<(Range<usize>, &'static str, u8)>;

impl Model<'_> {
    fn port_name(&self, port: usize) -> String {
        let port = &self.ports.list[port];
        format!("{} → {}", self.hosts.name(port.host), self.hosts.name(port.peer))
    }

    fn rate(&self, port: usize) -> Rate {
        self.links.list[self.ports.list[port].link.0].rate
    }

    /// Runs all of them.
    pub(crate) fn check(&self, sink: &mut Sink) {
        let mut said = Said::new();
        for (index, port) in self.ports.list.iter().enumerate() {
            let Some(draft) = self.ports.draft_of[index].map(|draft| &self.ports.drafts[draft]) else { continue };
            if !draft.usable {
                continue;
            }
            let at = At { index, name: self.port_name(index), rate: self.rate(index), queue: &port.queue, draft };
            self.slopes(&at, &mut said, sink);
            self.launch(&at, &mut said, sink);
            if let Queue::Taprio { classes, schedule } = &port.queue {
                self.gates(&at, classes, schedule, &mut said, sink);
            }
        }
        self.unused_shares(sink);
        self.load(sink);
    }

    fn slopes(&self, at: &At<'_>, said: &mut Said, sink: &mut Sink) {
        let mut sum = 0;
        let mut last = None;
        for slope in &at.draft.slopes {
            let Some(cbs) = at.queue.cbs(slope.value) else { continue };
            let (class, span) = (slope.value, &slope.span);
            sum += u128::from(cbs.idle_slope.0);
            last = Some(span);
            if cbs.idle_slope > at.rate {
                if said.insert((span.clone(), "rate", class)) {
                    sink.error(
                        span,
                        format!("idle_slope {} at {} is above the link's {}", cbs.idle_slope, at.name, at.rate),
                        format!("expected at most {}", at.rate),
                        "a port cannot send faster than its link: lower the slope, or raise `rate` of the link",
                    );
                }
                // The sum is above the rate for the same reason.
                return;
            }
            let counted = at.queue.counted(class, &self.hosts.list[self.ports.list[at.index].host.0].kind);
            let need = need(at.queue, class, at.index, &self.streams.list, counted, false);
            // Linux is told whole kbit/s, rounded up.
            let told = if counted.is_hardware() { cbs.idle_slope.0 } else { cbs.idle_slope.0.next_multiple_of(1_000) };
            if u128::from(told) * 1_000_000 < need {
                let need = Rate(need.div_ceil(1_000_000_000) as u64 * 1_000);
                if said.insert((span.clone(), "need", class)) {
                    sink.warning(
                        span,
                        format!(
                            "idle_slope {} at {} is less than the {need} its streams need{}: they are delayed more with \
                             every frame, and lost when the queue is full",
                            cbs.idle_slope,
                            at.name,
                            if counted == Counted::Socket { " without FCS, preamble and gap, as Linux counts" } else { "" }
                        ),
                        format!("{need} or more would do"),
                        "write `idle_slope = \"100%\"` or more; leave it when this is what is to be seen",
                    );
                }
            }
        }
        let Some(span) = last else { return };
        let rate = u128::from(at.rate.0);
        if sum > rate {
            if said.insert((span.clone(), "sum", 0)) {
                sink.error(
                    span,
                    format!("the slopes at {} sum to {}, above the link's {}", at.name, Rate(sum as u64), at.rate),
                    format!("expected a sum of at most {}", at.rate),
                    "lower a slope, or raise `rate` of the link",
                );
            }
        } else if sum * 100 > rate * RESERVABLE_PERCENT && said.insert((span.clone(), "most", 0)) {
            sink.warning(
                span,
                format!("the slopes at {} reserve {} of the link's {}", at.name, Rate(sum as u64), at.rate),
                format!("by convention at most {RESERVABLE_PERCENT}%"),
                "other traffic has the rest alone; lower a slope, or raise `rate` of the link",
            );
        }
    }

    /// An ETF queue drops what has no launch time.
    fn launch(&self, at: &At<'_>, said: &mut Said, sink: &mut Sink) {
        for (stream, span) in self.streams.list.iter().zip(&self.streams.spans) {
            let first = stream.path.first().is_some_and(|port| port.0 == at.index)
                || stream.echo && stream.return_path.first().is_some_and(|port| port.0 == at.index);
            let etf = match at.queue {
                Queue::Etf(etf) => Some(etf),
                Queue::Mqprio(classes) | Queue::Taprio { classes, .. } => {
                    match classes.shapers.get(usize::from(at.queue.class_of(stream.pcp))) {
                        Some(Shaper::Etf(etf)) => Some(etf),
                        _ => None,
                    }
                }
                _ => None,
            };
            let dropped = first && !stream.launch && etf.is_some_and(|etf| !etf.skip_sock_check);
            if dropped && said.insert((span.clone(), "launch", 0)) {
                sink.warning(
                    span,
                    format!(
                        "stream \"{}\" has no launch time, and etf at {} drops what has none",
                        stream.name, at.name
                    ),
                    "every frame is lost there",
                    "write `launch = true` for the stream, or `skip_sock_check = true` for etf",
                )
                .and(at.draft.span.clone(), "the queue");
            }
        }
    }

    fn gates(&self, at: &At<'_>, classes: &Classes, schedule: &GateSchedule, said: &mut Said, sink: &mut Sink) {
        let streams = through(at.index, &self.streams.list).map(|stream| (stream.pcp, stream.frame(), true));
        let traffic = self
            .traffic
            .list
            .iter()
            .filter(|traffic| traffic.path.iter().any(|way| way.0 == at.index))
            .map(|traffic| (traffic.pcp, traffic.frame(), false));
        let frames: Vec<(u8, FrameSize, bool)> =
            streams.chain(traffic).map(|(pcp, frame, stream)| (at.queue.class_of(pcp), frame, stream)).collect();
        for class in 0..classes.shapers.len() as u8 {
            let own: Vec<_> = frames.iter().filter(|(of, ..)| *of == class).collect();
            let Some(largest) = own.iter().map(|(_, frame, _)| frame.physical_bits()).max() else { continue };
            let Some(window) = longest_window(schedule, class) else { continue };
            let span = &at.draft.schedule;
            if window == Nanos::ZERO {
                if said.insert((span.clone(), "never", class)) {
                    let stream = own.iter().any(|(.., stream)| *stream);
                    let who = if stream { "streams use it" } else { "traffic uses it" };
                    let message = format!("the gate of class {class} at {} never opens, although {who}", at.name);
                    let expected = format!("expected an entry with class {class} in `gates`");
                    let help = format!("add {class} to `gates` of an entry, or change `map`");
                    if stream {
                        sink.error(span, message, expected, help);
                    } else {
                        sink.warning(span, message, expected, help);
                    }
                }
                continue;
            }
            let needed = at.rate.transmission(largest).to_nanos_ceil();
            if window < needed && said.insert((span.clone(), "short", class)) {
                sink.warning(
                    span,
                    format!(
                        "the gate of class {class} at {} is open for {window}, its largest frame takes {needed}",
                        at.name
                    ),
                    format!("{needed} or more would let it through"),
                    "a frame that does not fit before the gate closes waits for ever: make the interval longer",
                );
            }
        }
    }

    /// A slope as a share of the need says nothing where no stream is.
    fn unused_shares(&self, sink: &mut Sink) {
        if !self.streams.complete {
            return;
        }
        for (index, draft) in self.ports.drafts.iter().enumerate().filter(|(_, draft)| draft.usable) {
            for share in &draft.shares {
                let used = (0..self.ports.list.len()).any(|port| {
                    self.ports.draft_of[port] == Some(index)
                        && need(&draft.queue, share.value.0, port, &self.streams.list, Counted::Line, false) > 0
                });
                if !used {
                    sink.warning(
                        &share.span,
                        format!(
                            "idle_slope is a share of what class {} needs, but no stream uses it here",
                            share.value.0
                        ),
                        "a share of nothing",
                        "the class goes unshaped; give a rate, or check `at`, `map` and the `pcp` of the streams",
                    );
                }
            }
        }
    }

    /// Streams and steady traffic against the rates of links.
    fn load(&self, sink: &mut Sink) {
        let mut blamed = HashSet::new();
        for port in 0..self.ports.list.len() {
            let rate = self.rate(port);
            // One class holds them all in a FIFO, which is what load on the link means.
            let load = need(&Queue::Fifo, 0, port, &self.streams.list, Counted::Line, false);
            if load <= u128::from(rate.0) * 1_000_000 {
                continue;
            }
            let last = self.streams.list.iter().rposition(|stream| {
                stream.path.iter().any(|way| way.0 == port)
                    || stream.echo && stream.return_path.iter().any(|way| way.0 == port)
            });
            if let Some(last) = last.filter(|last| blamed.insert(*last)) {
                sink.warning(
                    &self.streams.spans[last],
                    format!(
                        "the streams at {} offer {}, above the link's {rate}",
                        self.port_name(port),
                        Rate((load / 1_000_000_000) as u64 * 1_000)
                    ),
                    "with this stream they are more than the link carries",
                    "raise `rate` of the link, lengthen the cycle, or send fewer variables",
                );
            }
        }
        for (traffic, span) in self.traffic.list.iter().zip(&self.traffic.spans) {
            let slowest = traffic.path.iter().map(|port| port.0).min_by_key(|port| self.rate(*port));
            if let (Some(wanted), Some(port)) = (traffic.rate, slowest)
                && wanted > self.rate(port)
            {
                sink.warning(
                    span,
                    format!("traffic of {wanted} is above the {} of {}", self.rate(port), self.port_name(port)),
                    format!("the link carries {} at most", self.rate(port)),
                    "lower `rate` of the traffic, or raise that of the link; tcp slows down by itself",
                );
            }
        }
    }
}

/// The longest time without a break that the gate of `class` is open; zero if never, `None` if always.
fn longest_window(schedule: &GateSchedule, class: u8) -> Option<Nanos> {
    let open = |index: usize| schedule.entries[index].gates >> class & 1 == 1;
    let count = schedule.entries.len();
    let closed = (0..count).find(|index| !open(*index))?;
    let (mut run, mut longest) = (Nanos::ZERO, Nanos::ZERO);
    // Once round, beginning with a closed entry, so that a window across the end of the cycle is whole.
    for index in (closed..closed + count).map(|index| index % count) {
        run = if open(index) { run + schedule.entries[index].interval } else { Nanos::ZERO };
        longest = longest.max(run);
    }
    Some(longest)
}
