//! The cyclic path allocates nothing: a counting allocator, and 1000 cycles of a source and its echo.
//!
//! A binary of its own, because of its allocator. It counts per thread: the test harness allocates in another one
//! whenever it likes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use downbeat_pubsub::{Endpoint, EndpointConfig, EthernetHeader, NetworkMessageLayout, Role, VlanTag};

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
    let (write, read) = (Some((write.clone(), header)), Some(read.clone()));
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
