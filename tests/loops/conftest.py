"""A runtime of real workers for loop nests, shared by the tests of this folder."""

import os
import platform
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import aiocg
from aiocg.fleet.restart_policy import Policy


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def runtime() -> AsyncIterator[aiocg.Runtime]:
    """A runtime with one worker, which comes back at once when it is killed."""
    async with aiocg.Runtime(workers=1, policy=Policy(first_delay=0.01, max_delay=0.05)) as runtime:
        yield runtime


@pytest_asyncio.fixture(loop_scope="session")
async def make(runtime: aiocg.Runtime) -> AsyncIterator[Callable[..., Any]]:
    """Make an environment that measures shortly, and reset it; it is closed after the test."""
    made = []

    async def new(benchmark: Any, id: str = "loops-v0", **options: Any) -> aiocg.Env:
        reward = options.pop("reward_space", "flops")
        env = await runtime.make(id, benchmark=benchmark, **options)
        made.append(env)
        env.reward_space = None
        await env.reset()
        for key, value in (("samples", "2"), ("seconds", "0.002")):
            await env.send_parameter(key, value)
        env.reward_space = reward
        await env.reset()
        return env

    yield new
    for env in made:
        await env.close()


@pytest.fixture
def spoil() -> Callable[[int], None]:
    """Have a process fault: in its memory, the instruction that is next becomes one that is illegal."""
    return _spoil


def _spoil(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.001)
    place = int(Path(f"/proc/{pid}/syscall").read_text().split()[-1], 16)
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(place)
        memory.write(b"\x0f\x0b" if platform.machine() == "x86_64" else bytes(4))
    os.kill(pid, signal.SIGCONT)
