//! Writing: a row group for every [`BATCH_ROWS`] rows, column after column.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};

use super::{BATCH_ROWS, FORMAT_KEY, FRAMES_FORMAT, from_parquet, schema};
use crate::FrameRow;

/// Writes rows; `names` are those of the streams by index.
///
/// Nothing but the rows goes in, neither the time nor the machine: equal rows give equal bytes.
pub(crate) fn write(out: impl Write + std::marker::Send, names: &[&str], rows: &[FrameRow]) -> io::Result<()> {
    if let Some(row) = rows.iter().find(|row| usize::from(row.stream) >= names.len()) {
        let told = format!("a row is of stream {}, which has no name", row.stream);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, told));
    }
    let names: Vec<_> = names.iter().map(|&name| ByteArray::from(name)).collect();
    write_table(out, &names, rows).map_err(from_parquet)?.flush()
}

fn write_table<W: Write + std::marker::Send>(
    out: W,
    names: &[ByteArray],
    rows: &[FrameRow],
) -> Result<W, ParquetError> {
    let format = KeyValue::new(FORMAT_KEY.to_owned(), FRAMES_FORMAT.to_owned());
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(vec![format]))
        .build();
    let mut writer = SerializedFileWriter::new(out, schema()?, Arc::new(properties))?;
    for rows in rows.chunks(BATCH_ROWS) {
        let mut group = writer.next_row_group()?;
        write_group(&mut group, names, rows)?;
        group.close()?;
    }
    writer.into_inner()
}

/// Writes the columns in the order of the schema. Unsigned numbers are stored as the signed ones of the same bits.
fn write_group(
    group: &mut SerializedRowGroupWriter<'_, impl Write + std::marker::Send>,
    names: &[ByteArray],
    rows: &[FrameRow],
) -> Result<(), ParquetError> {
    required::<ByteArrayType>(group, rows.iter().map(|row| names[usize::from(row.stream)].clone()))?;
    required::<Int64Type>(group, rows.iter().map(|row| row.cycle))?;
    required::<Int64Type>(group, rows.iter().map(|row| row.counter.cast_signed()))?;
    optional::<Int32Type>(group, rows.iter().map(|row| row.sequence.map(u32::cast_signed)))?;
    required::<Int32Type>(group, rows.iter().map(|row| row.bytes.cast_signed()))?;
    optional::<Int64Type>(group, rows.iter().map(|row| row.launch))?;
    for point in 0..8 {
        optional::<Int64Type>(group, rows.iter().map(|row| row.t[point]))?;
    }
    required::<Int32Type>(group, rows.iter().map(|row| row.flags.cast_signed()))
}

pub(crate) fn required<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, impl Write + std::marker::Send>,
    values: impl Iterator<Item = T::T>,
) -> Result<(), ParquetError> {
    column::<T>(group, &values.collect::<Vec<_>>(), None)
}

/// A column with nulls: the values that are there, and for every row a level, 1 where there is one.
pub(crate) fn optional<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, impl Write + std::marker::Send>,
    values: impl Iterator<Item = Option<T::T>>,
) -> Result<(), ParquetError> {
    let (mut levels, mut present) = (Vec::new(), Vec::new());
    for value in values {
        levels.push(i16::from(value.is_some()));
        present.extend(value);
    }
    column::<T>(group, &present, Some(&levels))
}

fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, impl Write + std::marker::Send>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let too_many = || ParquetError::General("the schema has fewer columns than a row".to_owned());
    let mut column = group.next_column()?.ok_or_else(too_many)?;
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}
