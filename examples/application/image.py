"""A process image in Python, as docs/process-image.md describes it. Import it and go on from echo.py.

Python has no atomic operations on memory; these come from libatomic, which belongs to GCC (Debian: libatomic1).
"""

import ctypes
import mmap
import os
import platform
import struct
import sys

INPUTS, OUTPUTS = 0x100, 0x200
ENGINE, LIFE, HEARTBEAT = 0x28, 0x40, 0xC0
EXCHANGE, CHANGES, WAITERS, CLAIM = 0x40, 0x80, 0x84, 0xC8
CYCLE, AT, SEQUENCE, STATUS, DATA = 0, 8, 16, 24, 64
FRESH, STOPPED = 4, 2
ACQ_REL, RELAXED = 4, 0
FUTEX_WAIT, FUTEX_WAKE, EVERYBODY = 0, 1, 0x7FFFFFFF

libatomic = ctypes.CDLL("libatomic.so.1")


def atomics(width, kind):
    """Compare-and-swap and addition for words of so many bytes."""
    swap, add = libatomic[f"__atomic_compare_exchange_{width}"], libatomic[f"__atomic_fetch_add_{width}"]
    swap.argtypes, swap.restype = (ctypes.c_void_p, ctypes.c_void_p, kind, ctypes.c_int, ctypes.c_int), ctypes.c_bool
    add.argtypes, add.restype = (ctypes.c_void_p, kind, ctypes.c_int), kind
    return swap, add


swap4, add4 = atomics(4, ctypes.c_uint32)
swap8, add8 = atomics(8, ctypes.c_uint64)
libc = ctypes.CDLL(None, use_errno=True)
SYS_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}[platform.machine()]


def process(pid):
    """A process, named for good: its start time and its number; 0 when there is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZXx" else int(fields[19]) << 22 | pid


def alive(claim):
    return claim != 0 and process(claim & 0x3FFFFF) == claim


def futex(word, operation, value, timeout_s=0.0):
    timeout = struct.pack("@qq", int(timeout_s), int(timeout_s % 1 * 1e9))
    libc.syscall(ctypes.c_long(SYS_FUTEX), ctypes.c_void_p(word), operation, ctypes.c_uint32(value), timeout)


class Image:
    """The memory of an image."""

    def __init__(self, path):
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)
        magic, version, _, size = struct.unpack_from("<8sIIQ", self.memory)
        if (magic, version, size) != (b"dbimage1", 1, len(self.memory)):
            sys.exit(f"{path}: no process image of version 1")
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))

    def half(self, at):
        return ctypes.c_uint32.from_address(self.start + at)

    def word(self, at):
        return ctypes.c_uint64.from_address(self.start + at)

    def engine_is_there(self):
        return self.half(LIFE).value != STOPPED and alive(self.word(ENGINE).value)

    def beat(self):
        add8(self.start + HEARTBEAT, 1, RELAXED)


class End:
    """The application's end of one direction; the slots' places are offsets into the memory."""

    def __init__(self, image, at):
        self.image, self.at = image, at
        self.data_bytes, self.slot_bytes, self.slots = struct.unpack_from("<QQQ", image.memory, at)
        claim = image.word(at + CLAIM)
        holder = ctypes.c_uint64(claim.value)
        own = process(os.getpid())
        if alive(holder.value) or not swap8(ctypes.addressof(claim), ctypes.addressof(holder), own, ACQ_REL, RELAXED):
            sys.exit("this process image is held by another application; end that one first")
        # A plain look could be an old one, from before the predecessor's last exchange.
        owners = add4(image.start + at + EXCHANGE, 0, ACQ_REL)
        self.own = 3 - (owners & 3) - (owners >> 3 & 3)
        # Goes on behind the last number of whoever wrote before.
        self.sequence = max(image.word(self.slots + index * self.slot_bytes + SEQUENCE).value for index in range(3))

    def slot(self):
        return self.slots + self.own * self.slot_bytes

    def fresh(self):
        return self.image.half(self.at + EXCHANGE).value & FRESH != 0

    def exchange(self, mark):
        """Exchanges the own slot with the middle one: with FRESH to publish it, with 0 to take the other."""
        word = self.image.half(self.at + EXCHANGE)
        found = ctypes.c_uint32(word.value)
        # Where it fails, it puts into `found` what is there.
        while not swap4(ctypes.addressof(word), ctypes.addressof(found), self.own | found.value & 0x18 | mark, ACQ_REL, RELAXED):
            pass
        self.own = found.value & 3

    def publish(self, cycle, at, status, data):
        self.sequence += 1
        struct.pack_into("<qqQQ", self.image.memory, self.slot(), cycle, at, self.sequence, status)
        self.image.memory[self.slot() + DATA : self.slot() + DATA + len(data)] = data
        self.exchange(FRESH)
        self.image.beat()
        self.notify()

    def take(self):
        """The cycle, instant, status and data of the newest set; call it when there is a fresh one."""
        self.exchange(0)
        cycle, at, _, status = struct.unpack_from("<qqQQ", self.image.memory, self.slot())
        return cycle, at, status, self.image.memory[self.slot() + DATA : self.slot() + DATA + self.data_bytes]

    def notify(self):
        add4(self.image.start + self.at + CHANGES, 1, ACQ_REL)
        if self.image.half(self.at + WAITERS).value:
            self.image.half(self.at + WAITERS).value = 0
            futex(self.image.start + self.at + CHANGES, FUTEX_WAKE, EVERYBODY)

    def wait(self, timeout_s):
        """Sleeps until the other side changes something, but not longer than this."""
        changes = self.image.half(self.at + CHANGES).value
        # Only after this is set does the other side wake us: look once more.
        self.image.half(self.at + WAITERS).value = 1
        if not self.fresh():
            futex(self.image.start + self.at + CHANGES, FUTEX_WAIT, changes, timeout_s)

    def give_back(self):
        self.image.word(self.at + CLAIM).value = 0
