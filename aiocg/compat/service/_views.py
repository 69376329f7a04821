"""Observation spaces, and views of the observations and rewards of the current state."""

import copy
import warnings
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from aiocg.compat._errors import ServiceError
from aiocg.compat.classic._spaces import Space
from aiocg.compat.service._converters import message_to_value
from aiocg.compat.spaces._actions import Reward


class ObservationSpaceSpec:
    """The spec of an observation space."""

    message_converter: ClassVar[Callable[[Any], Any]] = staticmethod(message_to_value)

    def __init__(
        self,
        id: str,
        index: int,
        space: Space[Any],
        translate: Callable[[Any], Any],
        to_string: Callable[[Any], str] = str,
        deterministic: bool = True,
        platform_dependent: bool = False,
        default_value: Any = 0,
    ) -> None:
        self.id, self.index, self.space = id, index, space
        self.translate, self.to_string, self.default_value = translate, to_string, default_value
        self.deterministic, self.platform_dependent = deterministic, platform_dependent

    @classmethod
    def from_proto(cls, index: int, proto: Any) -> "ObservationSpaceSpec":
        """Make a spec from the declaration of a service."""
        try:
            space = cls.message_converter(proto.space)
            default = cls.message_converter(proto.default_observation)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Error interpreting description of observation space '{proto.name}'.\nError: {error}\n"
                f"ObservationSpace message:\n  {proto.space}"
            ) from error
        if hasattr(space, "name"):
            space.name = proto.name
        flags = {"deterministic": proto.deterministic, "platform_dependent": proto.platform_dependent}
        return cls(proto.name, index, space, cls.message_converter, **flags, default_value=default)

    def make_derived_space(
        self,
        id: str,
        translate: Callable[[Any], Any],
        space: Space[Any] | None = None,
        deterministic: bool | None = None,
        default_value: Any = None,
        platform_dependent: bool | None = None,
        to_string: Callable[[Any], str] | None = None,
    ) -> "ObservationSpaceSpec":
        """Return the spec of an observation that is computed from this one."""
        inner = self.translate
        given = {
            "space": space,
            "deterministic": deterministic,
            "platform_dependent": platform_dependent,
            "to_string": to_string,
            "default_value": translate(self.default_value) if default_value is None else default_value,
        }
        other = copy.copy(self)
        other.id, other.translate = id, lambda value: translate(inner(value))
        other.__dict__.update((name, value) for name, value in given.items() if value is not None)
        return other

    def copy(self) -> "ObservationSpaceSpec":
        """Return a copy whose space can be modified independently, as wrappers do."""
        other = copy.copy(self)
        other.space = copy.copy(self.space)
        for bound in ("low", "high"):
            if isinstance(value := getattr(other.space, bound, None), np.ndarray):
                setattr(other.space, bound, value.copy())
        return other

    def __hash__(self) -> int:
        return self.index

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self.id == other
        return isinstance(other, ObservationSpaceSpec) and self._key() == other._key()

    def _key(self) -> tuple[Any, ...]:
        return self.id, self.index, self.space, self.platform_dependent, self.deterministic

    def __repr__(self) -> str:
        return f"ObservationSpaceSpec({self.id})"


class _View:
    """Values by name: `view["name"]` or `view.name()`."""

    spaces: dict[str, Any]

    def __getattr__(self, name: str) -> Callable[[], Any]:
        if name.startswith("_") or name == "spaces" or name not in self.spaces:
            raise AttributeError(f"{type(self).__name__} has no space {name!r}")
        return lambda: self[name]  # type: ignore[index]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.spaces})

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{', '.join(sorted(self.spaces))}]"


class ObservationView(_View):
    """Observations of the current state: `env.observation["Ir"]` or `env.observation.Ir()`."""

    def __init__(self, raw_step: Callable[..., Any], spaces: Iterable[Any]) -> None:
        self._raw_step = raw_step
        known = [  # copies, since wrappers modify them for one environment
            one.copy() if isinstance(one, ObservationSpaceSpec) else ObservationSpaceSpec.from_proto(index, one)
            for index, one in enumerate(spaces)
        ]
        self.spaces = {spec.id: spec for spec in known}
        if not self.spaces:
            raise ValueError("No observation spaces")

    def __getitem__(self, observation_space: str) -> Any:
        return self.compute(self.spaces[observation_space])

    def compute(self, spec: ObservationSpaceSpec) -> Any:
        """Compute an observation, which need not belong to this view."""
        observations, _, done, info = self._raw_step(actions=[], observation_spaces=[spec], reward_spaces=[])
        if done:
            details = info.get("error_details")
            raise ServiceError(f"Failed to compute observation '{spec.id}'" + (f": {details}" if details else ""))
        if len(observations) != 1:
            raise ServiceError(f"Expected 1 '{spec.id}' observation but the service returned {len(observations)}")
        return observations[0]

    def add_derived_space(self, id: str, base_id: str, **kwargs: Any) -> None:
        """Add an observation that is computed from another one; see `ObservationSpaceSpec.make_derived_space`."""
        self.spaces[id] = self.spaces[base_id].make_derived_space(id=id, **kwargs)


class RewardView(_View):
    """Rewards since they were last computed: `env.reward["Name"]` or `env.reward.Name()`."""

    def __init__(self, spaces: Iterable[Reward], observation_view: ObservationView) -> None:
        self.spaces = {space.name: space for space in spaces}
        self.previous_action: Any = None  # always None, as in the original
        self._observation_view = observation_view

    def __getitem__(self, reward_space: str) -> float:
        if not self.spaces:
            raise ValueError("No reward spaces")
        space: Reward = self.spaces[reward_space]
        observations = [self._observation_view[name] for name in space.observation_spaces]
        return space.update(self.previous_action, observations, self._observation_view)

    def reset(self, benchmark: Any, observation_view: ObservationView) -> None:
        """Reset all rewards for a new episode."""
        for space in self.spaces.values():
            space.reset(benchmark=benchmark, observation_view=observation_view)

    def add_space(self, space: Reward) -> None:
        """Add a reward, replacing any other with the same name."""
        if space.name in self.spaces:
            warnings.warn(f"Replacing existing reward space '{space.name}'", stacklevel=2)
        self.spaces[space.name] = space
