"""Values with checked fields that read and write JSON: what CompilerGym used pydantic 1 for, without needing it.

Where pydantic is there, values are accepted as fields of its models, and what is wrong with a value is raised as its
`ValidationError`, which is what scripts catch that import it.
"""

import copy
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Self

__all__ = ["Field", "Model"]

REQUIRED: Any = object()


@dataclass(frozen=True, slots=True)
class Field:
    """What one field of a model may be.

    Attributes:
        convert: returns the value as it is kept, and raises ValueError or TypeError for one that is wrong.
        default: what it is when it is not given; lists and dictionaries are copied.
        frozen: whether it can only be set when the value is made.
    """

    convert: Callable[[Any], Any]
    default: Any = REQUIRED
    frozen: bool = False


class Model:
    """A value whose fields are checked whenever they are set, with the methods of a pydantic 1 model.

    Subclasses define `_fields`. Fields that a subclass does not know are ignored.
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
        """Return the fields as a dictionary of plain values.

        Args:
            include: names of the fields that are wanted, all if None.
            exclude: names of fields that are not.
            exclude_none: leave out fields that are None.
        """
        return {
            name: _plain(value)
            for name, value in self
            if (include is None or name in include)
            and name not in (exclude or ())
            and not (exclude_none and value is None)
        }

    def json(self, *, indent: int | None = None, **options: Any) -> str:
        """Return the fields as a JSON object; takes what `dict` takes, and an `indent`."""
        return json.dumps(self.dict(**options), indent=indent, default=str)

    def copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False, **_: Any) -> Self:
        """Return a copy.

        Args:
            update: fields that are otherwise; they are not checked.
            deep: also copy the values of the fields.
        """
        other = copy.deepcopy(self) if deep else copy.copy(self)
        other.__dict__.update(update or {})
        return other

    @classmethod
    def parse_obj(cls, data: Any) -> Self:
        """Make a value of a dictionary.

        Raises:
            ValueError: when it is none, or a field is wrong.
        """
        if not isinstance(data, Mapping):
            _refuse(cls, [("__root__", f"{cls.__name__} expected dict not {type(data).__name__}", data)])
        return cls(**data)

    @classmethod
    def parse_raw(cls, text: str | bytes, **_: Any) -> Self:
        """Make a value of the JSON that `json` wrote.

        Raises:
            ValueError: when it is not a JSON object, or a field is wrong.
        """
        try:
            data = json.loads(text)
        except ValueError as error:
            _refuse(cls, [("__root__", str(error), text)])
        return cls.parse_obj(data)

    @classmethod
    def validate(cls, value: Any) -> Self:
        """Return a value of this type, made of a dictionary if it is none.

        Raises:
            ValueError: when it cannot be one.
        """
        return value if isinstance(value, cls) else cls.parse_obj(value)

    @classmethod
    def __get_validators__(cls) -> Iterator[Callable[[Any], Any]]:  # how pydantic 1 takes it as a field
        yield cls.validate

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:  # how pydantic 2 does
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
    """Return a value with all that has fields in it as dictionaries."""
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    as_dict = getattr(value, "dict", None)
    return as_dict() if callable(as_dict) else value


def _refuse(model: type[Model], problems: list[tuple[str, str, Any]]) -> NoReturn:
    """Raise what is wrong with the fields of a model, as pydantic's error if the script has pydantic."""
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
