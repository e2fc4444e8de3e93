//! A small reader of the Prometheus text format 0.0.4 that is strict about what it reads.
#![allow(dead_code, unreachable_pub)] // each user takes a part of it

use std::collections::{BTreeMap, BTreeSet};

/// Samples by name and labels as written, in the order of the page.
#[derive(Debug, Default)]
pub struct Page {
    pub samples: BTreeMap<String, f64>,
    /// Kind by family.
    pub kinds: BTreeMap<String, String>,
}

impl Page {
    /// Reads a page; says which line is wrong.
    pub fn read(text: &str) -> Result<Self, String> {
        if !text.ends_with('\n') {
            return Err("the last line does not end".into());
        }
        let (mut page, mut helps, mut family) = (Self::default(), BTreeSet::new(), String::new());
        for (number, line) in text.lines().enumerate() {
            let wrong = |why: &str| format!("line {}: {why}: {line}", number + 1);
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, words) = rest.split_once(' ').ok_or_else(|| wrong("no words"))?;
                if words.is_empty() || !helps.insert(name.to_owned()) {
                    return Err(wrong("no words, or told twice"));
                }
                family = name.to_owned();
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').ok_or_else(|| wrong("no kind"))?;
                if name != family || page.kinds.insert(name.to_owned(), kind.to_owned()).is_some() {
                    return Err(wrong("does not follow its HELP, or told twice"));
                }
                if !["counter", "gauge", "histogram"].contains(&kind) || (kind == "counter") != name.ends_with("_total")
                {
                    return Err(wrong("no kind that fits the name"));
                }
            } else {
                let (key, value) = line.rsplit_once(' ').ok_or_else(|| wrong("no value"))?;
                let value: f64 = value.parse().map_err(|_| wrong("no number"))?;
                let name = key.split('{').next().unwrap_or_default();
                let suffixes: &[&str] = match page.kinds.get(&family).map(String::as_str) {
                    Some("histogram") => &["_bucket", "_sum", "_count"],
                    Some(_) => &[""],
                    None => return Err(wrong("a sample before its TYPE")),
                };
                if !name.starts_with("downbeat_") || !suffixes.iter().any(|suffix| name == family.clone() + suffix) {
                    return Err(wrong("not of its family"));
                }
                if !labels_are_well_formed(&key[name.len()..]) {
                    return Err(wrong("labels"));
                }
                if page.samples.insert(key.to_owned(), value).is_some() {
                    return Err(wrong("a second time"));
                }
            }
        }
        page.histograms_grow()?;
        Ok(page)
    }

    /// The sample of this name that has all these labels.
    pub fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let has = |key: &str| labels.iter().all(|(label, value)| key.contains(&format!("{label}=\"{value}\"")));
        let is = |key: &str| key.split('{').next() == Some(name) && has(key);
        self.samples.iter().find(|(key, _)| is(key)).map(|(_, value)| *value)
    }

    /// Every histogram's buckets grow with their bound, and the last is the count.
    fn histograms_grow(&self) -> Result<(), String> {
        let mut buckets: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
        for (key, count) in &self.samples {
            if let Some((series, rest)) = key.split_once("le=\"")
                && let Some((bound, _)) = rest.split_once('"')
            {
                let bound = bound.replace("+Inf", "inf").parse().map_err(|_| format!("no bound: {key}"))?;
                buckets.entry(series.to_owned()).or_default().push((bound, *count));
            }
        }
        for (series, mut found) in buckets {
            found.sort_by(|a, b| a.0.total_cmp(&b.0));
            let count = series.trim_end_matches(',').replacen("_bucket{", "_count{", 1) + "}";
            let whole = self.samples.get(&count).ok_or_else(|| format!("no {count}"))?;
            let grows = found.windows(2).all(|pair| pair[0].1 <= pair[1].1 && pair[0].0 < pair[1].0);
            if !grows || found.last() != Some(&(f64::INFINITY, *whole)) {
                return Err(format!("{series}: {found:?}, count {whole}"));
            }
        }
        Ok(())
    }
}

/// `{name="value",…}` with escapes, or nothing.
fn labels_are_well_formed(text: &str) -> bool {
    let Some(mut rest) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) else { return text.is_empty() };
    let mut names = BTreeSet::new();
    loop {
        let Some((name, after)) = rest.split_once("=\"") else { return false };
        let good = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        if !good || !names.insert(name) {
            return false;
        }
        let mut escaped = false;
        let end = after.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let Some(end) = end else { return false };
        match after[end + 1..].strip_prefix(',') {
            Some(more) => rest = more,
            None => return after[end + 1..].is_empty(),
        }
    }
}
