//! The terminal: taken at the beginning of a run, given back on every way out.

use std::io::{self, IsTerminal, Stderr, stderr, stdin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};

use super::draw::{View, draw};
use super::picture::{Details, Picture};
use super::state::Shared;

/// Pictures are a tenth of a second apart.
const FRAME: Duration = Duration::from_millis(100);

/// How long to wait for a drawing thread that a stuck terminal may hold up.
const END_WITHIN: Duration = Duration::from_secs(2);

/// The thread that has the terminal, while one has it. Locked while it draws, so that nothing is drawn after the
/// terminal was given back.
static TAKEN: Mutex<Option<ThreadId>> = Mutex::new(None);

/// Whether a live view can be drawn here: on standard error, with keys from standard input.
///
/// # Errors
/// What is no terminal, in words.
pub(crate) fn can_draw() -> Result<(), &'static str> {
    if !stderr().is_terminal() {
        Err("standard error is no terminal")
    } else if !stdin().is_terminal() {
        Err("standard input, which the keys come from, is no terminal")
    } else if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
        Err("the terminal cannot place a cursor (TERM=dumb)")
    } else {
        Ok(())
    }
}

/// A live view on the terminal. Dropped, it gives the terminal back.
pub(crate) struct Screen {
    stop: Arc<AtomicBool>,
    ended: Receiver<()>,
}

impl Screen {
    /// Takes the terminal and draws until dropped.
    ///
    /// # Errors
    /// The terminal cannot be set up; it is left as it was.
    pub(crate) fn open(shared: Arc<Shared>) -> io::Result<Self> {
        give_back_on_panic();
        // A SIGQUIT from elsewhere would end the process with the terminal still taken. The run itself knows the others.
        signal_hook::flag::register(signal_hook::consts::SIGQUIT, Arc::clone(shared.end()))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, ended) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        let stopped = Arc::clone(&stop);
        thread::Builder::new().name("live view".into()).spawn(move || {
            // Dropped at the end, by a panic too.
            let _sender: mpsc::Sender<()> = sender;
            match take() {
                Ok(terminal) => {
                    _ = ready.send(Ok(()));
                    watch(terminal, &shared, &stopped);
                    give_back();
                }
                Err(error) => {
                    give_back();
                    _ = ready.send(Err(error));
                }
            }
        })?;
        is_ready.recv().unwrap_or_else(|_| Err(io::Error::other("the drawing thread ended")))?;
        Ok(Self { stop, ended })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Nothing is ever sent: this waits for the thread's end.
        _ = self.ended.recv_timeout(END_WITHIN);
    }
}

fn take() -> io::Result<Terminal<CrosstermBackend<Stderr>>> {
    *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current().id());
    terminal::enable_raw_mode()?;
    // Not every terminal has a second screen, which would be empty.
    execute!(stderr(), EnterAlternateScreen, Clear(ClearType::All), Hide)?;
    Terminal::new(CrosstermBackend::new(stderr()))
}

/// Gives the terminal back if it is taken.
fn give_back() {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if taken.take().is_some() {
        reset();
    }
}

fn reset() {
    _ = execute!(stderr(), Show, LeaveAlternateScreen);
    _ = terminal::disable_raw_mode();
}

/// Before a panic is told, the terminal is as it was: the words stay readable.
fn give_back_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // The drawing thread holds the lock itself if it panics while it draws; others wait until it has drawn.
            match TAKEN.try_lock() {
                Ok(mut taken) => {
                    if taken.take().is_some() {
                        reset();
                    }
                }
                Err(_) if thread::current().name() == Some("live view") => reset(),
                Err(_) => give_back(),
            }
            before(panic);
        }));
    });
}

/// Draws and takes keys until told to stop, or until the terminal is gone.
fn watch(mut terminal: Terminal<CrosstermBackend<Stderr>>, shared: &Shared, stop: &AtomicBool) {
    let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut view = View { chosen: 0, frozen: false, colours };
    let mut picture = Picture::of(&shared.state(), Details::Of(0));
    while !stop.load(Ordering::Relaxed) {
        let next = Instant::now() + FRAME;
        if !view.frozen {
            picture = Picture::of(&shared.state(), Details::Of(view.chosen));
        }
        if !drawn(&mut terminal, &picture, view) {
            return;
        }
        while let Some(left) = next.checked_duration_since(Instant::now()) {
            match event::poll(left) {
                Ok(false) => break,
                Ok(true) => {}
                Err(_) => return,
            }
            match event::read() {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    if pressed(key, &mut view, &mut picture, shared) {
                        break;
                    }
                }
                Ok(Event::Resize(..)) => break,
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}

/// Draws, if the terminal is still ours; tells whether it is.
fn drawn(terminal: &mut Terminal<CrosstermBackend<Stderr>>, picture: &Picture, view: View) -> bool {
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    *taken == Some(thread::current().id()) && terminal.draw(|frame| draw(frame, picture, view)).is_ok()
}

/// Takes a key; tells whether it changed what is to be seen.
fn pressed(key: KeyEvent, view: &mut View, picture: &mut Picture, shared: &Shared) -> bool {
    let last = picture.streams.len().saturating_sub(1);
    match key.code {
        KeyCode::Char('q') => shared.end().store(true, Ordering::Relaxed),
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
            shared.end().store(true, Ordering::Relaxed);
        }
        KeyCode::Char('p') => {
            view.frozen = !view.frozen;
            if view.frozen {
                *picture = Picture::of(&shared.state(), Details::All);
            }
        }
        KeyCode::Up => view.chosen = view.chosen.saturating_sub(1),
        KeyCode::Down => view.chosen = (view.chosen + 1).min(last),
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    #[ignore = "a part of the test below, which gives it a terminal of its own"]
    fn a_panic_with_the_terminal_taken() {
        let scenario = scenario::line(&scenario::LineSpec::default());
        let _screen = Screen::open(Shared::new(&scenario, Some(units::Nanos::from_millis(1)))).unwrap();
        thread::sleep(3 * FRAME);
        panic!("on purpose");
    }

    #[test]
    fn a_panic_is_told_on_the_terminal_as_it_was() {
        if !Command::new("script").arg("--version").output().is_ok_and(|output| output.status.success()) {
            assert!(std::env::var_os("DOWNBEAT_REQUIRE_ALL").is_none(), "needs script(1)");
            eprintln!("skipped: a_panic_is_told_on_the_terminal_as_it_was needs script(1)");
            return;
        }
        let test = std::env::current_exe().unwrap();
        let line = format!(
            "stty -a | cksum; {} --exact live::screen::tests::a_panic_with_the_terminal_taken --ignored --nocapture; \
             stty -a | cksum",
            test.display()
        );
        let output = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh")
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        let at = |wanted: &str| shown.rfind(wanted).unwrap_or_else(|| panic!("no {wanted:?} in {shown:?}"));
        assert!(at("\u{1b}[?1049h") < at("\u{1b}[?1049l") && at("\u{1b}[?1049l") < at("on purpose"), "{shown:?}");
        let settings = |line: Option<&str>| line.unwrap_or_default().trim().to_owned();
        assert_eq!(
            settings(shown.lines().next()),
            settings(shown.lines().next_back()),
            "the terminal is set as before"
        );
    }
}
