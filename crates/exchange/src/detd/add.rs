//! A request as one more stream of a scenario, with the rest of its text as it was.

use scenario::{FieldEncoding, HostId, HostKind, Scenario};
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value};
use units::FrameSize;

use super::{Request, Talker, hosts_with};
use crate::mac;
use crate::problem::{Note, Problems, one};

/// What a request does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// The host that asks; by default the only one with the interface.
    pub host: Option<HostId>,
    /// The host that reads; by default the only other station.
    pub reader: Option<HostId>,
    /// Name of the stream; by default `talker-1`, `talker-2`, …
    pub name: Option<String>,
}

/// A scenario with one more stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// The TOML.
    pub text: String,
    /// What was not taken over as it was asked for.
    pub notes: Vec<Note>,
}

/// Adds the stream that `request`, read from `file`, asks for. The result still has to pass `scenario::read`: another
/// stream may have its address.
///
/// # Errors
/// A listener's request, an interface or a reader that cannot be told, a size that no frame has.
pub fn add(request: &Request, scenario: &Scenario, told: &Told, file: &str) -> Result<Added, Problems> {
    let talker = request.talker.ok_or_else(|| {
        one(
            file,
            "talker",
            "a listener's request adds no stream",
            "the request of a talker",
            "import that of its talker, and answer this one with `downbeat export detd SCENARIO --request`",
        )
    })?;
    let writer = writer(request, scenario, told, file)?;
    let reader = reader(scenario, told, writer, file)?;
    let (variables, bytes) = variables(talker, file)?;
    let name = told.name.clone().unwrap_or_else(|| free_name(scenario));
    let mut notes = Vec::new();
    if bytes != talker.size_bytes {
        notes.push(Note::new(
            "size",
            format!("{} B were asked for; {variables} variables make {bytes} B, the most that fits", talker.size_bytes),
        ));
    }
    let values: Vec<(&str, Value, String)> = vec![
        ("name", name.as_str().into(), if told.name.is_some() { "not in the request" } else { "default" }.into()),
        ("writer", scenario.host(writer).name.as_str().into(), format!("request: interface {}", request.interface)),
        ("reader", scenario.host(reader).name.as_str().into(), "not in the request".into()),
        ("variables", i64::from(variables).into(), format!("request: size {}", talker.size_bytes)),
        ("destination", mac::with(request.destination, "-").into(), "request: dmac".into()),
        ("vid", i64::from(request.vid).into(), "request: vid".into()),
        ("pcp", i64::from(request.pcp).into(), "request: pcp".into()),
        ("cycle", talker.period.to_string().into(), format!("request: period {}", talker.period.0)),
        ("offset", talker.launch.to_string().into(), format!("request: txmin {}", talker.launch.0)),
    ];
    let unreadable = |error: String| {
        one(
            &scenario.name,
            "the scenario",
            error,
            "TOML with streams that can be added to",
            "write `[[streams]]` tables",
        )
    };
    let mut document: DocumentMut =
        scenario.source.parse().map_err(|error: toml_edit::TomlError| unreadable(error.to_string()))?;
    let heading = format!("\n# {}, a talker request of detd.\n", one_line(file));
    let streams = document.as_table_mut().entry("streams").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    match streams {
        Item::ArrayOfTables(tables) => tables.push(commented(values, &heading)),
        Item::Value(Value::Array(array)) => push_inline(array, values),
        _ => return Err(unreadable("`streams` is no list of tables".into())),
    }
    Ok(Added { text: document.to_string(), notes })
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn commented(values: Vec<(&str, Value, String)>, heading: &str) -> Table {
    let mut table = Table::new();
    table.decor_mut().set_prefix(heading);
    for (key, mut value, why) in values {
        value.decor_mut().set_prefix(" ");
        value.decor_mut().set_suffix(format!("  # {}", one_line(&why)));
        table.insert(key, Item::Value(value));
    }
    table
}

/// As one more element of `streams = [ … ]`; comments have no place inside braces of TOML 1.0.
fn push_inline(array: &mut Array, values: Vec<(&str, Value, String)>) {
    let mut table = InlineTable::new();
    for (key, value, _) in values {
        table.insert(key, value);
    }
    array.push(table);
}

fn writer(request: &Request, scenario: &Scenario, told: &Told, file: &str) -> Result<HostId, Problems> {
    let hosts = hosts_with(scenario, &request.interface);
    let names =
        |hosts: &[HostId]| hosts.iter().map(|host| scenario.host(*host).name.as_str()).collect::<Vec<_>>().join(", ");
    let wrong =
        |what: String, help: String| one(file, "interface", what, "an interface of one station of the scenario", help);
    match (told.host, hosts.as_slice()) {
        (Some(host), hosts) if hosts.contains(&host) => Ok(host),
        (None, [host]) => Ok(*host),
        (None, [_, _, ..]) => Err(wrong(
            format!("\"{}\" is an interface of {}", request.interface.escape_debug(), names(&hosts)),
            "say which host asks, with --host".into(),
        )),
        (told, _) => Err(wrong(
            format!(
                "{} has no interface \"{}\"",
                told.map_or("no station", |host| scenario.host(host).name.as_str()),
                request.interface.escape_debug()
            ),
            "name it in the scenario with `interface` in [hosts.NAME], or change the request".into(),
        )),
    }
}

fn reader(scenario: &Scenario, told: &Told, writer: HostId, file: &str) -> Result<HostId, Problems> {
    let station = |host: &HostId| *host != writer && scenario.host(*host).kind == HostKind::Station;
    let others: Vec<HostId> = (0..scenario.hosts.len()).map(HostId).filter(station).collect();
    match (told.reader, others.as_slice()) {
        (Some(reader), others) if others.contains(&reader) => Ok(reader),
        (None, [reader]) => Ok(*reader),
        (reader, _) => {
            let names: Vec<&str> = others.iter().map(|host| scenario.host(*host).name.as_str()).collect();
            Err(one(
                file,
                "reader",
                match reader {
                    Some(reader) => format!("{} cannot read it", scenario.host(reader).name),
                    None => "a request does not say who reads".to_owned(),
                },
                format!("one of: {}", names.join(", ")),
                "name the station with --reader",
            ))
        }
    }
}

/// The most variables that fit, and the bytes of their frame.
fn variables(talker: Talker, file: &str) -> Result<(u16, u32), Problems> {
    let frame = |variables| FrameSize::tagged(FieldEncoding::Variant.payload_bytes(variables));
    // A frame of one variable is one byte below the minimum, so every size of a request holds one.
    let most = (1..=165).rev().find(|variables| {
        frame(*variables).payload_bytes() <= units::MAX_PAYLOAD_BYTES
            && frame(*variables).link_bytes() <= talker.size_bytes
    });
    most.map(|variables| (variables, frame(variables).link_bytes())).ok_or_else(|| {
        one(
            file,
            "size",
            format!("{} B hold no frame with a variable", talker.size_bytes),
            format!("at least {} bytes", frame(1).link_bytes()),
            "ask for more bytes",
        )
    })
}

fn free_name(scenario: &Scenario) -> String {
    let taken = |name: &String| scenario.streams.iter().any(|stream| stream.name == *name);
    (1..).map(|number| format!("talker-{number}")).find(|name| !taken(name)).unwrap_or_default()
}
