"""Arrays as plain values, for processes that never import numpy, and their form on the wire.

On the wire an array is a header (dtype, number of dimensions, shape) and its elements, little-endian and in C order.
Everything is checked before memory is touched: a shape must describe exactly the bytes that came with it.
"""

import functools
import math
import struct
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from aiocg.transport import messages
from aiocg.transport.errors import LocalProtocolError
from aiocg.transport.limits import INLINE_BYTES, MAX_DIMENSIONS, MAX_FRAME_BYTES, MAX_NESTING
from aiocg.transport.messages import Candidate, Message, Value

if TYPE_CHECKING:
    import numpy
    from _typeshed import ReadableBuffer

Octets = bytes | memoryview

DTYPES: Final = {
    # name: (code on the wire, bytes per element, typestr of the array interface, format of `struct`)
    "bool": (0, 1, "|b1", "?"),
    "int8": (1, 1, "|i1", "b"),
    "int16": (2, 2, "<i2", "h"),
    "int32": (3, 4, "<i4", "i"),
    "int64": (4, 8, "<i8", "q"),
    "uint8": (5, 1, "|u1", "B"),
    "uint16": (6, 2, "<u2", "H"),
    "uint32": (7, 4, "<u4", "I"),
    "uint64": (8, 8, "<u8", "Q"),
    "float32": (9, 4, "<f4", "f"),
    "float64": (10, 8, "<f8", "d"),
}
_NAMES: Final = {code: name for name, (code, *_) in DTYPES.items()}


class Array:
    """An n-dimensional array as a value: `dtype` and `shape` describe `data`.

    `data` is any contiguous buffer, little-endian, in C order; it is kept, not copied, and must not change
    afterwards. `numpy.asarray(array)` shares its memory.

    Raises:
        LocalProtocolError: if dtype or shape are not allowed or do not match the data.
    """

    __slots__ = ("data", "dtype", "shape")

    def __init__(self, dtype: str, shape: Iterable[int], data: "ReadableBuffer") -> None:
        self.dtype = dtype
        self.shape = tuple(shape)
        self.data: Octets = data if type(data) is bytes else _octets(data)
        try:
            size = _byte_count(dtype, self.shape)
            if size != len(self.data) or dtype == "bool":
                check_data(dtype, self.shape, size, self.data)
        except ValueError as error:
            raise LocalProtocolError(f"not an array: {error}") from None

    @property
    def __array_interface__(self) -> dict[str, Any]:
        typestr = DTYPES[self.dtype][2]
        return {"version": 3, "shape": self.shape, "typestr": typestr, "data": self.data}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Array):
            return NotImplemented
        return (self.dtype, self.shape, self.data) == (other.dtype, other.shape, other.data)

    def __hash__(self) -> int:
        return hash((self.dtype, self.shape, bytes(self.data)))

    def __repr__(self) -> str:
        return f"Array({self.dtype!r}, {self.shape}, <{len(self.data)} bytes>)"

    def elements(self) -> list[Any]:
        """Return the elements as one flat list of Python numbers, in C order."""
        form = DTYPES[self.dtype][3]
        count = math.prod(self.shape)
        return list(struct.unpack(f"<{count}{form}", self.data))


def _octets(data: "ReadableBuffer") -> Octets:
    """View any contiguous buffer as bytes, without a copy if Python can do that."""
    view = memoryview(data)
    if not view.c_contiguous:
        raise LocalProtocolError("not an array: data is not contiguous in C order; copy it first")
    try:
        return view.cast("B")
    except TypeError:  # a foreign element format (ctypes), or a dimension of zero
        return bytes(view)


def _byte_count(dtype: str, shape: tuple[int, ...]) -> int:
    """Return the size in bytes of an array.

    Raises:
        ValueError: if dtype or shape are not allowed.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype {dtype!r} cannot be sent; use one of {', '.join(DTYPES)}")
    if len(shape) > MAX_DIMENSIONS:
        raise ValueError(f"{len(shape)} dimensions, more than {MAX_DIMENSIONS}")
    itemsize = DTYPES[dtype][1]
    count, extent = 1, itemsize
    for length in shape:
        if type(length) is not int or length < 0:
            raise ValueError(f"shape {shape} does not consist of non-negative ints")
        count *= length
        extent *= length or 1  # numpy multiplies like this, so it must stay small for empty arrays too
        if extent > MAX_FRAME_BYTES:
            raise ValueError(f"shape {shape} of {dtype} describes more than {MAX_FRAME_BYTES} bytes")
    return count * itemsize


@functools.lru_cache(256)
def pack_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Return the header that precedes an array's elements on the wire."""
    return struct.pack(f"<BB{len(shape)}Q", DTYPES[dtype][0], len(shape), *shape)


@functools.lru_cache(256)
def unpack_header(header: bytes) -> tuple[str, tuple[int, ...], int]:
    """Return dtype, shape and size in bytes of the array that a header describes.

    Raises:
        ValueError: if the header is invalid.
    """
    if len(header) < 2 or len(header) != 2 + 8 * header[1]:
        raise ValueError("array header is truncated, or followed by other data")
    if header[0] not in _NAMES:
        raise ValueError(f"array of unknown dtype code {header[0]}")
    dtype = _NAMES[header[0]]
    shape = struct.unpack(f"<{header[1]}Q", header[2:])
    return dtype, shape, _byte_count(dtype, shape)


def check_data(dtype: str, shape: tuple[int, ...], size: int, data: Octets) -> None:
    """Check that the elements of an array are complete and are values of its dtype.

    Raises:
        ValueError: if they are not; a bool other than 0 and 1 would be undefined behaviour in numpy.
    """
    if size != len(data):
        raise ValueError(f"shape {shape} of {dtype} needs {size} bytes, there are {len(data)}")
    if dtype == "bool" and bytes(data).translate(None, b"\0\1"):
        raise ValueError("array of bool with an element that is neither 0 nor 1")


def from_numpy(value: Any) -> Any:
    """Turn a numpy array into an `Array`, a numpy scalar into a Python one; return anything else as it is.

    An array's memory is shared if it is little-endian and in C order. This does not import numpy.

    Raises:
        LocalProtocolError: if the dtype cannot be sent.
    """
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, (numpy.ndarray, numpy.generic)):
        return value
    if value.dtype.name not in DTYPES:
        raise LocalProtocolError(f"numpy dtype {value.dtype.name!r} cannot be sent; use {', '.join(DTYPES)}")
    if isinstance(value, numpy.generic):
        return value.item()
    little = value.astype(value.dtype.newbyteorder("<"), order="C", copy=False)
    return Array(value.dtype.name, value.shape, little.data)


def to_numpy(dtype: str, shape: tuple[int, ...], data: Octets) -> "numpy.ndarray[Any, Any]":
    """Return a numpy array over checked `data`, sharing its memory; read-only, as `data` must be."""
    kind, element = _numpy_types(dtype)
    return kind(shape, element, data)


@functools.cache
def _numpy_types(dtype: str) -> "tuple[type[numpy.ndarray[Any, Any]], numpy.dtype[Any]]":
    import numpy  # here, so that a process that decodes no arrays does not import it

    return numpy.ndarray, numpy.dtype(DTYPES[dtype][2])


# ------------------------------ The values inside messages: which can be sent, and how they are converted for that

# Most messages contain only numbers and text, which fast loops of the interpreter recognise (`isdisjoint`,
# `issuperset`); only lists, dicts, arrays and byte strings are walked value by value.

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
