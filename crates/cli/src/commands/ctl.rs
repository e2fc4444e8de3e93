//! `downbeat ctl`: asks something that runs.

use clap::{Args, ValueEnum};
use serde_json::Value;
use units::Nanos;

use crate::live::begins_in;
use crate::output::{self, Failure, MET, Outcome};

/// Arguments of `ctl`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  downbeat ctl status                            # of the only one that runs
  downbeat ctl rotate two-hosts-pub-publish      # by its name: NAME of a run, NAME-HOST-COMMAND of a role
  downbeat ctl stop /run/downbeat/two-hosts.sock")]
pub(crate) struct Arguments {
    /// What it shall do
    request: Request,
    /// Name or path of its control socket; may be left out when only one runs
    name: Option<String>,
    /// Of `drain`: only where this stream is read
    #[arg(long, value_name = "NAME")]
    stream: Option<String>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Request {
    /// Say how it goes
    Status,
    /// End cleanly, results kept
    Stop,
    /// Write what was measured into a part folder and go on
    Rotate,
    /// Let readers empty their queues once, with `backlog = "keep"`, and say how many messages waited
    Drain,
}

impl Arguments {
    pub(crate) fn execute(self) -> Outcome {
        let request = match self.request {
            Request::Status => "status",
            Request::Stop => "stop",
            Request::Rotate => "rotate",
            Request::Drain => "drain",
        };
        if self.stream.is_some() && !matches!(self.request, Request::Drain) {
            return Err(Failure::machine(format!("--stream belongs to `downbeat ctl drain`, not to {request}")));
        }
        let path = lab::find_control(self.name.as_deref())?;
        let answer = lab::ask_control(&path, request, self.stream.as_deref())?;
        if self.json {
            output::json(&answer)?;
        }
        if answer["ok"] != true {
            let error = answer["error"].as_str().unwrap_or("it refused without a word");
            return Err(Failure::machine(format!("{}: {error}", path.display())));
        }
        if !self.json {
            match self.request {
                Request::Status => tell(&answer),
                Request::Stop => println!("{}: it ends now and writes its results", path.display()),
                Request::Drain => return drained(&answer),
                Request::Rotate => println!("written to {}", answer["part"].as_str().unwrap_or("?")),
            }
        }
        Ok(MET)
    }
}

/// Tells what waited at each end; an end that did not drain is an error.
fn drained(answer: &Value) -> Outcome {
    let list = |key: &str| answer[key].as_array().cloned().unwrap_or_default();
    let end = |of: &Value| {
        let text = |key: &str| of[key].as_str().unwrap_or("?").to_owned();
        format!("stream {} at {} ({})", text("stream"), text("host"), text("end"))
    };
    for drained in list("drained") {
        let waited = match drained["messages"].as_u64() {
            Some(0) => "nothing waited".to_owned(),
            Some(1) => "1 message waited".to_owned(),
            messages => format!("{} messages waited", messages.unwrap_or(0)),
        };
        println!("{}: {waited}, drained in cycle {}", end(&drained), drained["cycle"]);
    }
    match &list("silent")[..] {
        [] => Ok(MET),
        silent => {
            let silent: Vec<_> = silent.iter().map(end).collect();
            let text = "has not drained in time: its host stands still, or its queue never ends";
            Err(Failure::machine(format!("{}: {text}", silent.join(", "))))
        }
    }
}

fn tell(answer: &Value) {
    let text = |key: &str| answer[key].as_str().unwrap_or("?");
    let elapsed = answer["elapsed_ns"].as_i64().unwrap_or(0);
    let stands = if elapsed < 0 {
        begins_in(Nanos(elapsed))
    } else {
        format!("for {} · cycle {}", Nanos(elapsed - elapsed % 1_000_000_000), answer["cycle"])
    };
    println!("{} ({}), process {}, {stands}", text("name"), text("command"), answer["pid"]);
    for stream in answer["streams"].as_array().into_iter().flatten() {
        let known = [
            ("published", "published"),
            ("arrived", "arrived"),
            ("answered", "came all the way"),
            ("lost", "lost so far"),
            ("missed", "counters missed"),
        ];
        let parts: Vec<_> = known
            .iter()
            .filter(|(key, _)| !stream[*key].is_null())
            .map(|(key, words)| format!("{words} {}", stream[*key]))
            .collect();
        println!("  stream {}: {}", stream["name"].as_str().unwrap_or("?"), parts.join(", "));
    }
    for image in answer["images"].as_array().into_iter().flatten() {
        let text = |key: &str| image[key].as_str().unwrap_or("?");
        let who = match (text("application"), image["pid"].as_u64()) {
            ("attached", Some(pid)) => format!("process {pid} is attached"),
            ("gone", Some(pid)) => format!("process {pid} was attached and is gone"),
            ("none", _) => "nobody is attached".to_owned(),
            (other, _) => other.to_owned(),
        };
        println!("  image {}: {who}", text("path"));
    }
    for (host, lines) in answer["granted"].as_object().into_iter().flatten() {
        let lines: Vec<_> = lines.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        println!("  {host}: {}", lines.join(", "));
    }
    println!("  results: {}, parts written: {}", text("folder"), answer["parts"]);
}
