//! The general decoder against frames that other stacks made or confirmed, good and bad.

mod common;

use std::path::Path;

use common::{number, text, unhex};
use downbeat_pubsub::{
    AnyPublisherId, DataSetKind, DataSetView, DecodeError, Encoding, EthernetHeader, FieldType, FieldValue,
    NetworkMessageView, PublisherId, RawField, Value,
};
use serde_json::{Value as Json, json};

const GOOD: [&str; 10] = [
    "fixed-layouts",
    "live",
    "mixed",
    "datavalue",
    "delta-event-keepalive",
    "promoted",
    "rawdata",
    "configured-size",
    "types",
    "dynamic",
];

fn cases(file: &str) -> Vec<Json> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/vectors/{file}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file: Json = serde_json::from_str(&text).expect("the vectors are JSON");
    file["cases"].as_array().expect("cases").clone()
}

/// The UADP message of a case.
fn uadp(case: &Json) -> Vec<u8> {
    let bytes = unhex(text(&case["hex"]));
    if case["context"].get("frame").is_none() {
        return bytes;
    }
    EthernetHeader::parse(&bytes).map_or(Vec::new(), |(_, _, uadp)| uadp.to_vec())
}

/// Metadata of RawData; `None` for what has no fixed size.
fn raw_fields(data_set: &Json) -> Option<Vec<RawField>> {
    let raw = |field: &Json| {
        let name = text(&field["builtInType"]);
        if field["valueRank"] != -1 {
            return None;
        }
        let fixed = FieldType::ALL.iter().find(|ty| ty.to_string() == name).map(|ty| RawField::Fixed(*ty));
        let longest = || field.get("maxStringLength").map(number).filter(|&length| length > 0);
        fixed.or_else(|| Some(RawField::Bytes(4 + longest()? as usize)))
    };
    data_set.get("fields")?.as_array()?.iter().map(raw).collect()
}

/// What the context says of the DataSet at `index` or of this writer.
fn configured(case: &Json, index: usize, writer_id: Option<u16>) -> Json {
    let sets = case["context"]["dataSets"].as_array().cloned().unwrap_or_default();
    let found = match writer_id {
        Some(id) => sets.into_iter().find(|set| number(&set["dataSetWriterId"]) == u64::from(id)),
        None => sets.into_iter().nth(index),
    };
    found.unwrap_or(Json::Null)
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let four = |chunk: &[u8]| {
        let word = (0..3).fold(0_u32, |word, i| word << 8 | u32::from(chunk.get(i).copied().unwrap_or(0)));
        let sign = |i: usize| {
            if i > chunk.len() { '=' } else { ALPHABET[(word >> (18 - 6 * i)) as usize & 63] as char }
        };
        (0..4).map(sign).collect::<String>()
    };
    bytes.chunks(3).map(four).collect()
}

/// The JSON form of a value of fixed size.
fn scalar(value: Value) -> Json {
    let float = |value: f64, text: String| match value {
        value if value.is_nan() => json!("NaN"),
        value if value.is_infinite() => json!(if value > 0.0 { "Infinity" } else { "-Infinity" }),
        _ => serde_json::from_str(&text).expect("a number"),
    };
    match value {
        Value::Boolean(v) => json!(v),
        Value::SByte(v) => json!(v),
        Value::Byte(v) => json!(v),
        Value::Int16(v) => json!(v),
        Value::UInt16(v) => json!(v),
        Value::Int32(v) => json!(v),
        Value::UInt32(v) | Value::StatusCode(v) => json!(v),
        Value::Int64(v) | Value::DateTime(v) => json!(v.to_string()),
        Value::UInt64(v) => json!(v.to_string()),
        Value::Float(v) => float(v.into(), format!("{v:?}")),
        Value::Double(v) => float(v, format!("{v:?}")),
        Value::Guid(v) => json!(v.to_string()),
    }
}

/// The same number, however it is written.
fn same(ty: FieldType, expected: &Json, found: &Json) -> bool {
    let number = |json: &Json| json.as_f64();
    expected == found
        || match ty {
            FieldType::Float => number(expected).is_some_and(|v| number(found).is_some_and(|f| f as f32 == v as f32)),
            FieldType::Double => number(expected).is_some_and(|v| number(found) == Some(v)),
            _ => false,
        }
}

fn type_id(name: &str) -> u8 {
    const OTHERS: [(&str, u8); 11] = [
        ("String", 12),
        ("ByteString", 15),
        ("XmlElement", 16),
        ("NodeId", 17),
        ("ExpandedNodeId", 18),
        ("QualifiedName", 20),
        ("LocalizedText", 21),
        ("ExtensionObject", 22),
        ("DataValue", 23),
        ("Variant", 24),
        ("DiagnosticInfo", 25),
    ];
    let fixed = FieldType::ALL.iter().find(|ty| ty.to_string() == name).map(|ty| ty.id());
    fixed.or_else(|| OTHERS.iter().find(|(other, _)| *other == name).map(|(_, id)| *id)).expect("a type")
}

fn assert_value(id: &str, expected: &Json, found: &FieldValue<'_>) {
    let name = expected.get("type").map_or("Null", text);
    match found {
        FieldValue::Null => assert_eq!(name, "Null", "{id}"),
        FieldValue::Fixed { ty, .. } => {
            let value = scalar(found.value().expect("a value"));
            assert_eq!(name, ty.to_string(), "{id}");
            assert!(same(*ty, &expected["value"], &value), "{id}: expected {expected}, found {value}");
        }
        FieldValue::Bytes { type_id: found_id, bytes } => {
            // Reserved types are read as ByteString.
            assert!(type_id(name) == *found_id || (name == "ByteString" && *found_id > 25), "{id}: {expected}");
            let value = match (name, bytes) {
                (_, None) => Json::Null,
                ("ByteString", Some(bytes)) => json!(base64(bytes)),
                (_, Some(bytes)) => json!(std::str::from_utf8(bytes).expect("text")),
            };
            assert_eq!(expected["value"], value, "{id}");
        }
        FieldValue::Array { type_id: found_id, count, bytes } => {
            assert!(type_id(name) == *found_id || (name == "ByteString" && *found_id > 25), "{id}: {expected}");
            let elements = expected["array"].as_array();
            assert_eq!(elements.map(Vec::len), *count, "{id}");
            if let (Some(ty), Some(elements)) = (FieldType::from_id(*found_id), elements) {
                for (element, bytes) in elements.iter().zip(bytes.chunks(ty.bytes())) {
                    let value = scalar(Value::read(ty, bytes, 0).expect("a value"));
                    assert!(same(ty, element, &value), "{id}: expected {element}, found {value}");
                }
            }
        }
        FieldValue::Other { type_id: found_id, .. } => assert_eq!(type_id(name), *found_id, "{id}: {expected}"),
        FieldValue::Raw(bytes) => {
            let (length, padded) = bytes.split_first_chunk().expect("a length");
            let length = usize::try_from(i32::from_le_bytes(*length)).ok();
            let value = match (name, length.map(|length| &padded[..length])) {
                (_, None) => Json::Null,
                ("ByteString", Some(bytes)) => json!(base64(bytes)),
                (_, Some(bytes)) => json!(std::str::from_utf8(bytes).expect("text")),
            };
            assert_eq!(expected["value"], value, "{id}");
        }
    }
}

fn assert_headers(id: &str, expected: &Json, view: &NetworkMessageView<'_>) {
    let publisher = view.publisher_id.map(|publisher| match publisher {
        AnyPublisherId::Fixed(PublisherId::Byte(v)) => json!({"type": "Byte", "value": v}),
        AnyPublisherId::Fixed(PublisherId::UInt16(v)) => json!({"type": "UInt16", "value": v}),
        AnyPublisherId::Fixed(PublisherId::UInt32(v)) => json!({"type": "UInt32", "value": v}),
        AnyPublisherId::Fixed(PublisherId::UInt64(v)) => json!({"type": "UInt64", "value": v.to_string()}),
        AnyPublisherId::String(v) => json!({"type": "String", "value": v}),
    });
    assert_eq!(expected.get("publisherId"), publisher.as_ref(), "{id}");
    let class = view.data_set_class_id.map(|class| json!(class.to_string()));
    assert_eq!(expected.get("dataSetClassId"), class.as_ref(), "{id}");
    let group = view.group.map(|group| {
        let mut json = json!({});
        let mut put = |name: &str, value: Option<u32>| {
            if let Some(value) = value {
                json[name] = json!(value);
            }
        };
        put("writerGroupId", group.writer_group_id.map(u32::from));
        put("groupVersion", group.group_version);
        put("networkMessageNumber", group.network_message_number.map(u32::from));
        put("sequenceNumber", group.sequence_number.map(u32::from));
        json
    });
    assert_eq!(expected.get("groupHeader"), group.as_ref(), "{id}");
    let ids = view.writer_ids().map(|ids| json!({"dataSetWriterIds": ids.collect::<Vec<_>>()}));
    assert_eq!(expected.get("payloadHeader"), ids.as_ref(), "{id}");
    let timestamp = view.timestamp.map(|ticks| json!(ticks.to_string()));
    assert_eq!(expected.get("timestamp"), timestamp.as_ref(), "{id}");
    assert_eq!(expected.get("picoSeconds"), view.pico_seconds.map(|v| json!(v)).as_ref(), "{id}");
    let promoted: Option<Vec<_>> = view.promoted_fields().map(|fields| fields.map(|f| f.expect(id)).collect());
    assert_eq!(expected.get("promotedFields").is_some(), promoted.is_some(), "{id}");
    for (expected, found) in
        expected["promotedFields"].as_array().into_iter().flatten().zip(promoted.unwrap_or_default())
    {
        assert_value(id, expected, &found);
    }
}

fn assert_data_set_header(id: &str, expected: &Json, view: &DataSetView<'_>) {
    let kind = match view.kind {
        DataSetKind::KeyFrame => "keyFrame",
        DataSetKind::DeltaFrame => "deltaFrame",
        DataSetKind::Event => "event",
        DataSetKind::KeepAlive => "keepAlive",
    };
    let encoding = match view.encoding {
        Encoding::Variant => "variant",
        Encoding::RawData => "rawData",
        Encoding::DataValue => "dataValue",
    };
    assert_eq!((text(&expected["type"]), text(&expected["fieldEncoding"])), (kind, encoding), "{id}");
    assert_eq!(expected["valid"], json!(view.valid), "{id}");
    let member = |name: &str, value: Option<Json>| assert_eq!(expected.get(name), value.as_ref(), "{id}: {name}");
    member("sequenceNumber", view.sequence_number.map(|v| json!(v)));
    member("timestamp", view.timestamp.map(|v| json!(v.to_string())));
    member("picoSeconds", view.pico_seconds.map(|v| json!(v)));
    member("status", view.status.map(|v| json!(v)));
    member("majorVersion", view.major_version.map(|v| json!(v)));
    member("minorVersion", view.minor_version.map(|v| json!(v)));
}

/// Walks over the whole message, as far as it goes; `look` sees every DataSetMessage and its fields.
fn walk(
    case: &Json,
    bytes: &[u8],
    mut look: impl FnMut(usize, Result<(&DataSetView<'_>, &[downbeat_pubsub::Field<'_>]), DecodeError>),
) -> Result<usize, DecodeError> {
    let view = NetworkMessageView::parse(bytes)?;
    if let Some(promoted) = view.promoted_fields() {
        promoted.collect::<Result<Vec<_>, _>>()?;
    }
    let mut data_sets = view.data_sets()?;
    let known = case["context"]["dataSets"].as_array().map_or(1, Vec::len);
    let (mut padding, mut index) = (0, 0);
    let count = data_sets.count().unwrap_or(known);
    while index < count {
        let id = view.writer_ids().and_then(|mut ids| ids.nth(index));
        let set = configured(case, index, id);
        let size = set.get("configuredSize").map(|size| number(size) as usize).filter(|&size| size > 0);
        let raw = raw_fields(&set);
        let data_set =
            match data_sets.next(size.filter(|_| count > 1 || view.writer_ids().is_none())).expect("one more") {
                Ok(data_set) => data_set,
                Err(error) if error.is_other_kind() && count > 1 => {
                    look(index, Err(error));
                    index += 1;
                    continue;
                }
                Err(error) => return Err(error),
            };
        let mut fields = data_set.fields(raw.as_deref())?;
        let values = fields.by_ref().collect::<Result<Vec<_>, _>>()?;
        if data_set.valid && data_set.body_bytes().is_some() {
            padding += fields.finish()?;
        }
        data_sets.continue_at(fields.position());
        look(index, Ok((&data_set, &values)));
        index += 1;
    }
    Ok(padding + data_sets.finish()?)
}

#[test]
fn every_good_frame_decodes_to_its_description() {
    let (mut decoded, mut beyond) = (0, 0);
    for case in GOOD.into_iter().flat_map(cases) {
        let (id, expected) = (text(&case["id"]), &case["description"]);
        let messages = expected["messages"].as_array().expect("messages");
        let in_scope = messages.iter().enumerate().all(|(index, message)| {
            let writer_id = expected["payloadHeader"]["dataSetWriterIds"][index].as_u64().map(|id| id as u16);
            let raw =
                message["fieldEncoding"] == "rawData" && message["type"] == "keyFrame" && message["valid"] == true;
            !raw || message["heartbeat"] == true || raw_fields(&configured(&case, index, writer_id)).is_some()
        });
        if !in_scope {
            beyond += 1;
            continue;
        }
        let bytes = uadp(&case);
        assert_headers(id, expected, &NetworkMessageView::parse(&bytes).expect(id));
        let padding = walk(&case, &bytes, |index, found| {
            let message = &messages[index];
            let Ok((data_set, fields)) = found else {
                assert_eq!(message["type"], "skipped", "{id}");
                return;
            };
            assert_data_set_header(id, message, data_set);
            let expected = message["fields"].as_array().cloned().unwrap_or_default();
            assert_eq!(expected.len(), fields.len(), "{id}");
            for (place, (expected, found)) in expected.iter().zip(fields).enumerate() {
                let index = expected.get("index").map_or(place as u64, number);
                let field = expected.get("field").unwrap_or(expected);
                assert_eq!(u64::from(found.index), index, "{id}");
                if data_set.encoding == Encoding::DataValue {
                    assert_value(id, field.get("value").unwrap_or(&json!({"type": "Null"})), &found.value);
                    assert_eq!(field.get("status").map(|v| number(v) as u32), found.status, "{id}");
                } else {
                    assert_value(id, field, &found.value);
                }
            }
        })
        .unwrap_or_else(|error| panic!("{id}: {error}"));
        let told = messages.iter().chain([expected]).filter_map(|part| part.get("padding")).map(number).sum::<u64>();
        let invalid = messages.iter().filter(|message| message["valid"] == false).count();
        assert!(padding as u64 == told || invalid > 0, "{id}: {padding} bytes of padding, not {told}");
        decoded += 1;
    }
    // Beyond are RawData of fields without a fixed size.
    assert_eq!((decoded, beyond), (859, 22));
}

#[test]
fn every_bad_frame_is_refused_where_it_is_bad() {
    let (mut refused, mut early, mut taken) = (0, 0, Vec::new());
    for case in cases("malformed") {
        let id = text(&case["id"]).to_owned();
        if case["context"].get("security").is_some() || case.get("hex").is_none() {
            continue;
        }
        let bytes = uadp(&case);
        let mut skipped = None;
        let found = match walk(&case, &bytes, |_, found| skipped = found.err().or(skipped)) {
            Err(error) => Some(error),
            Ok(_) => skipped,
        };
        match found {
            None => taken.push(id),
            Some(error) => {
                refused += 1;
                let header = unhex(text(&case["hex"])).len() - bytes.len();
                let place = |at: usize| case["offset"].get(at).map(|at| number(at) as usize);
                if let (Some(first), Some(last)) = (place(0), place(1)) {
                    let at = error.offset + header;
                    assert!(at <= last, "{id}: byte {at} is after {last}: {error}");
                    // A Guid or the ids of a PayloadHeader are one item here, several there.
                    early += usize::from(at < first);
                }
            }
        }
    }
    // Of these the EtherType is wrong, or it is within a field whose bytes are not looked into.
    let others = ["truncated-raw-017", "raw-string-over-max-huge", "ethernet-tagged-arp", "ethernet-swapped-ethertype"];
    assert_eq!((refused, taken), (341, others.map(str::to_owned).to_vec()));
    assert!(early < refused / 6, "{early} of {refused} are found before the faulty item");
}

/// A generator good enough for damage: the same bytes each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

#[test]
fn no_damage_makes_it_panic() {
    let mut random = Random(1);
    let (mut good, mut bad) = (0, 0);
    for case in GOOD.into_iter().chain(["malformed"]).flat_map(cases).filter(|case| case.get("hex").is_some()) {
        let bytes = uadp(&case);
        for _ in 0..40 {
            let mut damaged = bytes.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(damaged.len() + 1);
                match random.below(4) {
                    0 => damaged.truncate(at),
                    1 => damaged.insert(at, random.below(256) as u8),
                    2 if at < damaged.len() => damaged[at] = [0, 1, 0x7F, 0x80, 0xFF][random.below(5)],
                    _ if at < damaged.len() => damaged[at] ^= 1 << random.below(8),
                    _ => {}
                }
            }
            match walk(&case, &damaged, |_, _| {}) {
                Ok(_) => good += 1,
                Err(error) => {
                    assert!(error.offset <= damaged.len(), "{error}");
                    bad += 1;
                }
            }
        }
    }
    assert!(good > 5_000 && bad > 5_000, "{good} good, {bad} bad: the damage is too great or too small");
}
