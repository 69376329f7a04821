"""What is known of an observation."""

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from aiocg.compat.compiler_gym.service.proto import ObservationSpace, py_converters
from aiocg.compat.gym.spaces import Space

__all__ = ["ObservationSpaceSpec"]


class ObservationSpaceSpec:
    """What is known of an observation.

    Attributes:
        id: its name.
        index: its place among what the service observes; derived observations have that of their base.
        space: contains its values.
        translate: makes a value of what the service gives.
        to_string: makes text of a value.
        deterministic: the same state always gives the same value.
        platform_dependent: the value depends on the machine.
        default_value: what an observation is after an error.
    """

    message_converter: ClassVar[Callable[[Any], Any]] = staticmethod(py_converters.make_message_default_converter())

    def __init__(
        self,
        id: str,
        index: int,
        space: Space[Any],
        translate: Callable[[Any], Any],
        to_string: Callable[[Any], str],
        deterministic: bool,
        platform_dependent: bool,
        default_value: Any,
    ) -> None:
        self.id = id
        self.index = index
        self.space = space
        self.translate = translate
        self.to_string = to_string
        self.deterministic = deterministic
        self.platform_dependent = platform_dependent
        self.default_value = default_value

    @classmethod
    def from_proto(cls, index: int, proto: ObservationSpace) -> "ObservationSpaceSpec":
        """Make one of what a service declares.

        Args:
            index: its place among what the service observes.
            proto: the declaration.

        Raises:
            ValueError: when there is something wrong with that.
        """
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
        return cls(
            id=proto.name,
            index=index,
            space=space,
            translate=cls.message_converter,
            to_string=str,
            deterministic=proto.deterministic,
            platform_dependent=proto.platform_dependent,
            default_value=default,
        )

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
        """Return an observation that is a function of this one.

        Args:
            id: its name.
            translate: the function.
            space: contains its values; this one's if None, as are the others that are not given.
            deterministic, platform_dependent, to_string: as for this one.
            default_value: what it is after an error; the function's of this one's if None.
        """
        inner = self.translate
        return ObservationSpaceSpec(
            id=id,
            index=self.index,
            space=self.space if space is None else space,
            translate=lambda value: translate(inner(value)),
            to_string=self.to_string if to_string is None else to_string,
            deterministic=self.deterministic if deterministic is None else deterministic,
            platform_dependent=self.platform_dependent if platform_dependent is None else platform_dependent,
            default_value=translate(self.default_value) if default_value is None else default_value,
        )

    def copy(self) -> "ObservationSpaceSpec":
        """Return a copy whose space can be changed without changing that of this one; wrappers do."""
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
