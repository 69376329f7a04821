"""A thousand environments of a real compiler at once."""

import asyncio

import pytest

import aiocg
from aiocg.datasets import default_datasets

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROGRAMS = ("gcd", "crc32", "nqueens", "qsort")


async def walk(count: int) -> None:
    """Step `count` environments, all at once; those of the same program and actions must agree."""
    async with aiocg.Runtime(workers=2, datasets=default_datasets()) as runtime:
        envs = await asyncio.gather(
            *(runtime.make("llvm-ic-v0", benchmark=f"programs-v0/{PROGRAMS[i % 4]}") for i in range(count))
        )
        await asyncio.gather(*(env.reset() for env in envs))
        names = envs[0].action_space.names
        walks = [[names[(7 * (i % 20) + 31 * step) % len(names)] for step in range(3)] for i in range(count)]
        for step in range(3):
            results = await asyncio.gather(*(env.step(walks[i][step]) for i, env in enumerate(envs)))
            assert not any(terminated for _, _, terminated, _, _ in results)
        hashes: dict[object, set[int]] = {}
        for i, env in enumerate(envs):
            assert env.state.actions == tuple(walks[i])
            hashes.setdefault((i % 4, i % 20), set()).add(env.state_hash)
        assert all(len(found) == 1 for found in hashes.values())
        counts = [counters["sessions"] for counters in await runtime.statistics()]
        assert counts == [count // 2, count // 2]


async def test_a_hundred_environments_at_once() -> None:
    await walk(100)


@pytest.mark.slow
async def test_a_thousand_environments_at_once() -> None:
    await walk(1000)


@pytest.mark.slow
async def test_a_thousand_forks_and_what_they_cost(make) -> None:  # type: ignore[no-untyped-def]
    env = await make("qsort", "llvm-ic-v0")
    await env.step("mem2reg")
    forks = await asyncio.gather(*(env.fork() for _ in range(1000)))
    results = await asyncio.gather(*(fork.step("simplifycfg") for fork in forks))
    assert len({result[4]["state"] for result in results}) == 1
    assert len({result[1] for result in results}) == 1
    await asyncio.gather(*(fork.close() for fork in forks))
