//! What every page must hold: self-contained, well formed, honest about what is absent.

mod synthetic;

use downbeat_report::{ReportError, RunInput, from_dirs, page};
use measure::{Incident, Kind, kinds};

const VOID: [&str; 6] = ["meta", "link", "br", "hr", "img", "input"];

/// Every opened element is closed in order; attributes are quoted.
fn assert_well_formed(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("begins with its type");
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let mut quoted = false;
        let end = rest
            .find(|c| {
                quoted ^= c == '"';
                c == '>' && !quoted
            })
            .expect("an unclosed tag");
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closing order");
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap();
        if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
        if name == "style" {
            rest = &rest[rest.find("</style>").expect("style is closed")..];
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

fn both(frames: u64) -> Vec<RunInput> {
    vec![synthetic::run(frames, Kind::Measured), synthetic::run(frames, Kind::Simulated)]
}

#[test]
fn a_page_is_well_formed_and_loads_nothing() {
    let page = page(&both(2_000));
    assert_well_formed(&page);
    for forbidden in ["http:", "https:", "src=", "<script", "@import", "url("] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert!(!page.contains("NaN") && !page.contains("inf\""));
}

#[test]
fn contents_stand_in_the_order_people_ask_for_them() {
    let page = page(&both(2_000));
    let titles = [
        "<b>Not met</b>",
        "What went wrong",
        "A host was late",
        "Frames left after their launch time",
        "Frames were lost",
        ">Summary",
        "Round trip, wire: T7 − T2",
        "Spacing of arrivals",
        "Where the time went",
        "Stage by stage, T1 to T8",
        "Counter round trip: cycles used",
        "The cycle to scale",
        "Round trip T7 − T2 over the run",
        "Losses and counters",
        "How frames departed",
        "How late the hosts woke",
        "Safety margins",
        "On what it ran",
        "The certificate of the bound",
        "Do it again",
        "The scenario file as it was read",
    ];
    let mut from = 0;
    for title in titles {
        let at = page[from..].find(title).unwrap_or_else(|| panic!("{title} is missing or too early"));
        from += at;
    }
    assert!(page.contains("own pacing: sleep, then spin"));
    assert!(page.contains("they have no wire time"));
}

#[test]
fn every_drawing_says_what_it_shows() {
    let page = page(&both(500));
    assert_eq!(page.matches("<svg class=\"chart").count(), page.matches("role=\"img\"><title>").count());
    assert_eq!(page.matches("<desc>").count(), page.matches("role=\"img\"><title>").count());
}

#[test]
fn names_are_escaped() {
    let mut runs = both(200);
    for run in &mut runs {
        run.dir_name = "<img onerror=x>".into();
        run.scenario.name = "a<b>&\"c\"".into();
        run.scenario.hosts[0].name = "<script>pub".into();
        run.scenario.streams[0].name = "</svg>".into();
        run.run.streams[0].name = "</svg>".into();
    }
    runs[0].run.incidents[0].cause = "<b>bold</b> claims".into();
    let page = page(&runs);
    assert_well_formed(&page);
    assert!(!page.contains("<script") && !page.contains("<img") && !page.contains("<b>bold"));
    assert!(page.contains("&lt;script&gt;pub"));
}

#[test]
fn what_is_absent_is_a_dash_and_never_zero() {
    let mut run = synthetic::run(300, Kind::Measured);
    let stream = &mut run.run.streams[0];
    stream.round_trip = Default::default();
    stream.one_way = None;
    stream.one_way_stack = None;
    stream.jitter = Default::default();
    stream.loss.dP = None;
    run.run.verdict.items[0].found = None;
    let page = page(&[run]);
    assert!(page.contains("not measured"));
    let summary = &page[page.find(">Summary").unwrap()..page.find("All percentiles").unwrap()];
    let body = &summary[summary.find("<tbody>").unwrap()..summary.find("</tbody>").unwrap()];
    for row in body.split("<tr>").skip(1) {
        assert!(row.contains("<td class=\"n absent\" data-label=\"Measurement\">—</td></tr>"), "{row}");
    }
    let losses = &page[page.find("Losses and counters").unwrap()..];
    let row = &losses[losses.find("<th scope=\"row\">dP").unwrap()..];
    assert!(row[..row.find("</tr>").unwrap()].contains('—'));
}

#[test]
fn a_run_without_messages_gives_a_page() {
    for kind in [Kind::Measured, Kind::Simulated] {
        let mut run = synthetic::run(0, kind);
        run.run.hosts.clear();
        let page = page(&[run]);
        assert_well_formed(&page);
        assert!(page.contains("Not measured."));
    }
    assert_well_formed(&page(&[]));
    let one = page(&[synthetic::run(1, Kind::Measured)]);
    assert_well_formed(&one);
}

#[test]
fn an_incident_without_messages_is_still_told() {
    let mut run = synthetic::run(0, Kind::Measured);
    run.run.incidents = vec![Incident {
        at_ns: 5,
        kind: kinds::WRITER_SILENT.into(),
        cause: "pub published and nothing arrived".into(),
        frames: 0,
        lasted_ns: None,
        place: None,
    }];
    let page = page(&[run]);
    assert_well_formed(&page);
    assert!(page.contains("A publisher fell silent") && page.contains("pub published and nothing arrived"));
}

#[test]
fn an_unbounded_stream_says_why() {
    let mut run = synthetic::run(100, Kind::Simulated);
    // A frame a cycle takes far more than a line of 100 kbit/s carries.
    for link in &mut run.scenario.links {
        link.rate = "100kbit/s".parse().unwrap();
    }
    let page = page(&[run]);
    assert_well_formed(&page);
    assert!(page.contains("no bound"));
    assert!(page.contains("There is no bound: "));
}

#[test]
fn one_run_alone_and_several_of_a_kind_are_shown() {
    let alone = page(&[synthetic::run(300, Kind::Simulated)]);
    assert!(alone.contains("Simulation max") && !alone.contains("Measurement max"));
    let mut runs = both(300);
    let mut again = synthetic::run(300, Kind::Measured);
    again.dir_name = "second".into();
    runs.push(again);
    let page = page(&runs);
    assert!(page.contains("Measurement second max") && page.contains("curve more1"));
}

#[test]
fn different_scenarios_have_sections_of_their_own() {
    let mut runs = both(300);
    runs[1].run.scenario.sha256 = "other".into();
    runs[1].scenario.name = "another".into();
    let page = page(&runs);
    assert_well_formed(&page);
    assert!(page.contains("<h1>2 scenarios</h1>"));
    assert_eq!(page.matches(">Summary").count(), 2);
}

#[test]
fn nothing_required_is_said() {
    let mut run = synthetic::run(50, Kind::Simulated);
    run.scenario.requirement.clear();
    run.run.verdict.items.clear();
    assert!(page(&[run]).contains("Nothing is required"));
}

#[test]
fn headings_go_down_one_at_a_time() {
    let mut runs = both(500);
    runs[1].run.scenario.sha256 = "other".into();
    for page in [page(&runs), page(&both(500))] {
        let mut last = 0;
        for part in page.split("<h").skip(1) {
            if let Some(level) = part.chars().next().and_then(|c| c.to_digit(10)) {
                assert!(level <= last + 1, "h{level} after h{last}: {}", &part[..part.len().min(80)]);
                last = level;
            }
        }
    }
}

#[test]
fn a_long_run_gives_a_small_page() {
    let page = page(&both(100_000));
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
}

#[test]
fn no_folder_is_an_error_that_says_what_to_name() {
    assert!(matches!(from_dirs(&[]), Err(ReportError::NoRuns)));
    let error = from_dirs(&["no/such/folder".into()]).unwrap_err();
    assert!(error.to_string().contains("no/such/folder"));
}
