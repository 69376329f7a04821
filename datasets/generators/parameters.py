"""What the query of a benchmark's URI may say: `?max-funcs=3&pointers=no` is a whole number and a switch."""

import dataclasses
import difflib
import re
from collections.abc import Mapping

from aiocg.datasets.errors import InvalidBenchmarkUri
from aiocg.datasets.uri import BenchmarkUri

__all__ = ["Choice", "Integer", "Parameter", "Switch", "Value", "read_parameters"]

Value = bool | int | str
"""The value of a parameter: of a `Switch`, an `Integer` or a `Choice`."""

_NUMBER = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)
_SWITCH = {"yes": True, "no": False}


@dataclasses.dataclass(frozen=True, slots=True)
class Integer:
    """A parameter that is a whole number.

    Attributes:
        low: the least.
        high: the greatest.
        default: what it is when nothing is said, where that is worth knowing.
    """

    low: int
    high: int
    default: int | None = None

    def parse(self, text: str) -> int | None:
        """Return the value that a URI spells so; None when there is none."""
        if len(text) > 20 or not _NUMBER.fullmatch(text):
            return None
        number = int(text)
        return number if self.low <= number <= self.high else None

    def __str__(self) -> str:
        default = "" if self.default is None else f", by default {self.default}"
        return f"a whole number from {self.low} to {self.high}{default}"


@dataclasses.dataclass(frozen=True, slots=True)
class Switch:
    """A parameter that is "yes" or "no"; a bool in Python."""

    def parse(self, text: str) -> bool | None:
        """Return the value that a URI spells so; None when there is none."""
        return _SWITCH.get(text)

    def __str__(self) -> str:
        return "'yes' or 'no'"


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """A parameter that is one of some words.

    Attributes:
        words: the words.
    """

    words: tuple[str, ...]

    def parse(self, text: str) -> str | None:
        """Return the value that a URI spells so; None when there is none."""
        return text if text in self.words else None

    def __str__(self) -> str:
        return f"one of {', '.join(map(repr, self.words))}"


Parameter = Integer | Switch | Choice


def read_parameters(
    uri: BenchmarkUri, owner: str, parameters: Mapping[str, Parameter], example: BenchmarkUri
) -> dict[str, Value]:
    """Return the values that a URI gives to parameters, in the order of these.

    Args:
        uri: the name of a benchmark.
        owner: what has the parameters, for errors.
        parameters: by name.
        example: a name of the same kind, which errors show with a parameter.

    Raises:
        InvalidBenchmarkUri: when there is no such parameter, it is given twice, or it cannot have that value.
    """

    def refused(reason: str, name: str = "") -> InvalidBenchmarkUri:
        name = name or next(iter(parameters), "")
        params = ((name, _example(parameters[name])),) if name else ()
        return InvalidBenchmarkUri(str(uri), reason, str(dataclasses.replace(example, params=params)))

    given: dict[str, Value] = {}
    for name, text in uri.params:
        parameter = parameters.get(name)
        if parameter is None:
            raise refused(_unknown(name, owner, parameters))
        if name in given:
            raise refused(f"the parameter {name!r} is given twice")
        value = parameter.parse(text)
        if value is None:
            raise refused(f"the parameter {name!r} cannot be {text!r}; it is {parameter}", name)
        given[name] = value
    return {name: given[name] for name in parameters if name in given}


def _unknown(name: str, owner: str, parameters: Mapping[str, Parameter]) -> str:
    if not parameters:
        return f"{owner} has no parameters"
    near = difflib.get_close_matches(name, parameters, n=1) or [name.removeprefix("no-")]
    if near[0] in parameters:
        return f"{owner} has no parameter {name!r}; did you mean {near[0]!r}, which is {parameters[near[0]]}?"
    return f"{owner} has no parameter {name!r}; it has {', '.join(parameters)}"


def _example(parameter: Parameter) -> str:
    if isinstance(parameter, Integer):
        return str(parameter.high if parameter.default is None else parameter.default)
    return parameter.words[0] if isinstance(parameter, Choice) else "no"
