//! Which sequence numbers are news (the window rule of OPC 10000-14 for 16-bit counters).

/// 16-bit sequence numbers have this many values.
const MODULUS: u32 = 1 << 16;

/// What a sequence number tells of its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Newer than the last: process it.
    Newer {
        /// Messages between the last and this one.
        lost: u16,
    },
    /// The last one again, or one before it.
    Old,
    /// Too far from the last one to be either.
    Invalid,
}

/// The last processed sequence number, 16 bits wide, and the window around it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SequenceWindow {
    last: Option<u16>,
}

impl SequenceWindow {
    /// A window that takes any number as its first.
    pub const fn new() -> Self {
        Self { last: None }
    }

    /// What `received` is; a newer one becomes the last.
    #[inline]
    pub fn accept(&mut self, received: u16) -> Verdict {
        let Some(last) = self.last else {
            self.last = Some(received);
            return Verdict::Newer { lost: 0 };
        };
        let distance = received.wrapping_sub(1).wrapping_sub(last);
        if u32::from(distance) < MODULUS / 4 {
            self.last = Some(received);
            Verdict::Newer { lost: distance }
        } else if u32::from(distance) > 3 * (MODULUS / 4) {
            Verdict::Old
        } else {
            Verdict::Invalid
        }
    }

    /// What a keep-alive is whose `next` is the number of the next message with data: the messages before it have been
    /// sent, and become the last.
    pub fn expect(&mut self, next: u16) -> Verdict {
        let before = next.wrapping_sub(1);
        match self.last {
            Some(last) if last == before => Verdict::Newer { lost: 0 },
            None => self.accept(before),
            Some(_) => match self.accept(before) {
                // The one before `next` has not come either.
                Verdict::Newer { lost } => Verdict::Newer { lost: lost.saturating_add(1) },
                other => other,
            },
        }
    }

    /// Takes the next number whatever it is: after a silence, so that a restarted writer is heard again.
    pub fn forget(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_has_the_limits_of_the_standard() {
        for last in [0, 1, 40_000, u16::MAX] {
            let verdict = |distance: u16| {
                let mut window = SequenceWindow::new();
                assert_eq!(window.accept(last), Verdict::Newer { lost: 0 });
                window.accept(last.wrapping_add(1).wrapping_add(distance))
            };
            assert_eq!(verdict(0), Verdict::Newer { lost: 0 });
            assert_eq!(verdict(16_383), Verdict::Newer { lost: 16_383 });
            assert_eq!(verdict(16_384), Verdict::Invalid);
            assert_eq!(verdict(49_152), Verdict::Invalid);
            assert_eq!(verdict(49_153), Verdict::Old);
            assert_eq!(verdict(65_535), Verdict::Old, "the same again");
        }
    }

    #[test]
    fn a_keep_alive_tells_what_was_lost() {
        let mut window = SequenceWindow::new();
        assert_eq!(window.expect(5), Verdict::Newer { lost: 0 }, "the first");
        assert_eq!(window.accept(5), Verdict::Newer { lost: 0 });
        assert_eq!(window.expect(6), Verdict::Newer { lost: 0 });
        assert_eq!(window.expect(6), Verdict::Newer { lost: 0 }, "again");
        assert_eq!(window.expect(9), Verdict::Newer { lost: 3 });
        assert_eq!(window.expect(7), Verdict::Old);
        assert_eq!(window.accept(9), Verdict::Newer { lost: 0 });
    }

    #[test]
    fn only_newer_ones_move_the_window() {
        let mut window = SequenceWindow::new();
        window.accept(10);
        assert_eq!(window.accept(9), Verdict::Old);
        assert_eq!(window.accept(30_000), Verdict::Invalid);
        assert_eq!(window.accept(11), Verdict::Newer { lost: 0 });
        window.forget();
        assert_eq!(window.accept(9), Verdict::Newer { lost: 0 });
    }
}
