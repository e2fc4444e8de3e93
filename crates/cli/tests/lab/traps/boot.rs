//! One start of the laboratory for several traps: what it left, as text.

use std::collections::BTreeMap;
use std::fs;

use crate::common::lab::lab;

/// Four classes by hand: priority 3 is tc 0, 2 is tc 1, 7 is tc 2, all others are tc 3; a queue each. And gates of 250 µs:
/// 50 µs for priority 3, 50 µs for priority 2, 135 µs for the others, 15 µs shut.
pub(crate) const BY_HAND: &str = r#"
export MAP='num_tc 4 map 3 3 1 0 3 3 3 2 3 3 3 3 3 3 3 3 queues 1@0 1@1 1@2 1@3'
export SCH='sched-entry S 01 50000 sched-entry S 02 50000 sched-entry S 0c 135000 sched-entry S 00 15000'
sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
plain() { tc qdisc replace dev va root handle 100: stab overhead 24 taprio $MAP base-time 0 "$@" clockid CLOCK_TAI; sleep 0.001; }
probe() { python3 probe.py "$@"; }
apply() { # file, host
    ./downbeat apply $1.toml --host $2 > $1-applied 2> $1-told || { echo "WRONG: $1"; cat $1-applied $1-told; }
    sleep 0.001
}
off() { ./downbeat restore > restored || { echo "WRONG: restore"; cat restored; }; }
begins() { fresh; echo "== $1"; }
# The next whole 250 µs (TAI) behind so many ns from now.
soon() { echo $(( ($(date +%s%N) + 37000000000 + $1) / 250000 * 250000 )); }
"#;

/// A frame that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) priority: u16,
    pub(crate) number: u32,
    /// ns behind the start of the probe, which is a whole number of 250 µs.
    pub(crate) at: i64,
}

/// The files of a laboratory that has ended.
pub(crate) struct Booted {
    files: BTreeMap<String, String>,
    said: String,
}

impl Booted {
    /// Runs the scripts one after the other; none where the laboratory is not built.
    pub(crate) fn new(name: &str, scripts: &[&str], files: &[(&str, String)]) -> Option<Self> {
        let head = format!("{BY_HAND}\ncat > probe.py <<'END'\n{}END\n", include_str!("probe.py"));
        let started = std::time::Instant::now();
        let ended = lab(name, &format!("{head}{}", scripts.concat()), files)?;
        eprintln!("{name}: {} traps in {:.1} s", scripts.len(), started.elapsed().as_secs_f64());
        let texts = fs::read_dir(ended.folder()).expect("a folder").flatten().filter_map(|entry| {
            // Programs are longer, and no text.
            let small = entry.metadata().is_ok_and(|about| about.is_file() && about.len() < 1 << 20);
            let text = small.then(|| fs::read_to_string(entry.path()).ok()).flatten()?;
            Some((entry.file_name().into_string().ok()?, text))
        });
        let said = format!("{}\n{}", ended.stdout, ended.stderr);
        Some(Self { files: texts.collect(), said })
    }

    /// A file that a script has written, unless what it did went wrong.
    #[track_caller]
    pub(crate) fn text(&self, name: &str) -> &str {
        assert!(!self.said.contains("WRONG"), "{}", self.said);
        self.files.get(name).unwrap_or_else(|| panic!("no file {name}\n{}", self.said))
    }

    /// What a probe saw, in its order; how many frames were refused, and how many were stamped with an instant to come.
    #[track_caller]
    pub(crate) fn probe(&self, name: &str) -> (Vec<Arrival>, [i64; 2]) {
        let text = self.text(name);
        let (mut arrivals, mut counts) = (Vec::new(), [0, 0]);
        for line in text.lines() {
            let number = |word: &str| word.parse().unwrap_or_else(|_| panic!("{name}: {line}\n{}", self.said));
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["start", _] => {}
                ["refused", count] => counts[0] = number(count),
                ["future", count] => counts[1] = number(count),
                [priority, frame, at] => arrivals.push(Arrival {
                    priority: number(priority) as u16,
                    number: number(frame) as u32,
                    at: number(at),
                }),
                _ => panic!("{name}: {line}\n{}", self.said),
            }
        }
        assert!(text.starts_with("start "), "{name}: {text}\n{}", self.said);
        (arrivals, counts)
    }

    /// What arrived at a probe.
    #[track_caller]
    pub(crate) fn arrivals(&self, name: &str) -> Vec<Arrival> {
        self.probe(name).0
    }
}

/// How many of these arrived within a part of a cycle. A part that begins below 0 reaches back into the cycle before.
pub(crate) fn within(arrivals: &[Arrival], cycle: i64, part: std::ops::Range<i64>) -> usize {
    let phase = |arrival: &&Arrival| part.contains(&(part.start + (arrival.at - part.start).rem_euclid(cycle)));
    arrivals.iter().filter(phase).count()
}

/// Whether all of these arrived within so long behind some phase of a cycle.
pub(crate) fn fit(arrivals: &[Arrival], cycle: i64, length: i64) -> bool {
    arrivals.iter().any(|first| within(arrivals, cycle, first.at..first.at + length) == arrivals.len())
}

/// The arrivals of a priority.
pub(crate) fn of(arrivals: &[Arrival], priority: u16) -> Vec<Arrival> {
    arrivals.iter().filter(|arrival| arrival.priority == priority).copied().collect()
}
