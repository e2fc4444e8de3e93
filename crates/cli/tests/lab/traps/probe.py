"""Sends frames at given instants, and prints where they arrive.

probe.py [--from IFACE] [--to IFACE] [--at NS] FLOW…

FLOW is PRIORITY:BYTES:COUNT:FIRST:STEP[:LEAD]. The frames of a flow are sent at FIRST, FIRST + STEP, … ns behind the start, each
with SO_PRIORITY, and with the launch time LEAD ns later where that is given. The start is the instant --at (TAI), else the next
whole 250 µs after 2 ms. Prints "PRIORITY NUMBER NS" for each arrival, behind the start, "refused COUNT" for what the kernel did
not take, "future COUNT" for arrivals whose stamp lay ahead; a line "start NS" first.
"""

import select, socket, struct, sys, time

TAI = 11


def options(words):
    known, flows = {"--from": "va", "--to": "vb", "--at": ""}, []
    while words:
        word = words.pop(0)
        if word in known:
            known[word] = words.pop(0)
        else:
            flows.append([int(part) for part in word.split(":")])
    return known, flows


known, flows = options(sys.argv[1:])
into = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
into.bind((known["--to"], 0x88B5))
into.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
into.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
sockets, sends = {}, []
for flow, (priority, size, count, first, step, *lead) in enumerate(flows):
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    out.bind((known["--from"], 0))
    out.setsockopt(socket.SOL_SOCKET, 12, priority)  # SO_PRIORITY
    out.setsockopt(socket.SOL_SOCKET, 32, 8 << 20)  # SO_SNDBUFFORCE
    if lead:
        out.setsockopt(socket.SOL_SOCKET, 61, struct.pack("iI", TAI, 0))  # SO_TXTIME
    sends += [(first + step * number, flow, number, lead) for number in range(count)]
    sockets[flow] = (out, priority, size)
sends.sort()
start = int(known["--at"] or 0) or (time.clock_gettime_ns(TAI) // 250_000 + 8) * 250_000
refused, arrivals, future = 0, [], []


def take():
    """Takes a frame that is there."""
    data, more, _, _ = into.recvmsg(2000, 200)
    now = time.clock_gettime_ns(TAI)
    seconds, nanos = struct.unpack("qq", more[0][2][:16])
    stamp = (seconds + 37) * 1_000_000_000 + nanos
    # A frame that taprio gave a launch time has that in place of a stamp: it seems to arrive in 37 s.
    future.extend([stamp] if stamp > now else [])
    arrivals.append((*struct.unpack_from("HI", data, 14), min(stamp, now) - start))


def receive(until):
    """Takes what arrives until then (ns); an idle wait ends exactly."""
    # select counts in whole µs, and up.
    while (left := until - time.clock_gettime_ns(TAI)) > 2_000:
        if select.select([into], [], [], (left - 1_000) // 1_000 / 1e6)[0]:
            take()
    if (left := until - time.clock_gettime_ns(TAI)) > 0:
        time.sleep(left / 1e9)


for at, flow, number, lead in sends:
    out, priority, size = sockets[flow]
    frame = bytes.fromhex("020000000021" "020000000011" "88b5") + struct.pack("HI", priority, number)
    receive(start + at)
    more = [(socket.SOL_SOCKET, 61, struct.pack("Q", start + at + lead[0]))] if lead else []
    try:
        out.sendmsg([frame.ljust(size, b"\0")], more)
    except OSError:
        refused += 1
while select.select([into], [], [], 0.01)[0]:
    take()
print("start", start)
for arrival in arrivals:
    print(*arrival)
print("refused", refused)
print("future", len(future))
