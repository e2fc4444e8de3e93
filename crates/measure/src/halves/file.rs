//! `ends.parquet`: the facts of the ends that a role played, format "downbeat/ends/1".
//!
//! Columns: `stream` (name), `end` (0 writer, 1 reader), `what`, and the numbers `v1` … `v8`, null where a fact has
//! fewer. `facts.rs` says what they mean. The metadata of the file carries `format`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::FileReader;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, SchemaDescriptor, TypePtr};

use super::facts::{Fact, VALUES, What};
use crate::collect::NONE;
use crate::frames_file::{BATCH_ROWS, FORMAT_KEY, FramesError, Group, from_parquet, guarded, open, optional, required};

/// The format that `ends.parquet` names.
pub(crate) const ENDS_FORMAT: &str = "downbeat/ends/1";

const NUMBERS: [&str; VALUES] = ["v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8"];

fn schema() -> Result<TypePtr, ParquetError> {
    let numbers: String = NUMBERS.iter().map(|name| format!("OPTIONAL INT64 {name};\n")).collect();
    let text = format!(
        "message ends {{ REQUIRED BYTE_ARRAY stream (STRING); REQUIRED INT32 end; REQUIRED BYTE_ARRAY what (STRING);\n\
         {numbers} }}"
    );
    parse_message_type(&text).map(TypePtr::new)
}

/// Writes facts; `names` are those of the streams by index.
pub(crate) fn write(
    out: impl Write + std::marker::Send,
    names: &[&str],
    facts: impl Iterator<Item = Fact>,
) -> io::Result<()> {
    write_table(out, names, facts).map_err(from_parquet)?.flush()
}

fn write_table<W: Write + std::marker::Send>(
    out: W,
    names: &[&str],
    mut facts: impl Iterator<Item = Fact>,
) -> Result<W, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(vec![KeyValue::new(FORMAT_KEY.to_owned(), ENDS_FORMAT.to_owned())]));
    for name in NUMBERS {
        // Instants and counters grow by nearly the same from one to the next.
        let path = ColumnPath::from(name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    let mut writer = SerializedFileWriter::new(out, schema()?, Arc::new(properties.build()))?;
    let named = |fact: &Fact| ByteArray::from(names.get(usize::from(fact.stream)).copied().unwrap_or_default());
    let mut batch = Vec::new();
    loop {
        batch.clear();
        batch.extend(facts.by_ref().take(BATCH_ROWS));
        if batch.is_empty() {
            return writer.into_inner();
        }
        let mut group = writer.next_row_group()?;
        required::<ByteArrayType>(&mut group, batch.iter().map(named))?;
        required::<Int32Type>(&mut group, batch.iter().map(|fact| i32::from(fact.end)))?;
        required::<ByteArrayType>(&mut group, batch.iter().map(|fact| ByteArray::from(fact.what.name())))?;
        for place in 0..VALUES {
            let value = |fact: &Fact| Some(fact.values[place]).filter(|value| *value != NONE);
            optional::<Int64Type>(&mut group, batch.iter().map(value))?;
        }
        group.close()?;
    }
}

/// Reads facts and gives them one by one; of a newer version's facts that this one does not know none is given.
pub(crate) fn read(
    file: File,
    names: &[&str],
    mut take: impl FnMut(Fact) -> Result<(), String>,
) -> Result<(), FramesError> {
    guarded(|| {
        let (reader, size) = open(file, ENDS_FORMAT)?;
        let expected = SchemaDescriptor::new(schema()?);
        let streams: HashMap<&[u8], u16> =
            names.iter().zip(0..).map(|(name, index)| (name.as_bytes(), index)).collect();
        for index in 0..reader.num_row_groups() {
            let group = reader.get_row_group(index)?;
            read_group(&Group { group: &*group, size, expected: &expected }, &streams, &mut take)?;
        }
        Ok(())
    })
}

/// A row while its columns are read.
#[derive(Clone)]
struct Row {
    stream: Option<u16>,
    end: i32,
    what: Option<What>,
    values: [i64; VALUES],
}

fn read_group(
    group: &Group<'_>,
    streams: &HashMap<&[u8], u16>,
    take: &mut impl FnMut(Fact) -> Result<(), String>,
) -> Result<(), FramesError> {
    let mut left = group.rows()?;
    let mut stream = group.column::<ByteArrayType>("stream", left)?;
    let mut end = group.column::<Int32Type>("end", left)?;
    let mut what = group.column::<ByteArrayType>("what", left)?;
    let mut numbers = Vec::new();
    for name in NUMBERS {
        numbers.push(group.column::<Int64Type>(name, left)?);
    }
    while left > 0 {
        let blank = Row { stream: None, end: 0, what: None, values: [NONE; VALUES] };
        let mut batch = vec![blank; left.min(BATCH_ROWS)];
        left -= batch.len();
        stream.fill(&mut batch, |row, name| row.stream = streams.get(name.data()).copied())?;
        end.fill(&mut batch, |row, &value| row.end = value)?;
        what.fill(&mut batch, |row, name| {
            let known = What::NAMES.iter().find(|(_, known)| known.as_bytes() == name.data());
            row.what = known.map(|(what, _)| *what);
        })?;
        for (place, number) in numbers.iter_mut().enumerate() {
            number.fill(&mut batch, |row, &value| row.values[place] = value)?;
        }
        for row in batch {
            let broken = |what: &str| FramesError::Broken(format!("a row of {what}"));
            let stream = row.stream.ok_or_else(|| broken("a stream that run.json has not"))?;
            let end = u8::try_from(row.end).ok().filter(|end| *end < 2).ok_or_else(|| broken("no end of a stream"))?;
            if let Some(what) = row.what {
                take(Fact { stream, end, what, values: row.values }).map_err(FramesError::Broken)?;
            }
        }
    }
    Ok(())
}
