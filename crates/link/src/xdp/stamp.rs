//! The time of arrival, as the programme puts it before a frame: a check word and nanoseconds TAI.
//!
//! A descriptor does not say whether anything stands before its frame. The check word tells a stamp from what
//! an earlier frame has left there.

use units::Tai;

/// What a stamp takes.
pub(super) const BYTES: usize = 16;

/// The check word is the stamp with these bits turned.
pub(super) const MARK: u64 = 0x5AD0_B62C_7A15_7A3B;

/// The stamp in the bytes before a frame; none when there is none.
#[inline]
pub(super) fn read(before: &[u8; BYTES]) -> Option<Tai> {
    let (words, _) = before.as_chunks::<8>();
    let (check, stamp) = (u64::from_ne_bytes(words[0]), u64::from_ne_bytes(words[1]));
    (check == stamp ^ MARK && stamp != 0).then_some(Tai(stamp.cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_stamp_is_one() {
        let mut bytes = [0; BYTES];
        assert_eq!(read(&bytes), None);
        bytes[..8].copy_from_slice(&(1234 ^ MARK).to_ne_bytes());
        assert_eq!(read(&bytes), None);
        bytes[8..].copy_from_slice(&1234_u64.to_ne_bytes());
        assert_eq!(read(&bytes), Some(Tai(1234)));
        for at in 0..BYTES {
            let mut wrong = bytes;
            wrong[at] ^= 1;
            assert_eq!(read(&wrong), None, "{at}");
        }
    }
}
