"""The base of wrappers for vectors: one place where actions go in, and one where results come out."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

import gymnasium
import numpy as np
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from aiocg.gym.vector.asynchronous import BatchResult

Ids = NDArray[np.int64]


def begun(infos: Mapping[str, Any], count: int) -> NDArray[np.bool_]:
    """Return which of the results of a vector come from a reset: those whose infos name a benchmark."""
    mask: NDArray[np.bool_] = np.asarray(infos.get("_benchmark", np.zeros(count, np.bool_)))
    return mask


class CompilerVectorWrapper(gymnasium.vector.VectorWrapper):  # no generic before Gymnasium 1.3
    """A wrapper of a vector that changes nothing: override `convert_actions` and `convert_results`.

    It has everything that the vector has. `send` and `recv` of a `CompilerVectorEnv` go the same way as `step`. Vectors
    of Gymnasium over our environments can be wrapped as well, and forked if they can be copied.

    Args:
        env: a vector, or wrappers around one.
    """

    def __init__(self, env: "gymnasium.vector.VectorEnv[Any, Any, Any]") -> None:
        super().__init__(env)
        self._all: Ids = np.arange(env.num_envs)

    def __del__(self) -> None:
        """Close nothing: until 1.3, Gymnasium's base closes the vector when a wrapper of it goes."""

    def convert_actions(self, actions: Any, env_ids: Ids) -> Any:
        """Return the actions for the vector below.

        Args:
            actions: one for each, as an array or a list.
            env_ids: indices of the environments that they are for.
        """
        return actions

    def convert_results(self, results: BatchResult, env_ids: Ids) -> BatchResult:
        """Return the results of the wrapper, made of those of the vector below.

        Args:
            results: of steps, of resets, or of both: see `begun`.
            env_ids: indices of the environments that they are of.
        """
        return results

    def reset(self, *, seed: Any = None, options: "dict[str, Any] | None" = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode in all environments, or in some; see `CompilerVectorEnv.reset`."""
        observations, infos = self.env.reset(seed=seed, options=options)
        nothing, no = np.zeros(self.num_envs), np.zeros(self.num_envs, np.bool_)
        observations, *_, infos = self.convert_results((observations, nothing, no, no.copy(), infos), self._all)
        return observations, infos

    def step(self, actions: Any) -> BatchResult:
        """Step all environments; see `CompilerVectorEnv.step`."""
        return self.convert_results(self.env.step(self.convert_actions(actions, self._all)), self._all)

    def send(self, actions: Any, env_ids: "Sequence[int] | NDArray[Any] | None" = None) -> None:
        """Begin to step environments; see `CompilerVectorEnv.send`."""
        ids = self._ids(env_ids)
        self._below("send")(self.convert_actions(actions, ids), ids)

    def recv(self, min_ready: int = 1, **settings: Any) -> BatchResult:
        """Return the results of environments that are ready; see `CompilerVectorEnv.recv`."""
        results: BatchResult = self._below("recv")(min_ready, **settings)
        return self.convert_results(results, results[4]["env_id"])

    def _below(self, name: str) -> Any:
        """Return a method of the vector below."""
        if not hasattr(self.env, name):
            raise TypeError(f"{type(self.env).__name__}, which is below {type(self).__name__}, has no {name}()")
        return getattr(self.env, name)

    def _ids(self, env_ids: Any) -> Ids:
        return self._all if env_ids is None else np.asarray(env_ids)

    def _act(self, space: "gymnasium.Space[Any]") -> None:
        """Give each environment another action space."""
        self.single_action_space = space
        self.action_space = batch_space(space, self.num_envs)

    def _observe(self, space: "gymnasium.Space[Any]") -> None:
        """Give each environment another observation space."""
        self.single_observation_space = space
        self.observation_space = batch_space(space, self.num_envs)

    def fork(self) -> Self:
        """Return an independent vector at the same states, in copies of the same wrappers."""
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        memo[id(self)] = child = object.__new__(type(self))
        child.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return child

    def __copy__(self) -> Self:
        raise TypeError("two vectors cannot have the same states: use fork(), or copy.deepcopy()")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":  # of Gymnasium's, or while a copy is being made
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.env, name)


def convert_final(infos: dict[str, Any], convert: Any) -> None:
    """Convert the last observations of episodes that have ended in the same step, where there are any.

    Args:
        infos: of the results; they are changed.
        convert: called with an observation and its place in the batch.
    """
    if "final_obs" in infos:
        finals = np.full(len(infos["final_obs"]), None, object)
        for place in np.flatnonzero(infos["_final_obs"]):
            finals[place] = convert(infos["final_obs"][place], place)
        infos["final_obs"] = finals
