"""Observations of the present state, on demand."""

from collections.abc import Callable, Iterable
from typing import Any

from aiocg.compat.compiler_gym.errors import ServiceError
from aiocg.compat.compiler_gym.views.observation_space_spec import ObservationSpaceSpec

__all__ = ["ObservationView"]


class ObservationView:
    """Observations of the present state: `env.observation["Ir"]`, or `env.observation.Ir()`.

    Args:
        raw_step: does a step; see `ClientServiceCompilerEnv.raw_step`.
        spaces: what can be observed: `ObservationSpaceSpec`, or declarations of a service.

    Attributes:
        spaces: what can be observed, by name.
        session_id: the environment's session, for those who look.

    Raises:
        ValueError: when there is nothing to observe.
    """

    def __init__(self, raw_step: Callable[..., Any], spaces: Iterable[Any]) -> None:
        self._raw_step = raw_step
        self.spaces: dict[str, ObservationSpaceSpec] = {}
        self.session_id: int | None = None
        for index, space in enumerate(spaces):
            known = isinstance(space, ObservationSpaceSpec)
            # What is known is changed by wrappers, for their environment only.
            self._add_space(space.copy() if known else ObservationSpaceSpec.from_proto(index, space))
        if not self.spaces:
            raise ValueError("No observation spaces")

    def __getitem__(self, observation_space: str) -> Any:
        """Compute an observation.

        Raises:
            KeyError: when there is no such space.
            SessionNotFound: before the first reset.
            ServiceError: when it cannot be computed.
        """
        return self.compute(self.spaces[observation_space])

    def compute(self, spec: ObservationSpaceSpec) -> Any:
        """Compute an observation that need not be among those of this view.

        Raises:
            SessionNotFound: before the first reset.
            ServiceError: when it cannot be computed.
        """
        observations, _, done, info = self._raw_step(actions=[], observation_spaces=[spec], reward_spaces=[])
        if done:
            details = info.get("error_details")
            raise ServiceError(f"Failed to compute observation '{spec.id}'" + (f": {details}" if details else ""))
        if len(observations) != 1:
            raise ServiceError(f"Expected 1 '{spec.id}' observation but the service returned {len(observations)}")
        return observations[0]

    def _add_space(self, space: ObservationSpaceSpec) -> None:
        self.spaces[space.id] = space

    def add_derived_space(self, id: str, base_id: str, **kwargs: Any) -> None:
        """Add an observation that is a function of another one.

        Args:
            id: its name.
            base_id: name of the other.
            kwargs: see `ObservationSpaceSpec.make_derived_space`.

        Raises:
            KeyError: when there is no such other.
        """
        self._add_space(self.spaces[base_id].make_derived_space(id=id, **kwargs))

    def __getattr__(self, name: str) -> Callable[[], Any]:
        if name.startswith("_") or name == "spaces" or name not in self.spaces:
            raise AttributeError(f"there is no observation space {name!r}")
        return lambda: self[name]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.spaces})

    def __repr__(self) -> str:
        return f"ObservationView[{', '.join(sorted(self.spaces))}]"
