use std::sync::Arc;

use measure::{Event, EventKind, Phase, Side};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use scenario::{LineSpec, line};
use units::{Nanos, Tai};

use super::super::picture::{Details, Picture};
use super::super::state::Shared;
use super::*;

const CYCLE: i64 = 250_000;

fn view(chosen: usize) -> View {
    View { chosen, frozen: false, colours: true }
}

fn drawn(picture: &Picture, width: u16, height: u16, view: View) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, picture, view)).unwrap();
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width.max(1));
    let cells: Vec<&str> = buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect();
    cells.chunks(width).map(|row| row.concat().trim_end().to_owned()).collect()
}

/// A run of `streams` streams under way: 20 messages each, 2 lost, round trips of two cycles and 1 to 20 µs.
fn under_way(streams: usize) -> Arc<Shared> {
    let mut scenario = line(&LineSpec::default());
    scenario.name = "shown".into();
    for number in 1..streams {
        let mut stream = scenario.streams[0].clone();
        stream.name = format!("stream-{number}");
        scenario.streams.push(stream);
    }
    let shared = Shared::new(&scenario, Some(Nanos::from_millis(10_000)));
    let mut state = shared.state();
    (state.rights, state.elapsed) = ("root", Nanos::from_millis(3_200));
    state.granted = vec![("pub".into(), vec!["SCHED_FIFO 80: granted".into()])];
    for stream in 0..streams as u16 {
        (1..=20).for_each(|counter| message(&mut state.figures, stream, counter));
    }
    state.notes = vec!["something to tell".into()];
    drop(state);
    shared
}

fn message(figures: &mut measure::live::Aggregate, stream: u16, counter: u64) {
    let cycle = counter as i64;
    let mut push = |side, kind| figures.push(&Event { stream, side, kind });
    let at = |cycles: i64, offset: i64| Tai((cycle + cycles) * CYCLE + offset);
    for (phase, offset) in Phase::ALL.into_iter().zip([0, 75_000, 150_000, 200_000]) {
        let late = Nanos(if phase == Phase::Publish { 25_000 } else { 1_000 });
        push(Side::Writer, EventKind::Phase { cycle, phase, due: at(0, offset), late, took: Nanos(10_000) });
    }
    let published = |at| EventKind::Published {
        cycle,
        counter,
        sequence: 0,
        handle: counter as u32,
        at,
        launch: None,
        bytes: 77,
        repeated: false,
    };
    push(Side::Writer, published(at(0, 150_000)));
    push(Side::Writer, EventKind::Left { handle: counter as u32, at: at(0, 160_000) });
    if counter == 7 || counter == 8 {
        return;
    }
    let arrived = |stamp, decoded| EventKind::Arrived {
        cycle,
        counter,
        stamp: Some(stamp),
        decoded,
        tag: Some((3000, 7)),
        superseded: None,
        inconsistent: false,
    };
    push(Side::Reader, arrived(at(1, 0), at(1, 5_000)));
    push(Side::Writer, arrived(at(2, 160_000 + 1_000 * cycle), at(2, 200_000)));
    let kind = EventKind::Application {
        cycle,
        wrote: None,
        read: Some(counter),
        repeated: false,
        missed: if counter == 9 { 2 } else { 0 },
        round_trip_cycles: Some(4),
    };
    push(Side::Writer, kind);
}

#[test]
fn what_matters_is_on_a_usual_terminal() {
    let shared = under_way(1);
    let picture = Picture::of(&shared.state(), Details::Of(0));
    let rows = text(&drawn(&picture, 80, 24, view(0)));
    assert_eq!(rows[0], "shown  3.2 s of 10.0 s, 6.8 s left  cycle 250us  trace 0.0 % full");
    assert_eq!(rows[1], "root · granted SCHED_FIFO 80");
    assert_eq!(rows[2], "  stream, µs        p50      max  lost      p99   run max missed      min     /s");
    let name = shared.state().scenario.streams[0].name.clone();
    let expected = format!("› {name:12}    511.0    520.0     2    520.0     520.0      2    501.0      —");
    assert_eq!(rows[3], expected.trim_end());
    assert_eq!(rows[4], format!("{name} round trip wire, last 18: 501.0 … 520.0 µs"));
    // The publish phase began a tenth of the cycle after it was due; it is 70 columns long here.
    let bar = rows.iter().find(|row| row.contains('A') && row.contains('─')).unwrap();
    let bar: String = bar.chars().skip(10).collect();
    let column = |letter| bar.chars().position(|found| found == letter);
    assert_eq!((column('S'), column('A'), column('·'), column('P')), (Some(0), Some(21), Some(42), Some(49)));
    let has = |wanted: &str| rows.iter().any(|row| row.starts_with(wanted));
    assert!(has("counter, cycles         4       4       4       4 │        4        4        4"), "{rows:#?}");
    assert!(rows.iter().any(|row| row.contains("P 25.0/25.0/25.0")), "{rows:#?}");
    assert_eq!(rows[23], "q end  p freeze  ↑↓ stream");
}

#[test]
fn before_cycle_0_it_says_when_that_begins() {
    let shared = under_way(1);
    shared.state().elapsed = Nanos::from_millis(-7_200);
    let rows = text(&drawn(&Picture::of(&shared.state(), Details::Of(0)), 80, 24, view(0)));
    assert!(rows[0].starts_with("shown  begins in 8 s  cycle 250us"), "{rows:#?}");
}

#[test]
fn notes_and_happenings_are_told_where_there_is_room() {
    let shared = under_way(1);
    let rows = text(&drawn(&Picture::of(&shared.state(), Details::Of(0)), 100, 40, view(0)));
    let first = rows.iter().position(|row| row == "lately, the newest first").unwrap();
    assert_eq!(rows[first + 1], "something to tell");
    assert!(rows[first + 2].ends_with("missed 2 counters"), "{rows:#?}");
}

#[test]
fn the_narrowest_keep_what_is_needed_most() {
    let shared = under_way(3);
    let picture = Picture::of(&shared.state(), Details::Of(2));
    let rows = text(&drawn(&picture, 40, 10, view(2)));
    assert!(rows[0].starts_with("shown  3.2 s of 10.0 s"), "{rows:#?}");
    assert!(rows.iter().any(|row| row.starts_with("› stream-2") && row.contains("511.0")), "{rows:#?}");
    assert_eq!(rows[9], "q end  p freeze  ↑↓ stream");
}

#[test]
fn no_size_panics_and_no_state_does() {
    let quiet = Shared::new(&line(&LineSpec::default()), Some(Nanos::from_millis(1)));
    for shared in [quiet, under_way(1), under_way(30)] {
        let streams = shared.state().scenario.streams.len();
        for chosen in [0, streams - 1, streams, usize::MAX - 1] {
            let picture = Picture::of(&shared.state(), Details::Of(chosen));
            for (width, height) in [(0, 0), (1, 1), (2, 3), (12, 4), (40, 10), (80, 24), (81, 7), (300, 100), (5, 60)] {
                drawn(&picture, width, height, view(chosen));
            }
        }
    }
}

#[test]
fn without_colours_there_are_none() {
    let shared = under_way(2);
    let picture = Picture::of(&shared.state(), Details::Of(0));
    let colourful = |colours| {
        let buffer = drawn(&picture, 100, 40, View { colours, ..view(0) });
        buffer.content.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(colourful(true) && !colourful(false));
}

#[test]
fn a_frozen_picture_has_the_details_of_every_stream() {
    let shared = under_way(2);
    let picture = Picture::of(&shared.state(), Details::All);
    let rows = text(&drawn(&picture, 80, 30, View { frozen: true, ..view(1) }));
    assert!(rows[0].starts_with("shown  FROZEN"), "{rows:#?}");
    assert!(rows.iter().any(|row| row.starts_with("stream-1, µs")), "{rows:#?}");
    assert_eq!(rows[29], "q end  p go on  ↑↓ stream");
}

#[test]
fn columns_take_the_greatest_and_count_all() {
    let dist = Dist::of([10, 30, 20, 110]).unwrap();
    assert_eq!(greatest(&[10, 30, 20, 110], &dist, 2), [4 + 20 * 96 / 100, 100]);
    assert_eq!(histogram(&[10, 30, 20, 110], &dist, 10), [2, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
    let same = Dist::of([5, 5]).unwrap();
    assert_eq!((greatest(&[5, 5], &same, 9), histogram(&[5, 5], &same, 3)), (vec![50, 50], vec![2, 0, 0]));
}

#[test]
fn room_goes_to_the_needed_first() {
    let wishes = [(1, 2), (1, 1), (3, 5)];
    assert_eq!(shares(0, wishes), [0, 0, 0]);
    assert_eq!(shares(1, wishes), [1, 0, 0]);
    assert_eq!(shares(4, wishes), [2, 1, 0]);
    assert_eq!(shares(6, wishes), [2, 1, 3]);
    assert_eq!(shares(99, wishes), [2, 1, 5]);
}
