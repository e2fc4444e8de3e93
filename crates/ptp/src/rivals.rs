//! What runs already, and where programs are.

use std::fs;
use std::path::{Path, PathBuf};

/// A ptp4l that uses an interface of ours: its process, and the interface.
pub(crate) fn rival(interfaces: &[String]) -> Option<(u32, String)> {
    let own = fs::read_link("/proc/self/ns/net").ok()?;
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).find_map(|pid| {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let is_ptp4l = fs::read_to_string(folder.join("comm")).is_ok_and(|name| name.trim() == "ptp4l");
        if !is_ptp4l || fs::read_link(folder.join("ns/net")).ok()? != own {
            return None;
        }
        let command = fs::read(folder.join("cmdline")).ok()?;
        let used = interfaces_of(&command, |path| {
            // Its path is one in its own folder.
            let path = fs::read_link(folder.join("cwd")).unwrap_or_default().join(path);
            fs::read_to_string(path).unwrap_or_default()
        });
        used.into_iter().find(|name| interfaces.contains(name)).map(|name| (pid, name))
    })
}

/// The interfaces that a command line of ptp4l names, in its arguments and in its configuration.
fn interfaces_of(command: &[u8], read: impl Fn(&Path) -> String) -> Vec<String> {
    let words: Vec<String> =
        command.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let value = |letter: &str| match word.strip_prefix(letter)? {
            "" => words.get(index + 1).cloned(),
            joined => Some(joined.to_owned()),
        };
        found.extend(value("-i"));
        if let Some(path) = value("-f") {
            found.extend(sections(&read(Path::new(&path))));
        }
    }
    found
}

/// The interfaces of a configuration.
pub(crate) fn sections(text: &str) -> Vec<String> {
    let sections = text.lines().filter_map(|line| line.trim().strip_prefix('[')?.strip_suffix(']'));
    sections.filter(|name| *name != "global" && *name != "unicast_master_table").map(str::to_owned).collect()
}

/// Where a program is: on PATH, or where Debian puts those of root.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).map(|folder| folder.join(name)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_found_in_arguments_and_in_the_configuration() {
        let read = |path: &Path| {
            assert_eq!(path, Path::new("/etc/p.conf"));
            "[global]\ndomainNumber 0\n[eth2]\n # [eth9]\n[eth3.5]\nkey 1\n".to_owned()
        };
        let found = interfaces_of(b"ptp4l\0-i\0eth0\0-ieth1\0-f\0/etc/p.conf\0-m\0", read);
        assert_eq!(found, ["eth0", "eth1", "eth2", "eth3.5"]);
        assert!(interfaces_of(b"ptp4l\0-i\0", |_| String::new()).iter().all(String::is_empty));
    }

    #[test]
    fn programs_are_looked_for_where_they_are() {
        assert!(program("sh").is_some());
        assert_eq!(program("no-such-program-of-ours"), None);
    }
}
