//! `[time]`: the cycle and where in it the phases begin.

use std::num::NonZeroU32;
use std::ops::Range;

use units::{Nanos, Tai};

use crate::diagnostic::Sink;
use crate::model::{Backlog, Fraction, Phases, Threads};
use crate::node::{Entry, Table};

/// What `[time]` says.
pub(crate) struct Time {
    pub(crate) cycle: Nanos,
    /// False when the file gives no usable cycle and `cycle` is made up, so that nothing else is blamed for it.
    pub(crate) cycle_known: bool,
    pub(crate) base_time: Tai,
    pub(crate) phases: Phases,
    pub(crate) offset: Nanos,
    pub(crate) threads: Threads,
    pub(crate) backlog: Backlog,
}

/// Phases of the seed papers, with the receive window of this program.
const DEFAULT_PHASES: Phases = Phases {
    subscribe: Fraction(0),
    window: Fraction(200_000_000),
    application: Fraction(300_000_000),
    publish: Fraction(600_000_000),
};

/// Shortest cycle: below it no frame fits, and rates no longer fit their integers.
pub(crate) const SHORTEST_CYCLE: Nanos = Nanos(1_000);
/// Most cycles that a backlog may stand before it is drained.
const MOST_CYCLES: u32 = 1_000_000_000;
/// Latest base time: half of what an instant can hold, so that adding spans to it never overflows.
const LATEST: Nanos = Nanos(i64::MAX / 2);

pub(crate) fn read(root: &Table<'_>, sink: &mut Sink) -> Time {
    let mut time = Time {
        cycle: Nanos::from_millis(1),
        cycle_known: false,
        base_time: Tai(0),
        phases: DEFAULT_PHASES,
        offset: Nanos::ZERO,
        threads: Threads::default(),
        backlog: Backlog::default(),
    };
    let Some(entry) = root.require(sink, "time", "[time]\ncycle = \"1ms\"") else { return time };
    let Some(table) = entry.table(sink, "[time]") else { return time };
    table
        .only(sink, &["cycle", "base_time", "phases", "window", "poll", "offset", "threads", "backlog", "drain_after"]);

    if let Some(cycle) =
        table.require(sink, "cycle", "cycle = \"250us\"").and_then(|entry| entry.nanos(sink, SHORTEST_CYCLE, "250us"))
    {
        (time.cycle, time.cycle_known) = (cycle, true);
    }
    if let Some(entry) = table.get("base_time")
        && let Some(base) = base_time(&entry, sink)
    {
        time.base_time = base;
    }
    time.phases = phases(&table, DEFAULT_PHASES, sink);
    if let Some(offset) = table.get("offset").and_then(|entry| entry.nanos(sink, Nanos::ZERO, "150us")) {
        time.offset = offset;
    }
    let threads = table.get("threads");
    time.threads = threads
        .and_then(|entry| {
            entry.word(sink, &[("stream", Threads::Stream), ("host", Threads::Host), ("phase", Threads::Phase)])
        })
        .unwrap_or_default();
    time.backlog = backlog(&table, sink);
    time
}

/// An instant that cycles are counted from.
pub(crate) fn base_time(entry: &Entry<'_>, sink: &mut Sink) -> Option<Tai> {
    let base = entry.any_nanos(sink, "0s")?;
    if (Nanos::ZERO..=LATEST).contains(&base) {
        return Some(Tai(base.0));
    }
    sink.error(
        &entry.span,
        format!("{} is {base}", entry.name()),
        "expected an instant of TAI from 0s to 4611686018s after 1970",
        "write `base_time = \"0s\"`: a base time in the past counts in whole cycles from there",
    );
    None
}

/// Reads `backlog` and `drain_after`.
fn backlog(table: &Table<'_>, sink: &mut Sink) -> Backlog {
    let entry = table.get("backlog");
    let word = entry.as_ref().map(|entry| entry.word(sink, &[("drain", Backlog::Drain), ("keep", Backlog::KEEP)]));
    // A word that is none has been reported; whether the other key fits it cannot be said.
    let (known, rule) = word.map_or((true, Backlog::default()), |word| (word.is_some(), word.unwrap_or_default()));
    let Some(after) = table.get("drain_after") else { return rule };
    let cycles = after.integer::<u32>(sink, 1..=MOST_CYCLES).and_then(NonZeroU32::new);
    if rule.is_kept() {
        return Backlog::Keep { drain_after: cycles };
    }
    if known {
        let error = sink.error(
            &after.span,
            format!("{} without `backlog = \"keep\"`", after.name()),
            "expected a backlog that can stand",
            "write `backlog = \"keep\"` too, or leave `drain_after` out: readers drain their queues in every cycle",
        );
        if let Some(entry) = entry {
            error.and(entry.span, "the queues are drained");
        }
    }
    rule
}

/// Reads `phases`, `window` and `poll` of `[time]` or of a host; what they leave out stays as in `inherited`.
pub(crate) fn phases(table: &Table<'_>, inherited: Phases, sink: &mut Sink) -> Phases {
    let before = sink.list.len();
    let mut phases = inherited;
    // Where the order of the phases and where the window comes from.
    let (mut order, mut reach): (Option<Range<usize>>, Option<Range<usize>>) = (None, None);
    let mut subscribe = None;
    if let Some(entry) = table.get("phases")
        && let Some(inner) = entry.table(sink, "`phases`")
    {
        order = Some(entry.span.clone());
        inner.only(sink, &["subscribe", "application", "publish"]);
        let mut phase = |key: &str, example: &str, phase: &mut Fraction| {
            let entry = inner.get(key)?;
            *phase = entry.fraction(sink, example)?;
            Some(entry.span)
        };
        subscribe = phase("subscribe", "0.0", &mut phases.subscribe);
        phase("application", "0.3", &mut phases.application);
        phase("publish", "0.6", &mut phases.publish);
    }
    let (window, poll) = (table.get("window"), table.get("poll"));
    if let (Some(window), Some(poll)) = (&window, &poll) {
        sink.error(
            &poll.span,
            format!("{} has both `window` and `poll`", table.what),
            "expected one of them",
            "keep `window` to read until it ends, or `poll` to read once at that share of the cycle",
        )
        .and(window.span.clone(), "the receive window");
        return phases;
    }
    if let Some(entry) = window {
        reach = Some(entry.span.clone());
        if let Some(window) = entry.fraction(sink, "0.2") {
            phases.window = window;
        }
    }
    if let Some(entry) = poll {
        reach = Some(entry.span.clone());
        if let Some(poll) = entry.fraction(sink, "0.1") {
            if let Some(span) = subscribe.filter(|_| phases.subscribe != poll) {
                sink.error(
                    &entry.span,
                    format!("{} is {poll}, the subscribe phase {}", entry.name(), phases.subscribe),
                    "expected one instant of reading",
                    "leave `subscribe` out of `phases`: `poll` is the instant of the single read",
                )
                .and(span, "the subscribe phase");
            }
            (phases.subscribe, phases.window) = (poll, Fraction(0));
        }
    }
    // Values that could not be read have been reported; their order says nothing then.
    if sink.list.len() == before
        && let Some(either) = order.clone().or(reach.clone())
    {
        check_order(&order.unwrap_or(either.clone()), &reach.unwrap_or(either), phases, sink);
    }
    phases
}

fn check_order(order: &Range<usize>, reach: &Range<usize>, phases: Phases, sink: &mut Sink) {
    let Phases { subscribe, window, application, publish } = phases;
    let end = Fraction(subscribe.0 + window.0);
    if application < subscribe || publish < application {
        sink.error(
            order,
            format!("phases out of order: subscribe {subscribe}, application {application}, publish {publish}"),
            "expected subscribe ≤ application ≤ publish",
            "order them within the cycle, for example `phases = { subscribe = 0.0, application = 0.3, publish = 0.6 }`",
        );
    } else if end > application {
        sink.error(
            reach,
            format!("the receive window reaches to {end} of the cycle, past the application phase at {application}"),
            format!("expected subscribe + window ≤ {application}"),
            format!(
                "write `window = {}` or less, or begin the application phase later",
                Fraction(application.0 - subscribe.0)
            ),
        );
    }
}
