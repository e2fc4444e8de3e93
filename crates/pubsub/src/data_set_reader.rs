//! One of the readers of a subscriber: what it knows of its DataSetWriter.

use crate::sequence::SequenceWindow;

/// What one DataSetWriter's messages are to us.
#[derive(Debug, Clone)]
pub(crate) struct DataSetReader {
    pub(crate) writer_id: u16,
    /// Places in a message of the layout.
    pub(crate) number_at: Option<usize>,
    pub(crate) status_at: Option<usize>,
    pub(crate) window: SequenceWindow,
    /// Of the newest DataSetMessage: the upper 16 bits of a StatusCode.
    pub(crate) status: u16,
    /// It has had a key frame.
    pub(crate) known: bool,
    /// Which of the subscriber's messages had its newest DataSetMessage, from 1.
    pub(crate) news: u64,
    pub(crate) staged: StagedDataSet,
}

/// What the staged message has for a reader.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StagedDataSet {
    pub(crate) part: Part,
    pub(crate) number: Option<u16>,
    pub(crate) status: u16,
}

/// Which part a message is for a reader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Part {
    /// It is not in it.
    #[default]
    Nothing,
    /// Its SequenceNumber is that of the next message with values.
    KeepAlive,
    /// It has a SequenceNumber of its own.
    Heartbeat,
    Values,
}

/// All that there is to say of a message that has nothing but values.
pub(crate) const PLAIN: StagedDataSet = StagedDataSet { part: Part::Values, number: None, status: 0 };

/// The two highest bits of a StatusCode: 0 Good, 1 Uncertain, 2 Bad (OPC 10000-4 §7.39).
pub(crate) const SEVERITY_BAD: u16 = 0x8000;
/// Status of a DataSetMessage that holds no counter, but what is published in place of one: upper half of BadOutOfService
/// (OPC 10000-4 §7.39), the source of the data is not operational.
pub(crate) const OUT_OF_SERVICE: u16 = 0x808D;
