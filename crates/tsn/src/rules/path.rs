//! The way of a priority: from the socket by class and queue to the wire, and through bridges.

use scenario::{HostKind, Stream};

use super::{Checked, Finding, Severity};

pub(super) fn check(at: &Checked<'_>, findings: &mut Vec<Finding>) {
    let Some(classes) = at.port.classes() else { return };
    let host = at.scenario.port(at.port.id).host;
    let bridge = at.scenario.host(host).kind != HostKind::Station;
    let mut said: Vec<&str> = Vec::new();
    for stream in &at.port.streams {
        if said.contains(&stream.name.as_str()) {
            continue;
        }
        said.push(&stream.name);
        if classes.shapers.len() > 1
            && stream.pcp > 0
            && at.port.queue.class_of(stream.pcp) == at.port.queue.class_of(0)
        {
            findings.push(at.finding(
                "class-shared-with-best-effort",
                Severity::Warning,
                [
                    format!(
                        "stream {} (PCP {}) is in class {}, that of priority 0",
                        stream.name, stream.pcp, classes.map[0]
                    ),
                    "a class of its own: everything that has no priority waits in the same queue".into(),
                    format!("change place {} of `map`", stream.pcp),
                ],
                "",
            ));
        }
        if bridge {
            at_bridge(at, stream, findings);
        }
    }
}

fn at_bridge(at: &Checked<'_>, stream: &Stream, findings: &mut Vec<Finding>) {
    if stream.pcp == 0 {
        return;
    }
    let (found, mend) = match stream.tag() {
        None => (
            "its frames travel over UDP and have no tag",
            "send it in Ethernet frames, or put priority 0 into the class",
        ),
        Some((0, _)) => ("its VID is 0, and a VLAN-aware bridge takes such a tag away", "give the stream a `vid`"),
        Some(_) => return,
    };
    findings.push(at.finding(
        "priority-lost-at-bridge",
        Severity::Warning,
        [
            format!("stream {} (PCP {}): {found}", stream.name, stream.pcp),
            format!(
                "a tag with PCP: the bridge knows the priority from there alone, and queues it in class {} else",
                at.port.queue.class_of(0)
            ),
            mend.into(),
        ],
        "Linux 6.1.192, __netif_receive_skb_core; tried",
    ));
}
