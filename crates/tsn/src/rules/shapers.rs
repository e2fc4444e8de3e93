//! Rules of credit-based shapers and of launch times.

use scenario::{BULK_FRAMES, Cbs, Counted, Etf, Queue, Shaper, Stream};
use units::{Nanos, Rate};

use super::{Checked, Finding, Severity};
use crate::arithmetic::{self, LONGEST_FRAME_BYTES};
use crate::drivers::Limit;
use crate::qdiscs::span;

pub(super) fn check(at: &Checked<'_>, findings: &mut Vec<Finding>) {
    let mut any = false;
    for class in 0..at.port.class_count() {
        match at.port.shaper(class) {
            Shaper::Cbs(cbs) => {
                any = true;
                counted(at, class, &cbs, findings);
                byte_fractions(at, class, &cbs, findings);
                rounding(at, class, &cbs, findings);
            }
            Shaper::Etf(etf) => launch_times(at, class, &etf, findings),
            Shaper::None => {}
        }
    }
    bulk_at_root(at, findings);
    let (speed, rate) = (at.port.speed(), at.port.rate);
    if any && speed != rate {
        findings.push(at.finding(
            "port-rate",
            Severity::Warning,
            [
                format!("`ethtool` tells {speed} of this interface, its link has {rate}"),
                "the speed of the link: Linux charges the credit at what ethtool tells, and slopes are computed from that".into(),
                format!("give the link `rate = \"{speed}\"`, or use an interface that tells its speed"),
            ],
            "tried, Linux 6.12.117",
        ));
    }
}

/// A root that orders the frames of several transmit queues gives the driver several of them at once, and what comes then waits.
fn bulk_at_root(at: &Checked<'_>, findings: &mut Vec<Finding>) {
    if *at.port.queue != Queue::FqCodel || at.port.queues().is_none_or(|queues| queues < 2) {
        return;
    }
    let held = arithmetic::line_time(at.port.rate, LONGEST_FRAME_BYTES) * i64::from(BULK_FRAMES);
    findings.push(at.finding(
        "bulk-at-root",
        Severity::Note,
        [
            "fq_codel is the root of an interface with several transmit queues".into(),
            format!(
                "Linux hands {BULK_FRAMES} frames to the driver at once there: a new flow, which goes first, may wait for {} all the \
                 same; below mqprio it waits for one",
                span(held)
            ),
            String::new(),
        ],
        "tried with ets, Linux 6.12.117; try_bulk_dequeue_skb_slow",
    ));
}

/// Bits a second that the streams of a class need, by the size that is counted of each frame; rounded up.
fn need(at: &Checked<'_>, class: u8, bytes: impl Fn(&Stream) -> u32) -> u64 {
    let bits = |stream: &Stream| u128::from(bytes(stream)) * 8 * 1_000_000_000;
    at.port.streams_of(class).map(|stream| bits(stream).div_ceil(stream.cycle.0 as u128) as u64).sum()
}

/// Software counts less of a frame than the line takes, so that a slope may be enough there and nowhere else.
fn counted(at: &Checked<'_>, class: u8, cbs: &Cbs, findings: &mut Vec<Finding>) {
    let line = need(at, class, |stream| stream.frame().physical_bytes());
    let software = need(at, class, |stream| stream.frame().socket_bytes());
    let slope = cbs.idle_slope.0;
    if line == 0 || slope >= line {
        return;
    }
    // A slope that is too small for what its shaper counts is a warning of the scenario's reader.
    if at.port.counted[usize::from(class)] == Counted::Socket && slope.next_multiple_of(1_000) >= software {
        findings.push(at.finding(
            "slope-enough-in-software-only",
            Severity::Note,
            [
                format!("idle_slope {} of class {class}, its streams take {} of the line", cbs.idle_slope, Rate(line)),
                format!(
                    "the software shaper counts {}, without FCS, preamble and gap: it delays nothing here; a NIC or a \
                     switch would, by more with every frame",
                    Rate(software)
                ),
                String::new(),
            ],
            "Linux 6.1.192, cbs_dequeue_soft; 802.1Q §34.4",
        ));
    }
}

/// Linux counts whole bytes of credit, and forgets the rest of a byte each time it looks while the class waits: beside a busy
/// class at the end of each of its frames. Told where there is no bound for that reason.
fn byte_fractions(at: &Checked<'_>, class: u8, cbs: &Cbs, findings: &mut Vec<Finding>) {
    let Some(long_run) = at.scenario.long_run(at.port.id, class) else { return };
    let slope = Rate(cbs.idle_slope.0.next_multiple_of(1_000));
    if at.port.streams_of(class).next().is_none() || !long_run.loses(slope) {
        return;
    }
    let earned = match (long_run.between, long_run.earned(slope)) {
        (Some(between), Some(bytes)) => {
            format!(", and earns {bytes} whole bytes in the {} of the shortest frame of others", span(between))
        }
        _ => String::new(),
    };
    let (needed, mend) = match long_run.enough() {
        Some(enough) => (
            format!("{enough} or more"),
            format!("write `idle_slope = \"{enough}\"` or more, or leave the shaping to the NIC (`offload = true`)"),
        ),
        None => (
            "longer frames of others, or fewer".into(),
            "leave the shaping to the NIC (`offload = true`), or give its streams a class above or without shaper"
                .into(),
        ),
    };
    findings.push(at.finding(
        "slope-lost-to-byte-fractions",
        Severity::Warning,
        [
            format!(
                "idle_slope {} of class {class} has {} of the line to serve{earned}",
                cbs.idle_slope,
                Rate(long_run.arriving)
            ),
            format!(
                "{needed}: the software shaper forgets the rest of a byte at the end of every frame of others, and up to three \
                 bytes a frame of its own; there is no bound then"
            ),
            mend,
        ],
        "Linux 6.12.117, timediff_to_credits; tried",
    ));
}

fn rounding(at: &Checked<'_>, class: u8, cbs: &Cbs, findings: &mut Vec<Finding>) {
    if !cbs.offload {
        return;
    }
    let slope = cbs.idle_slope.0;
    for rule in at.port.driver.rules(Some(at.port.kernel)) {
        match rule.limit {
            Limit::SlopeUp(step) if !slope.is_multiple_of(step) => findings.push(at.finding(
                "slope-rounded",
                Severity::Note,
                [
                    format!("idle_slope {} of class {class}", cbs.idle_slope),
                    format!("the NIC takes {}: a multiple of {step} bit/s", Rate(slope.div_ceil(step) * step)),
                    String::new(),
                ],
                rule.source,
            )),
            Limit::SlopePercentDown => {
                let percent = at.port.rate.0 / 100;
                let taken = slope / percent.max(1) * percent;
                let line = need(at, class, |stream| stream.frame().physical_bytes());
                if taken < slope && taken < line.max(1) {
                    findings.push(at.finding(
                        "slope-lost-to-rounding",
                        Severity::Error,
                        [
                            format!(
                                "idle_slope {} of class {class} becomes {} in the NIC",
                                cbs.idle_slope,
                                Rate(taken)
                            ),
                            "whole percents of the link: the driver rounds down".into(),
                            format!("write `idle_slope = \"{}\"`", Rate(slope.div_ceil(percent.max(1)) * percent)),
                        ],
                        rule.source,
                    ));
                }
            }
            Limit::PortRates(rates) if !rates.iter().any(|mbit| Rate::from_mbit(*mbit) == at.port.speed()) => {
                let rates: Vec<String> = rates.iter().map(u64::to_string).collect();
                findings.push(at.finding(
                    "port-rate-unknown-to-driver",
                    Severity::Error,
                    [
                        format!("idleSlope − sendSlope is {}", at.port.speed()),
                        format!("one of {} Mbit/s", rates.join(", ")),
                        "give the link one of these rates, or leave `offload` out".into(),
                    ],
                    rule.source,
                ));
            }
            _ => {}
        }
    }
}

fn launch_times(at: &Checked<'_>, class: u8, etf: &Etf, findings: &mut Vec<Finding>) {
    if let Some(wake_up) = at.wake_up().filter(|wake_up| etf.delta <= *wake_up) {
        findings.push(at.finding(
            "delta-below-wake-up",
            Severity::Warning,
            [
                format!("delta {} of class {class}, largest wake-up latency {}", span(etf.delta), span(wake_up)),
                "delta above it: a frame that the qdisc wakes up too late for is dropped".into(),
                format!("write a `delta` above {}", span(wake_up)),
            ],
            "Linux 6.1.192, sch_etf",
        ));
    }
    if !etf.offload && !etf.deadline_mode && !matches!(at.port.queue, Queue::Taprio { .. }) {
        findings.push(at.finding(
            "etf-without-offload",
            Severity::Note,
            [
                format!("ETF of class {class} is not taken over by the NIC"),
                format!(
                    "frames leave {} before their launch time, and later by the wake-up latency; never at it",
                    span(etf.delta)
                ),
                String::new(),
            ],
            "tried, Linux 6.1.176 and 6.12.117",
        ));
    }
    let host = at.scenario.port(at.port.id).host;
    for stream in at.port.streams_of(class).filter(|stream| stream.launch) {
        if stream.writer != host && stream.reader != host {
            continue;
        }
        let publish = at.scenario.host(host).phases.publish.of(stream.cycle);
        let lead: Nanos = stream.cycle - publish + stream.offset;
        if etf.delta >= lead {
            findings.push(at.finding(
                "delta-above-lead",
                Severity::Warning,
                [
                    format!(
                        "delta {}; stream {} is handed over {} before its launch",
                        span(etf.delta),
                        stream.name,
                        span(lead)
                    ),
                    "delta below that: else a frame goes to the driver as soon as it comes, in no order".into(),
                    format!("write a `delta` below {}, or publish earlier", span(lead)),
                ],
                "Kirdan et al., Table VI",
            ));
        }
    }
}
