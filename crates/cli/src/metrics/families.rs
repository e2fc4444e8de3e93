//! The metrics: names, words, labels and values.

use measure::live::{EndCounts, Quantity, SpanFigures};
use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};
use units::Nanos;

use crate::live::State;

/// A label's name and value.
type Label<'a> = (&'static str, &'a str);

/// All families that have a sample.
pub(super) fn families(state: &State) -> Vec<MetricFamily> {
    let mut all = Families { scenario: &state.scenario.name, list: Vec::new() };
    run(&mut all, state);
    streams(&mut all, state);
    ends(&mut all, state);
    spans(&mut all, state);
    phases(&mut all, state);
    traces(&mut all, state);
    all.list.retain(|family| !family.get_metric().is_empty());
    all.list
}

/// Families under way.
struct Families<'a> {
    scenario: &'a str,
    list: Vec<MetricFamily>,
}

impl Families<'_> {
    fn family(&mut self, name: &str, help: &str, kind: MetricType) {
        let mut family = MetricFamily::default();
        family.set_name(format!("downbeat_{name}"));
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        self.list.push(family);
    }

    /// A sample of the last family.
    fn sample(&mut self, labels: &[Label<'_>], value: impl FnOnce(&mut Metric)) {
        let label = |(name, value): &Label<'_>| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value((*value).to_owned());
            pair
        };
        let mut metric = Metric::default();
        metric.set_label(std::iter::once(&("scenario", self.scenario)).chain(labels).map(label).collect());
        value(&mut metric);
        if let Some(family) = self.list.last_mut() {
            family.mut_metric().push(metric);
        }
    }

    fn counter(&mut self, labels: &[Label<'_>], count: u64) {
        self.sample(labels, |metric| {
            let mut counter = Counter::default();
            counter.set_value(count as f64);
            metric.set_counter(counter);
        });
    }

    fn gauge(&mut self, labels: &[Label<'_>], value: f64) {
        self.sample(labels, |metric| {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        });
    }

    fn histogram(&mut self, labels: &[Label<'_>], buckets: impl Iterator<Item = (f64, u64)>, sum: f64, count: u64) {
        self.sample(labels, |metric| {
            let bucket = |(bound, count)| {
                let mut bucket = Bucket::default();
                bucket.set_upper_bound(bound);
                bucket.set_cumulative_count(count);
                bucket
            };
            let mut histogram = Histogram::default();
            histogram.set_bucket(buckets.map(bucket).collect());
            histogram.set_sample_sum(sum);
            histogram.set_sample_count(count);
            metric.set_histogram(histogram);
        });
    }

    /// What was not measured is absent.
    fn spans(&mut self, labels: &[Label<'_>], figures: Option<&SpanFigures>) {
        if let Some(figures) = figures.filter(|figures| figures.whole().count() > 0) {
            let buckets = figures.up_to().map(|(bound, count)| (seconds(bound), count));
            self.histogram(labels, buckets, figures.sum_ns() as f64 / 1e9, figures.whole().count());
        }
    }
}

fn seconds(span: Nanos) -> f64 {
    span.0 as f64 / 1e9
}

fn run(all: &mut Families<'_>, state: &State) {
    all.family("run_elapsed_seconds", "Time since the start of cycle 0.", MetricType::GAUGE);
    all.gauge(&[], seconds(state.elapsed.max(Nanos::ZERO)));
    if let Some(duration) = state.duration {
        all.family("run_duration_seconds", "Time the run is to last.", MetricType::GAUGE);
        all.gauge(&[], seconds(duration));
    }
}

fn streams(all: &mut Families<'_>, state: &State) {
    let streams = || state.scenario.streams.iter().zip(state.figures.streams());
    all.family("cycle_seconds", "Cycle of the stream.", MetricType::GAUGE);
    streams().for_each(|(stream, _)| all.gauge(&[("stream", &stream.name)], seconds(stream.cycle)));
    all.family("messages_published_total", "Messages published by the writer.", MetricType::COUNTER);
    streams().for_each(|(stream, figures)| all.counter(&[("stream", &stream.name)], figures.counts().published));
    all.family(
        "messages_answered_total",
        "Messages that came back to the writer or, without an echo, arrived at the reader.",
        MetricType::COUNTER,
    );
    streams().for_each(|(stream, figures)| all.counter(&[("stream", &stream.name)], figures.counts().answered));
    // No counter: what was overtaken may still come.
    all.family(
        "messages_lost",
        "Messages that have not come back, or arrived, although later ones have.",
        MetricType::GAUGE,
    );
    streams().for_each(|(stream, figures)| all.gauge(&[("stream", &stream.name)], figures.counts().lost as f64));
    all.family(
        "events_out_of_reach_total",
        "Events of messages too old to be remembered by these figures.",
        MetricType::COUNTER,
    );
    streams().for_each(|(stream, figures)| all.counter(&[("stream", &stream.name)], figures.counts().out_of_reach));
}

/// Name, words and value of what is counted at each end of a stream.
type EndFamily = (&'static str, &'static str, fn(&EndCounts) -> Option<u64>);

const ENDS: [EndFamily; 11] = [
    ("counters_missed_total", "Counters that the application never saw.", |end| end.missed),
    ("counters_repeated_total", "Application phases that found nothing new.", |end| end.repeated),
    ("messages_superseded_total", "Messages replaced by a newer one before the application took them.", |end| {
        Some(end.superseded)
    }),
    ("messages_inconsistent_total", "Messages whose variables differed.", |end| Some(end.inconsistent)),
    ("messages_wrong_tag_total", "Messages with another VID or PCP than the stream has, or untagged.", |end| {
        Some(end.wrong_tag)
    }),
    ("frames_foreign_total", "Frames of others on the socket.", |end| Some(end.foreign)),
    ("sends_refused_total", "Sends that the operating system refused.", |end| Some(end.refused)),
    ("launches_skipped_total", "Launches skipped by an overrun.", |end| Some(end.launches_skipped)),
    ("overruns_total", "Times that cycles were left out.", |end| Some(end.overruns)),
    ("cycles_skipped_total", "Cycles left out.", |end| Some(end.cycles_skipped)),
    ("receives_failed_total", "Times that receiving failed.", |end| Some(end.receive_failed)),
];

fn ends(all: &mut Families<'_>, state: &State) {
    for (name, help, value) in ENDS {
        all.family(name, help, MetricType::COUNTER);
        for (stream, figures) in state.scenario.streams.iter().zip(state.figures.streams()) {
            for (host, counts) in [stream.writer, stream.reader].into_iter().zip(&figures.counts().ends) {
                if let Some(count) = value(counts) {
                    all.counter(&[("stream", &stream.name), ("host", &state.scenario.host(host).name)], count);
                }
            }
        }
    }
}

fn spans(all: &mut Families<'_>, state: &State) {
    let streams = || state.scenario.streams.iter().zip(state.figures.streams());
    let pairs = [
        (
            "round_trip_seconds",
            "Round trips: wire is T7 - T2, between the writer's port out and in; stack is T8 - T1, between its \
             application side out and in.",
            [("wire", Quantity::RoundTripWire), ("stack", Quantity::RoundTripStack)],
        ),
        (
            "one_way_seconds",
            "Ways out: wire is T3 - T2, stack is T4 - T1.",
            [("wire", Quantity::OneWay), ("stack", Quantity::OneWayStack)],
        ),
    ];
    for (name, help, quantities) in pairs {
        all.family(name, help, MetricType::HISTOGRAM);
        for (stream, figures) in streams() {
            for (label, quantity) in quantities {
                all.spans(&[("stream", &stream.name), ("quantity", label)], figures.span(quantity));
            }
        }
    }
    all.family("round_trip_cycles", "Round trips by the counter: cycles elapsed.", MetricType::HISTOGRAM);
    for (stream, figures) in streams() {
        let figures = figures.round_trip_counter();
        if figures.count() > 0 {
            let buckets = figures.up_to().map(|(bound, count)| (bound as f64, count));
            let labels = [("stream", stream.name.as_str()), ("quantity", "counter")];
            all.histogram(&labels, buckets, figures.sum() as f64, figures.count());
        }
    }
    all.family("spacing_seconds", "T3 - T3 of the message before.", MetricType::HISTOGRAM);
    for (stream, figures) in streams() {
        all.spans(&[("stream", &stream.name)], figures.span(Quantity::Spacing));
    }
}

fn phases(all: &mut Families<'_>, state: &State) {
    let figures = || state.figures.phases().iter().filter(|figures| figures.late.whole().count() > 0);
    let host = |figures: &measure::live::PhaseFigures| state.scenario.host(figures.host).name.as_str();
    all.family("wakeup_lateness_seconds", "How much later than due the phases of a host began.", MetricType::HISTOGRAM);
    for phase in figures() {
        all.spans(&[("host", host(phase)), ("phase", phase.phase.key())], Some(&phase.late));
    }
    all.family("wakeup_lateness_max_seconds", "The latest begin of a phase so far.", MetricType::GAUGE);
    for phase in figures() {
        let max = phase.late.whole().max().unwrap_or(Nanos::ZERO);
        all.gauge(&[("host", host(phase)), ("phase", phase.phase.key())], seconds(max));
    }
    all.family("phase_longest_seconds", "The longest that a phase took so far.", MetricType::GAUGE);
    for phase in figures() {
        all.gauge(&[("host", host(phase)), ("phase", phase.phase.key())], seconds(phase.longest));
    }
    all.family(
        "phase_outliers_total",
        "Times that a phase began later than a tenth of its cycle, and than 100 microseconds.",
        MetricType::COUNTER,
    );
    for phase in figures() {
        all.counter(&[("host", host(phase)), ("phase", phase.phase.key())], phase.outliers);
    }
}

fn traces(all: &mut Families<'_>, state: &State) {
    all.family("trace_events_total", "Events taken out of the trace rings.", MetricType::COUNTER);
    all.counter(&[], state.figures.events());
    all.family("trace_records_lost_total", "Trace records that found no room.", MetricType::COUNTER);
    state.traces.iter().for_each(|trace| all.counter(&[("host", &trace.host)], trace.lost));
    all.family(
        "trace_fill_ratio",
        "Share of the host's fullest trace ring that was in use when it was last emptied.",
        MetricType::GAUGE,
    );
    for trace in &state.traces {
        all.gauge(&[("host", &trace.host)], trace.found as f64 / trace.capacity.max(1) as f64);
    }
}

#[cfg(test)]
mod tests;
