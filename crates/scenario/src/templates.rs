//! Scenarios to begin with.

/// A commented scenario file to begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Template {
    /// What `downbeat init` calls it.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// The file.
    pub text: &'static str,
}

/// All of them, the simplest first.
pub const TEMPLATES: [Template; 3] = [
    Template {
        name: "two-hosts",
        about: "a publisher and a loopback on one cable",
        text: include_str!("../templates/two-hosts.toml"),
    },
    Template {
        name: "bridged",
        about: "a publisher and a loopback with a bridge between, and room for other traffic",
        text: include_str!("../templates/bridged.toml"),
    },
    Template {
        name: "line-7",
        about: "seven links in a line, six bridges",
        text: include_str!("../templates/line-7.toml"),
    },
];

/// The text of a template.
pub fn template(name: &str) -> Option<&'static str> {
    TEMPLATES.iter().find(|template| template.name == name).map(|template| template.text)
}
