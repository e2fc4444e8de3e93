//! `downbeat render`: what a scenario asks of Linux, as the texts that its programs read.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use scenario::{HostId, Scenario};
use serde_json::json;
use tsn::{Form, Plan, Severity, Situation};
use units::Rate;

use crate::commands::check::tell_finding;
use crate::commands::settings::Settings;
use crate::output::{self, BAD_INPUT, Failure, MET, Outcome};

/// Arguments of `render`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  downbeat render two-hosts.toml --host pub                 # everything, with the reason for each number
  downbeat render two-hosts.toml --host pub --form tc       # for `tc -batch`
  downbeat render two-hosts.toml --out plan/                # files, a folder for each host

Nothing on this machine is changed. Exit codes: 0 rendered, 2 the file is wrong, or Linux would refuse what is rendered:
it is written all the same, and standard error says why. See docs/tsn.md.")]
pub(crate) struct Arguments {
    /// The scenario file
    file: PathBuf,
    #[command(flatten)]
    settings: Settings,
    /// The host to render for [default: all]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Which text
    #[arg(long, value_enum, default_value_t, conflicts_with_all = ["out", "json"])]
    form: Wanted,
    /// Write files into this folder instead of standard output
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the plan as JSON, form downbeat/plan/1: files, and steps with how each is undone
    #[arg(long, conflicts_with = "out")]
    json: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Wanted {
    /// All of them under headings
    #[default]
    All,
    /// For `ip -batch`
    Ip,
    /// For `bridge -batch`
    Bridge,
    /// For `tc -batch`
    Tc,
    /// Lines of `ethtool`
    Ethtool,
    /// Lines of `ovs-vsctl`
    Ovs,
    /// Lines of `dcb`
    Dcb,
    /// Lines of `systemctl`
    Systemctl,
    /// Kernel command line, processors, interrupts: what is done by hand
    Advice,
    /// Configuration of ptp4l
    Ptp4l,
    /// Configuration of phc2sys
    Phc2sys,
    /// Configuration of ts2phc
    Ts2phc,
    /// Units of systemd
    Units,
}

impl Wanted {
    /// The text of a plan; `None` when it has none of this.
    fn of(self, plan: &Plan) -> Option<String> {
        let files = |end: &str| {
            let texts = plan.files.iter().filter(|file| file.path.ends_with(end)).map(|file| file.text.as_str());
            let joined = texts.collect::<Vec<_>>().join("\n");
            (!joined.is_empty()).then_some(joined)
        };
        match self {
            Self::All => Some(plan.all()),
            Self::Ip => plan.text(Form::Ip),
            Self::Bridge => plan.text(Form::Bridge),
            Self::Tc => plan.text(Form::Tc),
            Self::Ethtool => plan.text(Form::Ethtool),
            Self::Ovs => plan.text(Form::Ovs),
            Self::Dcb => plan.text(Form::Dcb),
            Self::Systemctl => plan.text(Form::Systemctl),
            Self::Advice => plan.text(Form::Advice),
            Self::Ptp4l => files("ptp4l.conf"),
            Self::Phc2sys => files("phc2sys.conf"),
            Self::Ts2phc => files("ts2phc.conf"),
            Self::Units => files(".service"),
        }
    }
}

impl Arguments {
    pub(crate) fn execute(self) -> Outcome {
        let scenario = self.settings.read(&self.file)?;
        let hosts = self.hosts(&scenario)?;
        let plans: Vec<Plan> = hosts.iter().map(|host| tsn::plan(&scenario, *host)).collect();
        let refused = tell_rules(&scenario, &hosts);
        if self.json {
            output::json(&json!({ "format": "downbeat/plan/1", "plans": plans }))?;
        } else if let Some(folder) = &self.out {
            for plan in &plans {
                let count = write(plan, &folder.join(&plan.host))?;
                println!("{}: {count} files in {}", plan.host, folder.join(&plan.host).display());
            }
        } else {
            let texts: Vec<String> = plans.iter().filter_map(|plan| self.form.of(plan)).collect();
            if texts.is_empty() {
                eprintln!("nothing to be done in this form");
            }
            print!("{}", texts.join("\n"));
        }
        Ok(if refused { BAD_INPUT } else { MET })
    }

    fn hosts(&self, scenario: &Scenario) -> Result<Vec<HostId>, Failure> {
        let Some(name) = &self.host else { return Ok((0..scenario.hosts.len()).map(HostId).collect()) };
        let names: Vec<&str> = scenario.hosts.iter().map(|host| host.name.as_str()).collect();
        scenario.host_named(name).map(|host| vec![host]).ok_or_else(|| {
            Failure::input(format!(
                "--host {name}: the scenario has no such host\n  mend: name one of {}",
                names.join(", ")
            ))
        })
    }
}

/// Says on standard error what Linux would refuse, or what frames would suffer from; true when it would refuse.
pub(crate) fn tell_rules(scenario: &Scenario, hosts: &[HostId]) -> bool {
    let situation = Situation { now: Some(rt::clock::now()), wake_up: None };
    let mut refused = false;
    for host in hosts {
        for finding in tsn::rules::check_host(scenario, *host, &situation) {
            refused |= finding.severity == Severity::Error;
            if finding.severity > Severity::Note {
                tell_finding(&finding, |line| eprintln!("{line}"));
            }
        }
    }
    refused
}

/// Says on standard error where an interface of this machine has another speed than the plan of its host counts with.
pub(crate) fn tell_speeds(scenario: &Scenario, host: HostId) {
    let told = |device: &str| {
        let folder = Path::new("/sys/class/net").join(device);
        // An interface that is down has a file that cannot be read, one without a speed of its own says -1.
        let speed =
            || std::fs::read_to_string(folder.join("speed")).ok()?.trim().parse::<u64>().ok().filter(|mbit| *mbit > 0);
        folder.exists().then(|| speed().map(Rate::from_mbit))
    };
    for finding in tsn::rules::speeds(scenario, host, told) {
        tell_finding(&finding, |line| eprintln!("{line}"));
    }
}

/// Writes the texts and files of a plan; gives how many.
fn write(plan: &Plan, folder: &Path) -> Result<usize, Failure> {
    let mut texts: Vec<(PathBuf, String)> = Form::ALL
        .iter()
        .filter_map(|form| {
            let end = match form {
                Form::Ip | Form::Bridge | Form::Tc => "batch",
                Form::Ethtool | Form::Ovs | Form::Dcb | Form::Systemctl => "sh",
                Form::Advice => "txt",
            };
            Some((folder.join(format!("{}.{end}", form.name())), plan.text(*form)?))
        })
        .collect();
    // Under the folder as they are to stand under the root.
    texts.extend(plan.files.iter().map(|file| (folder.join(file.path.trim_start_matches('/')), file.text.clone())));
    for (path, text) in &texts {
        let failed = |error: std::io::Error| {
            Failure::input(format!(
                "{} could not be written: {error}\n  mend: name a folder that can be written, with --out",
                path.display()
            ))
        };
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        std::fs::write(path, text).map_err(failed)?;
    }
    Ok(texts.len())
}
