//! How far a hardware clock is from the TAI of this machine.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use nix::errno::Errno;
use units::Nanos;

use super::{HardwareClock, abi};
use crate::clock::tai_minus_utc;

/// How far a hardware clock is ahead of `CLOCK_TAI`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ahead {
    /// Below zero: behind.
    pub by: Nanos,
    /// How far the truth may be from that: half the time that a reading took.
    pub error: Nanos,
}

/// One look at both clocks: the device's between two of the system's (UTC), in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Look {
    before: i64,
    device: i64,
    after: i64,
}

impl Look {
    fn of([before, device, after]: [abi::Time; 3]) -> Option<Self> {
        Some(Self { before: before.nanos()?, device: device.nanos()?, after: after.nanos()? })
    }
}

impl HardwareClock {
    /// Compares it with this machine's TAI, by the best way that its driver offers: both clocks latched at one instant
    /// (`PTP_SYS_OFFSET_PRECISE`), or the quickest of 16 readings (`PTP_SYS_OFFSET_EXTENDED`, else `PTP_SYS_OFFSET`).
    ///
    /// # Errors
    /// The clock cannot be read; the message names it.
    pub fn ahead(&self) -> io::Result<Ahead> {
        let told =
            |error| io::Error::other(format!("hardware clock {}: comparing it with TAI: {error}", self.path.display()));
        ahead(self.file.as_raw_fd()).map_err(told)
    }
}

/// The same of a descriptor; allocates nothing.
pub(super) fn ahead(clock: RawFd) -> io::Result<Ahead> {
    let unclear = || io::Error::from(io::ErrorKind::InvalidData);
    best(looks(clock)?, tai_minus_utc()).ok_or_else(unclear)
}

/// Looks that could be had; places without one are empty.
fn looks(clock: RawFd) -> io::Result<[Option<Look>; abi::SAMPLES]> {
    let mut looks = [None; abi::SAMPLES];
    let mut precise = abi::OffsetPrecise::default();
    // SAFETY: the ioctl writes one such structure.
    match unsafe { abi::offset_precise(clock, &raw mut precise) } {
        Ok(_) => {
            looks[0] = Look::of([precise.system, precise.device, precise.system]);
            return Ok(looks);
        }
        Err(errno) if is_missing(errno) => {}
        Err(errno) => return Err(errno.into()),
    }
    let mut extended = abi::OffsetExtended::asking();
    // SAFETY: the ioctl reads and writes one such structure.
    match unsafe { abi::offset_extended(clock, &raw mut extended) } {
        Ok(_) => {
            looks.iter_mut().zip(extended.times).for_each(|(look, times)| *look = Look::of(times));
            return Ok(looks);
        }
        Err(errno) if is_missing(errno) => {}
        Err(errno) => return Err(errno.into()),
    }
    let mut basic = abi::Offset::asking();
    // SAFETY: the ioctl reads and writes one such structure.
    unsafe { abi::offset(clock, &raw mut basic) }?;
    for (number, look) in looks.iter_mut().enumerate() {
        *look = Look::of(std::array::from_fn(|time| basic.times[2 * number + time]));
    }
    Ok(looks)
}

/// Whether the driver or the kernel does not have this way.
fn is_missing(errno: Errno) -> bool {
    matches!(errno, Errno::EOPNOTSUPP | Errno::ENOTTY | Errno::EINVAL)
}

/// What the quickest look says.
fn best(looks: impl IntoIterator<Item = Option<Look>>, tai_minus_utc: Nanos) -> Option<Ahead> {
    let took = |look: &Look| look.after.checked_sub(look.before);
    let possible = looks.into_iter().flatten().filter(|look| took(look).is_some_and(|took| took >= 0));
    let Look { before, device, after } = possible.min_by_key(took)?;
    let system = i64::midpoint(before, after).checked_add(tai_minus_utc.0)?;
    // Rounded up: the middle is cut to whole nanoseconds.
    Some(Ahead { by: Nanos(device.checked_sub(system)?), error: Nanos((after - before + 1) / 2) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UTC: i64 = 1_700_000_000_000_000_000;
    const LEAP: Nanos = Nanos(37_000_000_000);

    #[test]
    fn the_quickest_look_counts_and_leap_seconds_are_taken_off() {
        let look =
            |began, took, device| Some(Look { before: UTC + began, device: UTC + device, after: UTC + began + took });
        let true_ahead = 37_000_000_000 + 250;
        let looks =
            [look(0, 8_000, true_ahead + 900), None, look(10_000, 1_001, true_ahead + 10_500), look(20_000, 3_000, 0)];
        assert_eq!(best(looks, LEAP), Some(Ahead { by: Nanos(250), error: Nanos(501) }));
        // A clock on UTC is 37 s behind.
        assert_eq!(best([look(0, 10, 5)], LEAP), Some(Ahead { by: -LEAP, error: Nanos(5) }));
    }

    #[test]
    fn looks_that_say_nothing_are_no_answer() {
        assert_eq!(best([None, None], LEAP), None);
        let back = Look { before: 5, device: 0, after: 4 };
        let beyond = Look { before: i64::MIN, device: 0, after: i64::MAX };
        assert_eq!(best([Some(back), Some(beyond)], LEAP), None);
        let far = Look { before: i64::MIN + 1, device: i64::MAX, after: i64::MIN + 1 };
        assert_eq!(best([Some(far)], Nanos::ZERO), None);
    }

    #[test]
    fn what_is_no_clock_cannot_be_compared() {
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(ahead(null.as_raw_fd()).is_err());
    }
}
