"""Environments on the same program, spread over the workers, which share the work of a search."""

import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import anyio

from aiocg.env.env import Env
from aiocg.env.step import Candidate

CHUNK = 24  # candidates per lane and message: few enough to check the clock often, enough to amortise the message

T = TypeVar("T")


@contextlib.asynccontextmanager
async def open_lanes(
    env: Env, count: int | None = None, *, at: Sequence[str] | None = None, rewarded: bool = True
) -> AsyncIterator[list[Env]]:
    """Reset an environment and enough siblings to make `count`, or one per worker; close the siblings at the end.

    With `at`, bring them to the state after these actions instead of resetting them. Siblings that are not `rewarded`
    compute no rewards, so they need no baselines.
    """
    count = env.worker_count if count is None else count
    lanes = [env]
    try:
        while len(lanes) < count:
            lanes.append(await env.sibling())
            if not rewarded:
                lanes[-1].reward_space = None
        await spread([lane.reset for lane in lanes] if at is None else each(lanes, lambda lane: go_to(lane, at)))
        yield lanes
    finally:
        await close_all(lanes[1:])


async def close_all(lanes: Iterable[Env]) -> None:
    """Close environments, also if this is cancelled meanwhile."""
    with anyio.CancelScope(shield=True):
        for lane in lanes:
            await lane.close()


async def bare_sibling(env: Env) -> Env:
    """Return a sibling of an environment that observes and earns nothing."""
    other = await env.sibling()
    other.observation_space = other.reward_space = None
    return other


async def spread(jobs: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
    """Run jobs concurrently and return their results in order; the first error cancels the others."""
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
    """Return a job for each lane."""
    return [functools.partial(job, lane) for lane in lanes]


def possible_actions(lane: Env) -> list[str]:
    """Return the texts of the actions available in a lane's state.

    Unlike indices, texts have the same meaning in every state.
    """
    space = lane.action_space
    return [space.language.text(action) for action in space.encode(space.candidates())]


async def go_to(lane: Env, actions: Sequence[str]) -> None:
    """Bring a lane from any state to the state after `actions`.

    Raises:
        ServiceError: if an action fails, although it succeeded before.
    """
    present = lane.action_texts
    if not lane.in_episode or present != tuple(actions[: len(present)]):
        await lane.reset()
        present = ()
    rest = actions[len(present) :]
    if rest:
        _, _, _, _, info = await lane.step_texts(rest, observation_spaces=[])
        if "error" in info:
            raise info["error"]


async def evaluate(
    lanes: Sequence[Env], lists: Sequence[Sequence[str]], observation_spaces: Sequence[str] = ()
) -> list[Candidate]:
    """Try lists of actions from the common state of all lanes, which share the work; return the results in order."""
    count = len(lanes)
    jobs = [
        functools.partial(lane.expand_texts, lists[i::count], observation_spaces=observation_spaces)
        for i, lane in enumerate(lanes)
    ]
    parts = await spread(jobs)
    return [parts[i % count][i // count] for i in range(len(lists))]
