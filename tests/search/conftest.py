"""A runtime for searches, a world in which the best answer is known, and someone who kills workers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
import pytest_asyncio

import aiocg
import aiocg.testing
from aiocg.fleet.restart_policy import Policy
from aiocg.spaces import DiscreteActions
from aiocg.spaces.rewards import CostReward
from aiocg.testing import scripted_benchmark


class Distance(CostReward):
    """The decrease of the distance from a number."""

    def __init__(self, target: int) -> None:
        super().__init__("distance", "value")
        self.target = target

    def reward(self, before: Mapping[str, Any], after: Mapping[str, Any], baseline: Mapping[str, Any]) -> float:
        """Return how much nearer the step came."""
        return float(abs(before["value"] - self.target) - abs(after["value"] - self.target))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def runtime() -> AsyncIterator[aiocg.Runtime]:
    """A runtime with two workers that come back at once when they are killed."""
    async with aiocg.Runtime(
        workers=2, memory_limit=1 << 30, policy=Policy(first_delay=0.01, max_delay=0.05)
    ) as runtime:
        runtime.datasets["scripted-v0"] = aiocg.testing.ScriptedDataset()
        yield runtime


@pytest_asyncio.fixture(loop_scope="session")
async def world(runtime: aiocg.Runtime) -> AsyncIterator[Callable[..., Any]]:
    """Make an environment that starts at one number and is rewarded for coming near another.

    Actions that hang or kill their worker come to an end soon: every search tries all of them.
    """

    made = []

    async def make(start: int = 3, target: int = 50) -> aiocg.Env:
        made.append(env := await runtime.make("scripted-v0", benchmark=scripted_benchmark(start)))
        env.reward_spaces["distance"] = Distance(target)
        env.reward_space = "distance"
        env.timeout = 0.1
        return env

    yield make
    for env in made:
        await env.close()


@pytest.fixture
def calm(world: Callable[..., Any]) -> Callable[..., Any]:
    """Make the same environment without the actions that misbehave, for tests that need many steps."""

    async def make(start: int = 3, target: int = 50) -> aiocg.Env:
        env = await world(start, target)
        keep = ("nothing", "increment", "double", "square")
        assert env.action_space.names[: len(keep)] == keep
        env.action_space = DiscreteActions.of_texts("calm", keep, env.action_space.language)
        return env

    return make


@pytest.fixture
def sessions(runtime: aiocg.Runtime) -> Callable[[], Any]:
    """Count the sessions on all workers, when those that were closed have been: nobody waits for that."""

    async def count() -> int:
        for _ in range(1200):
            found = sum(counters["sessions"] for counters in await runtime.statistics())
            if found <= 1:
                break
            await asyncio.sleep(0.05)
        return found

    return count
