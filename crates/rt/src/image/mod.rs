//! The process image: the variables of a cycle, shared by the engine and an application in another thread or process.
//!
//! All variables of a direction change together: a reader gets the newest whole set or, when nothing is new, the one it
//! had. Neither side ever waits for the other or hinders it, whatever that one does: stall, crash, be killed. *Inputs*
//! go from the engine to the application, *outputs* from the application to the engine; each direction has a triple
//! buffer ([`triple`]) in a sealed memory file, whose form is in `docs/process-image.md` and may be used from any
//! language (`examples/application/` has C and Python).
//!
//! The engine creates the image, and owns it: when it ends, the image is over. Applications come and go; one that was
//! killed leaves its end to the next.
//!
//! ```
//! use downbeat_rt::image::{Image, ImageSpec, Presence};
//! use units::Tai;
//!
//! const UINT64: u8 = 9;
//! let spec = ImageSpec::new().input("received", UINT64, 8)?.output("answer", UINT64, 8)?;
//! let image = Image::create("loop", &spec)?;
//! let path = std::env::temp_dir().join(format!("downbeat-image-doc-{}", std::process::id()));
//! let link = image.link_at(&path)?;
//!
//! // The application, as a rule in another process:
//! let theirs = Image::attach(&path)?;
//! let (mut inputs, mut outputs) = (theirs.input_reader()?, theirs.output_writer()?);
//!
//! image.input_writer()?.write(0, Tai(0), |bytes| bytes.copy_from_slice(&7_u64.to_le_bytes()));
//! let received = inputs.read().unwrap();
//! outputs.write(received.cycle, received.at, |bytes| bytes.copy_from_slice(received.bytes));
//! assert_eq!(image.output_reader()?.read().unwrap().bytes, 7_u64.to_le_bytes());
//! assert!(matches!(image.application(), Presence::Alive { .. }));
//! # drop(link);
//! # Ok::<(), std::io::Error>(())
//! ```

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::memory::{SharedMemory, invalid};

mod claim;
mod ends;
mod futex;
mod layout;
mod spec;
pub mod triple;

pub use claim::Presence;
pub use ends::{Reader, Snapshot, Waited, Writer};
pub use spec::{Direction, Field, ImageSpec, MAX_DATA_BYTES, MAX_FIELDS, MAX_NAME_BYTES};

use ends::{Held, notify, word};
use layout::{AT_APPLICATION_HEARTBEAT, AT_ENGINE, AT_ENGINE_HEARTBEAT, AT_LIFE, Layout, WORD_BYTES};
use triple::Seat;

/// What the engine says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Not cyclic yet.
    Starting,
    /// In its cycle.
    Running,
    /// Applications shall end: the engine has ended or is about to.
    Stopped,
}

/// The mapped memory of one image.
#[derive(Debug)]
pub(crate) struct Memory {
    file: SharedMemory,
    layout: Layout,
    /// Whether this process made it.
    engine: bool,
}

impl Memory {
    fn life(&self) -> Life {
        match self.file.halves()[AT_LIFE / size_of::<u32>()].load(Ordering::Acquire) {
            0 => Life::Starting,
            1 => Life::Running,
            // Whatever this is, going on would be wrong.
            _ => Life::Stopped,
        }
    }

    fn set_life(&self, life: Life) {
        self.file.halves()[AT_LIFE / size_of::<u32>()].store(life as u32, Ordering::Release);
        self.layout.places.iter().for_each(|place| notify(self, place));
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.engine {
            self.set_life(Life::Stopped);
        }
    }
}

/// A process image, as one process sees it. Clones share the memory.
#[derive(Debug, Clone)]
pub struct Image(Arc<Memory>);

impl Image {
    /// Makes an image, as its engine; all pages are there when it returns. `name` is for people (`/proc/PID/maps` shows
    /// it). When the last clone, reader and writer of this process is gone, the image says stop.
    ///
    /// # Errors
    /// A name with a NUL byte or of more than 200 bytes, no memory, no `/proc`, or a machine that counts its bytes from
    /// the big end.
    pub fn create(name: &str, spec: &ImageSpec) -> io::Result<Self> {
        little_endian()?;
        let layout = Layout::of(spec);
        let own = claim::own()?;
        let file = SharedMemory::create(name, layout.file_bytes)?;
        layout.write(&file);
        file.words()[AT_ENGINE / WORD_BYTES].store(own, Ordering::Relaxed);
        let memory = Memory { file, layout, engine: true };
        memory.layout.places.iter().for_each(|place| triple::reset(word(&memory, place)));
        Layout::finish(&memory.file);
        Ok(Self(Arc::new(memory)))
    }

    /// Opens the image behind a path that [`Self::link_at`] has made, or behind `/proc/PID/fd/N`, as an application.
    ///
    /// # Errors
    /// There is no such file or no right to open it, which takes the engine's user or root; it is no image, of another
    /// version, or inconsistent in itself. The message names the path.
    pub fn attach(path: &Path) -> io::Result<Self> {
        let told = |error: io::Error| {
            let mend = match error.kind() {
                io::ErrorKind::NotFound => "; does the engine run?",
                io::ErrorKind::PermissionDenied => "; run as the engine's user or as root",
                _ => "",
            };
            io::Error::new(error.kind(), format!("process image {}: {error}{mend}", path.display()))
        };
        let file = fs::File::options().read(true).write(true).open(path).map_err(told)?;
        Self::attach_fd(file.into()).map_err(told)
    }

    /// Opens the image behind a descriptor, as an application.
    ///
    /// # Errors
    /// As for [`Self::attach`].
    pub fn attach_fd(fd: OwnedFd) -> io::Result<Self> {
        little_endian()?;
        let file = SharedMemory::open(fd, "a process image", Layout::size_allowed)?;
        let layout = Layout::read(&file)?;
        Ok(Self(Arc::new(Memory { file, layout, engine: false })))
    }

    /// Makes `path` lead to this image for as long as the [`Link`] lives: a symbolic link to `/proc/PID/fd/N`. A link
    /// that a dead engine has left there is replaced.
    ///
    /// # Errors
    /// There is something else at `path`, or another engine's image that lives; or the folder does not let us write.
    pub fn link_at(&self, path: &Path) -> io::Result<Link> {
        let target = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.as_fd().as_raw_fd()));
        let told =
            |error: io::Error| io::Error::new(error.kind(), format!("process image at {}: {error}", path.display()));
        if let Ok(found) = fs::symlink_metadata(path) {
            let ours = found.is_symlink() && fs::read_link(path).is_ok_and(|to| to.starts_with("/proc"));
            if !ours {
                return Err(told(io::Error::new(io::ErrorKind::AlreadyExists, "another file is there; remove it")));
            }
            if let Ok(Presence::Alive { pid }) = Self::attach(path).map(|image| image.engine()) {
                let text = format!("it is the image of process {pid}; end that one or take another path");
                return Err(told(io::Error::new(io::ErrorKind::ResourceBusy, text)));
            }
            fs::remove_file(path).map_err(told)?;
        }
        std::os::unix::fs::symlink(&target, path).map_err(told)?;
        Ok(Link { path: path.to_owned(), target, _memory: Arc::clone(&self.0) })
    }

    /// The variables.
    pub fn spec(&self) -> &ImageSpec {
        &self.0.layout.spec
    }

    /// The engine's end of the inputs.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`]: it is held already. [`io::ErrorKind::PermissionDenied`]: this process attached
    /// to the image, it did not make it.
    pub fn input_writer(&self) -> io::Result<Writer> {
        let (seat, held) = self.sit(Direction::Input, true, "input writer")?;
        Ok(Writer::new(Arc::clone(&self.0), self.0.layout.places[0], seat, held))
    }

    /// The application's end of the inputs.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`]: another application, or thread, holds it and lives.
    pub fn input_reader(&self) -> io::Result<Reader> {
        let (seat, held) = self.sit(Direction::Input, false, "input reader")?;
        Ok(Reader::new(Arc::clone(&self.0), self.0.layout.places[0], seat, held))
    }

    /// The application's end of the outputs.
    ///
    /// # Errors
    /// As for [`Self::input_reader`].
    pub fn output_writer(&self) -> io::Result<Writer> {
        let (seat, held) = self.sit(Direction::Output, false, "output writer")?;
        Ok(Writer::new(Arc::clone(&self.0), self.0.layout.places[1], seat, held))
    }

    /// The engine's end of the outputs.
    ///
    /// # Errors
    /// As for [`Self::input_writer`].
    pub fn output_reader(&self) -> io::Result<Reader> {
        let (seat, held) = self.sit(Direction::Output, true, "output reader")?;
        Ok(Reader::new(Arc::clone(&self.0), self.0.layout.places[1], seat, held))
    }

    fn sit(&self, direction: Direction, engine: bool, end: &str) -> io::Result<(Seat, Held)> {
        let memory = &self.0;
        if engine && !memory.engine {
            let text = format!("the {end} of a process image belongs to the engine, which made it");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        let place = &memory.layout.places[direction as usize];
        let at = if engine { place.engine_claim } else { place.application_claim };
        let claim = claim::take(&memory.file.words()[at], end)?;
        let exchange = word(memory, place);
        let seat = if engine { Seat::of_engine(exchange) } else { Seat::succeed(exchange) };
        seat.map(|seat| (seat, Held { engine, at, claim })).ok_or_else(|| {
            claim::give_back(&memory.file.words()[at], claim);
            invalid(format!("the {end} of this process image finds no slot: a stranger has written into the image"))
        })
    }

    /// What the engine says about itself.
    pub fn life(&self) -> Life {
        self.0.life()
    }

    /// Says whether applications shall go on, and wakes those that sleep.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`]: this process is not the engine.
    pub fn set_life(&self, life: Life) -> io::Result<()> {
        if !self.0.engine {
            let text = "only the engine of a process image says whether it lives";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        self.0.set_life(life);
        Ok(())
    }

    /// Whether the engine's process is there. Reads `/proc`: not for the cyclic path.
    pub fn engine(&self) -> Presence {
        claim::presence(self.0.file.words()[AT_ENGINE / WORD_BYTES].load(Ordering::Acquire))
    }

    /// Whether an application's process is there. Where two share the ends, one that is gone is named first.
    /// Reads `/proc`: not for the cyclic path, where [`Self::application_heartbeat`] tells the same a little later.
    pub fn application(&self) -> Presence {
        let [inputs, outputs] = self
            .0
            .layout
            .places
            .map(|place| claim::presence(self.0.file.words()[place.application_claim].load(Ordering::Acquire)));
        match (inputs, outputs) {
            (Presence::Gone { .. }, _) | (_, Presence::Absent) => inputs,
            _ => outputs,
        }
    }

    /// Goes up with every read and write of the engine.
    #[inline]
    pub fn engine_heartbeat(&self) -> u64 {
        self.0.file.words()[AT_ENGINE_HEARTBEAT / WORD_BYTES].load(Ordering::Relaxed)
    }

    /// Goes up with every read and write of the application; one that stands still is stuck, gone, or has nothing to do.
    #[inline]
    pub fn application_heartbeat(&self) -> u64 {
        self.0.file.words()[AT_APPLICATION_HEARTBEAT / WORD_BYTES].load(Ordering::Relaxed)
    }
}

/// To hand the image to another process.
impl AsFd for Image {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.file.as_fd()
    }
}

fn little_endian() -> io::Result<()> {
    if cfg!(target_endian = "little") {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::Unsupported, "process images are little-endian, this machine is not"))
}

/// A path that leads to an image; removed when dropped.
#[derive(Debug)]
#[must_use = "dropping it removes the path"]
pub struct Link {
    path: PathBuf,
    target: PathBuf,
    // The descriptor that the path names stays open.
    _memory: Arc<Memory>,
}

impl Link {
    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Another engine may have replaced it.
        if fs::read_link(&self.path).is_ok_and(|target| target == self.target) {
            _ = fs::remove_file(&self.path);
        }
    }
}
