//! One processor for each laboratory.
//!
//! User Mode Linux hands each system call and each page fault of a program inside from that program's process to the
//! kernel's and back: two processes of the host, of which one alone can run. On two processors each of these turns wakes
//! up the other processor, which costs as much again as all the rest.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// A processor that no other laboratory of this host has. Free again when dropped, or when this process ends in any way:
/// what holds it is the address of a socket that has no file.
#[derive(Debug)]
pub(crate) struct Processor {
    number: usize,
    _held: UnixDatagram,
}

impl Processor {
    /// The first that is free among those that this process may use. None where each has its laboratory: then the
    /// scheduler does better.
    pub(crate) fn take() -> Option<Self> {
        let ours = sched_getaffinity(Pid::from_raw(0)).ok()?;
        (0..CpuSet::count()).filter(|number| ours.is_set(*number) == Ok(true)).find_map(Self::hold)
    }

    fn hold(number: usize) -> Option<Self> {
        let address = SocketAddr::from_abstract_name(format!("downbeat-kernel-lab/processor-{number}")).ok()?;
        Some(Self { number, _held: UnixDatagram::bind_addr(&address).ok()? })
    }

    /// Keeps a process, and those that it starts from now on, there.
    pub(crate) fn keep(&self, process: Pid) {
        let mut set = CpuSet::new();
        // Refused it runs where it likes, slower.
        _ = set.set(self.number).and_then(|()| sched_setaffinity(process, &set));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_has_one_holder_and_keeps_a_process() {
        // A number that no machine has: other tests hold those that there are.
        let last = CpuSet::count() - 1;
        let held = Processor::hold(last).expect("nobody has it");
        assert!(Processor::hold(last).is_none(), "held twice");
        drop(held);
        assert!(Processor::hold(last).is_some(), "not free again");

        let Some(taken) = Processor::take() else { return };
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_raw(child.id() as i32);
        taken.keep(pid);
        let set = sched_getaffinity(pid).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let kept: Vec<usize> = (0..CpuSet::count()).filter(|number| set.is_set(*number).unwrap()).collect();
        assert_eq!(kept, [taken.number]);
    }
}
