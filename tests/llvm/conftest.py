"""A runtime of real LLVM workers, shared by all tests of this folder, and small programs for it."""

import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

import aiocg
from aiocg.datasets import default_datasets
from aiocg.fleet.restart_policy import Policy

FEW = ("crc32", "qsort")
ALL = tuple(uri.path for uri in default_datasets()["programs-v0"].benchmark_uris())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what asks for a `program` on a few small ones, and in the slow tests on a fourth of the others."""
    if "program" in metafunc.fixturenames:
        rest = [pytest.param(name, marks=[pytest.mark.slow, pytest.mark.sampled]) for name in ALL if name not in FEW]
        metafunc.parametrize("program", [*FEW, *rest])


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def runtime() -> AsyncIterator[aiocg.Runtime]:
    """A runtime with two workers that come back at once when they are killed."""
    async with aiocg.Runtime(workers=2, policy=Policy(first_delay=0.01, max_delay=0.05)) as runtime:
        yield runtime


@pytest_asyncio.fixture(loop_scope="session")
async def make(runtime: aiocg.Runtime) -> AsyncIterator[Callable[..., Any]]:
    """Make an environment and reset it; it is closed after the test."""
    made = []

    async def new(program: str | os.PathLike[str] = "gcd", id: str = "llvm-v0", **options: Any) -> aiocg.Env:
        target = program if isinstance(program, os.PathLike) or "/" in program else f"programs-v0/{program}"
        made.append(env := await runtime.make(id, benchmark=target, **options))
        await env.reset()
        return env

    yield new
    for env in made:
        await env.close()


@pytest.fixture
def at(make: Callable[..., Any]) -> Callable[..., Any]:
    """Make an environment on a benchmark and apply actions."""

    async def reach(benchmark: Any, *actions: str, **options: Any) -> aiocg.Env:
        env: aiocg.Env = await make(**options)
        await env.reset(benchmark=benchmark)
        if actions:
            _, _, terminated, _, info = await env.step_texts(actions)
            assert not terminated, info["error_details"]
        return env

    return reach
