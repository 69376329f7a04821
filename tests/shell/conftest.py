"""Fixtures for tests of the shell: a runtime of scripted workers."""

from collections.abc import AsyncIterator

import pytest

import aiocg
import aiocg.testing  # registers scripted-v0
from aiocg.supervision import Policy


@pytest.fixture
async def runtime() -> AsyncIterator[aiocg.Runtime]:
    """A runtime with two workers that are replaced without delay."""
    async with aiocg.Runtime(workers=2, policy=Policy(first_delay=0.01, max_delay=0.1)) as runtime:
        runtime.datasets["scripted-v0"] = aiocg.testing.ScriptedDataset()
        yield runtime
