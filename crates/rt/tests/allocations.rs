//! The counting allocator counts, and the paths of a cycle do not allocate.

use downbeat_rt::alloc::{Counting, allocations_of_this_thread};
use downbeat_rt::clock::{Clock, SystemClock};
use downbeat_rt::events::{EventClock, Grid};
use downbeat_rt::image::{Image, ImageSpec};
use downbeat_rt::ptp::Tick;
use downbeat_rt::ring::Ring;
use downbeat_rt::testing::{FakeClock, FakeEvents, SharedClock};
use downbeat_rt::wait::{Pacer, Wait};
use units::{Nanos, Tai};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn allocations_are_counted_per_thread() {
    let before = allocations_of_this_thread();
    let mut list: Vec<u64> = Vec::with_capacity(1);
    assert_eq!(allocations_of_this_thread(), before + 1);
    list.reserve_exact(1_000);
    assert_eq!(allocations_of_this_thread(), before + 2, "growing counts too");
    drop(list);
    assert_eq!(allocations_of_this_thread(), before + 2, "freeing does not");
    // Two threads do not see each other's.
    let other = std::thread::spawn(|| {
        let before = allocations_of_this_thread();
        let list = vec![0_u8; 64];
        (allocations_of_this_thread() - before, list)
    });
    let (other_count, _list) = other.join().unwrap();
    assert_eq!(other_count, 1);
}

#[test]
fn a_cycle_allocates_nothing() {
    let ring = Ring::create("allocations", 8).unwrap();
    let (mut producer, mut consumer) = (ring.producer().unwrap(), ring.consumer().unwrap());
    let spec = ImageSpec::new().input("in", 9, 8).unwrap().output("out", 9, 8).unwrap();
    let image = Image::create("allocations", &spec).unwrap();
    let (mut inputs, mut received) = (image.input_writer().unwrap(), image.input_reader().unwrap());
    let (mut outputs, mut answered) = (image.output_writer().unwrap(), image.output_reader().unwrap());
    let mut clock = SystemClock::new();
    let period = Nanos::from_micros(200);
    let mut pacers = [Wait::Sleep, Wait::Hybrid, Wait::Spin].map(|how| Pacer::new(how, period));
    let before = allocations_of_this_thread();
    for cycle in 0..20 {
        let pacer = &mut pacers[cycle as usize % 3];
        let began = pacer.wait(&clock, clock.now() + period);
        assert_eq!(clock.check_step(), None);
        inputs.write(cycle, began, |bytes| bytes.copy_from_slice(&cycle.to_le_bytes()));
        let snapshot = received.read().unwrap();
        outputs.write(snapshot.cycle, snapshot.at, |bytes| bytes.copy_from_slice(snapshot.bytes));
        assert_eq!(answered.read().unwrap().bytes, cycle.to_le_bytes());
        _ = producer.push(&[cycle as u64, began.0 as u64, 0, 0, 0, 0, 0, 0]);
        if cycle % 3 == 0 {
            _ = consumer.pop();
        }
    }
    assert_eq!(allocations_of_this_thread(), before);
}

#[test]
fn waiting_for_events_that_come_fail_and_stop_allocates_nothing() {
    let period = Nanos::from_micros(250);
    let grid = Grid { first: Tai(0), period };
    let event = |number: i64| {
        let tick = Tick { at: grid.first + period * number, index: 0 };
        (period * number + Nanos(3_000), if number == 70 { Err(5) } else { Ok(tick) })
    };
    let shared = SharedClock::new(FakeClock::new(Tai(-100)));
    let device = FakeEvents::new(shared.clone()).with_events((0..100).filter(|number| number % 7 != 6).map(event));
    let mut clock = EventClock::new(shared, device, 0, grid);
    let before = allocations_of_this_thread();
    for number in 1..200 {
        clock.sleep_until(grid.first + period * number);
        assert_eq!(clock.check_step(), None);
    }
    assert_eq!(allocations_of_this_thread(), before);
    let counts = clock.counts();
    assert!(counts.woken > 0 && counts.lost > 0 && counts.errors == 1 && counts.stops > 0, "{counts:?}");
}
