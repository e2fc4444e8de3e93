//! The golden frames as layouts and values, and tools that only some machines have.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]

pub mod layouts;

use std::process::Command;

use downbeat_pubsub::{
    DataSetLayout, EthernetHeader, FieldEncoding, FieldType, GroupHeaderLayout, Guid, NetworkMessageLayout,
    PublisherId, ReaderLayout, Value, VlanTag, WriterTemplate,
};
use serde_json::Value as Json;

pub const GOLDEN: &str = include_str!("../vectors/fixed-layouts.json");

/// A golden frame: what it is made of, and its bytes.
pub struct Case {
    pub id: String,
    pub bytes: Vec<u8>,
    pub ethernet: Option<EthernetHeader>,
    pub layout: NetworkMessageLayout,
    pub description: Json,
}

pub fn cases() -> Vec<Case> {
    let file: Json = serde_json::from_str(GOLDEN).expect("the golden frames are JSON");
    file["cases"].as_array().expect("cases").iter().map(case).collect()
}

fn case(json: &Json) -> Case {
    let description = json["description"].clone();
    Case {
        id: text(&json["id"]).to_owned(),
        bytes: unhex(text(&json["hex"])),
        ethernet: description.get("ethernet").map(ethernet),
        layout: layout(&description, &json["context"]),
        description,
    }
}

fn ethernet(json: &Json) -> EthernetHeader {
    let address = |name: &str| {
        let bytes: Vec<u8> =
            text(&json[name]).split('-').map(|byte| u8::from_str_radix(byte, 16).expect("hex")).collect();
        bytes.try_into().expect("six bytes")
    };
    let vlan = json.get("vlan").map(|tag| VlanTag {
        pcp: number(&tag["pcp"]) as u8,
        dei: number(&tag["dei"]) == 1,
        vid: number(&tag["vid"]) as u16,
    });
    EthernetHeader { destination: address("destination"), source: address("source"), vlan }
}

fn layout(description: &Json, context: &Json) -> NetworkMessageLayout {
    let group = |group: &Json| GroupHeaderLayout {
        writer_group_id: group.get("writerGroupId").map(|id| number(id) as u16),
        group_version: group.get("groupVersion").map(|version| number(version) as u32),
        network_message_number: group.get("networkMessageNumber").map(|n| number(n) as u16),
        sequence_number: group.get("sequenceNumber").is_some(),
    };
    let publisher = &description["publisherId"];
    let id = number(&publisher["value"]);
    NetworkMessageLayout {
        publisher_id: match text(&publisher["type"]) {
            "Byte" => PublisherId::Byte(id as u8),
            "UInt16" => PublisherId::UInt16(id as u16),
            "UInt32" => PublisherId::UInt32(id as u32),
            "UInt64" => PublisherId::UInt64(id),
            other => panic!("PublisherId of type {other}"),
        },
        group_header: description.get("groupHeader").map(group),
        payload_header: description.get("payloadHeader").is_some(),
        timestamp: description.get("timestamp").is_some(),
        data_sets: messages(description)
            .iter()
            .enumerate()
            .map(|(i, m)| data_set(m, i, description, context))
            .collect(),
    }
}

pub fn messages(description: &Json) -> &[Json] {
    description["messages"].as_array().expect("messages")
}

fn data_set(message: &Json, index: usize, description: &Json, context: &Json) -> DataSetLayout {
    assert_eq!(text(&message["type"]), "keyFrame");
    let configured = &context["dataSets"][index];
    let in_header = &description["payloadHeader"]["dataSetWriterIds"][index];
    let (encoding, fields) = match text(&message["fieldEncoding"]) {
        "variant" => (FieldEncoding::Variant, message["fields"].as_array().expect("fields")),
        "rawData" => (FieldEncoding::RawData, configured["fields"].as_array().expect("metadata")),
        other => panic!("field encoding {other}"),
    };
    DataSetLayout {
        writer_id: number(if in_header.is_null() { &configured["dataSetWriterId"] } else { in_header }) as u16,
        encoding,
        sequence_number: message.get("sequenceNumber").is_some(),
        timestamp: message.get("timestamp").is_some(),
        status: message.get("status").is_some(),
        major_version: message.get("majorVersion").map(|version| number(version) as u32),
        minor_version: message.get("minorVersion").map(|version| number(version) as u32),
        fields: fields
            .iter()
            .map(|field| ty(text(field.get("builtInType").unwrap_or_else(|| &field["type"]))))
            .collect(),
    }
}

/// Patches everything that the description has and the layout leaves open.
pub fn set_values(template: &mut WriterTemplate, description: &Json) {
    if let Some(sequence) = description["groupHeader"].get("sequenceNumber") {
        template.set_sequence_number(number(sequence) as u16).expect("sequence number");
    }
    if let Some(ticks) = description.get("timestamp") {
        template.set_timestamp(signed(ticks)).expect("timestamp");
    }
    for (i, message) in messages(description).iter().enumerate() {
        if let Some(sequence) = message.get("sequenceNumber") {
            template.set_data_set_sequence_number(i, number(sequence) as u16).expect("sequence number");
        }
        if let Some(ticks) = message.get("timestamp") {
            template.set_data_set_timestamp(i, signed(ticks)).expect("timestamp");
        }
        if let Some(status) = message.get("status") {
            template.set_data_set_status(i, number(status) as u16).expect("status");
        }
        for (j, field) in message["fields"].as_array().expect("fields").iter().enumerate() {
            template.set_field(i, j, value(field)).expect("field");
        }
    }
}

/// Compares everything that the reader tells of a message with the description.
pub fn assert_values(id: &str, reader: &ReaderLayout, uadp: &[u8], description: &Json) {
    let maybe = |json: Option<&Json>| json.map(|json| number(json) as u16);
    let sequence = maybe(description["groupHeader"].get("sequenceNumber"));
    assert_eq!(reader.sequence_number(uadp), sequence, "{id}: group sequence number");
    assert_eq!(reader.timestamp(uadp), description.get("timestamp").map(signed), "{id}: timestamp");
    for (i, message) in messages(description).iter().enumerate() {
        let sequence = maybe(message.get("sequenceNumber"));
        assert_eq!(reader.data_set_sequence_number(uadp, i), sequence, "{id}: sequence number of {i}");
        let ticks = message.get("timestamp").map(signed);
        assert_eq!(reader.data_set_timestamp(uadp, i), ticks, "{id}: timestamp of {i}");
        assert_eq!(reader.data_set_status(uadp, i), maybe(message.get("status")), "{id}: status of {i}");
        let fields = message["fields"].as_array().expect("fields");
        for (j, field) in fields.iter().enumerate() {
            assert_eq!(reader.field(uadp, i, j), Some(value(field)), "{id}: field {j} of {i}");
        }
        assert_eq!(reader.field(uadp, i, fields.len()), None, "{id}: no field beyond the last of {i}");
    }
}

pub fn ty(name: &str) -> FieldType {
    *FieldType::ALL.iter().find(|ty| ty.to_string() == name).unwrap_or_else(|| panic!("type {name}"))
}

pub fn value(field: &Json) -> Value {
    let v = &field["value"];
    match ty(text(&field["type"])) {
        FieldType::Boolean => Value::Boolean(v.as_bool().expect("Boolean")),
        FieldType::SByte => Value::SByte(signed(v) as i8),
        FieldType::Byte => Value::Byte(number(v) as u8),
        FieldType::Int16 => Value::Int16(signed(v) as i16),
        FieldType::UInt16 => Value::UInt16(number(v) as u16),
        FieldType::Int32 => Value::Int32(signed(v) as i32),
        FieldType::UInt32 => Value::UInt32(number(v) as u32),
        FieldType::Int64 => Value::Int64(signed(v)),
        FieldType::UInt64 => Value::UInt64(number(v)),
        FieldType::Float => Value::Float(v.to_string().parse().expect("Float")),
        FieldType::Double => Value::Double(v.to_string().parse().expect("Double")),
        FieldType::DateTime => Value::DateTime(signed(v)),
        FieldType::Guid => Value::Guid(guid(text(v))),
        FieldType::StatusCode => Value::StatusCode(number(v) as u32),
    }
}

fn guid(text: &str) -> Guid {
    let hex = unhex(&text.replace('-', ""));
    let (head, tail) = hex.split_at(8);
    Guid {
        data1: u32::from_be_bytes(head[..4].try_into().unwrap()),
        data2: u16::from_be_bytes(head[4..6].try_into().unwrap()),
        data3: u16::from_be_bytes(head[6..].try_into().unwrap()),
        data4: tail.try_into().unwrap(),
    }
}

pub fn text(json: &Json) -> &str {
    json.as_str().unwrap_or_else(|| panic!("{json} is no string"))
}

pub fn number(json: &Json) -> u64 {
    json.as_u64().unwrap_or_else(|| text(json).parse().expect("unsigned"))
}

pub fn signed(json: &Json) -> i64 {
    json.as_i64().unwrap_or_else(|| text(json).parse().expect("signed"))
}

pub fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2));
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Where `tool` is missing: a line on stderr and `false`, or a failure if everything has to be there.
pub fn have(tool: &str, probe: &mut Command) -> bool {
    let found = probe.output().is_ok_and(|output| output.status.success());
    if !found {
        let all = std::env::var_os("DOWNBEAT_REQUIRE_ALL").is_some_and(|value| value == "1");
        assert!(!all, "{tool} is missing; `make test` installs it");
        eprintln!("skipped: {tool} is missing; `make test` installs it");
    }
    found
}
