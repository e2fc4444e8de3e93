//! Two networks with a cable between them, for roles that play there as if on machines of their own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::{DOWNBEAT, stdout, wait_for};

/// Runs `ip` with these words.
pub fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

/// Two networks with one cable between them, a scenario, and a place for sockets. Dropped, the networks go, and what
/// still runs in them.
pub struct Bench {
    pub name: String,
    pub folder: tempfile::TempDir,
    pub scenario: PathBuf,
}

impl Bench {
    /// The name gets this process's id, and networks of this name whose process was killed go first.
    pub fn new(name: &str) -> Self {
        let prefix = format!("{name}-");
        for left in super::networks(&prefix) {
            let process = left[prefix.len()..].split('-').next().unwrap_or_default();
            if !process.is_empty() && !Path::new("/proc").join(process).exists() {
                ip(&format!("netns del {left}"));
            }
        }
        let name = format!("{prefix}{}", std::process::id());
        let folder = tempfile::tempdir().unwrap();
        let scenario = super::scenario(folder.path(), "two-hosts", &name);
        for end in ["pub", "loop"] {
            ip(&format!("netns add {name}-{end}"));
        }
        ip(&format!("link add eth0 netns {name}-pub type veth peer name eth0 netns {name}-loop"));
        for end in ["pub", "loop"] {
            ip(&format!("-n {name}-{end} link set eth0 up"));
        }
        Self { name, folder, scenario }
    }

    pub fn out(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The namespace of an end.
    pub fn network(&self, end: &str) -> String {
        format!("{}-{end}", self.name)
    }

    /// `downbeat`, inside the network of an end.
    pub fn command(&self, end: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.network(end), DOWNBEAT])
            .args(arguments)
            .env("XDG_RUNTIME_DIR", self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn role(&self, part: &str, out: &str, more: &[&str]) -> Command {
        let end = if part == "publish" { "pub" } else { "loop" };
        let out = self.out(out);
        let all =
            [&[part, self.scenario.to_str().unwrap(), "--interface", "eth0", "--out", out.to_str().unwrap()], more];
        self.command(end, &all.concat())
    }

    /// A role that is under way.
    pub fn start(&self, part: &str, out: &str, more: &[&str]) -> Child {
        let child = self.role(part, out, more).spawn().unwrap();
        wait_for("the first cycles", || self.status(part).is_some_and(|status| status["cycle"].as_i64() > Some(0)));
        child
    }

    pub fn socket(&self, part: &str) -> PathBuf {
        let end = if part == "publish" { "pub" } else { "loop" };
        self.folder.path().join("downbeat").join(format!("{}-{end}-{part}.sock", self.name))
    }

    pub fn ctl(&self, part: &str, request: &str) -> Output {
        let socket = self.socket(part);
        Command::new(DOWNBEAT).args(["ctl", request, socket.to_str().unwrap(), "--json"]).output().unwrap()
    }

    pub fn status(&self, part: &str) -> Option<Value> {
        let output = self.ctl(part, "status");
        output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    pub fn count(&self, part: &str, key: &str) -> u64 {
        self.status(part).and_then(|status| status["streams"][0][key].as_u64()).unwrap_or(0)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for end in ["pub", "loop"] {
            let network = format!("{}-{end}", self.name);
            // A test that failed has not waited for its roles, which have no end of their own.
            if let Ok(left) = Command::new("ip").args(["netns", "pids", &network]).output() {
                for pid in stdout(&left).split_whitespace() {
                    _ = Command::new("kill").args(["-KILL", pid]).status();
                }
            }
            _ = Command::new("ip").args(["netns", "del", &network]).status();
        }
    }
}
