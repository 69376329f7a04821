"""An environment over a service: CompilerGym's, with its old interface."""

import contextlib
import copy
import logging
import numbers
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from time import time
from typing import Any, Self

import numpy as np

from aiocg.compat.compiler_gym.compiler_env_state import CompilerEnvState
from aiocg.compat.compiler_gym.datasets import Dataset, Datasets
from aiocg.compat.compiler_gym.envs.compiler_env import UNCHANGED
from aiocg.compat.compiler_gym.errors import BenchmarkInitError, EnvironmentNotSupported, ServiceError, SessionNotFound
from aiocg.compat.compiler_gym.service.connection import CompilerGymServiceConnection, ConnectionOpts
from aiocg.compat.compiler_gym.service.proto.py_converters import make_message_default_converter
from aiocg.compat.compiler_gym.service.settings import EnvironmentSettings
from aiocg.compat.compiler_gym.service.validating import validate
from aiocg.compat.compiler_gym.spaces import DefaultRewardFromObservation, Reward
from aiocg.compat.compiler_gym.util.version import __version__
from aiocg.compat.compiler_gym.validation_result import ValidationResult
from aiocg.compat.compiler_gym.views import ObservationSpaceSpec, ObservationView, RewardView
from aiocg.compat.gym.spaces.seeds import apart

__all__ = ["ClientServiceCompilerEnv", "ServiceMessageConverters"]

logger = logging.getLogger("compiler_gym")

Step = tuple[Any, Any, bool, dict[str, Any]]


class ServiceMessageConverters:
    """What makes something else of the action spaces and the actions of a service.

    Args:
        action_space_converter: called with each action space of the service, a message if that is a script; what it
            returns is the environment's.
        action_converter: called with each action; what it returns is what the service gets.
    """

    def __init__(
        self,
        action_space_converter: Callable[[Any], Any] | None = None,
        action_converter: Callable[[Any], Any] | None = None,
    ) -> None:
        self.action_space_converter = action_space_converter or make_message_default_converter()
        self.action_converter = action_converter or _same


class ClientServiceCompilerEnv(EnvironmentSettings):
    """An environment over a service.

    Args:
        service: see `CompilerGymServiceConnection`.
        rewards: the rewards; without any, the increase of each observation that is a number is one.
        datasets: where benchmarks come from.
        benchmark: the first program, a URI or a `Benchmark`; the first of the datasets if None.
        observation_space, reward_space: defaults, by name.
        action_space: name of the action space, the first one if None.
        derived_observation_spaces: arguments of `observation.add_derived_space`, one dictionary for each.
        service_message_converters: what makes something else of action spaces and actions.
        connection_settings: for the connection.
        service_connection: a connection, in place of a new one.

    Raises:
        LookupError: when there is no such benchmark or space.
        FileNotFoundError, ServiceError: when there is no such service.
    """

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
        self.metadata = {"render.modes": ["human", "ansi"]}
        self.service = None
        if service is None and service_connection is not None:
            service = service_connection.endpoint
        self._service_endpoint = service
        self._connection_settings = connection_settings or ConnectionOpts()
        self._params_to_send_on_reset: list[tuple[str, str]] = []
        self.service_message_converters = service_message_converters or ServiceMessageConverters()
        self._datasets = Datasets(datasets or [])
        self._actions = []
        self.episode_start_time = time()
        self.service = service_connection or self._connect()
        self._version = __version__
        self._compiler_version = self.service.backend.compiler_version
        convert = self.service_message_converters.action_space_converter
        self._action_spaces = [convert(copy.deepcopy(space)) for space in self.service.action_spaces]
        self.observation = self._observation_view_type(raw_step=self.raw_step, spaces=self.service.observation_spaces)
        self.reward = self._reward_view_type(rewards or _default_rewards(self.observation), self.observation)
        for derived in derived_observation_spaces or ():
            self.observation.add_derived_space(**derived)
        chosen = benchmark or next(iter(self.datasets.benchmarks()), None)
        if chosen is not None:
            self._choose_benchmark(chosen)
            self._benchmark_in_use = self._next_benchmark
        self.action_space = action_space
        self.observation_space = observation_space
        self.reward_space = reward_space

    def _connect(self) -> CompilerGymServiceConnection:
        assert self._service_endpoint is not None, "make() names the service"
        return CompilerGymServiceConnection(self._service_endpoint, self._connection_settings)

    @property
    def _observation_view_type(self) -> type[ObservationView]:
        return ObservationView

    @property
    def _reward_view_type(self) -> type[RewardView]:
        return RewardView

    def _init_kwargs(self) -> dict[str, Any]:
        """Return what a fork is made with."""
        return {
            "action_space": self.action_space_name,
            "benchmark": self.benchmark,
            "connection_settings": self._connection_settings,
            "service": self._service_endpoint,
        }

    @property
    def native(self) -> Any:
        """The environment of aiocg behind this one, if the service is aiocg's; in an episode only.

        Raises:
            SessionNotFound: when there is no episode.
        """
        session = self.service.session(self._session_id) if self.service is not None else None
        if session is None:
            raise SessionNotFound("Must call reset() first")
        return session.env  # type: ignore[attr-defined]

    # -------------------------------------------------------------------------------------------- reset

    def reset(
        self,
        benchmark: Any = None,
        action_space: str | None = None,
        reward_space: Any = UNCHANGED,
        observation_space: Any = UNCHANGED,
        timeout: float = 300,
    ) -> Any:
        """Start an episode; see `CompilerEnv.reset`."""
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
        if self.service is None or self.service.closed:  # forks each get a service of their own
            self.service = self._connect()
        index = self._action_space_index(self.action_space_name)
        self._action_space = self.action_spaces[index]
        self._session_id = self._start(index, timeout)
        self.observation.session_id = self._session_id
        self.episode_start_time = time()
        self._actions, self._sure_of = [], None
        if self._params_to_send_on_reset:
            self.send_params(*self._params_to_send_on_reset)
        self.reward.reset(benchmark=self.benchmark, observation_view=self.observation)
        self.episode_reward = 0.0 if self.reward_space else None
        if self.observation_space_spec is None:
            return None
        return self.observation[self.observation_space_spec.id]

    def _start(self, action_space: int, timeout: float) -> int:
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
        """End the session, if there is one; return how many others the service has."""
        number, self._session_id = self._session_id, None
        if self.service is None:
            return 0
        if number is None:
            return len(self.service.sessions)
        return self.service.end_session(number)

    # --------------------------------------------------------------------------------------------- step

    def raw_step(
        self,
        actions: Iterable[Any],
        observation_spaces: list[ObservationSpaceSpec],
        reward_spaces: list[Reward],
        timeout: float = 300,
    ) -> Step:
        """Do actions; what `step` and the views are made of. Call one of those.

        Args:
            actions: in their order.
            observation_spaces: what to observe.
            reward_spaces: what to reward.
            timeout: seconds that it may take.

        Returns:
            A list of observations, a list of rewards, whether the episode is done, and more.

        Raises:
            SessionNotFound: when there is no episode.
            ValueError: when something is no action; nothing was done.
        """
        if self._session_id is None:
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
            if self.service is None:
                raise SessionNotFound(f"Session not found: {self._session_id}")
            reply = self.service.step(self._session_id, converted, indices, timeout)
        except (ServiceError, TimeoutError) as error:
            return self._failed(error, observation_spaces, reward_spaces)
        except Exception:  # nothing was done
            del self._actions[before:]
            raise
        except BaseException:
            self._sure_of = before
            raise
        if reply.new_action_space is not None:
            self._action_space = self.service_message_converters.action_space_converter(reply.new_action_space)
        raw = dict(zip(indices, reply.observations, strict=True))
        values = {spec.id: spec.translate(raw[spec.index]) for spec in specs}
        observations = [values[spec.id] for spec in observation_spaces]
        rewards = [
            float(reward.update(actions, [values[name] for name in reward.observation_spaces], self.observation))
            for reward in reward_spaces
        ]
        info = {
            "action_had_no_effect": reply.action_had_no_effect,
            "new_action_space": reply.new_action_space is not None,
        }
        return observations, rewards, reply.end_of_session, info

    def _failed(
        self, error: Exception, observation_spaces: list[ObservationSpaceSpec], reward_spaces: list[Reward]
    ) -> Step:
        """End the episode with an error of the compiler or the program, and tell of it."""
        self.close()
        observations = [spec.default_value for spec in observation_spaces]
        rewards = [float(reward.reward_on_error(self.episode_reward)) for reward in reward_spaces]
        return observations, rewards, True, {"error_type": type(error).__name__, "error_details": str(error)}

    def step(
        self,
        action: Any,
        observation_spaces: Iterable[Any] | None = None,
        reward_spaces: Iterable[Any] | None = None,
        observations: Iterable[Any] | None = None,
        rewards: Iterable[Any] | None = None,
        timeout: float = 300,
    ) -> Step:
        """Do an action; see `CompilerEnv.step`. A list of actions is deprecated: use `multistep`."""
        several = isinstance(action, Iterable) and not (isinstance(action, np.ndarray) and action.ndim == 0)
        if several and not isinstance(action, dict):
            if isinstance(action, str):
                raise ValueError(f"an action is a number, not the text {action!r}: use env.action_space[{action!r}]")
            warnings.warn(
                "Argument `action` of ClientServiceCompilerEnv.step no longer accepts a list of actions. "
                "Please use ClientServiceCompilerEnv.multistep instead",
                DeprecationWarning,
                stacklevel=2,
            )
        else:
            action = [action.item() if isinstance(action, np.ndarray) else action]
        return self._multistep(action, observation_spaces, reward_spaces, observations, rewards, timeout, "step")

    def multistep(
        self,
        actions: Iterable[Any],
        observation_spaces: Iterable[Any] | None = None,
        reward_spaces: Iterable[Any] | None = None,
        observations: Iterable[Any] | None = None,
        rewards: Iterable[Any] | None = None,
        timeout: float = 300,
    ) -> Step:
        """Do several actions; see `CompilerEnv.multistep`."""
        return self._multistep(actions, observation_spaces, reward_spaces, observations, rewards, timeout, "multistep")

    def _multistep(
        self,
        actions: Iterable[Any],
        observation_spaces: Iterable[Any] | None,
        reward_spaces: Iterable[Any] | None,
        observations: Iterable[Any] | None,
        rewards: Iterable[Any] | None,
        timeout: float,
        method: str,
    ) -> Step:
        if observations is not None:
            _renamed(method, "observations", "observation_spaces")
            observation_spaces = observations
        if rewards is not None:
            _renamed(method, "rewards", "reward_spaces")
            reward_spaces = rewards
        specs, one_observation = self.observation.spaces, observation_spaces is None
        if observation_spaces is None:
            chosen = [self.observation_space_spec] if self.observation_space_spec is not None else []
        else:
            chosen = [one if isinstance(one, ObservationSpaceSpec) else specs[one] for one in observation_spaces]
        one_reward = reward_spaces is None
        if reward_spaces is None:
            earned = [self.reward_space] if self.reward_space is not None else []
        else:
            earned = [one if isinstance(one, Reward) else self.reward.spaces[one] for one in reward_spaces]
        observed, rewarded, done, info = self.raw_step(actions, chosen, earned, timeout=timeout)
        if one_reward and earned:
            self.episode_reward = (self.episode_reward or 0) + rewarded[0]
        return _shaped(observed, one_observation), _shaped(rewarded, one_reward), done, info

    # ----------------------------------------------------------------------------- fork, close, render

    def fork(self) -> Self:
        """Return an independent environment at the same state, on the same service."""
        if not self.in_episode:
            actions = list(self.actions)
            self.reset()
            if actions:
                logger.warning("Parent service of fork() has died, replaying state")
                _, _, done, info = self.multistep(actions)
                if done:
                    raise ServiceError(f"Failed to replay action sequence: {info.get('error_details')}")
        assert self.service is not None
        assert self._session_id is not None
        try:
            number = self.service.fork_session(self._session_id)
        except NotImplementedError:
            other = type(self)(**self._init_kwargs())
            other.reset()
            _, _, done, info = other.multistep(self.actions)
            if done:
                other.close()
                raise ServiceError(f"Failed to replay action sequence in forked environment: {info}") from None
        else:
            other = type(self)(**self._init_kwargs(), service_connection=self.service)
            other._session_id = other.observation.session_id = number
            other._next_benchmark = other._benchmark_in_use = self._benchmark_in_use
        other._datasets = self._datasets
        other._action_space = apart(self._action_space)  # which may have changed since the reset
        other._params_to_send_on_reset = list(self._params_to_send_on_reset)
        other.reward.spaces = copy.deepcopy(self.reward.spaces, {id(self.benchmark): self.benchmark})
        other.observation.spaces = {name: spec.copy() for name, spec in self.observation.spaces.items()}
        other.observation_space = self.observation_space_spec
        other.reward_space = self.reward_space
        other.episode_reward = self.episode_reward
        other.episode_start_time = self.episode_start_time
        other._actions = list(self.actions)
        return other

    def close(self) -> None:
        """End the episode, and the service if no other environment uses it. `reset` brings it back."""
        others = self._end_session()
        if self.service is not None and not others:
            self.service.close()
        self.service = None

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # of an interpreter that is ending, for one
            if self.__dict__.get("service") is not None:
                self.close()

    def render(self, mode: str = "human") -> str | None:
        """Show the default observation; see `CompilerEnv.render`."""
        if self.observation_space_spec is None:
            raise ValueError("Cannot call render() when no observation space is used")
        observation = self.observation[self.observation_space_spec.id]
        if mode == "human":
            print(observation)
            return None
        if mode == "ansi":
            return str(observation)
        raise ValueError(f"Invalid mode: {mode}")

    # ------------------------------------------------------------------------------------------- states

    def commandline(self) -> str:
        """Return the actions since the reset as a command line; compilers that have one define this.

        Raises:
            NotImplementedError: when the compiler has none.
        """
        raise NotImplementedError("abstract method")

    def commandline_to_actions(self, commandline: str) -> list[Any]:
        """Return the actions of a command line; compilers that have one define this.

        Raises:
            NotImplementedError: when the compiler has none.
        """
        raise NotImplementedError("abstract method")

    def apply(self, state: CompilerEnvState) -> None:
        """Do the actions of a state; see `CompilerEnv.apply`."""
        if not self.in_episode:
            self.reset(benchmark=state.benchmark)
        if self.benchmark != state.benchmark:
            warnings.warn(
                f"Applying state from environment for benchmark '{state.benchmark}' to environment for benchmark "
                f"'{self.benchmark}'",
                UserWarning,
                stacklevel=2,
            )
        for action in self.commandline_to_actions(state.commandline):
            _, _, done, info = self.step(action)
            if done:
                raise ValueError(f"Environment terminated with error: `{info.get('error_details')}`")

    def validate(self, state: CompilerEnvState | None = None) -> ValidationResult:
        """Validate a state; see `CompilerEnv.validate`."""
        return validate(self, state)

    # --------------------------------------------------------------------------------------- parameters

    def send_param(self, key: str, value: str, resend_on_reset: bool = False) -> str:
        """Send a parameter and return the answer; see `send_params`."""
        return self.send_params((key, value), resend_on_reset=resend_on_reset)[0]

    def send_params(self, *params: tuple[str, str], resend_on_reset: bool = False) -> list[str]:
        """Send parameters, each a key and a value, and return the answers.

        Args:
            params: the parameters.
            resend_on_reset: send them again after each reset.

        Raises:
            SessionNotFound: when there is no episode; with `resend_on_reset` they are sent after the next reset.
            ValueError: when a parameter is not known, or a value is bad.
        """
        if resend_on_reset:
            self._params_to_send_on_reset += params
        if self._session_id is None or self.service is None:
            raise SessionNotFound("Must call reset() before send_params()")
        return [self.service.send_parameter(self._session_id, key, value) for key, value in params]

    def __copy__(self) -> Self:
        raise TypeError("ClientServiceCompilerEnv instances do not support shallow copies. Use deepcopy()")

    def __deepcopy__(self, memo: Any) -> Self:
        return self.fork()


def _same(value: Any) -> Any:
    return value


def _shaped(values: list[Any], one: bool) -> Any:
    if not one:
        return values or None  # as the original has it
    return values[0] if values else None


def _renamed(method: str, old: str, new: str) -> None:
    warnings.warn(
        f"Argument `{old}` of ClientServiceCompilerEnv.{method} has been renamed `{new}`. Please update your code",
        DeprecationWarning,
        stacklevel=4,
    )


def _default_rewards(observation: ObservationView) -> list[Reward]:
    return [
        DefaultRewardFromObservation(spec.id)
        for spec in observation.spaces.values()
        if isinstance(spec.default_value, numbers.Number)
    ]
