//! The arguments of `cargo xtask bench`.

use units::Nanos;

use super::rounds::{Amount, BATCH};

pub(super) const HELP: &str = "\
cargo xtask bench [WHAT] [--blocks N] [--json] …

  publish      sending and receiving beside a bare socket and a hand-written loop (what is meant when nothing is said)
  wire         building and taking apart a message: hand-written, Downbeat, open62541
  loop         a frame and its answer, and the papers' cycle: hand-written, Downbeat, open62541
  latency      waking up at an instant: cyclictest beside a loop of ours
  groups       10, 100 and 1000 WriterGroups of 1 ms in one thread
  flood        strangers' frames at a running loop: `cargo xtask bench flood --help`
  soak         a long run, its memory and its losses: `cargo xtask bench soak --help`

  --blocks N   values behind each median, at least 6 for a 95 % interval (default 60 for publish, else 20)
  --frames N   publish: frames a block and row, rounded up to batches of 64 (default 1024)
  --echo, --cycle
               loop: only the one or the other
  --cycles US,…
               loop: lengths of the cycle in microseconds (default 1000,500,250,125,62.5,31.25)
  --json       one JSON object instead of tables

Needs the right to make a network namespace (root; not for wire and latency) and the program ip; a quiet machine for figures
that mean anything. open62541 is built on first use, with cmake, Python and libclang; it is left out where they are missing.
Exit codes: 0 measured (whether or not a goal is met: the table says), 1 failed, 2 wrong arguments, 3 not on this machine.";

const MOST_BLOCKS: usize = 1_000_000;

/// Which bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Publish,
    Wire,
    Loop,
    Latency,
    Groups,
}

impl What {
    const ALL: [(&'static str, Self); 5] = [
        ("publish", Self::Publish),
        ("wire", Self::Wire),
        ("loop", Self::Loop),
        ("latency", Self::Latency),
        ("groups", Self::Groups),
    ];

    /// Whether it makes interfaces of its own.
    pub(super) fn needs_network(self) -> bool {
        !matches!(self, Self::Wire | Self::Latency)
    }
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) what: What,
    pub(super) amount: Amount,
    pub(super) json: bool,
    /// Loop: the echo is measured.
    pub(super) echo: bool,
    /// Loop: cycles of these lengths are measured.
    pub(super) cycles: Vec<Nanos>,
}

/// Reads what follows `bench`.
pub(super) fn parse(arguments: &[String]) -> Result<Options, String> {
    let first = arguments.first().and_then(|first| What::ALL.iter().find(|(name, _)| name == first));
    let what = first.map_or(What::Publish, |(_, what)| *what);
    let (mut blocks, mut frames, mut json) = (if what == What::Publish { 60 } else { 20 }, 1024, false);
    let (mut echo, mut cycle) = (false, false);
    let mut cycles = vec![1_000_000, 500_000, 250_000, 125_000, 62_500, 31_250].into_iter().map(Nanos).collect();
    let mut rest = arguments[usize::from(first.is_some())..].iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().map_or("nothing", String::as_str);
        match (argument.as_str(), what) {
            ("--json", _) => json = true,
            ("--blocks", _) => blocks = number(argument, value())?,
            ("--frames", What::Publish) => frames = number(argument, value())?,
            ("--echo", What::Loop) => echo = true,
            ("--cycle", What::Loop) => cycle = true,
            ("--all", What::Loop) => (echo, cycle) = (true, true),
            ("--cycles", What::Loop) => cycles = lengths(value())?,
            (other, _) => return Err(format!("cargo xtask bench {} has no argument \"{other}\".", what.name())),
        }
    }
    if !echo && !cycle {
        (echo, cycle) = (true, true);
    }
    if !cycle {
        cycles.clear();
    }
    let amount = Amount { blocks, batches: frames.div_ceil(BATCH as usize) };
    Ok(Options { what, amount, json, echo, cycles })
}

impl What {
    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, what)| *what == self).map_or("", |(name, _)| name)
    }
}

fn number(argument: &str, value: &str) -> Result<usize, String> {
    match value.parse() {
        Ok(value) if (1..=MOST_BLOCKS).contains(&value) => Ok(value),
        _ => Err(format!("{argument}: expected a number from 1 to {MOST_BLOCKS}, found {value}.")),
    }
}

fn lengths(value: &str) -> Result<Vec<Nanos>, String> {
    let length = |text: &str| match text.parse::<f64>() {
        Ok(us) if (10.0..=100_000.0).contains(&us) => Ok(Nanos((us * 1_000.0).round() as i64)),
        _ => Err(format!("--cycles: expected microseconds from 10 to 100000, as in 1000,62.5; found {text}.")),
    };
    value.split(',').map(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn amounts() {
        let amount = |line| parsed(line).map(|options| options.amount);
        assert_eq!(amount(""), Ok(Amount { blocks: 60, batches: 16 }));
        assert_eq!(amount("wire"), Ok(Amount { blocks: 20, batches: 16 }));
        assert_eq!(amount("publish --blocks 20 --frames 65 --json"), Ok(Amount { blocks: 20, batches: 2 }));
        assert!(parsed("--json").unwrap().json);
    }

    #[test]
    fn what_a_loop_measures() {
        let loops = |line| parsed(line).map(|options| (options.echo, options.cycles.len()));
        assert_eq!(loops("loop"), Ok((true, 6)));
        assert_eq!(loops("loop --echo"), Ok((true, 0)));
        assert_eq!(loops("loop --cycle"), Ok((false, 6)));
        assert_eq!(loops("loop --all"), Ok((true, 6)));
        assert_eq!(parsed("loop --cycle --cycles 31.25,1000").unwrap().cycles, [Nanos(31_250), Nanos(1_000_000)]);
    }

    #[test]
    fn wrong_arguments_are_named() {
        for (line, part) in [
            ("--blocks", "found nothing"),
            ("--blocks 0", "found 0"),
            ("--frames many", "found many"),
            ("subscribe", "no argument \"subscribe\""),
            ("--json publish", "no argument \"publish\""),
            ("wire --frames 3", "bench wire has no argument \"--frames\""),
            ("loop --cycles 1000,5", "found 5"),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
