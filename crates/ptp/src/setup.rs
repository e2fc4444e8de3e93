//! What a host of a scenario is to run, on this machine, as it is.

use std::path::Path;

use nix::net::if_::{if_nameindex, if_nametoindex};
use rt::ptp::Stamping;
use scenario::{ClockRole, HostId, Scenario};

use crate::error::PtpError;
use crate::rivals::{program, rival, sections};

/// Configurations for linuxptp, made fit for this machine and for being watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// Of ptp4l, as far as this machine decides it; where its socket is comes when it starts.
    pub ptp4l: String,
    /// Of phc2sys; none where the stamps are software's, and where no clock is to be steered.
    pub phc2sys: Option<String>,
    /// Whether the host gives the time.
    pub grandmaster: bool,
    /// domainNumber.
    pub domain: u8,
    /// Whether ptp4l only looks.
    pub free_running: bool,
    /// Where this differs from the scenario's plan, in words.
    pub notes: Vec<String>,
}

impl Setup {
    /// Renders the plan of a host and adapts it to this machine.
    ///
    /// # Errors
    /// The host takes no part in PTP; an interface is missing; another ptp4l has it; linuxptp or rights are missing.
    pub fn of(scenario: &Scenario, host: HostId, free_running: bool) -> Result<Self, PtpError> {
        let name = &scenario.host(host).name;
        let plan = tsn::plan(scenario, host);
        let file = |end: &str| plan.files.iter().find(|file| file.path.ends_with(end)).map(|file| file.text.clone());
        let Some(text) = file("ptp4l.conf") else {
            return Err(PtpError::Input(format!(
                "host {name} of scenario {} synchronises no clock\n  mend: [hosts.{name}] clock = \"grandmaster\" or \"slave\"",
                scenario.name
            )));
        };
        let interfaces = sections(&text);
        present(name, &interfaces)?;
        installed("ptp4l")?;
        if !nix::unistd::geteuid().is_root() {
            return Err(PtpError::Machine(
                "ptp4l needs root: it opens raw sockets and sets clocks\n  mend: sudo downbeat ptp run …".into(),
            ));
        }
        if let Some((pid, interface)) = rival(&interfaces) {
            return Err(PtpError::Machine(format!(
                "another ptp4l (process {pid}) uses {interface} already\n  mend: watch that one with `downbeat ptp watch`, or \
                 end it (systemctl stop downbeat-ptp4l)"
            )));
        }
        let mut setup = Self {
            phc2sys: file("phc2sys.conf"),
            grandmaster: scenario.host(host).clock == ClockRole::Grandmaster,
            domain: scenario.installation.ptp.domain,
            free_running,
            notes: Vec::new(),
            ptp4l: text,
        };
        if let Some(interface) = interfaces.iter().find(|interface| !stamping(interface).hardware) {
            setup.software(interface);
        }
        if setup.stamps() == "software" {
            stamped(&interfaces, stamping)?;
        }
        setup.look_only();
        if setup.phc2sys.is_some() {
            installed("phc2sys")?;
        }
        Ok(setup)
    }

    /// An interface has no clock: the kernel's stamps, and its system clock, have to do.
    fn software(&mut self, interface: &str) {
        if value(&self.ptp4l, "time_stamping") == Some("hardware") {
            self.notes.push(format!(
                "{interface} has no hardware stamps (ethtool -T {interface}): software stamps, and the system clock is kept \
                 instead of the interface's"
            ));
        }
        self.ptp4l = with(&self.ptp4l, "time_stamping", "software");
        // What 800 ns are to hardware stamps: delays of two kernels are in it.
        self.ptp4l = with(&self.ptp4l, "neighborPropDelayThresh", "20000000");
        self.phc2sys = None;
    }

    fn look_only(&mut self) {
        if self.free_running {
            self.ptp4l = with(&self.ptp4l, "free_running", "1");
            if self.phc2sys.take().is_some() {
                self.notes.push("phc2sys is not started: no clock is to be steered".into());
            }
        }
        // Each sync message in the log instead of figures over a second.
        let sync = value(&self.ptp4l, "logSyncInterval").unwrap_or("-3").to_owned();
        self.ptp4l = with(&self.ptp4l, "summary_interval", &sync);
    }

    /// The stamps that are asked for.
    pub fn stamps(&self) -> &'static str {
        if value(&self.ptp4l, "time_stamping") == Some("software") { "software" } else { "hardware" }
    }

    /// The configuration of ptp4l with its socket at `path`.
    pub(crate) fn at_socket(&self, path: &Path) -> String {
        with(&self.ptp4l, "uds_address", &path.display().to_string())
    }
}

fn present(host: &str, interfaces: &[String]) -> Result<(), PtpError> {
    let Some(missing) = interfaces.iter().find(|name| if_nametoindex(name.as_str()).is_err()) else {
        return Ok(());
    };
    let there: Vec<String> = if_nameindex()
        .map(|list| list.into_iter().map(|entry| entry.name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    let vlan = if missing.contains('.') { "; VLAN devices are made by `downbeat apply`" } else { "" };
    Err(PtpError::Machine(format!(
        "interface {missing} of host {host} is not here; there are {}{vlan}\n  mend: name it in [hosts.{host}] interface, or in \
         the link's interfaces",
        there.join(", ")
    )))
}

fn installed(name: &str) -> Result<(), PtpError> {
    match program(name) {
        Some(_) => Ok(()),
        None => Err(PtpError::Machine(format!(
            "{name} is not installed\n  mend: apt-get install linuxptp (scripts/setup.sh does it)"
        ))),
    }
}

fn stamping(interface: &str) -> Stamping {
    // An interface that says nothing of its stamps is ptp4l's to judge.
    Stamping::of_interface(interface).unwrap_or(Stamping { hardware: false, software: true })
}

/// Software stamps need a driver that tells when a frame leaves.
fn stamped(interfaces: &[String], stamping: impl Fn(&str) -> Stamping) -> Result<(), PtpError> {
    match interfaces.iter().find(|interface| !stamping(interface).software) {
        Some(interface) => Err(PtpError::Machine(format!(
            "interface {interface} stamps no frames that it sends, neither in hardware nor in its driver (ethtool -T \
             {interface}); ptp4l cannot use it\n  mend: an interface with software-transmit or hardware-transmit stamps"
        ))),
        None => Ok(()),
    }
}

/// The value of a key of [global].
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(key)).then(|| words.next()).flatten()
    })
}

/// The text with a key of [global] set, wherever it stood before.
fn with(text: &str, key: &str, value: &str) -> String {
    let mut made = String::with_capacity(text.len() + 64);
    for line in text.lines().filter(|line| line.split_whitespace().next() != Some(key)) {
        made.push_str(line);
        made.push('\n');
        if line.trim() == "[global]" {
            made.push_str(&format!("{key:24}{value}\n"));
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(slave: &str) -> Scenario {
        let text = format!(
            r#"
name = "two"
time = {{ cycle = "1ms", offset = "100us" }}
hosts = {{ pub = {{ clock = "grandmaster", interface = "lo", machine = {{ driver = "igb" }} }}, loop = {{ {slave} }} }}
links = [{{ between = ["pub", "loop"] }}]
streams = [{{ name = "s", writer = "pub", reader = "loop", variables = 3, vid = 8, pcp = 3 }}]
"#
        );
        scenario::read(&text, "two.toml").unwrap()
    }

    #[test]
    fn what_cannot_be_played_says_why() {
        let scenario = read("clock = \"slave\", interface = \"no-such-if\"");
        let error =
            |host: &str| Setup::of(&scenario, scenario.host_named(host).unwrap(), false).unwrap_err().to_string();
        let text = error("loop");
        assert!(text.contains("no-such-if") && text.contains("lo") && text.contains("mend"), "{text}");
        let scenario = scenario::read(
            "name = \"x\"\ntime = { cycle = \"1ms\", offset = \"100us\" }\nhosts = { a = {}, b = {} }\n\
             links = [{ between = [\"a\", \"b\"] }]\n\
             streams = [{ name = \"s\", writer = \"a\", reader = \"b\", variables = 3, vid = 8, pcp = 3 }]\n",
            "x.toml",
        )
        .unwrap();
        let text = Setup::of(&scenario, scenario.host_named("a").unwrap(), false).unwrap_err().to_string();
        assert!(text.contains("synchronises no clock") && text.contains("grandmaster"), "{text}");
    }

    #[test]
    fn an_interface_that_stamps_nothing_is_refused_in_words() {
        let stamping = |name: &str| Stamping { hardware: false, software: name != "sim0" };
        assert_eq!(stamped(&["eth0".into(), "eth1".into()], stamping), Ok(()));
        let text = stamped(&["eth0".into(), "sim0".into()], stamping).unwrap_err().to_string();
        assert!(text.contains("sim0") && text.contains("ethtool -T") && text.contains("mend"), "{text}");
    }

    #[test]
    fn a_host_without_a_hardware_clock_gets_software_stamps_and_says_so() {
        let scenario = read("clock = \"slave\"");
        let host = scenario.host_named("pub").unwrap();
        let plan = tsn::plan(&scenario, host);
        let text = plan.files.iter().find(|file| file.path.ends_with("ptp4l.conf")).unwrap().text.clone();
        let mut setup = Setup {
            ptp4l: text,
            phc2sys: Some(String::new()),
            grandmaster: true,
            domain: 0,
            free_running: true,
            notes: Vec::new(),
        };
        assert_eq!(setup.stamps(), "hardware");
        setup.software("lo");
        setup.look_only();
        assert_eq!((setup.stamps(), setup.phc2sys.as_deref(), setup.notes.len()), ("software", None, 1));
        for (key, expected) in
            [("free_running", "1"), ("summary_interval", "-3"), ("neighborPropDelayThresh", "20000000")]
        {
            assert_eq!(value(&setup.ptp4l, key), Some(expected), "{}", setup.ptp4l);
        }
        let at = setup.at_socket(Path::new("/run/x"));
        assert_eq!(value(&at, "uds_address"), Some("/run/x"));
        assert_eq!(at.matches("time_stamping").count(), 1);
        assert_eq!(sections(&at), ["lo"]);
    }
}
