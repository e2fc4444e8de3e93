//! Reading a NetworkMessage of any form, with nothing known beforehand: flags say what is where.
//!
//! Bytes are borrowed, nothing is allocated, and no input panics. A caller goes from the
//! [`NetworkMessageView`] to its [`DataSets`], from each [`DataSetView`] to its [`Fields`]; what is malformed is
//! a [`DecodeError`] with offset and reason, as soon as it is reached.

mod cursor;
mod data_set;
mod error;
mod fields;
mod message;
mod value;

pub use data_set::{DataSetKind, DataSetView, DataSets, Encoding};
pub use error::{DecodeError, DecodeReason};
pub use fields::{Field, FieldValue, Fields, RawField};
pub use message::{AnyPublisherId, NetworkMessageView, PromotedFields};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BuiltInType, Guid, PublisherId, Value};
    use alloc::vec::Vec;

    fn error(bytes: &[u8]) -> DecodeError {
        let walk = || {
            let view = NetworkMessageView::parse(bytes)?;
            let mut data_sets = view.data_sets()?;
            while let Some(data_set) = data_sets.next(None) {
                let mut fields = data_set?.fields(None)?;
                fields.by_ref().try_for_each(|field| field.map(drop))?;
                fields.finish()?;
            }
            data_sets.finish()
        };
        walk().expect_err("a bad message")
    }

    #[test]
    fn every_header_that_there_is() {
        let class = Guid { data1: 1, data2: 2, data3: 3, data4: [4; 8] };
        let message = [
            &[0xF1, 0xEC, 0x02, 2, 0, 0, 0, b'a', b'b'][..],
            &class.to_wire(),
            &[0x0F, 1, 0, 2, 0, 0, 0, 3, 0, 4, 0],
            &[1, 9, 0],
            &[5, 0, 0, 0, 0, 0, 0, 0, 6, 0],
            &[4, 0, 3, 7, 1, 1],
            &[0xF9, 0x30, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 4, 0x80, 5, 0, 0, 0, 6, 0, 0, 0],
            &[2, 0, 6, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0],
        ]
        .concat();
        let view = NetworkMessageView::parse(&message).unwrap();
        assert_eq!(view.publisher_id, Some(AnyPublisherId::String("ab")));
        assert_eq!((view.data_set_class_id, view.timestamp, view.pico_seconds), (Some(class), Some(5), Some(6)));
        let group = view.group.unwrap();
        assert_eq!((group.writer_group_id, group.group_version), (Some(1), Some(2)));
        assert_eq!((group.network_message_number, group.sequence_number), (Some(3), Some(4)));
        assert_eq!(view.writer_ids().unwrap().collect::<Vec<_>>(), [9]);
        let promoted: Vec<_> = view.promoted_fields().unwrap().map(|field| field.unwrap().value()).collect();
        assert_eq!(promoted, [Some(Value::Byte(7)), Some(Value::Boolean(true))]);
        let mut data_sets = view.data_sets().unwrap();
        let set = data_sets.next(None).unwrap().unwrap();
        assert_eq!((set.kind, set.encoding, set.writer_id), (DataSetKind::KeyFrame, Encoding::Variant, Some(9)));
        assert_eq!((set.sequence_number, set.timestamp, set.pico_seconds), (Some(1), Some(2), Some(3)));
        assert_eq!((set.status, set.major_version, set.minor_version), (Some(0x8004), Some(5), Some(6)));
        let mut fields = set.fields(None).unwrap();
        let values: Vec<_> = fields.by_ref().map(|field| field.unwrap().value).collect();
        let minus_one = FieldValue::Fixed { ty: BuiltInType::Int32, bytes: &[0xFF; 4] };
        assert_eq!(values, [minus_one, FieldValue::Null]);
        assert_eq!((fields.finish(), data_sets.next(None).is_none()), (Ok(2), true));
    }

    #[test]
    fn fields_of_raw_data_and_data_values() {
        let raw = [0xD1, 1, 1, 0, 1, 9, 0, 0x03, 7, 0, 0xAA, 0xBB, 0xCC, 1];
        let view = NetworkMessageView::parse(&raw).unwrap();
        assert_eq!(view.publisher_id, Some(AnyPublisherId::Fixed(PublisherId::UInt16(1))));
        let set = view.data_sets().unwrap().next(None).unwrap().unwrap();
        assert_eq!(set.fields(None).unwrap_err().reason, DecodeReason::NoMetadata);
        let types = [RawField::Fixed(BuiltInType::UInt16), RawField::Bytes(3), RawField::Fixed(BuiltInType::Boolean)];
        let found: Vec<_> = set.fields(Some(&types)).unwrap().map(|field| field.unwrap().value).collect();
        assert_eq!(found[0].value(), Some(Value::UInt16(7)));
        assert_eq!((found[1], found[2].value()), (FieldValue::Raw(&[0xAA, 0xBB, 0xCC]), Some(Value::Boolean(true))));
        // Status, then source timestamp, its picoseconds, server timestamp: not the order of the bits.
        let value = [0x1F, 3, 5, 0, 0, 0x80, 0x40, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0, 0, 0, 0, 0, 0, 0];
        let message = [&[0xD1, 1, 1, 0, 1, 9, 0, 0x05, 1, 0][..], &value].concat();
        let set = NetworkMessageView::parse(&message).unwrap().data_sets().unwrap().next(None).unwrap().unwrap();
        let mut fields = set.fields(None).unwrap();
        let field = fields.next().unwrap().unwrap();
        assert_eq!((field.value.value(), field.status), (Some(Value::Byte(5)), Some(0x4080_0000)));
        assert_eq!((fields.next(), fields.position()), (None, message.len()));
    }

    #[test]
    fn what_is_wrong_and_where() {
        for (bytes, offset, reason) in [
            (&[][..], 0, DecodeReason::Short { wanted: 1, left: 0 }),
            (&[0x02], 0, DecodeReason::Version(2)),
            (&[0x91, 0x11, 0, 0], 1, DecodeReason::Secured),
            (&[0x91, 0x81, 0x01, 0, 0], 2, DecodeReason::Chunk),
            (&[0x91, 0x81, 0x04, 0, 0], 2, DecodeReason::NoData(0x04)),
            (&[0x91, 0x81, 0x20, 0, 0], 2, DecodeReason::NoData(0x20)),
            (&[0x91, 0x41, 0, 0], 1, DecodeReason::Flags(0x41)),
            (&[0x91, 0x05, 0, 0], 2, DecodeReason::PublisherId),
            (&[0x91, 0x04, 0, 0, 0, 0], 2, DecodeReason::PublisherId),
            (&[0x31, 7, 0x10], 2, DecodeReason::Flags(0x10)),
            (&[0x51, 7, 0], 2, DecodeReason::NoDataSets),
            (&[0x51, 7, 1, 9, 0, 0x07], 5, DecodeReason::DataSetType(0x07)),
            (&[0x51, 7, 1, 9, 0, 0x81, 0x04], 6, DecodeReason::DataSetType(0x04)),
            (&[0x51, 7, 1, 9, 0, 0x01, 1, 0, 32], 8, DecodeReason::Type(32)),
            (&[0x51, 7, 1, 9, 0, 0x01, 1, 0, 24], 8, DecodeReason::Type(24)),
            (&[0x51, 7, 1, 9, 0, 0x01, 1, 0, 0x43], 8, DecodeReason::Dimensions),
            (&[0x51, 7, 1, 9, 0, 0x01, 1, 0, 12, 0xFE, 0xFF, 0xFF, 0xFF], 9, DecodeReason::Length(-2)),
            (&[0x51, 7, 1, 9, 0, 0x01, 1, 0, 12, 1, 0, 0, 0, 0xFF], 9, DecodeReason::Text),
            (&[0x51, 7, 1, 9, 0, 0x01, 1, 0, 21, 4], 9, DecodeReason::Form(4)),
            (&[0x51, 7, 1, 9, 0, 0x01, 1, 0, 1, 1, 0, 3], 11, DecodeReason::Rest(3)),
            (&[0x51, 7, 1, 9, 0, 0x81, 0x01, 2, 0, 4, 0, 0, 4, 0, 0], 12, DecodeReason::Index(4)),
        ] {
            assert_eq!(error(bytes), DecodeError { offset, reason }, "{bytes:02x?}");
        }
    }

    #[test]
    fn nesting_has_an_end() {
        // Arrays of one Variant each, one in the other.
        let mut message = [0x51, 7, 1, 9, 0, 0x01, 1, 0].to_vec();
        for _ in 0..10_000 {
            message.extend([0x98, 1, 0, 0, 0]);
        }
        assert_eq!(error(&message).reason, DecodeReason::Nesting);
    }
}
