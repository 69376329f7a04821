"""Questions to a worker that concern no session."""

import asyncio
from collections.abc import Sequence
from typing import Any

from aiocg.errors import InvalidAction
from aiocg.fleet.requests import PendingCheck, PendingStatistics
from aiocg.fleet.slot import WorkerSlot
from aiocg.transport.messages import Action


async def check(worker: WorkerSlot, actions: Sequence[Action]) -> list[InvalidAction | None]:
    """Ask which texts are actions; return None for each that is, and an error for each that is not."""
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[Any]] = [loop.create_future() for _ in actions]
    for action, future in zip(actions, futures, strict=True):
        worker.send(PendingCheck((action,), future))
    answers = await asyncio.gather(*futures, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, InvalidAction):
            raise answer
    return [answer if isinstance(answer, InvalidAction) else None for answer in answers]


async def statistics(worker: WorkerSlot) -> dict[str, Any]:
    """Return a worker's counters."""
    future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    worker.send(PendingStatistics(future))
    return await future
