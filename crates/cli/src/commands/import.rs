//! `downbeat import`: scenarios made of other tools' files.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use exchange::{Note, Problems, detd, tsd};
use scenario::HostId;

use crate::commands::settings::Settings;
use crate::output::{self, Failure, MET, Outcome};

/// Arguments of `import`.
#[derive(Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  downbeat import tsd flow.json --out flow.toml               # a TSN stream file of VxWorks, as a scenario
  downbeat import detd request.json --into plant.toml --reader loop --out plant.toml

What the file cannot say gets a default; comments say where each value comes from. What a scenario cannot hold is named
on standard error. Exit codes: 0 imported, 2 the file is wrong. See docs/exchange.md."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    format: Format,
}

#[derive(Subcommand)]
enum Format {
    /// A TSN stream file (VxWorks tsnconfig, Time Specific Departure): a new scenario
    Tsd {
        /// The stream file, JSON
        file: PathBuf,
        /// Name of the scenario [default: the name of the file]
        #[arg(long)]
        name: Option<String>,
        /// Write the scenario here instead of standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// A talker request of detd: one more stream in a scenario
    Detd {
        /// The request, JSON with the keys of detd's protocol
        file: PathBuf,
        /// The scenario that gets the stream
        #[arg(long, value_name = "SCENARIO")]
        into: PathBuf,
        #[command(flatten)]
        settings: Settings,
        /// The host that asks [default: the only one with the request's interface]
        #[arg(long, value_name = "NAME")]
        host: Option<String>,
        /// The host that reads [default: the only other station]
        #[arg(long, value_name = "NAME")]
        reader: Option<String>,
        /// Name of the stream [default: talker-1, talker-2, …]
        #[arg(long)]
        name: Option<String>,
        /// Write the scenario here instead of standard output; may be the scenario itself
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

impl Arguments {
    pub(crate) fn execute(self) -> Outcome {
        match self.format {
            Format::Tsd { file, name, out } => {
                let name = name.unwrap_or_else(|| stem(&file));
                let (text, shown) = read(&file)?;
                let (streams, left) = tsd::read(&text, &shown).map_err(wrong)?;
                let made = tsd::to_scenario(&streams, &name, &shown, &left).map_err(wrong)?;
                finish(&made.text, &made.notes, out.as_deref())
            }
            Format::Detd { file, into, settings, host, reader, name, out } => {
                let (text, shown) = read(&file)?;
                let (request, mut notes) = detd::read(&text, &shown).map_err(wrong)?;
                let scenario = settings.read(&into)?;
                let told = detd::Told {
                    host: host.map(|name| host_named(&scenario, "--host", &name)).transpose()?,
                    reader: reader.map(|name| host_named(&scenario, "--reader", &name)).transpose()?,
                    name,
                };
                let made = detd::add(&request, &scenario, &told, &shown).map_err(wrong)?;
                notes.extend(made.notes);
                finish(&made.text, &notes, out.as_deref())
            }
        }
    }
}

/// Checks what was made as any scenario is checked, tells what was left out, and writes it.
fn finish(text: &str, notes: &[Note], out: Option<&Path>) -> Outcome {
    let named = out.map_or_else(|| "the scenario made".to_owned(), |path| path.display().to_string());
    let (_, warnings) =
        scenario::read_with_warnings(text, &named).map_err(|diagnostics| Failure::input(diagnostics.render()))?;
    output::tell_warnings(&warnings);
    tell_notes(notes);
    write(text, out)?;
    Ok(MET)
}

pub(crate) fn tell_notes(notes: &[Note]) {
    for note in notes {
        eprintln!("note: {note}");
    }
}

pub(crate) fn wrong(problems: Problems) -> Failure {
    Failure::input(problems.to_string())
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Largest file of another tool that is read.
const MOST_BYTES: u64 = 16 << 20;

/// The text of a file, and its name for messages.
pub(crate) fn read(path: &Path) -> Result<(String, String), Failure> {
    use std::io::Read;
    let shown = path.display().to_string();
    let failed =
        |why: String| Failure::input(format!("{shown} could not be read: {why}\n  mend: name a file of UTF-8 text"));
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(|error| failed(error.to_string()))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(failed("it has more than 16 MiB".to_owned()));
    }
    Ok((text, shown))
}

/// Writes a text to a file, or to standard output.
pub(crate) fn write(text: &str, out: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = out else {
        print!("{text}");
        return Ok(());
    };
    std::fs::write(path, text).map_err(|error| {
        Failure::input(format!(
            "{} could not be written: {error}\n  mend: name a file in a folder that can be written, with --out",
            path.display()
        ))
    })
}

/// The host that an argument names.
pub(crate) fn host_named(scenario: &scenario::Scenario, argument: &str, name: &str) -> Result<HostId, Failure> {
    scenario.host_named(name).ok_or_else(|| {
        let names: Vec<&str> = scenario.hosts.iter().map(|host| host.name.as_str()).collect();
        Failure::input(format!(
            "{argument} {name}: the scenario has no such host\n  mend: name one of {}",
            names.join(", ")
        ))
    })
}
