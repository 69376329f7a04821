"""Validates the program after every step."""

from collections.abc import Iterable, Sequence
from typing import Any, Unpack

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from aiocg.env.plan import StepSettings
from aiocg.env.step import StepResult
from aiocg.gym.wrappers._transformation import RewardWrapper
from aiocg.gym.wrappers._wrapper import CompilerEnvWrapper
from aiocg.validation import Options, ValidationError


def told(errors: Sequence[ValidationError]) -> dict[str, Any]:
    """Return what infos say of a program that is wrong."""
    details = "; ".join(map(str, errors))
    return {"error_type": errors[0].type, "error_details": details, "validation_errors": errors}


class ValidateBenchmarkAfterEveryStep(RewardWrapper, RecordConstructorArgs):
    """Validates the state after every step, and ends the episode when something is wrong.

    The step then has `terminated`, `info["error_type"]`, `info["error_details"]`, `info["validation_errors"]` (a tuple
    of `aiocg.validation.ValidationError`), and the penalty for each reward that was asked for. A step that had no
    effect is not validated. Validating replays the episode, builds the program and runs it, which takes a good part of
    a second for small programs; a benchmark that cannot be run is only replayed.

    Args:
        env: what to wrap.
        reward_penalty: the reward of a step after which the program is wrong.
        options: how to validate: the fields of `aiocg.validation.Options`. Without a `timeout` there, that of the step
            counts for the validation too, if it has one.
    """

    def __init__(self, env: "gymnasium.Env[Any, Any]", reward_penalty: float = -1e3, **options: Any) -> None:
        RecordConstructorArgs.__init__(self, reward_penalty=reward_penalty, **options)
        Options.of(**options)
        RewardWrapper.__init__(self, env)
        self.reward_penalty = reward_penalty
        self._options = {"minimize": False, **options}

    def convert_reward(self, reward: float) -> float:
        """Return the reward as it is."""
        return reward

    def multistep(self, actions: Iterable[Any], **settings: Unpack[StepSettings]) -> StepResult:
        """Apply several actions and validate the state that they lead to; see `CompilerEnv.multistep`."""
        observation, reward, terminated, truncated, info = CompilerEnvWrapper.multistep(self, actions, **settings)
        if not terminated and not info["action_had_no_effect"]:
            errors = self._errors(settings.get("timeout"))
            if errors:
                reward = [self.reward_penalty] * len(reward) if isinstance(reward, list) else self.reward_penalty
                info |= told(errors)
                terminated = True
                self.end()
        self._account(reward, settings.get("reward_spaces"))
        return observation, reward, terminated, truncated, info

    def _errors(self, timeout: float | None) -> tuple[Any, ...]:
        options = self._options if timeout is None else {"timeout": timeout, **self._options}
        result = self.validate(**options)
        return tuple(result.errors) if result.wrong else ()
