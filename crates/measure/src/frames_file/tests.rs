use std::fs::File;
use std::sync::Arc;

use parquet::basic::Type;
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::SchemaDescriptor;

use super::*;
use crate::FrameRow;

const NAMES: [&str; 2] = ["flow1", "flow2"];

fn row(number: usize) -> FrameRow {
    let some = !number.is_multiple_of(3);
    FrameRow {
        stream: u16::from(number.is_multiple_of(2)),
        cycle: number as i64 - 5,
        counter: u64::MAX - number as u64,
        sequence: some.then_some(u32::MAX),
        bytes: u32::MAX,
        launch: some.then_some(i64::MIN),
        t: [0, 1, 2, 3, 4, 5, 6, 7].map(|point| (number % 8 != point).then_some((number * 10 + point) as i64)),
        flags: u32::MAX - number as u32,
    }
}

#[test]
fn row_groups_are_bounded_and_all_values_come_back() {
    let rows: Vec<_> = (0..=BATCH_ROWS).map(row).collect();
    let file = tempfile::tempfile().unwrap();
    write(&file, &NAMES, &rows).unwrap();
    let groups = SerializedFileReader::new(file.try_clone().unwrap()).unwrap();
    let groups: Vec<_> = groups.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!(groups, [BATCH_ROWS as i64, 1]);
    assert!(read(file, &NAMES).unwrap() == rows);
}

#[test]
fn a_row_of_no_stream_is_refused() {
    let error = write(Vec::new(), &[], &[row(0)]).unwrap_err();
    assert!(error.to_string().contains("has no name"), "{error}");
}

/// A file as another program may write it: two rows of 7 and "flow2", the second null in the columns `nulls`.
fn foreign(schema: &str, nulls: &[&str]) -> File {
    let format = KeyValue::new(FORMAT_KEY.to_owned(), FRAMES_FORMAT.to_owned());
    let properties = Arc::new(WriterProperties::builder().set_key_value_metadata(Some(vec![format])).build());
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let descriptions = SchemaDescriptor::new(Arc::clone(&schema));
    let file = tempfile::tempfile().unwrap();
    let mut writer = SerializedFileWriter::new(&file, schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for description in descriptions.columns() {
        let mut column = group.next_column().unwrap().unwrap();
        let null = nulls.contains(&description.name());
        let count = if null { 1 } else { 2 };
        let levels =
            (description.max_def_level() > 0).then_some(if null { &[1, 0] } else { &[1, 1] }).map(<[i16; 2]>::as_slice);
        let text = ByteArray::from("flow2");
        let written = match description.physical_type() {
            Type::INT32 => column.typed::<Int32Type>().write_batch(&[7, 7][..count], levels, None),
            Type::INT64 => column.typed::<Int64Type>().write_batch(&[7, 7][..count], levels, None),
            _ => column.typed::<ByteArrayType>().write_batch(&[text.clone(), text][..count], levels, None),
        };
        written.unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    file
}

#[test]
fn copies_of_other_programs_are_read() {
    // All nullable, another order, one column more, older annotations.
    let mut lines: Vec<_> = SCHEMA.lines().filter(|line| line.contains(';')).map(str::to_owned).collect();
    lines.reverse();
    let copy = format!("message copy {{ OPTIONAL INT64 index; {} }}", lines.join("\n"));
    let copy = copy.replace("REQUIRED", "OPTIONAL").replace("INTEGER(32, false)", "UINT_32").replace("STRING", "UTF8");
    let rows = read(foreign(&copy, &["index", "t3", "sequence"]), &NAMES).unwrap();
    let first = FrameRow {
        stream: 1,
        cycle: 7,
        counter: 7,
        sequence: Some(7),
        bytes: 7,
        launch: Some(7),
        t: [Some(7); 8],
        flags: 7,
    };
    let mut second = FrameRow { sequence: None, ..first.clone() };
    second.t[2] = None;
    assert_eq!(rows, [first, second]);

    let error = read(foreign(&copy, &["counter"]), &NAMES).unwrap_err();
    assert!(matches!(&error, FramesError::Column(text) if text == "column `counter` has empty values"), "{error:?}");
}

#[test]
fn wrong_columns_are_told() {
    let told = |from: &str, to: &str| match read(foreign(&SCHEMA.replace(from, to), &[]), &NAMES) {
        Err(FramesError::Column(text)) => text,
        other => panic!("{other:?}"),
    };
    assert_eq!(told("OPTIONAL INT64 t4;", ""), "column `t4` is missing");
    assert_eq!(told("INT64 t4;", "group t4 { REQUIRED INT64 t4; }"), "column `t4` is missing");
    assert_eq!(
        told("counter (INTEGER(64, false))", "counter"),
        "column `counter` has type INT64 (signed 64 bit), expected INT64 (unsigned 64 bit)"
    );
    assert_eq!(told("(STRING)", ""), "column `stream` has type BYTE_ARRAY (plain), expected BYTE_ARRAY (text)");
    assert_eq!(
        told("INT64 launch", "INT64 launch (TIMESTAMP(NANOS, true))").split(", ").last(),
        Some("expected INT64 (signed 64 bit)")
    );
}

#[test]
fn a_stream_without_a_name_is_told() {
    let error = read(foreign(SCHEMA, &[]), &["flow1"]).unwrap_err();
    assert!(matches!(&error, FramesError::Stream(name) if name == "flow2"), "{error:?}");
}
