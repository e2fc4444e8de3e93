//! Figures and happenings in words.

use measure::live::{Happening, What};
use measure::{Phase, Side};
use scenario::Scenario;
use units::{Nanos, Tai};

/// Microseconds with one decimal.
pub(super) fn us(ns: i64) -> String {
    format!("{:.1}", ns as f64 / 1e3)
}

/// Microseconds with one decimal below 100 µs, where it matters.
pub(super) fn short_us(ns: i64) -> String {
    if ns.abs() < 100_000 { us(ns) } else { format!("{:.0}", ns as f64 / 1e3) }
}

/// Seconds with one decimal.
pub(super) fn seconds(span: Nanos) -> String {
    format!("{:.1} s", span.0 as f64 / 1e9)
}

/// When a run begins whose cycle 0 is still to come.
pub(crate) fn begins_in(elapsed: Nanos) -> String {
    format!("begins in {} s", elapsed.0.unsigned_abs().div_ceil(1_000_000_000))
}

/// A letter for a phase.
pub(super) fn letter(phase: Phase) -> char {
    match phase {
        Phase::Subscribe => 'S',
        Phase::Application => 'A',
        Phase::Publish => 'P',
        Phase::Launch => 'L',
    }
}

/// One line: when, where, what, how often.
pub(super) fn happening(happening: &Happening, scenario: &Scenario, start: Tai) -> String {
    let stream = &scenario.streams[usize::from(happening.stream)];
    let host = scenario.host(if happening.side == Side::Writer { stream.writer } else { stream.reader });
    let what = match happening.what {
        What::Late(phase, late) => format!("{} began {} µs late", phase.key(), us(late.0)),
        What::Skipped(cycles) => format!("left out {cycles} cycles"),
        What::Refused(measure::LAUNCH_INVALID) => "a launch time was past or out of order (INVALID_PARAM)".into(),
        What::Refused(measure::LAUNCH_MISSED) => "a launch time passed in the queue (TXTIME_MISSED)".into(),
        What::Refused(measure::LAUNCH_REFUSED) => "the queue did not take a frame with a launch time (ENOBUFS)".into(),
        What::Refused(errno) => format!("a send was refused: {}", nix::errno::Errno::from_raw(errno).desc()),
        What::ReceiveFailed(errno) => format!("receiving failed: {}", nix::errno::Errno::from_raw(errno).desc()),
        What::Breach(condition) => format!("breach: {}", condition.key()),
        What::TimeSet(by) => format!("the time was set by {by}"),
        What::Missed(counters) => format!("missed {counters} counters"),
        What::Inconsistent => "a message's variables differed".into(),
        What::WrongTag => "a message with another tag".into(),
    };
    let times = match happening.times {
        1 => String::new(),
        times => format!(" (× {times}, the worst)"),
    };
    let at = happening.until.0.saturating_sub(start.0).max(0);
    format!("{:>8} {} {}: {what}{times}", seconds(Nanos(at)), host.name, stream.name)
}

/// What was granted to all hosts, and each refusal.
pub(super) fn rights(rights: &str, granted: &[(String, Vec<String>)]) -> String {
    let parts = |line: &str| line.strip_suffix(": granted").map(str::to_owned);
    let (mut same, mut refused) = (Vec::new(), Vec::new());
    for (host, lines) in granted {
        for line in lines {
            match parts(line) {
                // Each thread has a processor of its own; which one matters little here.
                Some(what) if what.starts_with("processor") => {}
                Some(what) if same.contains(&what) => {}
                Some(what) => same.push(what),
                None => {
                    let what = line.split_once(';').map_or(line.as_str(), |(what, _)| what);
                    let told = format!("{host}: {what}");
                    if !refused.contains(&told) {
                        refused.push(told);
                    }
                }
            }
        }
    }
    if !refused.is_empty() {
        return format!("{rights} · {}", refused.join(" · "));
    }
    match same.is_empty() {
        true => rights.to_owned(),
        false => format!("{rights} · granted {}", same.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_come_before_what_was_granted() {
        let granted = |lines: &[&str]| ("pub".to_owned(), lines.iter().map(|line| (*line).to_owned()).collect());
        let fine = granted(&["SCHED_FIFO 80: granted", "processor 1: granted", "locked memory: granted"]);
        assert_eq!(rights("root", &[fine.clone(), fine]), "root · granted SCHED_FIFO 80, locked memory");
        let refused = granted(&["SCHED_FIFO 80: not allowed (needs X); runs as an ordinary thread"]);
        assert_eq!(rights("root", &[refused]), "root · pub: SCHED_FIFO 80: not allowed (needs X)");
        assert_eq!(rights("root", &[]), "root");
    }
}
