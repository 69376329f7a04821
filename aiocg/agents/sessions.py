"""The sessions of an agent, and the choices it has."""

import asyncio
from collections.abc import Mapping
from typing import Any

from aiocg.agents.limits import Limits, Refused
from aiocg.agents.session import AgentSession
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.uri import BenchmarkUri
from aiocg.env.env import Env
from aiocg.host.threads import in_thread
from aiocg.runtime import Runtime

__all__ = ["AgentSessions"]

LAST = 2**53  # the greatest offset of a list


class AgentSessions:
    """The sessions of one agent with one kind of environment, on a runtime.

    Args:
        runtime: where the environments live; an agent that is not to reach files needs one whose compilers know that,
            by `options={"untrusted": True}`.
        environment: their id.
        reward_space: what they are rewarded by; the default of the environment if None.
        programs: programs beside those of the runtime's datasets, by the names that the agent is told.
        limits: what it may have.
    """

    def __init__(
        self,
        runtime: Runtime,
        environment: str = "llvm-ic-v0",
        *,
        reward_space: str | None = None,
        programs: Mapping[str, Benchmark] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self._runtime = runtime
        self._environment = environment
        self._reward_space = reward_space
        self._programs = dict(programs or {})
        self._sessions: dict[str, AgentSession] = {}
        self._opened = 0
        self._opening = 0
        self._shown: Env | None = None  # which is asked for spaces
        self._making = asyncio.Lock()

    async def reset(self, program: str, session: str) -> dict[str, Any]:
        """Begin an episode with a program, in a session or, if that is "", in a new one.

        Raises:
            Refused: when there are too many sessions, or not this one, or the program is a file.
            DatasetError, ServiceError: when there is no such program, or it cannot be loaded.
        """
        benchmark = await self._benchmark(program)
        if session:
            return {"session": session, **await self.find(session).reset(benchmark)}
        if len(self._sessions) + self._opening >= self.limits.sessions:
            raise Refused(
                f"{len(self._sessions)} sessions are open, and {self.limits.sessions} is the most: close one, or name "
                f"the one that is to be reset: {', '.join(self._sessions)}"
            )
        self._opening += 1
        try:
            opened = AgentSession(await self._make(), self.limits)
            try:
                told = await opened.reset(benchmark)
            except BaseException:
                await opened.close()
                raise
            self._opened += 1
            self._sessions[name := f"s{self._opened}"] = opened
        finally:
            self._opening -= 1
        return {"session": name, **told}

    def find(self, session: str) -> AgentSession:
        """Return a session.

        Raises:
            Refused: when there is none of this name.
        """
        if session not in self._sessions:
            known = f"there are {', '.join(self._sessions)}" if self._sessions else "there are none"
            raise Refused(f"there is no session {session[:30]!r}; {known}: reset makes one")
        return self._sessions[session]

    async def close(self, session: str) -> None:
        """Close a session.

        Raises:
            Refused: when there is none of this name.
        """
        found = self.find(session)
        del self._sessions[session]
        await found.close()

    async def close_all(self) -> None:
        """Close all sessions."""
        for session in list(self._sessions):
            await self.close(session)
        if self._shown is not None:
            await self._shown.close()
            self._shown = None

    async def actions(self, contains: str, offset: int) -> dict[str, Any]:
        """Return the actions whose names or descriptions contain a text."""
        space = (await self._example()).action_space
        pairs = zip(space.names, space.descriptions, strict=True)
        listed = [{"name": name, "description": said} for name, said in pairs if _matches(contains, name, said)]
        return self._page("actions", listed, offset)

    async def observations(self, contains: str, offset: int) -> dict[str, Any]:
        """Return the observations whose names or descriptions contain a text."""
        spaces = (await self._example()).observation_spaces.values()
        listed = [
            {"name": one.name, "description": one.description}
            for one in spaces
            if _matches(contains, one.name, one.description)
        ]
        return self._page("observations", listed, offset)

    async def programs(self, dataset: str, offset: int) -> dict[str, Any]:
        """Return the names of a dataset's programs, or what datasets there are.

        Raises:
            DatasetError: when there is no such dataset.
        """
        kind = (await self._example()).spec.kind
        self._check_offset(offset)
        most = self.limits.listed

        def look() -> dict[str, Any]:
            if not dataset:
                listed = [
                    {"name": one.name, "programs": one.size or "no end", "description": one.description}
                    for one in self._runtime.datasets.datasets(kind=kind)
                ]
                return {"files": list(self._programs), **self._page("datasets", listed, offset)}
            found = self._runtime.datasets[self._name(dataset)]
            names = [str(uri) for uri in found[offset : offset + most].benchmark_uris()]
            more = len(names) == most and (not found.size or offset + most < found.size)
            counted: dict[str, Any] = {"programs": names, "count": found.size or "no end"}
            return counted | ({"next_offset": offset + most} if more else {})

        return await in_thread(look)

    def _page(self, what: str, listed: list[Any], offset: int) -> dict[str, Any]:
        self._check_offset(offset)
        end = offset + self.limits.listed
        page: dict[str, Any] = {what: listed[offset:end], "count": len(listed)}
        return page | ({"next_offset": end} if end < len(listed) else {})

    def _check_offset(self, offset: int) -> None:
        if not 0 <= offset <= LAST:
            raise Refused(f"an offset is 0 to {LAST}, and you gave {offset}: take the next_offset of the list before")

    async def _example(self) -> Env:
        async with self._making:
            if self._shown is None:
                self._shown = await self._make()
            return self._shown

    async def _make(self) -> Env:
        return await self._runtime.make(self._environment, reward_space=self._reward_space)

    async def _benchmark(self, program: str) -> Benchmark:
        if program in self._programs:
            return self._programs[program]
        uri = BenchmarkUri.from_string(self._name(program))
        if uri.scheme == "file":
            raise Refused(
                f"{program[:100]!r} is a file, and agents have no access to files: name a program of list_programs; "
                "whoever starts the server can offer files to you, with --program"
            )
        return await in_thread(lambda: self._runtime.datasets.benchmark(program))

    def _name(self, name: str) -> str:
        if len(name) > self.limits.name_characters:
            raise Refused(f"a name has at most {self.limits.name_characters} characters, and this one has {len(name)}")
        return name


def _matches(contains: str, *texts: str) -> bool:
    return any(contains.lower() in text.lower() for text in texts)
