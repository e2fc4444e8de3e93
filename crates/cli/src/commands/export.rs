//! `downbeat export`: a scenario in the words of other tools.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use exchange::{detd, tsd, yang};
use scenario::{HostId, HostKind, Scenario};

use crate::commands::import::{host_named, read, tell_notes, write, wrong};
use crate::commands::settings::Settings;
use crate::output::{self, Failure, MET, Outcome};

/// Arguments of `export`.
#[derive(Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  downbeat export tsd plant.toml --host pub --out flow.json   # the streams of a host, for tsnconfig of VxWorks
  downbeat export detd plant.toml --host pub                  # the requests that its talkers would send to detd
  downbeat export detd plant.toml --request request.json      # the reply to one
  downbeat export yang plant.toml --out switches/             # a file for each bridge: 802.1Q YANG modules, JSON

What the format cannot say is named on standard error. Exit codes: 0 exported, 1 the request is refused, 2 the input is
wrong. See docs/exchange.md; for Linux itself there is `downbeat render`."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    format: Format,
}

#[derive(Subcommand)]
enum Format {
    /// The TSN stream file of a host (VxWorks tsnconfig, Time Specific Departure)
    Tsd {
        /// The scenario file
        file: PathBuf,
        #[command(flatten)]
        settings: Settings,
        /// The host [default: the only one that publishes]
        #[arg(long, value_name = "NAME")]
        host: Option<String>,
        /// Write here instead of standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Talker requests of detd, or the reply to one out of the scenario's plan
    Detd {
        /// The scenario file
        file: PathBuf,
        #[command(flatten)]
        settings: Settings,
        /// The host [default: the only one that publishes, or that has the request's interface]
        #[arg(long, value_name = "NAME")]
        host: Option<String>,
        /// Answer this request instead
        #[arg(long, value_name = "FILE")]
        request: Option<PathBuf>,
        /// Write here instead of standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Instance data of IEEE 802.1Q's YANG modules for bridges, JSON (RFC 7951), for NETCONF and RESTCONF tools
    Yang {
        /// The scenario file
        file: PathBuf,
        #[command(flatten)]
        settings: Settings,
        /// The bridge [default: all, with --out; else the only one]
        #[arg(long, value_name = "NAME")]
        host: Option<String>,
        /// What the bridge calls itself [default: the name of the host]
        #[arg(long, value_name = "NAME", requires = "host")]
        bridge: Option<String>,
        /// What the bridge calls its component [default: component-1]
        #[arg(long, value_name = "NAME")]
        component: Option<String>,
        /// The MAC address of the bridge; left out without it, which is right for a bridge that is there
        #[arg(long, value_name = "MAC", requires = "host")]
        address: Option<String>,
        /// Write NAME.json for each bridge into this folder instead of standard output
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

impl Arguments {
    pub(crate) fn execute(self) -> Outcome {
        match self.format {
            Format::Tsd { file, settings, host, out } => {
                let scenario = settings.read(&file)?;
                let host = publisher(&scenario, host.as_deref())?;
                let (streams, notes) = tsd::of_host(&scenario, host).map_err(wrong)?;
                tell_notes(&notes);
                write(&streams.to_json(), out.as_deref())?;
                Ok(MET)
            }
            Format::Detd { file, settings, host, request, out } => {
                let scenario = settings.read(&file)?;
                let Some(request) = request else {
                    let (text, notes) =
                        detd::of_host(&scenario, publisher(&scenario, host.as_deref())?).map_err(wrong)?;
                    tell_notes(&notes);
                    write(&text, out.as_deref())?;
                    return Ok(MET);
                };
                let host = host.map(|name| host_named(&scenario, "--host", &name)).transpose()?;
                let (text, shown) = read(&request)?;
                let (request, mut notes) = detd::read(&text, &shown).map_err(wrong)?;
                let reply = detd::answer(&request, &scenario, host);
                notes.extend(reply.notes.iter().cloned());
                tell_notes(&notes);
                write(&reply.to_json(), out.as_deref())?;
                Ok(if reply.ok { MET } else { output::NOT_MET })
            }
            Format::Yang { file, settings, host, bridge, component, address, out } => {
                let scenario = settings.read(&file)?;
                let address = address.map(|text| mac(&text)).transpose()?;
                let bridges = bridges(&scenario, host.as_deref(), out.is_some())?;
                let called = yang::Called { bridge, component, address };
                for host in bridges {
                    let (text, notes) = yang::of_bridge(&scenario, host, &called).map_err(wrong)?;
                    let name = &scenario.host(host).name;
                    for note in &notes {
                        eprintln!("note: {name}, {note}");
                    }
                    let Some(folder) = &out else {
                        print!("{text}");
                        continue;
                    };
                    let path = folder.join(format!("{name}.json"));
                    std::fs::create_dir_all(folder).map_err(|error| {
                        Failure::input(format!(
                            "{} could not be made: {error}\n  mend: name a folder that can be written, with --out",
                            folder.display()
                        ))
                    })?;
                    write(&text, Some(&path))?;
                    println!("{name}: {}", path.display());
                }
                Ok(MET)
            }
        }
    }
}

fn mac(text: &str) -> Result<[u8; 6], Failure> {
    exchange::parse_mac(text).ok_or_else(|| {
        Failure::input(format!(
            "--address {text}: not an address of Ethernet\n  mend: six pairs of hexadecimal digits, such as 00-1B-21-AB-CD-EF"
        ))
    })
}

/// The station named, or the only one that publishes.
fn publisher(scenario: &Scenario, name: Option<&str>) -> Result<HostId, Failure> {
    if let Some(name) = name {
        return host_named(scenario, "--host", name);
    }
    let publishes = |host: &HostId| {
        scenario.streams.iter().any(|stream| stream.writer == *host || stream.echo && stream.reader == *host)
    };
    only((0..scenario.hosts.len()).map(HostId).filter(publishes).collect(), scenario, "publish", "publishes")
}

/// The bridges to be exported.
fn bridges(scenario: &Scenario, name: Option<&str>, several: bool) -> Result<Vec<HostId>, Failure> {
    if let Some(name) = name {
        return host_named(scenario, "--host", name).map(|host| vec![host]);
    }
    let bridge = |host: &HostId| matches!(scenario.host(*host).kind, HostKind::Bridge { .. });
    let bridges: Vec<HostId> = (0..scenario.hosts.len()).map(HostId).filter(bridge).collect();
    match several && !bridges.is_empty() {
        true => Ok(bridges),
        false => only(bridges, scenario, "are bridges", "is a bridge").map(|host| vec![host]),
    }
}

fn only(hosts: Vec<HostId>, scenario: &Scenario, many: &str, one: &str) -> Result<HostId, Failure> {
    match hosts.as_slice() {
        [host] => Ok(*host),
        [] => Err(Failure::input(format!("no host of {} {one}\n  mend: name another scenario", scenario.name))),
        _ => {
            let names: Vec<&str> = hosts.iter().map(|host| scenario.host(*host).name.as_str()).collect();
            let names = names.join(", ");
            Err(Failure::input(format!("several hosts {many}: {names}\n  mend: name one of them with --host")))
        }
    }
}
