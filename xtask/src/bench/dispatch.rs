//! Finding the subscriber of a message: with few WriterGroups and with many.

use std::hint::black_box;

use pubsub::{DispatchKey, Dispatcher, NetworkMessageLayout, PublisherId, WriterTemplate};

use super::rounds::{Amount, Failure, Measured, Row, run, timed_frames};

/// UInt64 fields of the messages; only their heads are looked at.
pub(super) const FIELDS: u16 = 3;

const FRAMES: u32 = 1024;
/// Few enough for the first cache, where a message is that has just been received.
const MESSAGES: u16 = 10;

/// Measures all rows.
pub(super) fn measure(amount: Amount) -> Result<Vec<Measured>, Failure> {
    let rows = vec![
        row("groups_10", "10 groups", 10)?,
        row("groups_100", "100 groups", 100)?,
        row("groups_1000", "1000 groups", 1_000)?,
        row("groups_4096", "4096 groups", 4_096)?,
    ];
    run(rows, amount, FRAMES)
}

/// Ten publishers' groups in turn, spread over all that there are.
fn row(key: &'static str, name: &'static str, groups: u16) -> Result<Row<'static>, Failure> {
    let ids = |group: u16| (2_000 + group / 8, 100 + group % 8);
    let keys: Vec<_> = (0..groups)
        .map(ids)
        .map(|(publisher, group)| DispatchKey {
            publisher_id: PublisherId::UInt16(publisher),
            writer_group_id: Some(group),
        })
        .collect();
    let dispatcher = Dispatcher::new(&keys)?;
    let message = |index: u16| {
        let subscriber = index * (groups / MESSAGES);
        let (publisher, group) = ids(subscriber);
        let layout = NetworkMessageLayout::papers(publisher, group, FIELDS);
        Ok::<_, Failure>((WriterTemplate::new(&layout, None)?.frame().to_vec(), u32::from(subscriber)))
    };
    let messages = (0..MESSAGES).map(message).collect::<Result<Vec<_>, _>>()?;
    let mut next = 0;
    Ok(Row::new(key, name, move || {
        timed_frames(FRAMES, || {
            let (uadp, subscriber) = &messages[next];
            next = (next + 1) % messages.len();
            match dispatcher.find(black_box(uadp)) {
                [found] if found == subscriber => Ok(()),
                found => Err(format!("expected subscriber {subscriber}, found {found:?}").into()),
            }
        })
    }))
}
