//! Whether a queue of an interface keeps launch times, read from the kernel, and who keeps those of each stream end.

use std::process::Command;

use scenario::Scenario;
use serde::Deserialize;
use serde_json::Value;
use station::{Departure, EndSpec, Launch, Link, Txtime, WorkerSpec};
use units::Nanos;

use crate::error::LabError;

/// A queueing discipline as `tc -j qdisc show` tells it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Qdisc {
    kind: String,
    #[serde(default)]
    handle: String,
    #[serde(default)]
    parent: String,
    #[serde(default)]
    root: bool,
    #[serde(default)]
    options: Value,
}

/// An ETF queue of a traffic class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Etf {
    delta: Nanos,
    offload: bool,
    deadline: bool,
    /// Frames of sockets without launch times pass.
    others_pass: bool,
    /// Below a taprio that helps with launch times (`flags 0x1`).
    assisted: bool,
}

/// Decides how the ends of a host's threads keep their launch times; `queues` tells those of an interface.
///
/// # Errors
/// It cannot be as asked for, or frames would be lost as planned.
pub(crate) fn decide(
    scenario: &Scenario,
    (launch, link): (Launch, Link),
    workers: &mut [WorkerSpec],
    queues: impl Fn(&str) -> Result<Vec<Qdisc>, String>,
) -> Result<(), LabError> {
    let mut known: Vec<(String, Result<Vec<Qdisc>, String>)> = Vec::new();
    for end in workers.iter_mut().flat_map(|worker| &mut worker.ends) {
        if !end.sends(scenario) {
            continue;
        }
        let index = known.iter().position(|(name, _)| *name == end.interface).unwrap_or_else(|| {
            known.push((end.interface.clone(), queues(&end.interface)));
            known.len() - 1
        });
        let found = known[index].1.as_ref().map(Vec::as_slice).map_err(String::as_str);
        let by_xdp = link == Link::Xdp && end.sends_to(scenario).is_none();
        end.departure = departure(scenario, launch, by_xdp, end, found)?;
    }
    Ok(())
}

fn departure(
    scenario: &Scenario,
    launch: Launch,
    by_xdp: bool,
    end: &EndSpec,
    queues: Result<&[Qdisc], &str>,
) -> Result<Option<Departure>, LabError> {
    let stream = &scenario.streams[end.stream];
    let (name, interface, priority) = (&stream.name, &end.interface, stream.pcp);
    let etf = match queues {
        _ if by_xdp => Err("AF_XDP passes the queues by".to_owned()),
        Ok(queues) => etf_of(queues, priority),
        Err(error) => Err(format!("the queues are not known: {error}")),
    };
    let paced = !stream.launch || launch == Launch::Pace;
    if let Ok(Etf { others_pass: false, .. }) = &etf
        && paced
    {
        return Err(LabError::Host {
            what: format!(
                "the etf queue of priority {priority} at {interface} drops every frame without a launch time, and {}",
                if stream.launch {
                    format!("--launch pace gives it none of stream {name}")
                } else {
                    format!("frames of stream {name} have none")
                }
            ),
            mend: "add `skip_sock_check` to the etf queue, or take --launch txtime and `launch = true`".into(),
        });
    }
    if !stream.launch {
        return Ok(None);
    }
    match (launch, etf) {
        (Launch::Pace, _) => Ok(Some(Departure::pace("asked for"))),
        (Launch::Auto, Err(why)) => Ok(Some(Departure::pace(format!("no queue keeps launch times: {why}")))),
        (Launch::Txtime, Err(why)) => Err(LabError::Host {
            what: format!(
                "nothing at {interface} keeps the launch times of stream {name}: {why}; given to the kernel, frames would \
                 leave at once"
            ),
            mend: format!(
                "put an etf queue under the class of priority {priority} (`tc qdisc replace dev {interface} parent … etf \
                 clockid CLOCK_TAI delta 500000 offload`), or take --launch pace"
            ),
        }),
        (Launch::Auto | Launch::Txtime, Ok(etf)) => Ok(Some(etf.departure(interface, priority, launch))),
    }
}

impl Etf {
    fn departure(self, interface: &str, priority: u8, launch: Launch) -> Departure {
        let mechanism = match self {
            Self { deadline: true, .. } => {
                "ETF deadline_mode: at once; the launch time is only a deadline and the order".into()
            }
            Self { offload: true, .. } => {
                "ETF with offload (launch time in the network card): at the launch time".into()
            }
            Self { delta, .. } => format!("ETF without offload: early, at the launch time − {delta} + wake-up latency"),
        };
        let below = if self.assisted { ", below a taprio with txtime-assist" } else { "" };
        let asked = if launch == Launch::Txtime { "asked for; " } else { "" };
        let why = format!("{asked}the class of priority {priority} at {interface} has an etf queue{below}");
        let txtime = if self.deadline { Txtime::Deadline } else { Txtime::Strict };
        Departure { txtime: Some(txtime), needed: !self.others_pass, mechanism, why }
    }
}

/// The ETF queue that frames of a priority come to.
///
/// # Errors
/// Why there is none, in words.
fn etf_of(queues: &[Qdisc], priority: u8) -> Result<Etf, String> {
    let root = queues.iter().find(|queue| queue.root).ok_or("the interface has no queue")?;
    if root.kind == "etf" {
        return read_etf(root, false);
    }
    let places = places(root, priority).ok_or_else(|| format!("its queue is {}, without etf", root.kind))?;
    let assisted = root.kind == "taprio" && flags(root) & 1 != 0;
    let mut all = places.map(|place| {
        let parent = |queue: &&Qdisc| is_place(&queue.parent, &root.handle, place);
        match queues.iter().find(parent) {
            Some(queue) if queue.kind == "etf" => read_etf(queue, assisted),
            Some(queue) => Err(format!("place {place} of its {} has {}, no etf", root.kind, queue.kind)),
            None => Err(format!("place {place} of its {} has no etf", root.kind)),
        }
    });
    let first = all.next().ok_or_else(|| format!("its {} has no queue for priority {priority}", root.kind))??;
    all.try_for_each(|other| match other? {
        other if other == first => Ok(()),
        _ => Err(format!("the etf queues of priority {priority} differ")),
    })?;
    Ok(first)
}

/// The children, counted from 1, that a root may give frames of a priority to; none when it has no classes.
fn places(root: &Qdisc, priority: u8) -> Option<std::ops::RangeInclusive<u64>> {
    let options = &root.options;
    let of = |map: &str| options[map][usize::from(priority & 15)].as_u64();
    match root.kind.as_str() {
        "prio" => of("priomap").map(|band| band + 1..=band + 1),
        "mqprio" => {
            // First and last queue of the class.
            let queues = &options["queues"][of("map")? as usize];
            Some(queues[0].as_u64()? + 1..=queues[1].as_u64()? + 1)
        }
        "taprio" => {
            let queues = &options["queues"][of("map")? as usize];
            let first = queues["offset"].as_u64()?;
            Some(first + 1..=first + queues["count"].as_u64()?)
        }
        _ => None,
    }
}

/// `flags` of taprio, which is told as a text in hexadecimal.
fn flags(taprio: &Qdisc) -> u64 {
    let text = taprio.options["flags"].as_str().unwrap_or_default();
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or(0)
}

/// Whether `parent` ("100:a") is that child of a root; both of its numbers are hexadecimal.
fn is_place(parent: &str, handle: &str, place: u64) -> bool {
    parent.split_once(':').is_some_and(|(major, minor)| {
        major == handle.trim_end_matches(':') && u64::from_str_radix(minor, 16) == Ok(place)
    })
}

fn read_etf(etf: &Qdisc, assisted: bool) -> Result<Etf, String> {
    let on = |option: &str| etf.options[option] == "on";
    match etf.options["clockid"].as_str() {
        Some("TAI") => Ok(Etf {
            delta: Nanos(etf.options["delta"].as_i64().unwrap_or(0)),
            offload: on("offload"),
            deadline: on("deadline_mode"),
            others_pass: on("skip_sock_check"),
            assisted,
        }),
        clock => Err(format!("its etf queue has the clock {}, not TAI", clock.unwrap_or("of nobody"))),
    }
}

/// The queues of an interface, in a namespace if one is named.
///
/// # Errors
/// What `tc` said, or that it is missing.
pub(crate) fn queues(namespace: Option<&str>, interface: &str) -> Result<Vec<Qdisc>, String> {
    let mut command = Command::new("tc");
    if let Some(namespace) = namespace {
        command.args(["-n", namespace]);
    }
    let output =
        command.args(["-j", "qdisc", "show", "dev", interface]).output().map_err(|error| format!("tc: {error}"))?;
    if !output.status.success() {
        return Err(format!("tc: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    read(&String::from_utf8_lossy(&output.stdout))
}

fn read(text: &str) -> Result<Vec<Qdisc>, String> {
    serde_json::from_str(&tsn::named_json(text))
        .map_err(|error| format!("tc told something else than expected: {error}"))
}

#[cfg(test)]
#[path = "departure_tests.rs"]
mod tests;
