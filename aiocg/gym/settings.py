"""What a synchronous environment is set to: its program, spaces, rewards and timeout."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import gymnasium
import numpy as np

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.collection import Datasets
from aiocg.datasets.dataset import Dataset
from aiocg.env.preparation import BenchmarkLike
from aiocg.errors import UnknownName
from aiocg.gym.core import EnvCore
from aiocg.gym.recipe import collection
from aiocg.gym.views import derived
from aiocg.spaces import ActionSpace, NoObservation, ObservationSpace
from aiocg.spaces.actions import ActionSpaceLike, ActionSpaces
from aiocg.spaces.rewards import Reward

_NOTHING = NoObservation()


class EnvSettings(EnvCore):
    """The settings of a synchronous environment."""

    @property
    def benchmark(self) -> Benchmark:
        """The program of the current episode or, before the first, of the next; setting it takes effect at a reset."""
        env = self.asynchronous
        return self._next_benchmark if self._next_benchmark and not env.in_episode else env.benchmark

    @benchmark.setter
    def benchmark(self, target: BenchmarkLike) -> None:
        self._next_benchmark = self._run(lambda env: self._resolved(target))
        if self.asynchronous.in_episode:
            warnings.warn("another benchmark has no effect before the next reset()", UserWarning, stacklevel=2)

    @property
    def datasets(self) -> Datasets:
        """Where benchmarks are looked up by name; set it to what the constructor accepts."""
        return self._datasets

    @datasets.setter
    def datasets(self, datasets: Datasets | Iterable[Dataset]) -> None:
        self._datasets = collection(datasets, self.runtime.datasets)

    @property
    def action_space(self) -> ActionSpace:
        """The actions that `step` takes; set it to the name of one of `action_spaces`, or to a space."""
        return self.asynchronous.action_space

    @action_space.setter  # type: ignore[override]  # accepts more types than Gymnasium's attribute
    def action_space(self, choice: ActionSpaceLike) -> None:
        self._run(lambda env: env.choose_actions(choice))

    @property
    def action_spaces(self) -> ActionSpaces:
        """All action spaces of the compiler, by name."""
        return self.asynchronous.action_spaces

    @property
    def observation_space(self) -> "gymnasium.Space[Any]":
        """The space of default observations, `NoObservation` without one; set it to a name, or to None."""
        space = self.observation_space_spec
        return _NOTHING if space is None else space.space

    @observation_space.setter  # type: ignore[override]
    def observation_space(self, name: str | None) -> None:
        self._do(lambda env: setattr(env, "observation_space", name))

    @property
    def observation_space_spec(self) -> ObservationSpace | None:
        """The default observation space, None without one."""
        name = self.asynchronous.observation_space
        return None if name is None else self.asynchronous.observation_spaces[name]

    @property
    def observation_spaces(self) -> Mapping[str, ObservationSpace]:
        """All observation spaces, by name."""
        return self.asynchronous.observation_spaces

    @property
    def reward_space(self) -> str | None:
        """Name of the default reward; set it to a name, to a `Reward`, or to None."""
        return self.asynchronous.reward_space

    @reward_space.setter
    def reward_space(self, reward: str | Reward | None) -> None:
        if isinstance(reward, Reward):
            self.add_reward_space(reward)
            reward = reward.name
        self._do(lambda env: setattr(env, "reward_space", reward))

    @property
    def reward_space_spec(self) -> Reward | None:
        """The default reward, None without one."""
        name = self.reward_space
        return None if name is None else self.asynchronous.reward_spaces[name]

    @property
    def reward_range(self) -> tuple[float, float]:
        """The range of a step's reward; always infinite."""
        return (-np.inf, np.inf)

    @property
    def reward_spaces(self) -> Mapping[str, Reward]:
        """All rewards, by name."""
        return self.asynchronous.reward_spaces

    def add_observation_space(self, space: ObservationSpace) -> None:
        """Add an observation of your own, derived from others; see `aiocg.Env.add_observation_space`."""
        self._do(lambda env: env.add_observation_space(space))
        self._own["observation", space.name] = space

    def add_derived_space(
        self,
        id: str,
        base_id: str,
        translate: Callable[[Any], Any],
        space: "gymnasium.Space[Any] | None" = None,
        *,
        default: Any = None,
    ) -> None:
        """Add an observation that is a function of another one.

        Args:
            id: its name.
            base_id: name of the other observation.
            translate: computes its value from the other's.
            space: its Gymnasium space, the other's if None.
            default: its value after an error; `translate` of the other's default if None.

        Raises:
            UnknownName: if there is no observation `base_id`.
        """
        if base_id not in self.observation_spaces:
            raise UnknownName("observation space", base_id, self.observation_spaces)
        base = self.observation_spaces[base_id]
        self.add_observation_space(derived(base, id, translate, space, default))

    def add_reward_space(self, reward: Reward) -> None:
        """Add a reward of your own, replacing one of the same name; see `aiocg.Env.add_reward_space`."""
        self._do(lambda env: env.add_reward_space(reward))
        self._own["reward", reward.name] = reward

    @property
    def timeout(self) -> float:
        """Default timeout of a step, in seconds of execution."""
        return self.asynchronous.timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self.asynchronous.timeout = seconds

    @property
    def parameters(self) -> Mapping[str, str]:
        """The parameters that were sent and accepted, by key."""
        return self.asynchronous.parameters
