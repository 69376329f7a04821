"""The settings and state of an environment over a service; `service.env` has the operations."""

import contextlib
import logging
import warnings
from time import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from aiocg.compat._errors import ServiceError
from aiocg.compat._states import CompilerEnvState
from aiocg.compat.datasets._benchmark import Benchmark, BenchmarkUri
from aiocg.compat.datasets._dataset import Datasets
from aiocg.compat.envs._base import CompilerEnv
from aiocg.compat.service._connection import CompilerGymServiceConnection, Session
from aiocg.compat.service._views import ObservationSpaceSpec, ObservationView, RewardView
from aiocg.compat.spaces._actions import Reward

UNBOUNDED = (-np.inf, np.inf)


class EnvironmentSettings(CompilerEnv):
    """The settings of an environment over a service.

    Attributes:
        service: the connection, None if closed.
        action_space_name: the action space that the next reset will select, None for the first.
        observation, reward: views of all observations and rewards.
        observation_space_spec, reward_space_spec: the defaults, None if there is none.
        episode_reward: sum of the rewards since the reset, None without a default reward.
        version: the version of CompilerGym that is emulated.
    """

    service: CompilerGymServiceConnection | None
    action_space_name: str | None
    action_spaces: list[Any]
    observation: ObservationView
    reward: RewardView
    observation_space_spec: ObservationSpaceSpec | None = None
    reward_space_spec: Reward | None = None
    reward_range: tuple[float, float] = UNBOUNDED
    episode_reward: float | None = None
    episode_start_time: float
    version: str
    compiler_version: str
    _session: Session | None = None
    _next_benchmark: Benchmark | None = None
    _benchmark_in_use: Benchmark | None = None
    _datasets: Datasets
    _actions: list[Any]
    _sure_of: int | None = None  # after an interrupt: this many actions were applied, the others perhaps
    _action_space: Any

    @property
    def logger(self) -> logging.Logger:
        """CompilerGym's logger; deprecated."""
        text = "The `logger` attribute is deprecated; use logging.getLogger('compiler_gym')"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return logging.getLogger("compiler_gym")

    @property
    def versions(self) -> Any:
        """The versions of the service and the compiler, as `service_version` and `compiler_version`."""
        return SimpleNamespace(service_version=self.version, compiler_version=self.compiler_version)

    @property
    def in_episode(self) -> bool:
        """Whether an episode is running."""
        return self._session is not None

    @property
    def _live_session(self) -> Session | None:
        """The session, None if it has ended or the service was restarted since."""
        there = self.service is not None and self._session in self.service.sessions
        return self._session if there else None

    @property
    def actions(self) -> list[Any]:
        """The actions since the reset."""
        if self._sure_of is not None:  # a step was interrupted: find out how many actions it applied
            sure, self._sure_of = self._sure_of, None
            session, count = self._live_session, None
            with contextlib.suppress(ServiceError, TimeoutError):  # then the next step will report it
                count = session.count() if session is not None else None
            del self._actions[sure if count is None else count :]
        return self._actions

    @property
    def episode_walltime(self) -> float:
        """Seconds since the reset."""
        return time() - self.episode_start_time

    @property
    def state(self) -> CompilerEnvState:
        """The current state as a value."""
        return CompilerEnvState(
            benchmark=self.benchmark and str(self.benchmark),
            reward=self.episode_reward,
            walltime=self.episode_walltime,
            commandline=self.commandline(),
        )

    @property
    def datasets(self) -> Any:
        """The datasets by name."""
        return self._datasets

    @datasets.setter
    def datasets(self, datasets: Any) -> None:
        self._datasets = datasets if isinstance(datasets, Datasets) else Datasets(datasets)

    @property
    def benchmark(self) -> Any:
        """The program of the current episode; a `Benchmark` or URI set here takes effect at the next reset."""
        return self._benchmark_in_use

    @benchmark.setter
    def benchmark(self, benchmark: Any) -> None:
        if self.in_episode:
            warnings.warn("Changing the benchmark has no effect until reset() is called", UserWarning, stacklevel=2)
        self._choose_benchmark(benchmark)

    def _choose_benchmark(self, benchmark: Any) -> None:
        if isinstance(benchmark, (str, BenchmarkUri)):
            benchmark = self.datasets.benchmark(str(benchmark))
        elif not isinstance(benchmark, Benchmark):
            raise TypeError(f"Expected a Benchmark or str, received: '{type(benchmark).__name__}'")
        self._next_benchmark = benchmark

    @property
    def action_space(self) -> Any:
        """The actions that `step` takes; a name set here takes effect at the next reset."""
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
    def observation_space(self) -> Any:
        """The space of the default observation, or None; set it to a name, a spec or None."""
        return None if self.observation_space_spec is None else self.observation_space_spec.space

    @observation_space.setter
    def observation_space(self, observation_space: Any) -> None:
        name = observation_space.id if isinstance(observation_space, ObservationSpaceSpec) else observation_space
        if name and name not in self.observation.spaces:
            raise LookupError(f"Observation space not found: {name}")
        self.observation_space_spec = self.observation.spaces[name] if name else None

    @property
    def reward_space(self) -> Any:
        """The default reward, or None; set it to a name, a `Reward` or None."""
        return self.reward_space_spec

    @reward_space.setter
    def reward_space(self, reward_space: Any) -> None:
        name = reward_space.name if isinstance(reward_space, Reward) else reward_space
        if not name:
            self.reward_space_spec, self.reward_range = None, UNBOUNDED
            return
        if name not in self.reward.spaces:
            raise LookupError(f"Reward space not found: {name}")
        if self.reward_space_spec is not None and self.reward_space_spec.name == name:
            return
        self.reward_space_spec = self.reward.spaces[name]
        self.reward_range = self.reward_space_spec.range
        if self.in_episode:  # earlier rewards were in another space
            self.episode_reward = 0
