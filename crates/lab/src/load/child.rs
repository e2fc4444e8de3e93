//! The process of a load, from inside.

use std::io::{BufRead, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::{Profile, busy, mixed, network};

/// First line of the process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// The load is made; what differs from what the profile promises.
    Ready { notes: Vec<String> },
    /// It cannot be made.
    Failed { message: String },
}

/// Second line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Done {
    /// What was done, with its unit, and how often.
    pub(super) work: Vec<(String, u64)>,
    /// From ready to end.
    pub(super) seconds: f64,
    /// What differs from what the profile promises, known at the end only.
    pub(super) notes: Vec<String>,
}

/// The threads of a load and what they count.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) stop: Arc<AtomicBool>,
    counts: Vec<(String, Arc<AtomicU64>)>,
    threads: Vec<JoinHandle<()>>,
    pub(super) notes: Vec<String>,
}

impl Work {
    /// A counter, told at the end as `what`.
    pub(super) fn count(&mut self, what: &str) -> Arc<AtomicU64> {
        let count = Arc::new(AtomicU64::new(0));
        self.counts.push((what.into(), Arc::clone(&count)));
        count
    }

    /// Starts a thread, which is to end soon after the flag it is given is set.
    pub(super) fn spawn(&mut self, body: impl FnOnce(&AtomicBool) + Send + 'static) {
        let stop = Arc::clone(&self.stop);
        self.threads.push(thread::spawn(move || body(&stop)));
    }

    fn finish(self, began: Instant) -> Done {
        self.stop.store(true, Ordering::Relaxed);
        let seconds = began.elapsed().as_secs_f64();
        let work = self.counts.iter().map(|(what, count)| (what.clone(), count.load(Ordering::Relaxed))).collect();
        self.threads.into_iter().for_each(|thread| _ = thread.join());
        Done { work, seconds, notes: Vec::new() }
    }
}

/// Plays a load process: reads the profile from standard input, makes the load, and ends when the input ends.
///
/// Returns the exit code.
pub fn load_process() -> u8 {
    rt::process::die_with_parent();
    let mut line = String::new();
    let mut input = std::io::stdin().lock();
    let work = input
        .read_line(&mut line)
        .map_err(|error| format!("reading the profile: {error}"))
        .and_then(|_| line.trim().parse::<Profile>())
        .and_then(make);
    let work = match work {
        Ok(work) => work,
        Err(message) => {
            tell(&Answer::Failed { message });
            return 3;
        }
    };
    let began = Instant::now();
    tell(&Answer::Ready { notes: work.notes.clone() });
    // Nothing more comes: this is the end of the input, or of who wrote it.
    _ = input.read_to_end(&mut Vec::new());
    tell(&work.finish(began));
    0
}

fn make(profile: Profile) -> Result<Work, String> {
    match profile {
        Profile::Idle => Ok(Work::default()),
        Profile::Cpu => Ok(busy::compute()),
        Profile::Memory => busy::copy(),
        Profile::Network => network::exchange(),
        Profile::Mixed => mixed::serve(),
    }
}

/// A line for the parent, which may be gone.
fn tell(answer: &impl Serialize) {
    if let Ok(text) = serde_json::to_string(answer) {
        _ = writeln!(std::io::stdout(), "{text}");
    }
}
