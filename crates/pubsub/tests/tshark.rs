//! tshark reads the same addresses, tag and EtherType out of our frames.

mod common;

use std::process::Command;

use downbeat_pubsub::{EthernetHeader, NetworkMessageLayout, VlanTag, WriterTemplate};

/// A capture file (pcap, microseconds, Ethernet) of `frames`.
fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(0xA1B2_C3D4_u32.to_le_bytes());
    file.extend([2_u16.to_le_bytes(), 4_u16.to_le_bytes()].concat());
    for word in [0_u32, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (second, frame) in frames.iter().enumerate() {
        for word in [second as u32, 0, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// A line of tshark for this header: destination, source, VLAN id, priority, DEI, EtherType.
fn expected(header: &EthernetHeader) -> String {
    let address = |bytes: [u8; 6]| bytes.map(|byte| format!("{byte:02x}")).join(":");
    let (to, from) = (address(header.destination), address(header.source));
    match header.vlan {
        Some(VlanTag { pcp, dei, vid }) => format!("{to}|{from}|{vid}|{pcp}|{}|0xb62c|0x8100", u8::from(dei)),
        None => format!("{to}|{from}|||||0xb62c"),
    }
}

#[test]
fn tshark_agrees_on_addresses_tag_and_ethertype() {
    if !common::have("tshark", Command::new("tshark").arg("--version")) {
        return;
    }
    let mut headers: Vec<EthernetHeader> = common::cases().iter().filter_map(|case| case.ethernet).collect();
    let base =
        EthernetHeader { destination: [1, 0, 0x5E, 0x7F, 0, 1], source: [2, 0x11, 0x22, 0, 0, 0x33], vlan: None };
    headers.push(base);
    for pcp in 0..8 {
        for vid in [0, 1, 8, 3000, 4094] {
            headers.push(EthernetHeader { vlan: Some(VlanTag { pcp, dei: vid == 8, vid }), ..base });
        }
    }
    let layout = NetworkMessageLayout::papers(2234, 101, 8);
    let frames: Vec<Vec<u8>> = headers
        .iter()
        .map(|header| WriterTemplate::new(&layout, Some(header)).expect("a layout").frame().to_vec())
        .collect();
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("frames.pcap");
    std::fs::write(&path, pcap(&frames)).expect("the capture is written");

    let mut tshark = Command::new("tshark");
    tshark.arg("-n").arg("-r").arg(&path).args(["-T", "fields", "-E", "separator=|"]);
    for field in ["eth.dst", "eth.src", "vlan.id", "vlan.priority", "vlan.dei", "vlan.etype", "eth.type"] {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().expect("tshark runs");
    assert!(output.status.success(), "tshark: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).replace("True", "1").replace("False", "0");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), headers.len());
    for (line, header) in lines.iter().zip(&headers) {
        assert_eq!(*line, expected(header));
    }
}
