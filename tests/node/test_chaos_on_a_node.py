"""The chaos program for nodes: a short run of it, and what its line does."""

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench.chaos.line import Line

ROOT = Path(__file__).resolve().parents[2]


HERE, THERE = "127.0.0.2", "127.0.0.1"


@pytest.mark.slow
def test_nothing_is_lost_or_done_twice_whatever_happens_to_the_line_and_the_node() -> None:
    command = [sys.executable, "-m", "bench.chaos.node", "--seconds", "8", "--environments", "20", "--gap", "0.2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    found = json.loads(done.stdout)
    assert found["violations"] == [], done.stderr
    assert done.returncode == 0
    assert sum(found["faults"].values()) >= 5
    assert found["actions"] > 100
    assert found["connections"] > 3  # more than one for the node and one for each worker


@pytest.fixture
async def echo() -> AsyncIterator[int]:
    """A server that says again what it hears; gives its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async with await asyncio.start_server(serve, THERE, 0) as server:
        yield server.sockets[0].getsockname()[1]


async def test_a_line_carries_holds_garbles_and_cuts(echo: int) -> None:
    line = Line(HERE, THERE, random.Random(1))
    await line.open([echo])
    reader, writer = await asyncio.open_connection(HERE, echo)
    sent = bytes(1000)
    writer.write(sent)
    assert await reader.readexactly(1000) == sent
    line.garble()
    writer.write(sent)
    assert sum(byte.bit_count() for byte in await reader.readexactly(1000)) == 1
    line.hold()
    writer.write(sent)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.readexactly(1), 0.2)
    line.release()
    assert await reader.readexactly(1000) == sent
    line.cut()
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await reader.readexactly(1)
    assert line.carried == 6000
    await line.close()
    with pytest.raises(OSError):
        await asyncio.open_connection(HERE, echo)
