//! Lines of ptp4l and phc2sys (`-m`), as linuxptp 2.0 to 4 writes them.
//!
//! ```
//! use downbeat_ptp::log::{Said, read};
//! let (at, said) = read("ptp4l[350.125]: master offset         -3 s2 freq   +9071 path delay       412").unwrap();
//! assert_eq!(at, Some(units::Nanos(350_125_000_000)));
//! assert_eq!(said, Said::Offset { offset: -3, servo: 2, frequency: 9071.0, delay: 412 });
//! ```

use units::Nanos;

/// What a line says.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// ptp4l on a sync message.
    Offset {
        /// Nanoseconds to the master.
        offset: i64,
        /// State of the servo: 0 not locked, 1 steps the clock now, 2 locked, 3 locked and stable.
        servo: u8,
        /// Correction of the frequency, parts per billion.
        frequency: f64,
        /// Path delay, nanoseconds.
        delay: i64,
    },
    /// ptp4l on several sync messages together.
    Summary {
        /// Root mean square of their offsets, nanoseconds.
        rms: i64,
        /// The greatest distance from 0.
        max: i64,
        /// Mean correction of the frequency, parts per billion.
        frequency: f64,
    },
    /// A port changed its state.
    PortState {
        /// portNumber.
        port: u16,
        /// From which state.
        from: String,
        /// To which.
        to: String,
        /// The event that did it.
        why: String,
    },
    /// A best master was selected; the host itself may be it.
    BestMaster {
        /// Its clockIdentity.
        clock: String,
    },
    /// phc2sys on a clock that it keeps.
    System {
        /// The clock.
        clock: String,
        /// Nanoseconds to its source.
        offset: i64,
        /// As above.
        servo: u8,
        /// Parts per billion.
        frequency: f64,
        /// How long the reading took, nanoseconds; not told of every source.
        delay: Option<i64>,
    },
    /// Something went wrong.
    Fault(
        /// In linuxptp's words.
        String,
    ),
}

/// Words in lines that tell of something wrong.
const WRONG: [&str; 9] =
    ["timed out", "timeout while", "failed", "fault", "error", "clockcheck", "received sync without", "bad ", "cannot"];

/// Reads a line: when it was written, by CLOCK_MONOTONIC, and what it says. None for lines that say nothing of interest.
pub fn read(line: &str) -> Option<(Option<Nanos>, Said)> {
    let (program, rest) = ["ptp4l[", "phc2sys["].iter().find_map(|name| Some((*name, line.split_once(name)?.1)))?;
    let (stamp, text) = rest.split_once("]:")?;
    let text = text.trim();
    // message_tag of linuxptp 3 and later.
    let text = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((_, behind)) => behind.trim_start(),
        None => text,
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let said = match program {
        "ptp4l[" => of_ptp4l(&words),
        _ => of_phc2sys(&words),
    };
    let wrong = || {
        let lower = text.to_lowercase();
        // A transition that a timeout brings is no fault.
        WRONG.iter().any(|word| lower.contains(word)).then(|| Said::Fault(text.to_owned()))
    };
    Some((instant(stamp), said.or_else(wrong)?))
}

/// Seconds with a fraction.
fn instant(text: &str) -> Option<Nanos> {
    let (seconds, fraction) = text.trim().split_once('.')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() && text.len() <= 9;
    if !digits(fraction) {
        return None;
    }
    let scale = 10_i64.pow(9 - fraction.len() as u32);
    let seconds: i64 = seconds.parse().ok().filter(|seconds| *seconds >= 0)?;
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction.parse::<i64>().ok()? * scale).map(Nanos)
}

fn of_ptp4l(words: &[&str]) -> Option<Said> {
    match words {
        ["master", "offset", offset, servo, "freq", frequency, "path", "delay", delay] => Some(Said::Offset {
            offset: offset.parse().ok()?,
            servo: state(servo)?,
            frequency: number(frequency)?,
            delay: delay.parse().ok()?,
        }),
        ["rms", rms, "max", max, "freq", frequency, ..] => {
            Some(Said::Summary { rms: rms.parse().ok()?, max: max.parse().ok()?, frequency: number(frequency)? })
        }
        ["port", port, rest @ ..] => {
            // Number 0 is the Unix socket's. `port 1 (eth0):` since linuxptp 4.
            let port: u16 = port.trim_end_matches(':').parse().ok().filter(|port| *port > 0)?;
            let rest = match rest {
                [name, rest @ ..] if name.starts_with('(') => rest,
                rest => rest,
            };
            match rest {
                [from, "to", to, "on", why, ..] => {
                    Some(Said::PortState { port, from: (*from).into(), to: (*to).into(), why: (*why).into() })
                }
                _ => None,
            }
        }
        ["selected", "best", "master", "clock", clock] => Some(Said::BestMaster { clock: (*clock).into() }),
        ["selected", "local", "clock", clock, "as", "best", "master"] => {
            Some(Said::BestMaster { clock: (*clock).into() })
        }
        _ => None,
    }
}

fn of_phc2sys(words: &[&str]) -> Option<Said> {
    match words {
        [clock, _, "offset", offset, servo, "freq", frequency, rest @ ..] => Some(Said::System {
            clock: (*clock).into(),
            offset: offset.parse().ok()?,
            servo: state(servo)?,
            frequency: number(frequency)?,
            delay: match rest {
                ["delay", delay, ..] => delay.parse().ok().filter(|delay| *delay >= 0),
                _ => None,
            },
        }),
        _ => None,
    }
}

fn state(text: &str) -> Option<u8> {
    text.strip_prefix('s')?.parse().ok().filter(|state| *state <= 3)
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The first eight are recorded; those of hardware, of a journal and of linuxptp 4 are written after its manual and habits.
    const LINES: [&str; 12] = [
        "ptp4l[72013.028]: port 1: INITIALIZING to LISTENING on INIT_COMPLETE",
        "ptp4l[72013.028]: port 0: INITIALIZING to LISTENING on INIT_COMPLETE",
        "ptp4l[72020.628]: port 1: LISTENING to MASTER on ANNOUNCE_RECEIPT_TIMEOUT_EXPIRES",
        "ptp4l[72020.628]: selected local clock b2c457.fffe.415642 as best master",
        "ptp4l[72020.961]: port 1: new foreign master d61eaf.fffe.4b2c61-1",
        "ptp4l[72024.961]: selected best master clock d61eaf.fffe.4b2c61",
        "ptp4l[72024.962]: port 1: MASTER to UNCALIBRATED on RS_SLAVE",
        "ptp4l[72089.189]: rms 1519 max 1816 freq     +1 +/- 168 delay  1056 +/- 183",
        "Dec  3 x systemd[1]: ptp4l[350.125]: [ptp4l.0.config:6] master offset         -3 s1 freq   +9071 path delay       412",
        "phc2sys[7.5]: CLOCK_REALTIME phc offset       -12 s2 freq   +1234 delay   1500",
        "ptp4l[9.000]: timed out while polling for tx timestamp",
        "ptp4l[9.001]: port 1 (eth0): SLAVE to FAULTY on FAULT_DETECTED (FT_UNSPECIFIED)",
    ];

    #[test]
    fn what_linuxptp_wrote_is_read() {
        let said: Vec<Option<Said>> = LINES.iter().map(|line| read(line).map(|(_, said)| said)).collect();
        let change = |from: &str, to: &str, why: &str| {
            Some(Said::PortState { port: 1, from: from.into(), to: to.into(), why: why.into() })
        };
        let best = |clock: &str| Some(Said::BestMaster { clock: clock.into() });
        assert_eq!(said[0], change("INITIALIZING", "LISTENING", "INIT_COMPLETE"));
        assert_eq!((&said[1], &said[4]), (&None, &None));
        assert_eq!(said[2], change("LISTENING", "MASTER", "ANNOUNCE_RECEIPT_TIMEOUT_EXPIRES"));
        assert_eq!((&said[3], &said[5]), (&best("b2c457.fffe.415642"), &best("d61eaf.fffe.4b2c61")));
        assert_eq!(said[6], change("MASTER", "UNCALIBRATED", "RS_SLAVE"));
        assert_eq!(said[7], Some(Said::Summary { rms: 1519, max: 1816, frequency: 1.0 }));
        assert_eq!(said[8], Some(Said::Offset { offset: -3, servo: 1, frequency: 9071.0, delay: 412 }));
        let system = Said::System {
            clock: "CLOCK_REALTIME".into(),
            offset: -12,
            servo: 2,
            frequency: 1234.0,
            delay: Some(1500),
        };
        assert_eq!(read(LINES[9]), Some((Some(Nanos(7_500_000_000)), system)));
        assert_eq!(said[10], Some(Said::Fault("timed out while polling for tx timestamp".into())));
        assert_eq!(said[11], change("SLAVE", "FAULTY", "FAULT_DETECTED"));
    }

    #[test]
    fn impossible_figures_are_not_taken() {
        for line in [
            "ptp4l[1.0]: master offset 99999999999999999999 s2 freq +1 path delay 1",
            "ptp4l[1.0]: master offset 1 s9 freq +1 path delay 1",
            "ptp4l[1.0]: master offset 1 s2 freq inf path delay 1",
            "phc2sys[1.0]: CLOCK_REALTIME phc offset x s2 freq +1 delay 1",
            "master offset 1 s2 freq +1 path delay 1",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
        assert_eq!(instant("99999999999999999999.0"), None);
        assert_eq!(instant("-1.5"), None);
        assert_eq!(instant("9223372036.999999999"), None);
    }

    proptest! {
        #[test]
        fn mangled_lines_never_panic(
            which in 0..LINES.len(), at in any::<prop::sample::Index>(), put in "\\PC{0,8}", cut in any::<prop::sample::Index>()
        ) {
            let mut letters: Vec<char> = LINES[which].chars().collect();
            let place = at.index(letters.len());
            letters.splice(place..place, put.chars());
            letters.truncate(cut.index(letters.len() + 1));
            read(&letters.into_iter().collect::<String>());
        }

        #[test]
        fn noise_never_panics(line in "\\PC*") {
            read(&line);
            read(&format!("ptp4l[{line}]: {line}"));
        }
    }
}
