"""Messages to Python's values and spaces, and back."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from aiocg.compat.compiler_gym import spaces
from aiocg.compat.compiler_gym.service.proto import messages
from aiocg.compat.compiler_gym.service.proto.message import Message
from aiocg.compat.gym.spaces import Space

__all__ = [
    "make_message_default_converter",
    "message_to_value",
    "space_message_to_space",
    "to_event_message_default_converter",
    "value_to_event",
]

_NUMBERS = {"boolean": bool, "byte": np.int8, "int64": np.int64, "float": np.float32, "double": np.float64}
_EVENT_OF = {"b": "boolean_tensor", "i": "int64_tensor", "u": "int64_tensor", "f": "double_tensor"}


def make_message_default_converter() -> Callable[[Any], Any]:
    """Return the function that makes spaces and values of messages."""
    return message_to_value


def to_event_message_default_converter() -> Callable[[Any], messages.Event]:
    """Return the function that makes events of values."""
    return value_to_event


def message_to_value(message: Any) -> Any:
    """Return the space or the value of a message; what is no message is returned as it is.

    Raises:
        ValueError: for a message that says nothing, or something that there is no value for.
    """
    match message:
        case messages.Event():
            return _event(message)
        case messages.ActionSpace() | messages.ObservationSpace():
            space = space_message_to_space(message.space)
            space.name = message.name  # type: ignore[attr-defined]
            return space
        case messages.Space():
            return space_message_to_space(message)
        case messages.Opaque():
            return json.loads(message.data) if "json" in message.format else message.data
        case Message() if type(message).__name__.endswith("Tensor"):
            return _tensor(message)
    return message


def _event(event: messages.Event) -> Any:
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
    if isinstance(tensor, messages.StringTensor):
        return list(tensor.value)
    kind = _NUMBERS[type(tensor).__name__.removesuffix("Tensor").lower()]
    if isinstance(tensor, messages.ByteTensor):
        return np.frombuffer(tensor.value, np.int8).reshape(tensor.shape)
    return np.array(tensor.value, dtype=kind).reshape(tensor.shape)


def space_message_to_space(message: messages.Space) -> Space[Any]:
    """Return the space that a message describes.

    Raises:
        ValueError: when it describes none.
    """
    which = message.WhichOneof("value")
    if which is None:
        raise ValueError("the message describes no space")
    value = getattr(message, which)
    kind, _, form = which.rpartition("_")
    match form:
        case "value" if kind in _NUMBERS:
            low, high = _bounds(value)
            python = {"boolean": bool, "int64": np.int64, "float": np.float32, "double": float}[kind]
            return spaces.Scalar(name="", min=low, max=high, dtype=python)
        case "box":
            low, high = _tensor(value.low), _tensor(value.high)
            return spaces.Box(name="", low=low, high=high, shape=low.shape, dtype=_NUMBERS[kind])
        case "sequence" if kind in _NUMBERS:
            bounds = None
            if value.HasField("scalar_range"):
                low, high = _bounds(value.scalar_range)
                bounds = spaces.Scalar(name="", min=low, max=high, dtype=_NUMBERS[kind])
            if message.type_id == "permutation" and bounds is not None:
                return spaces.Permutation(name="", scalar_range=bounds)
            return _sequence(value, _NUMBERS[kind], bounds)
    match which:
        case "space_list" | "space_union":
            return spaces.Tuple([space_message_to_space(one) for one in value.space], name="")
        case "space_dict":
            return spaces.Dict({key: space_message_to_space(one) for key, one in value.space.items()}, name="")
        case "discrete":
            return spaces.Discrete(value.n, name="")
        case "named_discrete" if message.type_id == "commandline":
            flags = [spaces.CommandlineFlag(name=name, flag=name, description="") for name in value.name]
            return spaces.Commandline(flags, name="")
        case "named_discrete":
            return spaces.NamedDiscrete(value.name, name="")
        case "string_value" | "string_sequence":
            return _sequence(value, str)
        case "bytes_sequence":
            return _sequence(value, bytes)
        case "space_sequence":
            space = space_message_to_space(value.space)
            return spaces.SpaceSequence(name="", space=space, size_range=_lengths(value))
    raise ValueError(f"there is no space for {which}")


_LIMITS: dict[str, tuple[Any, Any]] = {
    "BooleanRange": (False, True),
    "Int64Range": (int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)),
}


def _bounds(bounds: Any) -> tuple[Any, Any]:
    low, high = _LIMITS.get(type(bounds).__name__, (-np.inf, np.inf))
    return (bounds.min if bounds.HasField("min") else low, bounds.max if bounds.HasField("max") else high)


def _lengths(value: Any) -> tuple[int, int]:
    low, high = _bounds(value.length_range)
    return (max(low, 0), high)


def _sequence(value: Any, dtype: Any, bounds: spaces.Scalar | None = None) -> spaces.Sequence:
    return spaces.Sequence(name="", size_range=_lengths(value), dtype=dtype, scalar_range=bounds)


def value_to_event(value: Any) -> messages.Event:
    """Return the event of an action or an observation.

    Raises:
        ValueError: when there is no event for such a value.
    """
    match value:
        case messages.Event():
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
            tensor = messages.ByteTensor(shape=[len(value)], value=value)
            return messages.Event(byte_tensor=tensor)
        case dict():
            entries = {key: value_to_event(one) for key, one in value.items()}
            return messages.Event(event_dict=messages.DictEvent(event=entries))
        case list() | tuple():
            return messages.Event(event_list=messages.ListEvent(event=[value_to_event(one) for one in value]))
        case np.ndarray() if value.dtype.kind in _EVENT_OF:
            name = _EVENT_OF[value.dtype.kind]
            values = value.ravel().tolist()
            return messages.Event(**{name: messages.Event.fields[name](shape=list(value.shape), value=values)})
    raise ValueError(f"there is no event for a value of type {type(value).__name__}: {value!r}")
