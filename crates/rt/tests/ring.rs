//! The ring between threads and between processes.

use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use downbeat_rt::ring::{CELLS, MAX_CAPACITY, Ring};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// Set for the child process of the tests here: number of the ring's descriptor.
const DESCRIPTOR: &str = "DOWNBEAT_TEST_RING";

fn record(number: u64) -> [u64; 8] {
    std::array::from_fn(|word| number.wrapping_mul(8) + word as u64)
}

#[test]
fn a_full_ring_counts_what_it_refuses_and_goes_on() {
    let ring = Ring::create("full", 4).unwrap();
    let (mut producer, mut consumer) = (ring.producer().unwrap(), ring.consumer().unwrap());
    assert_eq!(ring.capacity(), 4);
    assert_eq!(consumer.pop(), None);
    for number in 0..4 {
        assert!(producer.push(&record(number)));
    }
    assert!(!producer.push(&record(99)));
    assert!(!producer.push(&record(99)));
    assert_eq!((ring.overflowed(), consumer.overflowed()), (2, 2));
    assert_eq!(consumer.pop(), Some(record(0)));
    assert!(producer.push(&record(4)));
    assert!(!producer.push(&record(99)));
    assert_eq!(std::iter::from_fn(|| consumer.pop()).collect::<Vec<_>>(), (1..5).map(record).collect::<Vec<_>>());
    assert_eq!(ring.overflowed(), 3);
}

#[test]
fn records_keep_their_order_over_many_turns() {
    let ring = Ring::create("turns", 2).unwrap();
    let (mut producer, mut consumer) = (ring.producer().unwrap(), ring.consumer().unwrap());
    for number in 0..1_000 {
        assert!(producer.push(&record(number)));
        if number % 2 == 1 {
            assert_eq!(consumer.pop(), Some(record(number - 1)));
            assert_eq!(consumer.pop(), Some(record(number)));
        }
    }
}

#[test]
fn two_threads_lose_and_tear_nothing() {
    const COUNT: u64 = 200_000;
    let ring = Ring::create("threads", 64).unwrap();
    let mut producer = ring.producer().unwrap();
    let thread = std::thread::spawn(move || {
        let mut refused = 0;
        for number in 0..COUNT {
            while !producer.push(&record(number)) {
                refused += 1;
                std::thread::yield_now();
            }
        }
        refused
    });
    let mut consumer = ring.consumer().unwrap();
    for number in 0..COUNT {
        let found = loop {
            match consumer.pop() {
                Some(found) => break found,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!(found, record(number));
    }
    assert_eq!(ring.overflowed(), thread.join().unwrap());
}

#[test]
fn each_end_has_one_owner() {
    let ring = Ring::create("ends", 2).unwrap();
    let mut producer = ring.producer().unwrap();
    assert!(producer.push(&record(1)));
    assert_eq!(ring.producer().unwrap_err().kind(), ErrorKind::ResourceBusy);
    drop(producer);
    let mut producer = ring.producer().unwrap();
    assert!(producer.push(&record(2)), "a later owner goes on where the first one ended");
    let mut consumer = ring.consumer().unwrap();
    assert!(ring.consumer().unwrap_err().to_string().contains("consumer"));
    assert_eq!((consumer.pop(), consumer.pop(), consumer.pop()), (Some(record(1)), Some(record(2)), None));
}

#[test]
fn cells_are_shared_by_all_who_attach() {
    let ring = Ring::create("cells", 2).unwrap();
    let other = Ring::attach(ring.as_fd().try_clone_to_owned().unwrap()).unwrap();
    for cell in 0..CELLS {
        assert_eq!(other.cell(cell).load(Ordering::Relaxed), 0);
        ring.cell(cell).store(cell as u64 + 1, Ordering::Relaxed);
    }
    let (producer, consumer) = (ring.producer().unwrap(), other.consumer().unwrap());
    for cell in 0..CELLS {
        let found = [other.cell(cell), producer.cell(cell), consumer.cell(cell)].map(|c| c.load(Ordering::Relaxed));
        assert_eq!(found, [cell as u64 + 1; 3]);
    }
    let mut producer = producer;
    assert!(producer.push(&record(0)), "cells and records do not overlap");
    assert_eq!(ring.cell(CELLS - 1).load(Ordering::Relaxed), CELLS as u64);
}

#[test]
#[should_panic(expected = "a ring has 48 cells")]
fn a_cell_too_many_is_a_mistake_of_the_caller() {
    _ = Ring::create("cells", 2).unwrap().cell(CELLS);
}

#[test]
fn odd_capacities_are_refused() {
    for capacity in [0, 1, 3, 1_000, MAX_CAPACITY * 2, usize::MAX] {
        let error = Ring::create("capacity", capacity).unwrap_err();
        assert!(error.to_string().contains("power of two"), "{error}");
    }
    assert!(Ring::create("nul\0", 2).is_err());
}

#[test]
fn a_file_that_is_no_ring_is_refused() {
    let sealed = |bytes: i64| {
        let fd = memfd_create("garbage", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING).unwrap();
        nix::unistd::ftruncate(&fd, bytes).unwrap();
        let seals = nix::fcntl::FcntlArg::F_ADD_SEALS(nix::fcntl::SealFlag::F_SEAL_SHRINK);
        nix::fcntl::fcntl(&fd, seals).unwrap();
        fd
    };
    for bytes in [0, 1, 4095, 4096, 4096 + 64, 4096 + 3 * 64, 4096 + 4 * 64 + 1, 1 << 40] {
        let error = Ring::attach(sealed(bytes)).unwrap_err();
        assert!(error.to_string().contains(&format!("{bytes} bytes")), "{error}");
    }
    let error = Ring::attach(sealed(4096 + 4 * 64)).unwrap_err();
    assert!(error.to_string().contains("this version"), "{error}");
    let unsealed = memfd_create("unsealed", MFdFlags::MFD_CLOEXEC).unwrap();
    nix::unistd::ftruncate(&unsealed, 4096 + 4 * 64).unwrap();
    assert!(Ring::attach(unsealed).unwrap_err().to_string().contains("sealed"));
    let file: OwnedFd = std::fs::File::open("/proc/self/stat").unwrap().into();
    assert!(Ring::attach(file).is_err());
    assert!(Ring::attach_inherited(987_654).unwrap_err().to_string().contains("987654"));
}

/// Not a test by itself: the child of the next one, which pushes until it is killed.
#[test]
fn child_that_pushes_until_it_is_killed() {
    let Ok(number) = std::env::var(DESCRIPTOR) else { return };
    downbeat_rt::process::die_with_parent();
    let ring = Ring::attach_inherited(number.parse().unwrap()).unwrap();
    let mut producer = ring.producer().unwrap();
    for number in 0.. {
        while !producer.push(&record(number)) {
            std::thread::sleep(Duration::from_micros(50));
        }
        producer.cell(0).store(number, Ordering::Relaxed);
    }
}

#[test]
fn what_a_killed_process_has_published_is_read() {
    let ring = Ring::create("processes", 1024).unwrap();
    let inherited = ring.inheritable().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_pushes_until_it_is_killed"])
        .env(DESCRIPTOR, inherited.as_raw_fd().to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    drop(inherited);
    let mut consumer = ring.consumer().unwrap();
    let give_up = Instant::now() + Duration::from_secs(30);
    let mut next = 0;
    while next < 5_000 {
        assert!(Instant::now() < give_up, "the child pushed {next} records only");
        match consumer.pop() {
            Some(found) => {
                assert_eq!(found, record(next));
                next += 1;
            }
            None => std::thread::sleep(Duration::from_micros(50)),
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    while let Some(found) = consumer.pop() {
        assert_eq!(found, record(next));
        next += 1;
    }
    let heartbeat = ring.cell(0).load(Ordering::Relaxed);
    assert!(next == heartbeat + 1 || next == heartbeat + 2, "{next} records, heartbeat {heartbeat}");
    assert_eq!(ring.producer().unwrap_err().kind(), ErrorKind::ResourceBusy);
}
