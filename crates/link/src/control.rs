//! Control messages as the kernel lays them out (`put_cmsg`): read from bytes, without pointers.

/// Length, level and type; every message starts at a multiple of the word size.
const HEADER_BYTES: usize = size_of::<usize>() + 8;

// A `timespec` of two 64-bit numbers is read below.
const _: () = assert!(size_of::<libc::timespec>() == 16, "64-bit Linux only");

/// Room for the control messages of one packet.
#[derive(Debug)]
#[repr(C, align(8))]
pub(crate) struct ControlBuffer(pub(crate) [u8; 256]);

impl ControlBuffer {
    pub(crate) const fn new() -> Self {
        Self([0; 256])
    }
}

/// One control message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Control<'a> {
    pub(crate) level: i32,
    pub(crate) kind: i32,
    pub(crate) data: &'a [u8],
}

/// The control messages in `bytes`; ends at the first that is cut.
#[inline]
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Control<'_>> {
    std::iter::from_fn(move || {
        // One check of the length for all three.
        let header = bytes.first_chunk::<HEADER_BYTES>()?;
        let length = usize::from_ne_bytes(array(header, 0)?);
        let level = i32_at(header, size_of::<usize>())?;
        let kind = i32_at(header, size_of::<usize>() + 4)?;
        let data = bytes.get(HEADER_BYTES..length)?;
        bytes = bytes.get(length.next_multiple_of(size_of::<usize>())..).unwrap_or_default();
        Some(Control { level, kind, data })
    })
}

#[inline]
fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[inline]
fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_ne_bytes(array(bytes, at)?))
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(array(bytes, at)?))
}

#[inline]
fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(array(bytes, at)?))
}

impl Control<'_> {
    /// The software stamp of `struct scm_timestamping`: nanoseconds of `CLOCK_REALTIME`; none when the kernel had none.
    #[inline]
    pub(crate) fn software_stamp(&self) -> Option<i64> {
        self.stamp(0)
    }

    /// Its raw hardware stamp: nanoseconds of the network card's clock; none when the card took none.
    #[inline]
    pub(crate) fn hardware_stamp(&self) -> Option<i64> {
        self.stamp(2)
    }

    /// One of the three `timespec` of `struct scm_timestamping`.
    #[inline]
    fn stamp(&self, number: usize) -> Option<i64> {
        if (self.level, self.kind) != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) {
            return None;
        }
        let seconds = i64::from_ne_bytes(array(self.data, 16 * number)?);
        let nanos = i64::from_ne_bytes(array(self.data, 16 * number + 8)?);
        let stamp = seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?;
        (stamp != 0).then_some(stamp)
    }

    /// Of `struct tpacket_auxdata`: TPID and tag control information, when there was a tag.
    #[inline]
    pub(crate) fn stripped_tag(&self) -> Option<(u16, u16)> {
        if (self.level, self.kind) != (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
            return None;
        }
        let data = self.data.first_chunk::<{ size_of::<libc::tpacket_auxdata>() }>()?;
        let status = u32_at(data, 0)?;
        if status & libc::TP_STATUS_VLAN_VALID == 0 {
            return None;
        }
        let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
        let tpid = if known { u16_at(data, 18)? } else { crate::ETHERTYPE_VLAN };
        Some((tpid, u16_at(data, 16)?))
    }

    /// What the error queue says about a packet; on every kind of socket used here, each of which has a type of its own.
    pub(crate) fn extended_error(&self) -> Option<ExtendedError> {
        let from_queue = matches!(
            (self.level, self.kind),
            (libc::SOL_PACKET, libc::PACKET_TX_TIMESTAMP)
                | (libc::SOL_IP, libc::IP_RECVERR)
                | (libc::SOL_IPV6, libc::IPV6_RECVERR)
        );
        if !from_queue {
            return None;
        }
        // errno, origin, type, code, padding, info, data.
        Some(ExtendedError {
            errno: i32_at(self.data, 0)?,
            origin: *self.data.get(4)?,
            code: *self.data.get(6)?,
            info: u32_at(self.data, 8)?,
            data: u32_at(self.data, 12)?,
        })
    }
}

/// `struct sock_extended_err` of linux/errqueue.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExtendedError {
    pub(crate) errno: i32,
    pub(crate) origin: u8,
    pub(crate) code: u8,
    pub(crate) info: u32,
    pub(crate) data: u32,
}

impl ExtendedError {
    /// Of a transmit timestamp: the number of the send (`SOF_TIMESTAMPING_OPT_ID`).
    pub(crate) fn stamped_send(&self) -> Option<u32> {
        // info tells which of the stamps it is: SCM_TSTAMP_SND = 0, on leaving.
        let stamped = (self.errno, self.origin, self.info) == (libc::ENOMSG, libc::SO_EE_ORIGIN_TIMESTAMPING, 0);
        stamped.then_some(self.data)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER_BYTES + data.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn messages_are_found_one_after_another() {
        let mut stamp = 7_i64.to_ne_bytes().to_vec();
        stamp.extend(5_i64.to_ne_bytes());
        stamp.extend([0; 16]);
        stamp.extend(9_i64.to_ne_bytes());
        stamp.extend(1_i64.to_ne_bytes());
        let mut auxdata = vec![0; 20];
        auxdata[..4].copy_from_slice(&(libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID).to_ne_bytes());
        auxdata[16..18].copy_from_slice(&0xE00A_u16.to_ne_bytes());
        auxdata[18..20].copy_from_slice(&0x8100_u16.to_ne_bytes());
        let mut bytes = message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &stamp);
        bytes.extend(message(libc::SOL_PACKET, libc::PACKET_AUXDATA, &auxdata));
        let found: Vec<_> = messages(&bytes).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].software_stamp(), Some(7_000_000_005));
        assert_eq!(found[0].hardware_stamp(), Some(9_000_000_001));
        assert_eq!((found[0].stripped_tag(), found[0].extended_error()), (None, None));
        assert_eq!(found[1].stripped_tag(), Some((0x8100, 0xE00A)));
        assert_eq!((found[1].software_stamp(), found[1].hardware_stamp()), (None, None));
    }

    #[test]
    fn the_error_queue_is_read_on_every_kind_of_socket() {
        // A stamp of send 7, then what follows it on an IP socket: the address that caused an error, here none.
        let mut stamped = libc::ENOMSG.to_ne_bytes().to_vec();
        stamped.extend([libc::SO_EE_ORIGIN_TIMESTAMPING, 0, 0, 0]);
        stamped.extend(0_u32.to_ne_bytes());
        stamped.extend(7_u32.to_ne_bytes());
        let kinds = [
            (libc::SOL_PACKET, libc::PACKET_TX_TIMESTAMP, 0),
            (libc::SOL_IP, libc::IP_RECVERR, 16),
            (libc::SOL_IPV6, libc::IPV6_RECVERR, 28),
        ];
        for (level, kind, address_bytes) in kinds {
            let mut data = stamped.clone();
            data.resize(16 + address_bytes, 0);
            let bytes = message(level, kind, &data);
            let error = messages(&bytes).next().unwrap().extended_error().unwrap();
            assert_eq!(error.stamped_send(), Some(7), "{level} {kind}");
            for other in [
                ExtendedError { errno: libc::ECONNREFUSED, ..error },
                ExtendedError { origin: libc::SO_EE_ORIGIN_ICMP, ..error },
                ExtendedError { info: 1, ..error },
            ] {
                assert_eq!(other.stamped_send(), None, "{other:?}");
            }
            let short = message(level, kind, &data[..15]);
            assert_eq!(messages(&short).next().unwrap().extended_error(), None);
        }
        let elsewhere = message(libc::SOL_SOCKET, libc::IP_RECVERR, &stamped);
        assert_eq!(messages(&elsewhere).next().unwrap().extended_error(), None);
    }

    #[test]
    fn cut_and_odd_messages_end_the_list() {
        let whole = message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &[0; 48]);
        for cut in 0..whole.len() {
            assert_eq!(messages(&whole[..cut]).count(), 0, "{cut}");
        }
        let none = messages(&whole).next().unwrap();
        assert_eq!((none.software_stamp(), none.hardware_stamp()), (None, None), "no stamp is no time zero");
        for length in [0, 1, HEADER_BYTES - 1, usize::MAX] {
            let mut odd = whole.clone();
            odd[..8].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(messages(&odd).count(), 0);
        }
        let short = message(libc::SOL_PACKET, libc::PACKET_AUXDATA, &libc::TP_STATUS_VLAN_VALID.to_ne_bytes());
        assert_eq!(messages(&short).next().unwrap().stripped_tag(), None);
    }
}
