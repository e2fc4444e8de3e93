//! The stream that is measured: the papers' frame, tagged, with n UInt64 that all hold one counter.

use pubsub::{Endpoint, EndpointConfig, EthernetHeader, LayoutError, NetworkMessageLayout, Role, VlanTag};

/// Numbers of UInt64 fields; 160 fill a frame.
pub(super) const FIELDS: [u16; 4] = [2, 8, 32, 160];

/// Numbers of UInt64 fields of the messages that are built and taken apart without a socket; 161 is the papers' most.
pub(super) const CODEC_FIELDS: [u16; 4] = [3, 9, 33, 161];

/// Some day in January 2024 as OPC UA DateTime.
const START_TICKS: i64 = 133_500_000_000_000_000;

/// What the timestamp shows in a cycle of 250 µs. No clock is read for it: the hand-written loop reads none either.
#[inline]
pub(super) fn ticks(cycle: i64) -> i64 {
    START_TICKS + cycle * 2_500
}

pub(super) fn layout(fields: u16) -> NetworkMessageLayout {
    NetworkMessageLayout::papers(2234, 101, fields)
}

pub(super) const HEADER: EthernetHeader = EthernetHeader {
    destination: [0x01, 0x00, 0x5E, 0x7F, 0x00, 0x01],
    source: [2, 0, 0, 0, 0, 1],
    vlan: Some(VlanTag { pcp: 3, dei: false, vid: 8 }),
};

/// The end that writes.
pub(super) fn source(fields: u16) -> Result<Endpoint, LayoutError> {
    let write = Some((layout(fields), Some(HEADER)));
    Endpoint::new(EndpointConfig { role: Role::Source, write, read: None, variables: fields })
}

/// The end that reads.
pub(super) fn sink(fields: u16) -> Result<Endpoint, LayoutError> {
    Endpoint::new(EndpointConfig { role: Role::Sink, write: None, read: Some(layout(fields)), variables: fields })
}

/// One finished frame, for what only needs bytes.
pub(super) fn frame(fields: u16) -> Result<Vec<u8>, LayoutError> {
    let mut source = source(fields)?;
    source.application(1);
    Ok(source.publish(ticks(1)).map(|outgoing| outgoing.frame.to_vec()).unwrap_or_default())
}
