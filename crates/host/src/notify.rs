//! Telling systemd that a service has started and is alive, sd_notify(3): datagrams to a socket that it names.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// Whoever started this process, if that is systemd and wants to be told.
#[derive(Debug)]
pub struct Notifier {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// Between two signs of life; none when nobody waits for them.
    every: Option<Duration>,
    last: Instant,
}

impl Notifier {
    /// By what systemd has put into the environment.
    pub fn from_environment() -> Self {
        let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
        let socket = std::env::var_os("NOTIFY_SOCKET");
        // Of our parent, perhaps.
        let ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        Self::new(socket.as_deref(), number("WATCHDOG_USEC").filter(|_| ours))
    }

    fn new(socket: Option<&OsStr>, watchdog_us: Option<u64>) -> Self {
        let address = socket.and_then(|name| match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest).ok(),
            _ => SocketAddr::from_pathname(name).ok(),
        });
        let to = address.and_then(|address| Some((UnixDatagram::unbound().ok()?, address)));
        // Twice in its time, as sd_watchdog_enabled(3) advises.
        Self { to, every: watchdog_us.map(|us| Duration::from_micros(us / 2)), last: Instant::now() }
    }

    /// The service has started.
    pub fn ready(&self) {
        self.tell("READY=1");
    }

    /// The service is ending.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// The service is alive; told when it is time for it.
    pub fn alive(&mut self) {
        if self.every.is_some_and(|every| self.last.elapsed() >= every) {
            self.last = Instant::now();
            self.tell("WATCHDOG=1");
        }
    }

    /// A service does not fail because nobody hears it.
    fn tell(&self, text: &str) {
        if let Some((socket, address)) = &self.to {
            _ = socket.send_to_addr(text.as_bytes(), address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 64];
        let count = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }

    #[test]
    fn systemd_is_told_by_path_and_by_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("downbeat-notify-{}", std::process::id());
        let sockets = [
            (UnixDatagram::bind(&path).unwrap(), path.into_os_string()),
            (
                UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
                format!("@{name}").into(),
            ),
        ];
        for (socket, address) in sockets {
            let mut notifier = Notifier::new(Some(&address), Some(0));
            notifier.ready();
            notifier.alive();
            notifier.stopping();
            assert_eq!([(); 3].map(|()| heard(&socket)), ["READY=1", "WATCHDOG=1", "STOPPING=1"]);
        }
    }

    #[test]
    fn without_systemd_nobody_is_told() {
        for socket in [None, Some(OsStr::new("/no/such/socket"))] {
            let mut notifier = Notifier::new(socket, None);
            notifier.ready();
            notifier.alive();
        }
    }
}
