"""A node's memory, which no client can fill."""

import asyncio
import os
import resource
import sys
from pathlib import Path

import pytest

from aiocg.node import server
from aiocg.node.server import MemoryWatch

from .conftest import Serve
from .test_node import scripted

ENDLESS = Path(__file__).with_name("endless_message.py")


def test_a_process_that_grows_is_noticed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [100, 100, 110, 111, 1000, 150, 150, 160, 161]
    monkeypatch.setattr(server, "GROWTH", 10)
    monkeypatch.setattr(MemoryWatch, "resident", staticmethod(lambda: sizes.pop(0)))
    watch = MemoryWatch()
    assert [watch.alarmed(0.0), watch.alarmed(0.1), watch.alarmed(0.2)] == [False, False, True]
    assert not watch.alarmed(0.3)  # without a look: it takes a while until memory is given back
    assert sizes[0] == 1000
    sizes.pop(0)
    assert [watch.alarmed(9.0), watch.alarmed(9.1), watch.alarmed(9.2)] == [False, False, True]


def test_without_descriptors_there_is_no_alarm_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "GROWTH", -(64 << 20))
    watch = MemoryWatch()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        alarmed = watch.alarmed(0.0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not alarmed
    assert watch.alarmed(0.0)


@pytest.mark.slow
async def test_a_message_without_end_fills_no_memory_and_holds_up_nobody(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "GROWTH", 150 << 20)
    monkeypatch.setattr(server, "RELIEF", 0.5)
    async with serve() as site, site.runtime() as runtime:
        env = await scripted(runtime)
        pids, before = site.pids(), MemoryWatch.resident()
        bob = site.clients["bob"]
        said = [site.node.address, bob.public, bob.secret, site.keys.public, "600", str(1 << 20)]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", str(ENDLESS), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        attack = asyncio.create_task(process.communicate("\n".join(said).encode()))
        most, files = 0, len(os.listdir("/proc/self/fd"))
        while not attack.done():
            await env.step("double")
            most = max(most, MemoryWatch.resident() - before)
            await asyncio.sleep(0.02)
        await attack
        assert 100 << 20 < most < 450 << 20
        assert len(os.listdir("/proc/self/fd")) <= files + 4
        assert site.pids() == pids
