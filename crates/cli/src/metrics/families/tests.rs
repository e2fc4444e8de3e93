use std::sync::Arc;

use measure::{Event, EventKind, Phase, Side};
use prometheus::{Encoder, TextEncoder};
use units::Tai;

use super::*;
use crate::live::Shared;

#[path = "../../../tests/common/exposition.rs"]
mod exposition;

use exposition::Page;

fn page(shared: &Arc<Shared>) -> Page {
    let mut text = Vec::new();
    TextEncoder::new().encode(&families(&shared.state()), &mut text).unwrap();
    Page::read(std::str::from_utf8(&text).unwrap()).unwrap()
}

fn shared(name: &str) -> Arc<Shared> {
    let mut scenario = scenario::line(&scenario::LineSpec::default());
    scenario.name = name.into();
    Shared::new(&scenario, Some(Nanos::from_millis(2_500)))
}

#[test]
fn before_the_first_event_what_was_not_measured_is_absent() {
    let page = page(&shared("quiet"));
    let of_stream = [("scenario", "quiet")];
    assert_eq!(page.get("downbeat_messages_published_total", &of_stream), Some(0.0));
    assert_eq!(page.get("downbeat_run_duration_seconds", &of_stream), Some(2.5));
    assert!(page.samples.keys().all(|key| !key.contains("_bucket") && !key.contains("_missed_")), "{page:?}");
}

#[test]
fn figures_come_with_their_labels_in_base_units() {
    let shared = shared("a \"quoted\\ name");
    {
        let mut state = shared.state();
        let (writer, reader) = (state.scenario.streams[0].writer, state.scenario.streams[0].reader);
        assert_ne!(state.scenario.host(writer).name, state.scenario.host(reader).name);
        let mut push = |side, kind| state.figures.push(&Event { stream: 0, side, kind });
        let published = |handle, at| EventKind::Published {
            cycle: 0,
            counter: 1,
            sequence: 1,
            handle,
            at: Tai(at),
            launch: None,
            bytes: 77,
            repeated: false,
        };
        let arrived = |stamp, decoded| EventKind::Arrived {
            cycle: 0,
            counter: 1,
            stamp: Some(Tai(stamp)),
            decoded: Tai(decoded),
            tag: None,
            superseded: None,
            inconsistent: false,
        };
        push(Side::Writer, published(0, 1_000));
        push(Side::Writer, EventKind::Left { handle: 0, at: Tai(2_000) });
        push(Side::Reader, arrived(3_000, 4_000));
        push(Side::Reader, published(0, 5_000));
        push(Side::Writer, arrived(1_002_000, 1_003_000));
        push(Side::Reader, EventKind::NotSent { handle: 1, errno: 100 });
        let late = Nanos(250_000);
        push(Side::Reader, EventKind::Phase { cycle: 0, phase: Phase::Publish, due: Tai(0), late, took: Nanos(5_000) });
        state.traces = vec![lab::TraceState { host: "pub".into(), found: 16_384, capacity: 65_536, lost: 7 }];
    }
    let page = page(&shared);
    let stream = shared.state().scenario.streams[0].clone();
    let reader = shared.state().scenario.host(stream.reader).name.clone();
    let of = |name: &str, labels: &[(&str, &str)]| page.get(&format!("downbeat_{name}"), labels);
    // T7 - T2 is exactly 1 ms: in the bucket of 1 ms, not in that of 500 µs.
    let wire = [("stream", stream.name.as_str()), ("quantity", "wire")];
    assert_eq!(of("round_trip_seconds_bucket", &[&wire[..], &[("le", "0.0005")]].concat()), Some(0.0));
    assert_eq!(of("round_trip_seconds_bucket", &[&wire[..], &[("le", "0.001")]].concat()), Some(1.0));
    assert_eq!((of("round_trip_seconds_sum", &wire), of("round_trip_seconds_count", &wire)), (Some(0.001), Some(1.0)));
    assert_eq!(of("one_way_seconds_sum", &[("quantity", "stack")]), Some(0.000_003));
    let at_reader = [("host", reader.as_str()), ("stream", stream.name.as_str())];
    assert_eq!(of("sends_refused_total", &at_reader), Some(1.0));
    assert_eq!(of("messages_wrong_tag_total", &at_reader), Some(1.0));
    let publish = [("host", reader.as_str()), ("phase", "publish")];
    assert_eq!(of("wakeup_lateness_seconds_sum", &publish), Some(0.000_25));
    assert_eq!((of("phase_outliers_total", &publish), of("phase_longest_seconds", &publish)), (Some(1.0), Some(5e-6)));
    assert_eq!((of("trace_fill_ratio", &[]), of("trace_records_lost_total", &[])), (Some(0.25), Some(7.0)));
    assert!(page.samples.keys().all(|key| key.contains(r#"scenario="a \"quoted\\ name""#)), "{page:?}");
}

#[test]
fn the_reader_of_pages_is_strict() {
    for wrong in [
        "downbeat_x 1\n",
        "# HELP downbeat_x y\n# TYPE downbeat_x gauge\ndownbeat_x 1",
        "# HELP downbeat_x y\n# TYPE downbeat_x gauge\ndownbeat_x 1\ndownbeat_x 1\n",
        "# HELP downbeat_x y\n# TYPE downbeat_x counter\ndownbeat_x 1\n",
        "# HELP downbeat_x y\n# TYPE downbeat_x gauge\ndownbeat_y 1\n",
        "# HELP downbeat_x y\n# TYPE downbeat_x gauge\ndownbeat_x{a=\"b} 1\n",
        "# HELP downbeat_x y\n# TYPE downbeat_x gauge\ndownbeat_x one\n",
        "# HELP downbeat_x y\n# TYPE downbeat_x histogram\ndownbeat_x_bucket{le=\"1\"} 2\n\
         downbeat_x_bucket{le=\"+Inf\"} 1\ndownbeat_x_sum 1\ndownbeat_x_count 1\n",
    ] {
        assert!(Page::read(wrong).is_err(), "{wrong}");
    }
}
