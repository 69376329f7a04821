"""A line between a client and a node on one machine, which can be cut, and held up without anybody noticing."""

import contextlib
import os
import random
from collections.abc import AsyncIterator, Iterable

from bench.chaos.line import Line

WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
HERE, THERE = f"127.0.0.{2 + WORKER}", "127.0.0.1"  # no two processes of tests have lines at one address


@contextlib.asynccontextmanager
async def carrying(ports: Iterable[int]) -> AsyncIterator[Line]:
    """Carry connections to some ports of one loopback address to the same ports of another."""
    line = Line(HERE, THERE, random.Random(0))
    await line.open(ports)
    try:
        yield line
    finally:
        await line.close()
