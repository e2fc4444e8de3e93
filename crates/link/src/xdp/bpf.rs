//! The few commands of bpf(2) that are needed.

use std::ffi::{c_int, c_long};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;

use super::assembler::Instruction;

const MAP_CREATE: c_int = 0;
const MAP_LOOKUP_ELEM: c_int = 1;
const MAP_UPDATE_ELEM: c_int = 2;
const MAP_DELETE_ELEM: c_int = 3;
const PROG_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;

/// Fields of a frame lie where the standards put them. The kernels of the usual processors say so themselves; that of User
/// Mode Linux wants to be told.
const ANY_ALIGNMENT: u32 = 1 << 1;
/// `BPF_F_XDP_DEV_BOUND_ONLY`: for one interface, though not run by its hardware.
const DEVICE_BOUND: u32 = 1 << 6;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// What a map is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum MapKind {
    Hash = 1,
    Array = 2,
    /// From the number of a receive queue to an AF_XDP socket.
    Sockets = 17,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct MapElement {
    map: c_int,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct ProgLoad {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface_index: u32,
    expected_attach: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct LinkCreate {
    programme: c_int,
    interface_index: u32,
    attach: u32,
    flags: u32,
}

/// # Safety
/// `T` is what the kernel takes for `command`, and whatever its addresses point to is live and as long as it says.
unsafe fn bpf<T: Copy>(command: c_int, attributes: &mut T) -> Result<c_long, Errno> {
    // SAFETY: the kernel reads and writes at most `size_of::<T>()` bytes of a live, exclusively borrowed value; the
    // caller vouches for what it points to.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<T>()) };
    Errno::result(result)
}

/// # Safety
/// As [`bpf`], for a command that returns a new descriptor.
unsafe fn bpf_fd<T: Copy>(command: c_int, attributes: &mut T) -> Result<OwnedFd, Errno> {
    // SAFETY: the caller's promise.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: the kernel has just made this descriptor for us; nobody else owns it. (It is close-on-exec.)
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}

/// A new map.
pub(super) fn create_map(kind: MapKind, key_bytes: u32, value_bytes: u32, entries: u32) -> Result<OwnedFd, Errno> {
    let mut attributes = MapCreate { kind: kind as u32, key_bytes, value_bytes, entries };
    // SAFETY: the structure of this command; it holds no address.
    unsafe { bpf_fd(MAP_CREATE, &mut attributes) }
}

/// Puts `value` under `key`. `K` and `V` must be as long as the map's keys and values.
pub(super) fn update<K: Copy, V: Copy>(map: BorrowedFd<'_>, key: &K, value: &V) -> Result<(), Errno> {
    let mut attributes = MapElement {
        map: map.as_raw_fd(),
        padding: 0,
        key: std::ptr::from_ref(key) as u64,
        value: std::ptr::from_ref(value) as u64,
        flags: 0,
    };
    // SAFETY: the structure of this command; the kernel reads the map's key and value lengths, which are those of
    // `K` and `V` for every map of this crate, from live values.
    unsafe { bpf(MAP_UPDATE_ELEM, &mut attributes) }.map(drop)
}

/// Removes what is under `key`. `K` must be as long as the map's keys.
pub(super) fn delete<K: Copy>(map: BorrowedFd<'_>, key: &K) -> Result<(), Errno> {
    let mut attributes =
        MapElement { map: map.as_raw_fd(), padding: 0, key: std::ptr::from_ref(key) as u64, value: 0, flags: 0 };
    // SAFETY: the structure of this command; the kernel reads the map's key length, which is that of `K` for every map
    // of this crate, from a live value.
    unsafe { bpf(MAP_DELETE_ELEM, &mut attributes) }.map(drop)
}

/// Reads the value under entry 0 of an array map of one `[u64; N]`.
pub(super) fn read_array<const N: usize>(map: BorrowedFd<'_>) -> Result<[u64; N], Errno> {
    let (key, mut value) = (0_u32, [0_u64; N]);
    let mut attributes = MapElement {
        map: map.as_raw_fd(),
        padding: 0,
        key: (&raw const key) as u64,
        value: (&raw mut value) as u64,
        flags: 0,
    };
    // SAFETY: the structure of this command; the kernel reads a key of four bytes and writes one value, which is
    // `N` words long in the one map this is called for.
    unsafe { bpf(MAP_LOOKUP_ELEM, &mut attributes) }?;
    Ok(value)
}

/// Has the kernel check and translate an XDP programme; what its verifier says goes to `log`. A programme for one
/// `device` alone, an interface by its index, may call functions of that driver.
pub(super) fn load(instructions: &[Instruction], device: Option<u32>, log: &mut [u8]) -> Result<OwnedFd, Errno> {
    // A driver's functions are for programmes that may be used under the GPL too; MIT lets everybody do so.
    let license = if device.is_some() { c"Dual MIT/GPL" } else { c"MIT" };
    let mut name = [0; 16];
    name[..13].copy_from_slice(b"downbeat_uadp");
    let mut attributes = ProgLoad {
        kind: PROG_TYPE_XDP,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_bytes: log.len() as u32,
        log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        kernel_version: 0,
        // A programme for one device may have no other flag.
        flags: if device.is_some() { DEVICE_BOUND } else { ANY_ALIGNMENT },
        name,
        interface_index: device.unwrap_or(0),
        expected_attach: ATTACH_XDP,
    };
    // SAFETY: the structure of this command; instructions, licence and log are live and as long as said, the log
    // exclusively borrowed.
    unsafe { bpf_fd(PROG_LOAD, &mut attributes) }
}

/// Where a programme runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Driver,
    Generic,
}

/// Attaches a programme to an interface until the returned descriptor is closed, whoever closes it.
pub(super) fn attach(programme: BorrowedFd<'_>, interface_index: u32, place: Place) -> Result<OwnedFd, Errno> {
    let flags = match place {
        Place::Driver => XDP_FLAGS_DRV_MODE,
        Place::Generic => XDP_FLAGS_SKB_MODE,
    };
    let mut attributes = LinkCreate { programme: programme.as_raw_fd(), interface_index, attach: ATTACH_XDP, flags };
    // SAFETY: the structure of this command; it holds no address.
    unsafe { bpf_fd(LINK_CREATE, &mut attributes) }
}

#[cfg(test)]
pub(super) mod test_run {
    use super::*;

    const PROG_TEST_RUN: c_int = 10;

    #[derive(Clone, Copy)]
    #[repr(C)]
    struct TestRun {
        programme: c_int,
        verdict: u32,
        data_in_bytes: u32,
        data_out_bytes: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
        context_in_bytes: u32,
        context_out_bytes: u32,
        context_in: u64,
        context_out: u64,
    }

    /// Runs a programme over a frame, as if it came in on queue 0; returns its verdict.
    pub(in crate::xdp) fn run(programme: BorrowedFd<'_>, frame: &[u8]) -> Result<u32, Errno> {
        let mut attributes = TestRun {
            programme: programme.as_raw_fd(),
            verdict: 0,
            data_in_bytes: frame.len() as u32,
            data_out_bytes: 0,
            data_in: frame.as_ptr() as u64,
            data_out: 0,
            repeat: 1,
            duration: 0,
            context_in_bytes: 0,
            context_out_bytes: 0,
            context_in: 0,
            context_out: 0,
        };
        // SAFETY: the structure of this command; the frame is live and as long as said, and nothing is written back.
        unsafe { bpf(PROG_TEST_RUN, &mut attributes) }?;
        Ok(attributes.verdict)
    }
}
