"""What every environment of CompilerGym has."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from aiocg.compat import gym
from aiocg.compat.compiler_gym.util.gym_type_hints import OptionalArgumentValue

if TYPE_CHECKING:
    from aiocg.compat.compiler_gym.compiler_env_state import CompilerEnvState
    from aiocg.compat.compiler_gym.validation_result import ValidationResult

__all__ = ["CompilerEnv"]

UNCHANGED = OptionalArgumentValue.UNCHANGED


class CompilerEnv(gym.Env, ABC):
    """An environment for compiler optimisation, with the interface of Gym 0.21. `compiler_gym.make` makes one.

    Attributes are properties here and can be properties or plain attributes in what derives from this.
    """

    @abstractmethod
    def __init__(self) -> None:
        """Make an environment."""

    @abstractmethod
    def close(self) -> None:
        """Free what the environment holds. `reset` brings it back."""

    @property
    @abstractmethod
    def observation_space_spec(self) -> Any:
        """What is known of the default observation, None without one."""

    @observation_space_spec.setter
    @abstractmethod
    def observation_space_spec(self, observation_space_spec: Any) -> None: ...

    @property
    @abstractmethod
    def reward_space_spec(self) -> Any:
        """The default reward, None without one."""

    @reward_space_spec.setter
    @abstractmethod
    def reward_space_spec(self, val: Any) -> None: ...

    @property
    @abstractmethod
    def benchmark(self) -> Any:
        """The program of the present episode; set it to a `Benchmark` or a URI to have another after a reset."""

    @benchmark.setter
    @abstractmethod
    def benchmark(self, benchmark: Any) -> None: ...

    @property
    @abstractmethod
    def datasets(self) -> Any:
        """Where benchmarks come from, by name."""

    @datasets.setter
    @abstractmethod
    def datasets(self, datasets: Any) -> None: ...

    @property
    @abstractmethod
    def episode_walltime(self) -> float:
        """Seconds since the reset."""

    @property
    @abstractmethod
    def in_episode(self) -> bool:
        """Is there an episode: was the environment reset, and not ended since?"""

    @property
    @abstractmethod
    def episode_reward(self) -> float | None:
        """Sum of the default rewards since the reset, None without a default reward."""

    @episode_reward.setter
    @abstractmethod
    def episode_reward(self, episode_reward: float | None) -> None: ...

    @property
    @abstractmethod
    def actions(self) -> list[Any]:
        """The actions since the reset."""

    @property
    @abstractmethod
    def version(self) -> str:
        """The version of the service."""

    @property
    @abstractmethod
    def compiler_version(self) -> str:
        """The version of the compiler."""

    @property
    @abstractmethod
    def state(self) -> "CompilerEnvState":
        """The present state as a value."""

    @property
    @abstractmethod
    def action_space(self) -> Any:
        """The actions that `step` takes; set it to a name to have others after a reset."""

    @action_space.setter
    @abstractmethod
    def action_space(self, action_space: str | None) -> None: ...

    @property
    @abstractmethod
    def action_spaces(self) -> list[Any]:
        """All action spaces."""

    @action_spaces.setter
    @abstractmethod
    def action_spaces(self, action_spaces: list[Any]) -> None: ...

    @property
    @abstractmethod
    def reward_space(self) -> Any:
        """The default reward, None without one; set it to a name, a `Reward`, or None."""

    @reward_space.setter
    @abstractmethod
    def reward_space(self, reward_space: Any) -> None: ...

    @property
    @abstractmethod
    def observation_space(self) -> Any:
        """The space of the default observation, None without one; set it to a name, a spec, or None."""

    @observation_space.setter
    @abstractmethod
    def observation_space(self, observation_space: Any) -> None: ...

    @property
    @abstractmethod
    def observation(self) -> Any:
        """A view of what can be observed."""

    @observation.setter
    @abstractmethod
    def observation(self, observation: Any) -> None: ...

    @property
    @abstractmethod
    def reward_range(self) -> tuple[float, float]:
        """The least and the greatest default reward."""

    @property
    @abstractmethod
    def reward(self) -> Any:
        """A view of the rewards."""

    @reward.setter
    @abstractmethod
    def reward(self, reward: Any) -> None: ...

    @abstractmethod
    def fork(self) -> "CompilerEnv":
        """Return an independent environment at the same state."""

    @abstractmethod
    def reset(
        self,
        benchmark: Any = None,
        action_space: str | None = None,
        reward_space: Any = UNCHANGED,
        observation_space: Any = UNCHANGED,
        timeout: float = 300,
    ) -> Any:
        """Start an episode.

        Args:
            benchmark: the program, if another than before: a URI or a `Benchmark`.
            action_space: name of the action space, if another than before.
            reward_space, observation_space: defaults from now on; None switches them off.
            timeout: seconds that it may take.

        Returns:
            The default observation, None without one.

        Raises:
            LookupError: when there is no such benchmark or space.
            BenchmarkInitError: when the compiler does not accept the benchmark.
            OSError: when the service fails.
        """

    @abstractmethod
    def step(
        self,
        action: Any,
        observation_spaces: Iterable[Any] | None = None,
        reward_spaces: Iterable[Any] | None = None,
        observations: Iterable[Any] | None = None,
        rewards: Iterable[Any] | None = None,
        timeout: float = 300,
    ) -> tuple[Any, Any, bool, dict[str, Any]]:
        """Do an action.

        Args:
            action: one of the action space.
            observation_spaces: what to observe in place of the default; the observation is then a list.
            reward_spaces: what to reward in place of the default; the reward is then a list.
            observations, rewards: old names of the same.
            timeout: seconds that it may take.

        Returns:
            Observation, reward, whether the episode is done, and more: `action_had_no_effect`, `new_action_space` or,
            after an error of the compiler or the program, `error_type` and `error_details`.

        Raises:
            SessionNotFound: when there is no episode.
        """

    @abstractmethod
    def multistep(
        self,
        actions: Iterable[Any],
        observation_spaces: Iterable[Any] | None = None,
        reward_spaces: Iterable[Any] | None = None,
        observations: Iterable[Any] | None = None,
        rewards: Iterable[Any] | None = None,
        timeout: float = 300,
    ) -> tuple[Any, Any, bool, dict[str, Any]]:
        """Do several actions; observation and reward are computed once, at the end.

        Takes, returns and raises what `step` does.
        """

    @abstractmethod
    def render(self, mode: str = "human") -> str | None:
        """Show the default observation of the present state: print it ("human"), or return it as text ("ansi").

        Raises:
            ValueError: when there is none, or no such mode.
        """

    @abstractmethod
    def commandline(self) -> str:
        """Return the actions since the reset as a command line."""

    @abstractmethod
    def commandline_to_actions(self, commandline: str) -> list[Any]:
        """Return the actions of a command line."""

    @abstractmethod
    def apply(self, state: "CompilerEnvState") -> None:
        """Do the actions of a state, after a reset to its benchmark if there is no episode.

        Raises:
            ValueError: when they cannot be done.
        """

    @abstractmethod
    def validate(self, state: "CompilerEnvState | None" = None) -> "ValidationResult":
        """Find out whether a state, the present one if None, can be reached again, with its reward, and still works."""
