"""Views of an environment: any observation or reward of the present state, on demand."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from aiocg.plan import check_known

if TYPE_CHECKING:
    import gymnasium

    from aiocg.gym.env_base import CompilerEnvBase
    from aiocg.rewards import Reward
    from aiocg.spaces import ObservationSpace

__all__ = ["ObservationView", "RewardView"]

Space = TypeVar("Space")


class _View(Generic[Space]):
    """Values by name, as `view["Name"]` or `view.Name()`; each is computed when it is asked for."""

    kind = ""

    def __init__(self, env: "CompilerEnvBase") -> None:
        self._env = env

    @property
    def spaces(self) -> Mapping[str, Space]:
        """What there is, by name."""
        raise NotImplementedError

    def __getitem__(self, name: str) -> Any:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Callable[[], Any]:
        if name.startswith("_"):  # of a copy under construction, or a question whether there is a special method
            raise AttributeError(name)
        try:
            check_known(self.kind, name, self.spaces)
        except Exception as error:
            raise AttributeError(str(error)) from None
        return lambda: self[name]

    def __contains__(self, name: object) -> bool:
        return name in self.spaces

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.spaces})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.spaces)} {self.kind}s>"


class ObservationView(_View["ObservationSpace"]):
    """Observations of the present state: `env.observation["Ir"]`, or `env.observation.Ir()`."""

    kind = "observation space"

    @property
    def spaces(self) -> Mapping[str, "ObservationSpace"]:
        """All observation spaces, by name."""
        return self._env.observation_spaces

    def __getitem__(self, name: str) -> Any:
        """Compute an observation.

        Raises:
            UnknownName: when there is no such space.
            ServiceError: when it cannot be computed.
        """
        return self._env.observe(name)

    def add_derived_space(
        self,
        id: str,
        base_id: str,
        translate: Callable[[Any], Any],
        space: "gymnasium.Space[Any] | None" = None,
        *,
        default: Any = None,
    ) -> None:
        """Add an observation that is a function of another one; see `CompilerEnv.add_derived_space`."""
        self._env.add_derived_space(id, base_id, translate, space, default=default)


class RewardView(_View["Reward"]):
    """What the episode has earned so far, in any reward space: `env.reward["IrInstructionCountOz"]`.

    That is the reward of a single step from the start of the episode to the present state. For a reward that is a
    difference of costs, as all are that come along, it is the sum of the rewards of the steps.
    """

    kind = "reward space"

    @property
    def spaces(self) -> Mapping[str, "Reward"]:
        """All reward spaces, by name."""
        return self._env.reward_spaces

    def __getitem__(self, name: str) -> float:
        """Compute what the episode has earned.

        Raises:
            UnknownName: when there is no such space.
            ResetNeeded: when there is no episode.
            ServiceError: when what the reward needs cannot be observed.
        """
        return self._env.earned(name)

    def add_space(self, reward: "Reward") -> None:
        """Add a reward of your own; see `CompilerEnv.add_reward_space`."""
        self._env.add_reward_space(reward)
