"""Several environments on the same program, spread over the workers, that share the work of one search."""

import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import anyio

from aiocg.candidate import Candidate
from aiocg.env import Env

__all__ = ["each", "evaluate", "go_to", "open_lanes", "spread"]

T = TypeVar("T")


@contextlib.asynccontextmanager
async def open_lanes(env: Env, count: int | None = None) -> AsyncIterator[list[Env]]:
    """Reset an environment and enough siblings to make `count`, one per worker if None; close those at the end."""
    count = env.worker_count if count is None else count
    lanes = [env]
    try:
        while len(lanes) < count:
            lanes.append(await env.sibling())
        await spread([lane.reset for lane in lanes])
        yield lanes
    finally:
        with anyio.CancelScope(shield=True):
            for lane in lanes[1:]:
                await lane.close()


async def spread(jobs: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
    """Run jobs at once and return their results in order; the first error cancels the others."""
    jobs = list(jobs)
    results: list[T | None] = [None] * len(jobs)

    async def run(index: int, job: Callable[[], Awaitable[T]]) -> None:
        results[index] = await job()

    try:
        async with anyio.create_task_group() as group:
            for index, job in enumerate(jobs):
                group.start_soon(run, index, job)
    except BaseExceptionGroup as errors:
        first: BaseException = errors
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
    return results  # type: ignore[return-value]


def each(lanes: Iterable[Env], job: Callable[[Env], Awaitable[T]]) -> list[Callable[[], Awaitable[T]]]:
    """Return the jobs that do the same on each lane."""
    return [functools.partial(job, lane) for lane in lanes]


async def go_to(lane: Env, actions: Sequence[int]) -> None:
    """Bring a lane from wherever it is to the state after `actions`.

    Raises:
        ServiceError: when an action fails, which it did not when it was found.
    """
    present = lane.actions
    if not lane.in_episode or present != list(actions[: len(present)]):
        await lane.reset()
        present = []
    rest = list(actions[len(present) :])
    if rest:
        _, _, terminated, _, info = await lane.step(rest, observation_spaces=[])
        if terminated:
            raise info["error"]


async def evaluate(lanes: Sequence[Env], candidates: Sequence[tuple[int, ...]]) -> list[Candidate]:
    """Expand candidates from the common state of all lanes, each lane doing its share; results in order."""
    count = len(lanes)
    shares = [candidates[i::count] for i in range(count)]

    jobs = [
        functools.partial(lane.expand, share, observation_spaces=[]) for lane, share in zip(lanes, shares, strict=True)
    ]
    parts = await spread(jobs)
    results: list[Candidate] = [parts[i % count][i // count] for i in range(len(candidates))]
    return results
