//! The cyclic applications between the network's delays: receive windows, launch times, round trips.
//!
//! A frame that arrives until the end of a cycle's receive window is used in that cycle, otherwise in the
//! next. The answer built in cycle k launches at (k + 1)·c + o with launch time, at k·c + p without.

use num_traits::{Signed, ToPrimitive, Zero};
use scenario::{Phases, Scenario, Stream};
use units::Nanos;

use crate::Options;
use crate::exact::{Exact, micros_up, seconds, whole};
use crate::report::{Count, Direction};

/// What becomes of a frame that arrives at the very end of a receive window.
#[derive(Debug, Clone, Copy)]
enum AtTheEnd {
    Seen,
    Missed,
}

/// When a frame that has a launch time may leave the queue that it is handed to.
#[derive(Debug, Clone)]
pub(crate) enum Release {
    /// So long before the launch: an etf queue without offload does that.
    Before(Exact),
    /// At once: the launch time is a deadline.
    AtOnce,
}

/// The instants of a host within the stream's cycle, in seconds.
#[derive(Debug, Clone)]
struct Beat {
    subscribe: Exact,
    window_end: Exact,
    publish: Exact,
    /// When what is published comes to the first port, free to go: the earliest and the latest.
    leaves: [Exact; 2],
    /// Cycles between reading and publishing what was read: 1 when the publish phase comes before the application's.
    lag: i64,
}

impl Beat {
    fn new(phases: &Phases, stream: &Stream, release: &Release, late: &Exact) -> Self {
        let at = |fraction: scenario::Fraction| seconds(fraction.of(stream.cycle));
        let (subscribe, application, publish) = (at(phases.subscribe), at(phases.application), at(phases.publish));
        let end = &subscribe + at(phases.window);
        // What arrives after the application began is not seen by it.
        let window_end = if application > subscribe { end.min(application.clone()) } else { end };
        let launch = seconds(stream.cycle) + seconds(stream.offset);
        let handed_over = [publish.clone(), &publish + late];
        let leaves = match (stream.launch, release) {
            // Our own thread holds it back until then.
            (true, Release::Before(span)) if span.is_zero() => [launch.clone(), launch],
            // Linux releases a frame after that instant, on a clock of nanoseconds.
            (true, Release::Before(span)) => {
                let [early, late] = handed_over.map(|at| at.max(&launch - span));
                [early, late + seconds(Nanos(1))]
            }
            (true, Release::AtOnce) | (false, _) => handed_over,
        };
        Self { subscribe, window_end, lag: i64::from(publish < application), publish, leaves }
    }

    /// Between the earliest and the latest departure.
    fn irregularity(&self) -> Exact {
        &self.leaves[1] - &self.leaves[0]
    }
}

/// Longest and shortest delay of one direction, in seconds.
#[derive(Debug, Clone)]
pub(crate) struct Delay {
    pub(crate) worst: Exact,
    pub(crate) best: Exact,
    /// From the phases of the host that sends, whose clock and those of gates on the way are known.
    pub(crate) scheduled: Scheduled,
}

/// Delay of one direction where the instant of departure is known.
#[derive(Debug, Clone)]
pub(crate) struct Scheduled {
    /// From the latest departure to the latest arrival.
    pub(crate) latest: Exact,
    /// From the earliest departure to the earliest arrival.
    pub(crate) earliest: Exact,
    /// From departure to the start on the first line: the shortest behind the earliest, the longest behind the latest.
    pub(crate) begins: [Exact; 2],
}

/// The ends of one stream.
#[derive(Debug, Clone)]
pub(crate) struct Ends {
    cycle: Exact,
    offset: Exact,
    launch: bool,
    late: Exact,
    /// How far clocks are apart.
    clocks: Exact,
    writer: Beat,
    reader: Beat,
}

/// Round trips of one stream.
#[derive(Debug, Clone)]
pub(crate) struct Trips {
    pub(crate) wire: [Exact; 2],
    pub(crate) stack: [Exact; 2],
    pub(crate) wire_scheduled: [Exact; 2],
    pub(crate) stack_scheduled: [Exact; 2],
    pub(crate) counter: [Count; 2],
    pub(crate) words: Vec<String>,
}

impl Ends {
    /// The ends of a stream, of which the first ports release launch times so.
    pub(crate) fn new(scenario: &Scenario, stream: &Stream, options: &Options, release: &[Release; 2]) -> Self {
        let late = seconds(options.host_jitter);
        let beat = |host, release| Beat::new(&scenario.host(host).phases, stream, release, &late);
        Self {
            cycle: seconds(stream.cycle),
            offset: seconds(stream.offset),
            launch: stream.launch,
            clocks: seconds(options.clock_error),
            writer: beat(stream.writer, &release[0]),
            reader: beat(stream.reader, &release[1]),
            late,
        }
    }

    /// When a frame comes to the first port, in the cycle in which it is published: the earliest and the latest, of
    /// the writer or of the reader.
    pub(crate) fn leaves(&self, direction: Direction) -> &[Exact; 2] {
        match direction {
            Direction::Out => &self.writer.leaves,
            Direction::Back => &self.reader.leaves,
        }
    }

    pub(crate) fn cycle(&self) -> &Exact {
        &self.cycle
    }

    /// How irregularly frames may leave the writer's application, beside what ports do.
    pub(crate) fn irregularity(&self) -> Exact {
        self.writer.irregularity()
    }

    /// Longest and shortest from hand-over (T1) to the first port's queue, free to go.
    fn hand_over(&self) -> [Exact; 2] {
        let longest = &self.writer.leaves[0] - &self.writer.publish;
        let shortest = (&longest - &self.late).max(Exact::zero());
        [longest, shortest]
    }

    /// Longest wait for being read.
    fn read_wait(&self, beat: &Beat) -> Exact {
        &self.cycle - (&beat.window_end - &beat.subscribe) + &self.late
    }

    /// Longest and shortest from a frame's arrival at the reader to its answer in the port's queue.
    fn node(&self) -> [Exact; 2] {
        let best = &self.reader.leaves[0] + &self.cycle * whole(self.reader.lag) - &self.reader.window_end;
        [&best + &self.cycle + self.reader.irregularity(), best - &self.late]
    }

    fn node_words(&self) -> String {
        let [worst, best] = self.node();
        let leaves = &self.reader.leaves[0];
        let formula = match self.launch {
            true if *leaves == &self.cycle + &self.offset => "2c − window end + o".to_owned(),
            // An etf queue that releases before the launch.
            true => format!("c − window end + release at {} µs", micros_up(leaves)),
            false => "c + p − window end".to_owned(),
        };
        format!(
            "PubSub node at the reader: {formula} = {} µs worst, one cycle less = {} µs best \
             (c {}, o {}, p {}, window ends {} µs)",
            micros_up(&worst),
            micros_up(&best),
            micros_up(&self.cycle),
            micros_up(&self.offset),
            micros_up(&self.reader.publish),
            micros_up(&self.reader.window_end)
        )
    }

    /// T4 − T1 at most, whatever the reader's phase.
    pub(crate) fn one_way_stack(&self, there: &Exact) -> Exact {
        let [hand_over, _] = self.hand_over();
        hand_over + there + self.read_wait(&self.reader)
    }

    /// T4 − T1 at most, from the phases. Cycle 0 is the one in which the writer publishes.
    pub(crate) fn one_way_stack_scheduled(&self, there: &Scheduled) -> Exact {
        let arrival = &self.writer.leaves[1] + &there.latest + &self.clocks;
        self.read(&self.reader, &arrival, AtTheEnd::Missed).1 + &self.late - &self.writer.publish
    }

    /// T3 − T2 at most, from the phases.
    pub(crate) fn one_way_scheduled(&self, there: &Scheduled) -> Exact {
        self.irregularity() + &there.latest - &there.begins[0]
    }

    /// The first cycle whose receive window sees a frame that arrives at `arrival`, and when it is read: at once
    /// if reading is under way. At the very end of a window it is seen at best and missed at worst.
    fn read(&self, beat: &Beat, arrival: &Exact, end: AtTheEnd) -> (Exact, Exact) {
        let windows = (arrival - &beat.window_end) / &self.cycle;
        let window = match end {
            AtTheEnd::Seen => windows.ceil(),
            AtTheEnd::Missed => windows.floor() + whole(1),
        };
        let begin = &window * &self.cycle + &beat.subscribe;
        (window, begin.max(arrival.clone()))
    }

    /// When the answer to a frame used in cycle `used` comes to the reader's first port, punctually.
    fn answer(&self, used: &Exact) -> Exact {
        (used + whole(self.reader.lag)) * &self.cycle + &self.reader.leaves[0]
    }

    pub(crate) fn trips(&self, there: &Delay, back: &Delay) -> Trips {
        let [node, node_best] = self.node();
        let [hand_over, hand_over_best] = self.hand_over();
        let wire = [&there.worst + &node + &back.worst, &there.best + &node_best + &back.best];
        let wait = self.read_wait(&self.writer);
        let stack = [&hand_over + &wire[0] + &wait, &hand_over_best + &wire[1]];

        let [departure, latest_departure] = &self.writer.leaves;
        let (out, home) = (&there.scheduled, &back.scheduled);
        let early = &self.late + &self.clocks;
        let used = [
            self.read(&self.reader, &(latest_departure + &out.latest + &self.clocks), AtTheEnd::Missed).0,
            self.read(&self.reader, &(departure + &out.earliest - &early), AtTheEnd::Seen).0,
        ];
        // By the reader's clock an answer leaves on time; by the writer's a clock's error from it.
        let home = [
            self.answer(&used[0]) + self.reader.irregularity() + &home.latest + &self.clocks,
            self.answer(&used[1]) + &home.earliest - &self.clocks,
        ];
        let wire_scheduled = [&home[0] - departure - &out.begins[0], &home[1] - latest_departure - &out.begins[1]];
        // A late window may still see what a punctual one would not.
        let (last, read_last) = self.read(&self.writer, &home[0], AtTheEnd::Missed);
        let (first, read_first) = self.read(&self.writer, &(&home[1] - &self.late), AtTheEnd::Seen);
        let stack_scheduled = [
            read_last + &self.late - &self.writer.publish,
            read_first.max(home[1].clone()) - &self.writer.publish - &self.late,
        ];
        let counts = [last, first];
        let starts = |used: &Exact| used - (departure / &self.cycle).floor();
        let words = vec![
            self.node_words(),
            format!(
                "wire: one way + node + way back = {} + {} + {} = {} µs",
                micros_up(&there.worst),
                micros_up(&node),
                micros_up(&back.worst),
                micros_up(&wire[0])
            ),
            format!(
                "stack: hand-over to departure + wire + wait for the writer's window = {} + {} + {} = {} µs",
                micros_up(&hand_over),
                micros_up(&wire[0]),
                micros_up(&wait),
                micros_up(&stack[0])
            ),
            format!(
                "scheduled: leaves at {} µs of the cycle it is published in, arrives within {} … {} µs after that, \
                 j = {} … {} cycle starts before the window that sees it; wire {} … {} µs",
                micros_up(departure),
                micros_up(&out.earliest),
                micros_up(&out.latest),
                starts(&used[1]),
                starts(&used[0]),
                micros_up(&wire_scheduled[1]),
                micros_up(&wire_scheduled[0])
            ),
        ];
        Trips { wire, stack, wire_scheduled, stack_scheduled, counter: counts.map(|cycles| self.count(&cycles)), words }
    }

    /// Elapsed cycles to the application phase of cycle `read`.
    fn count(&self, read: &Exact) -> Count {
        let cycles = read + whole(self.writer.lag);
        let whole_cycles = if cycles.is_negative() { Some(0) } else { cycles.to_integer().to_u64() };
        match whole_cycles {
            Some(cycles) => Count::At { cycles, used: cycles.saturating_add(1) },
            None => Count::Unbounded { unbounded: "more cycles than can be counted".into() },
        }
    }
}
