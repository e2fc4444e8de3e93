//! `frames.parquet`: the rows of a run as a table, format "downbeat/frames/1".
//!
//! Columns: `stream` (name), `cycle`, `counter`, `sequence`, `bytes`, `launch`, `t1` … `t8` (nanoseconds TAI, null when
//! absent), `flags` (bits of [`crate::flags`]). The metadata of the file carries `format`.

mod pages;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::io;

use parquet::errors::ParquetError;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;

pub(crate) use read::{FramesError, Group, guarded, open, read};
pub(crate) use write::{optional, required, write};

/// The format that `frames.parquet` names.
pub(crate) const FRAMES_FORMAT: &str = "downbeat/frames/1";

pub(crate) const FORMAT_KEY: &str = "format";
const INSTANTS: [&str; 8] = ["t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8"];
/// Rows encoded or decoded at once, and in a row group: bounds what writing and reading need beside the rows.
pub(crate) const BATCH_ROWS: usize = 1 << 16;

/// Columns in the order in which they are written.
const SCHEMA: &str = "
    message frames {
        REQUIRED BYTE_ARRAY stream (STRING);
        REQUIRED INT64 cycle;
        REQUIRED INT64 counter (INTEGER(64, false));
        OPTIONAL INT32 sequence (INTEGER(32, false));
        REQUIRED INT32 bytes (INTEGER(32, false));
        OPTIONAL INT64 launch;
        OPTIONAL INT64 t1;
        OPTIONAL INT64 t2;
        OPTIONAL INT64 t3;
        OPTIONAL INT64 t4;
        OPTIONAL INT64 t5;
        OPTIONAL INT64 t6;
        OPTIONAL INT64 t7;
        OPTIONAL INT64 t8;
        REQUIRED INT32 flags (INTEGER(32, false));
    }";

fn schema() -> Result<TypePtr, ParquetError> {
    parse_message_type(SCHEMA).map(TypePtr::new)
}

/// The operating system's error inside parquet's, so that a full disk is told as such.
pub(crate) fn from_parquet(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(inner) => io::Error::other(inner),
        },
        error => io::Error::other(error),
    }
}
