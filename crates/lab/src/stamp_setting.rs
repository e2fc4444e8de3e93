//! What a network card stamps, changed for as long as somebody here needs it, and then set back.
//!
//! The setting is the device's, the same for all programs, and several roles may use one card. So a file notes what it was
//! and which processes need it changed; the last of them sets it back. After a crash who comes next, or
//! [`restore`](crate::restore), does that.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use link::interface::{self, StampSetting};
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::journal::{FOLDER, Process};

/// Not `.json`: those are runs.
const FILE: &str = "stamps.notes";

/// A network card's setting.
pub(crate) trait Card {
    /// Reads it; none where the driver does not tell.
    fn setting(&self) -> Result<Option<StampSetting>, String>;
    /// Sets it.
    fn set(&self, setting: StampSetting) -> Result<(), String>;
    /// Makes it stamp all frames, if it does not.
    fn stamp_all(&self) -> Result<(), String>;
}

/// That of an interface of this network namespace.
#[derive(Debug)]
pub(crate) struct Interface(String);

impl Card for Interface {
    fn setting(&self) -> Result<Option<StampSetting>, String> {
        interface::stamp_setting(&self.0).map_err(|error| error.to_string())
    }

    fn set(&self, setting: StampSetting) -> Result<(), String> {
        interface::set_stamp_setting(&self.0, setting).map_err(|error| error.to_string())
    }

    fn stamp_all(&self) -> Result<(), String> {
        interface::stamp_all(&self.0).map_err(|error| error.to_string())
    }
}

/// What is noted of a card. Settings are transmit type and receive filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    interface: String,
    /// Inode of its network namespace, where its name means it.
    namespace: u64,
    before: [i32; 2],
    /// What was made of it; none until that is done.
    ours: Option<[i32; 2]>,
    users: Vec<Process>,
}

type Notes = BTreeMap<String, Note>;

/// A card that stamps all frames. Dropped, it sets back what was before, if no other process needs it.
#[derive(Debug)]
pub(crate) struct StampsAll<C: Card> {
    card: C,
    file: PathBuf,
    key: String,
    user: Process,
}

impl StampsAll<Interface> {
    /// Makes the card of an interface stamp all frames.
    ///
    /// # Errors
    /// It does not, a right is missing, or what was set cannot be noted.
    pub(crate) fn of(name: &str) -> Result<Self, String> {
        let pid = std::process::id();
        let user = Process::of(pid).unwrap_or(Process { pid, start_time: 0 });
        Self::begin(Interface(name.into()), (name, namespace()), &Path::new(FOLDER).join(FILE), user)
    }
}

impl<C: Card> StampsAll<C> {
    fn begin(card: C, (name, namespace): (&str, u64), file: &Path, user: Process) -> Result<Self, String> {
        let key = format!("{namespace}:{name}");
        let noting = |error: io::Error| format!("noting in {} what the card stamped: {error}", file.display());
        let (mut locked, mut notes) = open(file).map_err(noting)?;
        // A driver that does not tell what is set cannot be set back: it stays as it will be.
        if let Some(found) = card.setting()? {
            let found = [found.transmit, found.receive];
            let interface = name.to_owned();
            // What a killed process has made of it is not what was before.
            let new = || Note { interface, namespace, before: found, ours: None, users: Vec::new() };
            let note = notes.entry(key.clone()).or_insert_with(new);
            note.users.retain(|user| user.is_alive());
            note.users.push(user);
            write(&mut locked, &notes).map_err(noting)?;
        }
        // From here on it is set back, also when the rest fails; the lock goes first.
        let this = Self { card, file: file.into(), key, user };
        let done = this.card.stamp_all().and_then(|()| this.card.setting());
        if let (Ok(Some(set)), Some(note)) = (&done, notes.get_mut(&this.key)) {
            note.ours = Some([set.transmit, set.receive]);
            write(&mut locked, &notes).map_err(noting)?;
        }
        drop(locked);
        done.map(|_| this)
    }
}

impl<C: Card> Drop for StampsAll<C> {
    fn drop(&mut self) {
        let Ok((mut locked, mut notes)) = open(&self.file) else { return };
        if let Some(note) = notes.get_mut(&self.key) {
            note.users.retain(|user| *user != self.user && user.is_alive());
            if note.users.is_empty() {
                // Nobody to tell: the run is over.
                _ = set_back(&self.card, note);
                notes.remove(&self.key);
            }
            _ = write(&mut locked, &notes);
        }
    }
}

/// Sets back what nobody needs any more, unless somebody has changed it since.
fn set_back(card: &impl Card, note: &Note) -> Result<bool, String> {
    let is_ours = |set: StampSetting| note.ours.is_none_or(|ours| ours == [set.transmit, set.receive]);
    if !card.setting()?.is_some_and(is_ours) {
        return Ok(false);
    }
    let [transmit, receive] = note.before;
    card.set(StampSetting { transmit, receive }).map(|()| true)
}

/// Sets back, in this network namespace, what processes that are gone have left; gives the interfaces.
pub(crate) fn restore() -> Vec<String> {
    let file = Path::new(FOLDER).join(FILE);
    if !file.exists() {
        return Vec::new();
    }
    restore_of(&file, namespace(), |name| Interface(name.into()))
}

fn restore_of<C: Card>(file: &Path, here: u64, card: impl Fn(&str) -> C) -> Vec<String> {
    let Ok((mut locked, mut notes)) = open(file) else { return Vec::new() };
    let mut back = Vec::new();
    notes.retain(|_, note| {
        note.users.retain(|user| user.is_alive());
        if note.namespace != here || !note.users.is_empty() {
            return true;
        }
        // One that is gone, or changed by somebody else, is nobody's to set back.
        if set_back(&card(&note.interface), note) == Ok(true) {
            back.push(note.interface.clone());
        }
        false
    });
    _ = write(&mut locked, &notes);
    back
}

/// The network namespace of this process.
fn namespace() -> u64 {
    fs::metadata("/proc/self/ns/net").map_or(0, |namespace| namespace.ino())
}

/// Opens the file for this process alone, and reads it.
fn open(file: &Path) -> io::Result<(Flock<File>, Notes)> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(file)?;
    let mut locked = Flock::lock(opened, FlockArg::LockExclusive).map_err(|(_, errno)| io::Error::from(errno))?;
    let mut text = String::new();
    locked.read_to_string(&mut text)?;
    // Cut short by a crash, it says nothing that could be set back.
    Ok((locked, serde_json::from_str(&text).unwrap_or_default()))
}

fn write(file: &mut File, notes: &Notes) -> io::Result<()> {
    file.rewind()?;
    file.set_len(0)?;
    file.write_all(serde_json::to_string(notes)?.as_bytes())
}

#[cfg(test)]
#[path = "stamp_setting_tests.rs"]
mod tests;
