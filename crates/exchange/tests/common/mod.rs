//! Golden files, and texts with something wrong.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::path::PathBuf;

use proptest::prelude::*;
use scenario::Scenario;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// The text of a golden file.
pub(crate) fn golden(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The scenario of a golden file.
pub(crate) fn golden_scenario(name: &str) -> Scenario {
    scenario::read(&golden(name), name).unwrap_or_else(|error| panic!("{}", error.render()))
}

/// Compares with a golden file; `DOWNBEAT_BLESS=1` writes it anew, for a person to read.
pub(crate) fn same(name: &str, text: &str) {
    if std::env::var_os("DOWNBEAT_BLESS").is_some() {
        std::fs::write(path(name), text).unwrap();
    }
    assert_eq!(golden(name), text, "{name}; DOWNBEAT_BLESS=1 takes the new text over");
}

/// A text with bytes taken out, put in or turned into others, as it is still a text.
pub(crate) fn mangled(text: String) -> impl Strategy<Value = String> {
    let change = (
        any::<prop::sample::Index>(),
        0..4u8,
        prop::sample::select(vec![b'"', b'{', b'}', b'[', b',', b'9', b'-', b'e', 0xC3]),
    );
    prop::collection::vec(change, 1..6).prop_map(move |changes| {
        let mut bytes = text.clone().into_bytes();
        for (place, kind, byte) in changes {
            if bytes.is_empty() {
                break;
            }
            let place = place.index(bytes.len());
            match kind {
                0 => _ = bytes.remove(place),
                1 => bytes.insert(place, byte),
                2 => bytes[place] = byte,
                _ => bytes.truncate(place),
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
