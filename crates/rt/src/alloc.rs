//! A counting allocator: shows that the cyclic path allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    // `const` and without a destructor: reading it neither allocates nor registers anything.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting per thread what it hands out.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: downbeat_rt::alloc::Counting = downbeat_rt::alloc::Counting;
///
/// let before = downbeat_rt::alloc::allocations_of_this_thread();
/// let boxed = Box::new(7);
/// assert_eq!(downbeat_rt::alloc::allocations_of_this_thread(), before + 1);
/// # drop(boxed);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Counting;

/// Allocations and reallocations of the calling thread so far; always 0 when [`Counting`] is not the
/// program's global allocator.
pub fn allocations_of_this_thread() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

fn count() {
    ALLOCATIONS.with(|count| count.set(count.get().wrapping_add(1)));
}

// SAFETY: every call goes to `System` unchanged; counting touches only a thread-local integer, which neither
// allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps `GlobalAlloc`'s contract, which is `System`'s.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        count();
        // SAFETY: as above; `pointer` came from `System`, since all our memory does.
        unsafe { System.realloc(pointer, layout, new_bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}
