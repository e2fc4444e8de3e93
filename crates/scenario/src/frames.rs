//! The frames of a stream: from the model to bytes.

use pubsub::{EndpointConfig, EthernetHeader, NetworkMessageLayout, Role, VlanTag};

use crate::model::{FieldEncoding, HostId, Scenario, Stream};

impl Scenario {
    /// The MAC address of a host's ports: locally administered, with the index of the host in the last octets.
    pub fn mac(&self, id: HostId) -> [u8; 6] {
        let [high, low] = (id.0 as u16).to_be_bytes();
        [0x02, 0x00, 0x00, 0x00, high, low]
    }
}

impl Stream {
    /// The station that publishes in one direction: the writer, or for answers the reader.
    pub fn publisher(&self, answer: bool) -> HostId {
        if answer { self.reader } else { self.writer }
    }

    /// The NetworkMessages of one direction; `answer` is that from reader to writer.
    pub fn layout(&self, scenario: &Scenario, answer: bool) -> NetworkMessageLayout {
        let publisher_id = scenario.host(self.publisher(answer)).publisher_id;
        match self.encoding {
            FieldEncoding::Variant => NetworkMessageLayout::papers(publisher_id, self.writer_group_id, self.variables),
            FieldEncoding::RawData => {
                NetworkMessageLayout::periodic_fixed(publisher_id, self.writer_group_id, self.variables)
            }
        }
    }

    /// Whether its DataSetMessages have a Status, so that they say whether their values may be used.
    pub fn sends_status(&self, scenario: &Scenario) -> bool {
        self.layout(scenario, false).data_sets.iter().all(|data_set| data_set.status)
    }

    /// The Ethernet header of one direction; `answer` is that from reader to writer. None over UDP, where the kernel
    /// makes it.
    pub fn ethernet(&self, scenario: &Scenario, answer: bool) -> Option<EthernetHeader> {
        let (vid, pcp) = self.tag()?;
        Some(EthernetHeader {
            destination: self.destinations[usize::from(answer)],
            source: scenario.mac(self.publisher(answer)),
            vlan: Some(VlanTag { pcp, dei: false, vid }),
        })
    }

    /// The engine's configuration of one end: the writer's, or else the reader's.
    pub fn endpoint(&self, scenario: &Scenario, writer: bool) -> EndpointConfig {
        let message = |answer| (self.layout(scenario, answer), self.ethernet(scenario, answer));
        let (role, writes, reads) = match (writer, self.echo) {
            (true, echo) => (Role::Source, true, echo),
            (false, true) => (Role::Echo, true, true),
            (false, false) => (Role::Sink, false, true),
        };
        EndpointConfig {
            role,
            write: writes.then(|| message(!writer)),
            read: reads.then(|| message(writer).0),
            variables: self.variables,
        }
    }
}
