"""All sessions of an application, and the health of their workers."""

import asyncio
import contextlib
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, Self

from aiocg.datasets.benchmark import Benchmark
from aiocg.runtime import Runtime
from aiocg.validation.legacy_states import modern_state
from aiocg.web._searching import LiveSearch
from aiocg.web._session import ExplorerSession
from aiocg.web.limits import Limits, Refusal
from aiocg.web.saved import Opening, at_state

LOOK = 0.2  # seconds between looks at the workers


class Sessions:
    """The sessions of an application, on one runtime::

        async with Sessions(runtime, Limits()) as sessions:
            id, session = await sessions.open("llvm-ic-v0", benchmark="programs-v0/gcd")

    Attributes:
        runtime: where their environments are.
        limits: what all of them together may have.
    """

    def __init__(self, runtime: Runtime, limits: Limits) -> None:
        self.runtime = runtime
        self.limits = limits
        self._sessions: dict[str, ExplorerSession] = {}
        self._searches: dict[str, LiveSearch] = {}
        self._used: dict[str, float] = {}
        self._opening = 0
        self._task: asyncio.Task[None] | None = None

    async def open(self, environment: str, *, benchmark: Benchmark | str | None, **choices: Any) -> str:
        """Open a session, as `ExplorerSession.open` does, and return its id.

        Raises:
            Refusal: when there are too many.
        """
        with self._room():
            choices |= {"benchmark": benchmark, "limits": self.limits}
            return self._add(await ExplorerSession.open(self.runtime, environment, **choices))

    async def open_saved(self, opening: Opening) -> str:
        """Open a session at what was saved, and return its id.

        Raises:
            Refusal: when there are too many.
            AiocgError, DatasetError: when that does not exist here, or its actions fail.
        """
        if opening.legacy is not None:
            opening = at_state((await modern_state(self.runtime, opening.legacy, opening.environment))[0])
        id = await self.open(opening.environment, benchmark=opening.benchmark, reward_space=opening.reward_space)
        try:
            session = self.find(id)
            await session.grow(opening.paths)
            most = self.limits.actions
            for start in range(0, len(opening.actions), most):
                await session.step(opening.actions[start : start + most])
        except BaseException:
            await self.close(id)
            raise
        return id

    async def fork(self, id: str) -> str:
        """Fork a session, and return the id of the new one."""
        session = self.find(id)
        with self._room():
            return self._add(await session.fork())

    @contextlib.contextmanager
    def _room(self) -> Iterator[None]:
        if len(self._sessions) + self._opening >= self.limits.sessions:
            raise Refusal(
                429, f"{self.limits.sessions} sessions are open, the most there may be: close one, or wait a while"
            )
        self._opening += 1
        try:
            yield
        finally:
            self._opening -= 1

    def _add(self, session: ExplorerSession) -> str:
        id = secrets.token_urlsafe(12)
        self._sessions[id] = session
        self._searches[id] = LiveSearch(session, self._check_searches)
        self._used[id] = time.monotonic()
        return id

    def find(self, id: str) -> ExplorerSession:
        """Return a session.

        Raises:
            Refusal: when there is none of this id.
        """
        if id not in self._sessions:
            raise Refusal(404, f"there is no session {id!r}: it was closed, or nobody used it for long; open another")
        self._used[id] = time.monotonic()
        return self._sessions[id]

    def search_of(self, id: str) -> LiveSearch:
        """Return the search of a session, which may not run.

        Raises:
            Refusal: when there is no session of this id.
        """
        self.find(id)
        return self._searches[id]

    def _check_searches(self) -> None:
        running = sum(one.running for one in self._searches.values())
        if running >= self.limits.searches:
            raise Refusal(429, f"{running} searches are running, the most there may be: pause one, or wait a while")

    async def close(self, id: str) -> None:
        """Close a session, and end its search."""
        session = self.find(id)
        search = self._searches.pop(id)
        del self._sessions[id], self._used[id]
        await search.close()
        await session.close()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        for id in list(self._sessions):
            await self.close(id)

    def __contains__(self, id: str) -> bool:
        return id in self._sessions

    def __len__(self) -> int:
        return len(self._sessions)

    async def _watch(self) -> None:
        """Tell the sessions of workers that died, and close those that nobody uses."""
        before = self._deaths()
        while True:
            await asyncio.sleep(LOOK)
            deaths = self._deaths()
            for kind, cause in (deaths - before).elements():
                for session in self._sessions.values():
                    session.tell("death", kind=kind, cause=cause)
            before = deaths
            now = time.monotonic()
            idle = [one for one, used in self._used.items() if now - used > self.limits.idle_seconds]
            for id in [one for one in idle if not self._searches[one].running]:
                await self.close(id)

    def _deaths(self) -> Counter[tuple[str, str]]:
        """Return how many workers died, by kind and cause."""
        found: Counter[tuple[str, str]] = Counter()
        for supervisor in self.runtime.supervisors():
            for worker in supervisor.workers:
                found.update({(supervisor.kind, cause): count for cause, count in worker.tally.deaths.items()})
        return found
