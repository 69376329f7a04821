"""Messages with the habits of protocol buffers, without the protocol: nothing here is ever sent in their form."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

__all__ = ["Message"]

_DEFAULTS: dict[type, Any] = {str: "", bytes: b"", int: 0, float: 0.0, bool: False}


class Message:
    """A record whose fields have types and defaults.

    Attributes:
        fields: the type of each field: one of Python's for a value, another class of messages, a list of one type for a
            field that is repeated, or a dictionary of one for one that is by keys.
        oneofs: groups of fields of which at most one is set.
    """

    fields: ClassVar[Mapping[str, Any]] = {}
    oneofs: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def __init__(self, **values: Any) -> None:
        self.__dict__["_values"] = {}
        self.__dict__["_given"] = set()
        for name, value in values.items():
            if value is not None:
                self._put(name, value)

    def _put(self, name: str, value: Any) -> None:
        kind = self._kind(name)
        if isinstance(kind, list):
            value = _Repeated(kind[0], value)
        elif isinstance(kind, dict):
            value = {key: _checked(name, kind[str], one) for key, one in value.items()}
        else:
            value = _checked(name, kind, value)
        for group in self.oneofs.values():
            if name in group:
                for other in group:
                    self.ClearField(other)
        self._values[name] = value
        self._given.add(name)

    def _kind(self, name: str) -> Any:
        if name not in self.fields:
            raise ValueError(f"Protocol message {type(self).__name__} has no {name!r} field.")
        return self.fields[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self.fields:
            raise AttributeError(f"a message {type(self).__name__} has no field {name!r}")
        if name not in self._values:
            kind = self.fields[name]
            if kind in (str, bytes, int, float, bool):
                return _DEFAULTS[kind]
            empty = _Repeated(kind[0], ()) if isinstance(kind, list) else {} if isinstance(kind, dict) else kind()
            self._values[name] = empty  # it is set as soon as something is put into it
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        kind = self.fields.get(name)
        if kind is None:
            raise AttributeError(f"a message {type(self).__name__} has no field {name!r}")
        if kind not in (str, bytes, int, float, bool):
            raise AttributeError(f"{type(self).__name__}.{name} is not assigned to: use its CopyFrom() or extend()")
        self._put(name, value)

    def HasField(self, name: str) -> bool:
        """Is a field set?"""
        self._kind(name)
        return name in self._given or (name in self._values and _is_full(self._values[name]))

    def WhichOneof(self, group: str) -> str | None:
        """Return the field of a group that is set, None if none is."""
        if group not in self.oneofs:
            raise ValueError(f"a message {type(self).__name__} has no group {group!r}")
        return next((name for name in self.oneofs[group] if self.HasField(name)), None)

    def ClearField(self, name: str) -> None:
        """Set a field back to its default."""
        self._kind(name)
        self._values.pop(name, None)
        self._given.discard(name)

    def Clear(self) -> None:
        """Set all fields back to their defaults."""
        self._values.clear()
        self._given.clear()

    def CopyFrom(self, other: Self) -> None:
        """Become equal to another message of the class."""
        if type(other) is not type(self):
            raise TypeError(f"expected a message {type(self).__name__}, not {type(other).__name__}")
        if other is not self:
            values, given = copy.deepcopy((other._values, other._given))
            self.__dict__.update(_values=values, _given=given)

    def MergeFrom(self, other: Self) -> None:
        """Take over the fields that another message has set; what is repeated is added."""
        for name, value in copy.deepcopy(other).ListFields():
            kind = self.fields[name]
            if isinstance(kind, list):
                getattr(self, name).extend(value)
            elif isinstance(kind, dict):
                getattr(self, name).update(value)
            elif isinstance(value, Message) and self.HasField(name):
                getattr(self, name).MergeFrom(value)
            else:
                self._put(name, value)

    def ListFields(self) -> list[tuple[str, Any]]:
        """Return names and values of the fields that are set."""
        return [(name, self._values[name]) for name in self.fields if name in self._values and self.HasField(name)]

    def IsInitialized(self) -> bool:
        """Return True: no field is required."""
        return True

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and dict(self.ListFields()) == dict(other.ListFields())

    def __hash__(self) -> int:
        raise TypeError(f"a message {type(self).__name__} can change, and has no hash")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.ListFields())})"


class _Repeated(list[Any]):
    """The values of a repeated field."""

    def __init__(self, kind: Any, values: Iterable[Any]) -> None:
        self._type = kind
        super().__init__(_checked("a repeated field", kind, value) for value in values)

    def add(self, **values: Any) -> Any:
        """Append a message made of values of its fields, and return it."""
        self.append(self._type(**values))
        return self[-1]

    def __reduce__(self) -> tuple[Any, ...]:
        return _Repeated, (self._type, list(self))


def _is_full(value: Any) -> bool:
    return bool(value.ListFields()) if isinstance(value, Message) else bool(value)


def _checked(name: str, kind: Any, value: Any) -> Any:
    if kind is bool and isinstance(value, (bool, int)):
        return bool(value)
    if kind in (int, float) and hasattr(value, "__index__"):
        return kind(value)
    if kind is float and hasattr(value, "__float__") and not isinstance(value, str):
        return float(value)
    if kind is bytes and isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, Mapping) and isinstance(kind, type) and issubclass(kind, Message):
        return kind(**value)
    if not isinstance(value, kind):
        raise TypeError(f"{name} takes {kind.__name__}, not {type(value).__name__}: {value!r}")
    return value
