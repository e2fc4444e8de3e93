//! The samples as a table: `samples-N.parquet`, format "downbeat/ptp-samples/1".

use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde::{Deserialize, Serialize};

use crate::frames_file::{FORMAT_KEY, from_parquet, optional, required};
use crate::store::{ResultsError, write_file};

const ROWS_FORMAT: &str = "downbeat/ptp-samples/1";

const SCHEMA: &str = "
    message samples {
        REQUIRED INT64 at;
        REQUIRED BYTE_ARRAY source (STRING);
        REQUIRED INT64 offset;
        OPTIONAL INT64 delay;
        OPTIONAL INT32 servo;
        OPTIONAL DOUBLE frequency;
        OPTIONAL BYTE_ARRAY port_state (STRING);
        REQUIRED BYTE_ARRAY stamps (STRING);
        OPTIONAL BYTE_ARRAY grandmaster (STRING);
    }";

/// A sample.
#[derive(Debug, Clone, PartialEq)]
pub struct PtpRow {
    /// When it was read, nanoseconds TAI by this host.
    pub at: i64,
    /// `ptp` for the offset to the grandmaster, else the clock that phc2sys keeps.
    pub source: Arc<str>,
    /// Offset, nanoseconds.
    pub offset: i64,
    /// Path delay; of phc2sys, how long the reading took. Nanoseconds.
    pub delay: Option<i64>,
    /// State of the servo as last told: 0 not locked, 1 stepped, 2 locked, 3 locked and stable.
    pub servo: Option<u8>,
    /// Correction of the frequency as last told, parts per billion.
    pub frequency: Option<f64>,
    /// State of the port that follows.
    pub port_state: Option<&'static str>,
    /// Kind of the stamps that the offset rests on.
    pub stamps: &'static str,
    /// The grandmaster.
    pub grandmaster: Option<Arc<str>>,
}

/// Where the samples are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PtpRows {
    /// Files in their order.
    pub files: Vec<String>,
    /// Samples in them.
    pub count: u64,
    /// Samples whose file was removed because there were too many; figures and pictures still hold them.
    pub dropped: u64,
}

/// Writes samples as a table into a folder, by way of a temporary file.
///
/// # Errors
/// When the operating system refuses; a full disk is told as such.
pub fn write_ptp_rows(dir: &Path, name: &str, rows: &[PtpRow]) -> Result<(), ResultsError> {
    write_file(dir, name, |file| write(file, rows).map_err(from_parquet))
}

fn write(file: impl std::io::Write + Send, rows: &[PtpRow]) -> Result<(), ParquetError> {
    let format = KeyValue::new(FORMAT_KEY.to_owned(), ROWS_FORMAT.to_owned());
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(vec![format]))
        .build();
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    required::<Int64Type>(&mut group, rows.iter().map(|row| row.at))?;
    required::<ByteArrayType>(&mut group, rows.iter().map(|row| ByteArray::from(&*row.source)))?;
    required::<Int64Type>(&mut group, rows.iter().map(|row| row.offset))?;
    optional::<Int64Type>(&mut group, rows.iter().map(|row| row.delay))?;
    optional::<Int32Type>(&mut group, rows.iter().map(|row| row.servo.map(i32::from)))?;
    optional::<parquet::data_type::DoubleType>(&mut group, rows.iter().map(|row| row.frequency))?;
    optional::<ByteArrayType>(&mut group, rows.iter().map(|row| row.port_state.map(ByteArray::from)))?;
    required::<ByteArrayType>(&mut group, rows.iter().map(|row| ByteArray::from(row.stamps)))?;
    optional::<ByteArrayType>(&mut group, rows.iter().map(|row| row.grandmaster.as_deref().map(ByteArray::from)))?;
    group.close()?;
    writer.close().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    #[test]
    fn samples_are_a_table_that_others_read() {
        let dir = tempfile::tempdir().unwrap();
        let row = |offset, servo| PtpRow {
            at: 5,
            source: "ptp".into(),
            offset,
            delay: Some(700),
            servo,
            frequency: servo.map(|_| -12.5),
            port_state: Some("SLAVE"),
            stamps: "hardware",
            grandmaster: Some("d61eaf.fffe.4b2c61".into()),
        };
        write_ptp_rows(dir.path(), "samples-1.parquet", &[row(-3, None), row(40, Some(2))]).unwrap();
        let reader =
            SerializedFileReader::new(std::fs::File::open(dir.path().join("samples-1.parquet")).unwrap()).unwrap();
        let rows: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(rows.len(), 2);
        assert!(rows[0].contains("offset: -3") && rows[0].contains("servo: null"), "{rows:?}");
        assert!(rows[1].contains("servo: 2") && rows[1].contains("hardware"), "{rows:?}");
    }
}
