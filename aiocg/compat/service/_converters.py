"""Conversion between messages and Python values and spaces."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from aiocg.compat.classic._spaces import Space
from aiocg.compat.service import _messages as messages
from aiocg.compat.spaces._actions import Commandline, CommandlineFlag, NamedDiscrete
from aiocg.compat.spaces._values import Box, Dict, Discrete, Permutation, Scalar, Sequence, SpaceSequence, Tuple

_NUMBERS = {"boolean": bool, "byte": np.int8, "int64": np.int64, "float": np.float32, "double": np.float64}
_EVENT_OF = {"b": "boolean_tensor", "i": "int64_tensor", "u": "int64_tensor", "f": "double_tensor"}
_LIMITS: dict[str, tuple[Any, Any]] = {
    "BooleanRange": (False, True),
    "Int64Range": (int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)),
}


def make_message_default_converter() -> Callable[[Any], Any]:
    """Return the function that converts messages to spaces and values."""
    return message_to_value


def to_event_message_default_converter() -> Callable[[Any], Any]:
    """Return the function that converts values to events."""
    return value_to_event


def message_to_value(message: Any) -> Any:
    """Convert a message to a space or value; return anything else unchanged."""
    if not isinstance(message, messages.Message):
        return message
    match type(message).__name__:
        case "Event":
            return _event(message)
        case "ActionSpace" | "ObservationSpace":
            space: Any = space_message_to_space(message.space)
            space.name = message.name
            return space
        case "Space":
            return space_message_to_space(message)
        case "Opaque":
            return json.loads(message.data) if "json" in message.format else message.data
        case name if name.endswith("Tensor"):
            return _tensor(message)
    return message


def _event(event: Any) -> Any:
    which = event.WhichOneof("value")
    if which is None:
        return None
    value = getattr(event, which)
    if which == "event_list":
        return [_event(one) for one in value.event]
    if which == "event_dict":
        return {key: _event(one) for key, one in value.event.items()}
    return message_to_value(value)


def _tensor(tensor: Any) -> Any:
    kind = type(tensor).__name__.removesuffix("Tensor").lower()
    if kind == "string":
        return list(tensor.value)
    values = np.frombuffer(tensor.value, np.int8) if kind == "byte" else np.array(tensor.value, dtype=_NUMBERS[kind])
    return values.reshape(tensor.shape)


def space_message_to_space(message: Any) -> Space[Any]:
    """Convert a message to the space that it describes."""
    which = message.WhichOneof("value")
    if which is None:
        raise ValueError("the message describes no space")
    value = getattr(message, which)
    kind, _, form = which.rpartition("_")
    match form:
        case "value" if kind in _NUMBERS:
            python = float if kind == "double" else _NUMBERS[kind]
            return Scalar("", *_bounds(value), dtype=python)
        case "box":
            low, high = _tensor(value.low), _tensor(value.high)
            return Box(name="", low=low, high=high, shape=low.shape, dtype=_NUMBERS[kind])
        case "sequence" if kind in _NUMBERS:
            bounds = None
            if value.HasField("scalar_range"):
                bounds = Scalar("", *_bounds(value.scalar_range), dtype=_NUMBERS[kind])
            if message.type_id == "permutation" and bounds is not None:
                return Permutation(name="", scalar_range=bounds)
            return _sequence(value, _NUMBERS[kind], bounds)
    match which:
        case "space_list" | "space_union":
            return Tuple([space_message_to_space(one) for one in value.space], name="")
        case "space_dict":
            return Dict({key: space_message_to_space(one) for key, one in value.space.items()}, name="")
        case "discrete":
            return Discrete(value.n, name="")
        case "named_discrete" if message.type_id == "commandline":
            return Commandline([CommandlineFlag(name, name, "") for name in value.name], name="")
        case "named_discrete":
            return NamedDiscrete(value.name, name="")
        case "string_value" | "string_sequence":
            return _sequence(value, str)
        case "bytes_sequence":
            return _sequence(value, bytes)
        case "space_sequence":
            return SpaceSequence("", space_message_to_space(value.space), size_range=_lengths(value))
    raise ValueError(f"there is no space for {which}")


def _bounds(bounds: Any) -> tuple[Any, Any]:
    low, high = _LIMITS.get(type(bounds).__name__, (-np.inf, np.inf))
    return (bounds.min if bounds.HasField("min") else low, bounds.max if bounds.HasField("max") else high)


def _lengths(value: Any) -> tuple[int, int]:
    low, high = _bounds(value.length_range)
    return (max(low, 0), high)


def _sequence(value: Any, dtype: Any, bounds: Scalar | None = None) -> Sequence:
    return Sequence(name="", size_range=_lengths(value), dtype=dtype, scalar_range=bounds)


def value_to_event(value: Any) -> Any:
    """Convert an action or observation to an event."""
    match value:
        case messages.Message():
            return value
        case bool() | np.bool_():
            return messages.Event(boolean_value=bool(value))
        case int() | np.integer():
            return messages.Event(int64_value=int(value))
        case float() | np.floating():
            return messages.Event(double_value=float(value))
        case str():
            return messages.Event(string_value=value)
        case bytes():
            return messages.Event(byte_tensor={"shape": [len(value)], "value": value})
        case dict():
            return messages.Event(event_dict={"event": {key: value_to_event(one) for key, one in value.items()}})
        case list() | tuple():
            return messages.Event(event_list={"event": [value_to_event(one) for one in value]})
        case np.ndarray() if value.dtype.kind in _EVENT_OF:
            tensor = {"shape": list(value.shape), "value": value.ravel().tolist()}
            return messages.Event(**{_EVENT_OF[value.dtype.kind]: tensor})
    raise ValueError(f"there is no event for a value of type {type(value).__name__}: {value!r}")
