//! Runs of one scenario, side by side, and what the drawings take from their rows.

use measure::{FrameRow, Kind, RunFile, StreamResult};
use scenario::{Scenario, Stream};

use crate::bounds::Bounds;
use crate::page::RunInput;

/// Runs of one scenario file.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    /// The scenario they share.
    pub(crate) scenario: &'a Scenario,
    /// Simulations first, then measurements: the order of the columns.
    pub(crate) runs: Vec<Run<'a>>,
    /// The bounds, the main model first.
    pub(crate) bounds: Vec<Bounds>,
}

/// One run with its name and colour on the page.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    /// What was read.
    pub(crate) file: &'a RunFile,
    /// Its messages.
    pub(crate) rows: &'a [FrameRow],
    /// The folder it was read from.
    pub(crate) dir_name: &'a str,
    /// "measurement", with the folder where there are several.
    pub(crate) label: String,
    /// Class of its series.
    pub(crate) class: &'static str,
}

impl<'a> Group<'a> {
    /// Groups of runs with the same scenario, in the order in which they were named.
    pub(crate) fn all(inputs: &'a [RunInput]) -> Vec<Self> {
        let mut groups: Vec<(&str, Vec<&RunInput>)> = Vec::new();
        for input in inputs {
            let sha = input.run.scenario.sha256.as_str();
            match groups.iter_mut().find(|(other, _)| *other == sha) {
                Some((_, list)) => list.push(input),
                None => groups.push((sha, vec![input])),
            }
        }
        groups.into_iter().map(|(_, inputs)| Self::of(&inputs)).collect()
    }

    fn of(inputs: &[&'a RunInput]) -> Self {
        let mut inputs = inputs.to_vec();
        inputs.sort_by_key(|input| input.run.kind != Kind::Simulated);
        let mut spare = ["more1", "more2"].into_iter().cycle();
        let mut used: Vec<&str> = Vec::new();
        let mut runs = Vec::new();
        for input in &inputs {
            let usual = match input.run.kind {
                Kind::Simulated => "simulated",
                Kind::Measured | Kind::Analyzed => "measured",
            };
            let class = if used.contains(&usual) { spare.next().unwrap_or(usual) } else { usual };
            used.push(class);
            let alone = inputs.iter().filter(|other| other.run.kind == input.run.kind).count() == 1;
            let kind = kind_words(input.run.kind);
            let label = if alone { kind.to_owned() } else { format!("{kind} {}", input.dir_name) };
            runs.push(Run { file: &input.run, rows: &input.rows, dir_name: &input.dir_name, label, class });
        }
        let scenario = &inputs[0].scenario;
        Self { scenario, runs, bounds: Bounds::of(scenario) }
    }

    /// Measurements first: the order in which a reader wants to be told.
    pub(crate) fn measured_first(&self) -> impl Iterator<Item = &Run<'a>> {
        let measured = self.runs.iter().filter(|r| r.file.kind != Kind::Simulated);
        measured.chain(self.runs.iter().filter(|r| r.file.kind == Kind::Simulated))
    }
}

impl Run<'_> {
    /// Its figures of a stream of the scenario.
    pub(crate) fn stream(&self, stream: &Stream) -> Option<&StreamResult> {
        self.file.streams.iter().find(|s| s.name == stream.name)
    }

    /// Its messages of the stream with this index.
    pub(crate) fn rows_of(&self, stream: usize) -> impl Iterator<Item = &FrameRow> {
        self.rows.iter().filter(move |row| usize::from(row.stream) == stream)
    }

    /// First and last instant anything is known of, nanoseconds TAI.
    pub(crate) fn extent(&self) -> Option<(i64, i64)> {
        let rows = self.rows.iter().flat_map(|row| row.t.into_iter().flatten());
        rows.fold(None, |ends, at| {
            let (low, high) = ends.unwrap_or((at, at));
            Some((low.min(at), high.max(at)))
        })
    }
}

/// What a kind of run is called.
pub(crate) fn kind_words(kind: Kind) -> &'static str {
    match kind {
        Kind::Measured => "measurement",
        Kind::Simulated => "simulation",
        Kind::Analyzed => "analysis",
    }
}

/// `values` in ascending order.
pub(crate) fn sorted(values: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut values: Vec<i64> = values.collect();
    values.sort_unstable();
    values
}

/// Spacing errors with their sign, T3(k) − T3(k−1) − cycle, of consecutive counters of one stream.
pub(crate) fn spacing(run: &Run<'_>, index: usize, cycle_ns: i64) -> Vec<i64> {
    let mut arrivals: Vec<(u64, i64)> = run.rows_of(index).filter_map(|row| Some((row.counter, row.at(3)?))).collect();
    arrivals.sort_unstable();
    sorted(arrivals.windows(2).filter(|w| w[1].0 == w[0].0 + 1).map(|w| w[1].1 - w[0].1 - cycle_ns))
}
