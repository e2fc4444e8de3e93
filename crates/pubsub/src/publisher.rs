//! A WriterGroup's NetworkMessage, cycle after cycle: template, sequence numbers, timestamps, counts.

use alloc::vec::Vec;

use wire::EthernetHeader;

use crate::error::{LayoutError, PatchError};
use crate::image::{ImageLayout, ImageSize};
use crate::layout::NetworkMessageLayout;
use crate::template::WriterTemplate;

/// Writes the DataSets of one or several DataSetWriters into one NetworkMessage.
///
/// Each DataSetWriter has its own range of the image, its own SequenceNumber, and if wanted its own time and Status.
/// Nothing after `new` allocates.
#[derive(Debug, Clone)]
pub struct Publisher {
    template: WriterTemplate,
    image: ImageLayout,
    /// Of the next NetworkMessage.
    number: u16,
    number_on_wire: bool,
    /// Nothing but the time of publication changes besides the values.
    plain: bool,
    writers: Vec<DataSetWriter>,
    published: u64,
}

/// What a DataSetWriter has besides its values.
#[derive(Debug, Clone, Copy)]
struct DataSetWriter {
    /// Place of the SequenceNumber in the frame.
    number_at: Option<usize>,
    /// Of the next DataSetMessage.
    number: u16,
    /// Place of the Timestamp in the frame.
    timestamp_at: Option<usize>,
    /// When its values were sampled, if not when they are published.
    sampled: Option<i64>,
}

/// A frame to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published<'a> {
    /// The frame with its Ethernet header, if it has one.
    pub frame: &'a [u8],
    /// SequenceNumber of the NetworkMessage, also where the layout does not send it.
    pub sequence: u16,
}

impl Publisher {
    /// A publisher of `layout` before its first message, with all DataSets in the image ([`ImageLayout::of`]).
    pub fn new(layout: &NetworkMessageLayout, ethernet: Option<&EthernetHeader>) -> Result<Self, LayoutError> {
        Self::with_image(layout, ethernet, ImageLayout::of(layout))
    }

    /// The same with an image in which fields share a place ([`ImageLayout::repeating`]).
    pub fn with_image(
        layout: &NetworkMessageLayout,
        ethernet: Option<&EthernetHeader>,
        image: ImageLayout,
    ) -> Result<Self, LayoutError> {
        let template = WriterTemplate::with_image(layout, ethernet, &image)?;
        let writer = |data_set| {
            let (number_at, timestamp_at) = template.stamps(data_set);
            DataSetWriter { number_at, number: 0, timestamp_at, sampled: None }
        };
        let writers: Vec<_> = (0..layout.data_sets.len()).map(writer).collect();
        let number_on_wire = layout.group_header.is_some_and(|group| group.sequence_number);
        let plain = !number_on_wire && writers.iter().all(|writer| writer.number_at.is_none());
        Ok(Self { template, image, number: 0, number_on_wire, plain, writers, published: 0 })
    }

    /// Where the values are in the image.
    pub fn image(&self) -> &ImageLayout {
        &self.image
    }

    /// The next frame: the values of `image`, the next sequence numbers, and `now_ticks` (100 ns ticks since 1601-01-01
    /// UTC) as every Timestamp but those of DataSets that have their own. Refuses an image that is too short; then no
    /// number is used up.
    #[inline]
    pub fn publish(&mut self, image: &[u8], now_ticks: i64) -> Result<Published<'_>, ImageSize> {
        self.template.write_image(image)?;
        let sequence = self.number;
        self.number = sequence.wrapping_add(1);
        self.published += 1;
        if self.plain {
            self.template.stamp(0, now_ticks);
        } else {
            self.stamp(sequence, now_ticks);
        }
        Ok(Published { frame: self.template.frame(), sequence })
    }

    fn stamp(&mut self, sequence: u16, now_ticks: i64) {
        self.template.set_head(self.number_on_wire.then_some(sequence), now_ticks);
        for writer in &mut self.writers {
            if let Some(at) = writer.number_at {
                self.template.put(at, writer.number.to_le_bytes());
                writer.number = writer.number.wrapping_add(1);
            }
            if let Some(at) = writer.timestamp_at {
                self.template.put(at, writer.sampled.unwrap_or(now_ticks).to_le_bytes());
            }
        }
    }

    /// The Status that a DataSet has from now on: the upper 16 bits of a StatusCode.
    pub fn set_status(&mut self, data_set: usize, status: u16) -> Result<(), PatchError> {
        self.template.set_data_set_status(data_set, status)
    }

    /// When the values of a DataSet were sampled, in 100 ns ticks since 1601-01-01 UTC: its Timestamp from now on.
    /// `None`, as in the beginning, lets the time of the publication be it.
    pub fn set_sampled(&mut self, data_set: usize, ticks: Option<i64>) -> Result<(), PatchError> {
        let writer = self.writers.get_mut(data_set).filter(|writer| writer.timestamp_at.is_some());
        writer.ok_or(PatchError::Absent)?.sampled = ticks;
        self.plain = false;
        Ok(())
    }

    /// The SequenceNumber of the next DataSetMessage of a DataSetWriter, for one that was there before this group.
    pub fn set_next_sequence(&mut self, data_set: usize, number: u16) -> Result<(), PatchError> {
        let writer = self.writers.get_mut(data_set).filter(|writer| writer.number_at.is_some());
        writer.ok_or(PatchError::Absent)?.number = number;
        Ok(())
    }

    /// Frames given out.
    pub fn published(&self) -> u64 {
        self.published
    }
}
