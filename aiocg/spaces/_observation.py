"""Observation spaces: Gymnasium spaces from a worker's declarations."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from aiocg.spaces._sequence import Binary, Json, Text, Texts, VariableArray
from aiocg.spaces.scalar import Scalar
from aiocg.transport.messages import ObservationSpec


@dataclass(frozen=True, slots=True)
class ObservationSpace:
    """An observation, and what is known about its values.

    Most are computed by the worker. Those with `sources` are derived from other observations by the client; add your
    own with `Env.add_observation_space`.

    Attributes:
        name: of the space.
        space: a Gymnasium space that contains every value.
        deterministic: the same state always gives the same value.
        platform_dependent: the value depends on the machine.
        default: the value after an error.
        description: one line.
        keys: names of the elements, where they have names.
        sources: for a space that the client derives from others: their names.
        translate: computes a value from one of each source, in that order.
        prepare: prepares for `translate`, such as by a download; called in a thread before the first value is computed.
            Idempotent.
    """

    name: str
    space: "gymnasium.Space[Any]"
    deterministic: bool
    platform_dependent: bool
    default: Any
    description: str
    keys: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    translate: Callable[..., Any] | None = None
    prepare: Callable[[], object] | None = None

    @classmethod
    def from_spec(cls, spec: ObservationSpec) -> "ObservationSpace":
        """Make a space of what a worker declares.

        Raises:
            ValueError: if its type or bounds are wrong.
        """
        try:
            space, default = _declared(spec)
        except (TypeError, ValueError, OverflowError, AssertionError) as error:
            raise ValueError(f"the observation space {spec.name!r} is declared wrongly: {error}") from error
        default = default if spec.default is None else spec.default
        return cls(spec.name, space, spec.deterministic, spec.platform_dependent, default, spec.description, spec.keys)


def _declared(spec: ObservationSpec) -> "tuple[gymnasium.Space[Any], Any]":
    """Return the space of what is declared, and the default if none is declared: zeros, or an empty value."""
    match spec.kind:
        case "text":
            return Text(), ""
        case "texts":
            return Texts(), []
        case "binary":
            return Binary(), b""
        case "json":
            return Json(), None
        case "mapping":
            numbers: dict[str, gymnasium.Space[Any]] = {
                key: Scalar(spec.low, spec.high, spec.dtype) for key in spec.keys
            }
            return gymnasium.spaces.Dict(numbers), dict.fromkeys(spec.keys, 0)
        case "record":
            fields = {field.name: _declared(field) for field in spec.fields}
            spaces, defaults = ({name: pair[index] for name, pair in fields.items()} for index in (0, 1))
            return gymnasium.spaces.Dict(spaces), defaults
        case "array":
            zeros = np.zeros([max(length, 0) for length in spec.shape], spec.dtype)
            if -1 in spec.shape:
                return VariableArray(spec.low, spec.high, spec.shape, spec.dtype), zeros
            low, high = (-np.inf if spec.low is None else spec.low), (np.inf if spec.high is None else spec.high)
            return gymnasium.spaces.Box(low, high, spec.shape, zeros.dtype.type), zeros
        case _:
            return Scalar(spec.low, spec.high, spec.dtype), 0
