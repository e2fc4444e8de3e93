//! The processors of the cyclic threads: what else runs on them, and how deeply they sleep.

use std::path::{Path, PathBuf};

use crate::change::Change;
use crate::finding::{Finding, Severity};
use crate::look::{Look, list_of, processors};
use crate::needs::Needs;

const CPUS: &str = "/sys/devices/system/cpu";

pub(super) fn examine(look: &impl Look, needs: &Needs, cyclic: &[usize], found: &mut Vec<Finding>) {
    kept_free(look, cyclic, found);
    interrupts(look, needs, cyclic, found);
    for cpu in cyclic {
        governor(look, *cpu, found);
        idle(look, *cpu, found);
        siblings(look, *cpu, cyclic, found);
    }
    turbo(look, found);
}

/// Kernel parameters that keep ordinary work from a processor.
fn kept_free(look: &impl Look, cyclic: &[usize], found: &mut Vec<Finding>) {
    let command_line = look.read("/proc/cmdline".as_ref()).unwrap_or_default();
    let set = |name: &str| {
        let value =
            command_line.split_ascii_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
        // isolcpus takes flags before its list.
        let list = value.split(',').filter(|part| part.starts_with(|c: char| c.is_ascii_digit()));
        Some(list.collect::<Vec<_>>().join(","))
    };
    for (parameter, why) in [
        ("isolcpus", "so that the scheduler puts nothing else there"),
        ("nohz_full", "so that the kernel's tick does not interrupt a thread that is alone"),
        ("rcu_nocbs", "so that the kernel's housekeeping runs elsewhere"),
    ] {
        let of = |file: &str| look.read(&Path::new(CPUS).join(file)).filter(|list| list != "(null)");
        let list = match parameter {
            "isolcpus" => of("isolated").or_else(|| set(parameter)),
            "nohz_full" => of("nohz_full").or_else(|| set(parameter)),
            // nohz_full implies it.
            _ => set(parameter).or_else(|| of("nohz_full")),
        };
        let there = list.as_deref().map(processors).unwrap_or_default();
        let lacking: Vec<_> = cyclic.iter().copied().filter(|cpu| !there.contains(cpu)).collect();
        let place = format!("cpu {}", list_of(cyclic));
        if lacking.is_empty() {
            found.push(Finding::good(parameter, place, format!("{parameter}={}", list.unwrap_or_default())));
            continue;
        }
        found.push(Finding::new(
            parameter,
            Severity::Warning,
            place,
            [
                &format!("not in {parameter} ({})", list.as_deref().filter(|list| !list.is_empty()).unwrap_or("none")),
                &format!("processor {} in it, {why}", list_of(&lacking)),
                &format!("add {parameter}={} to the kernel's command line and boot anew", list_of(cyclic)),
            ],
        ));
    }
}

/// Interrupts that came on these processors and could go to others, but for those of the interfaces that are driven there.
fn interrupts(look: &impl Look, needs: &Needs, cyclic: &[usize], found: &mut Vec<Finding>) {
    let table = look.read("/proc/interrupts".as_ref()).unwrap_or_default();
    let mut lines = table.lines();
    let columns: Vec<usize> = lines.next().unwrap_or_default().split_ascii_whitespace().filter_map(number_of).collect();
    let others: Vec<usize> = columns.iter().copied().filter(|cpu| !cyclic.contains(cpu)).collect();
    let driven = |name: &str| needs.interfaces.iter().any(|interface| name.starts_with(&interface.name));
    let (mut told, mut fixes) = (Vec::new(), Vec::new());
    for line in lines {
        let Some((number, rest)) = line.trim().split_once(':') else { continue };
        let (Ok(number), words) = (number.parse::<u32>(), rest.split_ascii_whitespace().collect::<Vec<_>>()) else {
            continue;
        };
        let here = columns.iter().zip(&words).filter(|(cpu, _)| cyclic.contains(cpu));
        let count: u64 = here.filter_map(|(_, count)| count.parse::<u64>().ok()).sum();
        let path = PathBuf::from(format!("/proc/irq/{number}/smp_affinity_list"));
        let affinity = look.read(&path).map(|list| processors(&list)).unwrap_or_default();
        let name = words.last().copied().unwrap_or("?");
        if count == 0 || driven(name) || !affinity.iter().any(|cpu| cyclic.contains(cpu)) {
            continue;
        }
        told.push(format!("{number} ({name}) {count} times"));
        fixes.push(Change::File { path, value: list_of(&others) });
    }
    let place = format!("cpu {}", list_of(cyclic));
    if told.is_empty() {
        found.push(Finding::good("irq-affinity", place, "no interrupt comes there"));
    } else {
        let free = list_of(&others);
        let finding = Finding::new(
            "irq-affinity",
            Severity::Warning,
            place,
            [
                &format!("interrupts came there and may come again: {}", told.join(", ")),
                "no interrupts but those of the network interface that the thread drives",
                &match others.is_empty() {
                    true => "leave a processor to the rest of the machine: name others with --cpu".to_owned(),
                    false => format!("for each: echo {free} > /proc/irq/NUMBER/smp_affinity_list"),
                },
            ],
        );
        let fixes = if others.is_empty() { Vec::new() } else { fixes };
        found.push(fixes.into_iter().fold(finding, Finding::mended_by));
    }
    if running(look, &["irqbalance"]).is_some() {
        found.push(Finding::new(
            "irqbalance",
            Severity::Warning,
            "kernel",
            [
                "irqbalance is running",
                "interrupts that stay where they were put",
                "systemctl disable --now irqbalance, or IRQBALANCE_BANNED_CPULIST in /etc/default/irqbalance",
            ],
        ));
    }
}

/// The number of `CPU3`.
fn number_of(word: &str) -> Option<usize> {
    word.strip_prefix("CPU")?.parse().ok()
}

/// The first running process of one of these names, with its command line.
pub(super) fn running(look: &impl Look, names: &[&str]) -> Option<(String, Vec<String>)> {
    look.list("/proc".as_ref()).into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).find_map(
        |process| {
            let folder = Path::new("/proc").join(process);
            let name = look.read(&folder.join("comm"))?;
            // The kernel cuts names at 15 bytes.
            names.iter().find(|wanted| wanted.get(..15).unwrap_or(wanted) == name)?;
            let line = look.read(&folder.join("cmdline")).unwrap_or_default();
            Some((name, line.split('\0').filter(|word| !word.is_empty()).map(str::to_owned).collect()))
        },
    )
}

fn governor(look: &impl Look, cpu: usize, found: &mut Vec<Finding>) {
    let path = Path::new(CPUS).join(format!("cpu{cpu}/cpufreq/scaling_governor"));
    let Some(governor) = look.read(&path) else { return };
    let place = format!("cpu {cpu}");
    if governor == "performance" {
        found.push(Finding::good("governor", place, governor));
        return;
    }
    let finding = Finding::new(
        "governor",
        Severity::Warning,
        place,
        [
            &governor,
            "performance: a processor that changes its frequency stands still meanwhile",
            &format!("echo performance > {}", path.display()),
        ],
    );
    found.push(finding.mended_by(Change::File { path, value: "performance".into() }));
}

/// The deepest sleep. A run holds `/dev/cpu_dma_latency` and so keeps processors from it.
fn idle(look: &impl Look, cpu: usize, found: &mut Vec<Finding>) {
    let folder = Path::new(CPUS).join(format!("cpu{cpu}/cpuidle"));
    let states = look.list(&folder);
    let states = states.iter().filter(|state| look.read(&folder.join(state).join("disable")).as_deref() != Some("1"));
    let deepest = states
        .filter_map(|state| {
            let latency = look.number(&folder.join(state).join("latency"))?;
            Some((latency, look.read(&folder.join(state).join("name")).unwrap_or_else(|| state.clone())))
        })
        .max();
    let Some((latency, name)) = deepest else { return };
    let place = format!("cpu {cpu}");
    if latency <= 2 {
        found.push(Finding::good("c-states", place, format!("no sleep deeper than {name}, {latency} µs to wake up")));
        return;
    }
    let held = look.writable("/dev/cpu_dma_latency".as_ref());
    found.push(Finding::new(
        "c-states",
        if held { Severity::Note } else { Severity::Warning },
        place,
        [
            &format!("sleeps as deeply as {name}: {latency} µs to wake up"),
            "shallow sleep while a run goes on",
            match held {
                true => "nothing: a run holds /dev/cpu_dma_latency",
                false => "processor.max_cstate=1 intel_idle.max_cstate=0 on the kernel's command line, or run as root",
            },
        ],
    ));
}

fn siblings(look: &impl Look, cpu: usize, cyclic: &[usize], found: &mut Vec<Finding>) {
    let path = Path::new(CPUS).join(format!("cpu{cpu}/topology/thread_siblings_list"));
    let Some(list) = look.read(&path) else { return };
    let busy: Vec<_> = processors(&list).into_iter().filter(|other| *other != cpu && !cyclic.contains(other)).collect();
    let place = format!("cpu {cpu}");
    if busy.is_empty() {
        found.push(Finding::good("smt", place, "its core is its own"));
        return;
    }
    found.push(Finding::new(
        "smt",
        Severity::Warning,
        place,
        [
            &format!("shares its core with processor {}", list_of(&busy)),
            "a core of its own: what runs beside it takes half of the core at any time",
            &format!(
                "echo 0 > {CPUS}/cpu{}/online, or `nosmt` on the kernel's command line",
                busy.first().copied().unwrap_or(cpu)
            ),
        ],
    ));
}

fn turbo(look: &impl Look, found: &mut Vec<Finding>) {
    let switches = [("intel_pstate/no_turbo", "1"), ("cpufreq/boost", "0")];
    for (file, off) in switches {
        let path = Path::new(CPUS).join(file);
        let Some(value) = look.read(&path) else { continue };
        if value == off {
            found.push(Finding::good("turbo", "kernel", "off"));
            return;
        }
        let finding = Finding::new(
            "turbo",
            Severity::Note,
            "kernel",
            [
                "on: frequencies change with the load of all cores",
                "off, where latencies of different hours are compared",
                &format!("echo {off} > {}", path.display()),
            ],
        );
        found.push(finding.mended_by(Change::File { path, value: off.into() }));
        return;
    }
}
