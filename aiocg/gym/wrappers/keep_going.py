"""Going on after errors."""

from collections.abc import Iterable
from typing import Any, Unpack

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from aiocg.errors import ResetNeeded, ServiceError
from aiocg.gym.wrappers.wrapper import CompilerEnvWrapper, StepSettings
from aiocg.step import StepResult

__all__ = ["JustKeepGoing"]


class JustKeepGoing(CompilerEnvWrapper, RecordConstructorArgs):
    """Undoes actions that fail, and goes on with the episode.

    After an error of the compiler or the program, a deadline overrun, or a validation that failed, the state is what it
    was before the call, the reward is 0, and the step has `info["error_type"]` and `info["error_details"]` but not
    `terminated`. Beyond `max_errors` the episode ends, as it does without this wrapper. Mistakes of the caller raise as
    ever.

    Args:
        env: what to wrap.
        max_errors: how many errors an episode may have.

    Attributes:
        errors: how many this episode has had.
    """

    episode_state = (*CompilerEnvWrapper.episode_state, "errors")

    def __init__(self, env: "gymnasium.Env[Any, Any]", max_errors: int = 10) -> None:
        RecordConstructorArgs.__init__(self, max_errors=max_errors)
        CompilerEnvWrapper.__init__(self, env)
        self.max_errors = max_errors
        self.errors = 0

    def begin(self) -> None:
        """Forget the errors of the last episode."""
        self.errors = 0

    def multistep(self, actions: Iterable[Any], **settings: Unpack[StepSettings]) -> StepResult:
        """Apply several actions, or none of them after an error; see `CompilerEnv.multistep`."""
        before = super().snapshot()
        result = super().multistep(actions, **settings)
        failed = result[4]
        if not result[2] or "error_type" not in failed or self.errors >= self.max_errors:
            return result
        errors = self.errors + 1
        try:
            super().restore(before)
            observation, reward, terminated, truncated, info = super().multistep([], **settings)
        except (ServiceError, ResetNeeded):  # the state cannot be had any more, so it is the end after all
            self.end()
            return result
        self.errors = errors
        info |= {name: value for name, value in failed.items() if "error" in name}
        return observation, [0.0] * len(reward) if isinstance(reward, list) else 0.0, terminated, truncated, info
