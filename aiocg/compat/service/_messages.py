"""CompilerGym's protocol buffer messages as Python classes, for benchmarks and user-defined services.

They behave like protocol buffers as far as scripts rely on it, and are written and read in the same wire format, in
which CompilerGym's `any_value` alone differs: it wraps an `Opaque` in protobuf's `Any`.
"""

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from aiocg.compat.service import wire

_DEFAULTS: dict[Any, Any] = {str: "", bytes: b"", int: 0, float: 0.0, bool: False}


class Message:
    """A record whose fields have types and defaults.

    Attributes:
        fields: the type of each field: a Python type, a message class, a list with one type for a repeated field, or a
            dictionary from str to one type for a map.
        oneofs: groups of fields of which at most one can be set.
        numbers: the number of each field in the wire format, and the word for its type in `messages.txt`.
    """

    fields: ClassVar[dict[str, Any]] = {}
    oneofs: ClassVar[dict[str, tuple[str, ...]]] = {}
    numbers: ClassVar[dict[str, tuple[int, str]]] = {}

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(_values={}, _given=set())
        for name, value in values.items():
            if name not in self.fields:
                raise ValueError(f"Protocol message {type(self).__name__} has no {name!r} field.")
            if value is not None:
                self._put(name, value)

    def _put(self, name: str, value: Any) -> None:
        kind = self.fields[name]
        if isinstance(kind, list):
            value = _Repeated(kind[0], value)
        elif isinstance(kind, dict):
            value = {key: _checked(name, kind[str], one) for key, one in value.items()}
        else:
            value = _checked(name, kind, value)
        for group in self.oneofs.values():
            for other in group if name in group else ():
                self._values.pop(other, None)
                self._given.discard(other)
        self._values[name] = value
        if not isinstance(kind, (list, dict)):
            self._given.add(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self.fields:
            raise AttributeError(f"a message {type(self).__name__} has no field {name!r}")
        kind = self.fields[name]
        if name not in self._values:
            if kind in _SCALARS:
                return _DEFAULTS[kind]
            # It counts as set once it is not empty.
            self._values[name] = (
                _Repeated(kind[0]) if isinstance(kind, list) else {} if isinstance(kind, dict) else kind()
            )
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.fields:
            raise AttributeError(f"a message {type(self).__name__} has no field {name!r}")
        if self.fields[name] not in _SCALARS:
            raise AttributeError(f"{type(self).__name__}.{name} cannot be assigned: use its CopyFrom() or extend()")
        self._put(name, value)

    def HasField(self, name: str) -> bool:
        """Return whether a field is set."""
        value = self._values.get(name)
        return name in self._given or bool(value._set() if isinstance(value, Message) else value)

    def WhichOneof(self, group: str) -> str | None:
        """Return the name of the field of a group that is set, or None."""
        return next((name for name in self.oneofs[group] if self.HasField(name)), None)

    def CopyFrom(self, other: Self) -> None:
        """Replace the content by that of another message."""
        values, given = copy.deepcopy((other._values, other._given))
        self.__dict__.update(_values=values, _given=given)

    def MergeFrom(self, other: Self) -> None:
        """Merge the fields that another message has set; repeated fields are concatenated."""
        for name, value in copy.deepcopy(other)._set().items():
            kind = self.fields[name]
            if isinstance(kind, list):
                getattr(self, name).extend(value)
            elif isinstance(kind, dict):
                getattr(self, name).update(value)
            elif isinstance(value, Message) and self.HasField(name):
                getattr(self, name).MergeFrom(value)
            else:
                self._put(name, value)

    def SerializeToString(self, deterministic: bool = True) -> bytes:
        """Return the message in the wire format; it is always deterministic."""
        return wire.encode(self)

    def ParseFromString(self, data: bytes) -> int:
        """Replace the content by what bytes in the wire format say, and return their number."""
        self.CopyFrom(self.FromString(data))
        return len(data)

    @classmethod
    def FromString(cls, data: bytes) -> Self:
        """Return the message of bytes in the wire format.

        Raises:
            ValueError: They are not the bytes of a message, or cut off.
        """
        message = cls()
        wire.decode(message, bytes(data))
        return message

    def _set(self) -> dict[str, Any]:
        return {name: self._values[name] for name in self.fields if name in self._values and self.HasField(name)}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._set() == other._set()

    __hash__ = None  # type: ignore[assignment]  # it is mutable

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._set().items())})"


class _Repeated(list[Any]):
    """The values of a repeated field."""

    def __init__(self, kind: Any, values: Iterable[Any] = ()) -> None:
        self._type = kind
        super().__init__(_checked("a repeated field", kind, value) for value in values)

    def add(self, **values: Any) -> Any:
        """Append a message with these field values, and return it."""
        self.append(self._type(**values))
        return self[-1]

    def __reduce__(self) -> tuple[Any, ...]:
        return _Repeated, (self._type, list(self))


def _checked(name: str, kind: Any, value: Any) -> Any:
    if kind in (int, float, bool) and hasattr(value, "__index__"):
        return kind(value)
    if kind is float and hasattr(value, "__float__"):
        return float(value)
    if kind is bytes and isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, Mapping) and issubclass(kind, Message):
        return kind(**value)
    if not isinstance(value, kind):
        raise TypeError(f"{name} takes {kind.__name__}, not {type(value).__name__}: {value!r}")
    return value


_PLAIN = Path(__file__).with_name("messages.txt").read_text("utf-8").replace("\n ", " ")
_BY_KIND = "".join(
    f"{kind}Tensor shape:[int] value:[{one}]\n{kind}Range min:{one} max:{one}\n"
    f"{kind}Box low:{kind}Tensor high:{kind}Tensor\n"
    f"{kind}SequenceSpace length_range:Int64Range scalar_range:{kind}Range\n"
    for kind, one in (("Boolean", "bool"), ("Int64", "sint"), ("Float", "single"), ("Double", "float"))
)

_SCALARS = (str, bytes, int, float, bool)


def _class(name: str) -> Any:
    return type(name, (Message,), {"__module__": __name__, "__doc__": f"CompilerGym's message `{name}`."})


_LINES = [line.split() for line in (_PLAIN + _BY_KIND).split("\n") if line and line[0] != "#"]
_CLASSES = {name: _class(name) for name, *_ in _LINES}
_TYPES = {**{one.__name__: one for one in _SCALARS}, "sint": int, "single": float, **_CLASSES}


def _type(text: str) -> Any:
    kind = _TYPES[text.strip("[]{}")]
    return [kind] if text.startswith("[") else {str: kind} if text.startswith("{") else kind


for _name, *_fields in _LINES:
    _numbered = [(number, *one.partition(":")[::2]) for number, one in enumerate(_fields, 1) if one != "-"]
    _CLASSES[_name].fields = {field: _type(kind) for _, field, kind in _numbered}
    _CLASSES[_name].numbers = {field: (number, kind.strip("[]{}")) for number, field, kind in _numbered}
_CLASSES["File"].oneofs = {"data": ("contents", "uri")}
for _name in ("Space", "Event"):
    _CLASSES[_name].oneofs = {"value": tuple(_CLASSES[_name].fields)[1:]}
globals().update(_CLASSES)

__all__ = sorted(_CLASSES)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
