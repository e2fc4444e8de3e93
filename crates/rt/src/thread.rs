//! Asking the kernel for a thread that keeps time, and saying what it refused.
//!
//! Nothing here fails hard: a laboratory runs on an ordinary machine too, only less well, and the result
//! says so. [`prepare`] tries everything that was asked for; [`Granted::describe`] puts it in words.

use std::fs::File;
use std::io::Write;

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::unistd::Pid;
use units::Nanos;

/// Stack that is touched in advance; more than the cyclic path ever uses.
const STACK_BYTES: usize = 128 * 1024;
const PAGE_BYTES: usize = 4096;

/// What a thread asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requested {
    /// SCHED_FIFO with this priority, 1 (lowest) to 99.
    pub fifo_priority: Option<u8>,
    /// Run on this processor only, counted from 0.
    pub cpu: Option<usize>,
    /// Keep all memory of the process resident, present and future.
    pub lock_memory: bool,
    /// Let sleeps end within 1 ns of their instant, as far as the timer goes, instead of within 50 µs.
    /// SCHED_FIFO has no slack anyway.
    pub timer_slack_1ns: bool,
    /// Keep every processor out of deep sleep (`/dev/cpu_dma_latency` at 0 µs) while the [`Granted`] lives.
    pub cpu_dma_latency: bool,
    /// SCHED_DEADLINE with this share of a processor, above all SCHED_FIFO threads. Where it is refused, SCHED_FIFO stays,
    /// if that was asked for too.
    ///
    /// It does not go together with [`Self::cpu`]: the kernel gives it only to threads that may run on every processor
    /// of their root domain, so a processor of one's own takes an exclusive cpuset (a cpuset partition) instead.
    pub deadline: Option<Deadline>,
}

/// A share of a processor (sched(7), SCHED_DEADLINE): 1 µs < `runtime` ≤ `deadline` ≤ `period`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// Processor time in each period; spinning counts. A thread that takes more is stopped until the next period.
    pub runtime: Nanos,
    /// Until when, after it wakes up, the thread gets its runtime.
    pub deadline: Nanos,
    /// How often: the cycle.
    pub period: Nanos,
}

/// What became of one wish.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Grant {
    /// It was not asked for.
    #[default]
    NotAsked,
    /// It holds.
    Granted,
    /// The kernel refused, for this reason.
    Refused(Errno),
}

impl Grant {
    /// Whether it was asked for and refused.
    pub const fn is_refused(self) -> bool {
        matches!(self, Self::Refused(_))
    }

    fn of<T>(result: Result<T, Errno>) -> Self {
        match result {
            Ok(_) => Self::Granted,
            Err(errno) => Self::Refused(errno),
        }
    }
}

/// What a thread got. Keep it as long as the thread runs: it holds `/dev/cpu_dma_latency` open.
#[derive(Debug)]
#[must_use = "dropping it gives up the hold on /dev/cpu_dma_latency"]
pub struct Granted {
    /// SCHED_FIFO.
    pub fifo: Grant,
    /// The processor.
    pub cpu: Grant,
    /// Locked memory.
    pub memory: Grant,
    /// Timer slack.
    pub timer_slack: Grant,
    /// Processors out of deep sleep.
    pub cpu_dma_latency: Grant,
    /// SCHED_DEADLINE.
    pub deadline: Grant,
    requested: Requested,
    _cpu_dma_latency: Option<File>,
}

/// Prepares the calling thread. Locked memory concerns the whole process, processors' sleep the whole machine.
///
/// Threads and processes that this thread starts later do not inherit SCHED_FIFO, but do inherit the processor.
pub fn prepare(requested: &Requested) -> Granted {
    let mut granted = Granted {
        fifo: Grant::NotAsked,
        cpu: Grant::NotAsked,
        memory: Grant::NotAsked,
        timer_slack: Grant::NotAsked,
        cpu_dma_latency: Grant::NotAsked,
        deadline: Grant::NotAsked,
        requested: requested.clone(),
        _cpu_dma_latency: None,
    };
    if requested.lock_memory {
        granted.memory = Grant::of(mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE));
        touch_stack();
    }
    if let Some(cpu) = requested.cpu {
        let mut cpus = CpuSet::new();
        granted.cpu = Grant::of(cpus.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(0), &cpus)));
    }
    if requested.timer_slack_1ns {
        granted.timer_slack = Grant::of(nix::sys::prctl::set_timerslack(1));
    }
    if requested.cpu_dma_latency {
        match hold_cpu_dma_latency() {
            Ok(file) => {
                granted.cpu_dma_latency = Grant::Granted;
                granted._cpu_dma_latency = Some(file);
            }
            Err(error) => {
                granted.cpu_dma_latency = Grant::Refused(Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)));
            }
        }
    }
    // Last, so that the rest is not done at a priority that starves others.
    if let Some(priority) = requested.fifo_priority {
        granted.fifo = Grant::of(set_fifo(priority));
    }
    if let Some(deadline) = &requested.deadline {
        granted.deadline = Grant::of(set_deadline(deadline));
    }
    granted
}

fn set_deadline(deadline: &Deadline) -> Result<(), Errno> {
    const RESET_ON_FORK: u64 = 1;
    let nanos = |span: Nanos| u64::try_from(span.0).map_err(|_| Errno::EINVAL);
    let mut attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_DEADLINE as u32,
        // Without it the thread could start no other.
        sched_flags: RESET_ON_FORK,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: nanos(deadline.runtime)?,
        sched_deadline: nanos(deadline.deadline)?,
        sched_period: nanos(deadline.period)?,
    };
    // SAFETY: `attributes` is a valid structure of the size it names, which the kernel reads; if it knows a
    // smaller one only, it writes that size into it. 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw mut attributes, 0) };
    Errno::result(result).map(drop)
}

fn set_fifo(priority: u8) -> Result<(), Errno> {
    let parameter = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: `parameter` is a valid structure the kernel only reads; 0 is the calling thread.
    let result =
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameter) };
    Errno::result(result).map(drop)
}

fn hold_cpu_dma_latency() -> std::io::Result<File> {
    let mut file = File::options().write(true).open("/dev/cpu_dma_latency")?;
    file.write_all(&0_i32.to_ne_bytes())?;
    Ok(file)
}

/// Writes to every page the cyclic path may reach, so that none of them faults later.
#[inline(never)]
fn touch_stack() {
    let mut stack = [0_u8; STACK_BYTES];
    for page in stack.chunks_mut(PAGE_BYTES) {
        page[0] = 1;
        std::hint::black_box(page);
    }
}

impl Granted {
    /// Whether nothing that was asked for was refused.
    pub fn is_complete(&self) -> bool {
        ![self.fifo, self.cpu, self.memory, self.timer_slack, self.cpu_dma_latency, self.deadline]
            .iter()
            .any(|grant| grant.is_refused())
    }

    /// One line for each wish: what was granted, what was refused, why, and what follows.
    pub fn describe(&self) -> Vec<String> {
        let priority = self.requested.fifo_priority.unwrap_or_default();
        let cpu = self.requested.cpu.unwrap_or_default();
        let wishes = [
            (
                self.fifo,
                format!("SCHED_FIFO {priority}"),
                "CAP_SYS_NICE or RLIMIT_RTPRIO",
                "runs as an ordinary thread, wake-ups can be milliseconds late",
            ),
            (self.cpu, format!("processor {cpu}"), "a processor of this process's cpuset", "runs on any processor"),
            (
                self.memory,
                "locked memory".to_string(),
                "CAP_IPC_LOCK or a larger RLIMIT_MEMLOCK",
                "a page fault may delay a cycle",
            ),
            (self.timer_slack, "timer slack 1 ns".to_string(), "", "sleeps end up to 50 us late"),
            (
                self.cpu_dma_latency,
                "/dev/cpu_dma_latency 0 us".to_string(),
                "root",
                "a processor waking from deep sleep may delay a cycle",
            ),
        ];
        let lines = wishes.into_iter().filter_map(|(grant, what, needs, follows)| line(grant, &what, needs, follows));
        lines.chain(self.describe_deadline()).collect()
    }

    fn describe_deadline(&self) -> Option<String> {
        let Deadline { runtime, deadline, period } = self.requested.deadline?;
        let why = match self.deadline {
            Grant::NotAsked => return None,
            Grant::Granted => "granted".to_owned(),
            Grant::Refused(Errno::EPERM) if self.cpu == Grant::Granted => {
                "not allowed: a thread pinned to one processor cannot have it; leave the processor out and put the process \
                 into an exclusive cpuset of that processor"
                    .to_owned()
            }
            Grant::Refused(Errno::EPERM) => {
                "not allowed: needs CAP_SYS_NICE and every processor of the cpuset's root domain".to_owned()
            }
            Grant::Refused(Errno::EBUSY) => {
                "refused: threads of this kind already hold what sched_rt_runtime_us leaves for them".to_owned()
            }
            Grant::Refused(Errno::EINVAL) => {
                "impossible: 1 us < runtime <= deadline <= period expected, and a period within the bounds of \
                 /proc/sys/kernel/sched_deadline_period_*_us"
                    .to_owned()
            }
            Grant::Refused(errno) => format!("refused ({})", errno.desc()),
        };
        Some(format!("SCHED_DEADLINE {runtime} of {period}, within {deadline}: {why}"))
    }
}

fn line(grant: Grant, what: &str, needs: &str, follows: &str) -> Option<String> {
    match grant {
        Grant::NotAsked => None,
        Grant::Granted => Some(format!("{what}: granted")),
        Grant::Refused(Errno::EPERM | Errno::EACCES | Errno::ENOMEM) if !needs.is_empty() => {
            Some(format!("{what}: not allowed (needs {needs}); {follows}"))
        }
        Grant::Refused(errno @ (Errno::ENOENT | Errno::ENODEV | Errno::EINVAL)) => {
            Some(format!("{what}: not on this machine ({}); {follows}", errno.desc()))
        }
        Grant::Refused(errno) => Some(format!("{what}: refused ({}); {follows}", errno.desc())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_new_thread<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(body).join().unwrap()
    }

    #[test]
    fn nothing_asked_nothing_said() {
        let granted = in_new_thread(|| prepare(&Requested::default()));
        assert!(granted.is_complete());
        assert!(granted.describe().is_empty());
    }

    #[test]
    fn what_everyone_may_have_is_granted() {
        let first = nix::sched::sched_getaffinity(Pid::from_raw(0)).unwrap();
        let cpu = (0..CpuSet::count()).find(|cpu| first.is_set(*cpu) == Ok(true)).unwrap();
        let (granted, slack, cpus) = in_new_thread(move || {
            let requested = Requested { cpu: Some(cpu), timer_slack_1ns: true, ..Requested::default() };
            let granted = prepare(&requested);
            let cpus = nix::sched::sched_getaffinity(Pid::from_raw(0)).unwrap();
            let cpus = (0..CpuSet::count()).filter(|cpu| cpus.is_set(*cpu) == Ok(true)).count();
            (granted, nix::sys::prctl::get_timerslack(), cpus)
        });
        assert!(granted.is_complete(), "{:?}", granted.describe());
        assert_eq!(granted.describe(), [format!("processor {cpu}: granted"), "timer slack 1 ns: granted".to_string()]);
        assert_eq!(slack, Ok(1));
        assert_eq!(cpus, 1);
    }

    #[test]
    fn impossible_wishes_are_refused_in_words() {
        let requested = Requested { cpu: Some(100_000), fifo_priority: Some(200), ..Requested::default() };
        let granted = in_new_thread(move || prepare(&requested));
        assert!(granted.fifo.is_refused() && granted.cpu.is_refused() && !granted.is_complete());
        assert_eq!(granted.describe().len(), 2);
        assert!(granted.describe()[1].starts_with("processor 100000: not on this machine"), "{:?}", granted.describe());
    }

    const TENTH: Deadline = Deadline {
        runtime: Nanos::from_micros(100),
        deadline: Nanos::from_micros(500),
        period: Nanos::from_micros(1_000),
    };

    #[test]
    fn a_deadline_is_granted_or_explained() {
        let (granted, policy) = in_new_thread(|| {
            let granted = prepare(&Requested { deadline: Some(TENTH), ..Requested::default() });
            // SAFETY: asks about the calling thread.
            (granted, unsafe { libc::sched_getscheduler(0) })
        });
        let line = &granted.describe()[0];
        match granted.deadline {
            Grant::Granted => assert_eq!(policy & !libc::SCHED_RESET_ON_FORK, libc::SCHED_DEADLINE),
            Grant::Refused(Errno::EPERM) => assert!(line.contains("CAP_SYS_NICE"), "{line}"),
            Grant::Refused(Errno::EBUSY) => assert!(line.contains("sched_rt_runtime_us"), "{line}"),
            other => panic!("{other:?}: {line}"),
        }
    }

    #[test]
    fn a_pinned_thread_gets_no_deadline_and_is_told_why() {
        let cpus = nix::sched::sched_getaffinity(Pid::from_raw(0)).unwrap();
        let mut allowed = (0..CpuSet::count()).filter(|cpu| cpus.is_set(*cpu) == Ok(true));
        let (Some(cpu), Some(_)) = (allowed.next(), allowed.next()) else { return };
        let requested = Requested { cpu: Some(cpu), deadline: Some(TENTH), ..Requested::default() };
        let granted = in_new_thread(move || prepare(&requested));
        assert_eq!((granted.cpu, granted.deadline), (Grant::Granted, Grant::Refused(Errno::EPERM)));
        assert!(!granted.is_complete());
        assert!(granted.describe()[1].contains("exclusive cpuset"), "{:?}", granted.describe());
    }

    #[test]
    fn an_impossible_deadline_is_refused_in_words() {
        for wrong in [Deadline { runtime: Nanos::from_micros(600), ..TENTH }, Deadline { period: Nanos(-1), ..TENTH }] {
            let requested = Requested { deadline: Some(wrong), ..Requested::default() };
            let granted = in_new_thread(move || prepare(&requested));
            assert_eq!(granted.deadline, Grant::Refused(Errno::EINVAL));
            assert!(granted.describe()[0].contains("runtime <= deadline <= period"), "{:?}", granted.describe());
        }
    }

    #[test]
    fn the_missing_right_is_named() {
        // Drop the rights of one thread only: the raw call, unlike libc's, does not reach the others.
        let granted = in_new_thread(|| {
            // SAFETY: changes the effective user of this thread alone, which ends right after.
            let result = unsafe { libc::syscall(libc::SYS_setresuid, -1_i32, 65_534_i32, -1_i32) };
            if result != 0 && nix::unistd::geteuid().is_root() {
                return None;
            }
            let requested = Requested { fifo_priority: Some(80), cpu_dma_latency: true, ..Requested::default() };
            Some(prepare(&requested))
        });
        let Some(granted) = granted else { return };
        if granted.fifo == Grant::Granted {
            // A machine whose limits let ordinary users have real-time priorities.
            return;
        }
        let fifo = &granted.describe()[0];
        assert!(fifo.starts_with("SCHED_FIFO 80: not allowed (needs CAP_SYS_NICE or RLIMIT_RTPRIO)"), "{fifo}");
        assert!(granted.cpu_dma_latency.is_refused());
    }
}
