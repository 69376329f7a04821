"""Wrappers of vectors that end episodes, count calls, or validate."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from aiocg.errors import ResetNeeded
from aiocg.gym.vector.asynchronous import BatchResult
from aiocg.gym.wrappers.episodes import Counting
from aiocg.gym.wrappers.validation import told
from aiocg.gym.wrappers.vector.wrapper import CompilerVectorWrapper, Ids, begun
from aiocg.validation import Options, ValidationResult


class EndingWrapper(CompilerVectorWrapper):
    """A wrapper that may end episodes, with `end`; the next step resets these environments in place of stepping them.

    Args:
        env: a `CompilerVectorEnv`, bare or in wrappers of this package.

    Raises:
        TypeError: when the vector is of another kind.
        ValueError: when it resets environments in the step that ends the episode.
    """

    def __init__(self, env: "gymnasium.vector.VectorEnv[Any, Any, Any]") -> None:
        super().__init__(env)
        for method in ("send", "recv", "async_reset"):
            self._below(method)
        self._mode = env.metadata["autoreset_mode"]
        if self._mode is AutoresetMode.SAME_STEP:
            raise ValueError(f"{type(self).__name__} cannot have a step reset what it has just ended; use NextStep")
        self._over = np.zeros(self.num_envs, np.bool_)

    def end(self, env_ids: Ids) -> None:
        """End the episodes of environments for which they go on below.

        Of those that have ended there too, by an error or the limit, the vector itself takes care.
        """
        self._over[env_ids] = True

    def forget(self, env_ids: Ids) -> None:
        """Take note that environments are reset."""
        self._over[env_ids] = False

    def reset(self, *, seed: Any = None, options: "dict[str, Any] | None" = None) -> tuple[Any, dict[str, Any]]:
        chosen = self._chosen(options)
        observations, infos = super().reset(seed=seed, options=options)
        self.forget(chosen)
        return observations, infos

    def async_reset(self, *, seed: Any = None, options: "dict[str, Any] | None" = None) -> None:
        """Begin to reset environments; see `CompilerVectorEnv.async_reset`."""
        chosen = self._chosen(options)
        self._below("async_reset")(seed=seed, options=options)
        self.forget(chosen)

    def _chosen(self, options: "dict[str, Any] | None") -> Ids:
        mask = (options or {}).get("reset_mask")
        return self._all if mask is None else np.flatnonzero(mask)

    def step(self, actions: Any) -> BatchResult:
        if not self._over.any():
            return super().step(actions)
        self.send(actions)
        return _in_order(self.recv(self.num_envs))

    def send(self, actions: Any, env_ids: "Sequence[int] | NDArray[Any] | None" = None) -> None:
        ids = self._ids(env_ids)
        over = self._over[ids]
        if not over.any():
            super().send(actions, ids)
            return
        if self._mode is AutoresetMode.DISABLED:
            raise ResetNeeded(
                f"the episodes of the environments {ids[over].tolist()} have ended and autoreset is disabled: "
                'reset(options={"reset_mask": terminations | truncations})'
            )
        others = ids[~over]
        below = self.convert_actions(_left(actions, over), others) if len(others) else ()
        mask = np.zeros(self.num_envs, np.bool_)
        mask[ids[over]] = True
        self.async_reset(options={"reset_mask": mask})
        if len(others):
            self._below("send")(below, others)


def _left(actions: Any, over: NDArray[np.bool_]) -> Any:
    """Return the actions of environments whose episode goes on."""
    if isinstance(actions, np.ndarray):
        return actions[~over]
    listed: Iterable[Any] = actions
    return [action for action, ended in zip(listed, over, strict=True) if not ended]


def _in_order(results: BatchResult) -> BatchResult:
    """Return results of all environments in their order."""
    observations, rewards, terminations, truncations, infos = results
    order = np.argsort(infos.pop("env_id"))
    if isinstance(observations, tuple):
        observations = tuple(observations[place] for place in order)
    else:
        observations = _sorted(observations, order)
    return observations, rewards[order], terminations[order], truncations[order], _sorted(infos, order)


def _sorted(values: Any, order: NDArray[Any]) -> Any:
    if isinstance(values, dict):
        return {name: _sorted(value, order) for name, value in values.items()}
    return values[order]


class Counter(Counting, CompilerVectorWrapper, methods=("close", "reset", "step", "send", "recv")):
    """Counts calls, and counts from zero in a fork; see `aiocg.gym.wrappers.Counter`.

    Args:
        env: a vector.

    Attributes:
        counters: how often each was called: "close", "reset", "step", "send", "recv" and "fork".
    """

    def __init__(self, env: "gymnasium.vector.VectorEnv[Any, Any, Any]") -> None:
        super().__init__(env)
        self.counters = dict(self._none)


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
        self._options = {"minimize": False, **options}

    def convert_results(self, results: BatchResult, env_ids: Ids) -> BatchResult:
        """Return the results with the ends of episodes."""
        observations, rewards, terminations, truncations, infos = results
        no = np.zeros(len(env_ids), np.bool_)
        changed = infos.get("_action_had_no_effect", no) & ~infos.get("action_had_no_effect", no)
        places = np.flatnonzero(changed & ~terminations & ~begun(infos, len(env_ids)))
        wrong = {
            int(place): told(result.errors)
            for place, result in zip(places, self._validated(env_ids[places]), strict=True)
            if result.wrong
        }
        if wrong:
            ended = no
            ended[list(wrong)] = True
            self.end(env_ids[ended & ~truncations])
            rewards, terminations = np.where(ended, self.reward_penalty, rewards), terminations | ended
            for place, info in wrong.items():
                for name, value in info.items():
                    infos.setdefault(name, np.full(len(env_ids), None, object))[place] = value
                    infos.setdefault(f"_{name}", np.zeros(len(env_ids), np.bool_))[place] = True
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
