"""What every observation space promises, on all programs and wherever an episode leads, whoever makes the values."""

import random
from collections.abc import AsyncIterator
from typing import Any

import networkx as nx
import numpy as np
import pytest
import pytest_asyncio

import aiocg
from aiocg.datasets import DownloadError
from aiocg.spaces import ObservationSpace

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

# They build the program with a sanitizer and run it, which takes seconds: tried on one program.
SANITIZED = ("ExecutionAsan", "ExecutionTsan", "ExecutionMsan", "ExecutionUbsan")
MEASURED = {"Runtime", "Buildtime"}
OF_MACHINE = MEASURED | {"CpuInfo", "FunctionImageSizesMinsize", "IsBuildable", "IsRunnable", "ObjectFile", "Assembly"}
SIZES = ["Bytes", "O0", "O3", "Oz", "MinsizeBytes", "O0Minsize", "OzMinsize", "OptsizeBytes", "O0Optsize", "OsOptsize"]
OF_MACHINE |= {
    f"{kind}{what}" for kind in ("ObjectBssSize", "ObjectImageSize", "ObjectTextSize", "TextSize") for what in SIZES
}


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def elsewhere() -> AsyncIterator[aiocg.Runtime]:
    """A runtime with a worker of its own, that nothing else was done on."""
    async with aiocg.Runtime(workers=1) as runtime:
        yield runtime


def can_be_had(space: ObservationSpace) -> bool:
    """Say whether what an observation needs to have fetched can be fetched here."""
    try:
        if space.prepare is not None:
            space.prepare()
    except DownloadError:
        return False
    return True


def names_of(env: aiocg.Env, program: str = "gcd") -> list[str]:
    """Return the spaces to try; of the quick tests, those on one program try what runs it."""
    left_out = {*SANITIZED, *(MEASURED | {"Execution"} if program in ("crc32", "nqueens") else ())}
    return [name for name, space in env.observation_spaces.items() if name not in left_out and can_be_had(space)]


def is_same(one: Any, other: Any) -> bool:
    """Compare values of any space, exactly."""
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, nx.Graph):
        nodes = list(one.nodes(data=True)) == list(other.nodes(data=True))
        return nodes and list(one.edges(keys=True, data=True)) == list(other.edges(keys=True, data=True))
    return bool(type(one) is type(other) and one == other)


def assert_contained(env: aiocg.Env, names: list[str], values: list[Any]) -> None:
    spaces = env.observation_spaces
    assert [name for name, value in zip(names, values, strict=True) if not spaces[name].space.contains(value)] == []


async def walk(env: aiocg.Env, seed: str, length: int) -> list[str]:
    """Take random actions, some of which do nothing or fail, and return those that were applied."""
    chance, taken = random.Random(seed), []
    for name in chance.choices(list(env.action_space), k=length):
        _, _, terminated, _, _ = await env.step(name)
        if terminated:
            await env.reset()
            await env.step(taken)
        else:
            taken.append(name)
    return taken


@pytest.mark.few(1)
async def test_values_are_in_their_spaces_and_deterministic_ones_are_the_same_in_another_worker(
    make: Any, elsewhere: aiocg.Runtime, program: str
) -> None:
    env = await make(program)
    names = names_of(env, program)
    assert_contained(env, names, await env.observe(*names))
    taken = await walk(env, program, 6)
    last = random.Random(program).choice(["mem2reg", "sroa", "simplifycfg", "gvn"])
    values, _, terminated, _, _ = await env.step(last, observation_spaces=names)
    assert not terminated
    assert_contained(env, names, values)
    other = await elsewhere.make("llvm-v0", benchmark=f"programs-v0/{program}")
    try:
        await other.reset()
        await other.step([*taken, last])
        assert other.state_hash == env.state_hash
        deterministic = [name for name in names if env.observation_spaces[name].deterministic]
        again = dict(zip(deterministic, await other.observe(*deterministic), strict=True))
        for name, value in zip(names, values, strict=True):
            assert name not in again or is_same(value, again[name]), name
    finally:
        await other.close()


@pytest.mark.slow
async def test_values_under_sanitizers_are_in_their_spaces(make: Any) -> None:
    env = await make("crc32")
    assert_contained(env, list(SANITIZED), await env.observe(*SANITIZED))


@pytest.mark.slow
async def test_asking_for_one_gives_what_asking_for_all_gives(make: Any) -> None:
    env = await make("nqueens")
    names = [name for name in names_of(env, "nqueens") if env.observation_spaces[name].deterministic]
    together, *_ = await env.step("sroa", observation_spaces=names)
    for name, value in zip(names, together, strict=True):
        assert is_same(await env.observe(name), value), name


async def test_each_says_what_it_is(make: Any) -> None:
    env = await make("gcd")
    for name, space in env.observation_spaces.items():
        assert space.name == name and space.description
        assert space.space.contains(space.default), name
        space.space.seed(1)
        assert all(space.space.contains(space.space.sample()) for _ in range(3)), name
    spaces = env.observation_spaces.items()
    assert {name for name, space in spaces if not space.deterministic} - set(SANITIZED) == {*MEASURED, "BitcodeFile"}
    platform_dependent = {name for name, space in spaces if space.platform_dependent}
    assert platform_dependent - {*SANITIZED, "Execution"} == OF_MACHINE
