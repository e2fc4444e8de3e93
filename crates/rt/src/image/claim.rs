//! Who holds one end of an image: a process, named for good by its number and its start time in one word, so that the
//! claim of a dead one can be told from a live one's and be taken over.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::process::start_time;

/// Linux has no process number of more than 22 bits (`PID_MAX_LIMIT`).
const PID_BITS: u32 = 22;

/// What a process may be found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Nobody has come yet, or it left in order.
    Absent,
    /// It runs.
    Alive {
        /// Its number.
        pid: u32,
    },
    /// It ended without leaving: killed, crashed.
    Gone {
        /// The number it had.
        pid: u32,
    },
}

/// The word that stands for a process of this number and start time.
const fn word(pid: u32, started: u64) -> u64 {
    started << PID_BITS | pid as u64
}

/// The word that stands for this process.
pub(super) fn own() -> io::Result<u64> {
    let pid = std::process::id();
    let started = start_time(pid).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("/proc/{pid}/stat: start time expected; is /proc mounted?"))
    })?;
    Ok(word(pid, started))
}

/// What became of the process a word stands for; reads `/proc`.
pub(super) fn presence(claim: u64) -> Presence {
    let pid = (claim & ((1 << PID_BITS) - 1)) as u32;
    match claim {
        0 => Presence::Absent,
        _ if start_time(pid).is_some_and(|started| word(pid, started) == claim) => Presence::Alive { pid },
        _ => Presence::Gone { pid },
    }
}

/// Takes an end that is free or whose holder is gone; `end` is for the error. Returns the claim, for [`give_back`].
///
/// # Errors
/// [`io::ErrorKind::ResourceBusy`]: its holder runs.
pub(super) fn take(at: &AtomicU64, end: &str) -> io::Result<u64> {
    let own = own()?;
    let mut found = at.load(Ordering::Acquire);
    loop {
        if let Presence::Alive { pid } = presence(found) {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                format!("the {end} of this process image is held by process {pid}; end that one first"),
            ));
        }
        // Acquire: what the last holder did there comes before what we do.
        match at.compare_exchange(found, own, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Ok(own),
            Err(other) => found = other,
        }
    }
}

/// Gives an end back, unless somebody else has it by now.
pub(super) fn give_back(at: &AtomicU64, claim: u64) {
    _ = at.compare_exchange(claim, 0, Ordering::Release, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_held_until_its_process_is_gone() {
        let at = AtomicU64::new(0);
        let claim = take(&at, "input reader").unwrap();
        let own = std::process::id();
        assert_eq!(presence(claim), Presence::Alive { pid: own });
        let error = take(&at, "input reader").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert!(error.to_string().contains(&format!("input reader of this process image is held by process {own}")));
        give_back(&at, claim);
        assert_eq!(presence(at.load(Ordering::Relaxed)), Presence::Absent);
        // The same number with another start time is another process.
        at.store(word(own, 1), Ordering::Relaxed);
        assert_eq!(presence(word(own, 1)), Presence::Gone { pid: own });
        let claim = take(&at, "input reader").unwrap();
        at.store(7, Ordering::Relaxed);
        give_back(&at, claim);
        assert_eq!(at.load(Ordering::Relaxed), 7, "what is not ours stays");
    }
}
