"""Validated records that read and write JSON, in place of the pydantic 1 models of CompilerGym.

If pydantic is installed, these records can be fields of its models. If the script has imported pydantic, invalid values
raise its `ValidationError`, which such scripts catch.
"""

import copy
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Self

REQUIRED: Any = object()


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a model.

    Attributes:
        convert: returns the value to store; raises ValueError or TypeError for an invalid value.
        default: the value if none is given; it is copied.
        frozen: whether it can only be set by the constructor.
    """

    convert: Callable[[Any], Any]
    default: Any = REQUIRED
    frozen: bool = False


def text(value: Any) -> str:
    """Return a str unchanged; raise TypeError for anything else."""
    if not isinstance(value, str):
        raise TypeError("str type expected")
    return str(value)


class Model:
    """A record whose fields are validated whenever they are set, with the methods of a pydantic 1 model.

    Subclasses define `_fields`. Unknown fields are ignored.
    """

    _fields: ClassVar[Mapping[str, Field]] = {}

    def __init__(self, **data: Any) -> None:
        problems: list[tuple[str, str, Any]] = []
        for name, field in self._fields.items():
            if name not in data and field.default is REQUIRED:
                problems.append((name, "field required", None))
                continue
            value = data[name] if name in data else copy.copy(field.default)
            try:
                self.__dict__[name] = field.convert(value) if name in data else value
            except (TypeError, ValueError) as error:
                problems.append((name, str(error), value))
        if problems:
            _refuse(type(self), problems)

    def __setattr__(self, name: str, value: Any) -> None:
        field = self._fields.get(name)
        if field is None:
            raise ValueError(f'"{type(self).__name__}" object has no field "{name}"')
        if field.frozen:
            raise TypeError(f'"{name}" has allow_mutation set to False and cannot be assigned')
        try:
            self.__dict__[name] = field.convert(value)
        except (TypeError, ValueError) as error:
            _refuse(type(self), [(name, str(error), value)])

    def dict(self, *, include: Any = None, exclude: Any = None, exclude_none: bool = False, **_: Any) -> dict[str, Any]:
        """Return the fields as a dictionary of plain values, optionally without some."""
        return {
            name: _plain(value)
            for name, value in self
            if (include is None or name in include)
            and name not in (exclude or ())
            and not (exclude_none and value is None)
        }

    def json(self, *, indent: int | None = None, **options: Any) -> str:
        """Return the fields as a JSON object; takes the arguments of `dict`, and `indent`."""
        return json.dumps(self.dict(**options), indent=indent, default=str)

    def copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False, **_: Any) -> Self:
        """Return a copy, optionally with some fields replaced; the new values are not validated."""
        other = copy.deepcopy(self) if deep else copy.copy(self)
        other.__dict__.update(update or {})
        return other

    @classmethod
    def parse_obj(cls, data: Any) -> Self:
        """Make a record from a dictionary."""
        if not isinstance(data, Mapping):
            _refuse(cls, [("__root__", f"{cls.__name__} expected dict not {type(data).__name__}", data)])
        return cls(**data)

    @classmethod
    def parse_raw(cls, text: str | bytes, **_: Any) -> Self:
        """Make a record from JSON as written by `json`."""
        try:
            data = json.loads(text)
        except ValueError as error:
            _refuse(cls, [("__root__", str(error), text)])
        return cls.parse_obj(data)

    @classmethod
    def validate(cls, value: Any) -> Self:
        """Return a record of this type unchanged, or make one from a dictionary."""
        return value if isinstance(value, cls) else cls.parse_obj(value)

    @classmethod
    def __get_validators__(cls) -> Iterator[Callable[[Any], Any]]:  # called by pydantic 1
        yield cls.validate

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:  # called by pydantic 2
        from pydantic_core import core_schema

        plain = core_schema.plain_serializer_function_ser_schema(lambda value: value.dict())
        return core_schema.no_info_plain_validator_function(cls.validate, serialization=plain)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return ((name, self.__dict__[name]) for name in self._fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self.dict() == other.dict()

    def __repr_args__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__repr_args__()})"

    def __str__(self) -> str:
        return self.__repr_args__().replace(", ", " ")


def _plain(value: Any) -> Any:
    """Convert all records in a value to dictionaries."""
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    as_dict = getattr(value, "dict", None)
    return as_dict() if callable(as_dict) else value


def _refuse(model: type[Model], problems: list[tuple[str, str, Any]]) -> NoReturn:
    """Raise an error about the fields of a model; pydantic's if the script has imported pydantic."""
    core: Any = sys.modules.get("pydantic_core")
    if core is not None:
        lines = [
            {"type": core.PydanticCustomError("value_error", message), "loc": (name,), "input": value}
            for name, message, value in problems
        ]
        raise core.ValidationError.from_exception_data(model.__name__, lines)
    pydantic: Any = sys.modules.get("pydantic")
    if pydantic is not None:
        wrapped = [pydantic.error_wrappers.ErrorWrapper(ValueError(text), loc=name) for name, text, _ in problems]
        raise pydantic.ValidationError(wrapped, model)
    count = f"{len(problems)} validation error{'s' if len(problems) > 1 else ''} for {model.__name__}"
    raise ValueError("\n".join([count, *(f"{name}\n  {message}" for name, message, _ in problems)]))
