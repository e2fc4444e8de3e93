//! How far the clocks of joined hosts are apart, who says so, and what that does to one-way figures.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use units::Nanos;

use super::{JoinError, refused};
use crate::{Incident, PTP_FILE, PtpFile, RunFile, clock_error_of_ends, kinds, read_ptp, words};

/// So far a watch may begin after a run, or end before it, and still cover it: results tell seconds.
const COVERS_WITHIN: Nanos = Nanos(2_000_000_000);

/// How far the clocks of hosts are apart at most: `clocks` of `run.json`, with what follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Clocks {
    /// The most that two of them are apart.
    pub error_ns: i64,
    /// Who says so.
    pub from: ClocksFrom,
    /// How much of it is between the hosts' clocks and those of their network cards, which took the stamps, as the hosts
    /// have compared them; absent with stamps of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamps_ns: Option<i64>,
    /// What was watched, one entry a folder of `downbeat ptp`; absent when the error was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watched: Vec<WatchedClock>,
    /// What the error does to one-way figures; all other figures rest on one clock each.
    pub one_way: Vec<OneWayRange>,
}

/// Who says how far clocks are apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClocksFrom {
    /// The user.
    Given,
    /// PTP, as `downbeat ptp` has watched it.
    Watched,
}

/// A clock that `downbeat ptp` has watched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchedClock {
    /// The folder.
    pub folder: String,
    /// The host of the scenario, where it was played by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its own error against the grandmaster.
    pub epsilon_ns: i64,
    /// The grandmaster at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grandmaster: Option<String>,
    /// What stamps that rests on.
    pub stamps: String,
    /// Whether it was watched from the begin to the end of the run; absent where a host does not say when it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covers: Option<bool>,
}

/// Where the true values of a one-way figure lie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OneWayRange {
    /// Name of the stream.
    pub stream: String,
    /// `one_way` or `one_way_stack`.
    pub quantity: String,
    /// Values that it is of.
    pub count: u64,
    /// The least value measured less the error.
    pub least_ns: i64,
    /// The greatest value measured and the error: what a limit is compared with.
    pub most_ns: i64,
}

/// What a join is told of the clocks.
#[derive(Debug, Clone)]
pub enum JoinClocks {
    /// They are at most so far apart.
    Given(Nanos),
    /// Folders of `downbeat ptp run` and `downbeat ptp watch` say so, one a host.
    Watched(Vec<PathBuf>),
}

impl From<Nanos> for JoinClocks {
    fn from(error: Nanos) -> Self {
        Self::Given(error)
    }
}

/// The error, and the files that it is from.
pub(super) struct Known {
    pub(super) error: Nanos,
    /// What of it is between hosts and their network cards.
    of_stamps: Nanos,
    files: Vec<(PathBuf, PtpFile)>,
}

impl JoinClocks {
    /// Reads what was watched.
    pub(super) fn known(self) -> Result<Known, JoinError> {
        let dirs = match self {
            Self::Given(error) if error < Nanos::ZERO => {
                return Err(refused("a clock error below zero", "say how far apart the clocks are at most, as 1us"));
            }
            Self::Given(error) => return Ok(Known { error, of_stamps: Nanos::ZERO, files: Vec::new() }),
            Self::Watched(dirs) => dirs,
        };
        let mut files = Vec::new();
        for dir in dirs {
            if !dir.join(PTP_FILE).exists() {
                return Err(refused(
                    format!("{} holds no {PTP_FILE}", dir.display()),
                    "name folders of `downbeat ptp run` and `downbeat ptp watch`, or give --clock-error",
                ));
            }
            let file = read_ptp(&dir)?;
            if let Some(why) = file.clock_error_unknown.as_ref().filter(|_| file.clock_error.is_none()) {
                return Err(refused(
                    format!("{}: it states no clock error: {why}", dir.display()),
                    "watch again while the clock is kept, or say with --clock-error how far apart they are",
                ));
            }
            files.push((dir, file));
        }
        let error = clock_error_of_ends(files.iter().map(|(_, file)| file)).ok_or_else(|| {
            refused(
                "the clocks that were watched follow different grandmasters, or one of them states no error",
                "let all hosts follow one grandmaster, or say with --clock-error how far apart they are",
            )
        })?;
        Ok(Known { error: Nanos(error), of_stamps: Nanos::ZERO, files })
    }
}

impl Known {
    /// With what stamps of network cards add: a one-way figure has one of each of two hosts, so the largest two count.
    pub(super) fn with_stamps(mut self, errors: impl Iterator<Item = i64>) -> Self {
        let mut errors: Vec<i64> = errors.collect();
        errors.sort_unstable_by(|a, b| b.cmp(a));
        self.of_stamps = Nanos(errors.iter().take(2).fold(0, |sum, error| sum.saturating_add(*error)));
        self.error = Nanos(self.error.0.saturating_add(self.of_stamps.0));
        self
    }

    /// Puts into a run what is known of its clocks; it lasted from one instant to the other in nanoseconds UTC, if
    /// that is known. Gives what is amiss.
    pub(super) fn tell(&self, run: &mut RunFile, lasted: Option<(i64, i64)>) -> Vec<Incident> {
        let mut incidents = Vec::new();
        let mut watched = Vec::new();
        for (folder, file) in &self.files {
            let begun = file.began_utc_s.saturating_mul(1_000_000_000);
            let ended = begun.saturating_add(file.lasted_ns);
            let covers = lasted.map(|(first, last)| {
                begun <= first.saturating_add(COVERS_WITHIN.0) && ended >= last.saturating_sub(COVERS_WITHIN.0)
            });
            if covers == Some(false) {
                incidents.extend(lasted.map(|lasted| unwatched(folder.display(), file, (begun, ended), lasted)));
            }
            watched.push(WatchedClock {
                folder: folder.display().to_string(),
                host: file.host.clone(),
                epsilon_ns: file.clock_error.as_ref().map_or(0, |error| error.epsilon_ns),
                grandmaster: file.grandmaster.clone(),
                stamps: file.stamps.clone(),
                covers,
            });
        }
        let ranges = run.streams.iter().flat_map(|stream| {
            let both = [("one_way", &stream.one_way), ("one_way_stack", &stream.one_way_stack)];
            both.into_iter().filter_map(|(quantity, dist)| {
                let dist = dist.as_ref()?;
                Some(OneWayRange {
                    stream: stream.name.clone(),
                    quantity: quantity.into(),
                    count: dist.count,
                    least_ns: dist.min.saturating_sub(self.error.0),
                    most_ns: dist.max.saturating_add(self.error.0),
                })
            })
        });
        let from = if self.files.is_empty() { ClocksFrom::Given } else { ClocksFrom::Watched };
        let stamps_ns = (self.of_stamps > Nanos::ZERO).then_some(self.of_stamps.0);
        run.clocks = Some(Clocks { error_ns: self.error.0, from, stamps_ns, watched, one_way: ranges.collect() });
        incidents
    }
}

fn unwatched(folder: impl std::fmt::Display, file: &PtpFile, watch: (i64, i64), run: (i64, i64)) -> Incident {
    let both = (watch.1.min(run.1)).saturating_sub(watch.0.max(run.0)).max(0);
    let cause = format!(
        "the clock of {} was watched ({folder}) for {} of the {} that the run lasted: what it did in the rest nobody has seen, and \
         limits of one-way figures are judged with the error of the part that was",
        file.host.as_deref().unwrap_or("a host"),
        words::span(both),
        words::span(run.1.saturating_sub(run.0)),
    );
    let kind = kinds::CLOCK_UNWATCHED.to_owned();
    Incident { at_ns: run.0, kind, cause, frames: 0, lasted_ns: None, place: file.host.clone() }
}
