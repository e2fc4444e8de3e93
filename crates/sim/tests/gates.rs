//! Gates, one port alone and in scenarios, by hand and against the plainest reading of the standard.

mod common;

use std::collections::VecDeque;

use downbeat_sim::{Arrival, Fate, Options, Passage, SimError, pass, simulate, trace};
use measure::EventKind;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use scenario::*;
use units::{Nanos, Picos, Rate, Tai};

const MODE: TaprioMode = TaprioMode::FullOffload;

/// Priority p is in class p modulo the number of classes; entries as gates and nanoseconds.
fn taprio(shapers: Vec<Shaper>, mode: TaprioMode, entries: &[(u8, i64)]) -> Queue {
    let count = shapers.len() as u8;
    let entry = |&(gates, interval): &(u8, i64)| GateEntry { gates, interval: Nanos(interval) };
    Queue::Taprio {
        classes: Classes { map: std::array::from_fn(|priority| priority as u8 % count), shapers },
        schedule: GateSchedule {
            base_time: Tai(0),
            cycle: Nanos(entries.iter().map(|(_, interval)| interval).sum()),
            entries: entries.iter().map(entry).collect(),
            mode,
        },
    }
}

fn frame(at_ns: i64, priority: u8, bytes: u32) -> Arrival {
    Arrival { at: Picos(at_ns * 1000), priority, flow: 0, bytes, counted: bytes - 24, launch: None }
}

/// When each begins, in nanoseconds.
fn begins(queue: &Queue, arrivals: &[Arrival]) -> Vec<Option<i64>> {
    let fates = pass(&Passage::new(queue, Rate::from_gbit(1)), arrivals).unwrap();
    let begin = |fate| if let Fate::Left { begin, .. } = fate { Some(begin.to_nanos_floor().0) } else { None };
    fates.into_iter().map(begin).collect()
}

/// The same nanosecond by nanosecond: the head of the highest class goes whose gate stays open for all of it.
fn by_the_nanosecond(queue: &Queue, arrivals: &[Arrival], until: i64) -> Vec<Option<i64>> {
    let Queue::Taprio { classes, schedule } = queue else { panic!("gates") };
    // How long each gate has been open when the next nanosecond begins, backwards from the end.
    let mut gates = Vec::new();
    while gates.len() < until as usize + 20_000 {
        for entry in &schedule.entries {
            gates.extend(std::iter::repeat_n(entry.gates, entry.interval.0 as usize));
        }
    }
    let count = classes.shapers.len();
    let mut stays = vec![[0_i64; 8]; gates.len() + 1];
    for at in (0..gates.len()).rev() {
        let next = stays[at + 1];
        for (class, stays) in stays[at].iter_mut().enumerate().take(count) {
            *stays = if gates[at] >> class & 1 == 1 { next[class] + 1 } else { 0 };
        }
    }
    let mut waiting = vec![VecDeque::new(); count];
    let (mut coming, mut free, mut found) = (0, 0, vec![None; arrivals.len()]);
    for now in 0..until {
        while arrivals.get(coming).is_some_and(|arrival| arrival.at.0 <= now * 1000) {
            waiting[usize::from(classes.map[usize::from(arrivals[coming].priority)])].push_back(coming);
            coming += 1;
        }
        if now < free {
            continue;
        }
        let span = |index: &usize| i64::from(arrivals[*index].bytes) * 8;
        let fits =
            |class: &usize| waiting[*class].front().is_some_and(|head| span(head) <= stays[now as usize][*class]);
        if let Some(class) = (0..count).rev().find(fits) {
            let head = waiting[class].pop_front().unwrap();
            found[head] = Some(now);
            free = now + span(&head);
        }
    }
    found
}

#[test]
fn gates_of_hardware_are_the_standards_nanosecond_by_nanosecond() {
    let mut sent = 0;
    for seed in 0..6 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut of = |low: i64, high: i64| low + (random.next_u64() % (high - low + 1) as u64) as i64;
        let count = of(1, 4) as usize;
        let all = (1 << count) - 1;
        let entries: Vec<(u8, i64)> = (0..of(1, 6)).map(|_| (of(0, all) as u8, of(500, 60_000))).collect();
        let queue = taprio(vec![Shaper::None; count], MODE, &entries);
        let mut at = 0;
        let arrivals: Vec<Arrival> = (0..150)
            .map(|_| {
                at += [1, 2, 900, 9_000, 20_000][of(0, 4) as usize];
                frame(at, of(0, 7) as u8, [84, 170, 624, 1538][of(0, 3) as usize])
            })
            .collect();
        let until = at + 1_500_000;
        let wanted = by_the_nanosecond(&queue, &arrivals, until);
        let found: Vec<_> = begins(&queue, &arrivals).into_iter().map(|at| at.filter(|at| *at < until)).collect();
        assert_eq!(found, wanted, "seed {seed}, {entries:?}");
        sent += found.iter().flatten().count();
    }
    println!("{sent} of 900 frames sent");
    assert!(sent > 500);
}

#[test]
fn a_frame_waits_for_a_window_that_holds_it_and_lets_a_shorter_one_by() {
    let queue = taprio(vec![Shaper::None; 2], MODE, &[(0b10, 20_000), (0b01, 10_000), (0b00, 70_000)]);
    // 12.304 µs: the last start is 7.696 µs. Of class 0 it fits nowhere.
    let arrivals = [frame(0, 1, 1538), frame(7_696, 1, 1538), frame(7_697, 1, 1538), frame(8_000, 1, 84)];
    assert_eq!(begins(&queue, &arrivals[..2]), [Some(0), Some(100_000)]);
    assert_eq!(begins(&queue, &arrivals[1..2]), [Some(7_696)]);
    assert_eq!(begins(&queue, &arrivals[2..]), [Some(100_000), Some(112_304)], "behind each other in their class");
    assert_eq!(begins(&queue, &[frame(0, 0, 1538), frame(1, 0, 84)]), [None, None]);
    assert_eq!(begins(&queue, &[frame(19_500, 1, 84), frame(19_600, 0, 84)]), [Some(100_000), Some(20_000)]);
}

#[test]
fn credit_behind_gates_of_hardware_stands_while_they_are_shut() {
    // Half of the time is class 1's: credit rises at 200 Mbit/s while it is open, for 100 Mbit/s in all.
    let cbs = Shaper::Cbs(common::cbs(100_000_000));
    let queue = taprio(vec![Shaper::None, cbs], MODE, &[(0b10, 50_000), (0b01, 50_000)]);
    // 10 µs on the line cost 8000 bits, which are 40 µs of an open gate.
    let found = begins(&queue, &[frame(0, 1, 1_250), frame(0, 1, 1_250), frame(0, 1, 1_250)]);
    // Enough at 50 µs, when the gate shuts; the third needs 50 µs more, of which 40 are left after the second.
    assert_eq!(found, [Some(0), Some(100_000), Some(200_000)]);
}

#[test]
fn a_launch_time_is_not_found_as_its_entry_begins() {
    let etf = Etf { delta: Nanos(5_000), offload: false, deadline_mode: false, skip_sock_check: true };
    let assist = TaprioMode::TxtimeAssist { txtime_delay: Nanos(50_000) };
    let queue = taprio(vec![Shaper::Etf(etf); 2], assist, &[(0b01, 80_000), (0b10, 20_000), (0b01, 150_000)]);
    let begin = |at_ns| begins(&queue, &[frame(at_ns, 1, 1_250)])[0].unwrap();
    // 50 µs later the entry is still to come, begins, has begun; a frame of 10 µs fits, ends with it, is too long.
    let found = [279_999, 280_000, 280_001, 289_999, 290_000, 290_001].map(begin);
    assert_eq!(found, [325_001, 575_001, 325_002, 335_000, 575_001, 575_001]);
    // Who comes behind it does not overtake it.
    let behind = begins(&queue, &[frame(280_000, 1, 1_250), frame(280_500, 1, 125)]);
    assert_eq!(behind, [Some(575_001), Some(585_001)]);
}

/// A writer whose class has 20 µs of the cycle of 250.
fn scenario(mode: TaprioMode, shaper: Shaper, offset_us: i64) -> Scenario {
    let queue =
        taprio(vec![Shaper::None, shaper], mode, &[(0b01, 80_000), (0b00, 20_000), (0b10, 20_000), (0b01, 130_000)]);
    let mut scenario = common::line(&[Rate::from_gbit(1)], &[], Nanos::ZERO, &queue);
    if let Queue::Taprio { schedule, .. } = &mut scenario.ports[0].queue {
        schedule.base_time = scenario.base_time;
    }
    common::stream(&mut scenario, 8).offset = Nanos::from_micros(offset_us);
    scenario
}

/// When in the cycle its frames leave, and how many do not.
fn left(scenario: &Scenario) -> (Vec<i64>, usize) {
    let (mut phases, mut lost) = (Vec::new(), 0);
    trace(scenario, &Options { cycles: 20, ..Options::default() }, &mut |event| match event.kind {
        EventKind::Left { at, .. } => phases.push((at - scenario.base_time).0 % 250_000),
        EventKind::NotSent { errno: 105, .. } => lost += 1,
        _ => {}
    })
    .unwrap();
    phases.sort_unstable();
    phases.dedup();
    (phases, lost)
}

#[test]
fn a_stream_leaves_in_its_window_whoever_keeps_it() {
    for mode in [TaprioMode::Software, MODE] {
        assert_eq!(left(&scenario(mode, Shaper::None, 110)), (vec![110_000], 0), "within");
        assert_eq!(left(&scenario(mode, Shaper::None, 60)), (vec![100_000], 0), "as it opens");
        assert_eq!(left(&scenario(mode, Shaper::None, 119)).0, [100_000], "it fits no more");
    }
    let etf = Etf { delta: Nanos(5_000), offload: false, deadline_mode: false, skip_sock_check: true };
    let assist = TaprioMode::TxtimeAssist { txtime_delay: Nanos(50_000) };
    assert_eq!(left(&scenario(assist, Shaper::Etf(etf.clone()), 110)), (vec![105_001], 0));
    let (phases, lost) = left(&scenario(assist, Shaper::Etf(etf.clone()), 60));
    assert_eq!((phases.len(), lost), (0, 20), "ENOBUFS outside of the window");
    let mut own = scenario(assist, Shaper::Etf(etf), 110);
    own.streams[0].launch = false;
    assert_eq!(left(&own).0, [95_001], "without launch times it gets that of its window");
}

#[test]
fn classes_of_a_shaper_of_linux_pass_its_gates() {
    let cbs = Cbs { idle_slope: Rate::from_mbit(100), offload: false };
    assert_eq!(left(&scenario(TaprioMode::Software, Shaper::Cbs(cbs.clone()), 60)), (vec![100_000], 0));
    let offloaded = scenario(TaprioMode::Software, Shaper::Cbs(Cbs { offload: true, ..cbs }), 60);
    let refused = simulate(&offloaded, &Options { cycles: 1, ..Options::default() });
    assert!(matches!(refused, Err(SimError::Unsupported { .. })), "{refused:?}");
}

/// Frames that never fit end no run, and cost none.
#[test]
fn a_class_that_stands_for_ever_ends() {
    for mode in [TaprioMode::Software, MODE] {
        let mut shut = scenario(mode, Shaper::None, 60);
        if let Queue::Taprio { schedule, .. } = &mut shut.ports[0].queue {
            // 146 bytes: 1.168 µs exactly, which Linux queues and never sends.
            schedule.entries[2].interval = Nanos(1_168);
            schedule.entries[3].interval = Nanos(130_000 + 20_000 - 1_168);
        }
        let outcome = simulate(&shut, &Options { cycles: 50, ..Options::default() }).unwrap();
        let received = outcome.network.delays[0].forward.count;
        assert_eq!(received, if mode == MODE { 50 } else { 0 });
    }
}
