//! By whose clock frames are stamped as they leave an interface and arrive at it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use link::Stamps;
use serde::{Deserialize, Serialize};

/// The stamps that are asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WantedStamps {
    /// Those of the network card where it has them and its clock shows TAI, else those of the kernel.
    #[default]
    Auto,
    /// Those of the kernel.
    Software,
    /// Those of the network card.
    Hardware,
    /// None: T2, T3, T6 and T7 stay empty.
    Off,
}

impl WantedStamps {
    /// Its name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Software => "software",
            Self::Hardware => "hardware",
            Self::Off => "off",
        }
    }
}

impl fmt::Display for WantedStamps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for WantedStamps {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Auto, Self::Software, Self::Hardware, Self::Off];
        let found = all.into_iter().find(|stamps| stamps.name() == text);
        found.ok_or_else(|| "expected auto, software, hardware or off".into())
    }
}

/// Which stamps the frames of one interface get, and why. An interface has one kind for both directions, so that round
/// trips rest on one clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampPlan {
    /// What was asked for.
    pub wanted: WantedStamps,
    /// The clock of the network card that stamps, `/dev/ptpN`; none where the kernel does, or nobody.
    pub clock: Option<PathBuf>,
    /// Why it is so.
    pub why: String,
}

impl StampPlan {
    /// Which stamps these are.
    pub fn stamps(&self) -> Stamps {
        match (self.wanted, &self.clock) {
            (WantedStamps::Off, _) => Stamps::Off,
            (_, Some(_)) => Stamps::Hardware,
            (_, None) => Stamps::Software,
        }
    }

    /// The same for results.
    pub fn name(&self) -> &'static str {
        match self.stamps() {
            Stamps::Off => WantedStamps::Off.name(),
            Stamps::Software => WantedStamps::Software.name(),
            Stamps::Hardware => WantedStamps::Hardware.name(),
        }
    }

    /// Whether others will not do.
    pub(crate) fn is_needed(&self) -> bool {
        self.wanted == WantedStamps::Hardware
    }

    /// The kernel's stamps instead, because `why`.
    pub(crate) fn in_software(&self, why: impl fmt::Display) -> Self {
        Self { clock: None, why: format!("hardware stamps could not be had: {why}"), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for wanted in [WantedStamps::Auto, WantedStamps::Software, WantedStamps::Hardware, WantedStamps::Off] {
            assert_eq!(wanted.to_string().parse(), Ok(wanted));
            assert_eq!(serde_json::to_string(&wanted).unwrap(), format!("\"{wanted}\""));
        }
        assert!("none".parse::<WantedStamps>().unwrap_err().contains("auto, software, hardware or off"));
    }

    #[test]
    fn a_clock_makes_hardware_stamps_unless_there_shall_be_none() {
        let plan =
            |wanted, clock: Option<&str>| StampPlan { wanted, clock: clock.map(PathBuf::from), why: "so".into() };
        let card = plan(WantedStamps::Auto, Some("/dev/ptp0"));
        assert_eq!((card.stamps(), card.name()), (Stamps::Hardware, "hardware"));
        assert_eq!(plan(WantedStamps::Auto, None).stamps(), Stamps::Software);
        assert_eq!(plan(WantedStamps::Off, Some("/dev/ptp0")).name(), "off");
        let software = card.in_software("the driver hands on none");
        assert_eq!((software.stamps(), software.wanted), (Stamps::Software, WantedStamps::Auto));
        assert_eq!(software.why, "hardware stamps could not be had: the driver hands on none");
    }
}
