"""A session of an agent: an environment, and the states that it can go back to."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from aiocg.agents.limits import GRACE, LONGEST_ERROR, Limits, Refused
from aiocg.agents.values import plain, sayable, shown
from aiocg.datasets.benchmark import Benchmark
from aiocg.env.env import Env
from aiocg.env.snapshot import Snapshot
from aiocg.errors import ResetNeeded

__all__ = ["AgentSession"]


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
            return self._told()

    async def step(self, actions: Sequence[str]) -> dict[str, Any]:
        """Apply actions, and return the reward and where the episode stands.

        Raises:
            AiocgError: when one is no action, fails, or takes too long.
        """
        self._check(actions)
        async with self._turn():
            await self._env.check_actions(actions)  # whose errors have the nearest names
            _, reward, terminated, _, info = await self._env.step_texts(actions, observation_spaces=[])
            if terminated:
                raise info["error"]
            self._states.append(await self._env.snapshot())
            if len(self._states) > self._limits.undo + 1:
                self._states.pop(0).close()
            return {"reward": plain(reward), "had_no_effect": info["action_had_no_effect"], **self._told()}

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
            return self._told()

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
            else {"actions": list(actions), "reward": plain(one.reward), "had_no_effect": one.had_no_effect}
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

    def _told(self) -> dict[str, Any]:
        return {
            "program": str(self._env.benchmark.uri),
            "actions_taken": len(self._env.action_texts),
            "episode_reward": plain(self._env.episode_reward),
            "state": f"{self._env.state_hash:016x}",
        }

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
