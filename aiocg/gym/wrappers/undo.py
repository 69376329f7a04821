"""Going back, one step at a time."""

from collections.abc import Iterable
from typing import Any, Self, Unpack

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from aiocg.gym.wrappers.snapshot import WrapperSnapshot
from aiocg.gym.wrappers.wrapper import CompilerEnvWrapper, StepSettings
from aiocg.step import StepResult

__all__ = ["ForkOnStep"]


class ForkOnStep(CompilerEnvWrapper, RecordConstructorArgs):
    """Remembers the state before every step, so that `undo` can go back to it::

        env = ForkOnStep(gymnasium.make("llvm-v0"))
        env.reset()
        env.step("mem2reg")
        env.undo()
        env.actions  # []

    What is remembered is a snapshot, which costs the same whatever the program; several actions in one call are undone
    together. A fork can go back as far as the original; what is pickled cannot go back before that.

    Args:
        env: what to wrap.

    Attributes:
        stack: the states before the steps of the episode, first to last.
    """

    episode_state = (*CompilerEnvWrapper.episode_state, "stack")

    def __init__(self, env: "gymnasium.Env[Any, Any]") -> None:
        RecordConstructorArgs.__init__(self)
        CompilerEnvWrapper.__init__(self, env)
        self.stack: list[WrapperSnapshot] = []

    def begin(self) -> None:
        """Forget the states of the last episode, which frees them unless a fork or a snapshot has them too."""
        self.stack = []

    def multistep(self, actions: Iterable[Any], **settings: Unpack[StepSettings]) -> StepResult:
        """Apply several actions; see `CompilerEnv.multistep`."""
        before = super().snapshot()
        result = super().multistep(actions, **settings)
        self.stack.append(before)
        return result

    def undo(self) -> Self:
        """Go back to the state before the last step, also after one that has ended the episode; return `self`.

        At the start of the episode there is nothing to undo, and nothing happens.
        """
        if self.stack:
            *stack, before = self.stack
            super().restore(before)
            self.stack = stack
        return self

    def close(self) -> None:
        """Close the environment and forget all states."""
        self.stack = []
        super().close()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        child = super().__deepcopy__(memo)
        child.stack = list(self.stack)  # in common: restoring a snapshot changes nothing about it
        return child

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "stack": []}
