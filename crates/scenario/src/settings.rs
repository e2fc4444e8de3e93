//! Values put in place of those of a file: `time.offset=50us`, so that one file serves a sweep.
//!
//! The text is changed, not the model: what a run folder keeps as `scenario.toml` says all by itself what was run.

use std::fmt;
use std::str::FromStr;

use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

/// One value: KEY=VALUE. The key is written with dots; an element of a list is named by its place, from 0, or by its `name`.
/// What is no TOML value by itself is a text: quantities need no quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    path: Vec<String>,
    value: String,
}

/// Why a setting could not be read or put into a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingError {
    /// There is no `=`, or an empty part of a key; the setting as given.
    Form(String),
    /// The file has nothing of this name there: the setting, the part of the key, what is there.
    Nothing(String, String, Vec<String>),
    /// The part of the key before this one has a value that has no parts: the setting, the part.
    NoParts(String, String),
}

impl SettingError {
    /// How to mend it.
    pub(crate) fn mend(&self) -> String {
        match self {
            Self::Form(_) => "write for example `--set time.offset=50us` or `--set ports.0.queue.root=fifo`".into(),
            Self::Nothing(_, _, there) if there.is_empty() => {
                "write it into the file: there is nothing in its place".into()
            }
            Self::Nothing(_, _, there) => format!("there are {}", there.join(", ")),
            Self::NoParts(_, part) => format!("end the key before `.{part}`, and give the whole value"),
        }
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(text) => write!(f, "--set {text}: this is not KEY=VALUE"),
            Self::Nothing(text, part, _) => write!(f, "--set {text}: the file has no `{part}` there"),
            Self::NoParts(text, part) => write!(f, "--set {text}: what stands before `.{part}` has no parts"),
        }
    }
}

impl std::error::Error for SettingError {}

impl FromStr for Setting {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        let form = || SettingError::Form(text.to_owned());
        let (key, value) = text.split_once('=').ok_or_else(form)?;
        let path: Vec<_> = key.trim().split('.').map(str::to_owned).collect();
        if path.iter().any(String::is_empty) {
            return Err(form());
        }
        Ok(Self { path, value: value.trim().to_owned() })
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.path.join("."), self.value)
    }
}

/// The text with these values in it, comments and order kept. A text that is no TOML is given back as it is: reading it says
/// what is wrong with it.
pub(crate) fn with_settings(text: &str, settings: &[Setting]) -> Result<String, SettingError> {
    let Ok(mut document) = text.parse::<DocumentMut>() else { return Ok(text.to_owned()) };
    for setting in settings {
        let value = setting.value.parse().unwrap_or_else(|_| Value::from(setting.value.as_str()));
        let put = Put { setting, value };
        put.into_table(document.as_table_mut(), &setting.path)?;
    }
    Ok(document.to_string())
}

/// One value on its way to its place.
struct Put<'a> {
    setting: &'a Setting,
    value: Value,
}

impl Put<'_> {
    fn into_table(self, table: &mut dyn TableLike, path: &[String]) -> Result<(), SettingError> {
        let Some((part, rest)) = path.split_first() else { return Ok(()) };
        if rest.is_empty() {
            match table.get_mut(part) {
                Some(item) => replace(item, self.value),
                None => _ = table.insert(part, Item::Value(self.value)),
            }
            return Ok(());
        }
        if table.get(part).is_none() {
            let there = table.iter().map(|(key, _)| key.to_owned()).collect();
            return Err(self.nothing(part, there));
        }
        match table.get_mut(part) {
            Some(item) => self.into_item(item, rest),
            None => Ok(()),
        }
    }

    fn into_item(self, item: &mut Item, path: &[String]) -> Result<(), SettingError> {
        match item {
            Item::Table(table) => self.into_table(table, path),
            Item::Value(value) => self.into_value(value, path),
            Item::ArrayOfTables(tables) => {
                let Some((part, rest)) = path.split_first() else { return Ok(()) };
                let named = |table: &Table| table.get("name").and_then(Item::as_str).map(str::to_owned);
                let names: Vec<_> = (0..).zip(tables.iter()).map(|(at, table)| (at, named(table))).collect();
                let place = names.iter().position(|(at, name)| name.as_ref() == Some(part) || part == &at.to_string());
                let there = names.into_iter().map(|(at, name): (usize, _)| name.unwrap_or_else(|| at.to_string()));
                let Some(table) = place.and_then(|place| tables.get_mut(place)) else {
                    return Err(self.nothing(part, there.collect()));
                };
                if rest.is_empty() {
                    return Err(SettingError::NoParts(self.setting.to_string(), part.clone()));
                }
                self.into_table(table, rest)
            }
            Item::None => Ok(()),
        }
    }

    fn into_value(self, value: &mut Value, path: &[String]) -> Result<(), SettingError> {
        let Some((part, rest)) = path.split_first() else {
            let decor = value.decor().clone();
            *value = self.value;
            *value.decor_mut() = decor;
            return Ok(());
        };
        match value {
            Value::InlineTable(table) => self.into_table(table, path),
            Value::Array(list) => {
                let count = list.len();
                match part.parse::<usize>().ok().and_then(|place| list.get_mut(place)) {
                    Some(element) => self.into_value(element, rest),
                    None => Err(self.nothing(part, (0..count).map(|place| place.to_string()).collect())),
                }
            }
            _ => Err(SettingError::NoParts(self.setting.to_string(), part.clone())),
        }
    }

    fn nothing(&self, part: &str, there: Vec<String>) -> SettingError {
        SettingError::Nothing(self.setting.to_string(), part.to_owned(), there)
    }
}

/// Puts a value where another stood; what stood around that one, a comment for example, stays.
fn replace(item: &mut Item, mut value: Value) {
    if let Some(before) = item.as_value() {
        *value.decor_mut() = before.decor().clone();
    }
    *item = Item::Value(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# A comment.
name = \"one\" # the first

[time]
cycle = \"1ms\"    # and another
window = 0.2

[[ports]]
at = \"*\"
queue = { root = \"mqprio\", classes = [{}, { cbs = { idle_slope = \"110%\" } }] }

[[streams]]
name = \"loop\"
variables = 3
";

    fn set(settings: &[&str]) -> Result<String, SettingError> {
        let settings: Vec<Setting> = settings.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        with_settings(TEXT, &settings)
    }

    #[test]
    fn nothing_else_changes() {
        assert_eq!(set(&[]).unwrap(), TEXT);
        for (setting, before, after) in [
            ("name=two", "\"one\"", "\"two\""),
            ("time.cycle=250us", "\"1ms\"", "\"250us\""),
            ("time.window=0.3", "0.2", "0.3"),
            ("ports.0.queue.classes.1.cbs.idle_slope=75%", "\"110%\"", "\"75%\""),
            (
                "ports.0.queue={ root = \"fifo\" }",
                &TEXT[TEXT.find("{ root").unwrap()..TEXT.find("\n\n[[str").unwrap()],
                "{ root = \"fifo\" }",
            ),
            ("streams.loop.variables=8", "variables = 3", "variables = 8"),
            ("streams.0.variables=8", "variables = 3", "variables = 8"),
            ("streams.loop.launch=false", "variables = 3\n", "variables = 3\nlaunch = false\n"),
        ] {
            assert_eq!(set(&[setting]).unwrap(), TEXT.replacen(before, after, 1), "{setting}");
        }
        let both = set(&["name=two", "time.window=0"]).unwrap();
        assert_eq!(both, TEXT.replace("one", "two").replace("0.2", "0"));
    }

    #[test]
    fn what_is_not_there_is_named() {
        for (setting, words) in [
            ("name", "not KEY=VALUE"),
            ("time..cycle=1ms", "not KEY=VALUE"),
            ("times.cycle=1ms", "no `times` there"),
            ("streams.other.launch=false", "no `other` there"),
            ("streams.loop=1", "has no parts"),
            ("ports.0.queue.classes.2.cbs=1", "no `2` there"),
            ("name.first=1", "has no parts"),
        ] {
            let error = set(&[setting]).unwrap_err();
            assert!(error.to_string().contains(words), "{setting}: {error}");
            assert!(!error.mend().is_empty());
        }
        assert_eq!(set(&["streams.other.launch=false"]).unwrap_err().mend(), "there are loop");
    }

    #[test]
    fn no_toml_is_left_to_the_reader() {
        let setting = "time.cycle=1ms".parse().unwrap();
        assert_eq!(with_settings("name = one", &[setting]).unwrap(), "name = one");
    }
}
