"""The values inside messages: which can be sent, and how they are converted for that.

Most messages contain only numbers and text, which fast loops of the interpreter recognise (`isdisjoint`, `issuperset`);
only lists, dicts, arrays and byte strings are walked value by value.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from types import NoneType
from typing import Any, Final

import msgspec

from aiocg.transport import messages
from aiocg.transport.arrays import Array, from_numpy
from aiocg.transport.errors import LocalProtocolError
from aiocg.transport.limits import INLINE_BYTES, MAX_NESTING
from aiocg.transport.messages import Candidate, Message, Value

Lift = Callable[[bytes | Array], msgspec.msgpack.Ext]

# The field of each message type that holds values, and its type; the other fields are checked statically.
_VALUE_FIELD: Final[dict[type, tuple[str, type | tuple[type, ...]]]] = {
    messages.Load: ("content", (bytes, bytearray, memoryview)),
    messages.Store: ("content", (bytes, bytearray, memoryview)),
    messages.Step: ("actions", (tuple, list)),
    messages.Expand: ("candidates", (tuple, list)),
    messages.Observed: ("observations", (tuple, list)),
    messages.Expanded: ("candidates", (tuple, list)),
    messages.Failure: ("fields", dict),
    messages.Welcome: ("observation_spaces", (tuple, list)),
}
_NONE: Final = (None, object)
_PLAIN: Final = frozenset({NoneType, bool, int, float, str})
_KEYS: Final = frozenset({NoneType, bool, int, float, str, bytes})
_STRUCTS: Final[dict[type, str]] = {Candidate: "observations", messages.ObservationSpec: "default"}
_WALKED: Final = frozenset({list, tuple, dict, datetime, *_STRUCTS})  # decoded types that need a closer look
_TOO_DEEP = f"lists and dicts are nested more than {MAX_NESTING} deep"
_TRAVELS = "None, bool, int, float, str, bytes, list, dict, numpy.ndarray or aiocg.transport.arrays.Array"


class ValueRefusedError(Exception):
    """A value cannot be sent; `path` leads to it from where the walk began."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = ""


def outgoing(message: Message, lift: Lift) -> Message:
    """Return the message with byte strings and arrays replaced by the results of `lift`.

    Raises:
        ValueRefusedError: if the message contains a value that cannot be sent.
    """
    field, expected = _VALUE_FIELD.get(type(message), _NONE)
    if field is None:
        return message
    value = getattr(message, field)
    try:
        if not isinstance(value, expected):
            raise ValueRefusedError(f"it is of type {type(value).__name__}")
        if type(value) is not tuple:
            prepared = _prepare(value, lift, 0)
        elif _PLAIN.issuperset(map(type, value)):  # the usual case
            return message
        else:
            prepared = _prepare_items(value, lift, 0)
    except ValueRefusedError as error:
        error.path = f".{field}{error.path}"
        raise
    if prepared is value:
        return message
    return msgspec.structs.replace(message, **{field: prepared})


def _prepare(value: Value, lift: Lift, depth: int) -> Value:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple or kind is list:
        return value if _PLAIN.issuperset(map(type, value)) else _prepare_items(value, lift, depth)
    if kind is bytes:
        return lift(value) if len(value) >= INLINE_BYTES else value
    if kind is Array:
        return lift(value)
    if kind is dict:
        return _prepare_dict(value, lift, depth)
    if kind in _STRUCTS:
        field = _STRUCTS[kind]
        held = getattr(value, field)
        prepared = _at(f".{field}", held, lift, depth)
        return value if prepared is held else msgspec.structs.replace(value, **{field: prepared})
    return _prepare(_converted(value), lift, depth)


def _prepare_items(items: Iterable[Value], lift: Lift, depth: int) -> Value:
    if depth >= MAX_NESTING:
        raise ValueRefusedError(_TOO_DEEP)
    if depth == 0:
        try:
            return tuple(
                [
                    item if type(item) in _PLAIN else lift(item) if type(item) is Array else _prepare(item, lift, 1)
                    for item in items
                ]
            )
        except ValueRefusedError:
            pass  # walk the items again, to find out which one
    return tuple(_at(f"[{index}]", item, lift, depth + 1) for index, item in enumerate(items))


def _prepare_dict(mapping: dict[Any, Value], lift: Lift, depth: int) -> Value:
    if depth >= MAX_NESTING:
        raise ValueRefusedError(_TOO_DEEP)
    if not _KEYS.issuperset(map(type, mapping)):
        wrong = next(key for key in mapping if type(key) not in _KEYS)
        raise ValueRefusedError(f"a dict key of type {type(wrong).__name__} cannot be sent; use str or int")
    if _PLAIN.issuperset(map(type, mapping.values())):
        return mapping
    return {key: _at(f"[{key!r}]", item, lift, depth + 1) for key, item in mapping.items()}


def _at(step: str, value: Value, lift: Lift, depth: int) -> Value:
    try:
        return _prepare(value, lift, depth)
    except ValueRefusedError as error:
        error.path = step + error.path
        raise


def _converted(value: Value) -> Value:
    """Convert a related type (a numpy scalar, an IntEnum, a bytearray) to one that can be sent."""
    try:
        portable = from_numpy(value)
    except LocalProtocolError as error:
        raise ValueRefusedError(str(error)) from None
    if portable is not value:
        return portable
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    for base, exact in ((int, int), (float, float), (str, str.__str__)):
        if isinstance(value, base):
            return exact(value)
    raise ValueRefusedError(f"a value of type {type(value).__name__} cannot be sent; use {_TRAVELS}")


def check_incoming(batch: list[Any]) -> None:
    """Check the parts of a decoded batch that the types of the messages leave open.

    Raises:
        ValueRefusedError: if a message contains a value that must not be sent.
    """
    for message in batch:
        kind = type(message)
        field, _ = _VALUE_FIELD.get(kind, _NONE)
        if field is None:
            continue
        value = getattr(message, field)
        if kind is messages.Load:
            if type(value) is not bytes:
                raise ValueRefusedError(f"Load.content is of type {type(value).__name__}, not bytes")
        elif type(value) is dict or not _WALKED.isdisjoint(map(type, value)):
            _check(value, 0)


def _check(value: Value, depth: int) -> None:
    kind = type(value)
    if kind is datetime:
        raise ValueRefusedError("a timestamp is not a value")
    if kind in _STRUCTS:
        _check(getattr(value, _STRUCTS[kind]), depth)
    elif kind in _WALKED:
        if depth > MAX_NESTING:
            raise ValueRefusedError(_TOO_DEEP)
        if kind is dict:
            if not _KEYS.issuperset(map(type, value)):
                raise ValueRefusedError("a dict key is neither a number nor text")
            value = value.values()
        if not _WALKED.isdisjoint(map(type, value)):
            for item in value:
                _check(item, depth + 1)
