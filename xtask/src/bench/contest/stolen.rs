//! What takes a processor away from a real-time thread: the host, the throttling of real-time threads, the fair server.

use std::fs::read_to_string;

use serde_json::{Value, json};
use units::Nanos;

/// What /proc/stat counts in.
const TICK: Nanos = Nanos::from_millis(10);

/// For each of the two processors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stolen {
    cpus: [usize; 2],
    /// Time that the host gave to others.
    steal: [Option<Nanos>; 2],
    /// Runtime and period, in nanoseconds, that the fair server gives to ordinary threads; none where it cannot be read.
    fair_server: [Option<(u64, u64)>; 2],
    rt_runtime_us: Option<i64>,
}

impl Stolen {
    pub(super) fn begin(cpus: [usize; 2]) -> Self {
        Self {
            cpus,
            steal: cpus.map(steal),
            fair_server: cpus.map(fair_server),
            rt_runtime_us: rt::machine::Machine::read().sched_rt_runtime_us,
        }
    }

    /// The difference since the beginning.
    pub(super) fn end(mut self) -> Self {
        let now = self.cpus.map(steal);
        for (before, now) in self.steal.iter_mut().zip(now) {
            *before = before.zip(now).map(|(before, now)| now - before);
        }
        self
    }

    pub(super) fn text(&self) -> String {
        let mut parts = Vec::new();
        for ((cpu, steal), fair) in self.cpus.iter().zip(self.steal).zip(self.fair_server) {
            let steal = steal.map_or("unknown".to_owned(), |steal| format!("{} ms", steal.0 / 1_000_000));
            let fair = fair.map_or("cannot be read".to_owned(), |(runtime, period)| {
                format!("{} of {} ms", runtime / 1_000_000, period / 1_000_000)
            });
            parts.push(format!("processor {cpu}: stolen by the host {steal}, fair server {fair}"));
        }
        let runtime = self.rt_runtime_us.map_or("unknown".to_owned(), |us| us.to_string());
        format!("Meanwhile, {}; sched_rt_runtime_us {runtime}.\n", parts.join("; "))
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "cpus": self.cpus, "steal_ns": self.steal.map(|steal| steal.map(|steal| steal.0)),
            "fair_server_runtime_period_ns": self.fair_server, "sched_rt_runtime_us": self.rt_runtime_us,
        })
    }
}

fn steal(cpu: usize) -> Option<Nanos> {
    steal_in(&read_to_string("/proc/stat").ok()?, cpu)
}

/// The eighth number of a processor's line (proc_stat(5)).
fn steal_in(text: &str, cpu: usize) -> Option<Nanos> {
    let name = format!("cpu{cpu}");
    let mut words =
        text.lines().map(str::split_whitespace).find_map(|mut words| (words.next()? == name).then_some(words))?;
    Some(TICK * words.nth(7)?.parse().ok()?)
}

fn fair_server(cpu: usize) -> Option<(u64, u64)> {
    let number = |name: &str| -> Option<u64> {
        read_to_string(format!("/sys/kernel/debug/sched/fair_server/cpu{cpu}/{name}")).ok()?.trim().parse().ok()
    };
    Some((number("runtime")?, number("period")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_found() {
        let text = "cpu  1 2 3 4 5 6 7 80 9 0\ncpu0 1 2 3 4 5 6 7 30 9 0\ncpu1 1 2 3 4 5 6 7 50 9 0\nintr 1\n";
        assert_eq!(steal_in(text, 1), Some(Nanos::from_millis(500)));
        assert_eq!(steal_in(text, 2), None);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let stolen = Stolen {
            cpus: [0, 1],
            steal: [Some(Nanos::from_millis(20)), None],
            fair_server: [None, Some((50_000_000, 1_000_000_000))],
            rt_runtime_us: Some(950_000),
        };
        let text = stolen.text();
        assert!(text.contains("processor 0: stolen by the host 20 ms, fair server cannot be read"), "{text}");
        assert!(text.contains("unknown, fair server 50 of 1000 ms; sched_rt_runtime_us 950000"), "{text}");
    }
}
