"""Many environments of ours over several programs, stepped in three ways; see `drive_aiocg.py`.

Each way is made with the options of its workers, which are as many as there are processors, and a program for each
environment; `play` takes a list of actions for each and returns how many failed.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

SPACE = "PassesLegacy124"  # the original's actions, by its names
Plans = Sequence[Sequence[int]]


class Asynchronous:
    """Each environment is stepped by a task of its own."""

    def __init__(self, **settings: Any) -> None:
        import aiocg

        self.runtime = aiocg.Runtime(**settings)
        self.envs: list[Any] = []

    async def make(self, programs: Sequence[str], settings: dict[str, Any]) -> None:
        """Make the environments and reset them."""
        self.envs = [
            await self.runtime.make("llvm-v0", benchmark=one, action_space=SPACE, **settings) for one in programs
        ]
        await self.reset()

    async def reset(self) -> None:
        """Start over."""
        await asyncio.gather(*(env.reset() for env in self.envs))

    async def play(self, plans: Plans) -> int:
        """Step all of them."""
        return sum(await asyncio.gather(*map(self._one, self.envs, plans)))

    async def close(self) -> None:
        """Close all."""
        await self.runtime.close()

    @staticmethod
    async def _one(env: Any, plan: Sequence[int]) -> int:
        failures = 0
        for action in plan:
            if (await env.step(action))[2]:
                failures += 1
                await env.reset()
        return failures


class Blocking:
    """Environments of Gymnasium's. What blocks is done in a thread."""

    def __init__(self, **settings: Any) -> None:
        import aiocg.gym

        self.runtime = aiocg.gym.SyncRuntime(**settings)
        self.made: Any = None

    async def make(self, programs: Sequence[str], settings: dict[str, Any]) -> None:
        """Make the environments and reset them."""
        self.made = await asyncio.to_thread(self._make, programs, {**settings, "action_space": SPACE})
        await self.reset()

    async def reset(self) -> None:
        """Start over."""
        await asyncio.to_thread(self._reset)

    async def play(self, plans: Plans) -> int:
        """Step all of them."""
        return await asyncio.to_thread(self._play, list(zip(*plans, strict=True)))

    async def close(self) -> None:
        """Close all."""
        await asyncio.to_thread(self.runtime.close)

    def _make(self, programs: Sequence[str], settings: dict[str, Any]) -> Any:
        raise NotImplementedError

    def _reset(self) -> None:
        raise NotImplementedError

    def _play(self, turns: Plans) -> int:
        raise NotImplementedError


class Vector(Blocking):
    """All environments are stepped together, as Gymnasium's vectors are."""

    def _make(self, programs: Sequence[str], settings: dict[str, Any]) -> Any:
        import gymnasium

        given = {"benchmarks": list(programs), "runtime": self.runtime, **settings}
        return gymnasium.make_vec("llvm-v0", num_envs=len(programs), **given)

    def _reset(self) -> None:
        self.made.reset()

    def _play(self, turns: Plans) -> int:
        return sum(int(self.made.step(turn)[2].sum()) for turn in turns)


class Loop(Blocking):
    """Environments are stepped one after the other, by code that waits for each."""

    def _make(self, programs: Sequence[str], settings: dict[str, Any]) -> Any:
        import gymnasium

        return [gymnasium.make("llvm-v0", benchmark=one, runtime=self.runtime, **settings) for one in programs]

    def _reset(self) -> None:
        for env in self.made:
            env.reset()

    def _play(self, turns: Plans) -> int:
        failures = 0
        for turn in turns:
            for env, action in zip(self.made, turn, strict=True):
                if env.step(action)[2]:
                    failures += 1
                    env.reset()
        return failures


WAYS: dict[str, Callable[[dict[str, Any]], Asynchronous | Blocking]] = {
    "asynchronous": Asynchronous,
    "vector": Vector,
    "loop": Loop,
}
