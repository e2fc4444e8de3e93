//! Breaches that the ends themselves found.

use scenario::{Action, BreachPlan, Condition, StreamEnd};

use super::Seen;
use crate::breaches::{ENDS, Spell, spells};
use crate::{Incident, kinds, words};

/// One incident a breach.
pub(super) fn began(seen: &Seen<'_>) -> Vec<Incident> {
    let mut incidents = Vec::new();
    for (side, (end, _)) in ENDS.into_iter().enumerate() {
        for condition in Condition::ALL {
            let Some(plan) = seen.stream.watches(seen.scenario, condition, end) else { continue };
            let log = &seen.log.ends[side];
            // The part of a run in which it began has told of one that is carried on.
            let spells = spells(log, condition).into_iter().filter(|spell| !spell.began.carried);
            incidents.extend(spells.map(|spell| incident(seen, side, condition, plan, &spell)));
        }
    }
    incidents
}

fn incident(seen: &Seen<'_>, side: usize, condition: Condition, plan: &BreachPlan, spell: &Spell) -> Incident {
    let kind = match condition {
        Condition::Inconsistent => kinds::BREACH_INCONSISTENT,
        Condition::Missed => kinds::BREACH_MISSED,
        Condition::Late => kinds::BREACH_LATE,
        Condition::Silent => kinds::BREACH_SILENT,
    };
    let until = match (spell.ended_at, plan.rule.action) {
        (Some(_), _) => format!(
            "; normal again in cycle {}, after {}",
            spell.until,
            words::number(u64::from(plan.rule.recover), "good cycle")
        ),
        (None, Action::Stop) => String::new(),
        (None, _) => "; it went on when the run ended".to_owned(),
    };
    let cause = format!(
        "{}: stream {}: {}, noticed in cycle {}; {}{until}",
        seen.host(side),
        seen.stream.name,
        what(seen, side, condition, spell.began.counter),
        spell.began.cycle,
        acted(plan, spell.cycles()),
    );
    let mut incident = seen.incident(kind, spell.began.at, cause, 0);
    let ended = spell.ended_at.unwrap_or_else(|| seen.cycle_start(side, spell.until));
    incident.lasted_ns = Some(ended.saturating_sub(spell.began.at).max(0));
    incident
}

fn what(seen: &Seen<'_>, side: usize, condition: Condition, counter: u64) -> String {
    let breaches = seen.stream.breaches.as_ref();
    match condition {
        Condition::Inconsistent => format!("the variables of a message differed, the first held counter {counter}"),
        Condition::Missed => match breaches.map_or(0, |breaches| breaches.allowed_missing) {
            0 => format!("counters before {counter} never came"),
            allowed => format!("more than {} before {counter} never came", words::number(allowed, "counter")),
        },
        Condition::Late => {
            let end = if side == 0 { StreamEnd::Writer } else { StreamEnd::Reader };
            let rules = seen.stream.breach_rules(seen.scenario, end).unwrap_or_default();
            let span = rules.longest_way.map(|limit| words::exact(limit.0));
            let cycles = rules.longest_round_trip_cycles.map(|limit| words::number(limit, "cycle"));
            let limits: Vec<String> = span.into_iter().chain(cycles).collect();
            let way = if side == 0 { "took longer there and back than" } else { "took longer than" };
            format!("counter {counter} {way} {}", limits.join(" or "))
        }
        Condition::Silent => {
            let timeout = breaches.map_or(0, |breaches| breaches.receive_timeout.0);
            format!("no message for longer than {} after counter {counter}", words::exact(timeout))
        }
    }
}

fn acted(plan: &BreachPlan, cycles: u64) -> String {
    let cycles = words::number(cycles, "cycle");
    match plan.rule.action {
        Action::Count => format!("counted for {cycles}"),
        Action::Stop => "it stopped the run (action stop)".to_owned(),
        Action::Hold => format!("the last usable values were held for {cycles}"),
        Action::Override(value) => format!("the value {value} replaced what is read for {cycles}"),
        Action::Safe(value) => format!("the safe value {value} was published for {cycles}"),
    }
}
