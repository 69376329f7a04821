"""Fixtures for tests of the synchronous facade."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import aiocg.gym
import aiocg.testing  # registers scripted-v0
from aiocg.fleet.restart_policy import Policy

QUICK = Policy(first_delay=0.01, max_delay=0.1, quarantine_deaths=0)
SHARED = replace(QUICK, max_death_rate=10_000, max_explained_rate=10_000, max_deaths=10_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Time tests of this folder without a signal, whose handler would keep callers from running the event loop."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(method="thread"))


@pytest.fixture(scope="session")
def runtime() -> Iterator[aiocg.gym.SyncRuntime]:
    """A runtime with one worker and no patience, which all tests share."""
    with aiocg.gym.SyncRuntime(workers=1, policy=SHARED) as runtime:
        runtime.datasets["scripted-v0"] = aiocg.testing.ScriptedDataset()
        yield runtime


@pytest.fixture
def scripted(runtime: aiocg.gym.SyncRuntime) -> Iterator[aiocg.gym.CompilerEnv]:
    """A scripted environment that stands at 5."""
    with runtime.make("scripted-v0", benchmark="scripted-v0/5", reward_space="value") as env:
        env.reset()
        yield env


@pytest.fixture
def llvm(runtime: aiocg.gym.SyncRuntime) -> Iterator[aiocg.gym.LlvmEnv]:
    """An LLVM environment at the start of a small program."""
    with runtime.make("llvm-autophase-ic-v0", benchmark="programs-v0/gcd") as env:
        assert isinstance(env, aiocg.gym.LlvmEnv)
        env.reset()
        yield env


@pytest.fixture
def default() -> Iterator[Callable[[], aiocg.gym.SyncRuntime]]:
    """The default runtime, ended after the test."""
    yield aiocg.gym.default_runtime
    aiocg.gym.shutdown()
