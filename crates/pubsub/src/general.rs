//! Messages of a WriterGroup whose bytes are not those of its layout: the same DataSets in another form.

use alloc::vec::Vec;
use core::fmt;

use wire::{
    AnyPublisherId, BuiltInType, DataSetKind, DataSetView, DecodeError, Field, FieldValue, Fields, NetworkMessageView,
    PublisherId, RawField,
};

use crate::data_set_reader::{DataSetReader, Part, SEVERITY_BAD, StagedDataSet};
use crate::dispatch::head;
use crate::image::{ImageField, ImageLayout};
use crate::layout::NetworkMessageLayout;

/// Why a message of the WriterGroup is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejected {
    /// It cannot be decoded.
    Malformed(DecodeError),
    /// GroupVersion: the WriterGroup has been configured anew.
    GroupVersion {
        /// That of the layout.
        expected: u32,
        /// That of the message.
        found: u32,
    },
    /// ConfigurationVersion.MajorVersion: the DataSet has other fields now.
    MajorVersion {
        /// Which DataSetWriter.
        writer_id: u16,
        /// That of the layout.
        expected: u32,
        /// That of the message.
        found: u32,
    },
    /// More or fewer fields than the DataSet has.
    FieldCount {
        /// Which DataSetWriter.
        writer_id: u16,
        /// Fields of the layout.
        expected: usize,
        /// Fields of the message.
        found: usize,
    },
    /// A field of another type.
    FieldType {
        /// Which DataSetWriter.
        writer_id: u16,
        /// Index of the field.
        field: u16,
        /// Type in the layout.
        expected: BuiltInType,
        /// Type id in the message; 0 for no value.
        found: u8,
    },
    /// A delta frame has a field that the DataSet has not.
    FieldIndex {
        /// Which DataSetWriter.
        writer_id: u16,
        /// Index of the field.
        field: u16,
    },
    /// A field has no value but a status (OPC 10000-14 §7.2.4.5).
    FieldStatus {
        /// Which DataSetWriter.
        writer_id: u16,
        /// Index of the field.
        field: u16,
        /// Its StatusCode.
        status: u32,
    },
    /// A delta frame before the first key frame.
    NoKeyFrame {
        /// Which DataSetWriter.
        writer_id: u16,
    },
    /// An event, from a writer of cyclic data.
    Event {
        /// Which DataSetWriter.
        writer_id: u16,
    },
    /// The publisher says that it has no valid values.
    NotValid {
        /// Which DataSetWriter.
        writer_id: u16,
    },
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => error.fmt(f),
            Self::GroupVersion { expected, found } => {
                write!(f, "GroupVersion {found}: expected {expected}; the WriterGroup has changed, get its new layout")
            }
            Self::MajorVersion { writer_id, expected, found } => write!(
                f,
                "DataSetWriter {writer_id}: MajorVersion {found}, expected {expected}; the DataSet has changed, get its \
                 new metadata"
            ),
            Self::FieldCount { writer_id, expected, found } => {
                write!(f, "DataSetWriter {writer_id}: {found} fields, expected {expected}")
            }
            Self::FieldType { writer_id, field, expected, found } => {
                write!(f, "DataSetWriter {writer_id}, field {field}: type {found}, expected {expected}")
            }
            Self::FieldIndex { writer_id, field } => {
                write!(f, "DataSetWriter {writer_id}: delta frame with field {field}, which the DataSet has not")
            }
            Self::FieldStatus { writer_id, field, status } => {
                write!(f, "DataSetWriter {writer_id}, field {field}: status {status:#010x} instead of a value")
            }
            Self::NoKeyFrame { writer_id } => {
                write!(f, "DataSetWriter {writer_id}: delta frame, expected a key frame first; wait for the next one")
            }
            Self::Event { writer_id } => write!(f, "DataSetWriter {writer_id}: event, expected cyclic data"),
            Self::NotValid { writer_id } => write!(f, "DataSetWriter {writer_id}: the publisher has no valid values"),
        }
    }
}

impl core::error::Error for Rejected {}

/// Why a message changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Foreign,
    Inconsistent,
    Rejected(Rejected),
}

impl From<Rejected> for Refusal {
    fn from(rejected: Rejected) -> Self {
        Self::Rejected(rejected)
    }
}

impl From<DecodeError> for Refusal {
    fn from(error: DecodeError) -> Self {
        Self::Rejected(Rejected::Malformed(error))
    }
}

/// What is known of a WriterGroup and its DataSets, whatever the form of its messages.
#[derive(Debug, Clone)]
pub(crate) struct General {
    publisher_id: PublisherId,
    writer_group_id: Option<u16>,
    group_version: Option<u32>,
    number: Option<u16>,
    /// In the order of the message.
    sets: Vec<DataSet>,
}

#[derive(Debug, Clone)]
struct DataSet {
    writer_id: u16,
    types: Vec<RawField>,
    major_version: Option<u32>,
    /// Index of its reader, and of its DataSet in the image; none where nobody wants it.
    reader: Option<usize>,
}

impl General {
    pub(crate) fn new(layout: &NetworkMessageLayout, reader_of: impl Fn(usize) -> Option<usize>) -> Self {
        let set = |(index, set): (usize, &crate::layout::DataSetLayout)| DataSet {
            writer_id: set.writer_id,
            types: set.fields.iter().map(|&ty| RawField::Fixed(ty)).collect(),
            major_version: set.major_version,
            reader: reader_of(index),
        };
        let group = layout.group_header.unwrap_or_default();
        Self {
            publisher_id: layout.publisher_id,
            writer_group_id: group.writer_group_id,
            group_version: group.group_version.filter(|&version| version != 0),
            number: group.network_message_number,
            sets: layout.data_sets.iter().enumerate().map(set).collect(),
        }
    }

    /// Decodes a message into `staged`, which has the newest values, and says of every reader what there is for it; tells
    /// the SequenceNumber of the NetworkMessage.
    pub(crate) fn decode(
        &self,
        uadp: &[u8],
        image: &ImageLayout,
        staged: &mut [u8],
        readers: &mut [DataSetReader],
    ) -> Result<Option<u16>, Refusal> {
        for reader in &mut *readers {
            reader.staged = StagedDataSet::default();
        }
        let view = self.parse(uadp)?;
        let mut messages = view.data_sets()?;
        let mut ids = view.writer_ids();
        let (mut found, mut invalid) = (false, None);
        for index in 0..messages.count().unwrap_or(self.sets.len()) {
            let id = ids.as_mut().and_then(Iterator::next);
            let set = match id {
                Some(id) => self.sets.iter().find(|set| set.writer_id == id),
                None => self.sets.get(index),
            };
            let wanted = set.and_then(|set| set.reader.map(|reader| (set, reader)));
            let Some(message) = messages.next(None) else { break };
            let (Some((set, reader)), message) = (wanted, message) else {
                pass_over(message, set, &mut messages)?;
                continue;
            };
            let message = message?;
            found = true;
            if !message.valid {
                invalid = Some(set.writer_id);
                if message.body_bytes().is_none() {
                    break;
                }
                continue;
            }
            let Some(reader_state) = readers.get_mut(reader) else { continue };
            let mut fields = message.fields(Some(&set.types))?;
            reader_state.staged = set.apply(&message, &mut fields, image.fields(reader), staged, reader_state.known)?;
            if message.body_bytes().is_some() {
                fields.finish()?;
            }
            messages.continue_at(fields.position());
        }
        if !found {
            return Err(Refusal::Foreign);
        }
        match invalid {
            Some(writer_id) if readers.iter().all(|reader| reader.staged.part == Part::Nothing) => {
                return Err(Rejected::NotValid { writer_id }.into());
            }
            // What follows an invalid DataSetMessage of unknown length cannot be looked at.
            Some(_) => {}
            None => {
                messages.finish()?;
            }
        }
        Ok(view.group.and_then(|group| group.sequence_number))
    }

    /// The headers of a message, if it is one of the WriterGroup.
    fn parse<'a>(&self, uadp: &'a [u8]) -> Result<NetworkMessageView<'a>, Refusal> {
        let view = match NetworkMessageView::parse(uadp) {
            Ok(view) => view,
            Err(error) if self.is_head_of(uadp) => return Err(error.into()),
            Err(_) => return Err(Refusal::Foreign),
        };
        let group = view.group.unwrap_or_default();
        let same_group = self.writer_group_id.is_none() || group.writer_group_id == self.writer_group_id;
        if view.publisher_id != Some(AnyPublisherId::Fixed(self.publisher_id)) || !same_group {
            return Err(Refusal::Foreign);
        }
        // Another NetworkMessage of the group has other DataSets, and only a PayloadHeader would tell which.
        let other_number = matches!((self.number, group.network_message_number), (Some(a), Some(b)) if a != b);
        if other_number && view.writer_ids().is_none() {
            return Err(Refusal::Foreign);
        }
        match (self.group_version, group.group_version) {
            (Some(expected), Some(found)) if expected != found => {
                Err(Rejected::GroupVersion { expected, found }.into())
            }
            _ => Ok(view),
        }
    }

    /// Whether at least PublisherId and WriterGroupId are those of the WriterGroup.
    fn is_head_of(&self, uadp: &[u8]) -> bool {
        let Some((publisher, type_bits, group)) = head(uadp) else { return false };
        let publisher_id = match self.publisher_id {
            PublisherId::Byte(id) => u64::from(id),
            PublisherId::UInt16(id) => id.into(),
            PublisherId::UInt32(id) => id.into(),
            PublisherId::UInt64(id) => id,
        };
        publisher == publisher_id
            && type_bits == self.publisher_id.type_bits()
            && self.writer_group_id.is_none_or(|id| id == group)
    }
}

/// Past a DataSetMessage that nobody wants: by its size, else field by field.
fn pass_over(
    message: Result<DataSetView<'_>, DecodeError>,
    set: Option<&DataSet>,
    messages: &mut wire::DataSets<'_>,
) -> Result<(), Refusal> {
    let sized = messages.count().is_some();
    match message {
        Err(error) if !(sized && error.is_other_kind()) => Err(error.into()),
        Ok(message) if message.body_bytes().is_none() => {
            let mut fields = message.fields(set.map(|set| set.types.as_slice()))?;
            fields.by_ref().try_for_each(|field| field.map(drop))?;
            messages.continue_at(fields.position());
            Ok(())
        }
        _ => Ok(()),
    }
}

impl DataSet {
    /// The fields of a valid DataSetMessage to their places.
    fn apply(
        &self,
        message: &DataSetView<'_>,
        fields: &mut Fields<'_, '_>,
        places: &[ImageField],
        staged: &mut [u8],
        known: bool,
    ) -> Result<StagedDataSet, Refusal> {
        let writer_id = self.writer_id;
        match (self.major_version, message.major_version) {
            (Some(expected), Some(found)) if expected != found => {
                return Err(Rejected::MajorVersion { writer_id, expected, found }.into());
            }
            _ => {}
        }
        let mut part = Part::Values;
        match message.kind {
            DataSetKind::KeepAlive => part = Part::KeepAlive,
            DataSetKind::Event => return Err(Rejected::Event { writer_id }.into()),
            DataSetKind::DeltaFrame if !known => return Err(Rejected::NoKeyFrame { writer_id }.into()),
            DataSetKind::DeltaFrame => {}
            DataSetKind::KeyFrame => match fields.remaining() {
                0 => part = Part::Heartbeat,
                found if found != places.len() => {
                    return Err(Rejected::FieldCount { writer_id, expected: places.len(), found }.into());
                }
                _ => {}
            },
        }
        let mut status = message.status.unwrap_or(0);
        for field in fields {
            let field = field?;
            let bad = field.status.map_or(0, |status| (status >> 16) as u16);
            if bad & SEVERITY_BAD != 0 && status & SEVERITY_BAD == 0 {
                status = bad;
            }
            self.put(&field, places, staged, message.kind)?;
        }
        Ok(StagedDataSet { part, number: message.sequence_number, status })
    }

    /// A field to its place.
    fn put(
        &self,
        field: &Field<'_>,
        places: &[ImageField],
        staged: &mut [u8],
        kind: DataSetKind,
    ) -> Result<(), Refusal> {
        let (writer_id, index) = (self.writer_id, usize::from(field.index));
        let place = places.get(index).ok_or(Rejected::FieldIndex { writer_id, field: field.index })?;
        let bytes = match field.value {
            FieldValue::Fixed { ty, bytes } if ty == place.ty => bytes,
            other => return Err(self.mismatch(field, place.ty, other).into()),
        };
        let target = staged.get_mut(place.offset..).and_then(|rest| rest.get_mut(..bytes.len()));
        let target = target.ok_or(Refusal::Inconsistent)?;
        let shares = |other: Option<usize>| other.and_then(|other| places.get(other)) == Some(place);
        let first = !shares(index.checked_sub(1));
        let shared = !first || shares(index.checked_add(1));
        // The first of fields that share a place writes it, all others have to agree.
        if shared && !(first && kind == DataSetKind::KeyFrame) {
            return if *target == *bytes { Ok(()) } else { Err(Refusal::Inconsistent) };
        }
        target.copy_from_slice(bytes);
        if let (BuiltInType::Boolean, [boolean]) = (place.ty, target) {
            *boolean = u8::from(*boolean != 0);
        }
        Ok(())
    }

    fn mismatch(&self, field: &Field<'_>, expected: BuiltInType, found: FieldValue<'_>) -> Rejected {
        let (writer_id, index) = (self.writer_id, field.index);
        let status = match (found.value(), field.status) {
            (Some(wire::Value::StatusCode(status)), _) => Some(status),
            (None, Some(status)) if found == FieldValue::Null => Some(status),
            _ => None,
        };
        if let Some(status) = status {
            return Rejected::FieldStatus { writer_id, field: index, status };
        }
        let found = match found {
            FieldValue::Null | FieldValue::Raw(_) => 0,
            FieldValue::Fixed { ty, .. } => ty.id(),
            FieldValue::Bytes { type_id, .. }
            | FieldValue::Array { type_id, .. }
            | FieldValue::Other { type_id, .. } => type_id,
        };
        Rejected::FieldType { writer_id, field: index, expected, found }
    }
}
