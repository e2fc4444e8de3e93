//! What goes into a subscriber, and what it says of what it received.

use alloc::vec::Vec;

use units::Nanos;

use crate::error::{LayoutError, Mismatch};
use crate::general::Rejected;
use crate::layout::NetworkMessageLayout;

/// What a [`Subscriber`](crate::Subscriber) is made from.
#[derive(Debug, Clone)]
pub struct SubscriberConfig {
    /// The NetworkMessages that are expected.
    pub layout: NetworkMessageLayout,
    /// DataSetWriterIds whose DataSets are wanted, in the order in which they are in the image; `None` for all, in the
    /// order of the message.
    pub writers: Option<Vec<u16>>,
    /// MessageReceiveTimeout (OPC 10000-14 §6.2.9): longest time between two new DataSetMessages of a reader; zero
    /// switches it off.
    pub receive_timeout: Nanos,
    /// Takes only messages whose constant bytes are those of the layout, and finds all others foreign.
    pub strict: bool,
}

impl SubscriberConfig {
    /// All DataSets of messages of exactly this form, no timeout.
    pub fn strict(layout: NetworkMessageLayout) -> Self {
        Self { layout, writers: None, receive_timeout: Nanos::ZERO, strict: true }
    }
}

/// What a received message was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// Not of this WriterGroup.
    Foreign(Mismatch),
    /// Fields that share a place in the image differ: it is not read.
    Inconsistent,
    /// Older than one that was there before, or the same again: it is not read.
    Stale,
    /// Of this WriterGroup, but nothing that can be taken.
    Rejected(Rejected),
    /// A keep-alive or heartbeat: the writer is there and has nothing new.
    KeepAlive,
    /// News.
    Message {
        /// It replaced a message that had not been taken.
        superseded: bool,
    },
}

/// What a subscriber has seen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SubscriberCounts {
    /// Messages of the WriterGroup, consistent or not.
    pub received: u64,
    /// Messages that are not of the WriterGroup.
    pub foreign: u64,
    /// Messages in which fields that share a place in the image differ.
    pub inconsistent: u64,
    /// Messages of another form than the layout's that were decoded nevertheless.
    pub fallback: u64,
    /// Messages of the WriterGroup that could not be taken, for a reason that [`Received::Rejected`] told.
    pub rejected: u64,
    /// Keep-alives and heartbeats.
    pub keep_alive: u64,
    /// Messages that no reader took, because they were old or the same again by their sequence numbers.
    pub stale: u64,
    /// Messages replaced by a newer one before they were taken.
    pub superseded: u64,
    /// Messages that never came, by the sequence numbers of the NetworkMessages, else of the DataSetMessages.
    pub lost: u64,
    /// How often a reader ran into its MessageReceiveTimeout.
    pub timeouts: u64,
}

/// Which DataSets of the layout are wanted, in the order of the image.
pub(crate) fn wanted(config: &SubscriberConfig) -> Result<Vec<usize>, LayoutError> {
    let sets = &config.layout.data_sets;
    let Some(writers) = &config.writers else { return Ok((0..sets.len()).collect()) };
    let place = |&writer_id: &u16| {
        let found = sets.iter().position(|set| set.writer_id == writer_id);
        found.ok_or(LayoutError::UnknownWriter { writer_id })
    };
    let wanted: Vec<usize> = writers.iter().map(place).collect::<Result<_, _>>()?;
    if wanted.is_empty() { Err(LayoutError::NoDataSets) } else { Ok(wanted) }
}
