//! The credit of Linux' software shaper, as `sch_cbs` of Linux 6.12 keeps it.
//!
//! What differs from the standard's:
//! - credit is whole bytes, of the frame as a qdisc counts it, without FCS, preamble and gap;
//! - it is brought up to date only when the kernel looks at the class, and only while it is below 0: what is not a whole byte
//!   is forgotten at each look, and a class that is blocked with credit of 0 or more gains none;
//! - a frame that comes to an empty queue takes positive credit away at once, also while one of the class is sent;
//! - a class without frames is looked at, too: its credit rises above 0, up to hiCredit, if nobody looked when it reached 0.

use scenario::Credits;

/// Bytes a second of a kbit/s.
const BYTES_PER_KBIT: i64 = 125;
const NANOSECONDS: i128 = 1_000_000_000;

/// Credit of one class. Instants are whole nanoseconds, as the kernel's clock has them.
#[derive(Debug, Clone)]
pub(crate) struct LinuxCredit {
    /// Bytes a second; `send_slope` is negative.
    idle_slope: i64,
    send_slope: i64,
    port_rate: i64,
    /// Bytes.
    high: i64,
    low: i64,
    credit: i64,
    /// Credit is of this instant; after a frame the end of its counted bytes.
    last: i64,
    /// The qdisc's timer: it may go off from then on.
    timer: Option<i64>,
}

impl LinuxCredit {
    /// No credit at time 0, with what `tc` told the kernel.
    pub(crate) fn new(credits: &Credits) -> Self {
        Self {
            idle_slope: credits.idle_slope_kbit * BYTES_PER_KBIT,
            send_slope: credits.send_slope_kbit * BYTES_PER_KBIT,
            // The kernel asks ethtool; `tc` was told sendslope = idleslope − that.
            port_rate: (credits.idle_slope_kbit - credits.send_slope_kbit) * BYTES_PER_KBIT,
            high: credits.hi_credit_bytes,
            low: credits.lo_credit_bytes,
            credit: 0,
            last: 0,
            timer: None,
        }
    }

    /// A frame comes to the empty queue of the class.
    pub(crate) fn begins(&mut self, now: i64) {
        if self.credit > 0 {
            self.credit = 0;
            self.last = now;
        }
    }

    /// The kernel looks whether a frame may go.
    pub(crate) fn look(&mut self, now: i64) -> bool {
        if now < self.last {
            self.timer = Some(self.last);
            return false;
        }
        if self.credit < 0 {
            let earned = i128::from(now - self.last) * i128::from(self.idle_slope) / NANOSECONDS;
            self.credit = (i128::from(self.credit) + earned).min(self.high.into()) as i64;
            if self.credit < 0 {
                let delay = (i128::from(-self.credit) * NANOSECONDS).checked_div(self.idle_slope.into());
                self.timer = delay.and_then(|delay| now.checked_add(i64::try_from(delay).ok()?));
                self.last = now;
                return false;
            }
        }
        true
    }

    /// A frame that counts `bytes` goes.
    pub(crate) fn take(&mut self, now: i64, bytes: u32) {
        let bytes = i64::from(bytes);
        self.credit = (self.credit + quotient(bytes * self.send_slope, self.port_rate)).max(self.low);
        let lasting = i128::from(bytes) * NANOSECONDS / i128::from(self.port_rate.max(1));
        self.last = now + lasting as i64;
    }

    /// Bytes, while it is below 0 and rises; then each look at the class counts.
    pub(crate) fn owed(&self) -> Option<i64> {
        (self.credit < 0 && self.idle_slope > 0).then_some(self.credit)
    }

    /// The instant to which its timer is set.
    pub(crate) fn timer(&self) -> Option<i64> {
        self.timer
    }

    /// When its timer goes off by itself: Linux' clock is then past the instant it was set to.
    pub(crate) fn wakes(&self) -> Option<i64> {
        self.timer.and_then(|at| at.checked_add(1))
    }

    /// The timer goes off if it is due: in an interrupt for something else at the very instant it was set to.
    pub(crate) fn woken(&mut self, now: i64) -> bool {
        let due = self.timer.is_some_and(|at| at <= now);
        if due {
            self.timer = None;
        }
        due
    }
}

/// Rounded towards zero, as C has it.
fn quotient(dividend: i64, divisor: i64) -> i64 {
    dividend.checked_div(divisor).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credit() -> LinuxCredit {
        // tc-cbs(8): 20 frames of 1542 B every 2.5 ms at 1 Gbit/s.
        LinuxCredit::new(&Credits {
            idle_slope_kbit: 98_688,
            send_slope_kbit: -901_312,
            hi_credit_bytes: 153,
            lo_credit_bytes: -1390,
        })
    }

    #[test]
    fn a_frame_is_charged_by_its_bytes_and_pays_whole_bytes() {
        let mut it = credit();
        assert!(it.look(0));
        it.take(0, 339);
        // 339 · 901312 / 1000000 = 305.5, and the frame takes 2712 ns.
        assert_eq!((it.credit, it.last), (-305, 2712));
        assert!(!it.look(2904));
        // 192 ns are worth 2.4 bytes.
        assert_eq!(it.credit, -303);
        assert_eq!(it.wakes(), Some(2904 + 24_562 + 1));
        assert!(it.look(2904 + 24_563));
        assert_eq!(it.credit, 0);
    }

    #[test]
    fn credit_of_nothing_or_more_gains_nothing() {
        let mut it = credit();
        it.credit = 3;
        assert!(it.look(1_000_000));
        assert_eq!(it.credit, 3);
        it.begins(1_000_000);
        assert_eq!(it.credit, 0);
    }

    #[test]
    fn an_unlooked_class_wins_up_to_its_high_credit() {
        let mut it = credit();
        it.take(0, 1500);
        assert!(it.look(1_000_000_000));
        assert_eq!(it.credit, 153);
    }

    #[test]
    fn another_interrupt_takes_a_timer_along_on_time() {
        let mut it = credit();
        it.take(0, 339);
        assert!(!it.look(2904));
        assert!(!it.woken(2904 + 24_561));
        assert!(it.woken(2904 + 24_562));
        assert!(!it.woken(2904 + 24_563), "once");
    }

    #[test]
    fn without_slope_there_is_no_instant() {
        let mut it = LinuxCredit { idle_slope: 0, ..credit() };
        it.take(0, 100);
        assert!(!it.look(1_000_000));
        assert_eq!(it.wakes(), None);
    }

    /// The laboratory's timers are 1 ns late, those of machines later. One that were not late would never do.
    #[test]
    fn a_timer_on_time_earns_a_byte_less_for_ever() {
        let mut it = LinuxCredit { idle_slope: 7_000_000, ..credit() };
        it.take(0, 340);
        let mut now = it.last;
        assert!(!it.look(now));
        for _ in 0..1_000 {
            now = it.timer.unwrap();
            assert!(!it.look(now), "{}", it.credit);
        }
        assert_eq!(it.credit, -1);
        assert!(it.look(it.wakes().unwrap()));
    }
}
