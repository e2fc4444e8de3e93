//! Where the kernel does not do what its discipline is for, or what one would think: each seen in the real one.

use downbeat_sim::{Fate, Passage, Passed, Qdisc, pass};
use scenario::{Queue, Shaper};
use units::{Nanos, Rate};

use crate::cbs::classes;
use crate::common::mqprio;
use crate::lab::credits::{told, words};
use crate::lab::{self, Port, Seen, Sent};
use crate::{PRIORITIES, mqprio_words, random};

/// Frames at these instants, of this priority and size, beside others of 1514 bytes of priority 0, always one waiting.
fn beside_a_busy_class(at: &[i64], bytes: u32, until: i64) -> Vec<Sent> {
    let mut all: Vec<(i64, u32, u32)> = at.iter().map(|at| (*at, 7, bytes)).collect();
    all.extend((0..until / 12_300).map(|n| (n * 12_300, 0, 1514)));
    all.sort_unstable();
    let mut before = 0;
    let sent = |(at, priority, bytes)| Sent { after_ns: at - std::mem::replace(&mut before, at), priority, bytes };
    all.into_iter().map(sent).collect()
}

/// How long each frame of priority 7 took, in the kernel and by the standard's credit, ns.
fn delays(port: &Port, seen: &Seen, queue: &Queue) -> Vec<(i64, i64)> {
    let arrivals = lab::arrivals(port, seen);
    let fates = pass(&Passage::new(queue, Rate::from_gbit(1)), &arrivals).unwrap();
    let mut all = Vec::new();
    for (n, frame) in port.frames.iter().enumerate().filter(|(_, frame)| frame.priority == 7) {
        let Fate::Left { end, .. } = fates[n] else { panic!("frame {n} of {} bytes did not leave", frame.bytes) };
        let real = seen.left[n].expect("it came") - seen.came[n];
        all.push((real, (end - arrivals[n].at).to_nanos_floor().0));
    }
    all
}

fn shaped(name: &'static str, mbit: f64, frames: Vec<Sent>) -> (Queue, Port) {
    let queue = classes(mbit, None);
    let credits = told(&queue);
    let qdiscs = mqprio_words(&queue, |class| credits[usize::from(class)].as_ref().map(words));
    (queue, Port { name, queues: 8, wire: true, qdiscs, frames })
}

#[test]
fn peculiarities_of_the_kernel_are_seen() {
    // 146 bytes of the line a millisecond, 1.168 Mbit/s.
    let small = shaped(
        "cbs forgets fractions of a byte",
        1.285,
        beside_a_busy_class(&(0..12).map(|n| 500_037 + n * 1_000_000).collect::<Vec<_>>(), 122, 13_500_000),
    );
    // Two at once, and each has to wait.
    let twos: Vec<i64> = (0..40).flat_map(|n| [50_000 + n * 250_617, 50_060 + n * 250_617]).collect();
    let long = shaped("cbs does not credit the first wait", 194.0, beside_a_busy_class(&twos, 1514, 10_200_000));
    let short = shaped(
        "cbs counts frames without FCS, preamble and gap",
        20.0,
        (0..40).map(|_| Sent { after_ns: 50, priority: 7, bytes: 60 }).collect(),
    );
    let leaves = mqprio(Shaper::None);
    let frames = random(1, 400, &[50, 3_000, 9_000, 20_000], &PRIORITIES, &[60, 146, 600, 1514]);
    let mut qdiscs = mqprio_words(&leaves, |_| None);
    qdiscs.truncate(1);
    let plain = Port { name: "mqprio with the leaves that it makes itself", queues: 8, wire: true, qdiscs, frames };
    let late = Port {
        name: "netem delays by steps of 64 ns",
        queues: 1,
        wire: false,
        qdiscs: vec!["root netem delay 50us".into()],
        frames: random(31, 100, &[50, 9_000], &PRIORITIES, &[60, 1514]),
    };
    let ports = [small.1, long.1, short.1, plain, late];
    let Some(seen) = lab::observe("peculiarities", &ports) else { return };

    let found = delays(&ports[0], &seen[0], &small.0);
    let (real, standard) = (found.last().unwrap().0, found.iter().map(|both| both.1).max().unwrap());
    println!("{}: the 12th of 12 frames took {real} ns; by 802.1Q none takes longer than {standard} ns", ports[0].name);
    assert!(real > 10 * standard);

    let found = delays(&ports[1], &seen[1], &long.0);
    let worst = |of: fn(&(i64, i64)) -> i64| found.iter().map(of).max().unwrap();
    let (real, standard) = (worst(|both| both.0), worst(|both| both.1));
    // One of others, one of its own at the slope, its own.
    let bound = 12_304 + 12_304 * 1_000 / 194 + 12_304;
    println!("{}: {real} ns; by 802.1Q {standard} ns, never more than {bound} ns", ports[1].name);
    assert!(standard <= bound && real > bound + 3_000);

    let found = delays(&ports[2], &seen[2], &short.0);
    let (real, standard) = *found.last().unwrap();
    println!("{}: 40 frames of 84 bytes on the line took {real} ns, by 802.1Q {standard} ns", ports[2].name);
    assert!(real * 13 < standard * 10);

    let fates = pass(&lab::passage(Passed::Queue(&leaves, &[])), &lab::arrivals(&ports[3], &seen[3])).unwrap();
    let differs = |(fate, real): (&Fate, &Option<i64>)| {
        let Fate::Left { end, .. } = fate else { panic!("nothing is lost") };
        *real != Some(end.to_nanos_floor().0 - seen[3].clock)
    };
    let differing = fates.iter().zip(&seen[3].left).filter(|pair| differs(*pair)).count();
    println!(
        "{}: {differing} of 400 frames at other instants than first come, first served in each class",
        ports[3].name
    );
    assert!(differing > 10);

    let told = Qdisc::Netem { rate: None, overhead: 0, delay: Nanos(49_984), limit: 1_000 };
    let fates = pass(&lab::lineless(Passed::Qdisc(&told)), &lab::arrivals(&ports[4], &seen[4])).unwrap();
    lab::compare(&ports[4], &seen[4], &fates);
}
