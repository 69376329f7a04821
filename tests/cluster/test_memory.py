"""Where workers of nodes remember transitions: where the node's operator says, if he trusts his clients."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import aiocg

from .conftest import Nodes

pytestmark = pytest.mark.slow


@pytest.mark.sampled
@pytest.mark.parametrize("options", [(), ("--trust-clients",)], ids=["strangers", "trusted"])
async def test_workers_of_nodes_remember_where_the_operator_says(
    nodes: Callable[..., Nodes], place: Any, options: tuple[str, ...]
) -> None:
    place.environment["AIOCG_MEMORY"] = "memory"
    async with nodes(2, *options).runtime() as runtime:
        env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd")
        await aiocg.search.greedy(env, budget=aiocg.search.Budget(evaluations=60))
        counters = await runtime.statistics()
        assert len(counters) >= 2
        if options:
            async with asyncio.timeout(60):  # it is written later
                while sum(one["memory_written"] for one in await runtime.statistics()) <= 20:  # noqa: ASYNC110 - of another process
                    await asyncio.sleep(0.05)
            assert (place.folder / "memory" / "transitions-1.sqlite").exists()
        else:
            assert not any("memory_written" in one for one in counters)
    assert (place.folder / "memory").exists() is bool(options)
