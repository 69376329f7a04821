"""A runtime of real GCC workers, and a container engine, shared by the tests of this folder that ask for them."""

import contextlib
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import aiocg
from aiocg.datasets.cache import cache_directory
from aiocg.fleet.restart_policy import Policy
from aiocg.workers.gcc._discovery import discover
from aiocg.workers.gcc._local import LocalRunner

from .engine import client, engine, gcc_image
from .written import LOOP, program

__all__ = ["cache", "client", "engine", "gcc", "gcc_image", "make", "runtime"]


@pytest.fixture(scope="session")
def gcc() -> str:
    """The path of this machine's compiler."""
    found = shutil.which("gcc")
    if found is None:
        pytest.skip("there is no gcc on this machine")
    return found


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that knows nothing but which options compilers have, since finding that takes seconds."""
    folder, known = tmp_path_factory.mktemp("cache"), cache_directory()
    if shutil.which("gcc"):
        with contextlib.closing(LocalRunner("gcc")) as runner:
            discover(runner, str(known))  # by the first of the processes that run tests, for all of them
    for path in known.glob("gcc-options-*.json"):
        shutil.copy(path, folder)
    return folder


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def runtime(gcc: str, cache: Path) -> AsyncIterator[aiocg.Runtime]:
    """A runtime with two workers that come back at once when they are killed."""
    policy = Policy(first_delay=0.01, max_delay=0.05)
    async with aiocg.Runtime(workers=2, policy=policy, options={"cache_dir": str(cache)}) as runtime:
        yield runtime


@pytest_asyncio.fixture(loop_scope="session")
async def make(runtime: aiocg.Runtime) -> AsyncIterator[Callable[..., Any]]:
    """Make an environment and reset it; it is closed after the test."""
    made = []

    async def new(benchmark: Any = None, id: str = "gcc-v0", **options: Any) -> aiocg.Env:
        target = program(LOOP) if benchmark is None else benchmark
        made.append(env := await runtime.make(id, benchmark=target, **options))
        await env.reset()
        return env

    yield new
    for env in made:
        await env.close()
