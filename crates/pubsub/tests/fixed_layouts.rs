//! The golden frames of fixed layout, both ways, and the sizes that the papers give.

mod common;

use downbeat_pubsub::{EthernetHeader, NetworkMessageLayout, ReaderLayout, VlanTag, WriterTemplate};

#[test]
fn every_golden_frame_is_written_to_the_byte() {
    let cases = common::cases();
    assert_eq!(cases.len(), 38);
    for case in cases {
        let mut template = WriterTemplate::new(&case.layout, case.ethernet.as_ref()).expect("a layout");
        common::set_values(&mut template, &case.description);
        assert_eq!(common::hex(template.frame()), common::hex(&case.bytes), "{}", case.id);
    }
}

#[test]
fn every_golden_frame_is_read_as_described() {
    for case in common::cases() {
        let uadp = match case.ethernet {
            None => &case.bytes[..],
            Some(header) => {
                let (parsed, ethertype, uadp) = parse(&case.bytes);
                assert_eq!((parsed, ethertype), (header, 0xB62C), "{}", case.id);
                uadp
            }
        };
        let reader = ReaderLayout::new(&case.layout).expect("a layout");
        reader.check(uadp).unwrap_or_else(|mismatch| panic!("{}: {mismatch}", case.id));
        let padding = case.description.get("padding").map_or(0, common::number) as usize;
        assert_eq!(reader.bytes() + padding, uadp.len(), "{}", case.id);
        common::assert_values(&case.id, &reader, uadp, &case.description);
    }
}

fn parse(frame: &[u8]) -> (EthernetHeader, u16, &[u8]) {
    EthernetHeader::parse(frame).expect("a frame")
}

const HEADER: EthernetHeader = EthernetHeader {
    destination: [0x01, 0x00, 0x5E, 0x7F, 0x00, 0x01],
    source: [2, 0, 0, 0, 0, 10],
    vlan: Some(VlanTag { pcp: 3, dei: false, vid: 8 }),
};

fn payload_and_frame(variables: u16) -> (usize, usize) {
    let layout = NetworkMessageLayout::papers(2234, 101, variables);
    let template = WriterTemplate::new(&layout, Some(&HEADER)).expect("a layout");
    (template.uadp().len(), template.frame().len())
}

#[test]
fn payloads_of_the_eight_repeated_node_counts() {
    for (repeated, payload) in [(2, 59), (4, 77), (8, 113), (16, 185), (32, 329), (64, 617), (128, 1193), (160, 1481)] {
        assert_eq!(payload_and_frame(repeated + 1), (payload, payload + 18), "{repeated} repeated nodes");
    }
}

#[test]
fn payloads_of_the_six_variable_counts() {
    for (variables, payload) in [(3, 59), (12, 140), (30, 302), (65, 617), (136, 1256), (163, 1499)] {
        assert_eq!(payload_and_frame(variables), (payload, payload + 18), "{variables} variables");
    }
}

#[test]
fn papers_layout_writes_the_first_captured_frame() {
    let case = common::cases().into_iter().find(|case| case.id == "live-tsn-3").expect("the case");
    let mut layout = NetworkMessageLayout::papers(2234, 101, 3);
    layout.data_sets[0].major_version = case.layout.data_sets[0].major_version;
    layout.data_sets[0].minor_version = case.layout.data_sets[0].minor_version;
    assert_eq!(layout, case.layout);
}

#[test]
fn periodic_fixed_has_20_bytes_and_8_per_variable() {
    for variables in [1, 3, 8, 161] {
        let layout = NetworkMessageLayout::periodic_fixed(2234, 101, variables);
        assert_eq!(ReaderLayout::new(&layout).expect("a layout").bytes(), 20 + 8 * usize::from(variables));
    }
}
