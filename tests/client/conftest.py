"""Fixtures for tests of the client: a runtime of scripted workers."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

import aiocg
import aiocg.testing  # registers scripted-v0
from aiocg.supervision import Policy

QUICK = Policy(stall_timeout=0.7, first_delay=0.01, max_delay=0.1)


@pytest.fixture
async def runtime() -> AsyncIterator[aiocg.Runtime]:
    """A runtime with two workers and no patience; checks that it leaves nothing behind."""
    async with aiocg.Runtime(workers=2, policy=QUICK) as runtime:
        runtime.datasets["scripted-v0"] = aiocg.testing.ScriptedDataset()
        yield runtime
        pids = runtime.worker_pids()
        folder = runtime.folder
    assert not any(_is_alive(pid) for pid in pids)
    assert folder is None or not folder.exists()


@pytest.fixture
async def env(runtime: aiocg.Runtime) -> aiocg.Env:
    """A scripted environment that stands at 5."""
    env = await runtime.make("scripted-v0", benchmark=aiocg.testing.scripted_benchmark(5))
    await env.reset()
    return env


def _is_alive(pid: int) -> bool:
    """Is there a process that is not a zombie?"""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


@pytest.fixture
def is_alive() -> Callable[[int], bool]:
    """Say whether a process id is that of a live process."""
    return _is_alive


@pytest.fixture
def eventually() -> Callable[..., object]:
    """Wait until a condition holds; fails when it does not within a generous time."""

    async def wait(condition: Callable[[], bool], seconds: float = 20.0) -> None:
        for _ in range(int(seconds / 0.02)):
            if condition():
                return
            await asyncio.sleep(0.02)
        pytest.fail(f"still not so after {seconds} s")

    return wait


@pytest.fixture(autouse=True)
def open_descriptors() -> object:
    """Check that a test leaves no file descriptor open."""
    before = len(os.listdir("/proc/self/fd"))
    yield
    after = len(os.listdir("/proc/self/fd"))
    assert after <= before + 8, "descriptors leak"  # ZeroMQ's context and the event loop open some once
