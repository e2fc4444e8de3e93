//! Settings that are read before they are changed, so that they can be put back.

use serde_json::Value;
use tsn::Setting;

use crate::look::Look;

/// The commands that put the present value of a setting back; empty where the machine does not tell it, and so cannot
/// have it changed.
pub(super) fn former(look: &impl Look, device: &str, setting: Setting) -> Vec<Vec<String>> {
    let ethtool = |option: &str| look.run(&["ethtool", option, device]).filter(|printed| printed.well);
    let command = |option: &str, pairs: Vec<(&str, String)>| {
        let words = pairs.into_iter().flat_map(|(key, value)| [key.to_owned(), value]);
        let head = ["ethtool", option, device].map(str::to_owned);
        let line: Vec<String> = head.into_iter().chain(words).collect();
        if line.len() > 3 { vec![line] } else { Vec::new() }
    };
    match setting {
        Setting::Channels => {
            let Some(printed) = ethtool("-l") else { return Vec::new() };
            command("-L", current(&printed.out, &[("RX", "rx"), ("TX", "tx"), ("Combined", "combined")]))
        }
        Setting::Rings => {
            let Some(printed) = ethtool("-g") else { return Vec::new() };
            command("-G", current(&printed.out, &[("RX", "rx"), ("TX", "tx")]))
        }
        Setting::Coalescing => {
            let Some(printed) = ethtool("-c") else { return Vec::new() };
            command("-C", pairs(&printed.out, &[("rx-usecs", "rx-usecs"), ("tx-usecs", "tx-usecs")]))
        }
        Setting::Eee => {
            let Some(printed) = ethtool("--show-eee") else { return Vec::new() };
            let on = value_of(&printed.out, "EEE status").is_some_and(|status| status.starts_with("enabled"));
            command("--set-eee", vec![("eee", if on { "on" } else { "off" }.to_owned())])
        }
        Setting::Features => {
            let words = [
                ("tso", "tcp-segmentation-offload"),
                ("gso", "generic-segmentation-offload"),
                ("gro", "generic-receive-offload"),
            ];
            let now = features(look, device);
            let told = words.into_iter().filter_map(|(short, long)| {
                let active = now[long]["active"].as_bool()?;
                Some((short, if active { "on" } else { "off" }.to_owned()))
            });
            command("-K", told.collect())
        }
        Setting::MacMerge => {
            let Some(printed) = ethtool("--show-mm") else { return Vec::new() };
            let keys = [
                ("pMAC enabled", "pmac-enabled"),
                ("TX enabled", "tx-enabled"),
                ("Verify enabled", "verify-enabled"),
                ("TX minimum fragment size", "tx-min-frag-size"),
            ];
            command("--set-mm", pairs(&printed.out, &keys))
        }
        Setting::State => {
            let up = link(look, device).is_some_and(|link| has_flag(&link, "UP"));
            vec![["ip", "link", "set", device, if up { "up" } else { "down" }].map(str::to_owned).to_vec()]
        }
        Setting::Master => {
            let master = link(look, device).and_then(|link| Some(link["master"].as_str()?.to_owned()));
            let line = match master.as_deref() {
                Some(master) => vec!["ip", "link", "set", device, "master", master],
                None => vec!["ip", "link", "set", device, "nomaster"],
            };
            vec![line.into_iter().map(str::to_owned).collect()]
        }
    }
}

/// What `ip` tells of an interface; `None` when there is no such interface.
pub(super) fn link(look: &impl Look, device: &str) -> Option<Value> {
    let printed = look.run(&["ip", "-j", "-d", "link", "show", "dev", device]).filter(|printed| printed.well)?;
    let links: Value = serde_json::from_str(&printed.out).ok()?;
    Some(links[0].clone()).filter(|link| !link.is_null())
}

/// Whether an interface has a flag like `UP`.
pub(super) fn has_flag(link: &Value, flag: &str) -> bool {
    link["flags"].as_array().is_some_and(|flags| flags.iter().any(|known| known == flag))
}

/// What `ethtool -k` tells of an interface.
pub(super) fn features(look: &impl Look, device: &str) -> Value {
    let printed = look.run(&["ethtool", "--json", "-k", device]).unwrap_or_default();
    serde_json::from_str::<Value>(&printed.out).map(|all| all[0].clone()).unwrap_or_default()
}

/// The value behind `key:` in what ethtool prints.
pub(crate) fn value_of<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.trim().strip_prefix(key)?.trim_start().strip_prefix(':').map(str::trim))
}

/// Current values, below the second heading of two tables; what the device does not have is left out.
pub(super) fn current<'k>(text: &str, keys: &[(&str, &'k str)]) -> Vec<(&'k str, String)> {
    let now = text.split_once("Current hardware settings").map_or("", |(_, now)| now);
    pairs(now, keys)
}

fn pairs<'k>(text: &str, keys: &[(&str, &'k str)]) -> Vec<(&'k str, String)> {
    let told = keys.iter().filter_map(|(printed, word)| Some((*word, value_of(text, printed)?.to_owned())));
    told.filter(|(_, value)| value != "n/a").collect()
}
