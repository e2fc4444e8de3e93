//! Processors kept busy: by computing, by copying, or for a share of the time.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use super::child::Work;

/// Steps of a computation between two looks at the stop flag: some 10 µs.
const STEPS: u64 = 10_000;

/// Bytes copied between two looks at the stop flag.
const CHUNK_BYTES: usize = 1 << 20;

/// All buffers together, when the caches are small or unknown.
const LEAST_BYTES: usize = 64 << 20;

/// Puts the calling thread on a processor. Refused, it runs on any; the load is then the same in sum.
pub(super) fn stay_on(cpu: usize) {
    let mut cpus = CpuSet::new();
    _ = cpus.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(0), &cpus));
}

/// A thread on every processor that computes without pause.
pub(super) fn compute() -> Work {
    let mut work = Work::default();
    let count = work.count("computation steps");
    for cpu in rt::wakeup::allowed_cpus() {
        let count = Arc::clone(&count);
        work.spawn(move |stop| {
            stay_on(cpu);
            let mut state = cpu as u64 + 1;
            while !stop.load(Ordering::Relaxed) {
                state = steps(state);
                count.fetch_add(STEPS, Ordering::Relaxed);
            }
        });
    }
    work
}

/// Marsaglia's xorshift: each step needs the one before, so no processor is done early.
fn steps(mut state: u64) -> u64 {
    for _ in 0..STEPS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    std::hint::black_box(state)
}

/// A thread on every processor that copies one buffer to another, together twice the largest cache.
pub(super) fn copy() -> Result<Work, String> {
    let cpus = rt::wakeup::allowed_cpus();
    let (bytes, cache) = (footprint(largest_cache(), available_memory()), largest_cache());
    let each = bytes / cpus.len() / 2;
    let mut work = Work::default();
    work.notes.push(format!("{} MiB of memory, the largest cache has {} MiB", bytes >> 20, cache >> 20));
    if bytes <= cache {
        work.notes.push("the caches hold the buffers: this machine has too little free memory for more".into());
    }
    let count = work.count("bytes copied");
    let (ready, are_ready) = mpsc::channel();
    for &cpu in &cpus {
        let (count, ready) = (Arc::clone(&count), ready.clone());
        work.spawn(move |stop| {
            stay_on(cpu);
            // Not zero: pages of zeros that nobody wrote to are one page.
            let (mut from, mut to) = (vec![1_u8; each], vec![2_u8; each]);
            _ = ready.send(());
            drop(ready);
            while !stop.load(Ordering::Relaxed) {
                for (from, to) in from.chunks(CHUNK_BYTES).zip(to.chunks_mut(CHUNK_BYTES)) {
                    to.copy_from_slice(from);
                    count.fetch_add(from.len() as u64, Ordering::Relaxed);
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
                std::mem::swap(&mut from, &mut to);
            }
        });
    }
    drop(ready);
    match are_ready.iter().take(cpus.len()).count() {
        all if all == cpus.len() => Ok(work),
        _ => Err("a thread of the memory load could not take its memory".into()),
    }
}

/// Twice the largest cache, but never more than a quarter of what is free.
fn footprint(cache: usize, available: Option<usize>) -> usize {
    let wanted = (2 * cache).max(LEAST_BYTES);
    available.map_or(wanted, |available| wanted.min(available / 4)).max(4 << 20)
}

fn largest_cache() -> usize {
    let sizes = (0..8).filter_map(|index| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        let text = std::fs::read_to_string(path).ok()?;
        text.trim().strip_suffix('K')?.parse::<usize>().ok().map(|size| size << 10)
    });
    sizes.max().unwrap_or(0)
}

fn available_memory() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok().map(|size| size << 10)
}

/// Computes for `per_mille` of the time, in turns of 5 to 15 ms: a fixed turn would beat with the kernel's tick, which
/// is what measures it.
pub(super) fn compute_partly(cpu: usize, per_mille: &AtomicU32, computed_us: &AtomicU64, stop: &AtomicBool) {
    stay_on(cpu);
    let mut state = cpu as u64 + 1;
    while !stop.load(Ordering::Relaxed) {
        state = steps(state);
        let turn = Duration::from_micros(5_000 + state % 10_000);
        let share = turn * per_mille.load(Ordering::Relaxed).min(1_000) / 1_000;
        let began = Instant::now();
        while began.elapsed() < share && !stop.load(Ordering::Relaxed) {
            state = steps(state);
        }
        computed_us.fetch_add(share.as_micros() as u64, Ordering::Relaxed);
        thread::sleep(turn.saturating_sub(began.elapsed()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_larger_than_the_cache_and_leave_memory_free() {
        assert_eq!(footprint(256 << 20, Some(8 << 30)), 512 << 20);
        assert_eq!(footprint(256 << 20, Some(1 << 30)), 256 << 20);
        assert_eq!(footprint(0, None), LEAST_BYTES);
        assert!(available_memory().is_some_and(|bytes| bytes > 1 << 20));
    }
}
