//! The watch: asks, reads logs, and ends with a result.

use std::collections::VecDeque;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use measure::{PtpEvent, PtpFile};
use units::Nanos;

use crate::children::each_line;
use crate::client::Client;
use crate::error::PtpError;
use crate::management::Id;
use crate::observer::Observer;

/// How long a running ptp4l has for its first answer.
const FIRST_ANSWER: Duration = Duration::from_secs(3);
/// From which silence on it is told.
const SILENCE: Duration = Duration::from_secs(3);
/// Lines of a program that ended that are told.
const LAST_WORDS: usize = 4;
/// What seldom changes is asked for every so many polls.
const SELDOM: u64 = 10;

/// A line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line(
    /// Its text.
    pub String,
);

/// Reads lines in a thread of their own until they end or nobody takes them.
pub fn follow(from: impl BufRead + Send + 'static, to: Sender<Line>) {
    std::thread::spawn(move || each_line(from, |line| to.send(Line(line.to_owned())).is_ok()));
}

/// What is watched, and for how long.
#[derive(Debug, Clone)]
pub struct Options {
    /// The socket of ptp4l.
    pub uds: PathBuf,
    /// domainNumber.
    pub domain: u8,
    /// From one question to the next; at most half of what lies between two sync messages, so that none is missed.
    pub poll: Nanos,
    /// For how long; for ever without.
    pub duration: Option<Nanos>,
    /// Samples to keep in files.
    pub rows: u64,
    /// Where files go.
    pub dir: PathBuf,
}

/// What is known beforehand.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Whether ptp4l was started by us: spans count from there, and it may answer later.
    pub started: bool,
    /// Whether it steers no clock.
    pub free_running: Option<bool>,
    /// The stamps it was told to use.
    pub stamps: Option<&'static str>,
    /// Whether its log is read.
    pub log: bool,
}

/// Watches until the time is over, `stop` is set, or `ended` says that a program has ended. Tells events as they happen.
/// The samples are in `options.dir` afterwards; `ptp.json` is the caller's to complete and to write.
///
/// # Errors
/// Nobody answers at a socket that was said to be there, or samples cannot be written.
pub fn watch(
    options: &Options,
    facts: &Facts,
    lines: &Receiver<Line>,
    stop: &AtomicBool,
    ended: &mut dyn FnMut() -> Option<String>,
    tell: &mut dyn FnMut(&PtpEvent),
) -> Result<PtpFile, PtpError> {
    let machine = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| PtpError::Machine(format!("{what}: {error}"))
    };
    let client = Client::new(&options.uds, options.domain).map_err(machine("a socket for questions to ptp4l"))?;
    if !facts.started {
        knock(&client, options, stop)?;
    }
    let began = Instant::now();
    let mut observer = Observer::new(options, facts);
    let mut answered = Instant::now();
    let (mut silent, mut told, mut round) = (false, 0, 0_u64);
    let mut unread = VecDeque::new();
    let why = loop {
        if stop.load(Ordering::Relaxed) {
            break "interrupted".to_owned();
        }
        if options.duration.is_some_and(|span| began.elapsed() >= wall(span)) {
            break "duration".to_owned();
        }
        lines.try_iter().for_each(|Line(text)| hear(&mut observer, &mut unread, text));
        if let Some(what) = ended() {
            // Its last words are still on their way. Whatever they are, they say why.
            std::thread::sleep(Duration::from_millis(100));
            lines.try_iter().for_each(|Line(text)| hear(&mut observer, &mut unread, text));
            observer.last_words(unread);
            break what;
        }
        let until = Instant::now() + wall(options.poll);
        let asked = questions(round).iter().try_for_each(|id| client.ask(*id));
        round += 1;
        while let Some(answer) = client.answer(until).map_err(machine("reading ptp4l's answer"))? {
            observer.answer(&answer).map_err(|error| PtpError::Machine(error.to_string()))?;
            answered = Instant::now();
        }
        let now_silent = answered.elapsed() > SILENCE;
        if now_silent != silent {
            silent = now_silent;
            observer.silence(silent, asked.err().map(|error| error.to_string()));
        }
        observer.steps();
        observer.events().get(told..).unwrap_or_default().iter().for_each(&mut *tell);
        told = observer.events().len();
    };
    observer.events().get(told..).unwrap_or_default().iter().for_each(tell);
    observer.finish(why).map_err(|error| PtpError::Machine(error.to_string()))
}

/// Gives a line to the observer; the newest that say nothing to it are kept for the case that a program ends.
fn hear(observer: &mut Observer, unread: &mut VecDeque<String>, text: String) {
    if observer.line(&text) || text.is_empty() {
        return;
    }
    if unread.len() == LAST_WORDS {
        unread.pop_front();
    }
    unread.push_back(text);
}

/// The path delay and the port come before the offset that they belong to.
fn questions(round: u64) -> Vec<Id> {
    let mut ids = Vec::with_capacity(6);
    if round.is_multiple_of(SELDOM) {
        ids.extend([Id::DefaultDataSet, Id::PortProperties, Id::ParentDataSet]);
    }
    ids.extend([Id::PortDataSet, Id::CurrentDataSet, Id::TimeStatus]);
    ids
}

fn wall(span: Nanos) -> Duration {
    Duration::from_nanos(span.0.max(0).unsigned_abs())
}

/// Waits for the first answer.
fn knock(client: &Client, options: &Options, stop: &AtomicBool) -> Result<(), PtpError> {
    let until = Instant::now() + FIRST_ANSWER;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        client.ask(Id::DefaultDataSet).map_err(|error| refused(&options.uds, &error))?;
        let next = Instant::now() + Duration::from_millis(300);
        if client.answer(next).map_err(|error| refused(&options.uds, &error))?.is_some() {
            return Ok(());
        }
    }
    Err(PtpError::Machine(format!(
        "{}: somebody listens there, but answers nothing in domain {}\n  mend: name the domain of its configuration with \
         --domain (domainNumber)",
        options.uds.display(),
        options.domain
    )))
}

fn refused(uds: &Path, error: &io::Error) -> PtpError {
    let path = uds.display();
    PtpError::Machine(match error.kind() {
        io::ErrorKind::NotFound => format!(
            "{path}: no ptp4l has a socket there\n  mend: start it (`downbeat ptp run`, systemctl start downbeat-ptp4l), or name \
             its uds_address with --uds; linuxptp is installed by apt-get install linuxptp"
        ),
        io::ErrorKind::ConnectionRefused => {
            format!("{path}: a ptp4l left its socket there and runs no more\n  mend: start it again")
        }
        io::ErrorKind::PermissionDenied => {
            format!("{path}: no right to ask there\n  mend: run as root, or ask its uds_ro_address (linuxptp 4)")
        }
        _ => format!("{path}: {error}"),
    })
}
