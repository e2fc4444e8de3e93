//! Queue disciplines: the steps of `tc` for a port.

use scenario::{Cbs, Classes, Counted, Etf, GateSchedule, QUEUE_FRAMES, Queue, Shaper, TaprioMode};
use units::{Nanos, Rate};

use crate::arithmetic::{self, Credits, LINE_OVERHEAD_BYTES, LONGEST_FRAME_BYTES};
use crate::plan::{Command, Existing, Program, Step, Undo};
use crate::port::LinuxPort;

/// The handle of a root; that of the child under `100:N` is 100 + N.
const ROOT_HANDLE: u16 = 100;

/// Adds what puts the queue discipline of a port in place. A port without one is left as it is.
pub(crate) fn steps(port: &LinuxPort<'_>, steps: &mut Vec<Step>) {
    let device = &port.device;
    let root = steps.len();
    let title = format!("{}: {device}, {}, {}", port.name, port.rate, port.driver.what);
    match port.queue {
        Queue::Fifo => {}
        Queue::FqCodel => put_root(port, "", "fq_codel", vec![title], Existing::Replaced, steps),
        Queue::Cbs(cbs) => {
            if let Some(credits) = credits_of(port, 0) {
                let mut why = vec![title];
                why.extend(cbs_reason(port, 0, cbs, &credits));
                put_root(port, "", &cbs_words(cbs, &credits), why, Existing::Replaced, steps);
            }
        }
        Queue::Etf(etf) => {
            let mut why = vec![title];
            why.extend(etf_reason(port, etf));
            put_root(port, "", &etf_words(etf), why, Existing::RemovedFirst, steps);
        }
        Queue::Mqprio(classes) => {
            let mut why = vec![title];
            why.extend(map_reason(port, classes));
            why.push(
                "pfifo below: mqprio's own leaves are what net.core.default_qdisc says, in which frames of a class overtake"
                    .to_owned(),
            );
            let preempts = port.nic.preemptable != 0;
            if preempts {
                why.push(fp_reason(port));
            }
            let words = format!("mqprio {} hw {}{}", map_words(port, classes), u8::from(preempts), fp_words(port));
            put_root(port, "", &words, why, Existing::RemovedFirst, steps);
            children(port, classes, root, steps);
        }
        Queue::Taprio { classes, schedule } => {
            let (stab, words, mut why) = taprio(port, classes, schedule);
            why.insert(0, title);
            put_root(port, stab, &words, why, Existing::Replaced, steps);
            let had = steps.len();
            children(port, classes, root, steps);
            if schedule.mode == TaprioMode::Software && steps.len() > had {
                let command = steps[root].command.clone();
                let why = vec![
                    "The same again: Linux has stopped the timer of the schedule for every child that came under it, and".into(),
                    "shows no sign of it. Children stay, waiting frames go out.".into(),
                ];
                let target = device.clone();
                steps.push(Step { target, command, why, undo: Undo::With(root), existing: Existing::Replaced });
            }
        }
    }
}

fn put_root(
    port: &LinuxPort<'_>,
    stab: &str,
    words: &str,
    why: Vec<String>,
    existing: Existing,
    steps: &mut Vec<Step>,
) {
    let device = &port.device;
    steps.push(Step {
        target: device.clone(),
        command: Command::new(
            Program::Tc,
            &format!("qdisc replace dev {device} root handle {ROOT_HANDLE}: {stab} {words}"),
        ),
        why,
        undo: Undo::Run(Command::new(Program::Tc, &format!("qdisc del dev {device} root"))),
        existing,
    });
}

fn children(port: &LinuxPort<'_>, classes: &Classes, root: usize, steps: &mut Vec<Step>) {
    // The highest class first: drivers want the upper of two shapers before the lower, and off in reverse.
    for (class, shaper) in classes.shapers.iter().enumerate().rev() {
        let (words, why, existing) = match shaper {
            Shaper::None => match port.queue {
                // Leaves that taprio makes itself are these already, and each child put under it stops its timer.
                Queue::Taprio { .. } => continue,
                _ => {
                    (format!("pfifo limit {QUEUE_FRAMES}"), vec!["first come, first served".into()], Existing::Replaced)
                }
            },
            Shaper::Cbs(cbs) => {
                let Some(credits) = credits_of(port, class) else { continue };
                (cbs_words(cbs, &credits), cbs_reason(port, class as u8, cbs, &credits), Existing::Replaced)
            }
            Shaper::Etf(etf) => (etf_words(etf), etf_reason(port, etf), Existing::RemovedFirst),
        };
        let number = port.places[class].queue + 1;
        let device = &port.device;
        let head = format!("Class {class}, queue {}:", port.places[class].queue);
        let why = why.into_iter().enumerate().map(|(line, why)| match line {
            0 => format!("{head} {why}"),
            _ => why,
        });
        steps.push(Step {
            target: device.clone(),
            command: Command::new(
                Program::Tc,
                &format!(
                    "qdisc replace dev {device} parent {ROOT_HANDLE}:{number} handle {}: {words}",
                    ROOT_HANDLE + number
                ),
            ),
            why: why.collect(),
            undo: Undo::With(root),
            existing,
        });
    }
}

// ---- classes

fn map_words(port: &LinuxPort<'_>, classes: &Classes) -> String {
    let map: Vec<String> = classes.map.iter().map(|class| port.places[usize::from(*class)].tc.to_string()).collect();
    let mut places = port.places.clone();
    places.sort_by_key(|place| place.tc);
    let queues: Vec<String> = places.iter().map(|place| format!("1@{}", place.queue)).collect();
    format!("num_tc {} map {} queues {}", places.len(), map.join(" "), queues.join(" "))
}

/// Which class is which number on Linux.
fn map_reason(port: &LinuxPort<'_>, classes: &Classes) -> Vec<String> {
    let mut lines = vec![
        "map: the tc of priorities 0 to 15, all of them: tc would fill in 0. SO_PRIORITY of a socket chooses, not the PCP."
            .to_owned(),
    ];
    for (class, place) in port.places.iter().enumerate().rev() {
        let priorities: Vec<String> = (0..16)
            .filter(|priority| usize::from(classes.map[*priority]) == class)
            .map(|priority| priority.to_string())
            .collect();
        let used: Vec<&str> = port.streams_of(class as u8).map(|stream| stream.name.as_str()).collect();
        lines.push(format!(
            "class {class} = tc {} on queue {}: priorities {}{}",
            place.tc,
            place.queue,
            if priorities.is_empty() { "none".to_owned() } else { priorities.join(" ") },
            if used.is_empty() { String::new() } else { format!("; streams {}", used.join(", ")) }
        ));
    }
    lines
}

fn fp_words(port: &LinuxPort<'_>) -> String {
    if port.nic.preemptable == 0 {
        return String::new();
    }
    let mask = port.gate_mask(port.nic.preemptable);
    let of_tc = |tc: usize| if mask >> tc & 1 == 1 { " P" } else { " E" };
    format!(" fp{}", (0..port.places.len()).map(of_tc).collect::<String>())
}

fn fp_reason(port: &LinuxPort<'_>) -> String {
    let bytes = arithmetic::express_blocking_bytes(port.nic.fragment_bytes);
    format!(
        "fp: tc by tc, P can be interrupted, E interrupts and waits for at most {bytes} B = {} (iproute2 from 6.3)",
        span(arithmetic::line_time(port.rate, bytes))
    )
}

// ---- gates

fn taprio(port: &LinuxPort<'_>, classes: &Classes, schedule: &GateSchedule) -> (&'static str, String, Vec<String>) {
    let mut why = map_reason(port, classes);
    let base = arithmetic::base_time(schedule.base_time, port.shift, schedule.cycle);
    why.push(match port.shift {
        Nanos::ZERO => format!("base-time {} ns TAI: cycles begin at whole cycles from there", base.0),
        shift => format!(
            "base-time {} ns TAI: {} of the schedule, {} later for the frames' way here, in whole cycles not below 0",
            base.0,
            span(Nanos(schedule.base_time.0)),
            span(shift)
        ),
    });
    let mut words = format!("taprio {} base-time {}", map_words(port, classes), base.0);
    let mut at = Nanos::ZERO;
    for entry in &schedule.entries {
        let mask = port.gate_mask(entry.gates);
        words.push_str(&format!(" sched-entry S {mask:02x} {}", entry.interval.0));
        let open: Vec<String> = (0..port.places.len())
            .filter(|class| entry.gates >> class & 1 == 1)
            .map(|class| class.to_string())
            .collect();
        let gates = match open.len() {
            0 => "all shut: guard".to_owned(),
            1 => format!("class {}", open[0]),
            _ => format!("classes {}", open.join(" ")),
        };
        let end = at + entry.interval;
        why.push(format!("S {mask:02x}: {} to {} for {}, {gates}", span(at), span(end), span(entry.interval)));
        at = end;
    }
    why.push(format!(
        "cycle-time {} is the sum of the intervals; Linux would take any, and repeat at another time",
        schedule.cycle.0
    ));
    why.push(format!(
        "A guard band holds the longest frame that may start: {LONGEST_FRAME_BYTES} B on the line = {}",
        span(arithmetic::guard_band(port.rate, LONGEST_FRAME_BYTES))
    ));
    words.push_str(&format!(" cycle-time {}", schedule.cycle.0));
    let stab = match schedule.mode {
        TaprioMode::FullOffload => "",
        TaprioMode::Software | TaprioMode::TxtimeAssist { .. } => {
            why.push(format!(
                "stab overhead {LINE_OVERHEAD_BYTES}: FCS, preamble and gap, which a frame takes of the line and Linux does not count"
            ));
            "stab overhead 24"
        }
    };
    match schedule.mode {
        TaprioMode::Software => words.push_str(" clockid CLOCK_TAI"),
        TaprioMode::TxtimeAssist { txtime_delay } => {
            why.push(format!(
                "flags 0x1: gates become launch times, at least {} after a frame got here; above the delta of its ETF",
                span(txtime_delay)
            ));
            words.push_str(&format!(" flags 0x1 txtime-delay {} clockid CLOCK_TAI", txtime_delay.0));
        }
        TaprioMode::FullOffload => {
            why.push("flags 0x2: the NIC keeps the gates, by its own clock".into());
            words.push_str(" flags 0x2");
        }
    }
    if port.nic.preemptable != 0 {
        why.push(fp_reason(port));
        words.push_str(&fp_words(port));
    }
    (stab, words, why)
}

// ---- shapers

fn credits_of(port: &LinuxPort<'_>, class: usize) -> Option<Credits> {
    port.credits.get(class).copied().flatten()
}

/// The longest frame of a class on the line; the longest of all where nothing is known of it.
fn longest_of(port: &LinuxPort<'_>, class: u8) -> u32 {
    let known = port.frames_of(class).into_iter().map(|frame| frame.physical_bytes()).max();
    known.unwrap_or(LONGEST_FRAME_BYTES)
}

fn cbs_words(cbs: &Cbs, credits: &Credits) -> String {
    format!(
        "cbs idleslope {} sendslope {} hicredit {} locredit {} offload {}",
        credits.idle_slope_kbit,
        credits.send_slope_kbit,
        credits.hi_credit_bytes,
        credits.lo_credit_bytes,
        u8::from(cbs.offload)
    )
}

fn cbs_reason(port: &LinuxPort<'_>, class: u8, cbs: &Cbs, credits: &Credits) -> Vec<String> {
    let frames: Vec<String> = port
        .streams_of(class)
        .map(|stream| format!("{} B every {}", stream.frame().physical_bytes(), span(stream.cycle)))
        .collect();
    let need: u128 = port
        .streams_of(class)
        .map(|stream| (u128::from(stream.frame().physical_bits()) * 1_000_000_000).div_ceil(stream.cycle.0 as u128))
        .sum();
    let (speed, longest) = (port.speed(), longest_of(port, class));
    let mut lines = vec![match need {
        0 => format!("idleslope {} kbit/s as the scenario says; no stream is known in it", credits.idle_slope_kbit),
        need => format!(
            "idleslope {} kbit/s, rounded up, is {} % of {} on the line = {}",
            credits.idle_slope_kbit,
            percent(cbs.idle_slope, need),
            frames.join(" + "),
            Rate(need as u64)
        ),
    }];
    lines.push(format!("sendslope = idleslope − {speed} of the port, as ethtool tells Linux, in kbit/s"));
    lines.push(format!(
        "hicredit = the class waits for {LONGEST_FRAME_BYTES} B of others and what goes before it, in bytes at its slope, rounded up"
    ));
    lines.push(format!(
        "locredit = ⌊{longest} B · sendslope / {speed}⌋: one frame of its longest out of an empty account"
    ));
    let counted = if port.counted[usize::from(class)] == Counted::Socket {
        "24 B less, without FCS, preamble and gap"
    } else {
        "all of it"
    };
    lines.push(format!("Of a frame on the line the shaper counts {counted}."));
    lines
}

/// A share in percent with at most one decimal.
fn percent(slope: Rate, need: u128) -> String {
    let tenths = (u128::from(slope.0) * 1_000 + need / 2) / need;
    match tenths % 10 {
        0 => (tenths / 10).to_string(),
        rest => format!("{}.{rest}", tenths / 10),
    }
}

fn etf_words(etf: &Etf) -> String {
    let mut words = format!("etf clockid CLOCK_TAI delta {}", etf.delta.0);
    for (set, word) in
        [(etf.offload, "offload"), (etf.deadline_mode, "deadline_mode"), (etf.skip_sock_check, "skip_sock_check")]
    {
        if set {
            words.push(' ');
            words.push_str(word);
        }
    }
    words
}

fn etf_reason(port: &LinuxPort<'_>, etf: &Etf) -> Vec<String> {
    let mut lines = vec![format!(
        "delta {} ns: a frame goes to the driver {} before its launch; above the host's largest wake-up latency",
        etf.delta.0,
        span(etf.delta)
    )];
    lines.push(match (etf.offload, etf.deadline_mode) {
        (true, _) => "offload: the NIC launches at the instant itself".to_owned(),
        (false, true) => {
            "deadline_mode: frames leave at once, their launch time is their order and a deadline".to_owned()
        }
        (false, false) => {
            format!("No offload: frames leave up to {} before their launch time", span(etf.delta))
        }
    });
    if etf.skip_sock_check {
        lines.push(match port.queue {
            Queue::Taprio { .. } => {
                "skip_sock_check: taprio gives launch times to frames whose sockets gave none".to_owned()
            }
            _ => "skip_sock_check: frames of sockets without SO_TXTIME pass".to_owned(),
        });
    }
    lines
}

/// A span as it is written in a scenario, "62.5 µs".
pub(crate) fn span(span: Nanos) -> String {
    let ns = span.0;
    let (unit, name) = match ns.unsigned_abs() {
        0 => return "0".to_owned(),
        below if below < 1_000 => (1, "ns"),
        below if below < 1_000_000 => (1_000, "µs"),
        below if below < 1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let sign = if ns < 0 { "−" } else { "" };
    let (whole, rest) = (ns.unsigned_abs() / unit, ns.unsigned_abs() % unit);
    let digits = unit.ilog10() as usize;
    let rest = format!("{rest:0digits$}");
    let rest = rest.trim_end_matches('0');
    match rest.is_empty() || digits == 0 {
        true => format!("{sign}{whole} {name}"),
        false => format!("{sign}{whole}.{rest} {name}"),
    }
}
