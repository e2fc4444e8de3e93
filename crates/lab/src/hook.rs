//! What a run does about breaches: it stops for those whose action says so, and executes users' hooks.
//!
//! A hook is a program that the parent process starts, never the process of a host: nothing of it is in anybody's cyclic
//! loop. It hears of begin and end; one that would come sooner than a second after the one before waits, and only the
//! last of those that wait is told.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use measure::{Event, EventKind, Side};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use scenario::{Action, BreachChange, BreachPlan, Condition, Scenario, StreamEnd};

use crate::traffic::OwnGroup as _;

/// Shortest time from start to start of a hook, and longest time that it may take.
#[derive(Debug, Clone, Copy)]
struct Limits {
    apart: Duration,
    patience: Duration,
}

const LIMITS: Limits = Limits { apart: Duration::from_secs(1), patience: Duration::from_secs(10) };

/// How often a hook is looked at once the run is over.
const TURN: Duration = Duration::from_millis(20);

/// What is known of a run's breaches.
pub(crate) struct Breaches<'a> {
    scenario: &'a Scenario,
    limits: Limits,
    hooks: Vec<Hook<'a>>,
    /// The first breach that stops the run, until it has been taken.
    stop: Option<String>,
}

/// The hook of one condition at one end of a stream.
struct Hook<'a> {
    key: (u16, Side, Condition),
    plan: &'a BreachPlan,
    running: Option<(Child, Instant)>,
    started: Option<Instant>,
    /// What it has still to be told, and how many it will never be.
    waiting: Option<Occurrence>,
    left_out: u64,
    /// What went wrong, and how often.
    failures: BTreeMap<String, u64>,
}

/// A begin or end, with the names that people know it by.
#[derive(Debug, Clone)]
struct Occurrence {
    stream: String,
    host: String,
    end: &'static str,
    condition: Condition,
    change: BreachChange,
    cycle: i64,
    counter: u64,
    at_ns: i64,
}

impl<'a> Breaches<'a> {
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        Self { scenario, limits: LIMITS, hooks: Vec::new(), stop: None }
    }

    /// Takes note of an event.
    pub(crate) fn see(&mut self, event: &Event) {
        let EventKind::Breach { cycle, condition, change, counter, at } = event.kind else { return };
        let scenario = self.scenario;
        let Some(stream) = scenario.streams.get(usize::from(event.stream)) else { return };
        let (host, which, end) = match event.side {
            Side::Writer => (stream.writer, StreamEnd::Writer, "writer"),
            Side::Reader => (stream.reader, StreamEnd::Reader, "reader"),
        };
        let Some(plan) = stream.watches(scenario, condition, which) else { return };
        let (stream, host) = (stream.name.clone(), scenario.host(host).name.clone());
        if plan.rule.action == Action::Stop && change == BreachChange::Began {
            self.stop.get_or_insert_with(|| {
                format!(
                    "a breach stopped the run: {host}: stream {stream} is {} from cycle {cycle} (counter {counter})",
                    condition.key()
                )
            });
        }
        if plan.hook.is_empty() {
            return;
        }
        let key = (event.stream, event.side, condition);
        let index = self.hooks.iter().position(|hook| hook.key == key).unwrap_or_else(|| {
            self.hooks.push(Hook::new(key, plan));
            self.hooks.len() - 1
        });
        let occurrence = Occurrence { stream, host, end, condition, change, cycle, counter, at_ns: at.0 };
        if let Some(hook) = self.hooks.get_mut(index) {
            hook.left_out += u64::from(hook.waiting.replace(occurrence).is_some());
        }
    }

    /// Why the run is to stop, once.
    pub(crate) fn take_stop(&mut self) -> Option<String> {
        self.stop.take()
    }

    /// Starts hooks that are due, and ends those that take too long.
    pub(crate) fn turn(&mut self) {
        for hook in &mut self.hooks {
            hook.turn(self.scenario, self.limits);
        }
    }

    /// Tells what has not been told yet, waits for the last hooks, and says what went wrong with them.
    pub(crate) fn finish(mut self, notes: &mut Vec<String>) {
        // One that has begun a moment ago, and another that waits for it.
        let deadline = Instant::now() + self.limits.apart + 2 * self.limits.patience;
        while self.hooks.iter().any(Hook::is_busy) && Instant::now() < deadline {
            self.turn();
            thread::sleep(TURN);
        }
        for hook in &mut self.hooks {
            hook.give_up(self.limits);
            let (stream, _, condition) = hook.key;
            let stream = self.scenario.streams.get(usize::from(stream)).map_or("", |stream| &stream.name);
            notes.extend(hook.failures.iter().map(|(what, times)| {
                let times = if *times > 1 { format!(" ({times} times)") } else { String::new() };
                format!("the hook of stream {stream}, {}: {what}{times}", condition.key())
            }));
        }
    }
}

impl Drop for Breaches<'_> {
    fn drop(&mut self) {
        self.hooks.iter_mut().for_each(Hook::kill);
    }
}

impl<'a> Hook<'a> {
    fn new(key: (u16, Side, Condition), plan: &'a BreachPlan) -> Self {
        Self { key, plan, running: None, started: None, waiting: None, left_out: 0, failures: BTreeMap::new() }
    }

    fn is_busy(&self) -> bool {
        self.running.is_some() || self.waiting.is_some()
    }

    fn turn(&mut self, scenario: &Scenario, limits: Limits) {
        if let Some((child, since)) = &mut self.running {
            match child.try_wait() {
                Ok(None) if since.elapsed() >= limits.patience => self.give_up(limits),
                Ok(None) => return,
                Ok(Some(status)) => {
                    self.running = None;
                    if !status.success() {
                        self.fail(format!("{} {}", self.program(), ended(status)));
                    }
                }
                Err(error) => {
                    self.kill();
                    self.fail(format!("{}: {error}", self.program()));
                }
            }
        }
        if self.started.is_none_or(|started| started.elapsed() >= limits.apart)
            && let Some(occurrence) = self.waiting.take()
        {
            self.start(scenario, &occurrence);
        }
    }

    fn start(&mut self, scenario: &Scenario, occurrence: &Occurrence) {
        self.started = Some(Instant::now());
        let Some((program, arguments)) = self.plan.hook.split_first() else { return };
        let left_out = std::mem::take(&mut self.left_out);
        let spawned = Command::new(program)
            .args(arguments)
            .envs(occurrence.variables())
            .env("DOWNBEAT_SCENARIO", &scenario.name)
            .env("DOWNBEAT_ACTION", self.plan.rule.action.key())
            .env("DOWNBEAT_LEFT_OUT", left_out.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group_of_its_own()
            .spawn();
        match spawned {
            Ok(child) => self.running = Some((child, Instant::now())),
            Err(error) => self.fail(format!("{program} could not be started: {error}")),
        }
    }

    /// Ends it, if it still runs, and says so.
    fn give_up(&mut self, limits: Limits) {
        if self.running.is_some() {
            self.kill();
            self.fail(format!("{} took longer than {:?} and was killed", self.program(), limits.patience));
        }
    }

    /// Ends it, and what it has started in its process group.
    fn kill(&mut self) {
        if let Some((mut child, _)) = self.running.take() {
            _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
            _ = child.wait();
        }
    }

    fn program(&self) -> &str {
        self.plan.hook.first().map_or("", |program| program)
    }

    fn fail(&mut self, what: String) {
        *self.failures.entry(what).or_insert(0) += 1;
    }
}

impl Occurrence {
    fn variables(&self) -> [(&'static str, String); 8] {
        let change = if self.change == BreachChange::Began { "began" } else { "ended" };
        [
            ("DOWNBEAT_BREACH", self.condition.key().to_owned()),
            ("DOWNBEAT_CHANGE", change.to_owned()),
            ("DOWNBEAT_STREAM", self.stream.clone()),
            ("DOWNBEAT_HOST", self.host.clone()),
            ("DOWNBEAT_END", self.end.to_owned()),
            ("DOWNBEAT_CYCLE", self.cycle.to_string()),
            ("DOWNBEAT_COUNTER", self.counter.to_string()),
            ("DOWNBEAT_AT", self.at_ns.to_string()),
        ]
    }
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, signal) => format!("was ended by signal {}", signal.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use units::Tai;

    use super::*;

    const FILE: &str = r#"
name = "hooked"
hosts = { pub = {}, loop = {} }
time = { cycle = "1ms" }
links = [{ between = ["pub", "loop"] }]
[[streams]]
name = "loop"
writer = "pub"
reader = "loop"
echo = true
variables = 3
"#;

    fn scenario(on_breach: &str) -> Scenario {
        scenario::read(&format!("{FILE}on_breach = {on_breach}"), "hooked.toml").unwrap_or_else(|e| panic!("{e:?}"))
    }

    fn event(condition: Condition, change: BreachChange, cycle: i64) -> Event {
        let kind = EventKind::Breach { cycle, condition, change, counter: 7, at: Tai(1_000 + cycle) };
        Event { stream: 0, side: Side::Writer, kind }
    }

    fn finished(mut breaches: Breaches<'_>) -> Vec<String> {
        let mut notes = Vec::new();
        breaches.turn();
        breaches.finish(&mut notes);
        notes
    }

    #[test]
    fn only_a_begin_whose_action_is_stop_stops_and_once() {
        let scenario = scenario(r#"{ silent = "stop", missed = "hold" }"#);
        let mut breaches = Breaches::new(&scenario);
        breaches.see(&event(Condition::Missed, BreachChange::Began, 3));
        breaches.see(&event(Condition::Inconsistent, BreachChange::Began, 3));
        assert_eq!(breaches.take_stop(), None);
        breaches.see(&event(Condition::Silent, BreachChange::Began, 4));
        let words = breaches.take_stop().unwrap();
        assert!(words.contains("pub: stream loop is silent from cycle 4 (counter 7)"), "{words}");
        assert_eq!(breaches.take_stop(), None);
    }

    #[test]
    fn a_hook_hears_what_happened_in_its_environment_and_no_more_often_than_allowed() {
        let folder = std::env::temp_dir().join(format!("downbeat-hook-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let heard = folder.join("heard");
        let script = format!(
            "echo $DOWNBEAT_BREACH $DOWNBEAT_CHANGE $DOWNBEAT_STREAM $DOWNBEAT_HOST $DOWNBEAT_END $DOWNBEAT_CYCLE \
             $DOWNBEAT_COUNTER $DOWNBEAT_AT $DOWNBEAT_ACTION $DOWNBEAT_SCENARIO $DOWNBEAT_LEFT_OUT >> {}",
            heard.display()
        );
        let scenario =
            scenario(&format!("{{ missed = {{ action = \"hold\", hook = [\"sh\", \"-c\", '''{script}'''] }} }}"));
        let mut breaches = Breaches::new(&scenario);
        breaches.limits = Limits { apart: Duration::from_millis(300), patience: Duration::from_secs(20) };
        breaches.see(&event(Condition::Missed, BreachChange::Began, 1));
        breaches.turn();
        // All of these come too soon: the last is told when its time has come.
        for cycle in 2..6 {
            breaches.see(&event(Condition::Missed, BreachChange::Began, cycle));
            breaches.turn();
        }
        breaches.see(&event(Condition::Missed, BreachChange::Ended, 6));
        let begun = Instant::now();
        assert_eq!(finished(breaches), Vec::<String>::new());
        assert!(begun.elapsed() >= Duration::from_millis(100), "it waited");
        let text = std::fs::read_to_string(&heard).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                "missed began loop pub writer 1 7 1001 hold hooked 0",
                "missed ended loop pub writer 6 7 1006 hold hooked 4",
            ]
        );
    }

    #[test]
    fn hooks_that_fail_are_noted() {
        for (hook, note) in [
            (r#"["sh", "-c", "exit 3"]"#, "sh ended with exit code 3"),
            (r#"["/no/such/program"]"#, "/no/such/program could not be started"),
            (r#"["sh", "-c", "kill -9 $$"]"#, "sh was ended by signal 9"),
        ] {
            let scenario = scenario(&format!("{{ silent = {{ hook = {hook} }} }}"));
            let mut breaches = Breaches::new(&scenario);
            breaches.see(&event(Condition::Silent, BreachChange::Began, 1));
            let notes = finished(breaches);
            assert_eq!(notes.len(), 1, "{notes:?}");
            assert!(notes[0].contains("the hook of stream loop, silent: ") && notes[0].contains(note), "{notes:?}");
        }
    }

    #[test]
    fn a_hook_that_does_not_end_is_killed_with_all_it_started() {
        let scenario = scenario(r#"{ silent = { hook = ["sh", "-c", "sleep 1000 & sleep 1000"] } }"#);
        let mut breaches = Breaches::new(&scenario);
        breaches.limits = Limits { apart: Duration::ZERO, patience: Duration::from_millis(200) };
        breaches.see(&event(Condition::Silent, BreachChange::Began, 1));
        breaches.turn();
        let group = breaches.hooks[0].running.as_ref().unwrap().0.id() as i32;
        assert!(group_lives(group));
        let notes = finished(breaches);
        assert!(notes.iter().any(|note| note.contains("took longer than 200ms and was killed")), "{notes:?}");
        let gone = (0..200).any(|_| {
            thread::sleep(Duration::from_millis(10));
            !group_lives(group)
        });
        assert!(gone, "the process group {group} is still there");
    }

    /// Whether a process of the group runs. Those that have ended and that nobody has buried yet do not.
    fn group_lives(group: i32) -> bool {
        let stats = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            // After the name in parentheses: state, parent, process group.
            let fields: Vec<String> = stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect();
            Some((fields.first()?.clone(), fields.get(2)?.parse::<i32>().ok()?))
        });
        stats.into_iter().any(|(state, its)| its == group && state != "Z" && state != "X")
    }
}
