"""The wire format of protocol buffers, for the messages of CompilerGym 0.2.5."""

import struct
from collections.abc import Iterator
from typing import Any

_VARINT, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5
_FIXED = {"float": (_EIGHT_BYTES, "<d"), "single": (_FOUR_BYTES, "<f")}
_VARINTS = ("int", "sint", "bool")
_WORD = (1 << 64) - 1


def encode(message: Any) -> bytes:
    """Return the bytes of a message, fields in the order of their numbers.

    A number or text that has been set to its default is written too. Readers take that for the same message.
    """
    parts = []
    for name, (number, coding) in message.numbers.items():
        if not message.HasField(name):
            continue
        kind, value = message.fields[name], getattr(message, name)
        if isinstance(kind, dict):
            for key in sorted(value):
                parts.append(_sized(number, _one(1, "str", key) + _one(2, coding, value[key])))
        elif not isinstance(kind, list):
            parts.append(_one(number, coding, value))
        elif coding in _FIXED or coding in _VARINTS:
            parts.append(_sized(number, b"".join(_scalar(coding, one) for one in value)))
        else:
            parts.extend(_one(number, coding, one) for one in value)
    return b"".join(parts)


def _one(number: int, coding: str, value: Any) -> bytes:
    if coding in _FIXED or coding in _VARINTS:
        kind = _FIXED[coding][0] if coding in _FIXED else _VARINT
        return _varint(number << 3 | kind) + _scalar(coding, value)
    if coding == "str":
        value = value.encode("utf-8")
    return _sized(number, value if isinstance(value, bytes) else encode(value))


def _sized(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _SIZED) + _varint(len(data)) + data


def _scalar(coding: str, value: Any) -> bytes:
    if coding in _FIXED:
        return struct.pack(_FIXED[coding][1], value)
    return _varint(value << 1 ^ value >> 63 if coding == "sint" else int(value))


def _varint(value: int) -> bytes:
    value &= _WORD
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def decode(message: Any, data: bytes) -> None:
    """Merge the fields found in bytes into a message; fields that it does not know are skipped.

    Raises:
        ValueError: These are not the bytes of a message, or they are cut off.
    """
    names = {number: (name, coding) for name, (number, coding) in message.numbers.items()}
    for number, value in _fields(data):
        if number not in names:
            continue
        name, coding = names[number]
        kind = message.fields[name]
        one = kind[0] if isinstance(kind, list) else kind[str] if isinstance(kind, dict) else kind
        if isinstance(kind, dict):
            entry = dict(_fields(_bytes(value)))
            found = _value(one, coding, entry[2]) if 2 in entry else one()
            getattr(message, name)[_value(str, "str", entry.get(1, b""))] = found
        elif not isinstance(kind, list):
            message.MergeFrom(type(message)(**{name: _value(one, coding, value)}))
        elif (coding in _FIXED or coding in _VARINTS) and isinstance(value, bytes):
            getattr(message, name).extend(_packed(coding, value))
        else:
            getattr(message, name).append(_value(one, coding, value))


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _read_varint(data, at)
            yield key >> 3, value
            continue
        if kind == _SIZED:
            size, at = _read_varint(data, at)
        elif kind in (_FOUR_BYTES, _EIGHT_BYTES):
            size = 4 if kind == _FOUR_BYTES else 8
        else:
            raise ValueError(f"not the bytes of a message: wire type {kind} at byte {at}")
        if at + size > len(data):
            raise ValueError(f"the message is cut off: {size} bytes expected at byte {at}, {len(data) - at} left")
        yield key >> 3, data[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(data[at : at + 10]):
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value & _WORD, at + place + 1
    raise ValueError(f"the message is cut off, or not one: no number ends after byte {at}")


def _packed(coding: str, data: bytes) -> Iterator[Any]:
    if coding in _FIXED:
        form = _FIXED[coding][1]
        if len(data) % struct.calcsize(form):
            raise ValueError(f"the message is cut off: {len(data)} bytes are no list of numbers")
        yield from (value for (value,) in struct.iter_unpack(form, data))
        return
    at = 0
    while at < len(data):
        value, at = _read_varint(data, at)
        yield _integer(coding, value)


def _integer(coding: str, value: int) -> Any:
    if coding == "bool":
        return bool(value)
    if coding == "sint":
        return value >> 1 ^ -(value & 1)
    return value - (1 << 64) if value >> 63 else value


def _value(kind: Any, coding: str, value: Any) -> Any:
    if coding in _VARINTS:
        if not isinstance(value, int):
            raise ValueError(f"not the bytes of this message: {value!r} where a number was expected")
        return _integer(coding, value)
    value = _bytes(value)
    if coding in _FIXED:
        form = _FIXED[coding][1]
        if len(value) != struct.calcsize(form):
            raise ValueError(f"not the bytes of this message: {len(value)} bytes where a number was expected")
        return struct.unpack(form, value)[0]
    if coding in ("str", "bytes"):
        return str(value, "utf-8") if coding == "str" else value
    message = kind()
    decode(message, value)
    return message


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError(f"not the bytes of this message: the number {value} where bytes were expected")
    return value
