//! Reading: row group after row group, in batches of [`BATCH_ROWS`] rows.
//!
//! Columns are found by name. A file that another program has copied is read too: columns may stand in another order,
//! more may be there, and one that is never null may be declared nullable.

use std::any::Any;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::basic::{ConvertedType, IntType, LogicalType, Type};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

use super::pages::Pages;
use super::{BATCH_ROWS, FORMAT_KEY, FRAMES_FORMAT, INSTANTS, from_parquet, schema};
use crate::FrameRow;

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

impl From<ParquetError> for FramesError {
    fn from(error: ParquetError) -> Self {
        match from_parquet(error) {
            error if error.raw_os_error().is_some() => Self::Io(error),
            error => Self::Broken(error.to_string()),
        }
    }
}

/// Reads rows; `names` are those of the streams by index.
pub(crate) fn read(file: File, names: &[&str]) -> Result<Vec<FrameRow>, FramesError> {
    guarded(|| read_table(file, names))
}

/// Reads, and takes a panic for a damaged file.
pub(crate) fn guarded<T>(read: impl FnOnce() -> Result<T, FramesError>) -> Result<T, FramesError> {
    // The parquet reader is meant to return errors, but a damaged file must not end the program if it does not.
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        let said = message(&*panic);
        Err(FramesError::Broken(said.unwrap_or_else(|| "its content contradicts itself".to_owned())))
    })
}

fn message(panic: &(dyn Any + std::marker::Send)) -> Option<String> {
    panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()))
}

/// Opens a table of this format; gives its size too.
pub(crate) fn open(file: File, expected: &str) -> Result<(SerializedFileReader<File>, u64), FramesError> {
    let size = file.metadata().map_err(FramesError::Io)?.len();
    let reader = SerializedFileReader::new(file)?;
    let metadata = reader.metadata().file_metadata();
    let mut pairs = metadata.key_value_metadata().into_iter().flatten();
    let format = pairs.find(|pair| pair.key == FORMAT_KEY).and_then(|pair| pair.value.clone());
    if format.as_deref() != Some(expected) {
        return Err(FramesError::Format(format));
    }
    Ok((reader, size))
}

fn read_table(file: File, names: &[&str]) -> Result<Vec<FrameRow>, FramesError> {
    let (reader, size) = open(file, FRAMES_FORMAT)?;
    let metadata = reader.metadata().file_metadata();
    let expected = SchemaDescriptor::new(schema()?);
    let streams: HashMap<&[u8], u16> = names.iter().zip(0..).map(|(name, index)| (name.as_bytes(), index)).collect();
    let mut rows = Vec::new();
    for index in 0..reader.num_row_groups() {
        let group = reader.get_row_group(index)?;
        Group { group: &*group, size, expected: &expected }.read(&streams, &mut rows)?;
    }
    if i64::try_from(rows.len()).ok() != Some(metadata.num_rows()) {
        return Err(FramesError::Broken(format!("{} rows of {}", rows.len(), metadata.num_rows())));
    }
    Ok(rows)
}

/// A row group being read.
pub(crate) struct Group<'a> {
    pub(crate) group: &'a dyn RowGroupReader,
    /// Bytes of the file.
    pub(crate) size: u64,
    /// The schema as it is written.
    pub(crate) expected: &'a SchemaDescriptor,
}

/// What a row holds before its columns are read.
const BLANK: FrameRow =
    FrameRow { stream: 0, cycle: 0, counter: 0, sequence: None, bytes: 0, launch: None, t: [None; 8], flags: 0 };

impl Group<'_> {
    /// How many rows it has.
    pub(crate) fn rows(&self) -> Result<usize, FramesError> {
        usize::try_from(self.group.metadata().num_rows())
            .map_err(|_| FramesError::Broken("a row group has fewer than no rows".to_owned()))
    }

    /// Appends the rows of the group.
    fn read(&self, streams: &HashMap<&[u8], u16>, rows: &mut Vec<FrameRow>) -> Result<(), FramesError> {
        let mut left = self.rows()?;
        let mut stream = self.column::<ByteArrayType>("stream", left)?;
        let mut cycle = self.column::<Int64Type>("cycle", left)?;
        let mut counter = self.column::<Int64Type>("counter", left)?;
        let mut sequence = self.column::<Int32Type>("sequence", left)?;
        let mut bytes = self.column::<Int32Type>("bytes", left)?;
        let mut launch = self.column::<Int64Type>("launch", left)?;
        let mut instants = Vec::new();
        for name in INSTANTS {
            instants.push(self.column::<Int64Type>(name, left)?);
        }
        let mut flags = self.column::<Int32Type>("flags", left)?;
        while left > 0 {
            let start = rows.len();
            rows.resize(start + left.min(BATCH_ROWS), BLANK);
            let batch = &mut rows[start..];
            left -= batch.len();
            let mut unknown = None;
            stream.fill(batch, |row, name| match streams.get(name.data()) {
                Some(&stream) => row.stream = stream,
                None => unknown = Some(name.clone()),
            })?;
            if let Some(name) = unknown {
                return Err(match str::from_utf8(name.data()) {
                    Ok(name) => FramesError::Stream(name.to_owned()),
                    Err(_) => FramesError::Broken("a stream's name is no UTF-8 text".to_owned()),
                });
            }
            cycle.fill(batch, |row, &value| row.cycle = value)?;
            counter.fill(batch, |row, &value| row.counter = value.cast_unsigned())?;
            sequence.fill(batch, |row, &value| row.sequence = Some(value.cast_unsigned()))?;
            bytes.fill(batch, |row, &value| row.bytes = value.cast_unsigned())?;
            launch.fill(batch, |row, &value| row.launch = Some(value))?;
            for (point, instant) in instants.iter_mut().enumerate() {
                instant.fill(batch, |row, &value| row.t[point] = Some(value))?;
            }
            flags.fill(batch, |row, &value| row.flags = value.cast_unsigned())?;
        }
        Ok(())
    }

    /// The column `name` of a group of so many rows, when it is there and of the expected type.
    pub(crate) fn column<T: DataType>(&self, name: &'static str, rows: usize) -> Result<Column<T>, FramesError> {
        let named = |column: &ColumnDescriptor| matches!(column.path().parts(), [only] if only == name);
        let schema = self.group.metadata().schema_descr();
        let place = schema.columns().iter().position(|column| named(column));
        let place = place.ok_or_else(|| FramesError::Column(format!("column `{name}` is missing")))?;
        let found = schema.column(place);
        let expected = self.expected.columns().iter().find(|column| named(column));
        let expected = expected.ok_or_else(|| FramesError::Column(format!("column `{name}` is not of the format")))?;
        let (is, should) = (type_name(&found), type_name(expected));
        if is != should {
            return Err(FramesError::Column(format!("column `{name}` has type {is}, expected {should}")));
        }
        self.check_place(name, self.group.metadata().column(place))?;
        let nullable = expected.max_def_level() > 0;
        let pages = Pages::new(self.group.get_column_page_reader(place)?, rows);
        let reader = ColumnReaderImpl::new(found, Box::new(pages));
        Ok(Column { name, nullable, rows, left: rows, reader, levels: Vec::new(), values: Vec::new() })
    }

    /// Checks that the column's bytes are within the file: the library asks for their memory before it reads them.
    fn check_place(&self, name: &str, column: &ColumnChunkMetaData) -> Result<(), FramesError> {
        let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let end = u64::try_from(start).ok().zip(u64::try_from(column.compressed_size()).ok());
        match end.and_then(|(start, length)| start.checked_add(length)) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(FramesError::Broken(format!("column `{name}` lies beyond the end"))),
        }
    }
}

/// A column of a row group being read.
pub(crate) struct Column<T: DataType> {
    name: &'static str,
    nullable: bool,
    /// Rows of the row group, and how many of them are not read yet.
    rows: usize,
    left: usize,
    reader: ColumnReaderImpl<T>,
    /// For each row read at once 1 where it has a value; empty when the file's column cannot be null.
    levels: Vec<i16>,
    /// Its values without the nulls.
    values: Vec<T::T>,
}

impl<T: DataType> Column<T> {
    /// Reads the next value of each of the rows and sets it, where there is one.
    pub(crate) fn fill<R>(&mut self, batch: &mut [R], mut set: impl FnMut(&mut R, &T::T)) -> Result<(), FramesError> {
        self.left -= batch.len();
        if self.next(batch.len())? < batch.len() {
            return Err(FramesError::Broken(format!("column `{}` has fewer than {} rows", self.name, self.rows)));
        }
        if self.levels.is_empty() {
            batch.iter_mut().zip(&self.values).for_each(|(row, value)| set(row, value));
        } else if self.nullable || self.values.len() == batch.len() {
            let present = batch.iter_mut().zip(&self.levels).filter(|&(_, &level)| level > 0);
            present.zip(&self.values).for_each(|((row, _), value)| set(row, value));
        } else {
            return Err(FramesError::Column(format!("column `{}` has empty values", self.name)));
        }
        if self.left == 0 && self.next(1)? > 0 {
            return Err(FramesError::Broken(format!("column `{}` has more than {} rows", self.name, self.rows)));
        }
        Ok(())
    }

    /// Reads at most so many rows and gives how many were there.
    fn next(&mut self, count: usize) -> Result<usize, FramesError> {
        self.levels.clear();
        self.values.clear();
        let (rows, ..) = self.reader.read_records(count, Some(&mut self.levels), None, &mut self.values)?;
        Ok(rows)
    }
}

/// The type of a column for comparing and telling. Writers give its meaning in a newer or an older way, or both.
fn type_name(column: &ColumnDescriptor) -> String {
    let stored = column.physical_type();
    let meaning = match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::String), _) | (None, ConvertedType::UTF8) => "text".to_owned(),
        (Some(LogicalType::Integer(IntType { bit_width, is_signed })), _) => {
            format!("{} {bit_width} bit", if *is_signed { "signed" } else { "unsigned" })
        }
        (None, ConvertedType::UINT_32) => "unsigned 32 bit".to_owned(),
        (None, ConvertedType::UINT_64) => "unsigned 64 bit".to_owned(),
        (None, ConvertedType::NONE | ConvertedType::INT_32 | ConvertedType::INT_64) => match stored {
            Type::INT32 => "signed 32 bit".to_owned(),
            Type::INT64 => "signed 64 bit".to_owned(),
            _ => "plain".to_owned(),
        },
        (Some(logical), _) => format!("{logical:?}"),
        (None, converted) => converted.to_string(),
    };
    let many = if column.max_rep_level() > 0 { "list of " } else { "" };
    format!("{many}{stored} ({meaning})")
}
