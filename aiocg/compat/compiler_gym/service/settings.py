"""What an environment over a service is set to and where it stands; `client_service_compiler_env` has what it does."""

import contextlib
import logging
import warnings
from time import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from aiocg.compat.compiler_gym.compiler_env_state import CompilerEnvState
from aiocg.compat.compiler_gym.datasets import Benchmark, BenchmarkUri, Datasets
from aiocg.compat.compiler_gym.envs.compiler_env import CompilerEnv
from aiocg.compat.compiler_gym.errors import ServiceError
from aiocg.compat.compiler_gym.service.connection import CompilerGymServiceConnection
from aiocg.compat.compiler_gym.spaces import Reward
from aiocg.compat.compiler_gym.views import ObservationSpaceSpec, ObservationView, RewardView

__all__ = ["EnvironmentSettings"]

logger = logging.getLogger("compiler_gym")
UNBOUNDED = (-np.inf, np.inf)


class EnvironmentSettings(CompilerEnv):
    """The settings of an environment over a service, as properties.

    Attributes:
        service: the connection, None when closed.
        action_space_name: of the action space that the next reset chooses, None for the first.
    """

    service: CompilerGymServiceConnection | None
    action_space_name: str | None
    episode_start_time: float
    _session_id: int | None = None
    _next_benchmark: Benchmark | None = None
    _benchmark_in_use: Benchmark | None = None
    _observation_space_spec: ObservationSpaceSpec | None = None
    _reward_space_spec: Reward | None = None
    _episode_reward: float | None = None
    _reward_range: tuple[float, float] = UNBOUNDED
    _datasets: Datasets
    _observation: ObservationView
    _reward: RewardView
    _actions: list[Any]
    _sure_of: int | None = None  # so many of the actions were done, after an interrupt; the others may have been
    _action_space: Any
    _action_spaces: list[Any]
    _version: str
    _compiler_version: str

    @property
    def logger(self) -> logging.Logger:
        """The logger; deprecated."""
        warnings.warn(
            "The `ClientServiceCompilerEnv.logger` attribute is deprecated; use logging.getLogger('compiler_gym')",
            DeprecationWarning,
            stacklevel=2,
        )
        return logger

    @property
    def versions(self) -> Any:
        """The versions of the service and the compiler, as `service_version` and `compiler_version`."""
        return SimpleNamespace(service_version=self._version, compiler_version=self._compiler_version)

    @property
    def version(self) -> str:
        """The version of the service: the one of CompilerGym whose interface this is."""
        return self._version

    @property
    def compiler_version(self) -> str:
        """The version of the compiler."""
        return self._compiler_version

    # ----------------------------------------------------------------------------------- where it stands

    @property
    def in_episode(self) -> bool:
        """Is there an episode: was the environment reset, and not ended since?"""
        return self._session_id is not None

    @property
    def actions(self) -> list[Any]:
        """The actions since the reset."""
        if self._sure_of is not None:
            self._settle()
        return self._actions

    def _settle(self) -> None:
        """Find out what a step has done that was interrupted."""
        sure, self._sure_of = self._sure_of, None
        session = self.service.session(self._session_id) if self.service is not None else None
        count = None
        with contextlib.suppress(ServiceError, TimeoutError):  # then the next step will tell
            count = session.count() if session is not None else None
        del self._actions[sure if count is None else count :]

    @property
    def episode_reward(self) -> float | None:
        """Sum of the default rewards since the reset, None without a default reward."""
        return self._episode_reward

    @episode_reward.setter
    def episode_reward(self, episode_reward: float | None) -> None:
        self._episode_reward = episode_reward

    @property
    def episode_walltime(self) -> float:
        """Seconds since the reset."""
        return time() - self.episode_start_time

    @property
    def state(self) -> CompilerEnvState:
        """The present state as a value."""
        return CompilerEnvState(
            benchmark=str(self.benchmark) if self.benchmark else None,
            reward=self.episode_reward,
            walltime=self.episode_walltime,
            commandline=self.commandline(),
        )

    # ------------------------------------------------------------------------------ benchmarks, actions

    @property
    def datasets(self) -> Any:
        """Where benchmarks come from, by name."""
        return self._datasets

    @datasets.setter
    def datasets(self, datasets: Any) -> None:
        self._datasets = datasets if isinstance(datasets, Datasets) else Datasets(datasets)

    @property
    def benchmark(self) -> Any:
        """The program of the present episode; set it to a `Benchmark` or a URI to have another after a reset."""
        return self._benchmark_in_use

    @benchmark.setter
    def benchmark(self, benchmark: Any) -> None:
        if self.in_episode:
            warnings.warn("Changing the benchmark has no effect until reset() is called", UserWarning, stacklevel=2)
        self._choose_benchmark(benchmark)

    def _choose_benchmark(self, benchmark: Any) -> None:
        if isinstance(benchmark, str):
            self._next_benchmark = self.datasets.benchmark(benchmark)
        elif isinstance(benchmark, BenchmarkUri):
            self._next_benchmark = self.datasets.benchmark_from_parsed_uri(benchmark)
        elif isinstance(benchmark, Benchmark):
            self._next_benchmark = benchmark
        else:
            raise TypeError(f"Expected a Benchmark or str, received: '{type(benchmark).__name__}'")

    @property
    def action_space(self) -> Any:
        """The actions that `step` takes; set it to a name to have others after a reset."""
        return self._action_space

    @action_space.setter
    def action_space(self, action_space: str | None) -> None:
        index = self._action_space_index(action_space)
        self.action_space_name = action_space
        self._action_space = self.action_spaces[index]

    def _action_space_index(self, name: str | None) -> int:
        if not name:
            return 0
        names = [space.name for space in self.action_spaces]
        if name not in names:
            raise LookupError(f"Action space not found: {name} (there is {', '.join(names)})")
        return names.index(name)

    @property
    def action_spaces(self) -> list[Any]:
        """All action spaces."""
        return self._action_spaces

    @action_spaces.setter
    def action_spaces(self, action_spaces: list[Any]) -> None:
        self._action_spaces = action_spaces

    # ------------------------------------------------------------------------------ observations, rewards

    @property
    def observation_space_spec(self) -> ObservationSpaceSpec | None:
        """What is known of the default observation, None without one."""
        return self._observation_space_spec

    @observation_space_spec.setter
    def observation_space_spec(self, observation_space_spec: ObservationSpaceSpec | None) -> None:
        self._observation_space_spec = observation_space_spec

    @property
    def observation_space(self) -> Any:
        """The space of the default observation, None without one; set it to a name, a spec, or None."""
        spec = self.observation_space_spec
        return None if spec is None else spec.space

    @observation_space.setter
    def observation_space(self, observation_space: Any) -> None:
        name = observation_space.id if isinstance(observation_space, ObservationSpaceSpec) else observation_space
        if not name:
            self.observation_space_spec = None
            return
        if name not in self.observation.spaces:
            raise LookupError(f"Observation space not found: {name}")
        self.observation_space_spec = self.observation.spaces[name]

    @property
    def observation(self) -> Any:
        """A view of what can be observed."""
        return self._observation

    @observation.setter
    def observation(self, observation: Any) -> None:
        self._observation = observation

    @property
    def reward_space_spec(self) -> Any:
        """The default reward, None without one."""
        return self._reward_space_spec

    @reward_space_spec.setter
    def reward_space_spec(self, val: Any) -> None:
        self._reward_space_spec = val

    @property
    def reward_space(self) -> Any:
        """The default reward, None without one; set it to a name, a `Reward`, or None."""
        return self.reward_space_spec

    @reward_space.setter
    def reward_space(self, reward_space: Any) -> None:
        name = reward_space.name if isinstance(reward_space, Reward) else reward_space
        if not name:
            self.reward_space_spec = None
            self._reward_range = UNBOUNDED
            return
        if name not in self.reward.spaces:
            raise LookupError(f"Reward space not found: {name}")
        if self.reward_space_spec is not None and self.reward_space_spec.name == name:
            return
        self.reward_space_spec = self.reward.spaces[name]
        self._reward_range = (self.reward_space_spec.min, self.reward_space_spec.max)
        if self.in_episode:  # what was earned before was earned in another reward
            self.episode_reward = 0

    @property
    def reward_range(self) -> tuple[float, float]:
        """The least and the greatest default reward."""
        return self._reward_range

    @property
    def reward(self) -> Any:
        """A view of the rewards."""
        return self._reward

    @reward.setter
    def reward(self, reward: Any) -> None:
        self._reward = reward
