//! Who keeps the launch times of frames: our own thread, or a queue of the kernel (SO_TXTIME).

use std::fmt;
use std::str::FromStr;

use link::{LaunchClock, LaunchError, LostLaunch, TxTime};
use measure::{LAUNCH_INVALID, LAUNCH_LOST, LAUNCH_MISSED};
use serde::{Deserialize, Serialize};

/// Who shall keep launch times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Launch {
    /// The kernel where a queue keeps them, else our own thread.
    #[default]
    Auto,
    /// Our own thread: it sends at the launch time.
    Pace,
    /// A queue of the kernel, which gets each frame in the publish phase.
    Txtime,
}

impl Launch {
    /// Its name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Pace => "pace",
            Self::Txtime => "txtime",
        }
    }
}

impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Launch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Auto, Self::Pace, Self::Txtime];
        all.into_iter().find(|launch| launch.name() == text).ok_or_else(|| "expected auto, pace or txtime".into())
    }
}

/// What a launch time means to the queue that gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Txtime {
    /// The frame leaves then.
    Strict,
    /// It leaves at once, and not later than then (`deadline_mode`).
    Deadline,
}

impl Txtime {
    /// How the socket is set up for it.
    pub(crate) const fn option(self) -> TxTime {
        TxTime { clock: LaunchClock::Tai, deadline_mode: matches!(self, Self::Deadline), report_errors: true }
    }
}

/// How an end's frames keep their launch times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departure {
    /// How launch times are given to the kernel; none when our own thread keeps them.
    pub txtime: Option<Txtime>,
    /// Whether the queue drops frames without a launch time, so that our own thread cannot keep them.
    pub needed: bool,
    /// When a frame leaves relative to its launch time, in words.
    pub mechanism: String,
    /// Why it is this way.
    pub why: String,
}

impl Departure {
    /// Our own thread keeps them.
    pub fn pace(why: impl Into<String>) -> Self {
        let mechanism = "own pacing: at the launch time + system call and driver, late by a few µs";
        Self { txtime: None, needed: false, mechanism: mechanism.into(), why: why.into() }
    }
}

/// What a trace says of a launch that was lost: see [`measure::EventKind::NotSent`].
pub(crate) fn lost(lost: &LostLaunch) -> i32 {
    match lost.cause {
        LaunchError::Invalid => LAUNCH_INVALID,
        LaunchError::Missed => LAUNCH_MISSED,
        LaunchError::Other { errno, .. } => LAUNCH_LOST.saturating_add(errno),
    }
}

#[cfg(test)]
mod tests {
    use units::Tai;

    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for launch in [Launch::Auto, Launch::Pace, Launch::Txtime] {
            assert_eq!(launch.name().parse(), Ok(launch));
            assert_eq!(serde_json::to_string(&launch).unwrap(), format!("\"{launch}\""));
        }
        assert_eq!("etf".parse::<Launch>(), Err("expected auto, pace or txtime".into()));
    }

    #[test]
    fn each_report_of_the_queue_has_a_number() {
        let of = |cause| lost(&LostLaunch { id: Some(0), launch: Tai(1), cause });
        assert_eq!(of(LaunchError::Invalid), LAUNCH_INVALID);
        assert_eq!(of(LaunchError::Missed), LAUNCH_MISSED);
        assert_eq!(of(LaunchError::Other { errno: 5, code: 9 }), LAUNCH_LOST + 5);
    }
}
