"""Running the programs of a vector after every step, to find out whether they still do what they did."""

import asyncio
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from aiocg.gym.vector.asynchronous import BatchResult
from aiocg.gym.wrappers.vector.ending import EndingWrapper
from aiocg.gym.wrappers.vector.wrapper import Ids, begun
from aiocg.validation import Options, ValidationResult

__all__ = ["ValidateBenchmarkAfterEveryStep"]


class ValidateBenchmarkAfterEveryStep(EndingWrapper):
    """Validates each environment that a step has changed, all at once, and ends the episodes where something is wrong.

    Such an environment has the penalty for its reward, `terminations`, and `infos["error_type"]`,
    `infos["error_details"]` and `infos["validation_errors"]`; see `aiocg.gym.wrappers`.

    Args:
        env: a `CompilerVectorEnv`, bare or in wrappers of this package.
        reward_penalty: the reward of a step after which the program is wrong.
        options: how to validate: the fields of `aiocg.validation.Options`.
    """

    def __init__(
        self, env: "gymnasium.vector.VectorEnv[Any, Any, Any]", reward_penalty: float = -1e3, **options: Any
    ) -> None:
        super().__init__(env)
        Options.of(**options)
        self.reward_penalty = reward_penalty
        self._options = options

    def convert_results(self, results: BatchResult, env_ids: Ids) -> BatchResult:
        """Return the results with the ends of episodes."""
        observations, rewards, terminations, truncations, infos = results
        no = np.zeros(len(env_ids), np.bool_)
        changed = infos.get("_action_had_no_effect", no) & ~infos.get("action_had_no_effect", no)
        places = np.flatnonzero(changed & ~terminations & ~begun(infos, len(env_ids)))
        wrong = {
            int(place): result.errors
            for place, result in zip(places, self._validated(env_ids[places]), strict=True)
            if not result.okay()
        }
        if wrong:
            ended = no
            ended[list(wrong)] = True
            self.end(env_ids[ended & ~truncations])
            rewards, terminations = np.where(ended, self.reward_penalty, rewards), terminations | ended
            for name, values in (
                ("error_type", {place: errors[0].type for place, errors in wrong.items()}),
                ("error_details", {place: "; ".join(map(str, errors)) for place, errors in wrong.items()}),
                ("validation_errors", wrong),
            ):
                known = infos.setdefault(name, np.full(len(env_ids), None, object))
                mask = infos.setdefault(f"_{name}", np.zeros(len(env_ids), np.bool_))
                for place, value in values.items():
                    known[place], mask[place] = value, True
        return observations, rewards, terminations, truncations, infos

    def _validated(self, env_ids: Ids) -> Sequence[ValidationResult]:
        """Validate environments at once."""
        if not len(env_ids):
            return ()
        vector = self.unwrapped
        envs = vector.asynchronous.envs  # type: ignore[attr-defined]  # it is a CompilerVectorEnv

        async def validate() -> list[ValidationResult]:
            results: list[ValidationResult] = await asyncio.gather(
                *(envs[index].validate(**self._options) for index in env_ids.tolist())
            )
            return results

        results: list[ValidationResult] = vector.runtime.run(validate)  # type: ignore[attr-defined]
        return results
