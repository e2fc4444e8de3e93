//! The exchange of slots under loom: every interleaving and every reordering that the memory model allows, up to a
//! bounded number of preemptions.
//!
//!     RUSTFLAGS="--cfg loom" cargo test -p downbeat-rt --release --test loom_image --target-dir target/loom
//!
//! A slot is loom's `UnsafeCell`, which fails the test when two threads are in it at once. Its two halves are written
//! one after the other, so that a torn value would show too.
#![cfg(loom)]

use downbeat_rt::image::triple::{Seat, Word, reset};
use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::thread;
use std::sync::atomic::Ordering;

/// The word, and a turn that every access takes first.
///
/// Of each atomic loom remembers the last access only, and tries another order of threads where two accesses of it
/// conflict. A load directly before a swap by the same thread would hide the other thread's loads before both. The turn
/// is a conflict in any case; relaxed, so that it orders nothing.
struct Modelled {
    word: AtomicU32,
    turn: AtomicU32,
}

impl Modelled {
    fn in_turn(&self) -> &AtomicU32 {
        self.turn.fetch_add(1, Ordering::Relaxed);
        &self.word
    }
}

impl Word for Modelled {
    fn load(&self, order: Ordering) -> u32 {
        self.in_turn().load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.in_turn().store(value, order);
    }

    fn replace(&self, current: u32, new: u32, order: Ordering) -> bool {
        self.in_turn().compare_exchange(current, new, order, Ordering::Relaxed).is_ok()
    }
}

struct Exchange {
    word: Modelled,
    slots: [UnsafeCell<[u32; 2]>; 3],
}

impl Exchange {
    fn new() -> Arc<Self> {
        let word = Modelled { word: AtomicU32::new(0), turn: AtomicU32::new(0) };
        reset(&word);
        Arc::new(Self { word, slots: std::array::from_fn(|_| UnsafeCell::new([0; 2])) })
    }

    fn publish(&self, writer: &mut Seat, value: u32) -> bool {
        self.slots[writer.slot()].with_mut(|slot| {
            // SAFETY: loom has just checked that nobody else is in this cell.
            let slot = unsafe { &mut *slot };
            slot[0] = value;
            slot[1] = value;
        });
        writer.publish(&self.word)
    }

    /// What the reader has after it looked, and whether it is new.
    fn read(&self, reader: &mut Seat) -> (u32, bool) {
        let fresh = reader.take(&self.word);
        let [first, second] = self.slots[reader.slot()].with(|slot| {
            // SAFETY: as above.
            unsafe { *slot }
        });
        assert_eq!(first, second, "torn");
        (first, fresh)
    }

    /// Reads `times` times; values never go back, and fresh ones go up.
    fn read_in_order(&self, reader: &mut Seat, times: u32, mut last: u32) -> u32 {
        for _ in 0..times {
            let (value, fresh) = self.read(reader);
            assert!(if fresh { value > last } else { value == last }, "{value} after {last}, fresh: {fresh}");
            last = value;
        }
        last
    }
}

/// Goes through a model, and makes sure that there was something to go through.
fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(4);
    let orders = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = std::sync::Arc::clone(&orders);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let orders = orders.load(Ordering::Relaxed);
    println!("{orders} executions");
    assert!(orders > 100, "only {orders} executions: loom saw no conflict");
}

/// Writer and reader at work at once, the engine's side once this one and once that one.
fn both_at_work(engine_writes: bool) {
    check(move || {
        let exchange = Exchange::new();
        let engine = Seat::of_engine(&exchange.word).unwrap();
        let other = Seat::succeed(&exchange.word).unwrap();
        let (mut writer, mut reader) = if engine_writes { (engine, other) } else { (other, engine) };
        let writing = {
            let exchange = Arc::clone(&exchange);
            thread::spawn(move || (1..=4).for_each(|value| _ = exchange.publish(&mut writer, value)))
        };
        let last = exchange.read_in_order(&mut reader, 4, 0);
        writing.join().unwrap();
        // The last publication is never lost.
        let (value, fresh) = exchange.read(&mut reader);
        assert_eq!((value, fresh), (4, last != 4));
    });
}

#[test]
fn the_engine_writes_and_the_application_reads() {
    both_at_work(true);
}

#[test]
fn the_application_writes_and_the_engine_reads() {
    both_at_work(false);
}

/// The writer knows of each value whether it was taken: neither too many nor too few.
#[test]
fn what_was_taken_is_told_to_the_writer() {
    check(|| {
        let exchange = Exchange::new();
        let mut writer = Seat::of_engine(&exchange.word).unwrap();
        let mut reader = Seat::succeed(&exchange.word).unwrap();
        let writing = {
            let exchange = Arc::clone(&exchange);
            thread::spawn(move || {
                let told = [1, 2, 3].map(|value| exchange.publish(&mut writer, value));
                assert!(told[0], "there was none before the first");
                (told, writer)
            })
        };
        let mut taken = [false; 4];
        for _ in 0..3 {
            let (value, fresh) = exchange.read(&mut reader);
            taken[value as usize] |= fresh;
        }
        let (told, mut writer) = writing.join().unwrap();
        assert_eq!(told[1..], taken[1..3]);
        assert_eq!(exchange.publish(&mut writer, 4), taken[3]);
    });
}

/// The application's writer dies after none, one or two publications; a successor sits down while the engine reads on.
#[test]
fn a_writer_succeeds_a_dead_one() {
    for publications in 0..=2 {
        check(move || {
            let exchange = Exchange::new();
            let mut reader = Seat::of_engine(&exchange.word).unwrap();
            let mut dying = Seat::succeed(&exchange.word).unwrap();
            let writing = {
                let exchange = Arc::clone(&exchange);
                thread::spawn(move || {
                    (1..=publications).for_each(|value| _ = exchange.publish(&mut dying, value));
                    drop(dying);
                    let mut successor = Seat::succeed(&exchange.word).unwrap();
                    exchange.publish(&mut successor, 3);
                    exchange.publish(&mut successor, 4);
                })
            };
            let last = exchange.read_in_order(&mut reader, 3, 0);
            writing.join().unwrap();
            assert_eq!(exchange.read(&mut reader), (4, last != 4));
        });
    }
}

/// The application's reader dies with what it has; a successor sits down while the engine writes on.
#[test]
fn a_reader_succeeds_a_dead_one() {
    check(|| {
        let exchange = Exchange::new();
        let mut writer = Seat::of_engine(&exchange.word).unwrap();
        let mut dying = Seat::succeed(&exchange.word).unwrap();
        let writing = {
            let exchange = Arc::clone(&exchange);
            thread::spawn(move || (1..=4).for_each(|value| _ = exchange.publish(&mut writer, value)))
        };
        let last = exchange.read_in_order(&mut dying, 2, 0);
        drop(dying);
        let mut successor = Seat::succeed(&exchange.word).unwrap();
        let last = exchange.read_in_order(&mut successor, 2, last);
        writing.join().unwrap();
        assert_eq!(exchange.read(&mut successor), (4, last != 4));
    });
}
