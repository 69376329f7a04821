"""A bad line: carries Ethernet frames between two interfaces, and loses and delays them. A script.

    wire.py NEAR FAR LOSS DELAY SEED

It makes the two interfaces (TAP), says that it is ready, and ends when its standard input does.
"""

import fcntl
import heapq
import itertools
import os
import random
import select
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
LONGEST_FRAME = 65536
MOST_ON_THE_WAY = 4096  # frames; those behind them are lost, as in a full queue


def interface(name: str) -> int:
    """Make an interface and return the descriptor of its other end."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH14x", name.encode(), IFF_TAP | IFF_NO_PI))
    return descriptor


def carry(ends: tuple[int, int], loss: float, delay: float, dice: random.Random) -> None:
    """Carry frames both ways until standard input ends."""
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    on_the_way: list[tuple[float, int, int, bytes]] = []
    numbers = itertools.count()
    while True:
        wait = max(0.0, on_the_way[0][0] - time.monotonic()) if on_the_way else None
        readable, _, _ = select.select([0, *ends], [], [], wait)
        if 0 in readable:
            return
        for end in readable:
            try:
                frame = os.read(end, LONGEST_FRAME)
            except OSError:  # an interface that is not up yet, or no longer
                continue
            if dice.random() >= loss and len(on_the_way) < MOST_ON_THE_WAY:
                heapq.heappush(on_the_way, (time.monotonic() + delay, next(numbers), other[end], frame))
        while on_the_way and on_the_way[0][0] <= time.monotonic():
            _, _, end, frame = heapq.heappop(on_the_way)
            try:
                os.write(end, frame)
            except OSError:
                continue


if __name__ == "__main__":
    near, far, loss, delay, seed = sys.argv[1:]
    ends = interface(near), interface(far)
    print("ready", flush=True)
    carry(ends, float(loss), float(delay), random.Random(int(seed)))
