//! `frames.parquet`: the rows of a run as a table, format "downbeat/frames/1".
//!
//! Columns: `stream` (name), `cycle`, `counter`, `sequence`, `bytes`, `launch`, `t1` … `t8` (nanoseconds TAI, null when
//! absent), `flags` (bits of [`crate::flags`]). The metadata of the schema carries `format`.

use std::any::Any;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use crate::FrameRow;

/// The format that `frames.parquet` names.
pub(crate) const FRAMES_FORMAT: &str = "downbeat/frames/1";

const FORMAT_KEY: &str = "format";
const INSTANTS: [&str; 8] = ["t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8"];
/// Rows encoded at once: bounds what writing needs beside the rows.
const BATCH_ROWS: usize = 1 << 16;

/// Why rows could not be read; the caller adds the file's name.
#[derive(Debug)]
pub(crate) enum FramesError {
    Io(io::Error),
    /// No whole parquet file.
    Broken(String),
    /// Another format than [`FRAMES_FORMAT`], or none.
    Format(Option<String>),
    /// A column is missing, of another type, or null where it may not be.
    Column(String),
    /// A stream that the run does not have.
    Stream(String),
}

fn schema() -> Schema {
    let mut fields = vec![
        Field::new("stream", DataType::Utf8, false),
        Field::new("cycle", DataType::Int64, false),
        Field::new("counter", DataType::UInt64, false),
        Field::new("sequence", DataType::UInt32, true),
        Field::new("bytes", DataType::UInt32, false),
        Field::new("launch", DataType::Int64, true),
    ];
    fields.extend(INSTANTS.map(|name| Field::new(name, DataType::Int64, true)));
    fields.push(Field::new("flags", DataType::UInt32, false));
    Schema::new_with_metadata(fields, HashMap::from([(FORMAT_KEY.to_owned(), FRAMES_FORMAT.to_owned())]))
}

/// Writes rows; `names` are those of the streams by index.
pub(crate) fn write(out: impl Write + std::marker::Send, names: &[&str], rows: &[FrameRow]) -> io::Result<()> {
    let schema = Arc::new(schema());
    let format = KeyValue::new(FORMAT_KEY.to_owned(), FRAMES_FORMAT.to_owned());
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(vec![format]))
        .build();
    let mut writer = ArrowWriter::try_new(out, Arc::clone(&schema), Some(properties)).map_err(from_parquet)?;
    for rows in rows.chunks(BATCH_ROWS) {
        let columns = columns(names, rows)?;
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(from_arrow)?;
        writer.write(&batch).map_err(from_parquet)?;
    }
    writer.into_inner().map_err(from_parquet)?.flush()
}

fn columns(names: &[&str], rows: &[FrameRow]) -> io::Result<Vec<ArrayRef>> {
    let name = |row: &FrameRow| {
        names.get(usize::from(row.stream)).copied().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("a row is of stream {}, which has no name", row.stream))
        })
    };
    let streams = rows.iter().map(name).collect::<io::Result<Vec<_>>>()?;
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(streams)),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.cycle))),
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.counter))),
        Arc::new(rows.iter().map(|row| row.sequence).collect::<UInt32Array>()),
        Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.bytes))),
        Arc::new(rows.iter().map(|row| row.launch).collect::<Int64Array>()),
    ];
    for point in 0..8 {
        columns.push(Arc::new(rows.iter().map(|row| row.t[point]).collect::<Int64Array>()));
    }
    columns.push(Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.flags))));
    Ok(columns)
}

/// The operating system's error inside parquet's, so that a full disk is told as such.
fn from_parquet(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(inner) => io::Error::other(inner),
        },
        error => io::Error::other(error),
    }
}

fn from_arrow(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        error => io::Error::other(error),
    }
}

/// Reads rows; `names` are those of the streams by index.
pub(crate) fn read(file: File, names: &[&str]) -> Result<Vec<FrameRow>, FramesError> {
    // The parquet reader is meant to return errors, but a damaged file must not end the program if it does not.
    catch_unwind(AssertUnwindSafe(|| read_table(file, names))).unwrap_or_else(|panic| {
        let said = message(&*panic);
        Err(FramesError::Broken(said.unwrap_or_else(|| "its content contradicts itself".to_owned())))
    })
}

fn message(panic: &(dyn Any + std::marker::Send)) -> Option<String> {
    panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()))
}

fn read_table(file: File, names: &[&str]) -> Result<Vec<FrameRow>, FramesError> {
    let broken = |error: ParquetError| match from_parquet(error) {
        error if error.raw_os_error().is_some() => FramesError::Io(error),
        error => FramesError::Broken(error.to_string()),
    };
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(broken)?;
    let format = builder.schema().metadata().get(FORMAT_KEY).cloned();
    if format.as_deref() != Some(FRAMES_FORMAT) {
        return Err(FramesError::Format(format));
    }
    let positions: HashMap<&str, u16> = names.iter().zip(0..).map(|(&name, position)| (name, position)).collect();
    let mut rows = Vec::new();
    for batch in builder.with_batch_size(BATCH_ROWS).build().map_err(broken)? {
        let batch = batch.map_err(|error| FramesError::Broken(error.to_string()))?;
        read_batch(&batch, &positions, &mut rows)?;
    }
    Ok(rows)
}

fn read_batch(
    batch: &RecordBatch,
    positions: &HashMap<&str, u16>,
    rows: &mut Vec<FrameRow>,
) -> Result<(), FramesError> {
    let streams = column::<StringArray>(batch, "stream", false)?;
    let cycles = column::<Int64Array>(batch, "cycle", false)?;
    let counters = column::<UInt64Array>(batch, "counter", false)?;
    let sequences = column::<UInt32Array>(batch, "sequence", true)?;
    let bytes = column::<UInt32Array>(batch, "bytes", false)?;
    let launches = column::<Int64Array>(batch, "launch", true)?;
    let flags = column::<UInt32Array>(batch, "flags", false)?;
    let mut instants = Vec::new();
    for name in INSTANTS {
        instants.push(column::<Int64Array>(batch, name, true)?);
    }
    rows.reserve(batch.num_rows());
    for index in 0..batch.num_rows() {
        let name = streams.value(index);
        let &stream = positions.get(name).ok_or_else(|| FramesError::Stream(name.to_owned()))?;
        let mut t = [None; 8];
        for (point, column) in t.iter_mut().zip(&instants) {
            *point = column.is_valid(index).then(|| column.value(index));
        }
        rows.push(FrameRow {
            stream,
            cycle: cycles.value(index),
            counter: counters.value(index),
            sequence: sequences.is_valid(index).then(|| sequences.value(index)),
            bytes: bytes.value(index),
            launch: launches.is_valid(index).then(|| launches.value(index)),
            t,
            flags: flags.value(index),
        });
    }
    Ok(())
}

fn column<'a, T: Array + 'static>(batch: &'a RecordBatch, name: &str, nullable: bool) -> Result<&'a T, FramesError> {
    let column =
        batch.column_by_name(name).ok_or_else(|| FramesError::Column(format!("column `{name}` is missing")))?;
    if !nullable && column.null_count() > 0 {
        return Err(FramesError::Column(format!("column `{name}` has empty values")));
    }
    let wrong = || FramesError::Column(format!("column `{name}` has type {}", column.data_type()));
    column.as_any().downcast_ref::<T>().ok_or_else(wrong)
}
