//! Why a message cannot be read.

use core::fmt;

/// What is wrong, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DecodeError {
    /// Where the faulty item begins, in bytes from the start of the UADP message.
    pub offset: usize,
    /// What is wrong with it.
    pub reason: DecodeReason,
}

/// What is wrong with an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DecodeReason {
    /// The message, or the part that its length was given for, ends within the item.
    Short {
        /// Bytes that the item has.
        wanted: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// UADPVersion other than 1.
    Version(u8),
    /// Bits that are reserved, or set without the one that they need.
    Flags(u8),
    /// A type of PublisherId that is reserved, or a String without characters.
    PublisherId,
    /// Secured: needs keys.
    Secured,
    /// A chunk of a message (OPC 10000-14 §7.2.4.4.4): not put together here.
    Chunk,
    /// A discovery message, an action, or a reserved type: no DataSets in it.
    NoData(u8),
    /// A PayloadHeader of no DataSetMessages.
    NoDataSets,
    /// A DataSetMessage of a reserved type, an action, or of a type that cannot have this field encoding.
    DataSetType(u8),
    /// RawData of a DataSet whose types are not known.
    NoMetadata,
    /// More or fewer RawData than the types that are known.
    Metadata,
    /// A Variant of a type that does not exist, or that cannot stand there.
    Type(u8),
    /// A NodeId, ExtensionObject, DataValue, LocalizedText or DiagnosticInfo of a form that does not exist.
    Form(u8),
    /// A FieldIndex that there was before in this delta frame, or one of 1024 and more that does not ascend.
    Index(u16),
    /// A negative length other than −1.
    Length(i32),
    /// Array dimensions without an array, below 1, or that do not multiply to its length.
    Dimensions,
    /// Text that is not UTF-8.
    Text,
    /// Variants within Variants, deeper than anybody needs.
    Nesting,
    /// Something other than zeros between the last field and the end.
    Rest(u8),
}

impl DecodeError {
    pub(crate) const fn new(offset: usize, reason: DecodeReason) -> Self {
        Self { offset, reason }
    }

    /// Whether the message may be good but is of a kind that a receiver of data has to pass over.
    pub const fn is_other_kind(&self) -> bool {
        matches!(
            self.reason,
            DecodeReason::Secured | DecodeReason::Chunk | DecodeReason::NoData(_) | DecodeReason::DataSetType(_)
        )
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: ", self.offset)?;
        match self.reason {
            DecodeReason::Short { wanted, left } => write!(f, "expected {wanted} bytes, {left} are left"),
            DecodeReason::Version(version) => write!(f, "UADPVersion {version}: expected 1"),
            DecodeReason::Flags(flags) => {
                write!(f, "flags {flags:#04x}: reserved bits, or one without another it needs")
            }
            DecodeReason::PublisherId => {
                write!(f, "PublisherId: expected a Byte, UInt16, UInt32, UInt64 or a String that is not empty")
            }
            DecodeReason::Secured => write!(f, "secured message: expected SecurityMode None, or decrypt it before"),
            DecodeReason::Chunk => write!(f, "chunk of a message: expected whole messages"),
            DecodeReason::NoData(flags) => write!(f, "ExtendedFlags2 {flags:#04x}: expected DataSetMessages"),
            DecodeReason::NoDataSets => write!(f, "PayloadHeader with Count 0: expected at least 1"),
            DecodeReason::DataSetType(bits) => write!(
                f,
                "DataSetMessage of type and encoding {bits:#04x}: expected a key frame, delta frame, event or keep-alive"
            ),
            DecodeReason::NoMetadata => {
                write!(f, "RawData: the types of the fields have to be known; give the metadata")
            }
            DecodeReason::Metadata => write!(f, "RawData: another length than the fields of the metadata have"),
            DecodeReason::Type(id) => write!(f, "Variant of type {id}: no such type, or none that can stand here"),
            DecodeReason::Form(byte) => write!(f, "encoding byte {byte:#04x}: no such form"),
            DecodeReason::Index(index) => write!(f, "FieldIndex {index} twice: expected each once, in ascending order"),
            DecodeReason::Length(length) => write!(f, "length {length}: expected -1 or more"),
            DecodeReason::Dimensions => {
                write!(f, "array dimensions: expected an array, and its length as their product")
            }
            DecodeReason::Text => write!(f, "text: expected UTF-8"),
            DecodeReason::Nesting => write!(f, "nested deeper than {} levels", super::value::MAX_NESTING),
            DecodeReason::Rest(byte) => write!(f, "{byte:#04x} after the last field: expected the end, or zeros"),
        }
    }
}

impl core::error::Error for DecodeError {}
