//! Files as they are delivered.

use std::fs;
use std::path::{Path, PathBuf};

use downbeat_scenario::{
    Cbs, ClockRole, Forwarder, Fraction, HostKind, LimitValue, Quantity, Queue, ReadError, Shaper, TEMPLATES,
    TrafficKind, read, read_file, read_with_warnings, template,
};
use units::{Nanos, Rate};

/// The example of the design, with its line breaks where TOML wants them.
const DESIGN: &str = r#"
name = "bridged-250us"
requirement = { one_way = "2ms", spacing_error = "125us", dSum = "1e-5" }

[time]
cycle = "250us"
base_time = "0s"
phases = { subscribe = 0.0, application = 0.3, publish = 0.6 }
window = 0.2
offset = "150us"

[hosts.pub]
[hosts.br]
kind = "bridge"
latency = "2us"
forwarder = "linux"
[hosts.loop]

[[links]]
between = ["pub", "br"]
rate = "1Gbit/s"
cable = "5m"
[[links]]
between = ["br", "loop"]
rate = "1Gbit/s"

[[ports]]
at = ["pub", "loop"]
queue = { root = "mqprio", map = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0] }

[[streams]]
name = "loop"
writer = "pub"
reader = "loop"
echo = true
variables = 8
vid = 3000
pcp = 7
launch = true

[[traffic]]
from = "pub"
to = "loop"
kind = "tcp"
rate = "200Mbit/s"
pcp = 0
"#;

#[test]
fn the_example_of_the_design_is_read() {
    let (scenario, warnings) = read_with_warnings(DESIGN, "design.toml").map_err(|wrong| wrong.render()).unwrap();
    assert!(warnings.is_empty(), "{}", warnings.render());
    assert_eq!((scenario.name.as_str(), scenario.cycle), ("bridged-250us", Nanos(250_000)));
    let bridge = scenario.host_named("br").unwrap();
    let kind = HostKind::Bridge { latency: Nanos(2_000), forwarder: Forwarder::Linux };
    assert_eq!((&scenario.host(bridge).kind, scenario.host(bridge).clock), (&kind, ClockRole::Shared));
    assert_eq!(scenario.hosts.iter().map(|host| host.publisher_id).collect::<Vec<_>>(), [2234, 2235, 2236]);
    assert_eq!(scenario.hosts[0].phases.publish, Fraction(600_000_000));
    assert_eq!(scenario.links[0].propagation, Nanos(25));
    let kinds: Vec<_> = scenario.ports.iter().map(|port| port.queue.kind()).collect();
    assert_eq!(kinds, ["mqprio", "fifo", "fifo", "mqprio"]);
    let stream = &scenario.streams[0];
    assert_eq!((stream.vid, stream.pcp, stream.offset, stream.writer_group_id), (3000, 7, Nanos(150_000), 101));
    assert_eq!(stream.destinations.map(|address| address[5]), [1, 2]);
    assert_eq!(stream.path.iter().map(|port| scenario.port_name(*port)).collect::<Vec<_>>(), ["pub → br", "br → loop"]);
    assert_eq!(
        stream.return_path.iter().map(|port| scenario.port_name(*port)).collect::<Vec<_>>(),
        ["loop → br", "br → pub"]
    );
    assert_eq!((scenario.traffic[0].kind, scenario.traffic[0].payload_bytes), (TrafficKind::Tcp, 1448));
    assert_eq!(scenario.requirement.len(), 3);
    assert_eq!(scenario.source, DESIGN);
}

#[test]
fn frames_follow_from_the_model() {
    let scenario = read(DESIGN, "design.toml").unwrap();
    let stream = &scenario.streams[0];
    for answer in [false, true] {
        let header = stream.ethernet(&scenario, answer);
        let frame = pubsub::WriterTemplate::new(&stream.layout(&scenario, answer), header.as_ref()).unwrap();
        assert_eq!(frame.frame().len() as u32, stream.frame().socket_bytes());
        assert_eq!(frame.frame()[..6], stream.destinations[usize::from(answer)]);
        assert_eq!(frame.frame()[6..12], [2, 0, 0, 0, 0, if answer { 2 } else { 0 }]);
        assert_eq!(frame.frame()[12..16], [0x81, 0x00, 0xEB, 0xB8]);
    }
}

#[test]
fn templates_are_read_without_warnings() {
    for template in TEMPLATES {
        let (scenario, warnings) =
            read_with_warnings(template.text, template.name).map_err(|wrong| wrong.render()).unwrap();
        assert!(warnings.is_empty(), "{}", warnings.render());
        assert_eq!(scenario.name, template.name);
        assert_eq!((scenario.streams[0].variables, scenario.streams[0].vid), (8, 3000));
    }
    assert_eq!(read(template("line-7").unwrap(), "").unwrap().streams[0].path.len(), 7);
    assert_eq!(template("nothing"), None);
}

#[test]
fn templates_are_read_with_their_commented_lines_too() {
    for template in TEMPLATES {
        let text: String = template
            .text
            .lines()
            // Prose has a space after the #, lines to be taken in have none.
            .map(|line| match line.strip_prefix('#') {
                Some(rest) if !rest.starts_with(' ') => format!("{rest}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        let (_, warnings) = read_with_warnings(&text, template.name).map_err(|wrong| wrong.render()).unwrap();
        assert!(warnings.is_empty(), "{}", warnings.render());
    }
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

#[test]
fn examples_are_read_without_warnings() {
    let mut count = 0;
    for folder in [examples(), examples().join("papers")] {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                let (_, warnings) = read_file(&path).map_err(|wrong| wrong.render()).unwrap();
                assert!(warnings.is_empty(), "{}", warnings.render());
                count += 1;
            }
        }
    }
    assert!(count >= 3);
}

#[test]
fn slopes_in_percent_are_resolved_port_by_port() {
    let (scenario, _) = read_file(&examples().join("papers/rezabek-line-7.toml")).unwrap();
    for port in &scenario.ports {
        let Queue::Mqprio(classes) = &port.queue else { panic!("{:?}", port.queue) };
        assert_eq!(classes.shapers[1], Shaper::Cbs(Cbs { idle_slope: Rate(3_232_000), offload: false }));
    }
    // Without the answer nothing goes back, and nothing is shaped there.
    let one_way = scenario.source.replace("echo = true\n", "").replace("100%", "75%");
    let (scenario, warnings) = read_with_warnings(&one_way, "").unwrap();
    assert_eq!(scenario.ports[0].queue.cbs(1).unwrap().idle_slope, Rate(2_424_000));
    assert_eq!(scenario.ports[1].queue.cbs(1), None);
    assert_eq!(warnings.list().len(), 1);
    assert!(
        warnings.list()[0].message.contains("is less than the 2464kbit/s its streams need"),
        "{}",
        warnings.render()
    );
}

#[test]
fn the_late_payload_misses_its_window_by_little() {
    let (scenario, _) = read_file(&examples().join("late-payload.toml")).unwrap();
    let stream = &scenario.streams[0];
    assert_eq!(stream.payload_bytes(), 1481);
    let wire: i64 = stream
        .path
        .iter()
        .map(|port| scenario.port_rate(*port).transmission(stream.frame().physical_bits()).to_nanos_ceil().0)
        .sum();
    let phases = scenario.hosts[0].phases;
    assert!((Nanos(0)..Nanos(300_000)).contains(&Nanos(wire)));
    assert!(Nanos(wire) > phases.window.of(scenario.cycle));
}

#[test]
fn a_class_brings_its_limits_and_own_ones_replace_them() {
    let text = DESIGN.replace(
        "{ one_way = \"2ms\", spacing_error = \"125us\", dSum = \"1e-5\" }",
        "{ class = \"SR-A\", one_way = \"1ms\", dSum = \"0.1%\" }",
    );
    let scenario = read(&text, "").unwrap();
    assert_eq!(scenario.requirement_class.as_deref(), Some("SR-A"));
    let limits: Vec<_> = scenario.requirement.iter().map(|limit| (limit.quantity, limit.value)).collect();
    assert_eq!(
        limits,
        [
            (Quantity::OneWay, LimitValue::Span(Nanos(1_000_000))),
            (Quantity::SpacingError, LimitValue::Span(Nanos(125_000))),
            (Quantity::LossSum, LimitValue::Share(0.001)),
        ]
    );
}

#[test]
fn files_that_are_none_say_what_to_do() {
    let folder = std::env::temp_dir().join(format!("downbeat-scenario-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let missing = folder.join("none.toml");
    let error = read_file(&missing).unwrap_err();
    assert!(matches!(error, ReadError::Missing(_)));
    assert!(error.render().contains(&format!("downbeat init two-hosts > {}", missing.display())), "{}", error.render());
    let error = read_file(&folder).unwrap_err();
    assert!(matches!(error, ReadError::Folder(_)), "{error:?}");
    assert!(error.render().contains("scenario.toml"));
    let binary = folder.join("binary.toml");
    fs::write(&binary, b"name = \"\xff\"").unwrap();
    let error = read_file(&binary).unwrap_err();
    assert!(matches!(error, ReadError::NotText(_, 8)), "{error:?}");
    assert!(error.render().contains("UTF-8"));
    let large = folder.join("large.toml");
    fs::write(&large, vec![b'#'; 5 << 20]).unwrap();
    assert!(matches!(read_file(&large).unwrap_err(), ReadError::TooLarge(_)));
    let json = serde_json::to_value(read_file(&missing).unwrap_err()).unwrap();
    assert!(json[0]["help"].as_str().unwrap().contains("downbeat init"), "{json}");
    fs::remove_dir_all(folder).unwrap();
}
