//! When the gates of a software schedule are open, read from the words of `tc` that issue it.

use tsn::{Plan, Program};
use units::{Nanos, Tai};

use super::Class;
use super::round::Sent;

/// A time in the cycle, from 0 up to its length; it may reach past the end of the cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: Nanos,
    pub(super) end: Nanos,
}

/// The most by which a frame may be handed over too late, or stamped too late, without being taken for one at a wrong
/// time; less where a gate is shut for a short time only.
const SLACK: Nanos = Nanos(20_000);

impl Span {
    pub(super) fn length(self) -> Nanos {
        self.end - self.start
    }

    /// What is left out at its end, so that a late frame says nothing.
    pub(super) fn slack(self) -> Nanos {
        Nanos(self.length().0 / 4).min(SLACK)
    }
}

/// A schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gates {
    pub(super) base: Tai,
    pub(super) cycle: Nanos,
    /// The gates that are open, a bit a traffic class, and for how long.
    entries: Vec<(u32, Nanos)>,
    /// The traffic class of each priority.
    map: Vec<u8>,
    /// How many queues each traffic class has, and the first of them.
    queues: Vec<(u16, u16)>,
}

impl Gates {
    /// Reads `… taprio num_tc N map … queues C@O … base-time B sched-entry S MASK INTERVAL … [cycle-time C] …`.
    pub(super) fn read(words: &[String]) -> Option<Self> {
        let at = |key: &str| words.iter().position(|word| word == key);
        let behind = |key: &str| words.get(at(key)? + 1);
        let numbers = |key: &str| {
            let from = at(key).map_or(words.len(), |place| place + 1);
            words[from..].iter().map_while(|word| word.parse::<u8>().ok()).collect::<Vec<u8>>()
        };
        let base = Tai(behind("base-time")?.parse().ok()?);
        let mut entries = Vec::new();
        for (place, _) in words.iter().enumerate().filter(|(_, word)| *word == "sched-entry") {
            let [kind, mask, interval] = words.get(place + 1..place + 4)? else { return None };
            if kind != "S" {
                return None;
            }
            let interval = interval.parse().ok().filter(|length| *length > 0)?;
            entries.push((u32::from_str_radix(mask, 16).ok()?, Nanos(interval)));
        }
        let sum = entries.iter().fold(Nanos::ZERO, |sum, (_, interval)| sum + *interval);
        let cycle = match behind("cycle-time") {
            Some(word) => Nanos(word.parse().ok()?),
            None => sum,
        };
        let from = at("queues")? + 1;
        let queues = words[from..].iter().map_while(|word| {
            let (count, first) = word.split_once('@')?;
            Some((count.parse().ok()?, first.parse().ok()?))
        });
        let queues = queues.collect();
        // Linux would cut or stretch another one.
        (cycle == sum && cycle > Nanos::ZERO).then(|| Self { base, cycle, entries, map: numbers("map"), queues })
    }

    /// Each traffic class that a priority leads to, with the lowest of them.
    pub(super) fn priorities(&self) -> impl Iterator<Item = (u8, u8)> {
        let first = |tc: u8| self.map.iter().position(|known| *known == tc).map(|priority| (tc, priority as u8));
        (0..self.queues.len() as u8).filter_map(first)
    }

    /// The classes whose queue has an ETF below it that refuses frames without a launch time.
    pub(super) fn classes_with_launch_times(&self, plan: &Plan, device: &str) -> Vec<u8> {
        let etf = plan.steps.iter().filter(|step| step.target == device && step.command.program == Program::Tc);
        let mut found = Vec::new();
        for words in etf.map(|step| &step.command.words) {
            let has = |word: &str| words.iter().any(|known| known == word);
            let parent = words.iter().position(|word| word == "parent").and_then(|at| words.get(at + 1));
            let minor = parent
                .and_then(|name| u16::from_str_radix(name.split_once(':')?.1, 16).ok())
                .filter(|minor| *minor > 0);
            let (Some(minor), true, false) = (minor, has("etf"), has("skip_sock_check")) else { continue };
            // Queues count from 1 there.
            let tc = self.queues.iter().position(|(count, first)| (*first..first + count).contains(&(minor - 1)));
            found.extend(tc.map(|tc| tc as u8));
        }
        found
    }

    /// When the gate of a class is shut, without what runs on from one entry to the next as two.
    pub(super) fn shut(&self, tc: u8) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        let mut at = Nanos::ZERO;
        for (mask, interval) in &self.entries {
            let end = at + *interval;
            if mask >> tc & 1 == 0 {
                match spans.last_mut() {
                    Some(last) if last.end == at => last.end = end,
                    _ => spans.push(Span { start: at, end }),
                }
            }
            at = end;
        }
        if let [first, .., last] = spans.as_mut_slice()
            && first.start == Nanos::ZERO
            && last.end == at
        {
            last.end = at + first.end;
            spans.remove(0);
        }
        spans
    }

    pub(super) fn phase(&self, at: Tai) -> Nanos {
        Nanos((at - self.base).0.rem_euclid(self.cycle.0))
    }

    /// The span that an instant is in, and how far from its start.
    fn within(&self, spans: &[Span], at: Tai) -> Option<(Span, Nanos)> {
        let phase = self.phase(at);
        let inside = |span: &Span| {
            let from = Nanos((phase - span.start).0.rem_euclid(self.cycle.0));
            (from < span.length()).then_some((*span, from))
        };
        spans.iter().find_map(inside)
    }

    /// Whether a frame was handed over while the gate of its class was shut, and long enough before it opens.
    pub(super) fn is_telling(&self, class: &Class, sent: &Sent) -> bool {
        let Some((span, from)) = self.within(&class.shut, sent.before) else { return false };
        from + (sent.after - sent.before) <= span.length() - span.slack()
    }

    /// Whether a frame may leave, a late stamp granted.
    pub(super) fn is_open_at(&self, class: &Class, at: Tai) -> bool {
        self.within(&class.shut, at).is_none_or(|(span, from)| from < span.slack())
    }

    /// The next instant from `earliest` on that is this far into a span, in thousandths of what tells.
    pub(super) fn instant(&self, span: Span, thousandths: i64, earliest: Tai) -> Tai {
        // Not at once: what leaves with the shutting gate is still under way.
        let (first, last) = (span.slack(), span.length() - span.slack() - span.slack());
        let into = span.start + first + Nanos((last - first).0.max(0) * thousandths / 1000);
        let ahead = (into - self.phase(earliest)).0.rem_euclid(self.cycle.0);
        earliest + Nanos(ahead)
    }
}
