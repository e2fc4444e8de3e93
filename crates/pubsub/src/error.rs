//! What can be wrong with a layout, with a patch and with a received message.

use core::fmt;

use wire::{BuiltInType, EthernetError, MAX_DATA_SET_MESSAGES, MAX_PAYLOAD_BYTES, Short};

/// Why there is no template, reader or endpoint for a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayoutError {
    /// The NetworkMessage does not fit one Ethernet frame.
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// No DataSetMessage.
    NoDataSets,
    /// More DataSetMessages than the Count byte of the PayloadHeader can tell.
    TooManyDataSets {
        /// How many.
        count: usize,
    },
    /// A DataSetMessage without fields.
    NoFields {
        /// Index of the DataSetMessage.
        data_set: usize,
    },
    /// WriterGroupId 0, invalid on the wire (OPC 10000-14 §7.2.4.4).
    WriterGroupIdZero,
    /// NetworkMessageNumber 0; the numbers begin with 1 (OPC 10000-14 §7.2.4.4).
    NetworkMessageNumberZero,
    /// DataSetWriterId 0 in a PayloadHeader, invalid on the wire.
    DataSetWriterIdZero {
        /// Index of the DataSetMessage.
        data_set: usize,
    },
    /// The Ethernet header is none.
    Ethernet(EthernetError),
    /// The first DataSetMessage does not end with as many UInt64 fields as the endpoint has variables.
    Variables {
        /// Variables of the endpoint.
        variables: u16,
        /// UInt64 fields at the end of its first DataSetMessage.
        found: usize,
    },
    /// A DataSetWriterId that no DataSetMessage of the layout has.
    UnknownWriter {
        /// The id.
        writer_id: u16,
    },
    /// What the role needs is missing.
    Missing {
        /// "write" or "read".
        part: &'static str,
        /// Name of the role.
        role: &'static str,
    },
    /// The role cannot use what was given.
    Unused {
        /// "write" or "read".
        part: &'static str,
        /// Name of the role.
        role: &'static str,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes } => write!(
                f,
                "NetworkMessage of {bytes} bytes: expected at most {MAX_PAYLOAD_BYTES}, what one Ethernet frame carries; \
                 use fewer or smaller fields, or RawData"
            ),
            Self::NoDataSets => write!(f, "NetworkMessage without DataSetMessage: expected at least one"),
            Self::TooManyDataSets { count } => write!(
                f,
                "PayloadHeader for {count} DataSetMessages: expected at most {MAX_DATA_SET_MESSAGES}; \
                 spread them over several NetworkMessages"
            ),
            Self::NoFields { data_set } => {
                write!(f, "DataSetMessage {data_set} has no fields: expected at least one")
            }
            Self::WriterGroupIdZero => write!(f, "WriterGroupId 0: expected 1 to 65535"),
            Self::NetworkMessageNumberZero => write!(f, "NetworkMessageNumber 0: expected 1 to 65535"),
            Self::DataSetWriterIdZero { data_set } => {
                write!(f, "DataSetWriterId 0 of DataSetMessage {data_set}: expected 1 to 65535")
            }
            Self::Ethernet(error) => write!(f, "Ethernet header: {error}"),
            Self::Variables { variables, found } => write!(
                f,
                "endpoint with {variables} variables: expected 1 or more, and a first DataSetMessage that ends with as \
                 many UInt64 fields; it ends with {found}"
            ),
            Self::UnknownWriter { writer_id } => write!(
                f,
                "DataSetWriterId {writer_id} is wanted, but no DataSetMessage of the layout has it; add it to the layout"
            ),
            Self::Missing { part, role } => write!(f, "endpoint of role {role}: expected a layout to {part}"),
            Self::Unused { part, role } => {
                write!(f, "endpoint of role {role} has a layout to {part} that it never uses; leave it out")
            }
        }
    }
}

impl core::error::Error for LayoutError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Ethernet(error) => Some(error),
            _ => None,
        }
    }
}

impl From<EthernetError> for LayoutError {
    fn from(error: EthernetError) -> Self {
        Self::Ethernet(error)
    }
}

impl From<Short> for LayoutError {
    fn from(short: Short) -> Self {
        Self::TooLong { bytes: short.offset.saturating_add(short.bytes) }
    }
}

/// Why a template was not patched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchError {
    /// The layout has no such field or header member.
    Absent,
    /// The field is of another type.
    Type {
        /// Type of the field.
        expected: BuiltInType,
        /// Type of the value.
        found: BuiltInType,
    },
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => write!(f, "the layout has no such field or header member"),
            Self::Type { expected, found } => write!(f, "{found} for a field of type {expected}"),
        }
    }
}

impl core::error::Error for PatchError {}

/// The first byte in which a message differs from its layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// Offset in the UADP message.
    pub offset: usize,
    /// The constant byte of the layout; `None` when any byte would do, or when the message should have ended here.
    pub expected: Option<u8>,
    /// The byte of the message; `None` when the message ends here.
    pub found: Option<u8>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, .. } = self;
        match (self.expected, self.found) {
            (Some(expected), Some(found)) => {
                write!(f, "byte {offset} is {found:#04x}: expected {expected:#04x}")
            }
            (None, Some(found)) => write!(f, "byte {offset} is {found:#04x}: expected the end of the message"),
            (Some(expected), None) => write!(f, "the message ends at byte {offset}: expected {expected:#04x}"),
            (None, None) => write!(f, "the message ends at byte {offset}: expected more"),
        }
    }
}

impl core::error::Error for Mismatch {}
