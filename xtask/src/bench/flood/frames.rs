//! What strangers send.

use pubsub::{Endpoint, PublisherId, WriterTemplate};
use scenario::Scenario;

use crate::bench::rounds::Failure;

/// Destination, source, tag and EtherType.
const HEADER_BYTES: usize = 18;
/// Flags, ExtendedFlags1, PublisherId, GroupFlags and WriterGroupId: all that a dispatcher looks at.
const HEAD_BYTES: usize = 7;
/// A PublisherId that no host of the scenario has.
const NOBODY: u16 = 60_000;

/// A kind of frames that are not to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nonsense behind the head of the stream's messages: the kernel cannot tell it from them.
    Garbage,
    /// Messages of a publisher that nobody reads.
    Foreign,
    /// A message that the writer sent at its start.
    Replayed,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Garbage, Self::Foreign, Self::Replayed];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Garbage => "garbage",
            Self::Foreign => "foreign",
            Self::Replayed => "replayed",
        }
    }
}

/// A frame to the reader of the first stream.
pub(super) fn frame(scenario: &Scenario, kind: Kind) -> Result<Vec<u8>, Failure> {
    let stream = scenario.streams.first().ok_or("no stream")?;
    if kind == Kind::Foreign {
        let mut layout = stream.layout(scenario, false);
        layout.publisher_id = PublisherId::UInt16(NOBODY);
        let header = stream.ethernet(scenario, false).ok_or("a stream over UDP")?;
        return Ok(WriterTemplate::new(&layout, Some(&header))?.frame().to_vec());
    }
    let mut writer = Endpoint::new(stream.endpoint(scenario, true))?;
    writer.application(0);
    let mut frame = writer.publish(0).ok_or("the writer publishes nothing")?.frame.to_vec();
    if kind == Kind::Garbage {
        frame[HEADER_BYTES + HEAD_BYTES..].fill(0xA5);
    }
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use pubsub::Reception;
    use scenario::{LineSpec, line};

    use super::*;

    #[test]
    fn none_of_them_is_taken() {
        let scenario = line(&LineSpec::default());
        let mut reader = Endpoint::new(scenario.streams[0].endpoint(&scenario, false)).unwrap();
        let mut writer = Endpoint::new(scenario.streams[0].endpoint(&scenario, true)).unwrap();
        (0..2).for_each(|cycle| _ = writer.application(cycle));
        reader.receive(&writer.publish(0).unwrap().frame[HEADER_BYTES..]);
        for kind in Kind::ALL {
            let frame = frame(&scenario, kind).unwrap();
            let found = reader.receive(&frame[HEADER_BYTES..]);
            let expected = match kind {
                Kind::Replayed => found == Reception::Old { counter: 1, repeated: false },
                Kind::Garbage | Kind::Foreign => matches!(found, Reception::Foreign(_)),
            };
            assert!(expected, "{kind:?}: {found:?}");
        }
    }
}
