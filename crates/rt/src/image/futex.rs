//! Sleeping on a shared word until somebody wakes it (futex(2)).

use std::ptr;
use std::sync::atomic::AtomicU32;

use units::Nanos;

/// Sleeps while `word` is `expected`, until woken, a signal, or `timeout`, whichever comes first. Returns for no reason
/// too, as futexes do: the caller looks again.
pub(super) fn wait(word: &AtomicU32, expected: u32, timeout: Nanos) {
    let nanos = timeout.0.max(0);
    let timeout = libc::timespec {
        tv_sec: (nanos / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanos % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the kernel reads a word and a structure that live through the call. Not FUTEX_PRIVATE: the word is shared
    // between processes. Every failure means "look again".
    _ = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, ptr::from_ref(&timeout)) };
}

/// Wakes everybody who sleeps on `word`.
pub(super) fn wake_all(word: &AtomicU32) {
    // SAFETY: the kernel uses the address only to find those who sleep on it.
    _ = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
