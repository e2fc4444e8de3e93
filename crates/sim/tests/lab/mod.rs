//! Ports in the kernel laboratory: arrivals in, what the kernel did with them out.

pub(crate) mod credits;

use std::fmt::Write as _;

use downbeat_sim::{Arrival, Fate, Passage, Passed, Processor};
use kernel_lab::Script;
use units::{Picos, Rate};

/// FCS, preamble and gap, which the laboratory's wire adds to a frame.
pub(crate) const WIRE: u32 = 24;

/// The laboratory's processor: reading its clock takes 10 ns, and the sender reads it for the stamp of each frame; so does a
/// system call that fails, as that of a frame which is lost as it comes.
pub(crate) const PROCESSOR: Processor = Processor { reading: Picos(10_000), failing: Picos(10_000) };

/// A port of the laboratory's.
pub(crate) fn passage(through: Passed<'_>) -> Passage<'_> {
    Passage { through, rate: Rate::from_gbit(1), processor: Some(PROCESSOR) }
}

/// The same without a line behind: frames are through at once.
pub(crate) fn lineless(through: Passed<'_>) -> Passage<'_> {
    Passage { rate: Rate(u64::MAX), ..passage(through) }
}

/// A frame to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    /// How long after the frame before, in ns.
    pub(crate) after_ns: i64,
    /// Of its socket.
    pub(crate) priority: u32,
    /// Of the socket's frame, without FCS.
    pub(crate) bytes: u32,
}

/// A port of the laboratory, the sending end of a veth of 1 Gbit/s.
#[derive(Debug, Clone)]
pub(crate) struct Port {
    /// What is compared.
    pub(crate) name: &'static str,
    /// Its transmit queues.
    pub(crate) queues: usize,
    /// Frames take their time on the line; else they are at the other end at once.
    pub(crate) wire: bool,
    /// What follows `tc qdisc replace dev va` in each command.
    pub(crate) qdiscs: Vec<String>,
    /// What comes, in this order.
    pub(crate) frames: Vec<Sent>,
}

/// What the kernel did: instants in ns, by frame.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// What the kernel's clock, from which disciplines take their time, said when these instants began.
    pub(crate) clock: i64,
    /// When it was given to the discipline.
    pub(crate) came: Vec<i64>,
    /// When its last bit was at the other end; nothing when it was lost.
    pub(crate) left: Vec<Option<i64>>,
}

/// Sends the frames of all ports, one port after the other, in one start of the laboratory; none where it is not built.
pub(crate) fn observe(test: &str, ports: &[Port]) -> Option<Vec<Seen>> {
    let kernel = kernel_lab::testing::kernel(test)?;
    let mut script = String::from(
        "set -e\necho 1000 > /sys/module/veth/parameters/speed\n\
         sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1\n",
    );
    let mut files = Vec::new();
    for (number, port) in ports.iter().enumerate() {
        let wire = if port.wire { WIRE } else { 0 };
        writeln!(script, "echo {wire} > /sys/module/veth/parameters/wire").unwrap();
        writeln!(script, "ip link add va numtxqueues {} type veth peer name vb", port.queues).unwrap();
        writeln!(script, "ip link set va up\nip link set vb up").unwrap();
        for qdisc in &port.qdiscs {
            writeln!(script, "tc qdisc replace dev va {qdisc}").unwrap();
        }
        writeln!(script, "echo port {number}\npython3 ports.py arrivals{number}\nip link del va").unwrap();
        let (mut at, mut list) = (0, String::new());
        for frame in &port.frames {
            at += frame.after_ns;
            writeln!(list, "{at} {} {}", frame.priority, frame.bytes).unwrap();
        }
        files.push((format!("arrivals{number}"), list));
    }
    let mut script = Script::new(script).file("ports.py", include_str!("ports.py"));
    for (name, list) in files {
        script = script.file(name, list);
    }
    let ended = script.run(&kernel).unwrap();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let mut all = Vec::new();
    for (port, told) in ports.iter().zip(ended.stdout.split("port ").skip(1)) {
        let (mut clock, mut came, mut left) = (0, vec![None; port.frames.len()], vec![None; port.frames.len()]);
        for line in told.lines().skip(1) {
            let words: Vec<&str> = line.split(' ').collect();
            if words[0] == "clock" {
                clock = words[2].parse().unwrap();
                continue;
            }
            let side = if words[0] == "in" { &mut came } else { &mut left };
            side[words[1].parse::<usize>().unwrap()] = Some(words[2].parse::<i64>().unwrap());
        }
        let came = came.into_iter().map(|at| at.expect("each frame is stamped as it is queued")).collect();
        all.push(Seen { clock, came, left });
    }
    assert_eq!(all.len(), ports.len());
    Some(all)
}

/// What came, for the model.
pub(crate) fn arrivals(port: &Port, seen: &Seen) -> Vec<Arrival> {
    let arrival = |(frame, came): (&Sent, &i64)| Arrival {
        at: Picos((seen.clock + came) * 1000),
        priority: (frame.priority & 15) as u8,
        // As fq_codel takes it from a priority that names a class of its own.
        flow: frame.priority & 0xffff,
        bytes: frame.bytes.max(60) + WIRE,
        counted: frame.bytes,
        launch: None,
    };
    port.frames.iter().zip(&seen.came).map(arrival).collect()
}

/// Compares the instants at which frames were through, prints a line of the table, and fails if one differs.
pub(crate) fn compare(port: &Port, seen: &Seen, fates: &[Fate]) {
    let model = fates.iter().map(|fate| if let Fate::Left { end, .. } = fate { Some(end.0) } else { None });
    let differing: Vec<_> = (model.zip(&seen.left).enumerate())
        .filter(|(_, (model, real))| *model != real.map(|ns| (seen.clock + ns) * 1000))
        .map(|(frame, (model, real))| (frame, model, *real))
        .collect();
    let (count, lost) = (fates.len(), seen.left.iter().filter(|left| left.is_none()).count());
    println!("{}: {} of {count} frames equal, {lost} of them lost", port.name, count - differing.len());
    assert!(
        differing.is_empty(),
        "{}: frame, model in ps, kernel in ns: {:?}\n{:?}",
        port.name,
        &differing[..differing.len().min(8)],
        seen.came
    );
}
