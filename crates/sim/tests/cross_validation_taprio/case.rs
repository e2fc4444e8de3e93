//! Cases: a port of a discipline, and the frames that come to it, passed by the model and by the kernel.

use std::fmt::Write as _;
use std::time::Duration;

use downbeat_sim::{Arrival, Cause, Fate, Passage, Passed, Processor, pass};
use kernel_lab::Script;
use scenario::{Classes, GateEntry, GateSchedule, Queue, Shaper, TaprioMode};
use units::{Nanos, Picos, Rate, Tai};

use crate::credits;

/// FCS, preamble and gap, which the laboratory's wire adds to a frame.
const WIRE: u32 = 24;
/// Reading the laboratory's clock takes 10 ns, in which no timer goes off: the sender reads it for the stamp of each frame. So
/// does a system call that fails: that of a frame which is lost as it comes.
const PROCESSOR: Processor = Processor { reading: Picos(10_000), failing: Picos(10_000) };
/// When the arrivals of the first case begin; the laboratory starts a second before.
const BASE: i64 = 1_700_000_038_000_000_000;
/// How much later those of the next case of one start of the laboratory begin.
const STEP: i64 = 3_000_000_000;

/// A frame of a case: instants in nanoseconds, bytes without FCS.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) at: i64,
    pub(crate) priority: u8,
    pub(crate) bytes: u32,
    pub(crate) launch: Option<i64>,
}

pub(crate) fn frame(at: i64, priority: u8, bytes: u32) -> Frame {
    Frame { at, priority, bytes, launch: None }
}

/// Priority p is in class p modulo the number of classes.
pub(crate) fn classes(shapers: Vec<Shaper>) -> Classes {
    let count = shapers.len() as u8;
    Classes { map: std::array::from_fn(|priority| priority as u8 % count), shapers }
}

/// Entries as gates and their length in nanoseconds, from `base` on.
pub(crate) fn taprio(shapers: Vec<Shaper>, mode: TaprioMode, base: i64, entries: &[(u8, i64)]) -> Queue {
    let cycle = Nanos(entries.iter().map(|(_, interval)| interval).sum());
    let entries = entries.iter().map(|(gates, interval)| GateEntry { gates: *gates, interval: Nanos(*interval) });
    let schedule = GateSchedule { base_time: Tai(base), cycle, entries: entries.collect(), mode };
    Queue::Taprio { classes: classes(shapers), schedule }
}

/// The commands of a port; the laboratory's interface empties queue 0 first, and taprio serves the highest tc first.
fn commands(queue: &Queue, base: i64) -> String {
    let classes = queue.classes().unwrap();
    let count = classes.shapers.len();
    let root = match queue {
        Queue::Taprio { schedule, .. } => {
            let map: Vec<String> = classes.map.iter().map(ToString::to_string).collect();
            let queues: Vec<String> = (0..count).map(|class| format!("1@{}", count - 1 - class)).collect();
            let mut root = format!(
                "stab overhead {WIRE} taprio num_tc {count} map {} queues {} base-time {}",
                map.join(" "),
                queues.join(" "),
                base + schedule.base_time.0
            );
            for entry in &schedule.entries {
                write!(root, " sched-entry S {:02x} {}", entry.gates, entry.interval.0).unwrap();
            }
            if let TaprioMode::TxtimeAssist { txtime_delay } = schedule.mode {
                write!(root, " flags 0x1 txtime-delay {}", txtime_delay.0).unwrap();
            }
            root + " clockid CLOCK_TAI"
        }
        _ => {
            let map: Vec<String> =
                classes.map.iter().map(|class| (count - 1 - usize::from(*class)).to_string()).collect();
            let queues: Vec<String> = (0..count).map(|queue| format!("1@{queue}")).collect();
            format!("mqprio num_tc {count} map {} queues {} hw 0", map.join(" "), queues.join(" "))
        }
    };
    let mut commands = format!("tc qdisc replace dev va root handle 100: {root}");
    let credits = credits::told(queue);
    for (class, shaper) in classes.shapers.iter().enumerate() {
        let leaf = match shaper {
            Shaper::Cbs(_) => credits::words(&credits[class].unwrap()),
            Shaper::Etf(etf) => {
                let skip = if etf.skip_sock_check { " skip_sock_check" } else { "" };
                format!("etf clockid CLOCK_TAI delta {}{skip}", etf.delta.0)
            }
            _ if matches!(queue, Queue::Mqprio(_)) => "pfifo limit 1000".to_owned(),
            // Taprio makes its own.
            _ => continue,
        };
        write!(commands, "\ntc qdisc replace dev va parent 100:{} {leaf}", count - class).unwrap();
    }
    let software = matches!(queue, Queue::Taprio { schedule, .. } if schedule.mode == TaprioMode::Software);
    if software && classes.shapers.iter().any(|shaper| *shaper != Shaper::None) {
        // A child has stopped its timer.
        write!(commands, "\ntc qdisc replace dev va root handle 100: {root}").unwrap();
    }
    commands
}

/// A port, and what comes to it.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// What is compared.
    pub(crate) name: String,
    pub(crate) queue: Queue,
    pub(crate) frames: Vec<Frame>,
}

/// What the kernel did with the frames of a case, in ns from its beginning on.
struct Seen {
    /// When each was given to the discipline.
    came: Vec<i64>,
    /// When its last bit was at the other end; nothing when it was lost.
    left: Vec<Option<i64>>,
}

/// Sends the frames of all cases, one after the other, in one start of the laboratory; none where it is not built.
fn observe(cases: &[Case]) -> Option<Vec<Seen>> {
    let kernel = kernel_lab::testing::kernel(&cases[0].name)?;
    let mut text = format!(
        "set -e\necho 1000 > /sys/module/veth/parameters/speed\necho {WIRE} > /sys/module/veth/parameters/wire\n\
         ip netns add far\nsysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1\n\
         ip netns exec far sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1\n"
    );
    let mut files = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let base = BASE + number as i64 * STEP;
        writeln!(text, "ip link add va numtxqueues 8 type veth peer name vb netns far").unwrap();
        writeln!(text, "ip link set va up\nip -n far link set vb up\n{}", commands(&case.queue, base)).unwrap();
        writeln!(text, "echo case {number}\npython3 ports.py arrivals{number} {base}\nip link del va").unwrap();
        let mut list = String::new();
        for Frame { at, priority, bytes, launch } in &case.frames {
            let launch = launch.map_or_else(String::new, |launch| launch.to_string());
            writeln!(list, "{at} {priority} {bytes} {launch}").unwrap();
        }
        files.push((format!("arrivals{number}"), list));
    }
    let mut script =
        Script::new(text).file("ports.py", include_str!("../lab/ports.py")).limit(Duration::from_secs(540));
    for (name, list) in files {
        script = script.file(name, list);
    }
    let ended = script.run(&kernel).unwrap();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let seen = cases.iter().zip(ended.stdout.split("case ").skip(1)).map(|(case, told)| {
        let (mut came, mut left) = (vec![None; case.frames.len()], vec![None; case.frames.len()]);
        for line in told.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let side = match words[0] {
                "in" => &mut came,
                "out" => &mut left,
                _ => continue,
            };
            side[words[1].parse::<usize>().unwrap()] = Some(words[2].parse::<i64>().unwrap());
        }
        let came = came.into_iter().map(|at| at.expect("each frame is stamped as it is queued")).collect();
        Seen { came, left }
    });
    let seen: Vec<Seen> = seen.collect();
    assert_eq!(seen.len(), cases.len());
    Some(seen)
}

/// What the model makes of the same arrivals.
fn simulate(case: &Case, seen: &Seen) -> Compared {
    let picos = |ns: i64| Picos(ns * 1000);
    let arrivals: Vec<Arrival> = (case.frames.iter().zip(&seen.came))
        .map(|(frame, at)| Arrival {
            at: picos(*at),
            priority: frame.priority,
            flow: 0,
            bytes: frame.bytes + WIRE,
            counted: frame.bytes,
            launch: frame.launch.map(picos),
        })
        .collect();
    let credits = credits::told(&case.queue);
    let through = Passed::Queue(&case.queue, &credits);
    let passage = Passage { through, rate: Rate::from_gbit(1), processor: Some(PROCESSOR) };
    Compared { fates: pass(&passage, &arrivals).unwrap() }
}

/// What the model made of the frames of a case.
pub(crate) struct Compared {
    pub(crate) fates: Vec<Fate>,
}

impl Compared {
    pub(crate) fn lost(&self, cause: Cause) -> usize {
        self.fates.iter().filter(|fate| **fate == Fate::Lost(cause)).count()
    }

    pub(crate) fn begin(&self, index: usize) -> Option<i64> {
        if let Fate::Left { begin, .. } = self.fates[index] { Some(begin.to_nanos_floor().0) } else { None }
    }
}

/// The stamp of the far end on a frame of the model's, ps.
///
/// It is that of the last bit's arrival. But a frame with a launch time of its socket keeps that beyond the wire
/// (`skb_clear_tstamp`), so Linux stamps it only where it hands it to the receiver (`packet_rcv`), in a softirq. Where the
/// interrupt that ends the frame wakes the sender, too, the sender goes first (`handle_softirqs`), and reads its clock.
fn stamped(fate: &Fate, frame: &Frame, seen: &Seen) -> Option<i64> {
    let Fate::Left { end, .. } = fate else { return None };
    let woken = |came: &&i64| Picos(**came * 1000) - PROCESSOR.reading == *end;
    let late = if frame.launch.is_some() { seen.came.iter().find(woken) } else { None };
    Some(late.map_or(end.0, |came| came * 1000))
}

/// Prints a line of the table, and what differs: the number of frames that do.
fn differing(case: &Case, seen: &Seen, made: &Compared) -> usize {
    let differs = |index: &usize| {
        stamped(&made.fates[*index], &case.frames[*index], seen) != seen.left[*index].map(|ns| ns * 1000)
    };
    let show = |index: usize| {
        let Frame { priority, bytes, launch, .. } = case.frames[index];
        let (came, fate, left) = (seen.came[index], &made.fates[index], seen.left[index]);
        println!("  {index}: {came} p{priority} {bytes} B launch {launch:?}: {fate:?}, in the kernel {left:?}");
    };
    let (count, sent) = (case.frames.len(), seen.left.iter().flatten().count());
    let differing: Vec<usize> = (0..count).filter(differs).collect();
    println!("{}: {} of {count} frames equal, {sent} of them sent", case.name, count - differing.len());
    if std::env::var_os("SHOW").is_some() {
        (0..count).for_each(show);
    } else if !differing.is_empty() {
        println!("  {:?}", case.queue);
        differing.iter().take(8).copied().for_each(show);
    }
    differing.len()
}

/// Sends the frames of all cases through the model and the laboratory, and compares arrivals at the far end; gives what the
/// model made of each case.
pub(crate) fn compare(cases: &[Case]) -> Option<Vec<Compared>> {
    let seen = observe(cases)?;
    let made: Vec<Compared> = cases.iter().zip(&seen).map(|(case, seen)| simulate(case, seen)).collect();
    let unequal: Vec<&str> = (cases.iter().zip(&seen).zip(&made))
        .filter(|((case, seen), made)| differing(case, seen, made) > 0)
        .map(|((case, _), _)| case.name.as_str())
        .collect();
    assert!(unequal.is_empty(), "{} of {} cases differ: {unequal:?}", unequal.len(), cases.len());
    Some(made)
}

/// The same for one case.
pub(crate) fn compare_one(name: &str, queue: &Queue, frames: &[Frame]) -> Option<Compared> {
    let case = Case { name: name.to_owned(), queue: queue.clone(), frames: frames.to_vec() };
    compare(&[case])?.pop()
}
