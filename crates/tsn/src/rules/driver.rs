//! What the driver of a port refuses or does, by the table of [`crate::drivers`].

use scenario::{Open, Queue, Shaper, TaprioMode};

use super::{Checked, Finding, Severity};
use crate::drivers::{self, DRIVERS, Driver, Feature, Limit, Rule};
use crate::qdiscs::span;

pub(super) fn check(at: &Checked<'_>, findings: &mut Vec<Finding>) {
    known(at, findings);
    queues(at, findings);
    let used = features(at);
    for feature in &used {
        if let Some(rule) = at.port.driver.refuses(*feature) {
            let name = feature.qdisc();
            findings.push(at.finding(
                "offload-refused",
                Severity::Error,
                [
                    format!("{name} is to be taken over by the NIC; the driver {} does not", at.port.driver.name),
                    format!("{name} in software, or a NIC that has it"),
                    match feature {
                        Feature::Taprio => "write `mode = \"software\"` or `\"txtime-assist\"`".into(),
                        Feature::Mqprio => "leave `preemptable` out".into(),
                        Feature::Cbs | Feature::Etf => "leave `offload` out".into(),
                    },
                ],
                rule.source,
            ));
        }
    }
    for rule in at.port.driver.rules(Some(at.port.kernel)) {
        limit(at, rule, &used, findings);
    }
    preemption(at, findings);
}

/// What this port hands to its NIC.
fn features(at: &Checked<'_>) -> Vec<Feature> {
    let mut used = Vec::new();
    if matches!(at.port.queue, Queue::Taprio { schedule, .. } if schedule.mode == TaprioMode::FullOffload) {
        used.push(Feature::Taprio);
    }
    if matches!(at.port.queue, Queue::Mqprio(_)) && at.port.nic.preemptable != 0 {
        used.push(Feature::Mqprio);
    }
    for class in 0..at.port.class_count() {
        let feature = match at.port.shaper(class) {
            Shaper::Cbs(cbs) if cbs.offload => Feature::Cbs,
            Shaper::Etf(etf) if etf.offload => Feature::Etf,
            _ => continue,
        };
        if !used.contains(&feature) {
            used.push(feature);
        }
    }
    used
}

fn known(at: &Checked<'_>, findings: &mut Vec<Finding>) {
    let Some(name) = at.port.nic.driver.as_deref().filter(|name| drivers::named(name).is_none()) else { return };
    let names: Vec<&str> = DRIVERS.iter().map(|driver| driver.name).collect();
    findings.push(at.finding(
        "unknown-driver",
        Severity::Warning,
        [
            format!("the driver \"{name}\" is not in the table"),
            format!("one of {}: nothing is known of what another refuses", names.join(", ")),
            "check the name with `ethtool -i`; else offloads are tried without knowing".into(),
        ],
        "",
    ));
}

fn queues(at: &Checked<'_>, findings: &mut Vec<Finding>) {
    let Some(queues) = at.port.queues() else { return };
    let classes = at.port.class_count();
    if at.port.classes().is_some() && u16::from(classes) > queues {
        findings.push(at.finding(
            "more-classes-than-queues",
            Severity::Error,
            [
                format!("{classes} classes, {queues} transmit queues"),
                "a queue for each class: Linux refuses more with \"Invalid argument\"".into(),
                format!("use at most {queues} classes, or a NIC with more queues (`nic = {{ queues = … }}`)"),
            ],
            "Linux 6.1.192, sources; tried",
        ));
    }
}

/// The queues whose classes hand `feature` to the NIC.
fn queues_of(at: &Checked<'_>, feature: Feature) -> Vec<u16> {
    let hands = |class: &u8| match at.port.shaper(*class) {
        Shaper::Cbs(cbs) => cbs.offload && feature == Feature::Cbs,
        Shaper::Etf(etf) => etf.offload && feature == Feature::Etf,
        Shaper::None => false,
    };
    (0..at.port.class_count()).filter(hands).map(|class| at.port.places[usize::from(class)].queue).collect()
}

fn limit(at: &Checked<'_>, rule: &'static Rule, used: &[Feature], findings: &mut Vec<Finding>) {
    let mut say = |name, severity, found: String, needed: String, mend: String| {
        findings.push(at.finding(name, severity, [found, needed, mend], rule.source));
    };
    let schedule = match at.port.queue {
        Queue::Taprio { schedule, .. } if schedule.mode == TaprioMode::FullOffload => Some(schedule),
        _ => None,
    };
    let driver: &Driver = at.port.driver;
    match rule.limit {
        Limit::Below(feature, below) => on_queues(at, rule, feature, |queue| queue < below, findings),
        Limit::From(feature, from) => on_queues(at, rule, feature, |queue| queue >= from, findings),
        Limit::Top(feature, top) => {
            let from = at.port.queues().unwrap_or(driver.queues).saturating_sub(top);
            on_queues(at, rule, feature, |queue| queue >= from, findings);
        }
        Limit::Models(features, models) if features.iter().any(|feature| used.contains(feature)) => say(
            "offload-on-some-models",
            Severity::Note,
            format!("{} takes this over on some models", driver.name),
            models.to_owned(),
            String::new(),
        ),
        Limit::OneWindow => {
            let Some(schedule) = schedule else { return };
            let several = |class: &u8| matches!(schedule.open(*class), Open::In(windows) if windows.len() > 1);
            if let Some(class) = (0..at.port.class_count()).find(several) {
                say(
                    "gate-opens-twice",
                    Severity::Error,
                    format!("the gate of class {class} opens more than once in a cycle"),
                    format!("once: {} keeps one window a class", driver.name),
                    "join its windows, or write `mode = \"software\"`".into(),
                );
            }
        }
        Limit::PastBaseTime(models) => {
            let base = schedule
                .map(|schedule| crate::arithmetic::base_time(schedule.base_time, at.port.shift, schedule.cycle));
            if base.zip(at.situation.now).is_some_and(|(base, now)| base > now) {
                say(
                    "base-time-not-past",
                    Severity::Error,
                    "base-time lies ahead".into(),
                    format!("one that has passed, on {models}"),
                    "write `base_time = \"0s\"`".into(),
                );
            }
        }
        Limit::Entries(most) => {
            if let Some(count) = schedule.map(|schedule| schedule.entries.len()).filter(|count| *count >= most) {
                say(
                    "too-many-entries",
                    Severity::Error,
                    format!("{count} entries"),
                    format!("less than {most}"),
                    "join intervals".into(),
                );
            }
        }
        Limit::IntervalBits(bits) => {
            let longest = schedule.and_then(|schedule| schedule.entries.iter().map(|entry| entry.interval).max());
            if let Some(longest) = longest.filter(|longest| longest.0 >> bits > 0) {
                say(
                    "interval-too-long",
                    Severity::Warning,
                    format!("an interval of {}", span(longest)),
                    format!("less than {} where the hardware has {bits} bits for it", span(units::Nanos(1 << bits))),
                    "cut the interval into several with the same gates".into(),
                );
            }
        }
        Limit::Excludes(first, second) if used.contains(&first) && used.contains(&second) => say(
            "offloads-exclude-each-other",
            Severity::Error,
            format!("both {} and {} are to be taken over", first.qdisc(), second.qdisc()),
            format!("one of them: {} refuses the second with EBUSY", driver.name),
            "leave `offload` of one of them out".into(),
        ),
        Limit::LaunchWithinCycle if used.contains(&Feature::Etf) => say(
            "launch-within-cycle",
            Severity::Note,
            format!("{} counts launch times within its cycle", driver.name),
            "keep each launch within the next cycle; the last 5 µs of it make the driver warn".into(),
            String::new(),
        ),
        Limit::Note(text) if !used.is_empty() => {
            say("driver-note", Severity::Note, format!("driver {}", driver.name), text.to_owned(), String::new());
        }
        _ => {}
    }
}

fn on_queues(
    at: &Checked<'_>,
    rule: &'static Rule,
    feature: Feature,
    allowed: impl Fn(u16) -> bool,
    findings: &mut Vec<Finding>,
) {
    let queues = at.port.queues().unwrap_or(at.port.driver.queues);
    let good: Vec<String> = (0..queues).filter(|queue| allowed(*queue)).map(|queue| queue.to_string()).collect();
    for queue in queues_of(at, feature).into_iter().filter(|queue| !allowed(*queue)) {
        findings.push(at.finding(
            "offload-on-wrong-queue",
            Severity::Error,
            [
                format!("{} with offload on queue {queue}", feature.qdisc()),
                format!("queues {}: {} has it there alone", good.join(", "), at.port.driver.name),
                "use a higher class for it, or fewer classes; or leave `offload` out".into(),
            ],
            rule.source,
        ));
    }
}

fn preemption(at: &Checked<'_>, findings: &mut Vec<Finding>) {
    if at.port.nic.preemptable == 0 {
        return;
    }
    let known = at.port.driver.rules.iter().find_map(|rule| match rule.limit {
        Limit::Preemption(merge, classes) => Some((rule, merge, classes)),
        _ => None,
    });
    match known {
        Some((rule, merge, classes)) if at.port.kernel < classes => findings.push(at.finding(
            "preemption-needs-newer-kernel",
            Severity::Error,
            [
                format!("kernel {}", at.port.kernel),
                format!(
                    "{} has the MAC merge layer from {merge} and preemptable classes from {classes} on",
                    at.port.driver.name
                ),
                "use a newer kernel, or leave `preemptable` out".into(),
            ],
            rule.source,
        )),
        Some(_) => {}
        None => findings.push(at.finding(
            "preemption-not-known",
            Severity::Warning,
            [
                format!("nothing is known of preemption by driver {}", at.port.driver.name),
                "a driver with a MAC merge layer: `ethtool --show-mm` says so".into(),
                "look at it before; both ends have to have it".into(),
            ],
            "",
        )),
    }
    findings.push(at.finding(
        "preemption-not-modelled",
        Severity::Note,
        [
            "frames of some classes can be interrupted here".into(),
            "bound and simulation take every frame for whole: express frames do better than they say".into(),
            String::new(),
        ],
        "",
    ));
}
