//! Management messages of IEEE 1588-2008, clause 15, and those that linuxptp adds: questions to ptp4l, and its answers.
//!
//! ```
//! use downbeat_ptp::management::{Answer, Id, question, read};
//! let asked = question(Id::PortDataSet, 1, 0, 7, 4711);
//! assert_eq!(asked.len(), 54);
//! assert_eq!(read(&asked), None); // a question is no answer
//! ```

use std::fmt;

/// Bytes of the common header (clause 13.3).
const HEADER: usize = 34;
/// Bytes before the TLV (table 37).
const FIXED: usize = HEADER + 14;
const MANAGEMENT: u8 = 0x0D;
const RESPONSE: u8 = 2;
const TLV_MANAGEMENT: u16 = 0x0001;
const TLV_ERROR: u16 = 0x0002;

/// What is asked for: managementId.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Id {
    /// DEFAULT_DATA_SET: the host's own clock.
    DefaultDataSet = 0x2000,
    /// CURRENT_DATA_SET: path delay.
    CurrentDataSet = 0x2001,
    /// PARENT_DATA_SET: the grandmaster.
    ParentDataSet = 0x2002,
    /// PORT_DATA_SET: a port's state and its peer delay.
    PortDataSet = 0x2004,
    /// TIME_STATUS_NP of linuxptp: the offset of the last sync message.
    TimeStatus = 0xC000,
    /// PORT_PROPERTIES_NP of linuxptp: interface and kind of stamps.
    PortProperties = 0xC004,
}

/// clockIdentity, written as linuxptp does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClockIdentity(pub [u8; 8]);

impl fmt::Display for ClockIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if index == 3 || index == 5 {
                f.write_str(".")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// An answer of ptp4l.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// To [`Id::DefaultDataSet`].
    Default {
        /// The host's clock.
        clock: ClockIdentity,
    },
    /// To [`Id::CurrentDataSet`].
    Current {
        /// meanPathDelay, nanoseconds; 0 where the delay is measured from peer to peer, and before it is known.
        path_delay: i64,
    },
    /// To [`Id::ParentDataSet`].
    Parent {
        /// grandmasterIdentity.
        grandmaster: ClockIdentity,
    },
    /// To [`Id::PortDataSet`]; each port answers.
    Port {
        /// portNumber.
        number: u16,
        /// portState in the words of table 8.
        state: &'static str,
        /// peerMeanPathDelay, nanoseconds.
        peer_delay: i64,
        /// Whether the delay is measured from peer to peer.
        peer_to_peer: bool,
        /// logSyncInterval: two to this power seconds from one sync message to the next.
        log_sync: i8,
    },
    /// To [`Id::TimeStatus`].
    TimeStatus {
        /// Offset to the master, nanoseconds.
        offset: i64,
        /// When the last sync message came, nanoseconds of the clock that is kept; 0 before the first.
        ingress: i64,
        /// Whether another clock is grandmaster.
        followed: bool,
        /// The grandmaster.
        grandmaster: ClockIdentity,
    },
    /// To [`Id::PortProperties`]; each port answers.
    Properties {
        /// portNumber.
        number: u16,
        /// Kind of stamps in the words of `ptp.json`.
        stamps: &'static str,
        /// The interface.
        interface: String,
    },
    /// It refused, or does not know what was asked for.
    Refused {
        /// managementId.
        id: u16,
    },
}

/// portState (table 8); ptp4l adds GRAND_MASTER.
pub fn port_state(number: u8) -> &'static str {
    match number {
        1 => "INITIALIZING",
        2 => "FAULTY",
        3 => "DISABLED",
        4 => "LISTENING",
        5 => "PRE_MASTER",
        6 => "MASTER",
        7 => "PASSIVE",
        8 => "UNCALIBRATED",
        9 => "SLAVE",
        10 => "GRAND_MASTER",
        _ => "UNKNOWN",
    }
}

/// The state of this name, as text that lives for ever; `UNKNOWN` for others.
pub fn port_state_named(name: &str) -> &'static str {
    (1..=10).map(port_state).find(|state| *state == name).unwrap_or("UNKNOWN")
}

fn stamps(number: u8) -> &'static str {
    match number {
        0 => "software",
        1 => "hardware",
        2 => "legacy hardware",
        3 => "one-step",
        4 => "one-step peer-to-peer",
        _ => "unknown",
    }
}

/// A question to all ports of a ptp4l. It answers only in its own domain and with its own transportSpecific.
pub fn question(id: Id, transport_specific: u8, domain: u8, sequence: u16, own: u16) -> [u8; 54] {
    let mut bytes = [0; 54];
    bytes[0] = transport_specific << 4 | MANAGEMENT;
    bytes[1] = 2;
    bytes[2..4].copy_from_slice(&54_u16.to_be_bytes());
    bytes[4] = domain;
    // sourcePortIdentity: no clock's, the number alone tells who asks.
    bytes[28..30].copy_from_slice(&own.to_be_bytes());
    bytes[30..32].copy_from_slice(&sequence.to_be_bytes());
    bytes[32] = 4;
    bytes[33] = 0x7F;
    bytes[34..44].fill(0xFF);
    bytes[48..50].copy_from_slice(&TLV_MANAGEMENT.to_be_bytes());
    bytes[50..52].copy_from_slice(&2_u16.to_be_bytes());
    bytes[52..54].copy_from_slice(&(id as u16).to_be_bytes());
    bytes
}

/// transportSpecific of a message.
pub fn transport_specific(bytes: &[u8]) -> Option<u8> {
    bytes.first().map(|byte| byte >> 4)
}

/// Reads an answer; none for what is not one, or is too short for what it says.
pub fn read(bytes: &[u8]) -> Option<Answer> {
    let mut fixed = Reader(bytes.get(..FIXED)?);
    let first = fixed.u8()?;
    let version = fixed.u8()?;
    let action = bytes.get(46)? & 0x0F;
    if first & 0x0F != MANAGEMENT || version & 0x0F != 2 || action != RESPONSE {
        return None;
    }
    let mut tlv = Reader(bytes.get(FIXED..)?);
    let (kind, length) = (tlv.u16()?, usize::from(tlv.u16()?));
    let mut body = Reader(tlv.0.get(..length)?);
    match kind {
        TLV_MANAGEMENT => data(body.u16()?, &mut body),
        TLV_ERROR => {
            body.u16()?;
            Some(Answer::Refused { id: body.u16()? })
        }
        _ => None,
    }
}

fn data(id: u16, body: &mut Reader<'_>) -> Option<Answer> {
    const DEFAULT: u16 = Id::DefaultDataSet as u16;
    const CURRENT: u16 = Id::CurrentDataSet as u16;
    const PARENT: u16 = Id::ParentDataSet as u16;
    const PORT: u16 = Id::PortDataSet as u16;
    const TIME: u16 = Id::TimeStatus as u16;
    const PROPERTIES: u16 = Id::PortProperties as u16;
    Some(match id {
        DEFAULT => {
            // Flags, reserved, numberPorts, priority1, clockQuality, priority2.
            body.skip(10)?;
            Answer::Default { clock: body.clock()? }
        }
        CURRENT => {
            body.skip(2 + 8)?;
            Answer::Current { path_delay: body.interval()? }
        }
        PARENT => {
            // parentPortIdentity, parentStats, reserved, variance, rate, priority1, quality, priority2.
            body.skip(10 + 2 + 2 + 4 + 1 + 4 + 1)?;
            Answer::Parent { grandmaster: body.clock()? }
        }
        PORT => {
            body.skip(8)?;
            let (number, state) = (body.u16()?, port_state(body.u8()?));
            body.skip(1)?;
            let peer_delay = body.interval()?;
            body.skip(2)?;
            let log_sync = body.u8()?.cast_signed();
            Answer::Port { number, state, peer_delay, log_sync, peer_to_peer: body.u8()? == 2 }
        }
        TIME => {
            let (offset, ingress) = (body.i64()?, body.i64()?);
            // Rate offset, phase change, time base, last phase change.
            body.skip(4 + 4 + 2 + 12)?;
            let followed = body.u32()? != 0;
            Answer::TimeStatus { offset, ingress, followed, grandmaster: body.clock()? }
        }
        PROPERTIES => {
            body.skip(8)?;
            let number = body.u16()?;
            body.skip(1)?;
            let stamps = stamps(body.u8()?);
            let length = usize::from(body.u8()?);
            let interface = String::from_utf8_lossy(body.take(length)?).into_owned();
            Answer::Properties { number, stamps, interface }
        }
        _ => return None,
    })
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        self.take(count).map(drop)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// TimeInterval (clause 5.3.2): nanoseconds times 65536.
    fn interval(&mut self) -> Option<i64> {
        self.i64().map(|scaled| scaled >> 16)
    }

    fn clock(&mut self) -> Option<ClockIdentity> {
        self.array().map(ClockIdentity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Recorded from ptp4l 3.1.1.
    const TIME: &str = "1d02006800000000000000000000000000000000b2c457fffe41564200000000047f00000000000000004afe0000020000010034c000000000000000080018eda197fb2acd540000000000000000000000000000000000000000000000000001d61eaffffe4b2c61";
    const CURRENT: &str = "1d02004800000000000000000000000000000000b2c457fffe41564200000001047f00000000000000004afe00000200000100142001000100000000080000000000000000000000";
    const PARENT: &str = "1d02005600000000000000000000000000000000b2c457fffe41564200000002047f00000000000000004afe00000200000100222002d61eaffffe4b2c6100010000ffff7fffffff40f8feffff80d61eaffffe4b2c61";
    const PORT: &str = "1d02005000000000000000000000000000000000b2c457fffe41564200010003047f00000000000000004afe000002000001001c2004b2c457fffe4156420001080000000000025a00000103fd020002";
    const PROPERTIES: &str = "1d02004600000000000000000000000000000000b2c457fffe41564200010004047f00000000000000004afe0000020000010012c004b2c457fffe4156420001080002766200";
    const DEFAULT: &str = "1d02004a00000000000000000000000000000000b2c457fffe41564200000005047f00000000000000004afe0000020000010016200001000001fffffeffff80b2c457fffe4156420000";
    const REFUSED: &str = "1d02003c00000000000000000000000000000000b2c457fffe41564200010006047f00000000000000004afe00000200000200080002777700000000";
    const ALL: [&str; 7] = [TIME, CURRENT, PARENT, PORT, PROPERTIES, DEFAULT, REFUSED];

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    fn told(hex: &str) -> Answer {
        read(&bytes(hex)).unwrap()
    }

    #[test]
    fn what_ptp4l_said_is_read() {
        let Answer::Parent { grandmaster } = told(PARENT) else { panic!() };
        assert_eq!(grandmaster.to_string(), "d61eaf.fffe.4b2c61");
        let time = Answer::TimeStatus { offset: 2048, ingress: 1_796_269_500_516_715_860, followed: true, grandmaster };
        assert_eq!(told(TIME), time);
        assert_eq!(told(CURRENT), Answer::Current { path_delay: 0 });
        let port = Answer::Port { number: 1, state: "UNCALIBRATED", peer_delay: 602, peer_to_peer: true, log_sync: -3 };
        assert_eq!(told(PORT), port);
        assert_eq!(told(PROPERTIES), Answer::Properties { number: 1, stamps: "software", interface: "vb".into() });
        let Answer::Default { clock } = told(DEFAULT) else { panic!() };
        assert_eq!(clock.to_string(), "b2c457.fffe.415642");
        assert_eq!(told(REFUSED), Answer::Refused { id: 0x7777 });
        assert_eq!(transport_specific(&bytes(TIME)), Some(1));
    }

    #[test]
    fn names_of_states_come_back() {
        for number in 1..=10 {
            assert_eq!(port_state_named(port_state(number)), port_state(number));
        }
        assert_eq!((port_state(0), port_state(255), port_state_named("x")), ("UNKNOWN", "UNKNOWN", "UNKNOWN"));
    }

    proptest! {
        #[test]
        fn mangled_answers_never_panic(
            which in 0..ALL.len(), cut in 0_usize..120, changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..6)
        ) {
            let mut bytes = bytes(ALL[which]);
            for (at, value) in changes {
                let length = bytes.len();
                bytes[at % length] = value;
            }
            bytes.truncate(cut);
            // Short of all of its TLV there is no answer.
            if let Some(answer) = read(&bytes) {
                prop_assert!(bytes.len() > FIXED, "{answer:?}");
            }
        }

        #[test]
        fn noise_is_no_answer_or_a_harmless_one(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            read(&bytes);
        }
    }
}
