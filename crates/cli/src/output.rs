//! Exit codes, errors and the few words that several commands print.

use measure::{
    ApplicationResult, BreachResult, ClocksFrom, DrainResult, EndMargins, Incident, RunFile, SplitMessage, StreamResult,
};
use scenario::Diagnostics;
use serde::Serialize;

/// The requirement is met, or nothing was required.
pub(crate) const MET: u8 = 0;
/// The requirement is not met.
pub(crate) const NOT_MET: u8 = 1;
/// The input is wrong.
pub(crate) const BAD_INPUT: u8 = 2;
/// This machine or this user cannot.
pub(crate) const CANNOT: u8 = 3;

/// A breach stopped the run: its action is stop.
pub(crate) const STOPPED: u8 = 4;

/// What a command ends with: an exit code, or words and an exit code.
pub(crate) type Outcome = Result<u8, Failure>;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) text: String,
    pub(crate) code: u8,
}

impl Failure {
    /// Bad input.
    pub(crate) fn input(text: impl Into<String>) -> Self {
        Self { text: text.into(), code: BAD_INPUT }
    }

    /// The machine cannot.
    pub(crate) fn machine(text: impl Into<String>) -> Self {
        Self { text: text.into(), code: CANNOT }
    }

    /// Prints it and gives the exit code.
    pub(crate) fn tell(self) -> u8 {
        let text = self.text.trim_end();
        if text.starts_with(' ') || text.contains('╭') {
            eprintln!("{text}")
        } else {
            eprintln!("error: {text}")
        }
        self.code
    }
}

impl From<lab::LabError> for Failure {
    fn from(error: lab::LabError) -> Self {
        Self { text: error.to_string(), code: error.exit_code() }
    }
}

/// Prints warnings to standard error.
pub(crate) fn tell_warnings(warnings: &Diagnostics) {
    if !warnings.is_empty() {
        eprintln!("{}", warnings.render().trim_end());
    }
}

/// Prints a value as JSON to standard output.
pub(crate) fn json(value: &impl Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::machine(error.to_string()))?;
    println!("{text}");
    Ok(MET)
}

/// The exit code of a run: a breach that stopped it comes before the verdict, which is of a part of the run only.
pub(crate) fn run_code(run: &RunFile) -> u8 {
    let stops = |breach: &BreachResult| breach.action == scenario::Action::Stop.key() && breach.times > 0;
    match run.streams.iter().flat_map(|stream| &stream.breaches).any(stops) {
        true => STOPPED,
        false if run.verdict.met => MET,
        false => NOT_MET,
    }
}

/// The result of a run for people: figures, losses, incidents, verdict.
pub(crate) fn tell_run(run: &RunFile) {
    if let Some(clocks) = &run.clocks {
        let who = match clocks.from {
            ClocksFrom::Given => "said to be",
            ClocksFrom::Watched => "that PTP, as it was watched, kept",
        };
        let error = units::Nanos(clocks.error_ns);
        let of_stamps = clocks.stamps_ns.map_or_else(String::new, |stamps| {
            format!(" ({} of it between hosts and the clocks of their network cards)", units::Nanos(stamps))
        });
        println!(
            "one-way figures rest on clocks {who} within {error} of each other{of_stamps}: they may be off by as much"
        );
        for range in clocks.one_way.iter().filter(|_| clocks.error_ns > 0) {
            let [least, most] = [range.least_ns, range.most_ns].map(units::Nanos);
            println!(
                "  stream {}: {} lies from {least} to {most} ({} values)",
                range.stream, range.quantity, range.count
            );
        }
    }
    for (interface, clock) in measure::stamp_clocks(&run.machine) {
        let (device, error) = (&clock.device, units::Nanos(clock.error_ns));
        println!(
            "frames at {interface} are stamped by its card's clock {device}, within {error} of CLOCK_TAI ({} looks)",
            clock.looks
        );
    }
    for stream in &run.streams {
        match stream.arrived {
            Some(arrived) if stream.frames == 0 => {
                println!("stream {}: {arrived} frames of {} B UADP arrived", stream.name, stream.bytes);
            }
            _ => println!("stream {}: {} frames of {} B UADP", stream.name, stream.frames, stream.bytes),
        }
        let spans = [
            ("one way   T3 − T2", &stream.one_way),
            ("round trip wire  T7 − T2", &stream.round_trip.wire),
            ("round trip stack T8 − T1", &stream.round_trip.stack),
            ("spacing at the reader", &stream.spacing),
        ];
        let any = spans.iter().any(|(_, dist)| dist.is_some());
        if any {
            println!("  {:26}{:>12}{:>12}{:>12}{:>12}{:>10}", "µs", "min", "p50", "p99", "max", "count");
        }
        for (name, dist) in spans {
            if let Some(dist) = dist {
                let us = |ns: i64| format!("{:.3}", ns as f64 / 1e3);
                println!(
                    "  {name:26}{:>12}{:>12}{:>12}{:>12}{:>10}",
                    us(dist.min),
                    us(dist.p50),
                    us(dist.p99),
                    us(dist.max),
                    dist.count
                );
            }
        }
        if let Some(counter) = &stream.round_trip.counter {
            println!(
                "  round trip counter: {} … {} cycles elapsed, median {} ({} as cycles used), {} readings",
                counter.min,
                counter.max,
                counter.p50,
                counter.p50 + 1,
                counter.count
            );
        }
        tell_explanation(stream);
        let loss = &stream.loss;
        let parts = [
            ("dP", loss.dP),
            ("dbL", loss.dbL),
            ("dLinkL", loss.dLinkL),
            ("dL", loss.dL),
            ("dbP", loss.dbP),
            ("dLinkP", loss.dLinkP),
            ("dΣ", loss.dSum),
        ];
        let parts: Vec<String> =
            parts.iter().filter_map(|(name, count)| count.map(|count| format!("{name} {count}"))).collect();
        match parts.as_slice() {
            [] => println!("  lost: not known without the writer's end"),
            parts => {
                let beside =
                    [("under way at the end", loss.under_way), ("not known, in a gap of the trace", loss.unknown)];
                let beside =
                    beside.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("; {count} {what}"));
                println!("  lost: {} of {} published{}", parts.join(", "), loss.published, beside.collect::<String>());
            }
        }
        let counters = &stream.counters;
        let count = |value: Option<u64>| value.map_or_else(|| "—".into(), |value| value.to_string());
        println!(
            "  counters: missed {}, repeated {}, inconsistent {}, wrong tag {}",
            count(counters.missed.or(counters.missed_at_reader)),
            count(counters.repeated.or(counters.repeated_at_reader)),
            counters.inconsistent,
            counters.wrong_tag
        );
        for breach in stream.breaches.iter().filter(|breach| breach.times > 0) {
            println!(
                "  breaches at {}: {} × {}, {} cycles in all, the longest {}; action {}{}",
                breach.host,
                breach.condition,
                breach.times,
                breach.cycles,
                breach.longest_cycles,
                breach.action,
                if breach.lasting { "; not over when the run ended" } else { "" }
            );
        }
        stream.applications.iter().for_each(tell_application);
        stream.drains.iter().for_each(tell_drains);
        if let Some(launch) = &stream.launch {
            println!("  launches late by more than {}: {}", units::Nanos(launch.late_after_ns), launch.late);
        }
    }
    let outliers: u64 = run.hosts.iter().map(|host| host.outliers).sum();
    if run.parts.is_empty() {
        println!("outliers of the hosts (a phase began late): {outliers}");
    }
    tell_incidents(run);
    if !run.parts.is_empty() {
        println!("parts: {}; distributions and rows are in them", run.parts.len());
    }
    if run.verdict.items.is_empty() {
        let whose = if run.machine.contains_key("role") { " that this end can know" } else { "" };
        println!("verdict: nothing was required{whose}");
    } else {
        println!("verdict: {}", if run.verdict.met { "met" } else { "NOT met" });
        for item in &run.verdict.items {
            println!("  {} {}", if item.met { "✓" } else { "✗" }, item.why);
        }
    }
}

/// What came from an application outside.
fn tell_application(application: &ApplicationResult) {
    let (host, end) = (&application.host, &application.end);
    if !application.attached {
        println!("  application at {host} ({end}): never attached in {} cycles", application.cycles);
        return;
    }
    let answered = application.answered_after.as_ref().map_or_else(String::new, |after| {
        format!("; answers published {} … {} cycles after their inputs, median {}", after.min, after.max, after.p50)
    });
    let counts = [("uncertain", application.uncertain), ("bad", application.bad)];
    let mut status: String = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| format!("; outputs {what} in {count}"))
        .collect();
    if !status.is_empty() && application.status_sent == Some(false) {
        status += ", which messages without Status do not say";
    }
    println!(
        "  application at {host} ({end}): {} of {} cycles without a new image, at most {} in a row{status}{answered}",
        application.without_new, application.cycles, application.longest_without
    );
}

/// How often an end emptied its queue.
fn tell_drains(drains: &DrainResult) {
    let (host, end) = (&drains.host, &drains.end);
    println!(
        "  queue at {host} ({end}) drained: {} × on request, {} × because a backlog stood; {} messages waited, {} × none",
        drains.asked, drains.standing, drains.messages, drains.empty
    );
}

/// Where the time went, what the counter is to be compared with, and what the phases left: a line each.
fn tell_explanation(stream: &StreamResult) {
    let us = |ns: i64| format!("{:.3}", ns as f64 / 1e3);
    let split = |message: &SplitMessage| {
        let parts = [
            ("schedule", message.schedule_ns),
            ("wire", message.wire_ns),
            ("host", message.host_ns),
            ("stack", message.stack_ns),
        ];
        let known = parts.iter().filter_map(|(name, ns)| ns.map(|ns| format!("{name} {}", us(ns))));
        let mut known: Vec<String> = known.collect();
        if message.stack_ns.is_none() {
            known.push("what missing stamps or phases do not tell".into());
        }
        format!("{} = {}", us(message.whole_ns), known.join(" + "))
    };
    if let Some(found) = &stream.split {
        let shown = [("median", found.median.as_ref()), ("longest", found.worst.first())];
        let shown: Vec<String> = shown
            .into_iter()
            .filter_map(|(name, message)| message.map(|message| format!("{name} {}", split(message))))
            .collect();
        println!("  where the time went, µs: {}", shown.join("; "));
    }
    if let (Some(reference), Some(used)) = (&stream.counter_reference, &stream.round_trip.counter_used) {
        let paper = match (reference.seed_001_best, reference.seed_001_worst) {
            (Some(best), Some(worst)) => format!("; Gopiga et al.: {best} best, {worst} worst"),
            _ => String::new(),
        };
        println!(
            "  counter used: {} … {} cycles, {} at best by plan{paper}",
            used.min, used.max, reference.scenario_best
        );
    }
    let margins = [&stream.margins.writer, &stream.margins.reader].into_iter().flatten();
    let margins: Vec<String> = margins.map(margins_of).collect();
    if !margins.is_empty() {
        println!("  safety margins left, µs: {}", margins.join("; "));
    }
}

fn margins_of(end: &EndMargins) -> String {
    let us = |ns: i64| format!("{:.1}", ns as f64 / 1e3);
    let kinds = [("transfer", &end.transfer_safety_margin), ("application", &end.application_safety_margin)];
    let kinds = kinds.into_iter().filter_map(|(name, margin)| margin.as_ref().map(|margin| (name, margin)));
    let parts = kinds.map(|(name, margin)| {
        let violated = match margin.violated {
            0 => String::new(),
            times => format!(" (violated {times} × in {})", margin.count),
        };
        format!("{name} {} of {}{violated}", us(margin.found_ns), us(margin.configured_ns))
    });
    format!("{}: {}", end.host, parts.collect::<Vec<_>>().join(", "))
}

/// One entry a kind and place: how often, how many frames, and the gravest in words. All of them are in run.json.
fn tell_incidents(run: &RunFile) {
    let mut groups: Vec<(&Incident, usize, u64)> = Vec::new();
    for incident in &run.incidents {
        let same = |(gravest, ..): &&mut (&Incident, usize, u64)| {
            gravest.kind == incident.kind && gravest.place == incident.place
        };
        match groups.iter_mut().find(same) {
            Some((gravest, times, frames)) => {
                *times += 1;
                *frames += incident.frames;
                if incident.frames > gravest.frames {
                    *gravest = incident;
                }
            }
            None => groups.push((incident, 1, incident.frames)),
        }
    }
    groups.sort_by_key(|(_, _, frames)| std::cmp::Reverse(*frames));
    if !groups.is_empty() {
        println!("incidents:");
    }
    for (gravest, times, frames) in groups {
        match times {
            1 => println!("  {} ({frames} frames): {}", gravest.kind, gravest.cause),
            _ => println!("  {} × {times} ({frames} frames), the gravest: {}", gravest.kind, gravest.cause),
        }
    }
    let left_out: u64 = run.incidents_left_out.values().sum();
    if left_out > 0 {
        println!("  and {left_out} more that are only counted");
    }
}
