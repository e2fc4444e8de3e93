//! A layout worked out: the bytes of the message and the place of everything that changes.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use wire::{
    BuiltInType, DataSetMessageHeader, ExtendedHeader, FieldEncoding, GroupHeader, MAX_DATA_SET_MESSAGES,
    MAX_PAYLOAD_BYTES, NetworkMessageHeader, PayloadHeader, Sizes, VARIANT_TYPE_BYTES, Writer, emit_field_count,
    emit_variant_type,
};

use crate::error::LayoutError;
use crate::layout::{DataSetLayout, NetworkMessageLayout};
use crate::run::UInt64Run;

/// Length of a FieldCount.
const FIELD_COUNT_BYTES: usize = 2;

/// Where things are, as offsets in the UADP message.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The message, zero where something changes.
    pub(crate) bytes: Vec<u8>,
    /// SequenceNumber of the GroupHeader.
    pub(crate) sequence_number: Option<usize>,
    /// Timestamp of the extended header.
    pub(crate) timestamp: Option<usize>,
    pub(crate) data_sets: Vec<DataSetPlan>,
    /// Ranges of the bytes that never change, ascending, none touching the next.
    pub(crate) constants: Vec<Range<usize>>,
}

/// Where the things of one DataSetMessage are.
#[derive(Debug, Clone)]
pub(crate) struct DataSetPlan {
    pub(crate) sequence_number: Option<usize>,
    pub(crate) timestamp: Option<usize>,
    pub(crate) status: Option<usize>,
    pub(crate) encoding: FieldEncoding,
    pub(crate) fields: Vec<FieldPlan>,
}

/// Type and place of one value; its Variant byte, if it has one, is the byte before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldPlan {
    pub(crate) ty: BuiltInType,
    pub(crate) offset: usize,
}

impl Plan {
    pub(crate) fn new(layout: &NetworkMessageLayout) -> Result<Self, LayoutError> {
        check(layout)?;
        let head = Head::of(layout)?;
        let length = layout.data_sets.iter().try_fold(head.bytes(), |sum, set| sum.checked_add(message_bytes(set)));
        let length = length.unwrap_or(usize::MAX);
        if length > MAX_PAYLOAD_BYTES {
            return Err(LayoutError::TooLong { bytes: length });
        }
        let mut plan = Self {
            bytes: vec![0; length],
            sequence_number: None,
            timestamp: None,
            data_sets: Vec::with_capacity(layout.data_sets.len()),
            constants: Vec::new(),
        };
        let mut bytes = core::mem::take(&mut plan.bytes);
        let mut w = Writer::new(&mut bytes);
        head.emit(layout, &mut plan, &mut w)?;
        for set in &layout.data_sets {
            plan.data_sets.push(emit_data_set(set, &mut w)?);
        }
        plan.bytes = bytes;
        plan.constants = plan.find_constants();
        Ok(plan)
    }

    /// The complement of all that changes.
    fn find_constants(&self) -> Vec<Range<usize>> {
        let mut changing: Vec<Range<usize>> = Vec::new();
        let mut add = |offset: Option<usize>, bytes: usize| changing.extend(offset.map(|at| at..at + bytes));
        add(self.sequence_number, 2);
        add(self.timestamp, 8);
        for set in &self.data_sets {
            add(set.sequence_number, 2);
            add(set.timestamp, 8);
            add(set.status, 2);
            for field in &set.fields {
                add(Some(field.offset), field.ty.bytes());
            }
        }
        let mut constants = Vec::new();
        let mut from = 0;
        for range in changing {
            if from < range.start {
                constants.push(from..range.start);
            }
            from = range.end;
        }
        if from < self.bytes.len() {
            constants.push(from..self.bytes.len());
        }
        constants
    }

    /// The fields `fields` of a DataSetMessage, if all are UInt64.
    pub(crate) fn uint64_run(&self, data_set: usize, fields: Range<usize>) -> Option<UInt64Run> {
        let set = self.data_sets.get(data_set)?;
        let fields = set.fields.get(fields)?;
        let first = fields.first()?;
        let same = fields.iter().all(|field| field.ty == BuiltInType::UInt64);
        same.then(|| UInt64Run::new(first.offset, set.encoding, fields.len()))
    }
}

/// Checks that depend on no length.
fn check(layout: &NetworkMessageLayout) -> Result<(), LayoutError> {
    let count = layout.data_sets.len();
    if count == 0 {
        return Err(LayoutError::NoDataSets);
    }
    if layout.payload_header && count > MAX_DATA_SET_MESSAGES {
        return Err(LayoutError::TooManyDataSets { count });
    }
    if let Some(group) = layout.group_header {
        if group.writer_group_id == Some(0) {
            return Err(LayoutError::WriterGroupIdZero);
        }
        if group.network_message_number == Some(0) {
            return Err(LayoutError::NetworkMessageNumberZero);
        }
    }
    for (data_set, set) in layout.data_sets.iter().enumerate() {
        if set.fields.is_empty() {
            return Err(LayoutError::NoFields { data_set });
        }
        if layout.payload_header && set.writer_id == 0 {
            return Err(LayoutError::DataSetWriterIdZero { data_set });
        }
    }
    Ok(())
}

/// All headers before the first DataSetMessage.
struct Head {
    message: NetworkMessageHeader,
    group: Option<GroupHeader>,
    payload: Option<PayloadHeader>,
    extended: ExtendedHeader,
    sizes: Option<Sizes>,
}

impl Head {
    fn of(layout: &NetworkMessageLayout) -> Result<Self, LayoutError> {
        let (payload, sizes) = if layout.payload_header {
            let count = layout.data_sets.len();
            let count = u8::try_from(count).map_err(|_| LayoutError::TooManyDataSets { count })?;
            (Some(PayloadHeader { count }), Sizes::of(true, count))
        } else {
            (None, None)
        };
        Ok(Self {
            message: NetworkMessageHeader {
                publisher_id: layout.publisher_id,
                group_header: layout.group_header.is_some(),
                payload_header: layout.payload_header,
                timestamp: layout.timestamp,
            },
            group: layout.group_header.map(|group| GroupHeader {
                writer_group_id: group.writer_group_id,
                group_version: group.group_version,
                network_message_number: group.network_message_number,
                sequence_number: group.sequence_number.then_some(0),
            }),
            payload,
            extended: ExtendedHeader { timestamp: layout.timestamp.then_some(0) },
            sizes,
        })
    }

    fn bytes(&self) -> usize {
        self.message.bytes()
            + self.group.map_or(0, |part| part.bytes())
            + self.payload.map_or(0, |part| part.bytes())
            + self.extended.bytes()
            + self.sizes.map_or(0, |part| part.bytes())
    }

    fn emit(&self, layout: &NetworkMessageLayout, plan: &mut Plan, w: &mut Writer<'_>) -> Result<(), LayoutError> {
        self.message.emit(w)?;
        if let Some(group) = self.group {
            group.emit(w)?;
            plan.sequence_number = group.sequence_number.map(|_| w.position() - 2);
        }
        if let Some(payload) = self.payload {
            payload.emit(layout.data_sets.iter().map(|set| set.writer_id), w)?;
        }
        plan.timestamp = self.extended.timestamp.map(|_| w.position());
        self.extended.emit(w)?;
        if let Some(sizes) = self.sizes {
            // No size is cut: the whole message has been checked to be at most 1500 bytes.
            sizes.emit(layout.data_sets.iter().map(|set| message_bytes(set) as u16), w)?;
        }
        Ok(())
    }
}

fn header(set: &DataSetLayout) -> DataSetMessageHeader {
    DataSetMessageHeader {
        encoding: set.encoding,
        sequence_number: set.sequence_number.then_some(0),
        timestamp: set.timestamp.then_some(0),
        status: set.status.then_some(0),
        major_version: set.major_version,
        minor_version: set.minor_version,
    }
}

/// Length of a DataSetMessage with its header.
fn message_bytes(set: &DataSetLayout) -> usize {
    let (before_all, before_each) = match set.encoding {
        FieldEncoding::Variant => (FIELD_COUNT_BYTES, VARIANT_TYPE_BYTES),
        FieldEncoding::RawData => (0, 0),
    };
    let fields = set.fields.iter().fold(0_usize, |sum, ty| sum.saturating_add(before_each + ty.bytes()));
    (header(set).bytes() + before_all).saturating_add(fields)
}

fn emit_data_set(set: &DataSetLayout, w: &mut Writer<'_>) -> Result<DataSetPlan, LayoutError> {
    let offsets = header(set).emit(w)?;
    if set.encoding == FieldEncoding::Variant {
        // No count is cut: the whole message has been checked to be at most 1500 bytes.
        emit_field_count(set.fields.len() as u16, w)?;
    }
    let mut fields = Vec::with_capacity(set.fields.len());
    for &ty in &set.fields {
        if set.encoding == FieldEncoding::Variant {
            emit_variant_type(ty, w)?;
        }
        fields.push(FieldPlan { ty, offset: w.position() });
        w.skip(ty.bytes())?;
    }
    Ok(DataSetPlan {
        sequence_number: offsets.sequence_number,
        timestamp: offsets.timestamp,
        status: offsets.status,
        encoding: set.encoding,
        fields,
    })
}
