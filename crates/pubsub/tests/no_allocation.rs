//! The cyclic path allocates nothing: a counting allocator, and 1000 cycles of a source and its echo.
//!
//! A binary of its own, because of its allocator. It counts per thread: the test harness allocates in another one
//! whenever it likes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use downbeat_pubsub::{
    Action, BreachRule, BreachRules, Condition, DispatchKey, Dispatcher, Endpoint, EndpointConfig, EthernetHeader,
    NetworkMessageLayout, Publisher, Received, Role, Subscriber, SubscriberConfig, VlanTag,
};
use units::{Nanos, Tai};

thread_local! {
    // Constant and without destructor: to use it allocates nothing, as an allocator must.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes unchanged to the system's allocator, which keeps the contract; the count is a thread's own number.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `System` with this `layout`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

fn endpoint(role: Role, write: &NetworkMessageLayout, read: &NetworkMessageLayout, variables: u16) -> Endpoint {
    let vlan = Some(VlanTag { pcp: 7, dei: false, vid: 3000 });
    let header = EthernetHeader { destination: [1, 0, 0x5E, 0x7F, 0, 1], source: [2, 0, 0, 0, 0, 1], vlan };
    let (write, read) = (Some((write.clone(), Some(header))), Some(read.clone()));
    Endpoint::new(EndpointConfig { role, write, read, variables }).expect("an endpoint")
}

#[test]
fn a_thousand_cycles_allocate_nothing() {
    assert!(allocations(|| drop(std::hint::black_box(vec![1_u8]))) >= 1, "the allocator does not count");
    for (variables, there, back) in [
        (161, NetworkMessageLayout::papers(1, 101, 161), NetworkMessageLayout::papers(2, 102, 161)),
        (8, NetworkMessageLayout::periodic_fixed(1, 101, 8), NetworkMessageLayout::periodic_fixed(2, 102, 8)),
    ] {
        let mut source = endpoint(Role::Source, &there, &back, variables);
        let mut echo = endpoint(Role::Echo, &back, &there, variables);
        let mut torn = [0_u8; 1500];
        let mut answered = 0;
        let count = allocations(|| {
            for cycle in 0..1000 {
                source.application(cycle);
                if let Some(out) = source.publish(cycle) {
                    let uadp = &out.frame[18..];
                    let torn = &mut torn[..uadp.len()];
                    torn.copy_from_slice(uadp);
                    torn[uadp.len() - 1] ^= 1;
                    echo.receive(torn);
                    echo.receive(&uadp[1..]);
                    echo.receive(uadp);
                }
                echo.application(cycle);
                if let Some(out) = echo.publish(cycle) {
                    source.receive(&out.frame[18..]);
                    answered += 1;
                }
            }
        });
        assert_eq!(count, 0, "{variables} variables");
        assert_eq!(answered, 1000);
        assert_eq!((echo.counts().inconsistent, echo.counts().foreign), (1000, 1000), "the slow paths ran too");
        assert_eq!(source.counts().received, 1000);
    }
}

#[test]
fn watching_for_breaches_allocates_nothing() {
    let actions = [Action::Count, Action::Hold, Action::Override(7), Action::Safe(9)];
    let (there, back) = (NetworkMessageLayout::papers(1, 101, 8), NetworkMessageLayout::papers(2, 102, 8));
    for first in 0..actions.len() {
        let mut rules = BreachRules {
            receive_timeout: Nanos(20),
            longest_way: Some(Nanos(1)),
            longest_round_trip_cycles: Some(3),
            ..BreachRules::default()
        };
        for condition in Condition::ALL {
            let action = actions[(first + condition.index()) % actions.len()];
            rules.rules[condition.index()] = Some(BreachRule { action, recover: 3 });
        }
        let mut source = endpoint(Role::Source, &there, &back, 8).watched(rules);
        let mut echo = endpoint(Role::Echo, &back, &there, 8).watched(rules);
        let mut torn = [0_u8; 1500];
        let mut changes = 0;
        let count = allocations(|| {
            for cycle in 0..2000_i64 {
                let now = Tai(10 * cycle);
                changes += source.supervise(cycle, now, Nanos(0)).iter().count();
                source.application(cycle);
                if let (Some(out), true) = (source.publish(cycle), cycle % 97 < 80) {
                    let uadp = &out.frame[18..];
                    let torn = &mut torn[..uadp.len()];
                    torn.copy_from_slice(uadp);
                    torn[uadp.len() - 1] ^= u8::from(cycle % 41 == 0);
                    echo.receive(torn);
                    echo.decoded(now);
                }
                changes += echo.supervise(cycle, now, Nanos(0)).iter().count();
                echo.application(cycle);
                if let (Some(out), true) = (echo.publish(cycle), cycle % 89 < 80) {
                    source.receive(&out.frame[18..]);
                    source.decoded(now);
                }
            }
        });
        assert_eq!(count, 0);
        assert!(changes > 50, "{changes}");
    }
}

#[test]
fn publishing_dispatching_and_any_form_of_message_allocate_nothing() {
    let layout = NetworkMessageLayout::periodic_fixed(2234, 101, 8);
    // The same DataSet in other headers, for which a subscriber needs its general decoder.
    let mut other = NetworkMessageLayout { payload_header: true, timestamp: true, ..layout.clone() };
    other.data_sets[0].encoding = downbeat_pubsub::FieldEncoding::Variant;
    let mut publishers = [&layout, &other].map(|layout| Publisher::new(layout, None).expect("a publisher"));
    let mut subscriber = Subscriber::new(SubscriberConfig {
        layout: layout.clone(),
        writers: None,
        receive_timeout: Nanos(10),
        strict: false,
    })
    .expect("a subscriber");
    let key = |group| DispatchKey { publisher_id: layout.publisher_id, writer_group_id: Some(group) };
    let dispatcher = Dispatcher::new(&(1..=200).map(key).collect::<Vec<_>>()).expect("a dispatcher");
    let mut image = [0; 64];
    let (mut taken, mut rejected, mut changes) = (0, 0, 0);
    let count = allocations(|| {
        for cycle in 0..1000_i64 {
            image[0] = cycle as u8;
            let publisher = &mut publishers[cycle as usize % 2];
            publisher.set_next_sequence(0, cycle as u16).expect("a number");
            let uadp = publisher.publish(&image, cycle).expect("an image").frame;
            assert_eq!(dispatcher.find(uadp), [100]);
            // The one has sequence numbers of its own; the other counts as restarted.
            subscriber.forget();
            let found = subscriber.receive(uadp, Tai(20 * cycle));
            taken += i32::from(matches!(found, Received::Message { .. }));
            rejected += i32::from(matches!(subscriber.receive(&uadp[..uadp.len() - 1], Tai(0)), Received::Rejected(_)));
            while subscriber.poll(Tai(20 * cycle + 15)).is_some() {
                changes += 1;
            }
            subscriber.taken();
        }
    });
    assert_eq!((count, taken, rejected), (0, 1000, 1000));
    assert_eq!(subscriber.counts().fallback, 500);
    assert_eq!((subscriber.counts().timeouts, changes), (1000, 1), "told when polled: always timed out by then");
}
