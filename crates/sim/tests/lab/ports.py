"""Sends a list of frames at instants through va, and prints when each began to be queued and when it arrived.

A line is an instant, a priority, bytes, and a launch time where the frame has one; all from an instant on that may be
given in ns TAI. """
import ctypes, os, socket, struct, sys, time

class Span(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]

libc = ctypes.CDLL(None)
# In real time, and so is what runs queues where an interrupt wakes the sender. When the last task of the fair class goes to sleep,
# the scheduler's fair server may set a timer to that instant (`task_non_contending`), by what happened a second before: an
# interrupt 2 ns after a frame came, in which timers of its queues would be found due.
for process in filter(str.isdigit, os.listdir("/proc")):
    with open(f"/proc/{process}/comm") as name:
        if name.read().startswith("ksoftirqd/"):
            os.sched_setscheduler(int(process), os.SCHED_FIFO, os.sched_param(1))
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))
TAI, STAMPING = 11, 37
def sleep_until(ns):
    libc.clock_nanosleep(TAI, 1, ctypes.byref(Span(ns // 10**9, ns % 10**9)), None)

frames = [tuple(map(int, line.split())) for line in open(sys.argv[1])]
# From one network namespace to another a frame leaves the launch time behind that taprio gave it, and can be stamped.
FAR = "/run/netns/far"
if os.path.exists(FAR):
    with open("/proc/self/ns/net") as here, open(FAR) as far:
        assert libc.setns(far.fileno(), 0x40000000) == 0
        into = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0xB62C))
        into.bind(("vb", 0xB62C))
        assert libc.setns(here.fileno(), 0x40000000) == 0
else:
    into = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0xB62C))
    into.bind(("vb", 0xB62C))
into.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)
into.setsockopt(socket.SOL_SOCKET, STAMPING, 8 | 16)
out = {}
TXTIME = 61
for priority in sorted({(f[1], len(f) > 3) for f in frames}):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    s.bind(("va", 0))
    s.setsockopt(socket.SOL_SOCKET, 32, 1 << 26)
    s.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority[0])
    if priority[1]:
        s.setsockopt(socket.SOL_SOCKET, TXTIME, struct.pack("iI", TAI, 0))
    # TX_SCHED, software; the stamp alone, not the frame
    s.setsockopt(socket.SOL_SOCKET, STAMPING, (1 << 8) | 16 | (1 << 11) | (1 << 7))
    out[priority] = s
head = bytes.fromhex("020000000002020000000001b62c")
now = time.clock_gettime_ns(TAI)
# A reading costs 10 ns.
monotonic = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - 10
base = (now // 10**9 + 1) * 10**9
if len(sys.argv) > 2:
    assert base <= int(sys.argv[2])
    base = int(sys.argv[2])
print("clock 0", monotonic + base - now)
real = 37 * 10**9
stamps = {p: [] for p in out}
for n, (at, priority, size, *launch) in enumerate(frames):
    sleep_until(base + at)
    data = head + struct.pack("<I", n) + bytes(size - 18)
    key = (priority, bool(launch))
    if launch:
        try:
            out[key].sendmsg([data], [(socket.SOL_SOCKET, TXTIME, struct.pack("q", base + launch[0]))])
        except OSError as error:
            if error.errno != 105:
                raise
    else:
        libc.send(out[key].fileno(), data, size, 0)
    stamps[key].append(n)
sleep_until(base + frames[-1][0] + 10**9)
def stamp(aux):
    for _, kind, data in aux:
        if kind == STAMPING:
            s, ns = struct.unpack("qq", data[:16])
            return s * 10**9 + ns + real - base
for p, s in out.items():
    for n in stamps[p]:
        try:
            _, aux, _, _ = s.recvmsg(1, 512, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
        except BlockingIOError:
            break
        print("in", n, stamp(aux))
into.setblocking(False)
while True:
    try:
        data, aux, _, _ = into.recvmsg(2048, 512)
    except BlockingIOError:
        break
    print("out", struct.unpack("<I", data[14:18])[0], stamp(aux))
