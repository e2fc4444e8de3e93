//! What a NetworkMessage of fixed form has in it.

use alloc::vec;
use alloc::vec::Vec;

use wire::{BuiltInType, FieldEncoding, PublisherId};

/// DataSetWriterId of the papers' example, also for layouts that do not send it.
const EXAMPLE_WRITER_ID: u16 = 62541;

/// A NetworkMessage of data key frames whose every item has a fixed place (OPC 10000-14 §7.2.4.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkMessageLayout {
    /// Who publishes.
    pub publisher_id: PublisherId,
    /// GroupHeader, if it has one.
    pub group_header: Option<GroupHeaderLayout>,
    /// PayloadHeader with the DataSetWriterIds, and Sizes if there are several DataSetMessages.
    pub payload_header: bool,
    /// Timestamp of the NetworkMessage in the extended header.
    pub timestamp: bool,
    /// The DataSetMessages in their order.
    pub data_sets: Vec<DataSetLayout>,
}

/// A GroupHeader; what is `None` or `false` is not on the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupHeaderLayout {
    /// WriterGroupId, not 0.
    pub writer_group_id: Option<u16>,
    /// GroupVersion: seconds since 2000-01-01 UTC; 0 is "not set".
    pub group_version: Option<u32>,
    /// NetworkMessageNumber, from 1.
    pub network_message_number: Option<u16>,
    /// SequenceNumber of the NetworkMessages.
    pub sequence_number: bool,
}

/// A valid data key frame (OPC 10000-14 §7.2.4.5); what is `None` or `false` is not on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataSetLayout {
    /// DataSetWriterId, in the PayloadHeader.
    pub writer_id: u16,
    /// Encoding of the fields.
    pub encoding: FieldEncoding,
    /// SequenceNumber of the DataSetMessages.
    pub sequence_number: bool,
    /// Timestamp of the DataSet.
    pub timestamp: bool,
    /// Status: the upper half of a StatusCode.
    pub status: bool,
    /// ConfigurationVersion.MajorVersion.
    pub major_version: Option<u32>,
    /// ConfigurationVersion.MinorVersion.
    pub minor_version: Option<u32>,
    /// Types of the fields, in their order.
    pub fields: Vec<BuiltInType>,
}

impl NetworkMessageLayout {
    /// The frames of the papers: 32 + 9·n bytes. WriterGroupId and DataSetWriterId 62541 in the headers, timestamp
    /// and versions in the DataSetMessage, a Boolean (the publisher's running state) and n UInt64 as Variants.
    pub fn papers(publisher_id: u16, writer_group_id: u16, variables: u16) -> Self {
        let mut fields = vec![BuiltInType::Boolean];
        fields.resize(1 + usize::from(variables), BuiltInType::UInt64);
        Self {
            publisher_id: PublisherId::UInt16(publisher_id),
            group_header: Some(GroupHeaderLayout {
                writer_group_id: Some(writer_group_id),
                ..GroupHeaderLayout::default()
            }),
            payload_header: true,
            timestamp: false,
            data_sets: vec![DataSetLayout {
                writer_id: EXAMPLE_WRITER_ID,
                encoding: FieldEncoding::Variant,
                sequence_number: false,
                timestamp: true,
                status: false,
                major_version: Some(1),
                minor_version: Some(1),
                fields,
            }],
        }
    }

    /// UADP-Periodic-Fixed (OPC 10000-14 A.2.1) with n UInt64 as RawData: 20 + 8·n bytes.
    pub fn periodic_fixed(publisher_id: u16, writer_group_id: u16, variables: u16) -> Self {
        Self {
            publisher_id: PublisherId::UInt16(publisher_id),
            group_header: Some(GroupHeaderLayout {
                writer_group_id: Some(writer_group_id),
                group_version: Some(1),
                network_message_number: Some(1),
                sequence_number: true,
            }),
            payload_header: false,
            timestamp: false,
            data_sets: vec![DataSetLayout {
                writer_id: EXAMPLE_WRITER_ID,
                encoding: FieldEncoding::RawData,
                sequence_number: true,
                timestamp: false,
                status: true,
                major_version: None,
                minor_version: None,
                fields: vec![BuiltInType::UInt64; usize::from(variables)],
            }],
        }
    }
}
