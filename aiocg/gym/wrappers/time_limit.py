"""A limit on the length of episodes that counts the actions of a multistep one by one."""

from collections.abc import Iterable
from typing import Any, Unpack

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from aiocg.gym.wrappers.wrapper import CompilerEnvWrapper, StepSettings
from aiocg.step import StepResult

__all__ = ["TimeLimit"]


class TimeLimit(CompilerEnvWrapper, RecordConstructorArgs):
    """Truncates episodes after some actions.

    Gymnasium's own `TimeLimit` works as well, but counts steps, and `multistep` goes past it. Here each action counts:
    of several, those beyond the limit are not taken. Forks, snapshots and `apply` go on from where the count is.
    `info["TimeLimit.truncated"]` is there once the limit is reached; it says that nothing else has ended the episode.

    Args:
        env: what to wrap.
        max_episode_steps: how many actions an episode may have; what `env.spec` says if None.
    """

    episode_state = (*CompilerEnvWrapper.episode_state, "_elapsed_steps")

    def __init__(self, env: "gymnasium.Env[Any, Any]", max_episode_steps: int | None = None) -> None:
        RecordConstructorArgs.__init__(self, max_episode_steps=max_episode_steps)
        CompilerEnvWrapper.__init__(self, env)
        if max_episode_steps is None and env.spec is not None:
            max_episode_steps = env.spec.max_episode_steps
        if not isinstance(max_episode_steps, int) or max_episode_steps < 1:
            raise ValueError(f"max_episode_steps is a number of actions, at least 1, not {max_episode_steps!r}")
        self._max_episode_steps = max_episode_steps
        self._elapsed_steps = 0
        self._begin()

    def begin(self) -> None:
        """Count the actions that the episode begins with."""
        self._elapsed_steps = len(self.action_texts)

    def multistep(self, actions: Iterable[Any], **settings: Unpack[StepSettings]) -> StepResult:
        """Apply several actions, as far as the limit allows; see `CompilerEnv.multistep`."""
        chosen = list(actions)[: max(self._max_episode_steps - self._elapsed_steps, 0)]
        observation, reward, terminated, truncated, info = super().multistep(chosen, **settings)
        self._elapsed_steps += len(chosen)
        if self._elapsed_steps >= self._max_episode_steps:
            info["TimeLimit.truncated"] = not terminated
            truncated = True
            self.end()
        return observation, reward, terminated, truncated, info
