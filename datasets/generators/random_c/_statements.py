"""Random functions: their statements, and the text that these are built into."""

import contextlib
import dataclasses
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from aiocg.datasets.generators.random_c._expressions import Expressions
from aiocg.datasets.generators.random_c._scope import Array, Function, Lvalue, Record, Scope
from aiocg.datasets.generators.random_c._values import (
    F64,
    I32,
    INTEGERS,
    REALS,
    U8,
    U32,
    U64,
    Integer,
    Real,
    Rng,
    Scalar,
    Value,
    arithmetic,
    bitwise,
    compare,
    constant,
    fit,
    wrapped,
)

_TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("cost.toml").read_text(encoding="utf-8"))
_WEIGHT: dict[str, float] = {kind: weight for kind, (weight, _) in (_TABLES["words"] | _TABLES["signs"]).items()}


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
    alike = [record for record in scope.records if record.structure == parameter.structure]
    return [record for record in alike if record.writable or not (parameter.pointer and parameter.writable)]


MAX_DEPTH = 4
_MAX_TRIPS = 4096  # of the innermost loop in one call
_CASES = ((0, 1, 2, 3), (0, 1, 2, 3, 4, 5), (1, 2, 4, 8, 16, 32), (3, 10, 17, 24), (7, 40, 41, 90))


class Body(Block):
    """The statements of one function, chosen at random."""

    def fill(self, budget: int) -> None:
        """Write statements that are worth so many instructions."""
        end = self.spent + budget
        while (left := end - self.spent) > 2:
            affordable = [(weight, kind) for weight, least, kind in _STATEMENTS if least <= left]
            before = self.spent
            self._rng.weighted(affordable or [(1, Body._assignment)])(self, left)
            if self.spent == before:
                self._assignment(left)

    def finish(self, depth: int) -> None:
        """Return an expression with at most so many operations below each other."""
        with self._expressions() as expressions:
            value = expressions.of_type(self._result.type, depth)
        self.write(f"return {fit(value, self._result.type, self._result.low, self._result.high).text};")

    def accumulate(self, total: str, function: Function) -> None:
        """Call a function and mix what it returns into a variable of 64 bits."""
        factor = self._rng.choice((31, 33, 131, 1000003))
        called = dataclasses.replace(function.result, text=self._called(function)).value
        self.write(f"{total} = {total} * {factor} + {mixed(called)};")

    def _target(self) -> Lvalue | None:
        """Choose something to assign to."""
        arrays = [array for array in self.scope.arrays if array.writable]
        lvalues = [lvalue for lvalue in self.scope.lvalues if lvalue.writable]
        if arrays and (not lvalues or self._rng.chance(40)):
            return self._element(self._rng.choice(arrays))
        return self._rng.choice(lvalues[-8:]) if lvalues else None

    def _assignment(self, left: int) -> None:
        target = self._target()
        if target is None:
            return self._declaration(left)
        value = self._value(target.type, left)
        if value.text == target.text:
            value = arithmetic("+", value, constant(1))
        if isinstance(target.type, Integer) and self._rng.chance(25) and self._update(target, value):
            return None
        self.write(f"{target.text} = {fit(value, target.type, target.low, target.high).text};")
        return None

    def _update(self, target: Lvalue, value: Value) -> bool:
        """Write `target op= value` if that says the same as the whole assignment, without overflow."""
        assert isinstance(target.type, Integer)
        if (target.low, target.high) != (target.type.low, target.type.high):
            return False
        value = value if isinstance(value.type, Integer) else wrapped(fit(value, I32, I32.low, I32.high), 256)
        operator = self._rng.choice(("+", "-", "*", "^", "|", "&"))
        combine = arithmetic if operator in "+-*" else bitwise
        plain = combine(operator, target.value, value)
        if plain.text != f"{target.value} {operator} {value}":
            return False
        self.write(f"{target.text} {operator}= {value.text};")
        return True

    def _declaration(self, left: int) -> None:
        kind: Scalar = self._rng.choice(REALS) if self._rng.chance(15) else self._rng.choice((*INTEGERS, I32, U32, U64))
        before = self.work
        value = self._value(kind, left)
        calls = self.work != before
        low, high = kind.low, kind.high
        if isinstance(kind, Integer) and kind.signed and kind.bits >= 32 and self._rng.chance(60):
            low, high = (0, 1000) if self._rng.chance(30) else (-(10**6), 10**6)
        lvalue = Lvalue(self._name("v"), kind, low, high)
        fitted = fit(value, kind, low, high)
        self.write(f"{lvalue.declaration()} = {fitted.text};")
        if not calls and not fitted.atomic and self._rng.chance(30):
            self.scope.seen.append(fitted)
        self.scope.lvalues.append(lvalue)

    def _dead_store(self, left: int) -> None:
        """Assign twice in a row; the second value does not read the first."""
        lvalues = [lvalue for lvalue in self.scope.lvalues if lvalue.writable and isinstance(lvalue.type, Integer)]
        if not lvalues:
            return
        lvalue = self._rng.choice(lvalues)
        for _ in range(2):
            value = self._value(lvalue.type, left // 2)
            self.write(f"{lvalue.text} = {fit(value, lvalue.type, lvalue.low, lvalue.high).text};")

    def _branch(self, left: int) -> None:
        share = self._rng.between(left // 4, max(left // 4, min(left - 8, 60)))
        with self._nested(f"if ({self._condition().text}) {{"):
            self.fill(share)
            if self._in_loop and self._rng.chance(25):
                self.write(self._rng.choice(("break;", "continue;")))
            elif self._whole and self._rng.chance(8):
                self.finish(1)
        if left - share > 16 and self._rng.chance(45):
            self.lines.pop()
            with self._nested("} else {"):
                self.fill(min(40, (left - share) // 2))

    def _dead_branch(self, left: int) -> None:
        with self._expressions() as expressions:
            condition = expressions.never()
        with self._nested(f"if ({condition.text}) {{"):
            self.fill(min(left - 6, self._rng.between(6, 24)))

    def _trips(self) -> int:
        """Draw how often a loop goes round; 0 when there is no room for another loop."""
        most = min(_MAX_TRIPS // self._frequency, (self._work_limit - self.work) // (60 * self._frequency))
        if self._depth > MAX_DEPTH or most < 3:
            return 0
        return min(self._rng.choice((3, 4, 5, 7, 8, 8, 10, 12, 16, 16, 20, 32, 64)), most)

    def _for_loop(self, left: int) -> None:
        if not (trips := self._trips()):
            return
        name = self._name("i")
        kind = self._rng.choice((I32, I32, I32, U32, U64, U8))
        counter = Lvalue(name, kind, 0, trips - 1, writable=False, addressable=False)
        style = self._rng.below(10)
        if style == 0:
            step = self._rng.between(2, 3)
            heading = f"{kind.name} {name} = 0; {name} < {trips}; {name} += {step}"
        elif style == 1 and kind.signed:
            heading = f"{kind.name} {name} = {trips - 1}; {name} >= 0; {name}--"
        elif style <= 3 and (bound := self._bound(trips)):
            heading = f"{kind.name} {name} = 0; {name} < ({kind.name}){bound}; {name}++"
        else:
            heading = f"{kind.name} {name} = 0; {name} < {trips}; {name}++"
        with self._nested(f"for ({heading}) {{", trips):
            self.scope.lvalues.append(counter)
            self.fill(min(left - 10, self._rng.between(10, 90)))

    def _bound(self, trips: int) -> Value | None:
        """Choose a variable that is never above the number of trips, or bring one below it."""
        lvalues = self.scope.values(Integer, least=32)
        return wrapped(self._rng.choice(lvalues), trips + 1) if lvalues else None

    def _while_loop(self, left: int) -> None:
        if not (trips := self._trips()):
            return
        name = self._name("n")
        self.write(f"int32_t {name} = {trips};")
        counter = Lvalue(name, I32, 0, trips - 1, writable=False, addressable=False)
        also = f" && {self._condition(1)}" if self._rng.chance(25) else ""
        with self._nested(f"while ({name}-- > 0{also}) {{", trips):
            self.scope.lvalues.append(counter)
            self.fill(min(left - 12, self._rng.between(10, 70)))

    def _do_loop(self, left: int) -> None:
        if not (trips := self._trips()):
            return
        name = self._name("n")
        self.write(f"uint32_t {name} = 0;")
        counter = Lvalue(name, U32, 1, trips, writable=False, addressable=False)
        with self._nested("do {", trips, f"}} while ({name} < {trips});"):
            self.write(f"{name}++;")
            self.scope.lvalues.append(counter)
            self.fill(min(left - 12, self._rng.between(10, 60)))

    def _switch(self, left: int) -> None:
        cases = self._rng.choice(_CASES)
        share = max(4, min(left // len(cases) - 2, 20))
        with self._expressions() as expressions:
            value = expressions.varying(1)
        selector = wrapped(value, cases[-1] + 1 + self._rng.below(2))
        outer, self._in_loop = self._in_loop, False  # a break would leave the switch only
        with self._nested(f"switch ({selector.text}) {{"):
            for case in cases:
                with self._nested(f"case {case}: {{"):
                    self.fill(share)
                    falls = self._rng.chance(15)
                self.write("/* falls through */" if falls else "break;")
            with self._nested("default: {"):
                self.fill(4)
            self.write("break;")
        self._in_loop = outer

    def _walked(self, arrays: list[Array]) -> tuple[Array, Lvalue] | None:
        """Draw an array of one dimension that a loop may go over, and a counter for it."""
        arrays = [a for a in arrays if len(a.shape) == 1 and a.length * self._frequency <= _MAX_TRIPS]
        longest = max((array.length for array in arrays), default=0)
        if not arrays or longest * self._frequency * 30 > self._work_limit - self.work:
            return None
        array = self._rng.choice(arrays)
        return array, Lvalue(self._name("i"), I32, 0, array.length - 1, writable=False, addressable=False)

    def _array_loop(self, left: int) -> None:
        """Change every element of an array, as vectorizers like it, or fill it."""
        found = self._walked([array for array in self.scope.arrays if array.writable])
        if found is None:
            return
        array, counter = found
        with self._nested(_counted(counter.text, array.length), array.length):
            outer = self.scope
            self.scope = Scope([lvalue for lvalue in outer.lvalues[-5:]], outer.arrays, [], outer.functions)
            self.scope.lvalues.append(counter)
            element = array.at(counter.value)
            value = self._value(element.type, min(left, 12))
            if isinstance(element.type, Real):
                value = arithmetic(self._rng.choice("+-*"), element.value, value)
            elif self._rng.chance(60) and isinstance(value.type, Integer):
                value = arithmetic(self._rng.choice("+-"), element.value, value)
            self.write(f"{element.text} = {fit(value, element.type, element.low, element.high).text};")

    def _reduction(self, left: int) -> None:
        found = self._walked(self.scope.arrays)
        if found is None:
            return
        array, counter = found
        element = array.at(counter.value).value
        if isinstance(element.type, Real):
            total = Lvalue(self._name("sum"), F64, array.length * element.low, array.length * element.high, False)
            step = f"{total.text} += {element};"
        else:
            total = Lvalue(self._name("sum"), U64 if element.type.bits == 64 else U32, 0, U32.high)
            total = Lvalue(total.text, total.type, total.type.low, total.type.high)
            step = self._rng.choice((f"$ += {element};", f"$ ^= {element};", f"$ += {element} * {element};"))
            if "*" in step:
                step = f"$ += {arithmetic('*', element, element)};"
            if self._rng.chance(25):
                step = f"if ({compare('>', element, constant(self._rng.between(0, 100))).text}) {step}"
            step = step.replace("$", total.text)
        self.write(f"{total.declaration()} = 0;")
        with self._nested(_counted(counter.text, array.length), array.length):
            self.write(step)
        self.scope.lvalues.append(total)

    def _block_copy(self, left: int) -> None:
        """Clear, fill or copy a whole array by a function of the library, or a structure by assignment."""
        records = [record for record in self.scope.records if record.writable]
        if records and self._rng.chance(50):
            target = self._rng.choice(records)
            same = [record for record in self.scope.records if record.structure == target.structure]
            self.write(f"{target.whole} = {self._rng.choice(same).whole};")
            return
        arrays = [array for array in self.scope.arrays if array.writable and len(array.shape) == 1]
        if not arrays:
            return
        array = self._rng.choice(arrays)
        size = f"{array.length} * sizeof({array.element.name})"
        others = [other for other in self.scope.arrays if other.is_like(array)]
        if len(others) > 1 and self._rng.chance(60):
            self.write(f"memmove({array.text}, {self._rng.choice(others).text}, {size});")
        else:
            byte = self._rng.below(4) if isinstance(array.element, Integer) else 0
            self.write(f"memset({array.text}, {byte}, {size});")

    def _local_array(self, left: int) -> None:
        if len(self.scope.arrays) > 6:
            return
        kind = self._rng.choice((*INTEGERS, I32, F64))
        array = Array(self._name("a"), kind, (self._rng.choice((4, 8, 8, 16, 32)),))
        numbers = ", ".join(str(self._rng.below(100)) for _ in range(self._rng.choice((1, 1, 4))))
        self.write(f"{kind.name} {array.text}[{array.length}] = {{{numbers}}};")
        self.scope.arrays.append(array)

    def _local_record(self, left: int) -> None:
        if not self.scope.records:
            return
        source = self._rng.choice(self.scope.records)
        if self._rng.chance(50):
            record = Record(self._name("s"), source.structure)
            self.write(f"{record.declaration()} = {source.whole};")
        else:
            record = Record(self._name("p"), source.structure, True, source.writable)
            self.write(f"{record.declaration()} = {source.address};")
        self.scope.add([record])

    def _pointer(self, left: int) -> None:
        """Declare a pointer to one of two variables, or to an element, and write through it."""
        lvalues = [lvalue for lvalue in self.scope.lvalues if lvalue.writable and lvalue.addressable]
        if not lvalues:
            return
        lvalue = self._rng.choice(lvalues)
        same = [p for p in lvalues if (p.type, p.low, p.high) == (lvalue.type, lvalue.low, lvalue.high)]
        address = f"&{lvalue.text}"
        if len(same) > 1 and self._rng.chance(60):
            address = f"{self._condition(1)} ? {address} : &{self._rng.choice(same).text}"
        name = self._name("p")
        self.write(f"{lvalue.type.name} *{name} = {address};")
        target = Lvalue(f"(*{name})", lvalue.type, lvalue.low, lvalue.high, addressable=False)
        self.scope.lvalues.append(target)
        value = self._value(lvalue.type, left - 4)
        self.write(f"*{name} = {fit(value, lvalue.type, lvalue.low, lvalue.high).text};")

    def _call(self, left: int) -> None:
        allowed = (self._work_limit - self.work) // self._frequency
        callable_ = [f for f in self.scope.functions if f.work <= allowed and self._arguments_exist(f)]
        if not callable_:
            return self._assignment(left)
        function = self._rng.choice(callable_[-12:])
        lvalue = Lvalue(self._name("r"), function.result.type, function.result.low, function.result.high)
        self.write(f"{lvalue.declaration()} = {self._called(function)};")
        self.scope.lvalues.append(lvalue)
        return None


def _counted(name: str, length: int) -> str:
    return f"for (int32_t {name} = 0; {name} < {length}; {name}++) {{"


_Statement = Callable[[Body, int], None]

# weight, least number of instructions, what is written
_STATEMENTS: tuple[tuple[int, int, _Statement], ...] = (
    (26, 0, Body._assignment),
    (18, 6, Body._declaration),
    (3, 10, Body._dead_store),
    (11, 16, Body._branch),
    (3, 16, Body._dead_branch),
    (10, 24, Body._for_loop),
    (4, 26, Body._while_loop),
    (3, 26, Body._do_loop),
    (4, 40, Body._switch),
    (6, 20, Body._array_loop),
    (6, 20, Body._reduction),
    (3, 8, Body._block_copy),
    (3, 10, Body._local_array),
    (4, 10, Body._local_record),
    (5, 14, Body._pointer),
    (11, 10, Body._call),
)
