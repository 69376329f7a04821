"""What clients get of a node's processors."""

import asyncio
import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterable

import pytest

import aiocg
from aiocg.node.server import Shares

from ..waiting import eventually
from .conftest import Serve
from .test_node import scripted

LOOKS = 200


def shares(*busy: Counter[str]) -> Shares:
    """Return what is decided after looks that find these workers busy, over and over."""
    made = Shares()
    for index in range(LOOKS):
        made.looked(busy[index % len(busy)])
    return made


@pytest.mark.parametrize("fewest", [1, 2])
@pytest.mark.parametrize("workers", [1, 2, 3, 8, 16, 64])
def test_the_busy_workers_of_a_client_weigh_as_much_together_as_those_of_another(fewest: int, workers: int) -> None:
    decided = shares(Counter(alice=fewest, bob=workers))
    weights = [count * 1.25 ** -decided.nice(key) for key, count in (("alice", fewest), ("bob", workers))]
    assert weights[0] == pytest.approx(weights[1], rel=0.12)


def test_who_now_and_then_keeps_a_worker_busy_gets_the_share_of_one() -> None:
    decided = shares(Counter(alice=1, bob=4), Counter(bob=4))
    assert (decided.nice("alice"), decided.nice("nobody"), decided.nice("bob")) == (0, 0, 6)


def test_where_nobody_else_is_busy_no_worker_is_nice() -> None:
    decided = shares(Counter(alice=1, bob=16))
    assert decided.nice("bob") > 10
    for _ in range(LOOKS):
        decided.looked(Counter(bob=16))
    assert decided.nice("bob") == 0


@pytest.mark.slow
async def test_the_more_workers_a_client_keeps_busy_the_less_each_weighs(serve: Serve) -> None:
    async with serve() as site, site.runtime("alice") as mine, site.runtime("bob", workers=3) as theirs:
        hanging = [(await scripted(runtime)).submit("hang") for runtime in (mine, theirs, theirs, theirs)]
        await eventually(lambda: nice(theirs.worker_pids()) == {5})
        assert nice(mine.worker_pids()) == {0}
        for step in hanging:
            step.cancel()


@pytest.mark.slow
async def test_a_client_with_one_busy_worker_gets_as_much_as_one_with_four(serve: Serve) -> None:
    async with serve() as site, site.runtime("alice") as mine, site.runtime("bob", workers=4) as theirs:
        envs = [await scripted(runtime) for runtime, count in ((mine, 2), (theirs, 8)) for _ in range(count)]
        for pid in site.pids():
            os.sched_setaffinity(pid, {max(os.sched_getaffinity(0))})
        computing = [asyncio.create_task(compute(env)) for env in envs]
        await eventually(lambda: min(nice(theirs.worker_pids())) > 4)
        found = []
        while len(found) < 5 and max(found, default=0.0) <= 0.35:  # others on the machine may disturb a measurement
            before = processor_time(mine.worker_pids()), processor_time(theirs.worker_pids())
            await eventually(lambda: processor_time(site.pids()) - sum(before) > 2.0, 60.0)  # noqa: B023
            own = processor_time(mine.worker_pids()) - before[0]
            found.append(own / (own + processor_time(theirs.worker_pids()) - before[1]))
        for task in computing:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
    assert found[-1] > 0.35, found  # where all workers count alike it is 0.2


async def compute(env: aiocg.Env) -> None:
    while True:
        await env.step(["nothing"] * 50_000)


def nice(pids: Iterable[int]) -> set[int]:
    """Return by how much processes are nicer than this one."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    return {os.getpriority(os.PRIO_PROCESS, pid) - own for pid in pids}


def processor_time(pids: Iterable[int]) -> float:
    """Return the processor time of processes, in seconds."""
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)
