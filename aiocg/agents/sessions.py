"""The sessions of an agent, and the choices it has."""

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.uri import BenchmarkUri
from aiocg.env.env import Env
from aiocg.env.episode import Snapshot
from aiocg.errors import AiocgError, ResetNeeded
from aiocg.host.threads import in_thread
from aiocg.runtime import Runtime

__all__ = ["GRACE", "LONGEST_ERROR", "AgentSession", "AgentSessions", "Limits", "Refused", "sayable", "shown"]


def sayable(text: str) -> str:
    """Return a text that UTF-8 can say: what is no character becomes a question mark."""
    return text.encode("utf-8", "replace").decode()


def _plain(value: Any) -> Any:
    """Return a value as JSON can say it; numbers that are not finite are null.

    Raises:
        Refused: when it is none of the kinds that can be said, such as a graph.
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return sayable(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    raise Refused(f"this observation is {type(value).__name__}, which JSON cannot say: take one of text or numbers")


def shown(value: Any, most: int, offset: int = 0) -> dict[str, Any]:
    """Return an observation: a short one as `value`, of text and what is long a part, with how much there is.

    Args:
        value: of the observation.
        most: characters of the part.
        offset: characters before it.

    Raises:
        Refused: when it cannot be said, or the part would begin behind its end.
    """
    said = _plain(value)
    text = said if isinstance(said, str) else json.dumps(said)
    if text is not said and len(text) <= most and not offset:
        return {"value": said}
    if not 0 <= offset <= len(text):
        raise Refused(f"the text has {len(text)} characters, so its parts begin at 0 to {len(text)}, not at {offset}")
    end = min(offset + most, len(text))
    part: dict[str, Any] = {"text": text[offset:end], "characters": len(text), "cut": end < len(text)}
    return part | ({"next_offset": end} if part["cut"] else {})


GRACE = 5.0  # seconds that a call may spend in the queue
LONGEST_ERROR = 4000  # characters


@dataclass(frozen=True, slots=True)
class Limits:
    """What one agent may have.

    Attributes:
        sessions: open at once.
        actions: of one step, or of one candidate of an expand.
        candidates: of one expand.
        undo: calls of step that can be undone.
        listed: entries of one list.
        name_characters: of the name of a program, an action or an observation.
        shown_characters: of one observation.
        seconds: that the compiler may take for the actions of a step, or for a candidate; a whole call may take
            `GRACE` more, which it spends in the queue.
        reset_seconds: that a reset may take, which may have to compile the program.
    """

    sessions: int = 8
    actions: int = 100
    candidates: int = 256
    undo: int = 100
    listed: int = 200
    name_characters: int = 10_000
    shown_characters: int = 20_000
    seconds: float = 30.0
    reset_seconds: float = 300.0


class Refused(AiocgError):
    """An agent asked for more than it may have, or for what there is not."""


class AgentSession:
    """An environment whose calls take turns. A call that fails, whatever the reason, leaves the state as it was.

    Args:
        env: the environment; closed with the session.
        limits: what the agent may have.
    """

    def __init__(self, env: Env, limits: Limits) -> None:
        env.timeout = limits.seconds
        env.observation_space = None
        self._env = env
        self._limits = limits
        self._lock = asyncio.Lock()
        self._states: list[Snapshot] = []  # after each step that can be undone, and before the first of them
        self._astray = False  # a call has failed: the environment may be in another state than the last of these

    @property
    def env(self) -> Env:
        """The environment, to look at between two calls."""
        return self._env

    async def reset(self, benchmark: Benchmark) -> dict[str, Any]:
        """Begin an episode, and return where it stands.

        Raises:
            DatasetError, ServiceError: when the program cannot be loaded; the episode before goes on.
        """
        async with self._lock, self._within(self._limits.reset_seconds):
            self._astray = True
            await self._env.reset(benchmark=benchmark, timeout=self._limits.reset_seconds)
            states, self._states = self._states, [await self._env.snapshot()]
            self._astray = False
            for one in states:
                one.close()
            return await self._told()

    async def step(self, actions: Sequence[str]) -> dict[str, Any]:
        """Apply actions, and return the reward and where the episode stands.

        Raises:
            AiocgError: when one is no action, fails, or takes too long.
        """
        self._check(actions)
        async with self._turn():
            await self._env.check_actions(actions)  # whose errors have the nearest names
            _, reward, info = await self._env.apply(actions, observation_spaces=[])
            self._states.append(await self._env.snapshot())
            if len(self._states) > self._limits.undo + 1:
                self._states.pop(0).close()
            return {"reward": _plain(reward), "had_no_effect": info["action_had_no_effect"], **await self._told()}

    async def undo(self, steps: int) -> dict[str, Any]:
        """Take back the last calls of step, and return where the episode stands.

        Raises:
            Refused: when there are not so many.
        """
        async with self._turn():
            most = len(self._states) - 1
            if not 1 <= steps <= most:
                raise Refused(f"{most} calls of step can be undone, and you asked for {steps}: reset begins anew")
            await self._env.restore(self._states[-1 - steps])
            for one in self._states[-steps:]:
                one.close()
            del self._states[-steps:]
            return await self._told()

    async def expand(self, candidates: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """Return what each list of actions would do, without doing it.

        Raises:
            AiocgError: when one of the texts is no action, or there are too many.
        """
        most = self._limits.candidates
        if not 1 <= len(candidates) <= most:
            raise Refused(f"expand takes 1 to {most} candidates, and you gave {len(candidates)}: use several calls")
        for actions in candidates:
            self._check(actions)
        async with self._turn():
            await self._env.check_actions([text for actions in candidates for text in actions])
            found = await self._env.expand_texts(candidates, observation_spaces=[])
        return [
            {"actions": list(actions), "error": sayable(str(one.error))[:LONGEST_ERROR]}
            if one.error is not None
            else {"actions": list(actions), "reward": _plain(one.reward), "had_no_effect": one.had_no_effect}
            for actions, one in zip(candidates, found, strict=True)
        ]

    async def observe(self, space: str, offset: int) -> dict[str, Any]:
        """Return an observation of the present state, or the part of it from an offset.

        Raises:
            AiocgError: when there is no such observation, or it cannot be computed or told.
        """
        if len(space) > self._limits.name_characters:
            raise Refused(f"an observation has at most {self._limits.name_characters} characters in its name")
        async with self._turn():
            return shown(await self._env.observe(space), self._limits.shown_characters, offset)

    async def close(self) -> None:
        """Free everything on the worker."""
        for one in self._states:
            one.close()
        await self._env.close()

    async def _told(self) -> dict[str, Any]:
        told = {
            "program": str(self._env.benchmark.uri),
            "actions_taken": len(self._env.action_texts),
            "episode_reward": _plain(self._env.episode_reward),
            "state": f"{self._env.state_hash:016x}",
        }
        if finished := self._env.spec.finished:
            told["finished"] = bool(await self._env.observe(finished))
        return told

    def _check(self, actions: Sequence[str]) -> None:
        if not 1 <= len(actions) <= self._limits.actions:
            raise Refused(
                f"a list has 1 to {self._limits.actions} actions, and you gave one of {len(actions)}: use several calls"
            )
        for text in actions:
            if len(text) > self._limits.name_characters:
                raise Refused(
                    f"an action has at most {self._limits.name_characters} characters, and {text[:30]!r}... has "
                    f"{len(text)}: give a pipeline as several actions"
                )

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Have the environment for oneself, in the state that the last good call has left."""
        async with self._lock, self._within(self._limits.seconds):
            if not self._states:
                raise ResetNeeded("this session has no episode: reset it first")
            if self._astray:
                await self._env.settled()
                await self._env.restore(self._states[-1])
            self._astray = True
            yield
            self._astray = False

    @contextlib.asynccontextmanager
    async def _within(self, seconds: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds + GRACE) as limit:
                yield
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise Refused(f"this took more than {seconds:g} s and was given up: ask for less at a time") from error


LAST = 2**53  # the greatest offset of a list


class AgentSessions:
    """The sessions of one agent with one kind of environment, on a runtime.

    The methods from `list_programs` to `close` are the agent's tools: their docstrings are what it reads, and their
    errors, which are `AiocgError`, `DatasetError` and `TransportError`, what it is told.

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

    async def reset(self, program: str, session: str = "") -> dict[str, Any]:
        """Begin an episode with a program, such as `programs-v0/qsort`; in a new session unless one is named."""
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

    async def step(self, session: str, actions: list[str]) -> dict[str, Any]:
        """Take actions one after the other; the reward is that of all of them together."""
        return await self.find(session).step(actions)

    async def undo(self, session: str, steps: int = 1) -> dict[str, Any]:
        """Take back the last calls of step."""
        return await self.find(session).undo(steps)

    async def expand(self, session: str, candidates: list[list[str]]) -> dict[str, Any]:
        """Say what each of several lists of actions would be rewarded with, without taking any."""
        return {"candidates": await self.find(session).expand(candidates)}

    async def observe(self, session: str, space: str, offset: int = 0) -> dict[str, Any]:
        """Observe the present program: for LLVM `Ir` is its text, `IrInstructionCount` its size.

        Long text is cut: `characters` says how much there is, and the next part begins at `next_offset`.
        """
        return await self.find(session).observe(space, offset)

    async def close(self, session: str) -> dict[str, Any]:
        """Close a session."""
        found = self.find(session)
        del self._sessions[session]
        await found.close()
        return {"closed": session}

    async def close_all(self) -> None:
        """Close all sessions."""
        for session in list(self._sessions):
            await self.close(session)
        if self._shown is not None:
            await self._shown.close()
            self._shown = None

    async def list_actions(self, contains: str = "", offset: int = 0) -> dict[str, Any]:
        """List actions whose name or description contains a text, from an offset on.

        Other texts of the compiler's language are actions, too: for LLVM whole pipelines such as
        `function(sroa,instcombine)`, passes with parameters, and `default<Oz>`.
        """
        space = (await self._example()).action_space
        return self._found("actions", contains, zip(space.names, space.descriptions, strict=True), offset)

    async def list_observations(self, contains: str = "", offset: int = 0) -> dict[str, Any]:
        """List what can be observed and whose name or description contains a text, from an offset on."""
        spaces = (await self._example()).observation_spaces.values()
        return self._found("observations", contains, ((one.name, one.description) for one in spaces), offset)

    async def list_programs(self, dataset: str = "", offset: int = 0) -> dict[str, Any]:
        """List the datasets of programs or, given the name of one, its programs, from an offset on."""
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

    def _found(self, what: str, contains: str, pairs: Iterable[tuple[str, str]], offset: int) -> dict[str, Any]:
        """Return a page of names and descriptions, of those that contain a text."""
        wanted = contains.lower()
        found = [(name, said) for name, said in pairs if wanted in name.lower() or wanted in said.lower()]
        return self._page(what, [{"name": name, "description": said} for name, said in found], offset)

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
