"""Sends frames of priority 3 at all phases of a cycle from va; prints the phases of their arrival at vb, in ns.

phases.py [HOW MANY FRAMES]
"""
import socket, struct, sys, time

out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
out.bind(("va", 0))
out.setsockopt(socket.SOL_SOCKET, 12, 3)  # SO_PRIORITY
into = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
into.bind(("vb", 0x88B5))
into.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
into.settimeout(0.01)
time.sleep(0.001)  # a schedule that was just issued begins with its next cycle
for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 100):
    try:
        out.send(bytes.fromhex("020000000021" "020000000011" "88b5") + bytes(100))
    except OSError:
        pass  # the link is down
    time.sleep(0.0010171)
while True:
    try:
        _, more, _, _ = into.recvmsg(200, 200)
    except TimeoutError:
        break
    except OSError:
        continue
    seconds, nanos = struct.unpack("qq", more[0][2][:16])
    print((seconds * 1_000_000_000 + nanos) % 250_000)
