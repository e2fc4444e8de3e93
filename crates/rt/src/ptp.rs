//! The clock of a network interface (PTP hardware clock) as the source of a cycle's wake-ups.
//!
//! A NIC's clock, kept by ptp4l, can put out a periodic signal that begins at an absolute instant, and it can stamp the
//! edges of a signal that comes in. Where the output can be read back as an input, each period gives an event
//! with the instant by the NIC's own clock: a wake-up that no clock of the host has a part in, as the cycle interrupt of
//! seed 003 is. Linux hands the events out of `/dev/ptpN`:
//!
//! ```no_run
//! use downbeat_rt::ptp::{Edge, HardwareClock, PinFunction};
//! use units::{Nanos, Tai};
//!
//! let clock = HardwareClock::of_interface("enp1s0")?;
//! // On an i210: SDP0 puts out, SDP1 reads back, a wire joins the two.
//! clock.set_pin(0, PinFunction::PeriodicOutput, 0)?;
//! clock.set_pin(1, PinFunction::ExternalTimestamps, 0)?;
//! let _stamps = clock.external_timestamps(0, Edge::Rising)?;
//! let start = Tai(downbeat_rt::clock::now().0 / 1_000_000_000 * 1_000_000_000) + Nanos::from_millis(2_000);
//! let _output = clock.periodic_output(0, start, Nanos::from_micros(250))?;
//! while let Some(tick) = clock.wait(Nanos::from_millis(5_000))? {
//!     println!("{} ns TAI on channel {}", tick.at.0, tick.index);
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! What it needs: a NIC with periodic outputs and external timestamps (i210, i225 and i226: two channels of each, four
//! pins; some read an output back on the same pin, most need a wire between two), a driver that offers both
//! ([`Capabilities`]), the right to open the device, and a clock that runs on TAI (ptp4l; `phc2sys` the other way
//! round only when this host is the grandmaster). The kernel queues 128 events; who reads too late loses the oldest
//! (kernel documentation, *PTP hardware clock infrastructure*).

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use units::{Nanos, Tai};

use crate::clock::monotonic;

mod abi;
mod offset;
mod queue;

pub use offset::Ahead;
pub use queue::EventQueue;

/// What a hardware clock can do; numbers of channels and pins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Channels that stamp incoming edges.
    pub external_timestamps: u32,
    /// Channels that put out a periodic signal.
    pub periodic_outputs: u32,
    /// Pins whose function can be chosen.
    pub pins: u32,
    /// Largest change of its frequency, in parts per billion.
    pub max_adjustment_ppb: u32,
}

/// What a pin is connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinFunction {
    /// Nothing.
    None,
    /// A channel of external timestamps.
    ExternalTimestamps,
    /// A channel of periodic outputs.
    PeriodicOutput,
}

/// Which edges are stamped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// From low to high.
    Rising,
    /// From high to low.
    Falling,
    /// Either: two events a period.
    Both,
}

/// One stamped edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// When, by the hardware clock, which is TAI where ptp4l keeps it.
    pub at: Tai,
    /// On which channel of external timestamps.
    pub index: u32,
}

impl Tick {
    /// Bytes of an event as `/dev/ptpN` gives it (`struct ptp_extts_event`).
    pub const BYTES: usize = abi::EVENT_BYTES;

    /// Reads an event in the machine's own byte order; none when its instant is no instant (a billion nanoseconds or
    /// more, or beyond the year 2262).
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let (seconds, nanos, index) = abi::event(bytes);
        Some(Self { at: Tai(abi::nanos(seconds, nanos)?), index })
    }
}

/// An open hardware clock.
#[derive(Debug)]
pub struct HardwareClock {
    file: File,
    path: PathBuf,
    capabilities: Capabilities,
}

impl HardwareClock {
    /// Opens the clock of a network interface of the calling thread's namespace.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]: no such interface, or it has no hardware clock, as no virtual one has. Else as for
    /// [`Self::open`].
    pub fn of_interface(interface: &str) -> io::Result<Self> {
        Self::open(Path::new(&format!("/dev/ptp{}", clock_index(interface)?)))
    }

    /// Opens `/dev/ptpN`.
    ///
    /// # Errors
    /// There is no such device, no right to open it, or it is no PTP hardware clock; the message names the path.
    pub fn open(path: &Path) -> io::Result<Self> {
        let told = |error: io::Error| {
            let mend = match error.raw_os_error() {
                Some(libc::EACCES | libc::EPERM) => "; run as root, or let a udev rule give the device to your group",
                Some(libc::ENOTTY | libc::EINVAL) => "; this is no PTP hardware clock",
                _ => "",
            };
            io::Error::new(error.kind(), format!("hardware clock {}: {error}{mend}", path.display()))
        };
        let file = File::options().read(true).write(true).open(path).map_err(told)?;
        let mut found = abi::Capabilities::default();
        // SAFETY: the ioctl writes one such structure, and checks itself whether this file is a PTP clock.
        unsafe { abi::get_capabilities(file.as_raw_fd(), &raw mut found) }.map_err(|errno| told(errno.into()))?;
        let number = |value: i32| u32::try_from(value).unwrap_or(0);
        let capabilities = Capabilities {
            external_timestamps: number(found.external_timestamps),
            periodic_outputs: number(found.periodic_outputs),
            pins: number(found.pins),
            max_adjustment_ppb: number(found.max_adjustment),
        };
        Ok(Self { file, path: path.to_owned(), capabilities })
    }

    /// The device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it can do.
    pub const fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Connects a pin with a channel. Clocks without pins have their channels wired.
    ///
    /// # Errors
    /// There is no such pin or channel, or the pin cannot have this function.
    pub fn set_pin(&self, pin: u32, function: PinFunction, channel: u32) -> io::Result<()> {
        self.within(pin, self.capabilities.pins, "pin")?;
        let function = match function {
            PinFunction::None => abi::PIN_NONE,
            PinFunction::ExternalTimestamps => abi::PIN_EXTERNAL_TIMESTAMPS,
            PinFunction::PeriodicOutput => abi::PIN_PERIODIC_OUTPUT,
        };
        let request = abi::Pin { index: pin, function, channel, ..abi::Pin::default() };
        // SAFETY: the ioctl reads one such structure.
        let result = unsafe { abi::set_pin(self.file.as_raw_fd(), &raw const request) };
        result.map(drop).map_err(|errno| self.told(&format!("pin {pin}, function {function}"), errno))
    }

    /// What a pin is connected to: its function, and the channel of that.
    ///
    /// # Errors
    /// There is no such pin, or what it does is none of [`PinFunction`].
    pub fn pin(&self, pin: u32) -> io::Result<(PinFunction, u32)> {
        self.within(pin, self.capabilities.pins, "pin")?;
        let mut found = abi::Pin { index: pin, ..abi::Pin::default() };
        // SAFETY: the ioctl reads and writes one such structure.
        let result = unsafe { abi::get_pin(self.file.as_raw_fd(), &raw mut found) };
        result.map_err(|errno| self.told(&format!("asking what pin {pin} does"), errno))?;
        let function = match found.function {
            abi::PIN_NONE => PinFunction::None,
            abi::PIN_EXTERNAL_TIMESTAMPS => PinFunction::ExternalTimestamps,
            abi::PIN_PERIODIC_OUTPUT => PinFunction::PeriodicOutput,
            other => {
                let text = format!("hardware clock {}: pin {pin} has function {other}", self.path.display());
                return Err(io::Error::new(io::ErrorKind::Unsupported, text));
            }
        };
        Ok((function, found.channel))
    }

    /// Begins to stamp edges on a channel; ends when the guard is dropped. Take it before the output begins.
    ///
    /// # Errors
    /// There is no such channel, no pin is connected with it, or the driver cannot tell these edges apart.
    pub fn external_timestamps(&self, channel: u32, edge: Edge) -> io::Result<ExternalTimestamps<'_>> {
        self.within(channel, self.capabilities.external_timestamps, "channel of external timestamps")?;
        let edges = match edge {
            Edge::Rising => abi::RISING,
            Edge::Falling => abi::FALLING,
            Edge::Both => abi::RISING | abi::FALLING,
        };
        self.request_stamps(channel, abi::ENABLE | abi::STRICT | edges)?;
        Ok(ExternalTimestamps { clock: self, channel })
    }

    fn request_stamps(&self, index: u32, flags: u32) -> io::Result<()> {
        let request = abi::ExternalTimestamps { index, flags, reserved: [0; 2] };
        // SAFETY: the ioctl reads one such structure.
        let result = unsafe { abi::request_external_timestamps(self.file.as_raw_fd(), &raw const request) };
        result.map(drop).map_err(|errno| self.told(&format!("external timestamps on channel {index}"), errno))
    }

    /// Puts out a signal of this period on a channel, with an edge at `start` and every `period` behind it; ends when
    /// the guard is dropped.
    ///
    /// # Errors
    /// There is no such channel, no pin is connected with it, `start` is past, or the clock cannot make this period.
    pub fn periodic_output(&self, channel: u32, start: Tai, period: Nanos) -> io::Result<PeriodicOutput<'_>> {
        self.within(channel, self.capabilities.periodic_outputs, "channel of periodic outputs")?;
        if period <= Nanos::ZERO || start.0 < 0 {
            let text = format!("periodic output from {} ns TAI every {period}: both above 0 expected", start.0);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        self.request_output(channel, start.0, period.0)?;
        Ok(PeriodicOutput { clock: self, channel })
    }

    fn request_output(&self, index: u32, start_ns: i64, period_ns: i64) -> io::Result<()> {
        let request = abi::PeriodicOutput {
            start: abi::Time::from_nanos(start_ns),
            period: abi::Time::from_nanos(period_ns),
            index,
            ..abi::PeriodicOutput::default()
        };
        // SAFETY: the ioctl reads one such structure.
        let result = unsafe { abi::request_periodic_output(self.file.as_raw_fd(), &raw const request) };
        result.map(drop).map_err(|errno| self.told(&format!("periodic output on channel {index}"), errno))
    }

    /// Sleeps until the next event; none when `timeout` passes first.
    ///
    /// # Errors
    /// The device has gone, or gave something that is no event.
    pub fn wait(&self, timeout: Nanos) -> io::Result<Option<Tick>> {
        let until = monotonic() + timeout;
        loop {
            // Whole milliseconds, rounded up: never short of the timeout.
            let left = (until - monotonic()).max(Nanos::ZERO);
            let millis = PollTimeout::try_from((left.0 + 999_999) / 1_000_000).unwrap_or(PollTimeout::MAX);
            let mut files = [PollFd::new(self.file.as_fd(), PollFlags::POLLIN)];
            match poll(&mut files, millis) {
                Ok(0) if monotonic() >= until => return Ok(None),
                Ok(0) | Err(nix::errno::Errno::EINTR) => {}
                Ok(_) => return self.read().map(Some),
                Err(errno) => return Err(self.told("waiting for an event", errno)),
            }
        }
    }

    fn read(&self) -> io::Result<Tick> {
        let mut bytes = [0; Tick::BYTES];
        let told = |text: String| io::Error::other(format!("hardware clock {}: {text}", self.path.display()));
        let read = (&self.file).read(&mut bytes).map_err(|error| told(format!("reading an event: {error}")))?;
        if read != bytes.len() {
            return Err(told(format!("an event of {} bytes expected, {read} came", bytes.len())));
        }
        Tick::from_bytes(&bytes).ok_or_else(|| told("an event without a possible instant".to_owned()))
    }

    fn within(&self, index: u32, count: u32, what: &str) -> io::Result<()> {
        if index < count {
            return Ok(());
        }
        let text = format!("hardware clock {}: {what} {index} asked for, it has {count}", self.path.display());
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }

    fn told(&self, what: &str, errno: nix::errno::Errno) -> io::Error {
        let mend = match errno {
            nix::errno::Errno::EOPNOTSUPP => "; this driver does not offer it",
            nix::errno::Errno::EBUSY => "; another process uses it, or no pin is connected with it (set_pin)",
            nix::errno::Errno::EINVAL => "; no pin connected with it (set_pin), or out of the clock's range",
            _ => "",
        };
        let kind = io::Error::from(errno).kind();
        io::Error::new(kind, format!("hardware clock {}: {what}: {}{mend}", self.path.display(), errno.desc()))
    }
}

/// Edges are stamped while it lives.
#[derive(Debug)]
#[must_use = "dropping it ends the timestamps"]
pub struct ExternalTimestamps<'a> {
    clock: &'a HardwareClock,
    channel: u32,
}

impl Drop for ExternalTimestamps<'_> {
    fn drop(&mut self) {
        // Nobody to tell; the kernel ends it with the last descriptor at the latest in most drivers.
        _ = self.clock.request_stamps(self.channel, 0);
    }
}

/// The signal is put out while it lives.
#[derive(Debug)]
#[must_use = "dropping it ends the output"]
pub struct PeriodicOutput<'a> {
    clock: &'a HardwareClock,
    channel: u32,
}

impl Drop for PeriodicOutput<'_> {
    fn drop(&mut self) {
        // A period of 0 switches it off.
        _ = self.clock.request_output(self.channel, 0, 0);
    }
}

/// Which kinds of stamps an interface puts on frames, out and in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamping {
    /// By the clock of the NIC. An interface can have a clock and stamp no frames.
    pub hardware: bool,
    /// By the kernel, where the driver hands a frame over.
    pub software: bool,
}

impl Stamping {
    /// Asks the driver of an interface of the calling thread's namespace.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]: there is no such interface. Else what the kernel says.
    pub fn of_interface(interface: &str) -> io::Result<Self> {
        timestamping(interface).map(|info| Self::from_bits(info.so_timestamping))
    }

    fn from_bits(bits: u32) -> Self {
        let all = |kinds: libc::c_uint| bits & kinds == kinds;
        Self {
            hardware: all(libc::SOF_TIMESTAMPING_TX_HARDWARE
                | libc::SOF_TIMESTAMPING_RX_HARDWARE
                | libc::SOF_TIMESTAMPING_RAW_HARDWARE),
            software: all(libc::SOF_TIMESTAMPING_TX_SOFTWARE
                | libc::SOF_TIMESTAMPING_RX_SOFTWARE
                | libc::SOF_TIMESTAMPING_SOFTWARE),
        }
    }
}

/// The number N of an interface's `/dev/ptpN`.
fn clock_index(interface: &str) -> io::Result<u32> {
    u32::try_from(timestamping(interface)?.clock_index).map_err(|_| no_clock(interface))
}

fn no_clock(interface: &str) -> io::Error {
    let what = format!(
        "interface {interface}: it has no PTP hardware clock ('ethtool -T {interface}' shows it); a NIC with one is needed"
    );
    io::Error::new(io::ErrorKind::NotFound, what)
}

/// What the driver of an interface says of stamps.
fn timestamping(interface: &str) -> io::Result<abi::TimestampingInfo> {
    let told = |kind, what: String| Err(io::Error::new(kind, format!("interface {interface}: {what}")));
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut info = abi::TimestampingInfo::asking();
    let Some(mut request) = abi::InterfaceRequest::new(interface, &raw mut info) else {
        return told(io::ErrorKind::InvalidInput, "a name of 1 to 15 bytes without NUL expected".to_owned());
    };
    // SAFETY: the ioctl reads the name and writes the structure that `request` points to, which lives beyond the call.
    let result = unsafe { abi::ethtool(socket.as_raw_fd(), &raw mut request) };
    match result {
        Ok(_) => Ok(info),
        Err(nix::errno::Errno::EOPNOTSUPP) => Err(no_clock(interface)),
        Err(nix::errno::Errno::ENODEV) => told(io::ErrorKind::NotFound, "there is no such interface here".to_owned()),
        Err(errno) => told(io::Error::from(errno).kind(), format!("asking for its clock: {}", errno.desc())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(seconds: i64, nanos: u32, index: u32) -> [u8; Tick::BYTES] {
        let mut bytes = [0xA5; Tick::BYTES];
        bytes[..8].copy_from_slice(&seconds.to_ne_bytes());
        bytes[8..12].copy_from_slice(&nanos.to_ne_bytes());
        bytes[16..20].copy_from_slice(&index.to_ne_bytes());
        bytes
    }

    #[test]
    fn stamps_count_only_where_frames_are_stamped_out_and_in() {
        let told = |bits| {
            let Stamping { hardware, software } = Stamping::from_bits(bits);
            (hardware, software)
        };
        // An igb, a veth, netdevsim with a mock clock, and nothing.
        assert_eq!(told(0x5f), (true, true));
        assert_eq!(told(0x1a), (false, true));
        assert_eq!(told(0x18), (false, false));
        assert_eq!(told(0), (false, false));
        assert_eq!(Stamping::of_interface("lo").map(|stamping| stamping.hardware).ok(), Some(false));
        assert!(Stamping::of_interface("no-such-if").is_err());
    }

    #[test]
    fn events_are_read_and_impossible_ones_refused() {
        let tick = Tick::from_bytes(&event(1_700_000_000, 250_000, 1));
        assert_eq!(tick, Some(Tick { at: Tai(1_700_000_000_000_250_000), index: 1 }));
        assert_eq!(Tick::from_bytes(&event(-1, 999_999_999, 0)), Some(Tick { at: Tai(-1), index: 0 }));
        for (seconds, nanos) in [(0, 1_000_000_000), (i64::MAX, 0), (i64::MIN, 0), (9_223_372_036, 854_775_808)] {
            assert_eq!(Tick::from_bytes(&event(seconds, nanos, 0)), None, "{seconds} {nanos}");
        }
    }

    #[test]
    fn an_interface_without_a_clock_says_so() {
        let refused = |interface: &str| HardwareClock::of_interface(interface).unwrap_err();
        let error = refused("lo");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().starts_with("interface lo: it has no PTP hardware clock"), "{error}");
        let error = refused("no-such-port");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("no such interface"), "{error}");
        for name in ["", "a-name-that-is-too-long", "nul\0"] {
            assert!(refused(name).to_string().contains("1 to 15 bytes"));
        }
    }

    #[test]
    fn a_file_that_is_no_clock_says_so() {
        let error = HardwareClock::open(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(error.contains("/dev/null") && error.contains("no PTP hardware clock"), "{error}");
        let error = HardwareClock::open(Path::new("/dev/ptp987654")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    /// Stands in for a clock: a pipe that gives what a device would give.
    fn clock_that_gives(bytes: &[u8]) -> HardwareClock {
        let (read, write) = nix::unistd::pipe().unwrap();
        assert_eq!(nix::unistd::write(&write, bytes), Ok(bytes.len()));
        let capabilities = Capabilities { external_timestamps: 1, ..Capabilities::default() };
        // The writing end stays open: a device does not end either.
        std::mem::forget(write);
        HardwareClock { file: File::from(read), path: "/dev/ptp0".into(), capabilities }
    }

    #[test]
    fn events_come_one_by_one_until_the_timeout() {
        let clock = clock_that_gives(&[event(5, 1, 0), event(5, 250_001, 0)].concat());
        assert_eq!(clock.wait(Nanos::from_millis(10_000)).unwrap().unwrap().at, Tai(5_000_000_001));
        assert_eq!(clock.wait(Nanos::from_millis(10_000)).unwrap().unwrap().at, Tai(5_000_250_001));
        let began = monotonic();
        assert_eq!(clock.wait(Nanos(1_500_000)).unwrap(), None);
        assert!(monotonic() - began >= Nanos(1_500_000));
        let error = clock_that_gives(&[1; 7]).wait(Nanos::ZERO).unwrap_err();
        assert!(error.to_string().contains("32 bytes expected, 7 came"), "{error}");
        assert!(clock_that_gives(&event(0, u32::MAX, 0)).wait(Nanos::ZERO).is_err());
    }

    #[test]
    fn what_a_clock_does_not_have_is_refused_before_it_is_asked() {
        let clock = clock_that_gives(&[]);
        let output = clock.periodic_output(0, Tai(1), Nanos(1)).unwrap_err().to_string();
        assert!(output.contains("channel of periodic outputs 0 asked for, it has 0"), "{output}");
        assert!(clock.set_pin(0, PinFunction::None, 0).unwrap_err().to_string().contains("pin 0"));
        let stamps = clock.external_timestamps(0, Edge::Both).unwrap_err().to_string();
        assert!(stamps.contains("external timestamps on channel 0"), "a pipe is no clock: {stamps}");
    }
}
