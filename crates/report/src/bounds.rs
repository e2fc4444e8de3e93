//! The bound as the page shows it, read from its published form "downbeat/bound/1".
//!
//! By the form and not by types: whatever a certificate carries for a port becomes a column.

use scenario::Scenario;
use serde_json::{Map, Value};

/// What one model bounds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bounds {
    /// Name of the model.
    pub(crate) model: String,
    /// One entry a stream.
    pub(crate) streams: Vec<StreamBound>,
    /// What the figures take for granted, in sentences.
    pub(crate) assumptions: Vec<String>,
}

/// The bounds of a stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamBound {
    /// Its name.
    pub(crate) name: String,
    /// Bounds by key: `one_way`, `round_trip.wire`, …
    pub(crate) figures: Vec<(String, Figure)>,
    /// The certificate: one row a port.
    pub(crate) ports: Vec<Map<String, Value>>,
    /// The formulas, with this stream's numbers in them.
    pub(crate) certificate: Vec<String>,
    /// Everything else it says: key and text.
    pub(crate) remarks: Vec<(String, String)>,
}

/// A bound.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Figure {
    /// A span: decimal microseconds, rounded up, and the exact fraction of a second.
    Span {
        /// As computed, rounded up.
        us: String,
        /// Exactly.
        exact_s: String,
    },
    /// A number of cycles, elapsed and used.
    Cycles {
        /// From one application phase to the other.
        elapsed: f64,
        /// First and last included.
        used: f64,
    },
    /// None, and why.
    Unbounded(String),
}

impl Figure {
    /// Nanoseconds of a span.
    pub(crate) fn ns(&self) -> Option<f64> {
        match self {
            Self::Span { us, .. } => us.parse::<f64>().ok().map(|us| us * 1e3),
            Self::Cycles { .. } | Self::Unbounded(_) => None,
        }
    }

    fn from_json(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(reason) = text("unbounded") {
            return Some(Self::Unbounded(reason));
        }
        if let Some(cycles) = value.get("cycles") {
            let elapsed = cycles.as_f64()?;
            let used = value.get("used").and_then(Value::as_f64).unwrap_or(elapsed + 1.0);
            return Some(Self::Cycles { elapsed, used });
        }
        Some(Self::Span { us: text("us")?, exact_s: text("exact_s").unwrap_or_default() })
    }
}

impl StreamBound {
    /// The bound of a key.
    pub(crate) fn figure(&self, key: &str) -> Option<&Figure> {
        self.figures.iter().find(|(k, _)| k == key).map(|(_, figure)| figure)
    }
}

impl Bounds {
    /// The bounds of a scenario, the model of packets first.
    pub(crate) fn of(scenario: &Scenario) -> Vec<Self> {
        [calculus::Model::Packet, calculus::Model::Paper]
            .into_iter()
            .filter_map(|model| serde_json::to_value(calculus::bound(scenario, model)).ok())
            .map(|value| Self::from_json(&value))
            .collect()
    }

    /// The bounds of a stream.
    pub(crate) fn stream(&self, name: &str) -> Option<&StreamBound> {
        self.streams.iter().find(|s| s.name == name)
    }

    pub(crate) fn from_json(value: &Value) -> Self {
        let mut bounds = Self::default();
        for (key, value) in value.as_object().into_iter().flatten() {
            match (key.as_str(), value) {
                ("format", _) => {}
                ("model", Value::String(model)) => bounds.model.clone_from(model),
                ("streams", Value::Array(streams)) => {
                    bounds.streams = streams.iter().map(stream_from_json).collect();
                }
                ("assumptions", Value::Array(lines)) => bounds.assumptions = lines.iter().map(plain).collect(),
                _ => {}
            }
        }
        bounds
    }
}

fn stream_from_json(value: &Value) -> StreamBound {
    let mut stream = StreamBound::default();
    for (key, value) in value.as_object().into_iter().flatten() {
        match (key.as_str(), value) {
            ("name", Value::String(name)) => stream.name.clone_from(name),
            ("ports", Value::Array(ports)) => {
                stream.ports = ports.iter().filter_map(Value::as_object).cloned().collect()
            }
            ("certificate", Value::Array(lines)) => stream.certificate = lines.iter().map(plain).collect(),
            (_, Value::Object(inner)) => match Figure::from_json(value) {
                Some(figure) => stream.figures.push((key.clone(), figure)),
                None => {
                    for (name, value) in inner {
                        let key = format!("{key}.{name}");
                        match Figure::from_json(value) {
                            Some(figure) => stream.figures.push((key, figure)),
                            None => stream.remarks.extend(remark(&key, value)),
                        }
                    }
                }
            },
            _ => stream.remarks.extend(remark(key, value)),
        }
    }
    stream
}

fn remark(key: &str, value: &Value) -> Option<(String, String)> {
    let text = plain(value);
    (!text.is_empty()).then(|| (key.to_owned(), text))
}

/// A JSON value as a person reads it.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(plain).filter(|t| !t.is_empty()).collect::<Vec<_>>().join(", "),
        Value::Object(map) => match Figure::from_json(value) {
            Some(Figure::Span { us, exact_s }) if exact_s.is_empty() => format!("{us} µs"),
            Some(Figure::Span { us, exact_s }) => format!("{us} µs (= {exact_s} s)"),
            Some(Figure::Cycles { elapsed, used }) => {
                format!("{} elapsed, {} used", crate::text::cycles(elapsed), crate::text::trimmed(used, 0))
            }
            Some(Figure::Unbounded(reason)) => format!("unbounded: {reason}"),
            None => map
                .iter()
                .map(|(key, value)| (key, plain(value)))
                .filter(|(_, text)| !text.is_empty())
                .map(|(key, text)| format!("{}: {text}", key.replace('_', " ")))
                .collect::<Vec<_>>()
                .join("; "),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_published_form_is_read_with_keys_it_does_not_know() {
        let bounds = Bounds::from_json(&json!({
            "format": "downbeat/bound/1", "model": "packet", "assumptions": ["hosts are punctual"], "new": 1,
            "streams": [{ "name": "loop", "one_way": { "exact_s": "3/6250", "us": "480.000" },
                "round_trip": { "wire": { "unbounded": "port a → b: asked for more than its rate" },
                                "counter": { "cycles": 5 } },
                "wire_scheduled": { "exact_s": "1/2000", "us": "500.000" },
                "ports": [{ "port": "a → b", "delay": { "us": "1.0", "exact_s": "1/1000000" } }] }]
        }));
        let stream = bounds.stream("loop").unwrap();
        assert_eq!(stream.figure("one_way").unwrap().ns(), Some(480_000.0));
        assert_eq!(stream.figure("round_trip.counter"), Some(&Figure::Cycles { elapsed: 5.0, used: 6.0 }));
        assert!(matches!(stream.figure("round_trip.wire"), Some(Figure::Unbounded(why)) if why.contains("rate")));
        assert!(stream.figure("wire_scheduled").is_some());
        assert_eq!(plain(&stream.ports[0]["delay"]), "1.0 µs (= 1/1000000 s)");
        assert_eq!(bounds.assumptions, ["hosts are punctual"]);
    }
}
