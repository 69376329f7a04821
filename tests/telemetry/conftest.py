"""Fixtures for tests of logs and metrics: a runtime of scripted workers."""

from collections.abc import AsyncIterator

import pytest

import aiocg
import aiocg.testing  # registers scripted-v0
from aiocg.fleet.restart_policy import Policy


@pytest.fixture
async def runtime() -> AsyncIterator[aiocg.Runtime]:
    """A runtime with two workers that are replaced at once."""
    async with aiocg.Runtime(workers=2, policy=Policy(first_delay=0.01, max_delay=0.1)) as runtime:
        yield runtime


@pytest.fixture
async def env(runtime: aiocg.Runtime) -> aiocg.Env:
    """A scripted environment that stands at 5."""
    env = await runtime.make("scripted-v0", benchmark=aiocg.testing.scripted_benchmark(5))
    await env.reset()
    return env
