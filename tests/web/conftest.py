"""Fixtures for tests of the Explorer: a runtime as visitors get it, shared by the tests of this folder."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

import aiocg
import aiocg.testing  # registers scripted-v0
from aiocg.fleet.supervision import Policy

PATIENT = Policy(first_delay=0.01, max_delay=0.1, max_death_rate=10_000, max_explained_rate=10_000, max_deaths=10_000)


@pytest_asyncio.fixture(scope="session")
async def shared() -> AsyncIterator[aiocg.Runtime]:
    """Two workers that trust nobody and may die as often as they like."""
    async with aiocg.Runtime(workers=2, policy=PATIENT, options={"untrusted": True}) as runtime:
        runtime.datasets["scripted-v0"] = aiocg.testing.ScriptedDataset()
        yield runtime


@pytest.fixture
def runtime(shared: aiocg.Runtime) -> aiocg.Runtime:
    """That runtime, with nothing in quarantine."""
    shared.quarantine.clear()
    return shared


@pytest.fixture
def eventually() -> Callable[..., object]:
    """Wait until a condition holds; fails when it does not within a generous time."""

    async def wait(condition: Callable[[], bool], seconds: float = 60.0) -> None:
        for _ in range(int(seconds / 0.02)):
            if condition():
                return
            await asyncio.sleep(0.02)
        pytest.fail(f"still not so after {seconds} s")

    return wait
