"""Building the text of a random function: indentation, cost, expressions in scope, and calls."""

import contextlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aiocg.datasets.generators.random_c._expressions import Expressions
from aiocg.datasets.generators.random_c._rng import Rng
from aiocg.datasets.generators.random_c._scope import Array, Function, Lvalue, Record, Scope
from aiocg.datasets.generators.random_c._types import U64, Real, Scalar
from aiocg.datasets.generators.random_c._values import Value, fit

_TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("cost.toml").read_text(encoding="utf-8"))
_WEIGHT: dict[str, float] = {
    kind: weight for kinds in ("words", "signs") for kind, (weight, _) in _TABLES[kinds].items()
}


def _alternatives(kinds: str) -> str:
    patterns = ((kind, pattern.replace("TYPE", _TABLES["type"])) for kind, (_, pattern) in _TABLES[kinds].items())
    return "|".join(f"(?P<{kind}>{pattern})" for kind, pattern in patterns)


_TOKEN = re.compile(rf"(?=\w)(?:{_alternatives('words')})|(?=[^\w\s])(?:{_alternatives('signs')})", re.MULTILINE)


def estimate(text: str) -> int:
    """Estimate the number of instructions of definitions, or of statements, which must be indented."""
    return round(sum(_WEIGHT[match.lastgroup or "nothing"] for match in _TOKEN.finditer(text)))


class Block:
    """The growing text of one function, and what its next line may use.

    Args:
        work: how many instructions one call may execute.
        result: what the function returns; its text is not used.
        whole: whether the statements are the whole function, which may return early.

    Attributes:
        spent: how many instructions it has.
        work: how many instructions one call executes, at most.
    """

    def __init__(self, rng: Rng, scope: Scope, work: int, result: Lvalue, *, whole: bool = True) -> None:
        self.lines: list[str] = []
        self.work = 0
        self._rng = rng
        self.scope = scope
        self._work_limit = work
        self._result = result
        self._whole = whole
        self._frequency = 1  # how often the present block is executed, at most
        self._depth = 1
        self.spent = 0
        self._names = 0
        self._in_loop = False

    def write(self, line: str) -> None:
        """Write a line as it is."""
        self.lines.append("    " * self._depth + line)
        cost = estimate(self.lines[-1])
        self.spent += cost
        self.work += cost * self._frequency

    @contextlib.contextmanager
    def _nested(self, opening: str, trips: int = 1, closing: str = "}") -> Iterator[None]:
        """Write a compound statement around a block with a scope of its own."""
        outer = self.scope, self._in_loop
        self.write(opening)
        self.scope = self.scope.inner()
        self._in_loop = self._in_loop or trips > 1
        self._frequency *= trips
        self._depth += 1
        yield
        self._depth -= 1
        self._frequency //= trips
        self.scope, self._in_loop = outer
        self.write(closing)

    def _name(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"

    @contextlib.contextmanager
    def _expressions(self) -> Iterator[Expressions]:
        allowed = max(0, (self._work_limit - self.work) // (2 * self._frequency))
        expressions = Expressions(self._rng, self.scope, allowed)
        yield expressions
        self.work += (allowed - expressions.work_left) * self._frequency

    def _value(self, kind: Scalar, left: int) -> Value:
        depth = self._rng.below(2 + (left > 12) + (left > 24))
        with self._expressions() as expressions:
            return expressions.of_type(kind, depth)

    def _condition(self, depth: int = 2) -> Value:
        with self._expressions() as expressions:
            return expressions.condition(depth)

    def _element(self, array: Array) -> Lvalue:
        with self._expressions() as expressions:
            return expressions.element(array)

    def _called(self, function: Function) -> str:
        self.work += function.work * self._frequency
        arguments = ", ".join(self._argument(function, index) for index in range(len(function.parameters)))
        return f"{function.name}({arguments})"

    def _arguments_exist(self, function: Function) -> bool:
        """Return whether there is a distinct array, or a structure, for each such parameter."""
        wanted = [p for p in function.parameters if isinstance(p, Array)]
        for parameter in wanted:
            count = sum(parameter.is_like(other) for other in wanted)
            if len(_matching(self.scope, parameter, alone=count > 1)) < count:
                return False
        records = [p for p in function.parameters if isinstance(p, Record)]
        return all(_matching_records(self.scope, parameter) for parameter in records)

    def _argument(self, function: Function, index: int) -> str:
        parameter = function.parameters[index]
        if isinstance(parameter, Lvalue):
            value = self._value(parameter.type, 6)
            return fit(value, parameter.type, parameter.low, parameter.high).text
        if isinstance(parameter, Record):
            record = self._rng.choice(_matching_records(self.scope, parameter))
            return record.address if parameter.pointer else record.whole
        assert isinstance(parameter, Array)
        alike = [p for p in function.parameters if isinstance(p, Array) and parameter.is_like(p)]
        return _matching(self.scope, parameter, alone=len(alike) > 1)[alike.index(parameter)].text


def mixed(value: Value) -> str:
    """Make 64 bits of a number, in C."""
    if isinstance(value.type, Real):
        return f"(uint64_t)(int64_t)({value} * 16.0)"
    return value.text if value.type == U64 else f"(uint64_t){value}"


def _matching(scope: Scope, parameter: Array, *, alone: bool) -> list[Array]:
    """Return the arrays that can be arguments for a parameter, last declared first.

    Where two arguments must be different arrays, members of structures are left out: their pointers may be equal.
    """
    found = [array for array in scope.arrays if array.is_like(parameter) and array.writable >= parameter.writable]
    return [array for array in found[::-1] if not alone or array.text.isidentifier()]


def _matching_records(scope: Scope, parameter: Record) -> list[Record]:
    return [
        record
        for record in scope.records
        if record.structure == parameter.structure
        and (record.writable or not parameter.pointer or not parameter.writable)
    ]
