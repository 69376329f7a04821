"""CompilerGym's environment over a service."""

import contextlib
import copy
import logging
import numbers
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from time import time
from types import SimpleNamespace
from typing import Any, Self

import numpy as np

from aiocg.compat._errors import BenchmarkInitError, EnvironmentNotSupported, ServiceError, SessionNotFound
from aiocg.compat._names import __version__
from aiocg.compat._states import CompilerEnvState, ValidationResult, validate
from aiocg.compat.classic._spaces import apart
from aiocg.compat.datasets._benchmark import Benchmark, BenchmarkUri
from aiocg.compat.datasets._dataset import Dataset, Datasets
from aiocg.compat.envs._base import UNCHANGED, CompilerEnv, StepType, asked_for
from aiocg.compat.service._connection import CompilerGymServiceConnection, ConnectionOpts, Session
from aiocg.compat.service._converters import make_message_default_converter
from aiocg.compat.service._views import ObservationSpaceSpec, ObservationView, RewardView
from aiocg.compat.spaces._actions import DefaultRewardFromObservation, Reward

logger = logging.getLogger("compiler_gym")

_dropped: "deque[ClientServiceCompilerEnv]" = deque()
"""Environments that were collected in other threads than the main one: the event loop may wait for such a thread."""


class ServiceMessageConverters:
    """Functions that convert the action spaces and actions of a service."""

    def __init__(
        self,
        action_space_converter: Callable[[Any], Any] | None = None,
        action_converter: Callable[[Any], Any] | None = None,
    ) -> None:
        self.action_space_converter = action_space_converter or make_message_default_converter()
        self.action_converter = action_converter or (lambda action: action)


UNBOUNDED = (-np.inf, np.inf)


class ClientServiceCompilerEnv(CompilerEnv):
    """An environment over a service.

    Attributes:
        service: the connection, None if closed.
        action_space_name: the action space that the next reset will select, None for the first.
        observation, reward: views of all observations and rewards.
        observation_space_spec, reward_space_spec: the defaults, None if there is none.
        episode_reward: sum of the rewards since the reset, None without a default reward.
        version: the version of CompilerGym that is emulated.
    """

    observation_space_spec: ObservationSpaceSpec | None = None
    reward_space_spec: Reward | None = None
    reward_range: tuple[float, float] = UNBOUNDED
    episode_reward: float | None = None
    _session: Session | None = None
    _next_benchmark: Benchmark | None = None
    _benchmark_in_use: Benchmark | None = None
    _sure_of: int | None = None  # after an interrupt: this many actions were applied, the others perhaps

    def __init__(
        self,
        service: str | Path | None = None,
        rewards: list[Reward] | None = None,
        datasets: Iterable[Dataset] | None = None,
        benchmark: Any = None,
        observation_space: Any = None,
        reward_space: Any = None,
        action_space: str | None = None,
        derived_observation_spaces: list[dict[str, Any]] | None = None,
        service_message_converters: ServiceMessageConverters | None = None,
        connection_settings: ConnectionOpts | None = None,
        service_connection: CompilerGymServiceConnection | None = None,
    ) -> None:
        while _dropped:
            with contextlib.suppress(Exception):
                _dropped.popleft().close()
        self.metadata = {"render.modes": ["human", "ansi"]}
        self.service: CompilerGymServiceConnection | None = None
        if service is None and service_connection is not None:
            service = service_connection.endpoint
        self._service_endpoint = service
        self._connection_settings = connection_settings or ConnectionOpts()
        self._params_to_send_on_reset: list[tuple[str, str]] = []
        self.service_message_converters = service_message_converters or ServiceMessageConverters()
        self._datasets = Datasets(datasets or [])
        self._actions: list[Any] = []
        self.episode_start_time = time()
        self.service = service_connection or self._connect()
        self.version = __version__
        self.compiler_version = self.service.backend.compiler_version
        convert = self.service_message_converters.action_space_converter
        self.action_spaces = [convert(copy.deepcopy(space)) for space in self.service.action_spaces]
        self.observation = ObservationView(self.raw_step, self.service.observation_spaces)
        known = self.observation.spaces.items()
        counted = [name for name, spec in known if isinstance(spec.default_value, numbers.Number)]
        self.reward = RewardView(rewards or map(DefaultRewardFromObservation, counted), self.observation)
        for derived in derived_observation_spaces or ():
            self.observation.add_derived_space(**derived)
        chosen = benchmark or next(iter(self.datasets.benchmarks()), None)
        if chosen is not None:
            self._choose_benchmark(chosen)
            self._benchmark_in_use = self._next_benchmark
        self.action_space = action_space
        self.observation_space = observation_space
        self.reward_space = reward_space

    @staticmethod
    def _with(args: Any, kwargs: dict[str, Any], service: Path, rewards: list[Any], datasets: list[Any]) -> Any:
        """Return the arguments for the base class, with a compiler's own rewards and datasets before the user's."""
        given = {} if args or "service_connection" in kwargs else {"service": service}
        more = {"rewards": rewards, "datasets": datasets}
        return {**given, **kwargs, **{name: [*own, *(kwargs.get(name) or ())] for name, own in more.items()}}

    def _connect(self) -> CompilerGymServiceConnection:
        assert self._service_endpoint is not None, "make() names the service"
        return CompilerGymServiceConnection(self._service_endpoint, self._connection_settings)

    def _init_kwargs(self) -> dict[str, Any]:
        """Return the constructor arguments for a fork."""
        return {
            "action_space": self.action_space_name,
            "benchmark": self.benchmark,
            "connection_settings": self._connection_settings,
            "service": self._service_endpoint,
        }

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

    @property
    def native(self) -> Any:
        """aiocg's environment behind this one, if the service is aiocg's; available during an episode."""
        if self._live_session is None:
            raise SessionNotFound("Must call reset() first")
        return self._live_session.env  # type: ignore[attr-defined]

    def reset(
        self,
        benchmark: Any = None,
        action_space: str | None = None,
        reward_space: Any = UNCHANGED,
        observation_space: Any = UNCHANGED,
        timeout: float = 300,
    ) -> Any:
        if observation_space is not UNCHANGED:
            self.observation_space = observation_space
        if reward_space is not UNCHANGED:
            self.reward_space = reward_space
        if action_space:
            self.action_space = action_space
        if benchmark:
            self._choose_benchmark(benchmark)
        if self._next_benchmark is None:
            raise TypeError(
                "No benchmark set. Set a benchmark using `env.reset(benchmark=benchmark)`. Use `env.datasets` to "
                "access the available benchmarks."
            )
        self._end_session()
        self._benchmark_in_use = self._next_benchmark
        if self.service is None or self.service.closed:  # a closed environment connects again
            self.service = self._connect()
        index = self._action_space_index(self.action_space_name)
        self._action_space = self.action_spaces[index]
        self._session = self._start(index, timeout)
        self.episode_start_time = time()
        self._actions, self._sure_of = [], None
        if self._params_to_send_on_reset:
            self.send_params(*self._params_to_send_on_reset)
        self.reward.reset(benchmark=self.benchmark, observation_view=self.observation)
        self.episode_reward = 0.0 if self.reward_space else None
        if self.observation_space_spec is None:
            return None
        return self.observation[self.observation_space_spec.id]

    def _start(self, action_space: int, timeout: float) -> Session:
        assert self.service is not None
        attempts = max(1, self._connection_settings.init_max_attempts)
        for attempt in range(1, attempts + 1):
            try:
                return self.service.start_session(self._benchmark_in_use, action_space, timeout)
            except EnvironmentNotSupported:
                raise
            except (ServiceError, TimeoutError) as error:
                if isinstance(error, BenchmarkInitError) or attempt == attempts:
                    raise OSError(
                        f"Failed to reset environment using benchmark {self.benchmark} after {attempt} attempts.\n"
                        f"Last error ({type(error).__name__}): {error}"
                    ) from error
                logger.warning("%s during reset(): %s", type(error).__name__, error)
        raise AssertionError("unreachable")

    def _end_session(self) -> int:
        """End the session, if any; return the number of the service's other sessions."""
        session, self._session = self._session, None
        if self.service is None:
            return 0
        return len(self.service.sessions) if session is None else self.service.end_session(session)

    def raw_step(
        self,
        actions: Iterable[Any],
        observation_spaces: list[ObservationSpaceSpec],
        reward_spaces: list[Reward],
        timeout: float = 300,
    ) -> StepType:
        """Apply actions; `step` and the views are based on this. Call those instead."""
        if self._session is None:
            raise SessionNotFound("Must call reset() before step()")
        actions = list(actions)
        known = self.observation.spaces
        needed = [known[name] for reward in reward_spaces for name in reward.observation_spaces]
        specs = [*observation_spaces, *needed]
        indices = list(dict.fromkeys(spec.index for spec in specs))
        converted = [self.service_message_converters.action_converter(action) for action in actions]
        before = len(self.actions)
        self._actions += actions
        try:
            if self._live_session is None:
                raise SessionNotFound("Session not found: the service was closed")
            reply = self._live_session.step(converted, indices, timeout)
        except (ServiceError, TimeoutError) as error:
            return self._failed(error, observation_spaces, reward_spaces)
        except Exception:  # no action was applied
            del self._actions[before:]
            raise
        except BaseException:
            self._sure_of = before
            raise
        if reply.new_action_space is not None:
            self._action_space = self.service_message_converters.action_space_converter(reply.new_action_space)
        raw = dict(zip(indices, reply.observations, strict=True))
        values = {spec.id: spec.translate(raw[spec.index]) for spec in specs}
        rewards = [
            float(reward.update(actions, [values[name] for name in reward.observation_spaces], self.observation))
            for reward in reward_spaces
        ]
        no_effect, new_space = reply.action_had_no_effect, reply.new_action_space is not None
        info = {"action_had_no_effect": no_effect, "new_action_space": new_space}
        return [values[spec.id] for spec in observation_spaces], rewards, reply.end_of_session, info

    def _failed(
        self, error: Exception, observation_spaces: list[ObservationSpaceSpec], reward_spaces: list[Reward]
    ) -> StepType:
        """End the episode after an error of the compiler or the program, and report the error."""
        self.close()
        observations = [spec.default_value for spec in observation_spaces]
        rewards = [float(reward.reward_on_error(self.episode_reward)) for reward in reward_spaces]
        return observations, rewards, True, {"error_type": type(error).__name__, "error_details": str(error)}

    def multistep(
        self,
        actions: Iterable[Any],
        observation_spaces: Iterable[Any] | None = None,
        reward_spaces: Iterable[Any] | None = None,
        observations: Iterable[Any] | None = None,
        rewards: Iterable[Any] | None = None,
        timeout: float = 300,
    ) -> StepType:
        observation_spaces = asked_for(observation_spaces, observations, "observations")
        reward_spaces = asked_for(reward_spaces, rewards, "rewards")
        specs, one_observation = self.observation.spaces, observation_spaces is None
        if observation_spaces is None:
            observation_spaces = [self.observation_space_spec] if self.observation_space_spec is not None else []
        one_reward = reward_spaces is None
        if reward_spaces is None:
            reward_spaces = [self.reward_space] if self.reward_space is not None else []
        chosen = [one if isinstance(one, ObservationSpaceSpec) else specs[one] for one in observation_spaces]
        earned = [one if isinstance(one, Reward) else self.reward.spaces[one] for one in reward_spaces]
        observed, rewarded, done, info = self.raw_step(actions, chosen, earned, timeout=timeout)
        if one_reward and earned:
            self.episode_reward = (self.episode_reward or 0) + rewarded[0]
        return _shaped(observed, one_observation), _shaped(rewarded, one_reward), done, info

    def fork(self) -> Self:
        if not self.in_episode:
            actions = list(self.actions)
            self.reset()
            if actions:
                logger.warning("Parent service of fork() has died, replaying state")
                _, _, done, info = self.multistep(actions)
                if done:
                    raise ServiceError(f"Failed to replay action sequence: {info.get('error_details')}")
        if self.service is None or self._live_session is None:
            raise SessionNotFound("Session not found: the service was closed")
        try:
            session = self._live_session.fork()
        except NotImplementedError:
            other = type(self)(**self._init_kwargs())
            other.reset()
            _, _, done, info = other.multistep(self.actions)
            if done:
                other.close()
                raise ServiceError(f"Failed to replay action sequence in forked environment: {info}") from None
        else:
            other = type(self)(**self._init_kwargs(), service_connection=self.service)
            other._session = self.service.adopt(session)
            other._next_benchmark = other._benchmark_in_use = self._benchmark_in_use
        other._datasets = self._datasets
        other._action_space = apart(self._action_space)  # it may have changed since the reset
        other._params_to_send_on_reset = list(self._params_to_send_on_reset)
        other.reward.spaces = copy.deepcopy(self.reward.spaces, {id(self.benchmark): self.benchmark})
        other.observation.spaces = {name: spec.copy() for name, spec in self.observation.spaces.items()}
        other.observation_space, other.reward_space = self.observation_space_spec, self.reward_space
        other.episode_reward, other.episode_start_time = self.episode_reward, self.episode_start_time
        other._actions = list(self.actions)
        return other

    def close(self) -> None:
        others = self._end_session()
        if self.service is not None and not others:
            self.service.close()
        self.service = None

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # such as during interpreter shutdown
            if self.__dict__.get("service") is None:
                return
            if threading.get_ident() == threading.main_thread().ident:
                self.close()
            else:
                _dropped.append(self)

    def render(self, mode: str = "human") -> str | None:
        if self.observation_space_spec is None:
            raise ValueError("Cannot call render() when no observation space is used")
        observation = self.observation[self.observation_space_spec.id]
        if mode not in ("human", "ansi"):
            raise ValueError(f"Invalid mode: {mode}")
        return print(observation) if mode == "human" else str(observation)

    def apply(self, state: CompilerEnvState) -> None:
        if not self.in_episode:
            self.reset(benchmark=state.benchmark)
        if self.benchmark != state.benchmark:
            text = f"Applying state from environment for benchmark '{state.benchmark}' to environment for benchmark"
            warnings.warn(f"{text} '{self.benchmark}'", UserWarning, stacklevel=2)
        for action in self.commandline_to_actions(state.commandline):
            _, _, done, info = self.step(action)
            if done:
                raise ValueError(f"Environment terminated with error: `{info.get('error_details')}`")

    def validate(self, state: CompilerEnvState | None = None) -> ValidationResult:
        return validate(self, state)

    def send_param(self, key: str, value: str, resend_on_reset: bool = False) -> str:
        """Send a parameter and return the reply; see `send_params`."""
        return self.send_params((key, value), resend_on_reset=resend_on_reset)[0]

    def send_params(self, *params: tuple[str, str], resend_on_reset: bool = False) -> list[str]:
        """Send parameters, each a key and a value, and return the replies."""
        if resend_on_reset:
            self._params_to_send_on_reset += params
        if self._live_session is None:
            raise SessionNotFound("Must call reset() before send_params()")
        return [self._live_session.parameter(key, value) for key, value in params]

    def _keep_param(self, key: str, value: str) -> None:
        """Send a parameter now, if an episode is running, and after every reset, replacing its earlier value."""
        self._params_to_send_on_reset = [one for one in self._params_to_send_on_reset if one[0] != key]
        with contextlib.suppress(SessionNotFound):
            self.send_param(key, value, resend_on_reset=True)

    def __copy__(self) -> Self:
        raise TypeError("ClientServiceCompilerEnv instances do not support shallow copies. Use deepcopy()")

    def __deepcopy__(self, memo: Any) -> Self:
        return self.fork()


def _shaped(values: list[Any], one: bool) -> Any:
    if not one:
        return values or None  # as in the original
    return values[0] if values else None
