"""Ending the episode of an environment of a vector that does not know of it, and resetting it afterwards."""

from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from aiocg.errors import ResetNeeded
from aiocg.gym.vector.asynchronous import BatchResult
from aiocg.gym.wrappers.vector.wrapper import CompilerVectorWrapper, Ids

__all__ = ["EndingWrapper"]


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

    def reset(
        self, *, seed: Any = None, options: "dict[str, Any] | None" = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode in all environments, or in some; see `CompilerVectorEnv.reset`."""
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
        """Step all environments; see `CompilerVectorEnv.step`."""
        if not self._over.any():
            return super().step(actions)
        self.send(actions)
        return _in_order(self.recv(self.num_envs))

    def send(self, actions: Any, env_ids: "Sequence[int] | NDArray[Any] | None" = None) -> None:
        """Begin to step environments; see `CompilerVectorEnv.send`."""
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
