//! Whether the schedules of a watched plan run, seen by the frames that they let out.

use std::thread;
use std::time::{Duration, Instant};

use super::{Told, Watch};
use crate::apply::ApplyError;
use crate::probe::{Effect, Probe};
use tsn::Plan;

/// When the kernel told something meanwhile, a round counts for nothing and is sent again after this time.
const SOON: Duration = Duration::from_millis(250);

/// The probes of a plan.
#[derive(Debug)]
pub(super) struct Probing {
    every: Duration,
    due: Instant,
    ports: Vec<Port>,
}

#[derive(Debug)]
struct Port {
    probe: Probe,
    /// What was told of it last, so that it is told once: it stands still whatever is done, or it cannot be probed.
    told: Option<String>,
}

impl Probing {
    /// Of a plan; and in words of which ports nothing can be seen.
    pub(super) fn new(plan: &Plan, every: Duration) -> (Self, Vec<String>) {
        let (probes, unprobed) = Probe::of(plan);
        let ports = probes.into_iter().map(|probe| Port { probe, told: None }).collect();
        (Self { every, due: Instant::now() + every, ports }, unprobed)
    }

    pub(super) fn due(&self) -> Instant {
        self.due
    }
}

impl Watch {
    /// Has each port probed that should have a running schedule.
    pub(super) fn look_at_effects(&mut self) -> Result<Vec<Told>, ApplyError> {
        let Some(mut probing) = self.probing.take() else { return Ok(Vec::new()) };
        let mut told = Vec::new();
        let mut next = probing.every;
        for port in &mut probing.ports {
            match self.look_at_effect(port, &mut told) {
                Ok(true) => {}
                Ok(false) => next = next.min(SOON),
                Err(error) => {
                    self.probing = Some(probing);
                    return Err(error);
                }
            }
        }
        probing.due = Instant::now() + next;
        self.probing = Some(probing);
        Ok(told)
    }

    /// Probes a port, and issues its schedule again if two rounds say that it stands still. False when something was
    /// told meanwhile, which has been answered: the rounds may be of the time before.
    fn look_at_effect(&mut self, port: &mut Port, told: &mut Vec<Told>) -> Result<bool, ApplyError> {
        let name = port.probe.device().to_owned();
        if !self.keeper.should_run(&name) {
            return Ok(true);
        }
        let mut why = None;
        for _ in 0..2 {
            match port.probe.round() {
                Ok(Effect::Dead(dead)) => why = Some(dead),
                Ok(Effect::Gated) => {
                    port.told = None;
                    return Ok(true);
                }
                Ok(Effect::Untold) => return Ok(true),
                Err(error) => {
                    let (heard, more) = self.take_in()?;
                    told.extend(more);
                    let cause = format!("effect: frames cannot be sent or are not stamped: {error}");
                    if !heard && port.told.as_ref() != Some(&cause) {
                        told.push(self.keeper.unseen(&name, cause.clone()));
                        port.told = Some(cause);
                    }
                    return Ok(!heard);
                }
            }
            let (heard, more) = self.take_in()?;
            told.extend(more);
            if heard {
                return Ok(false);
            }
        }
        let Some(why) = why else { return Ok(true) };
        let still = "effect: issued again, and it stands still all the same".to_owned();
        let issued = self.keeper.dead(&name, format!("effect: {why}; nothing had told of it"));
        // What was issued in vain is issued again each time, and told once.
        let in_vain = port.told.as_ref() == Some(&still);
        if !in_vain {
            told.extend(issued);
        }
        thread::sleep(Duration::from_nanos(port.probe.settled().0.unsigned_abs()));
        // Our own words come back.
        told.extend(self.take_in()?.1);
        if let Ok(Effect::Dead(why)) = port.probe.round() {
            if !in_vain {
                told.push(self.keeper.dead_still(&name, format!("{still}: {why}")));
            }
            port.told = Some(still);
        } else {
            port.told = None;
        }
        Ok(true)
    }
}
