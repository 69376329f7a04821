"""Whether programs assemble, for searches that generate no code: passes may duplicate a label of inline assembly."""

from collections.abc import Sequence

import anyio

from aiocg.env.env import Env
from aiocg.errors import ServiceError

__all__ = ["Assembler"]

TEXT, CODE = "Ir", "ObjectFile"
MOST = 200  # candidates that do not assemble; of what is left then, nothing is believed
COUNT = "IrInstructionCount"  # the cost that needs no code


class Assembler:
    """Generates code for candidates of a program with inline assembly, if their cost needs none.

    Args:
        env: the environment that is searched; only siblings of it are used.
    """

    def __init__(self, env: Env) -> None:
        self._searched = env
        reward = env.reward_spaces.get(env.reward_space or "")
        self._needed = getattr(reward, "cost", "") == COUNT
        self._failed = 0
        self._env: Env | None = None  # at the start of an episode, if candidates are to be assembled
        self._begun = False
        self._turn = anyio.Lock()

    async def assembles(self, actions: Sequence[str]) -> bool:
        """Return whether code can be generated for what actions make of the program; True where nobody asks."""
        async with self._turn:
            if not self._begun:
                await self._begin()
            if self._env is None or not actions:
                return True
            return self._failed < MOST and await self._try(self._env, tuple(actions))

    async def close(self) -> None:
        """Close the environment in which code is generated."""
        env, self._env = self._env, None
        if env is not None:
            with anyio.CancelScope(shield=True):
                await env.close()

    async def _begin(self) -> None:
        """Find out whether there is anything to assemble."""
        self._begun = True
        if not self._needed:
            return
        self._env = env = await self._searched.sibling()
        env.observation_space = env.reward_space = None
        try:
            await env.reset()
            if " asm " in await env.observe(TEXT):
                await env.observe(CODE)
                return
        except ServiceError:  # there is no code for the program as it is
            pass
        await self.close()

    async def _try(self, env: Env, actions: tuple[str, ...]) -> bool:
        try:
            (candidate,) = await env.expand_texts([actions], observation_spaces=[CODE])
            works = candidate.error is None
        except ServiceError:
            await env.reset()
            works = False
        self._failed += not works
        return works
