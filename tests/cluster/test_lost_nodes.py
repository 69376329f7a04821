"""Nodes in processes of their own are killed and started again during searches, which find what they find at home."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import aiocg
from aiocg.cluster import machine as cluster_machine

from ..waiting import eventually
from .conftest import Nodes, scripted

FORGETFUL = {"transition_cache_bytes": 0}  # so that the work is done whenever it is asked for
SETTINGS = ("--lease", "3", "--client-workers", "4", "--client-spawns", "1000")


async def greedy(runtime: aiocg.Runtime) -> tuple[Any, ...]:
    env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/qsort")
    found = await aiocg.search.greedy(env)
    return found.reward, found.actions


async def beam(runtime: aiocg.Runtime) -> tuple[Any, ...]:
    env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/sha256")
    found = await aiocg.search.beam(env, width=4, depth=8)
    return found.reward, found.actions


async def at_home(search: Callable[[aiocg.Runtime], Any]) -> tuple[Any, ...]:
    async with aiocg.Runtime(workers=2, node="", options=FORGETFUL) as runtime:
        result: tuple[Any, ...] = await search(runtime)
    return result


@pytest.mark.every_case
@pytest.mark.slow
async def test_a_node_that_is_killed_during_a_search_changes_nothing(
    nodes: Callable[..., Nodes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_machine, "PATIENCE", 1.0)
    expected = await at_home(greedy)
    two = nodes(2, *SETTINGS)
    async with two.runtime(options=FORGETFUL) as runtime:
        task = asyncio.create_task(greedy(runtime))
        (supervisor,) = await once(runtime.supervisors)
        await eventually(lambda: sum(worker.sent for worker in supervisor.workers) > 40)
        await asyncio.to_thread(two.kill, 0)
        assert await task == expected
        assert runtime.cluster is not None
        assert [node.state for node in runtime.cluster.nodes()] == ["down", "up"]


async def once(found: Callable[[], Any]) -> Any:
    """Wait until something is found, and return it."""
    await eventually(found)
    return found()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("search", [greedy, pytest.param(beam, marks=pytest.mark.every_case)])
async def test_a_search_finds_the_same_while_nodes_are_killed_every_few_seconds(
    nodes: Callable[..., Nodes], monkeypatch: pytest.MonkeyPatch, search: Callable[[aiocg.Runtime], Any]
) -> None:
    monkeypatch.setattr(cluster_machine, "PATIENCE", 1.0)
    expected = await at_home(search)
    three = nodes(3, *SETTINGS)
    async with three.runtime(options=FORGETFUL, workers=3) as runtime, killer(three, every=2.0) as kills:
        while kills.count < 4:
            assert await search(runtime) == expected
    assert kills.count >= 4


@pytest.mark.slow
async def test_no_episode_of_many_is_lost_while_nodes_are_killed(
    nodes: Callable[..., Nodes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_machine, "PATIENCE", 1.0)
    two = nodes(2, *SETTINGS)
    async with two.runtime(workers=4) as runtime:
        envs = [await scripted(runtime, value) for value in range(40)]
        steps = 0
        async with killer(two, every=2.0) as kills:
            while kills.count < 4:
                values = await asyncio.gather(*(env.step("increment") for env in envs))
                steps += 1
                assert [int(value[0]) for value in values] == list(range(steps, steps + 40))


class Kills:
    """How many nodes were killed."""

    count = 0


@contextlib.asynccontextmanager
async def killer(nodes: Nodes, every: float) -> AsyncIterator[Kills]:
    """Kill a node every so many seconds while the context lasts, one after the other, and start each again."""
    kills, over = Kills(), asyncio.Event()

    async def kill() -> None:
        index = 0
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), every)
            await asyncio.to_thread(nodes.kill, index)
            kills.count += 1
            await asyncio.sleep(every / 2)
            await asyncio.to_thread(nodes.restart, index)
            index = (index + 1) % len(nodes.hosts)

    task = asyncio.create_task(kill())
    try:
        yield kills
    finally:
        over.set()
        await task  # not in the middle of a start
