//! Random layouts and values.

use downbeat_pubsub::{
    DataSetLayout, FieldEncoding, FieldType, GroupHeaderLayout, NetworkMessageLayout, PublisherId, ReaderLayout, Value,
    WriterTemplate,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn publisher_id() -> impl Strategy<Value = PublisherId> {
    prop_oneof![
        any::<u8>().prop_map(PublisherId::Byte),
        any::<u16>().prop_map(PublisherId::UInt16),
        any::<u32>().prop_map(PublisherId::UInt32),
        any::<u64>().prop_map(PublisherId::UInt64),
    ]
}

fn group_header() -> impl Strategy<Value = GroupHeaderLayout> {
    let some = proptest::option::of::<std::ops::RangeInclusive<u16>>;
    (some(1..=u16::MAX), any::<Option<u32>>(), some(1..=u16::MAX), any::<bool>()).prop_map(
        |(writer_group_id, group_version, network_message_number, sequence_number)| GroupHeaderLayout {
            writer_group_id,
            group_version,
            network_message_number,
            sequence_number,
        },
    )
}

/// Runs of equal types as well as mixtures, so that all ways of comparing Variant bytes are used.
fn fields() -> impl Strategy<Value = Vec<FieldType>> {
    let ty = || proptest::sample::select(FieldType::ALL.to_vec());
    vec((ty(), 1_usize..8), 1..5)
        .prop_map(|runs| runs.into_iter().flat_map(|(ty, count)| std::iter::repeat_n(ty, count)).collect())
}

fn data_set() -> impl Strategy<Value = DataSetLayout> {
    let encoding = prop_oneof![Just(FieldEncoding::Variant), Just(FieldEncoding::RawData)];
    let members = (any::<bool>(), any::<bool>(), any::<bool>(), any::<Option<u32>>(), any::<Option<u32>>());
    (1..=u16::MAX, encoding, members, fields()).prop_map(
        |(writer_id, encoding, (sequence_number, timestamp, status, major_version, minor_version), fields)| {
            DataSetLayout {
                writer_id,
                encoding,
                sequence_number,
                timestamp,
                status,
                major_version,
                minor_version,
                fields,
            }
        },
    )
}

pub fn layout() -> impl Strategy<Value = NetworkMessageLayout> {
    let group = proptest::option::of(group_header());
    (publisher_id(), group, any::<bool>(), any::<bool>(), vec(data_set(), 1..4))
        .prop_map(|(publisher_id, group_header, payload_header, timestamp, data_sets)| NetworkMessageLayout {
            publisher_id,
            group_header,
            payload_header,
            timestamp,
            data_sets,
        })
        .prop_filter("fits a frame", |layout| ReaderLayout::new(layout).is_ok())
}

/// Sets everything that can change to what `byte` gives; returns the fields as they were set.
pub fn set_all(
    template: &mut WriterTemplate,
    layout: &NetworkMessageLayout,
    mut byte: impl FnMut() -> u8,
) -> Vec<Value> {
    let mut ticks = || i64::from_le_bytes([(); 8].map(|()| byte()));
    template.stamp(ticks() as u16, ticks());
    let mut values = Vec::new();
    for (i, set) in layout.data_sets.iter().enumerate() {
        let _ = template.set_data_set_status(i, ticks() as u16);
        for (j, &ty) in set.fields.iter().enumerate() {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&ticks().to_le_bytes());
            bytes[8..].copy_from_slice(&ticks().to_le_bytes());
            let value = Value::read(ty, &bytes, 0).expect("sixteen bytes are enough for all");
            template.set_field(i, j, value).expect("the field is there");
            values.push(value);
        }
    }
    values
}

/// The bytes of a value, so that NaN equals NaN.
pub fn bits(value: Value) -> [u8; 16] {
    let mut bytes = [0; 16];
    value.patch(&mut bytes, 0).expect("sixteen bytes are enough for all");
    bytes
}
