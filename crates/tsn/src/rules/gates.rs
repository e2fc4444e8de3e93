//! Rules of gate schedules: intervals, windows, guard bands, launch times.

use scenario::{BULK_FRAMES, Etf, GateSchedule, Open, Queue, Shaper, Stream, TaprioMode, Window};
use units::{Nanos, Tai};

use super::{Checked, Finding, Severity};
use crate::arithmetic::{self, LONGEST_FRAME_BYTES};
use crate::gates;
use crate::qdiscs::span;

/// Where the rules of launch times in gates are from.
const VALID_INTERVAL: &str = "Linux 6.1.192, is_valid_interval; tried";
/// Most launches of a stream that are looked at, before they repeat against the schedule.
const MOST_PHASES: i64 = 10_000;

pub(super) fn check(at: &Checked<'_>, findings: &mut Vec<Finding>) {
    let Queue::Taprio { schedule, .. } = at.port.queue else { return };
    intervals(at, schedule, findings);
    for class in 0..at.port.class_count() {
        window_holds_burst(at, schedule, class, findings);
        guard(at, schedule, class, findings);
        bulk(at, schedule, class, findings);
    }
    launches(at, schedule, findings);
    assist(at, schedule, findings);
    base_time(at, schedule, findings);
}

fn intervals(at: &Checked<'_>, schedule: &GateSchedule, findings: &mut Vec<Finding>) {
    let least = arithmetic::shortest_interval(at.port.speed());
    if let Some(short) = schedule.entries.iter().map(|entry| entry.interval).filter(|interval| *interval < least).min()
    {
        findings.push(at.finding(
            "interval-too-short",
            Severity::Error,
            [
                format!("an interval of {} at {}", span(short), at.port.speed()),
                format!(
                    "{} or more: 60 B at the speed that Linux knows; it refuses less with \"Invalid interval\"",
                    span(least)
                ),
                "lengthen the interval, or join it with the next".into(),
            ],
            "Linux 6.1.192, taprio_change; kernels before 6.10 take it when it is the first schedule",
        ));
    }
}

/// The windows of a class; none when its gate is always open.
fn windows(schedule: &GateSchedule, class: u8) -> Vec<Window> {
    match schedule.open(class) {
        Open::Always => Vec::new(),
        Open::In(windows) => windows,
    }
}

fn window_holds_burst(at: &Checked<'_>, schedule: &GateSchedule, class: u8, findings: &mut Vec<Finding>) {
    let Some(longest) = windows(schedule, class).into_iter().map(Window::length).max() else { return };
    let frames: Vec<u32> = at.port.streams_of(class).map(|stream| stream.frame().physical_bytes()).collect();
    let bytes: u32 = frames.iter().sum();
    let needed = arithmetic::line_time(at.port.rate, bytes);
    if needed > longest {
        findings.push(at.finding(
            "window-below-burst",
            Severity::Error,
            [
                format!("the longest window of class {class} is {}", span(longest)),
                format!(
                    "{} or more: one frame of each of its {} streams, {bytes} B on the line",
                    span(needed),
                    frames.len()
                ),
                "lengthen the window, or give some of the streams another class".into(),
            ],
            "",
        ));
    }
}

/// Whether a class has its windows for itself.
fn alone(schedule: &GateSchedule, class: u8) -> bool {
    let own = 1_u8 << class;
    schedule.entries.iter().filter(|entry| entry.gates & own != 0).all(|entry| entry.gates == own)
}

fn guard(at: &Checked<'_>, schedule: &GateSchedule, class: u8, findings: &mut Vec<Finding>) {
    if at.port.streams_of(class).next().is_none() || !alone(schedule, class) {
        return;
    }
    // What goes before it has waited in a class that can be interrupted, or goes on to its end.
    let others = !(1_u8 << class) & (u8::MAX >> (8 - at.port.class_count()));
    let cut = at.port.nic.preemptable != 0 && at.port.nic.preemptable & others == others;
    let bytes = if cut { arithmetic::express_blocking_bytes(at.port.nic.fragment_bytes) } else { LONGEST_FRAME_BYTES };
    let needed = arithmetic::guard_band(at.port.rate, bytes);
    let shortest = windows(schedule, class)
        .into_iter()
        .filter_map(|window| gates::shut_before(schedule, class, window.start))
        .min();
    let Some(guard) = shortest.filter(|guard| *guard < needed) else { return };
    let how = match schedule.mode {
        TaprioMode::FullOffload => "whether the NIC holds back a frame that does not fit is up to it",
        TaprioMode::Software | TaprioMode::TxtimeAssist { .. } => {
            "Linux holds back a frame that does not fit into its interval, but not what the driver has already"
        }
    };
    findings.push(at.finding(
        "guard-band",
        Severity::Warning,
        [
            format!("all gates are shut for {} before a window of class {class}", span(guard)),
            format!("{}: {bytes} B of another class may start just before; {how}", span(needed)),
            format!("shut all gates for {} before the window, or let it open earlier", span(needed)),
        ],
        "",
    ));
}

/// Streams that have their launch times at this port: those of its own host.
fn launched<'a>(at: &'a Checked<'_>) -> impl Iterator<Item = &'a Stream> {
    let id = at.port.id;
    at.scenario.streams.iter().filter(move |stream| {
        stream.launch && (stream.path.first() == Some(&id) || stream.echo && stream.return_path.first() == Some(&id))
    })
}

/// The phases of a stream's launches in the cycle of a schedule, each once.
fn phases(at: &Checked<'_>, schedule: &GateSchedule, stream: &Stream) -> Vec<Nanos> {
    let base = arithmetic::base_time(schedule.base_time, at.port.shift, schedule.cycle);
    let first = at.scenario.base_time.0 + stream.start.0 + stream.offset.0 - base.0;
    let (cycle, step) = (schedule.cycle.0.max(1), stream.cycle.0);
    let (mut phases, mut phase) = (Vec::new(), first.rem_euclid(cycle));
    let begin = phase;
    for _ in 0..MOST_PHASES {
        phases.push(Nanos(phase));
        phase = (phase + step).rem_euclid(cycle);
        if phase == begin {
            break;
        }
    }
    phases
}

fn launches(at: &Checked<'_>, schedule: &GateSchedule, findings: &mut Vec<Finding>) {
    for stream in launched(at) {
        let class = at.port.queue.class_of(stream.pcp);
        if schedule.open(class) == Open::Always {
            continue;
        }
        let length = arithmetic::line_time(at.port.rate, stream.frame().physical_bytes());
        let phases = phases(at, schedule, stream);
        let fits = |phase: Nanos| match schedule.mode {
            TaprioMode::FullOffload => gates::window_of(schedule, class, phase)
                .is_some_and(|(window, launch)| window.start < launch && launch + length < window.end),
            TaprioMode::Software | TaprioMode::TxtimeAssist { .. } => {
                gates::takes_launch(schedule, class, phase, length)
            }
        };
        let bad: Vec<Nanos> = phases.iter().copied().filter(|phase| !fits(*phase)).collect();
        let Some(&first) = bad.first() else {
            early(at, schedule, stream, class, &phases, findings);
            continue;
        };
        let where_ = match gates::window_of(schedule, class, first) {
            Some((window, launch)) if launch == window.start => "at the start of its window",
            Some((window, launch)) if launch + length >= window.end => "too close to the end of its window",
            Some(_) => "where one entry of its window ends and the next begins",
            None => "outside its windows",
        };
        findings.push(at.finding(
            "launch-at-edge",
            Severity::Error,
            [
                format!(
                    "stream {} launches at {} of the schedule's cycle, {where_} ({} of {} launches)",
                    stream.name,
                    span(first),
                    bad.len(),
                    phases.len()
                ),
                format!(
                    "launch after the start of an entry with an open gate for class {class}, and {} of frame before its end, both \
                     strictly, or of a window of the NIC's: Linux drops the others without a word in the error queue",
                    span(length)
                ),
                "open the window a guard band before the launch, or move `offset`".into(),
            ],
            VALID_INTERVAL,
        ));
    }
}

/// ETF under a schedule of the kernel's timers hands a frame over `delta` early, when its gate may be shut.
fn early(
    at: &Checked<'_>,
    schedule: &GateSchedule,
    stream: &Stream,
    class: u8,
    phases: &[Nanos],
    findings: &mut Vec<Finding>,
) {
    let Shaper::Etf(etf) = at.port.shaper(class) else { return };
    let shut = phases.iter().filter(|phase| gates::window_of(schedule, class, **phase - etf.delta).is_none()).count();
    if schedule.mode == TaprioMode::Software && !etf.deadline_mode && shut > 0 {
        findings.push(at.finding(
            "etf-under-software-gates",
            Severity::Error,
            [
                format!(
                    "stream {}: its gate is shut {} before {shut} of {} launches",
                    stream.name,
                    span(etf.delta),
                    phases.len()
                ),
                "an open gate at launch − delta: ETF releases the frame there, and it is lost behind a shut one".into(),
                "take ETF away from the class, or write `mode = \"txtime-assist\"`".into(),
            ],
            "tried, Linux 6.12.117",
        ));
    }
}

fn assist(at: &Checked<'_>, schedule: &GateSchedule, findings: &mut Vec<Finding>) {
    let TaprioMode::TxtimeAssist { txtime_delay } = schedule.mode else { return };
    for class in 0..at.port.class_count() {
        match at.port.shaper(class) {
            Shaper::Etf(etf) => {
                if etf.delta >= txtime_delay {
                    findings.push(at.finding(
                        "delta-above-txtime-delay",
                        Severity::Error,
                        [
                            format!("delta {} of class {class}, txtime_delay {}", span(etf.delta), span(txtime_delay)),
                            "txtime_delay above delta: else frames reach ETF when they should have left it".into(),
                            format!("write a `txtime_delay` above {}, or a smaller `delta`", span(etf.delta)),
                        ],
                        "tc-taprio(8)",
                    ));
                }
                leaves_early(at, schedule, class, &etf, findings);
                if !etf.skip_sock_check {
                    findings.push(at.finding(
                        "assist-without-skip-sock-check",
                        Severity::Error,
                        [
                            format!("ETF of class {class} looks at sockets"),
                            "skip_sock_check: taprio gives the launch times, and ETF drops frames of sockets that have none".into(),
                            format!("write `etf = {{ …, skip_sock_check = true }}` for class {class}"),
                        ],
                        "tried, Linux 6.12.117",
                    ));
                }
            }
            Shaper::None | Shaper::Cbs(_) => findings.push(at.finding(
                "assist-without-etf",
                Severity::Error,
                [
                    format!("class {class} has no ETF"),
                    "ETF in every class: gates are launch times there, and without ETF nobody keeps them".into(),
                    format!("write `etf = {{ delta = …, skip_sock_check = true }}` for class {class}"),
                ],
                "tried, Linux 6.12.117",
            )),
        }
    }
}

/// ETF without the NIC's launch times hands a frame over `delta` early, whatever its gate is then.
fn leaves_early(at: &Checked<'_>, schedule: &GateSchedule, class: u8, etf: &Etf, findings: &mut Vec<Finding>) {
    if etf.offload {
        return;
    }
    let shut = |window: &Window| gates::shut_before(schedule, class, window.start);
    let Some(guard) = windows(schedule, class).iter().filter_map(shut).min() else { return };
    if etf.delta > guard {
        findings.push(at.finding(
            "assist-leaves-early",
            Severity::Warning,
            [
                format!(
                    "delta {} of class {class} without offload: frames leave up to {} before their window, into another's",
                    span(etf.delta),
                    span(etf.delta)
                ),
                format!("delta of {} or less, for which all gates are shut before, or the NIC's launch times", span(guard)),
                format!(
                    "write a smaller `delta` above the wake-up latency, shut all gates for {}, or write `offload = true`",
                    span(etf.delta)
                ),
            ],
            "tried, Linux 6.12.117",
        ));
    }
}

/// What is in the driver when the gates change is sent all the same: a burst within a window goes on into the next.
fn bulk(at: &Checked<'_>, schedule: &GateSchedule, class: u8, findings: &mut Vec<Finding>) {
    if schedule.mode != TaprioMode::Software || at.port.streams_of(class).next().is_none() || !alone(schedule, class) {
        return;
    }
    let needed = arithmetic::guard_band(at.port.rate, LONGEST_FRAME_BYTES) * i64::from(BULK_FRAMES - 1);
    let guards = windows(schedule, class).into_iter().filter_map(|w| gates::shut_before(schedule, class, w.start));
    let Some(guard) = guards.min().filter(|guard| *guard < needed) else { return };
    findings.push(at.finding(
        "burst-into-window",
        Severity::Note,
        [
            format!("the gates are kept by software, and shut for {} before a window of class {class}", span(guard)),
            format!(
                "a burst of others that comes late in their window may hold the line for {} more: Linux weighs it against the whole \
                 interval and hands {BULK_FRAMES} frames to the driver at once; what waits before its gate or comes paced does not",
                span(needed)
            ),
            String::new(),
        ],
        "tried, Linux 6.12.117",
    ));
}

fn base_time(at: &Checked<'_>, schedule: &GateSchedule, findings: &mut Vec<Finding>) {
    let Some(now) = at.situation.now else { return };
    let base = arithmetic::base_time(schedule.base_time, at.port.shift, schedule.cycle);
    if base > now {
        findings.push(at.finding(
            "base-time-ahead",
            Severity::Warning,
            [
                format!("base-time is {} ahead", span(Nanos(base.0 - now.0))),
                "a base-time that has passed: until it comes, all gates are open".into(),
                "write `base_time = \"0s\"`: cycles are counted from there".into(),
            ],
            "Linux 6.1.192, sources; tried",
        ));
    } else if base > Tai(0) {
        findings.push(at.finding(
            "base-time-past",
            Severity::Note,
            [
                format!("base-time is {} ago", span(Nanos(now.0 - base.0))),
                "the schedule starts with the next cycle counted from there".into(),
                String::new(),
            ],
            "Linux 6.1.192, sources; tried",
        ));
    }
}
