//! Typed access to TOML: every getter either gives a value or records what is wrong with it.

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;

use toml_edit::{Item, TableLike, Value};
use units::{Nanos, Rate};

use crate::diagnostic::Sink;
use crate::model::Fraction;

/// Longest span of a scenario: sums of a few still fit.
const LONGEST: Nanos = Nanos(3_600_000_000_000);
/// Slowest and fastest rate.
const RATES: RangeInclusive<Rate> = Rate(1_000)..=Rate(1_000_000_000_000);

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) span: Range<usize>,
}

/// A table and how it is called in messages.
#[derive(Clone)]
pub(crate) struct Table<'a> {
    items: &'a dyn TableLike,
    /// Its header, or all of an inline table.
    pub(crate) span: Range<usize>,
    /// "[time]", "[[links]]".
    pub(crate) what: String,
}

/// The value of a key, or an element of an array.
#[derive(Clone)]
pub(crate) struct Entry<'a> {
    node: Node<'a>,
    /// Where the value stands.
    pub(crate) span: Range<usize>,
    /// Its key.
    pub(crate) key: String,
    what: String,
}

#[derive(Clone, Copy)]
enum Node<'a> {
    Item(&'a Item),
    Value(&'a Value),
}

impl<'a> Node<'a> {
    fn value(self) -> Option<&'a Value> {
        match self {
            Self::Item(item) => item.as_value(),
            Self::Value(value) => Some(value),
        }
    }
}

impl<'a> Table<'a> {
    pub(crate) fn new(items: &'a dyn TableLike, span: Range<usize>, what: impl Into<String>) -> Self {
        Self { items, span, what: what.into() }
    }

    /// Reports keys that are not among `known`.
    pub(crate) fn only(&self, sink: &mut Sink, known: &[&str]) {
        for key in self.keys().filter(|key| !known.contains(&key.value)) {
            let help = match nearest(key.value, known) {
                Some(near) => format!("did you mean `{near}`? {} knows {}", self.what, list(known)),
                None => format!("{} knows {}", self.what, list(known)),
            };
            sink.error(
                &key.span,
                format!("unknown key `{}` in {}", key.value, self.what),
                match nearest(key.value, known) {
                    Some(near) => format!("nearest: `{near}`"),
                    None => "not known here".to_owned(),
                },
                help,
            );
        }
    }

    /// All keys, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = At<&'a str>> {
        let (items, whole) = (self.items, self.span.clone());
        items.iter().map(move |(key, _)| At {
            value: key,
            span: items.get_key_value(key).and_then(|(key, _)| key.span()).unwrap_or_else(|| whole.clone()),
        })
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<Entry<'a>> {
        let (found, item) = self.items.get_key_value(key)?;
        let span = item.span().or_else(|| found.span()).unwrap_or_else(|| self.span.clone());
        Some(Entry { node: Node::Item(item), span, key: key.to_owned(), what: self.what.clone() })
    }

    /// The value of a key that has to be there; `example` is a line that would do.
    pub(crate) fn require(&self, sink: &mut Sink, key: &str, example: &str) -> Option<Entry<'a>> {
        let entry = self.get(key);
        if entry.is_none() {
            sink.error(
                &self.span,
                format!("`{key}` is missing in {}", self.what),
                format!("needs `{key}`"),
                format!("add for example `{example}`"),
            );
        }
        entry
    }

    /// The table of a key, if it is there and one.
    pub(crate) fn table(&self, sink: &mut Sink, key: &str, what: &str) -> Option<Table<'a>> {
        self.get(key)?.table(sink, what)
    }

    /// The tables of `[[key]]` or of `key = [{…}, …]`.
    pub(crate) fn tables(&self, sink: &mut Sink, key: &str) -> Vec<Table<'a>> {
        let what = format!("[[{key}]]");
        let Some(entry) = self.get(key) else { return Vec::new() };
        if let Node::Item(Item::ArrayOfTables(tables)) = entry.node {
            return tables
                .iter()
                .map(|table| {
                    let span = table.span().filter(|span| !span.is_empty()).unwrap_or_else(|| entry.span.clone());
                    Table::new(table, span, what.clone())
                })
                .collect();
        }
        if let Node::Item(Item::Table(_)) = entry.node {
            sink.error(
                &entry.span,
                format!("`{key}` is a single table"),
                format!("`[[{key}]]`"),
                format!("write `[[{key}]]` with two brackets on each side: there can be several"),
            );
            return Vec::new();
        }
        let Some(elements) = entry.list(sink, "a list of tables") else { return Vec::new() };
        elements.into_iter().filter_map(|element| element.table(sink, &what)).collect()
    }
}

impl<'a> Entry<'a> {
    /// "`cycle` of [time]".
    pub(crate) fn name(&self) -> String {
        format!("`{}` of {}", self.key, self.what)
    }

    fn kind(&self) -> &'static str {
        match self.node.value() {
            Some(Value::String(_)) => "a text",
            Some(Value::Integer(_)) => "a whole number",
            Some(Value::Float(_)) => "a decimal number",
            Some(Value::Boolean(_)) => "a true or false",
            Some(Value::Datetime(_)) => "a date",
            Some(Value::Array(_)) => "a list",
            Some(Value::InlineTable(_)) => "a table",
            None => match self.node {
                Node::Item(Item::ArrayOfTables(_)) => "a list of tables",
                _ => "a table",
            },
        }
    }

    fn wrong(&self, sink: &mut Sink, expected: &str, help: impl Into<String>) {
        sink.error(&self.span, format!("{} is {}", self.name(), self.kind()), format!("expected {expected}"), help);
    }

    pub(crate) fn is_text(&self) -> bool {
        matches!(self.node.value(), Some(Value::String(_)))
    }

    pub(crate) fn is_integer(&self) -> bool {
        matches!(self.node.value(), Some(Value::Integer(_)))
    }

    /// The text as it stands in the file, as far as it is a number.
    fn number_text(&self) -> Option<String> {
        match self.node.value()? {
            Value::Integer(number) => Some(number.value().to_string()),
            Value::Float(number) => Some(number.value().to_string()),
            _ => None,
        }
    }

    /// A text.
    pub(crate) fn text(&self, sink: &mut Sink, example: &str) -> Option<At<&'a str>> {
        match self.node.value() {
            Some(Value::String(text)) => Some(At { value: text.value().as_str(), span: self.span.clone() }),
            _ => {
                self.wrong(sink, "a text in quotes", format!("write `{} = \"{example}\"`", self.key));
                None
            }
        }
    }

    /// One of several words.
    pub(crate) fn word<T: Clone>(&self, sink: &mut Sink, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(sink, words[0].0)?;
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let found = words.iter().find(|(word, _)| *word == text.value);
        if found.is_none() {
            let near = nearest(text.value, &known);
            sink.error(
                &self.span,
                format!("{} cannot be \"{}\"", self.name(), text.value),
                format!("expected one of {}", list(&known)),
                match near {
                    Some(near) => format!("did you mean \"{near}\"?"),
                    None => format!("write for example `{} = \"{}\"`", self.key, known[0]),
                },
            );
        }
        found.map(|(_, value)| value.clone())
    }

    /// True or false.
    pub(crate) fn boolean(&self, sink: &mut Sink) -> Option<bool> {
        let value = self.node.value().and_then(Value::as_bool);
        if value.is_none() {
            self.wrong(sink, "true or false", format!("write `{} = true` without quotes", self.key));
        }
        value
    }

    /// A whole number within `range`.
    pub(crate) fn integer<T: TryFrom<i64> + Into<i64> + Copy>(
        &self,
        sink: &mut Sink,
        range: RangeInclusive<T>,
    ) -> Option<T> {
        let (low, high): (i64, i64) = ((*range.start()).into(), (*range.end()).into());
        let expected = format!("a whole number from {low} to {high}");
        let Some(number) = self.node.value().and_then(Value::as_integer) else {
            let help = match self.node.value().and_then(Value::as_str).and_then(|text| text.parse::<i64>().ok()) {
                Some(number) => format!("write `{} = {number}` without quotes", self.key),
                None => format!("write for example `{} = {low}`", self.key),
            };
            self.wrong(sink, &expected, help);
            return None;
        };
        if (low..=high).contains(&number) {
            return T::try_from(number).ok();
        }
        sink.error(
            &self.span,
            format!("{} is {number}", self.name()),
            format!("expected {expected}"),
            format!("the nearest that is allowed is {}", number.clamp(low, high)),
        );
        None
    }

    fn parse<T: FromStr<Err: Display>>(&self, sink: &mut Sink, words: &str, example: &str) -> Option<T> {
        let Some(Value::String(text)) = self.node.value() else {
            let help = match self.number_text() {
                Some(number) => {
                    let unit = example.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
                    format!("a number alone has no unit: write for example `{} = \"{number}{unit}\"`", self.key)
                }
                None => format!("write for example `{} = \"{example}\"`", self.key),
            };
            self.wrong(sink, &format!("{words} in quotes, such as \"{example}\""), help);
            return None;
        };
        match text.value().parse() {
            Ok(value) => Some(value),
            Err(why) => {
                sink.error(
                    &self.span,
                    format!("{}: \"{}\" {why}", self.name(), text.value()),
                    format!("expected {words}, such as \"{example}\""),
                    format!("write for example `{} = \"{example}\"`", self.key),
                );
                None
            }
        }
    }

    /// A span without further limits.
    pub(crate) fn any_nanos(&self, sink: &mut Sink, example: &str) -> Option<Nanos> {
        self.parse(sink, "a span of time", example)
    }

    /// A span from `low` to an hour.
    pub(crate) fn nanos(&self, sink: &mut Sink, low: Nanos, example: &str) -> Option<Nanos> {
        let value = self.any_nanos(sink, example)?;
        if (low..=LONGEST).contains(&value) {
            return Some(value);
        }
        let expected = match low.0 {
            0 => "a span that is not negative and at most 1h".to_owned(),
            1 => "a span above 0 and at most 1h".to_owned(),
            _ => format!("a span from {low} to 1h"),
        };
        sink.error(
            &self.span,
            format!("{} is {value}", self.name()),
            format!("expected {expected}"),
            format!("write for example `{} = \"{example}\"`", self.key),
        );
        None
    }

    /// A rate.
    pub(crate) fn rate(&self, sink: &mut Sink, example: &str) -> Option<Rate> {
        let value: Rate = self.parse(sink, "a rate", example)?;
        if RATES.contains(&value) {
            return Some(value);
        }
        sink.error(
            &self.span,
            format!("{} is {value}", self.name()),
            "expected a rate from 1kbit/s to 1000Gbit/s",
            format!("write for example `{} = \"{example}\"`", self.key),
        );
        None
    }

    /// A share of the cycle: at least 0 and less than 1.
    pub(crate) fn fraction(&self, sink: &mut Sink, example: &str) -> Option<Fraction> {
        let value = match self.node.value() {
            Some(Value::Float(number)) => *number.value(),
            Some(Value::Integer(number)) => *number.value() as f64,
            _ => {
                self.wrong(
                    sink,
                    "a share of the cycle",
                    format!("write for example `{} = {example}`, without quotes and unit", self.key),
                );
                return None;
            }
        };
        if (0.0..1.0).contains(&value) {
            // Nine digits are exact; more are rounded, never up to the whole.
            let parts = (value * f64::from(Fraction::WHOLE)).round() as u32;
            return Some(Fraction(parts.min(Fraction::WHOLE - 1)));
        }
        sink.error(
            &self.span,
            format!("{} is {value}", self.name()),
            "expected a share of the cycle: at least 0 and less than 1",
            format!("write for example `{} = {example}`", self.key),
        );
        None
    }

    /// A decimal number, whole or not.
    pub(crate) fn number(&self) -> Option<f64> {
        match self.node.value()? {
            Value::Float(number) => Some(*number.value()),
            Value::Integer(number) => Some(*number.value() as f64),
            _ => None,
        }
    }

    /// A table.
    pub(crate) fn table(&self, sink: &mut Sink, what: &str) -> Option<Table<'a>> {
        let items = match self.node {
            Node::Item(item) => item.as_table_like(),
            Node::Value(value) => value.as_inline_table().map(|table| table as &dyn TableLike),
        };
        match items {
            Some(items) => Some(Table::new(items, self.span.clone(), what)),
            None => {
                self.wrong(sink, "a table", format!("write it with braces: {} = {{ … }}", self.key));
                None
            }
        }
    }

    /// The elements of a list.
    pub(crate) fn list(&self, sink: &mut Sink, expected: &str) -> Option<Vec<Entry<'a>>> {
        let Some(Value::Array(array)) = self.node.value() else {
            self.wrong(sink, expected, format!("write it with brackets: {} = [ … ]", self.key));
            return None;
        };
        let element = |value: &'a Value| Entry {
            node: Node::Value(value),
            span: value.span().unwrap_or_else(|| self.span.clone()),
            key: self.key.clone(),
            what: self.what.clone(),
        };
        Some(array.iter().map(element).collect())
    }
}

/// The known word that `word` was probably meant to be.
pub(crate) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let word = word.to_lowercase();
    let distance = |known: &str| strsim::damerau_levenshtein(&word, &known.to_lowercase());
    let (near, away) = known.iter().map(|known| (*known, distance(known))).min_by_key(|(_, away)| *away)?;
    let longer = near.chars().count().max(word.chars().count());
    // Two slips in a short word, more in a long one, never all of it; or one is the beginning of the other.
    let related = word.len() >= 3 && (near.to_lowercase().starts_with(&word) || word.starts_with(&near.to_lowercase()));
    ((away <= 1 + longer / 4 && away < longer) || related).then_some(near)
}

/// "`a`, `b` and `c`".
pub(crate) fn list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.as_slice() {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
