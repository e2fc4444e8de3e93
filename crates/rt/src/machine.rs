//! What the host is: the part of a result that tells whether two of them can be compared.

use std::fs;
use std::path::Path;

use nix::unistd::{SysconfVar, sysconf};

/// The host as found. A field is none where the host does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Kernel release (`uname -r`).
    pub kernel_release: String,
    /// Kernel version (`uname -v`): build and preemption model.
    pub kernel_version: String,
    /// Name of the processor.
    pub cpu_model: Option<String>,
    /// Processors that are online.
    pub cpus: usize,
    /// What the kernel reads time from; `tsc` is the good one on x86.
    pub clocksource: Option<String>,
    /// Frequency governor of the first processor; none when its frequency is not the kernel's to change.
    pub governor: Option<String>,
    /// The hypervisor when this is a virtual machine: its name or, where it hides it, `unknown`.
    pub hypervisor: Option<String>,
    /// Whether the kernel is PREEMPT_RT.
    pub preempt_rt: bool,
    /// Time per second that real-time threads may take, in microseconds; −1 is all of it.
    pub sched_rt_runtime_us: Option<i64>,
    /// Time that the fair server (kernel 6.12 and newer) may take from real-time threads in its period, as a rule a
    /// second, in nanoseconds: the most of any processor. Only root sees it, and only where debugfs is mounted.
    pub fair_server_runtime_ns: Option<u64>,
    /// Memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Processors kept free of ordinary work (`isolcpus`), as a list like `2-3`; none when there is none.
    pub isolated_cpus: Option<String>,
}

impl Machine {
    /// Looks at the host. Never fails: what cannot be read is left out.
    pub fn read() -> Self {
        let uname = nix::sys::utsname::uname().ok();
        let text = |value: &std::ffi::OsStr| value.to_string_lossy().into_owned();
        let kernel_version = uname.as_ref().map_or_else(String::new, |uname| text(uname.version()));
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self {
            kernel_release: uname.as_ref().map_or_else(String::new, |uname| text(uname.release())),
            cpu_model: field(&cpuinfo, "model name")
                .or_else(|| line("/sys/firmware/devicetree/base/model"))
                .or_else(|| field(&cpuinfo, "Model")),
            cpus: sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten().map_or(1, |cpus| cpus as usize),
            clocksource: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            hypervisor: hypervisor(&cpuinfo),
            preempt_rt: line("/sys/kernel/realtime").is_some_and(|value| value == "1")
                || kernel_version.contains("PREEMPT_RT"),
            sched_rt_runtime_us: line("/proc/sys/kernel/sched_rt_runtime_us").and_then(|value| value.parse().ok()),
            fair_server_runtime_ns: fair_server(Path::new("/sys/kernel/debug/sched/fair_server")),
            memory_bytes: memory(&meminfo),
            isolated_cpus: line("/sys/devices/system/cpu/isolated"),
            kernel_version,
        }
    }
}

/// The first line of a file of the kernel's; none when it is missing or empty.
fn line(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    // A device tree ends its strings with a NUL.
    let first = text.lines().next()?.trim_matches(['\0', ' ', '\t']);
    (!first.is_empty()).then(|| first.to_string())
}

/// The first `name : value` of a list like `/proc/cpuinfo`.
fn field(list: &str, name: &str) -> Option<String> {
    list.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name && !value.trim().is_empty()).then(|| value.trim().to_string())
    })
}

/// The largest `cpuN/runtime` in a folder of the kernel's.
fn fair_server(folder: &Path) -> Option<u64> {
    let processors = fs::read_dir(folder).ok()?.flatten();
    processors.filter_map(|processor| line(processor.path().join("runtime"))?.parse().ok()).max()
}

fn memory(meminfo: &str) -> Option<u64> {
    let kibibytes: u64 = field(meminfo, "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// By name where the machine tells it, else by the flag a processor shows inside a virtual machine.
fn hypervisor(cpuinfo: &str) -> Option<String> {
    const PRODUCTS: &[(&str, &str)] = &[
        ("KVM", "kvm"),
        ("QEMU", "qemu"),
        ("VMware", "vmware"),
        ("VirtualBox", "virtualbox"),
        ("Virtual Machine", "hyper-v"),
        ("Firecracker", "firecracker"),
        ("Google Compute Engine", "google"),
        ("Amazon EC2", "amazon"),
    ];
    if let Some(kind) = line("/sys/hypervisor/type") {
        return Some(kind);
    }
    let flag = field(cpuinfo, "flags").is_some_and(|flags| flags.split_ascii_whitespace().any(|f| f == "hypervisor"));
    let told = ["/sys/class/dmi/id/product_name", "/sys/class/dmi/id/sys_vendor"].into_iter().filter_map(line);
    let name = told.flat_map(|told| PRODUCTS.iter().find(|(word, _)| told.contains(word))).next();
    match name {
        // Bare-metal instances of a cloud carry its name too: there the flag decides.
        Some((_, "google" | "amazon")) if !flag => None,
        Some((_, name)) => Some((*name).to_string()),
        None => flag.then(|| "unknown".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_is_described() {
        let machine = Machine::read();
        assert!(machine.kernel_release.starts_with(|c: char| c.is_ascii_digit()), "{machine:?}");
        assert!(!machine.kernel_version.is_empty());
        assert!(machine.cpus >= 1);
        assert!(machine.memory_bytes.is_some_and(|bytes| bytes > 1 << 20));
        assert_ne!(machine.isolated_cpus.as_deref(), Some(""));
    }

    #[test]
    fn the_fair_server_is_read_where_there_is_one() {
        let folder = std::env::temp_dir().join(format!("downbeat-fair-server-{}", std::process::id()));
        assert_eq!(fair_server(&folder), None);
        for (cpu, runtime) in [("cpu0", "50000000\n"), ("cpu1", "60000000\n"), ("cpu2", "?\n")] {
            fs::create_dir_all(folder.join(cpu)).unwrap();
            fs::write(folder.join(cpu).join("runtime"), runtime).unwrap();
        }
        assert_eq!(fair_server(&folder), Some(60_000_000));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn lists_of_the_kernel_are_read() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\nflags\t\t: fpu hypervisor tsc\n";
        assert_eq!(field(cpuinfo, "model name").as_deref(), Some("Some CPU @ 3 GHz"));
        assert_eq!(field(cpuinfo, "model"), None);
        assert_eq!(memory("MemFree: 1 kB\nMemTotal:       16 kB\n"), Some(16_384));
        assert_eq!(memory("MemTotal: lots"), None);
        assert!(hypervisor(cpuinfo).is_some());
    }
}
