//! Which stamps the interfaces of a run get, and the clocks of the network cards that take them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use link::interface::Stamping;
use measure::{Machine, STAMP_CLOCKS, StampClock};
use rt::events::Grid;
use rt::ptp::{Ahead, HardwareClock};
use scenario::Scenario;
use serde_json::json;
use station::{Reached, StampPlan, WantedStamps};
use units::Nanos;

use crate::error::LabError;
use crate::stamp_setting::{Interface, StampsAll};
use crate::venue::Place;
use crate::wake::agrees;

/// How often clocks are compared while a run goes on.
const COMPARED_EVERY: Nanos = Nanos::from_millis(1_000);

/// The stamps of all interfaces, until the run is over. Dropped, it sets back what cards stamp.
pub(crate) struct RunStamps {
    plans: BTreeMap<String, StampPlan>,
    cards: Vec<StampingCard>,
    /// Of interfaces that were not looked at.
    others: StampPlan,
    limit: Nanos,
    compared: Nanos,
    /// Cards that could stamp and are not used, in words.
    unused: Vec<String>,
}

/// A card whose stamps are used.
struct StampingCard {
    interface: String,
    clock: HardwareClock,
    seen: StampClock,
    _setting: StampsAll<Interface>,
}

/// What is known of the stamps of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Facts {
    stamping: Stamping,
    /// Its clock and how far that is ahead of TAI, or why that is not known; none where it has no clock.
    clock: Option<Result<(PathBuf, Ahead), String>>,
}

/// Why an interface has no hardware stamps, and what helps.
type Lacks = (String, String);

impl RunStamps {
    /// Looks what the interfaces have and decides; makes cards stamp.
    ///
    /// # Errors
    /// Hardware stamps are asked for and cannot be had.
    pub(crate) fn find(scenario: &Scenario, place: &Place, wanted: WantedStamps) -> Result<Self, LabError> {
        let shortest = scenario.streams.iter().map(|stream| stream.cycle).min().unwrap_or(scenario.cycle);
        let limit = Grid::limit(shortest);
        let plan = |why: &str| StampPlan { wanted, clock: None, why: why.into() };
        let mut found = Self {
            plans: BTreeMap::new(),
            cards: Vec::new(),
            others: plan("asked for"),
            limit,
            compared: Nanos::ZERO,
            unused: Vec::new(),
        };
        let Place::Here(role) = place else {
            let veth = "the ports of this run are veth pairs, and no hardware stamps their frames";
            return match wanted {
                WantedStamps::Hardware => Err(refused((
                    veth.into(),
                    "take --stamps auto, or play each host on a machine \
                    of its own (`downbeat publish`, `loopback`, `subscribe`)"
                        .into(),
                ))),
                WantedStamps::Auto => Ok(Self { others: plan(veth), ..found }),
                WantedStamps::Software | WantedStamps::Off => Ok(found),
            };
        };
        if matches!(wanted, WantedStamps::Software | WantedStamps::Off) {
            return Ok(found);
        }
        for (_, name) in &role.interfaces {
            match (found.card(name), wanted) {
                (Ok(plan), _) => _ = found.plans.insert(name.clone(), StampPlan { wanted, ..plan }),
                (Err(lacks), WantedStamps::Hardware) => return Err(refused(lacks)),
                (Err((what, mend)), _) => {
                    if link::interface::stamping(name).is_ok_and(|it| it.transmit_hardware && it.receive_hardware) {
                        found
                            .unused
                            .push(format!("the kernel stamps the frames, though the card could: {what}; {mend}"));
                    }
                    found.plans.insert(name.clone(), plan(&what));
                }
            }
        }
        Ok(found)
    }

    /// Takes the card of an interface into use, if it can be.
    fn card(&mut self, name: &str) -> Result<StampPlan, Lacks> {
        let (facts, clock) = look(name).map_err(|what| (what, "name another with --interface".into()))?;
        let (device, ahead) = decide(name, &facts, self.limit)?;
        let Some(clock) = clock else { return Err(no_clock(name)) };
        let setting = StampsAll::of(name).map_err(|what| {
            (
                format!("{name}: its card could not be told to stamp all frames: {what}"),
                "become root, or take --stamps auto".into(),
            )
        })?;
        let why = format!(
            "its card stamps all frames by {}, {} ahead of TAI (± {})",
            device.display(),
            ahead.by,
            ahead.error
        );
        let plan = StampPlan { clock: Some(device), why, ..StampPlan::default() };
        self.cards.push(StampingCard {
            interface: name.into(),
            seen: first(clock.path(), ahead),
            clock,
            _setting: setting,
        });
        Ok(plan)
    }

    /// The plan of an interface.
    pub(crate) fn of(&self, interface: &str) -> StampPlan {
        self.plans.get(interface).unwrap_or(&self.others).clone()
    }

    /// Keeps the cards alone whose stamps the hosts have come to use.
    pub(crate) fn keep(&mut self, reached: &[&Reached]) {
        let hardware = |it: &&&Reached| it.stamps == WantedStamps::Hardware.name();
        let used = |card: &StampingCard| reached.iter().filter(hardware).any(|it| it.interface == card.interface);
        self.cards.retain(used);
    }

    /// Compares the clocks with TAI again, if it is time, and tells the result.
    pub(crate) fn turn(&mut self, elapsed: Nanos, machine: &mut Machine) {
        if !self.cards.is_empty() && elapsed - self.compared >= COMPARED_EVERY {
            self.compared = elapsed;
            self.compare(machine);
        }
    }

    /// Compares the clocks with TAI and tells the result.
    pub(crate) fn compare(&mut self, machine: &mut Machine) {
        for card in &mut self.cards {
            note(&mut card.seen, card.clock.ahead().map_err(|error| error.to_string()));
        }
        if !self.cards.is_empty() {
            let clocks: serde_json::Map<_, _> =
                self.cards.iter().map(|card| (card.interface.clone(), json!(card.seen))).collect();
            machine.insert(STAMP_CLOCKS.into(), clocks.into());
        }
    }

    /// What was not as it should be at the end, in words.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let amiss = self.cards.iter().flat_map(|card| amiss(&card.interface, &card.seen, self.limit));
        amiss.chain(self.unused.iter().cloned())
    }
}

/// Which stamps the interfaces have come to have, for people.
pub(crate) fn told(reached: &[&Reached]) -> String {
    let mut kinds: Vec<&str> = reached.iter().map(|it| it.stamps.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    if let [one] = kinds.as_slice() {
        return (*one).into();
    }
    let mut each: Vec<String> = reached.iter().map(|it| format!("{} at {}", it.stamps, it.interface)).collect();
    each.dedup();
    each.join(", ")
}

/// Asks an interface for what is known of its stamps.
fn look(name: &str) -> Result<(Facts, Option<HardwareClock>), String> {
    let stamping = link::interface::stamping(name).map_err(|error| error.to_string())?;
    let Some(number) = stamping.clock else { return Ok((Facts { stamping, clock: None }, None)) };
    let path = PathBuf::from(format!("/dev/ptp{number}"));
    let opened = HardwareClock::open(&path).and_then(|clock| clock.ahead().map(|ahead| (clock, ahead)));
    Ok(match opened {
        Ok((clock, ahead)) => (Facts { stamping, clock: Some(Ok((path, ahead))) }, Some(clock)),
        Err(error) => (Facts { stamping, clock: Some(Err(error.to_string())) }, None),
    })
}

/// Whether an interface has hardware stamps that can be compared with `CLOCK_TAI`: its clock, and how far that is ahead.
fn decide(name: &str, facts: &Facts, limit: Nanos) -> Result<(PathBuf, Ahead), Lacks> {
    let other_card = || "take a network card that does (`ethtool -T` shows it), or --stamps auto".to_owned();
    let Stamping { transmit_hardware, receive_hardware, .. } = facts.stamping;
    let lacking = match (transmit_hardware, receive_hardware) {
        (true, true) => None,
        (false, false) => Some("it stamps neither frames that leave nor all that arrive in hardware"),
        (true, false) => {
            Some("it does not stamp all frames that arrive in hardware (many cards stamp those of PTP only)")
        }
        (false, true) => Some("it does not stamp frames that leave in hardware"),
    };
    if let Some(lacking) = lacking {
        return Err((format!("{name}: {lacking}"), other_card()));
    }
    match &facts.clock {
        None => Err(no_clock(name)),
        Some(Err(what)) => Err((format!("{name}: {what}"), "become root, or take --stamps auto".into())),
        Some(Ok((path, ahead))) => {
            let purpose = "so that its stamps and instants of programs are of one time";
            agrees(path, *ahead, limit, (purpose, "take --stamps auto"))
                .map_err(|(what, mend)| (format!("{name}: {what}"), mend))?;
            Ok((path.clone(), *ahead))
        }
    }
}

fn no_clock(name: &str) -> Lacks {
    (format!("{name}: it has no PTP hardware clock"), "take a network card that has one, or --stamps auto".into())
}

fn refused((what, mend): Lacks) -> LabError {
    LabError::Host { what: format!("--stamps hardware: {what}"), mend }
}

/// What is known after the first look.
fn first(path: &std::path::Path, ahead: Ahead) -> StampClock {
    StampClock {
        device: path.display().to_string(),
        ahead_ns: [ahead.by.0; 2],
        error_ns: farthest(ahead),
        looks: 1,
        unread: None,
    }
}

/// Adds a further look.
fn note(seen: &mut StampClock, look: Result<Ahead, String>) {
    match look {
        Ok(ahead) => {
            seen.ahead_ns[1] = ahead.by.0;
            seen.error_ns = seen.error_ns.max(farthest(ahead));
            seen.looks += 1;
        }
        Err(error) => seen.unread = Some(error),
    }
}

fn farthest(ahead: Ahead) -> i64 {
    ahead.by.0.saturating_abs().saturating_add(ahead.error.0)
}

fn amiss(interface: &str, seen: &StampClock, limit: Nanos) -> Vec<String> {
    let StampClock { device, error_ns, unread, .. } = seen;
    let apart = (Nanos(*error_ns) > limit).then(|| {
        format!(
            "{interface}: the clock of its card ({device}) and CLOCK_TAI may have been up to {} apart during the run: what \
             lies between a stamp and an instant of a program is off by as much. Look at ptp4l and phc2sys",
            Nanos(*error_ns)
        )
    });
    let unread = unread.as_ref().map(|error| {
        format!("{interface}: from some instant on nothing is known of the clock that stamps its frames: {error}")
    });
    apart.into_iter().chain(unread).collect()
}

#[cfg(test)]
#[path = "stamps_tests.rs"]
mod tests;
