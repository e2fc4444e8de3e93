//! How busy the processors are, from `/proc/stat`.

use std::collections::BTreeMap;

/// Time of each processor since boot, in ticks of the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CoreTimes {
    cores: BTreeMap<usize, Times>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Times {
    busy: u64,
    all: u64,
}

impl CoreTimes {
    /// As they are now; empty when the kernel does not say.
    pub(super) fn read() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let cores = text.lines().filter_map(|line| {
            let (name, numbers) = line.split_once(' ')?;
            let cpu = name.strip_prefix("cpu")?.parse().ok()?;
            // user nice system idle iowait irq softirq steal; guest time behind it is in user already.
            let numbers: Vec<u64> = numbers.split_whitespace().map_while(|word| word.parse().ok()).take(8).collect();
            let number = |index: usize| numbers.get(index).copied().unwrap_or(0);
            let busy = [0, 1, 2, 5, 6].map(number).iter().sum();
            Some((cpu, Times { busy, all: numbers.iter().sum() }))
        });
        Self { cores: cores.collect() }
    }

    /// How busy each was since an earlier reading, in percent of the time. Time that a hypervisor took is not busy.
    pub(super) fn busy_percent_since(&self, earlier: &Self) -> BTreeMap<usize, f64> {
        let share = |(cpu, now): (&usize, &Times)| {
            let before = earlier.cores.get(cpu)?;
            let (busy, all) = (now.busy.saturating_sub(before.busy), now.all.saturating_sub(before.all));
            let percent = if all == 0 { 0.0 } else { busy as f64 * 100.0 / all as f64 };
            Some((*cpu, (percent.min(100.0) * 10.0).round() / 10.0))
        };
        self.cores.iter().filter_map(share).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_what_is_neither_idle_nor_taken() {
        let before = CoreTimes::parse("cpu  9 9 9 9\ncpu0 10 0 10 100 0 0 0 0 0 0\ncpu2 0 0 0 0 0 0 0 0 0 0\nintr 5\n");
        let after = CoreTimes::parse("cpu0 20 5 15 150 10 5 5 10 7 0\ncpu2 0 0 0 0 0 0 0 0 0 0\n");
        assert_eq!(after.busy_percent_since(&before), BTreeMap::from([(0, 30.0), (2, 0.0)]));
        assert!(CoreTimes::parse("nothing of it").cores.is_empty());
        assert!(!CoreTimes::read().cores.is_empty());
    }
}
