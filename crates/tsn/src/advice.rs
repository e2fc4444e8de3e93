//! What is done once by hand: kernel command line, processors, interrupts.

use scenario::{HostId, HostKind, Scenario};

use crate::drivers::Stamps;
use crate::port::LinuxPort;

/// "2-3,6" of 2, 3, 6.
pub(crate) fn ranges(cpus: &[u16]) -> String {
    let mut parts: Vec<(u16, u16)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let part = |(first, last): &(u16, u16)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

/// Advice for a host, comments and lines for a shell.
pub(crate) fn lines(scenario: &Scenario, host: HostId, ports: &[LinuxPort<'_>]) -> Vec<String> {
    // Without hardware there is no interrupt to be placed, and a namespace has its machine's processors.
    if ports.iter().all(|port| port.driver.stamps == Stamps::Software) {
        return Vec::new();
    }
    let cpus = scenario.machine(host).cpus;
    let mut lines = Vec::new();
    if cpus.is_empty() {
        lines.push(
            "# No processors are named: `machine = { cpus = [2, 3] }` of the host says which its real-time threads have."
                .into(),
        );
    } else {
        let (own, first) = (ranges(&cpus), cpus[0]);
        lines.extend([
            format!("# Kernel command line: processors {own} for real-time threads, without ticks, callbacks and interrupts"),
            "# of others; no deep sleep, from which a processor takes up to 100 µs and more to wake.".into(),
            format!(
                "isolcpus=managed_irq,domain,{own} nohz_full={own} rcu_nocbs={own} skew_tick=1 nosoftlockup \
                 intel_idle.max_cstate=1 processor.max_cstate=1"
            ),
            String::new(),
            "# Interrupts of the NICs: beside the real-time thread that waits for them, not on the processors of others.".into(),
        ]);
        for port in ports {
            lines.push(format!(
                "for irq in $(awk -F: '/{device}/ {{ print $1 }}' /proc/interrupts); do echo {first} > /proc/irq/$irq/smp_affinity_list; done",
                device = port.device
            ));
        }
        lines.push(String::new());
    }
    if scenario.host(host).kind == HostKind::Station {
        lines.extend([
            "# Real-time threads are not to be stopped for 50 ms of every second.".into(),
            "sysctl kernel.sched_rt_runtime_us=-1".into(),
        ]);
    }
    lines.extend([
        "# CLOCK_TAI has to be 37 s ahead of UTC, or every base-time is off by that: `adjtimex -p` says `tai: 37`."
            .into(),
        "# No NTP daemon beside phc2sys: two would pull the same clock.".into(),
    ]);
    lines
}

#[cfg(test)]
mod tests {
    #[test]
    fn processors_are_written_as_the_kernel_reads_them() {
        assert_eq!(super::ranges(&[2, 3, 6]), "2-3,6");
        assert_eq!(super::ranges(&[0]), "0");
        assert_eq!(super::ranges(&[1, 3, 4, 5]), "1,3-5");
    }
}
