//! The time: how far TAI is ahead of UTC, and who sets the clock.

use units::Nanos;

use super::cores::running;
use crate::finding::{Finding, Severity};
use crate::look::Look;
use crate::needs::Needs;

/// Programs that set the clock by the network.
const NTP: [&str; 6] = ["chronyd", "ntpd", "ntpd.real", "systemd-timesyncd", "openntpd", "sntp"];

pub(super) fn examine(look: &impl Look, needs: &Needs, found: &mut Vec<Finding>) {
    let offset = look.tai_minus_utc();
    tai(offset, needs, found);
    let follower = running(look, &["phc2sys", "ts2phc", "timemaster"]);
    let ntp = running(look, &NTP);
    match &follower {
        Some((name, line)) if name == "phc2sys" => phc2sys(offset, line, found),
        None if needs.synchronised => found.push(Finding::new(
            "phc2sys",
            Severity::Warning,
            "clock",
            [
                "no phc2sys is running",
                "the system clock to follow the network card's, which ptp4l keeps: base-times mean the same instant on \
                 every machine then",
                "start ptp4l on the interface, and `phc2sys -a -r -r`",
            ],
        )),
        _ => {}
    }
    if let (Some((follower, _)), Some((ntp, _))) = (&follower, &ntp) {
        found.push(Finding::new(
            "ntp-daemon",
            Severity::Error,
            "clock",
            [
                &format!("{ntp} sets the clock that {follower} sets"),
                "one of them: together they pull it to and fro",
                &format!("systemctl disable --now {}", ntp.trim_end_matches(".real")),
            ],
        ));
    }
}

fn tai(offset: Nanos, needs: &Needs, found: &mut Vec<Finding>) {
    if offset > Nanos::ZERO {
        found.push(Finding::good("tai-offset", "clock", format!("TAI is {} s ahead of UTC", offset.0 / 1_000_000_000)));
        return;
    }
    found.push(Finding::new(
        "tai-offset",
        if needs.synchronised { Severity::Error } else { Severity::Note },
        "clock",
        [
            "the kernel takes TAI to be UTC",
            "37 s since 2017: base-times count in TAI, and machines that differ in it are 37 s apart",
            "phc2sys sets it from ptp4l's announcements (`phc2sys -a -r -r`), chrony by `leapsectz right/UTC`",
        ],
    ));
}

/// With `-O` the offset between PHC and system clock is fixed: it has to be that between TAI and UTC where the PHC
/// counts TAI, as a gPTP grandmaster makes it.
fn phc2sys(offset: Nanos, line: &[String], found: &mut Vec<Finding>) {
    let seconds = offset.0 / 1_000_000_000;
    let given = line.iter().enumerate().find_map(|(index, word)| {
        let value = word.strip_prefix("-O")?;
        if value.is_empty() { line.get(index + 1).map(String::as_str) } else { Some(value) }
    });
    let given: Option<i64> = given.and_then(|value| value.trim_start_matches('=').parse().ok());
    // Without -O it takes what ptp4l announces.
    let Some(given) = given.filter(|given| *given != -seconds) else {
        found.push(Finding::good("phc2sys", "clock", line.join(" ")));
        return;
    };
    found.push(Finding::new(
        "phc2sys",
        Severity::Warning,
        "clock",
        [
            &format!("phc2sys runs with -O {given}, and the kernel has TAI − UTC = {seconds} s"),
            &format!(
                "-O {}: else CLOCK_TAI, by which frames are launched, is {} s off the card's time",
                -seconds,
                (given + seconds).abs()
            ),
            "let phc2sys take the offset from ptp4l (`phc2sys -a -r -r`, no -O), or give it that one",
        ],
    ));
}
