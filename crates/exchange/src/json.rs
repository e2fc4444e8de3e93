//! JSON with the order of its keys kept, keys given twice refused, and every value knowing its way.

use std::fmt;
use std::ops::RangeInclusive;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::problem::{Note, Problems, Sink, one};

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    Text(String),
    List(Vec<Node>),
    Table(Vec<(String, Node)>),
}

/// Reads a text; what is no JSON is told with line and column.
pub(crate) fn parse(text: &str, file: &str) -> Result<Node, Problems> {
    // Editors of some systems begin a text with a mark of its byte order.
    serde_json::from_str(text.strip_prefix('\u{feff}').unwrap_or(text)).map_err(|error| {
        let full = error.to_string();
        let what = full.split(" at line ").next().unwrap_or(&full);
        one(
            file,
            format!("line {}, column {}", error.line(), error.column()),
            format!("not JSON: {what}"),
            "one JSON object, RFC 8259: no comments, no comma behind the last entry, every key once",
            "mend the text there",
        )
    })
}

/// The text of a value, indented by two spaces.
pub(crate) fn write(node: &Node) -> String {
    // Keys are texts and numbers are finite: nothing here can fail.
    serde_json::to_string_pretty(node).map(|text| text + "\n").unwrap_or_default()
}

impl From<u64> for Node {
    fn from(number: u64) -> Self {
        Self::Number(number.into())
    }
}

impl From<bool> for Node {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Node {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Node {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<Node>> for Node {
    fn from(list: Vec<Node>) -> Self {
        Self::List(list)
    }
}

/// A table of keys and values in order.
pub(crate) fn table<const N: usize>(entries: [(&str, Node); N]) -> Node {
    Node::Table(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => number.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(list) => serializer.collect_seq(list),
            Self::Table(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Node, E> {
        serde_json::Number::from_f64(value).map(Node::Number).ok_or_else(|| E::custom("a number without end"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = access.next_element()? {
            list.push(value);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut entries: Vec<(String, Node)> = Vec::new();
        while let Some(key) = access.next_key::<String>()? {
            if entries.iter().any(|(known, _)| *known == key) {
                return Err(de::Error::custom(format!("the key \"{key}\" stands twice in one object")));
            }
            entries.push((key, access.next_value()?));
        }
        Ok(Node::Table(entries))
    }
}

/// A table and the way to it.
#[derive(Debug, Clone)]
pub(crate) struct Table<'a> {
    entries: &'a [(String, Node)],
    pub(crate) at: String,
}

/// A value and the way to it.
#[derive(Debug, Clone)]
pub(crate) struct Entry<'a> {
    node: &'a Node,
    pub(crate) at: String,
}

/// `tx time` and `tx_time` are one key.
fn same(one: &str, other: &str) -> bool {
    one.replace('_', " ") == other.replace('_', " ")
}

fn below(at: &str, key: &str) -> String {
    if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") }
}

/// The whole of a file as an entry.
pub(crate) fn root(node: &Node) -> Entry<'_> {
    Entry { node, at: String::new() }
}

impl<'a> Table<'a> {
    /// The value of the first of `names` that stands here; the others are other words for the same.
    pub(crate) fn get(&self, sink: &mut Sink, names: &[&str]) -> Option<Entry<'a>> {
        let mut found = self.entries.iter().filter(|(key, _)| names.iter().any(|name| same(key, name)));
        let (key, node) = found.next()?;
        if let Some((again, _)) = found.next() {
            sink.problem(
                below(&self.at, again),
                format!("\"{key}\" and \"{again}\" say the same"),
                "one of them",
                format!("remove \"{again}\" or \"{key}\""),
            );
        }
        Some(Entry { node, at: below(&self.at, key) })
    }

    /// The same, for what has to be there; `example` would do.
    pub(crate) fn require(&self, sink: &mut Sink, names: &[&str], example: &str) -> Option<Entry<'a>> {
        let found = self.get(sink, names);
        if found.is_none() {
            let name = names.first().copied().unwrap_or_default();
            let keys: Vec<&str> = self.entries.iter().map(|(key, _)| key.as_str()).collect();
            let near = nearest(name, &keys).map(|near| format!("; did you mean it by \"{near}\"?")).unwrap_or_default();
            let at = if self.at.is_empty() { "the file" } else { &self.at };
            sink.problem(
                at,
                format!("\"{name}\" is missing{near}"),
                format!("the key \"{name}\""),
                format!("add for example {example}"),
            );
        }
        found
    }

    /// Notes every key that is not among `known`.
    pub(crate) fn note_others(&self, sink: &mut Sink, known: &[&str]) {
        for (key, _) in self.entries.iter().filter(|(key, _)| !known.iter().any(|name| same(key, name))) {
            let near = nearest(key, known).map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
            sink.notes.push(Note::new(below(&self.at, key), format!("not known here and not taken over{near}")));
        }
    }
}

impl<'a> Entry<'a> {
    fn wrong(&self, sink: &mut Sink, expected: &str, example: &str) {
        let at = if self.at.is_empty() { "the file" } else { &self.at };
        sink.problem(at, format!("is {}", self.shown()), expected, format!("write for example {example}"));
    }

    /// What stands here, short.
    pub(crate) fn shown(&self) -> String {
        match self.node {
            Node::Null => "null".to_owned(),
            Node::Bool(value) => value.to_string(),
            Node::Number(number) => number.to_string(),
            Node::Text(text) => {
                let short: String = text.chars().take(40).collect();
                let cut = if short.len() < text.len() { "…" } else { "" };
                format!("\"{}\"{cut}", short.escape_debug())
            }
            Node::List(list) => format!("a list of {}", list.len()),
            Node::Table(entries) => format!("an object of {} keys", entries.len()),
        }
    }

    pub(crate) fn table(&self, sink: &mut Sink, example: &str) -> Option<Table<'a>> {
        if let Node::Table(entries) = self.node {
            return Some(Table { entries, at: self.at.clone() });
        }
        self.wrong(sink, "an object { … }", example);
        None
    }

    pub(crate) fn list(&self, sink: &mut Sink, example: &str) -> Option<Vec<Entry<'a>>> {
        let Node::List(list) = self.node else {
            self.wrong(sink, "a list [ … ]", example);
            return None;
        };
        let element = |(index, node)| Entry { node, at: format!("{}[{index}]", self.at) };
        Some(list.iter().enumerate().map(element).collect())
    }

    pub(crate) fn text(&self, sink: &mut Sink, example: &str) -> Option<&'a str> {
        if let Node::Text(text) = self.node {
            return Some(text);
        }
        self.wrong(sink, "a text in quotes", example);
        None
    }

    pub(crate) fn boolean(&self, sink: &mut Sink) -> Option<bool> {
        if let Node::Bool(value) = self.node {
            return Some(*value);
        }
        self.wrong(sink, "true or false", "true");
        None
    }

    /// A whole number in `range`; `unit` says what it counts, or is empty.
    pub(crate) fn integer(
        &self,
        sink: &mut Sink,
        range: RangeInclusive<u64>,
        unit: &str,
        example: &str,
    ) -> Option<u64> {
        if let Node::Number(number) = self.node
            && let Some(number) = number.as_u64().filter(|number| range.contains(number))
        {
            return Some(number);
        }
        let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
        let expected = format!("a whole number from {} to {}{unit}, without quotes", range.start(), range.end());
        self.wrong(sink, &expected, example);
        None
    }

    /// An address of Ethernet.
    pub(crate) fn mac(&self, sink: &mut Sink) -> Option<[u8; 6]> {
        let example = "\"01:00:5E:00:00:01\"";
        let address = crate::mac::parse(self.text(sink, example)?);
        if address.is_none() {
            self.wrong(sink, "six pairs of hexadecimal digits with : or - between them, not all zero", example);
        }
        address
    }
}

/// The word that `word` was probably meant to be.
fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let distance = |known: &str| strsim::damerau_levenshtein(word, known);
    let (near, away) = known.iter().map(|known| (*known, distance(known))).min_by_key(|(_, away)| *away)?;
    let longer = near.chars().count().max(word.chars().count());
    (away <= 1 + longer / 5 && away < longer).then_some(near)
}
