//! Another stack, asyncua 2.1.0, reads the same headers and values out of our messages.

mod common;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use downbeat_pubsub::{
    DataSetLayout, FieldEncoding, FieldType, GroupHeaderLayout, NetworkMessageLayout, PublisherId, ReaderLayout, Value,
    WriterTemplate,
};
use serde_json::{Value as Json, json};

/// The interpreter that has asyncua: told, or of the workspace's environment, or the system's.
fn python() -> std::ffi::OsString {
    let environment = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/python");
    std::env::var_os("DOWNBEAT_PYTHON")
        .or_else(|| environment.exists().then(|| environment.into()))
        .unwrap_or_else(|| "python3".into())
}

/// One message: its bytes and what asyncua should make of them.
struct Message {
    name: String,
    line: String,
    expected: Json,
}

impl Message {
    fn new(name: String, layout: &NetworkMessageLayout, uadp: &[u8]) -> Self {
        let types = layout.data_sets.iter().map(|set| match set.encoding {
            FieldEncoding::Variant => String::new(),
            FieldEncoding::RawData => set.fields.iter().map(FieldType::to_string).collect::<Vec<_>>().join(","),
        });
        let line = format!("{} {}", common::hex(uadp), types.collect::<Vec<_>>().join(";"));
        Self { name, line, expected: expected(layout, uadp) }
    }
}

/// asyncua keeps microseconds.
fn ticks(ticks: Option<i64>) -> Json {
    ticks.map_or(Json::Null, |ticks| json!((ticks / 10 * 10).to_string()))
}

fn text(value: Value) -> String {
    match value {
        Value::Boolean(v) => v.to_string(),
        Value::SByte(v) => v.to_string(),
        Value::Byte(v) => v.to_string(),
        Value::Int16(v) => v.to_string(),
        Value::UInt16(v) => v.to_string(),
        Value::Int32(v) => v.to_string(),
        Value::UInt32(v) | Value::StatusCode(v) => v.to_string(),
        Value::Int64(v) => v.to_string(),
        Value::UInt64(v) => v.to_string(),
        Value::Float(v) => common::hex(&v.to_le_bytes()),
        Value::Double(v) => common::hex(&v.to_le_bytes()),
        Value::DateTime(v) => (v / 10 * 10).to_string(),
        Value::Guid(v) => v.to_string(),
    }
}

/// What the layout says of the constant parts, and our own reader of the others.
fn expected(layout: &NetworkMessageLayout, uadp: &[u8]) -> Json {
    let reader = ReaderLayout::new(layout).expect("a layout");
    reader.check(uadp).expect("our own message");
    let publisher = match layout.publisher_id {
        PublisherId::Byte(id) => json!(["Byte", id]),
        PublisherId::UInt16(id) => json!(["UInt16", id]),
        PublisherId::UInt32(id) => json!(["UInt32", id]),
        PublisherId::UInt64(id) => json!(["UInt64", id]),
    };
    let group = layout.group_header.map(|group| {
        json!({
            "writerGroupId": group.writer_group_id,
            "version": group.group_version,
            "number": group.network_message_number,
            "sequence": reader.sequence_number(uadp),
        })
    });
    let sets = layout.data_sets.iter().enumerate().map(|(i, set)| {
        let fields = set.fields.iter().enumerate().map(|(j, ty)| {
            let value = reader.field(uadp, i, j).expect("the field is there");
            json!([ty.to_string(), text(value)])
        });
        json!({
            "valid": true,
            "encoding": format!("{:?}", set.encoding),
            "sequence": reader.data_set_sequence_number(uadp, i),
            "timestamp": ticks(reader.data_set_timestamp(uadp, i)),
            "status": reader.data_set_status(uadp, i),
            "major": set.major_version,
            "minor": set.minor_version,
            "fields": fields.collect::<Vec<_>>(),
        })
    });
    let ids = layout.data_sets.iter().map(|set| set.writer_id).take(if layout.payload_header { usize::MAX } else { 0 });
    json!({
        "publisher": publisher,
        "group": group,
        "writerIds": ids.collect::<Vec<_>>(),
        "timestamp": ticks(reader.timestamp(uadp)),
        "dataSets": sets.collect::<Vec<_>>(),
    })
}

/// Values that are told apart by every byte, and the ends of the ranges.
fn values(ty: FieldType) -> [Value; 2] {
    let guid = |bytes: [u8; 16]| Value::read(FieldType::Guid, &bytes, 0).expect("sixteen bytes");
    match ty {
        FieldType::Boolean => [Value::Boolean(true), Value::Boolean(false)],
        FieldType::SByte => [Value::SByte(-92), Value::SByte(127)],
        FieldType::Byte => [Value::Byte(204), Value::Byte(0)],
        FieldType::Int16 => [Value::Int16(-12_345), Value::Int16(i16::MAX)],
        FieldType::UInt16 => [Value::UInt16(0x0102), Value::UInt16(u16::MAX)],
        FieldType::Int32 => [Value::Int32(-123_456_789), Value::Int32(i32::MIN)],
        FieldType::UInt32 => [Value::UInt32(0x0102_0304), Value::UInt32(u32::MAX)],
        FieldType::Int64 => [Value::Int64(-0x0102_0304_0506_0708), Value::Int64(i64::MIN)],
        FieldType::UInt64 => [Value::UInt64(0x0102_0304_0506_0708), Value::UInt64(u64::MAX)],
        FieldType::Float => [Value::Float(-887_029.4), Value::Float(f32::MIN_POSITIVE)],
        FieldType::Double => [Value::Double(0.1), Value::Double(-5e-324)],
        FieldType::DateTime => [Value::DateTime(133_500_000_000_000_010), Value::DateTime(10)],
        FieldType::Guid => [guid(core::array::from_fn(|i| i as u8 + 1)), guid([0xF0; 16])],
        FieldType::StatusCode => [Value::StatusCode(0x8031_0000), Value::StatusCode(0)],
    }
}

/// Every type, header member and PublisherId that asyncua can read, in both encodings.
fn made() -> Vec<Message> {
    let mut messages = Vec::new();
    let set = |writer_id, encoding, all: bool| DataSetLayout {
        writer_id,
        encoding,
        sequence_number: all,
        timestamp: all,
        status: all,
        major_version: all.then_some(0x2AB5_CDEF),
        minor_version: all.then_some(7),
        fields: FieldType::ALL.into_iter().flat_map(|ty| [ty, ty]).collect(),
    };
    let ids = [PublisherId::Byte(200), PublisherId::UInt16(2234), PublisherId::UInt32(0x0102_0304)];
    for (i, publisher_id) in ids.into_iter().enumerate() {
        for encoding in [FieldEncoding::Variant, FieldEncoding::RawData] {
            for all in [false, true] {
                // Several DataSetMessages only with PayloadHeader: asyncua takes one without it.
                let data_sets = if all {
                    vec![set(5, encoding, true), set(6, encoding, false)]
                } else {
                    vec![set(5, encoding, i == 2)]
                };
                let group = GroupHeaderLayout {
                    writer_group_id: Some(101),
                    group_version: all.then_some(0x2AB5_CDEF),
                    network_message_number: all.then_some(1),
                    sequence_number: all,
                };
                let group_header = (all || i > 0).then_some(group);
                let layout =
                    NetworkMessageLayout { publisher_id, group_header, payload_header: all, timestamp: all, data_sets };
                let mut template = WriterTemplate::new(&layout, None).expect("a layout");
                template.stamp(0x0304, 133_500_000_000_000_000);
                let _ = template.set_data_set_sequence_number(0, 0x0506);
                let _ = template.set_data_set_timestamp(0, 133_600_000_000_000_000);
                let _ = template.set_data_set_status(0, 0x8031);
                for data_set in 0..layout.data_sets.len() {
                    for (field, value) in FieldType::ALL.into_iter().flat_map(values).enumerate() {
                        template.set_field(data_set, field, value).expect("the field is there");
                    }
                }
                messages.push(Message::new(format!("{publisher_id:?} {encoding:?} {all}"), &layout, template.uadp()));
            }
        }
    }
    messages
}

/// The layouts of the papers with a counter in all variables.
fn counters() -> Vec<Message> {
    let make = |name: &str, layout: NetworkMessageLayout, first: usize, variables: usize| {
        let mut template = WriterTemplate::new(&layout, None).expect("a layout");
        let run = template.uint64_run(0, first..first + variables).expect("UInt64 fields");
        template.fill(&run, 0x0102_0304_0506_0708);
        template.stamp(77, 133_500_000_000_000_000);
        Message::new(format!("{name} {variables}"), &layout, template.uadp())
    };
    let sizes = [3, 5, 9, 12, 17, 30, 33, 65, 129, 136, 161, 163];
    let papers = sizes.map(|n| make("papers", NetworkMessageLayout::papers(2234, 101, n), 1, usize::from(n)));
    let fixed = sizes.map(|n| make("fixed", NetworkMessageLayout::periodic_fixed(2234, 101, n), 0, usize::from(n)));
    papers.into_iter().chain(fixed).collect()
}

/// The golden frames but for those that asyncua cannot read: UInt64 as PublisherId (it takes another type number
/// for it) and several DataSetMessages without PayloadHeader (it takes one).
fn golden() -> Vec<Message> {
    let cases = common::cases()
        .into_iter()
        .filter(|case| !matches!(case.layout.publisher_id, PublisherId::UInt64(_)) && case.layout.data_sets.len() == 1);
    cases
        .map(|case| {
            let mut template = WriterTemplate::new(&case.layout, None).expect("a layout");
            common::set_values(&mut template, &case.description);
            Message::new(case.id, &case.layout, template.uadp())
        })
        .collect()
}

#[test]
fn asyncua_agrees_on_every_header_and_field() {
    let mut probe = Command::new(python());
    probe.args(["-c", "from importlib.metadata import version; assert version('asyncua') == '2.1.0'"]);
    if !common::have("Python with asyncua 2.1.0", &mut probe) {
        return;
    }
    let messages: Vec<Message> = made().into_iter().chain(counters()).chain(golden()).collect();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/asyncua_decode.py");
    let mut python =
        Command::new(python()).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Python starts");
    let input: String = messages.iter().map(|message| format!("{}\n", message.line)).collect();
    let mut stdin = python.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = python.wait_with_output().expect("Python ends");
    writer.join().expect("the writing thread ends").expect("Python reads all lines");
    assert!(output.status.success(), "the script failed");
    let lines = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    assert_eq!(lines.lines().count(), messages.len());
    for (line, message) in lines.lines().zip(&messages) {
        let found: Json = serde_json::from_str(line).expect("JSON");
        assert_eq!(found, message.expected, "{}", message.name);
    }
}
