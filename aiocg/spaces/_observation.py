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
            space = _gymnasium_space(spec)
        except (TypeError, ValueError, OverflowError, AssertionError) as error:
            raise ValueError(f"the observation space {spec.name!r} is declared wrongly: {error}") from error
        default = spec.default if spec.default is not None else _default(spec)
        return cls(spec.name, space, spec.deterministic, spec.platform_dependent, default, spec.description, spec.keys)


def _gymnasium_space(spec: ObservationSpec) -> "gymnasium.Space[Any]":
    match spec.kind:
        case "text":
            return Text()
        case "texts":
            return Texts()
        case "binary":
            return Binary()
        case "json":
            return Json()
        case "mapping":
            return gymnasium.spaces.Dict({key: Scalar(spec.low, spec.high, spec.dtype) for key in spec.keys})
        case "record":
            return gymnasium.spaces.Dict({field.name: _gymnasium_space(field) for field in spec.fields})
        case "array" if -1 in spec.shape:
            return VariableArray(spec.low, spec.high, spec.shape, spec.dtype)
        case "array":
            low, high = _array_bounds(spec)
            return gymnasium.spaces.Box(low, high, spec.shape, np.dtype(spec.dtype).type)
        case _:
            return Scalar(spec.low, spec.high, spec.dtype)


def _array_bounds(spec: ObservationSpec) -> tuple[float, float]:
    return (-np.inf if spec.low is None else spec.low), (np.inf if spec.high is None else spec.high)


def _default(spec: ObservationSpec) -> Any:
    """Return a default if none is declared: zeros, or an empty value."""
    match spec.kind:
        case "text":
            return ""
        case "binary":
            return b""
        case "texts":
            return []
        case "json":
            return None
        case "mapping":
            return dict.fromkeys(spec.keys, 0)
        case "record":
            return {field.name: _default(field) for field in spec.fields}
        case "array":
            return np.zeros([max(length, 0) for length in spec.shape], spec.dtype)
        case _:
            return 0
