//! The frame of a writer, built once; a cycle patches what changes.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use wire::{EthernetHeader, MIN_FRAME_BYTES, Value, Writer, patch};

use crate::error::{LayoutError, PatchError};
use crate::image::{ImageLayout, ImageSize};
use crate::layout::NetworkMessageLayout;
use crate::moves::Moves;
use crate::plan::Plan;
use crate::run::UInt64Run;

/// A frame with all its constant bytes, and the places of the others.
///
/// New templates have 0 in everything that changes. Setters write in place and allocate nothing.
#[derive(Debug, Clone)]
pub struct WriterTemplate {
    /// Ethernet header (if any), UADP message, padding (if any).
    frame: Vec<u8>,
    /// Where the UADP message is in it.
    uadp: Range<usize>,
    plan: Plan,
    moves: Moves,
    /// Place in the frame of the first Timestamp; beyond its end if there is none.
    timestamp: usize,
    /// There is something in the members below.
    more_stamps: bool,
    /// Places of all other Timestamps and of every SequenceNumber.
    timestamps: Vec<usize>,
    numbers: Vec<usize>,
}

impl WriterTemplate {
    /// The template of `layout`, behind an Ethernet header if there is one.
    ///
    /// Untagged frames are padded with zeros to 60 bytes. Tagged frames are left as they are: what they lack, the
    /// device that sends them adds.
    pub fn new(layout: &NetworkMessageLayout, ethernet: Option<&EthernetHeader>) -> Result<Self, LayoutError> {
        Self::with_image(layout, ethernet, &ImageLayout::of(layout))
    }

    /// The same with an image in which fields share a place ([`ImageLayout::repeating`]).
    pub fn with_image(
        layout: &NetworkMessageLayout,
        ethernet: Option<&EthernetHeader>,
        image: &ImageLayout,
    ) -> Result<Self, LayoutError> {
        let plan = Plan::new(layout)?;
        let head_bytes = ethernet.map_or(0, EthernetHeader::bytes);
        let uadp = head_bytes..head_bytes + plan.bytes.len();
        let minimum = match ethernet {
            Some(EthernetHeader { vlan: None, .. }) => MIN_FRAME_BYTES,
            _ => 0,
        };
        let mut frame = vec![0; uadp.end.max(minimum)];
        let mut w = Writer::new(&mut frame);
        if let Some(header) = ethernet {
            header.check()?;
            header.emit(&mut w)?;
        }
        w.put(&plan.bytes)?;
        let moves = Moves::new(&plan.data_sets, image, uadp.start, Some);
        let at = |place: Option<usize>| place.map(|at| uadp.start + at);
        let sets = || plan.data_sets.iter();
        let numbers = at(plan.sequence_number).into_iter().chain(sets().filter_map(|set| at(set.sequence_number)));
        let mut timestamps = at(plan.timestamp).into_iter().chain(sets().filter_map(|set| at(set.timestamp)));
        let timestamp = timestamps.next().unwrap_or(usize::MAX);
        let (numbers, timestamps): (Vec<_>, Vec<_>) = (numbers.collect(), timestamps.collect());
        let more_stamps = !(numbers.is_empty() && timestamps.is_empty());
        Ok(Self { frame, uadp, plan, moves, timestamp, more_stamps, timestamps, numbers })
    }

    /// The frame as it is to be sent: Ethernet header, UADP message, padding.
    #[inline]
    pub fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// The UADP message alone.
    #[inline]
    pub fn uadp(&self) -> &[u8] {
        self.frame.get(self.uadp.clone()).unwrap_or_default()
    }

    /// Length of the Ethernet header: 0, 14 or 18 bytes.
    #[inline]
    pub fn header_bytes(&self) -> usize {
        self.uadp.start
    }

    /// Sets a field, both indices from 0.
    #[inline]
    pub fn set_field(&mut self, data_set: usize, field: usize, value: Value) -> Result<(), PatchError> {
        let place = self.plan.data_sets.get(data_set).and_then(|set| set.fields.get(field));
        let place = *place.ok_or(PatchError::Absent)?;
        if place.ty != value.ty() {
            return Err(PatchError::Type { expected: place.ty, found: value.ty() });
        }
        value.patch(&mut self.frame, self.uadp.start + place.offset).map_err(|_| PatchError::Absent)
    }

    /// The fields `fields` of a DataSetMessage for [`Self::fill`]; `None` unless all are there and UInt64.
    pub fn uint64_run(&self, data_set: usize, fields: Range<usize>) -> Option<UInt64Run> {
        self.plan.uint64_run(data_set, fields)
    }

    /// Sets all fields of a run to `value`.
    #[inline]
    pub fn fill(&mut self, run: &UInt64Run, value: u64) {
        run.moved(self.uadp.start).fill(&mut self.frame, value);
    }

    /// Copies all values of an image to their fields.
    #[inline]
    pub fn write_image(&mut self, image: &[u8]) -> Result<(), ImageSize> {
        self.moves.write(image, &mut self.frame)
    }

    /// Sets the SequenceNumber of the GroupHeader.
    #[inline]
    pub fn set_sequence_number(&mut self, number: u16) -> Result<(), PatchError> {
        self.patch_at(self.plan.sequence_number, &number.to_le_bytes())
    }

    /// Sets the Timestamp of the NetworkMessage: 100 ns ticks since 1601-01-01 UTC.
    #[inline]
    pub fn set_timestamp(&mut self, ticks: i64) -> Result<(), PatchError> {
        self.patch_at(self.plan.timestamp, &ticks.to_le_bytes())
    }

    /// Sets the SequenceNumber of a DataSetMessage.
    #[inline]
    pub fn set_data_set_sequence_number(&mut self, data_set: usize, number: u16) -> Result<(), PatchError> {
        let place = self.plan.data_sets.get(data_set).and_then(|set| set.sequence_number);
        self.patch_at(place, &number.to_le_bytes())
    }

    /// Sets the Timestamp of a DataSetMessage: 100 ns ticks since 1601-01-01 UTC.
    #[inline]
    pub fn set_data_set_timestamp(&mut self, data_set: usize, ticks: i64) -> Result<(), PatchError> {
        let place = self.plan.data_sets.get(data_set).and_then(|set| set.timestamp);
        self.patch_at(place, &ticks.to_le_bytes())
    }

    /// Sets the Status of a DataSetMessage: the upper 16 bits of a StatusCode.
    #[inline]
    pub fn set_data_set_status(&mut self, data_set: usize, status: u16) -> Result<(), PatchError> {
        let place = self.plan.data_sets.get(data_set).and_then(|set| set.status);
        self.patch_at(place, &status.to_le_bytes())
    }

    /// Sets every SequenceNumber and every Timestamp that the layout has.
    #[inline]
    pub fn stamp(&mut self, number: u16, ticks: i64) {
        put(&mut self.frame, self.timestamp, ticks.to_le_bytes());
        if self.more_stamps {
            for &at in &self.timestamps {
                put(&mut self.frame, at, ticks.to_le_bytes());
            }
            for &at in &self.numbers {
                put(&mut self.frame, at, number.to_le_bytes());
            }
        }
    }

    /// Sets SequenceNumber and Timestamp of the NetworkMessage where the layout has them.
    #[inline]
    pub(crate) fn set_head(&mut self, number: Option<u16>, ticks: i64) {
        let start = self.uadp.start;
        if let (Some(at), Some(number)) = (self.plan.sequence_number, number) {
            put(&mut self.frame, start + at, number.to_le_bytes());
        }
        if let Some(at) = self.plan.timestamp {
            put(&mut self.frame, start + at, ticks.to_le_bytes());
        }
    }

    /// Places in the frame of SequenceNumber and Timestamp of a DataSetMessage.
    pub(crate) fn stamps(&self, data_set: usize) -> (Option<usize>, Option<usize>) {
        let at = |place: Option<usize>| place.map(|at| self.uadp.start + at);
        self.plan.data_sets.get(data_set).map_or((None, None), |set| (at(set.sequence_number), at(set.timestamp)))
    }

    /// Overwrites the bytes at a place that [`Self::stamps`] told.
    #[inline]
    pub(crate) fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        put(&mut self.frame, at, bytes);
    }

    #[inline]
    fn patch_at(&mut self, place: Option<usize>, bytes: &[u8]) -> Result<(), PatchError> {
        let at = self.uadp.start + place.ok_or(PatchError::Absent)?;
        patch(&mut self.frame, at, bytes).map_err(|_| PatchError::Absent)
    }
}

/// Every place of the plan is within the frame.
#[inline]
fn put<const N: usize>(frame: &mut [u8], at: usize, bytes: [u8; N]) {
    if let Some(place) = frame.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{DataSetLayout, GroupHeaderLayout};
    use wire::{BuiltInType, EthernetError, FieldEncoding, VlanTag};

    const HEADER: EthernetHeader = EthernetHeader { destination: [1, 0, 0x5E, 0, 0, 1], source: [2; 6], vlan: None };

    fn error(layout: &NetworkMessageLayout, header: Option<&EthernetHeader>) -> LayoutError {
        WriterTemplate::new(layout, header).expect_err("no such frame")
    }

    #[test]
    fn refuses_what_fits_no_frame() {
        assert!(WriterTemplate::new(&NetworkMessageLayout::papers(1, 1, 163), Some(&HEADER)).is_ok());
        assert_eq!(
            error(&NetworkMessageLayout::papers(1, 1, 164), Some(&HEADER)),
            LayoutError::TooLong { bytes: 32 + 9 * 164 }
        );
        assert_eq!(
            error(&NetworkMessageLayout::periodic_fixed(1, 1, u16::MAX), None),
            LayoutError::TooLong { bytes: 20 + 8 * 65535 }
        );
    }

    #[test]
    fn refuses_headers_that_no_receiver_takes() {
        let good = NetworkMessageLayout::papers(1, 1, 1);
        let vlan = |pcp, vid| EthernetHeader { vlan: Some(VlanTag { pcp, dei: false, vid }), ..HEADER };
        assert_eq!(error(&good, Some(&vlan(0, 4095))), LayoutError::Ethernet(EthernetError::Vid(4095)));
        assert_eq!(error(&good, Some(&vlan(8, 1))), LayoutError::Ethernet(EthernetError::Pcp(8)));
        assert_eq!(error(&NetworkMessageLayout::papers(1, 0, 1), None), LayoutError::WriterGroupIdZero);
        let group = GroupHeaderLayout { network_message_number: Some(0), ..GroupHeaderLayout::default() };
        let layout = NetworkMessageLayout { group_header: Some(group), ..good.clone() };
        assert_eq!(error(&layout, None), LayoutError::NetworkMessageNumberZero);
        let mut layout = good.clone();
        layout.data_sets[0].writer_id = 0;
        assert_eq!(error(&layout, None), LayoutError::DataSetWriterIdZero { data_set: 0 });
        layout.payload_header = false;
        assert!(WriterTemplate::new(&layout, None).is_ok(), "the id is not on the wire");
        layout.data_sets[0].fields.clear();
        assert_eq!(error(&layout, None), LayoutError::NoFields { data_set: 0 });
        layout.data_sets.clear();
        assert_eq!(error(&layout, None), LayoutError::NoDataSets);
        let many = NetworkMessageLayout { data_sets: vec![good.data_sets[0].clone(); 256], ..good };
        assert_eq!(error(&many, None), LayoutError::TooManyDataSets { count: 256 });
    }

    #[test]
    fn several_data_set_messages_with_payload_header_have_sizes() {
        let set = |writer_id, fields: &[BuiltInType]| DataSetLayout {
            writer_id,
            encoding: FieldEncoding::Variant,
            sequence_number: true,
            timestamp: true,
            status: false,
            major_version: None,
            minor_version: Some(0x2AB5_CDEF),
            fields: fields.to_vec(),
        };
        // UADP-Dynamic without PicoSeconds and security (OPC 10000-14 A.2.2), with a Timestamp of the NetworkMessage.
        let layout = NetworkMessageLayout {
            publisher_id: wire::PublisherId::UInt64(0x0011_2233_4455_6677),
            group_header: None,
            payload_header: true,
            timestamp: true,
            data_sets: vec![set(5, &[BuiltInType::Int32]), set(6, &[BuiltInType::Boolean])],
        };
        let mut template = WriterTemplate::new(&layout, None).unwrap();
        template.set_field(0, 0, Value::Int32(42)).unwrap();
        template.set_field(1, 0, Value::Boolean(true)).unwrap();
        template.set_timestamp(0x0102_0304_0506_0708).unwrap();
        for (data_set, number) in [(0, 1), (1, 2)] {
            template.set_data_set_sequence_number(data_set, number).unwrap();
            template.set_data_set_timestamp(data_set, 133_500_000_000_000_000).unwrap();
        }
        let expected = [
            &[0xD1, 0x23, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00, 2, 5, 0, 6, 0][..],
            &[8, 7, 6, 5, 4, 3, 2, 1],
            &[23, 0, 20, 0],
            &[0xC9, 0x10, 1, 0, 0x00, 0xC0, 0x83, 0xED, 0x8A, 0x49, 0xDA, 0x01, 0xEF, 0xCD, 0xB5, 0x2A],
            &[1, 0, 6, 42, 0, 0, 0],
            &[0xC9, 0x10, 2, 0, 0x00, 0xC0, 0x83, 0xED, 0x8A, 0x49, 0xDA, 0x01, 0xEF, 0xCD, 0xB5, 0x2A],
            &[1, 0, 1, 1],
        ];
        assert_eq!(template.frame(), expected.concat());
    }

    #[test]
    fn patches_only_what_is_there_and_of_its_type() {
        let mut template = WriterTemplate::new(&NetworkMessageLayout::papers(1, 1, 2), None).unwrap();
        let before = template.frame().to_vec();
        assert_eq!(template.set_field(0, 3, Value::UInt64(1)), Err(PatchError::Absent));
        assert_eq!(template.set_field(1, 0, Value::UInt64(1)), Err(PatchError::Absent));
        let expected = PatchError::Type { expected: BuiltInType::UInt64, found: BuiltInType::Int64 };
        assert_eq!(template.set_field(0, 1, Value::Int64(1)), Err(expected));
        assert_eq!(template.set_sequence_number(1), Err(PatchError::Absent));
        assert_eq!(template.set_timestamp(1), Err(PatchError::Absent));
        assert_eq!(template.set_data_set_status(0, 1), Err(PatchError::Absent));
        assert_eq!(template.uint64_run(0, 0..3), None, "field 0 is a Boolean");
        assert_eq!(template.uint64_run(0, 1..4), None, "there is no field 3");
        assert_eq!(template.frame(), before);
    }
}
