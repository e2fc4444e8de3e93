//! Settings of NICs: queues, rings, interrupts, energy, segmentation, preemption.

use scenario::Scenario;
use units::Nanos;

use crate::arithmetic;
use crate::drivers::Channels;
use crate::plan::{Command, Existing, Program, Setting, Step, Undo};
use crate::port::LinuxPort;
use crate::qdiscs::span;

/// The shortest frame on the line: 64 B, preamble and gap.
const SHORTEST_FRAME_BYTES: u32 = 84;
/// How long a host may sleep when nobody has measured it.
const UNMEASURED: Nanos = Nanos::from_millis(1);
/// Sizes that a receive ring is given.
const RINGS: std::ops::RangeInclusive<u64> = 256..=4096;

/// Adds the settings of a port.
pub(crate) fn steps(scenario: &Scenario, port: &LinuxPort<'_>, steps: &mut Vec<Step>) {
    if !port.driver.hardware {
        return;
    }
    let mut put = |line: String, why: Vec<String>, setting| {
        steps.push(Step {
            target: port.device.clone(),
            command: Command::new(Program::Ethtool, &line),
            why,
            undo: Undo::Former(setting),
            existing: Existing::Replaced,
        });
    };
    let device = &port.device;
    if let (Channels::Combined, Some(queues), Some(_)) = (port.driver.channels, port.queues(), port.classes()) {
        put(
            format!("-L {device} combined {queues}"),
            vec![format!("{queues} queues; {} classes need one each", port.class_count())],
            Setting::Channels,
        );
    }
    let sleep = scenario.machine(scenario.port(port.id).host).wake_up;
    let frames = u128::from(port.rate.0) * sleep.unwrap_or(UNMEASURED).0 as u128
        / (u128::from(SHORTEST_FRAME_BYTES) * 8 * 1_000_000_000);
    let ring = u64::try_from(frames).unwrap_or(u64::MAX).clamp(1, *RINGS.end()).next_power_of_two();
    let ring = ring.clamp(*RINGS.start(), *RINGS.end());
    put(
        format!("-G {device} rx {ring}"),
        vec![format!(
            "{frames} frames of {SHORTEST_FRAME_BYTES} B fit into {} of the line{}; a power of two from {} to {}",
            span(sleep.unwrap_or(UNMEASURED)),
            if sleep.is_some() { ", the host's longest wake-up" } else { "" },
            RINGS.start(),
            RINGS.end()
        )],
        Setting::Rings,
    );
    put(
        format!("-C {device} rx-usecs 0 tx-usecs 0"),
        vec!["An interrupt held back is a frame that arrives later".into()],
        Setting::Coalescing,
    );
    put(
        format!("--set-eee {device} eee off"),
        vec!["A sleeping link takes µs to wake: the first frame after a pause would be late".into()],
        Setting::Eee,
    );
    put(
        format!("-K {device} tso off gso off gro off"),
        vec!["Segments joined to 64 kB are one frame for gates and shapers, and gro holds frames back".into()],
        Setting::Features,
    );
    if port.nic.preemptable != 0 {
        let fragment = port.nic.fragment_bytes.max(64);
        let bytes = arithmetic::express_blocking_bytes(fragment);
        put(
            format!(
                "--set-mm {device} pmac-enabled on tx-enabled on verify-enabled on tx-min-frag-size {}",
                fragment - 4
            ),
            vec![
                format!(
                    "Fragments of {fragment} B with their checksum of 4 B: an express frame waits for at most {bytes} B = {}.",
                    span(arithmetic::line_time(port.rate, bytes))
                ),
                "Both ends have to say `verify-status: SUCCEEDED` in `ethtool --show-mm`.".into(),
            ],
            Setting::MacMerge,
        );
    }
}
