"""Random statements: loops with counted trips, branches, assignments, calls, and what passes are there to remove."""

import contextlib
from collections.abc import Callable, Iterator

from aiocg.datasets.generators.random_c.cost import estimate
from aiocg.datasets.generators.random_c.expressions import Expressions
from aiocg.datasets.generators.random_c.rng import Rng
from aiocg.datasets.generators.random_c.scope import Array, Function, Place, Record, Scope
from aiocg.datasets.generators.random_c.types import F64, I32, INTEGERS, REALS, U8, U32, U64, Integer, Real, Scalar
from aiocg.datasets.generators.random_c.values import (
    Value,
    arithmetic,
    bitwise,
    compare,
    constant,
    fit,
    wrapped,
)

__all__ = ["Body", "mixed"]

MAX_DEPTH = 4
_MAX_TRIPS = 4096  # of the innermost loop in one call
_CASES = ((0, 1, 2, 3), (0, 1, 2, 3, 4, 5), (1, 2, 4, 8, 16, 32), (3, 10, 17, 24), (7, 40, 41, 90))


class Body:
    """The statements of one function.

    Args:
        rng: decides.
        scope: the parameters and what else is seen.
        work: how many instructions one call may execute.
        result: what the function returns; its text is not used.
        whole: the statements are the whole function, so that they may return from it early.

    Attributes:
        scope: what is seen by the next statement.
        lines: the text so far.
        spent: how many instructions it has.
        work: how many instructions one call executes, at most.
    """

    def __init__(self, rng: Rng, scope: Scope, work: int, result: Place, *, whole: bool = True) -> None:
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

    def fill(self, budget: int) -> None:
        """Write statements that are worth so many instructions."""
        self._block(budget)

    def finish(self, depth: int) -> None:
        """Return an expression with at most so many operations below each other."""
        self._return(depth)

    def accumulate(self, total: str, function: Function) -> None:
        """Call a function and mix what it returns into a variable of 64 bits."""
        factor = self._rng.choice((31, 33, 131, 1000003))
        result = mixed(
            Value(self._called(function), function.result.type, function.result.low, function.result.high, True)
        )
        self.write(f"{total} = {total} * {factor} + {result};")

    def _block(self, budget: int) -> None:
        end = self.spent + budget
        while (left := end - self.spent) > 2:
            affordable = [(weight, kind) for weight, least, kind in _STATEMENTS if least <= left]
            before = self.spent
            self._rng.weighted(affordable or [(1, Body._assignment)])(self, left)
            if self.spent == before:
                self._assignment(left)

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

    def _element(self, array: Array) -> Place:
        with self._expressions() as expressions:
            return expressions.element(array)

    def _target(self) -> Place | None:
        """Choose something to assign to."""
        arrays = [array for array in self.scope.arrays if array.writable]
        places = [place for place in self.scope.places if place.writable]
        if arrays and (not places or self._rng.chance(40)):
            return self._element(self._rng.choice(arrays))
        return self._rng.choice(places[-8:]) if places else None

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

    def _update(self, target: Place, value: Value) -> bool:
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
        place = Place(self._name("v"), kind, low, high)
        fitted = fit(value, kind, low, high)
        self.write(f"{place.declaration()} = {fitted.text};")
        if not calls and not fitted.atomic and self._rng.chance(30):
            self.scope.seen.append(fitted)
        self.scope.places.append(place)

    def _dead_store(self, left: int) -> None:
        """Assign twice in a row; the second value does not read the first."""
        places = [place for place in self.scope.places if place.writable and isinstance(place.type, Integer)]
        if not places:
            return
        place = self._rng.choice(places)
        for _ in range(2):
            value = self._value(place.type, left // 2)
            self.write(f"{place.text} = {fit(value, place.type, place.low, place.high).text};")

    def _branch(self, left: int) -> None:
        share = self._rng.between(left // 4, max(left // 4, min(left - 8, 60)))
        with self._nested(f"if ({self._condition().text}) {{"):
            self._block(share)
            if self._in_loop and self._rng.chance(25):
                self.write(self._rng.choice(("break;", "continue;")))
            elif self._whole and self._rng.chance(8):
                self._return(1)
        if left - share > 16 and self._rng.chance(45):
            self.lines.pop()
            with self._nested("} else {"):
                self._block(min(40, (left - share) // 2))

    def _dead_branch(self, left: int) -> None:
        with self._expressions() as expressions:
            condition = expressions.never()
        with self._nested(f"if ({condition.text}) {{"):
            self._block(min(left - 6, self._rng.between(6, 24)))

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
        counter = Place(name, kind, 0, trips - 1, writable=False, addressable=False)
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
            self.scope.places.append(counter)
            self._block(min(left - 10, self._rng.between(10, 90)))

    def _bound(self, trips: int) -> Value | None:
        """Choose a variable that is never above the number of trips, or bring one below it."""
        places = [
            place.value for place in self.scope.places if isinstance(place.type, Integer) and place.type.bits >= 32
        ]
        return wrapped(self._rng.choice(places), trips + 1) if places else None

    def _while_loop(self, left: int) -> None:
        if not (trips := self._trips()):
            return
        name = self._name("n")
        self.write(f"int32_t {name} = {trips};")
        counter = Place(name, I32, 0, trips - 1, writable=False, addressable=False)
        also = f" && {self._condition(1)}" if self._rng.chance(25) else ""
        with self._nested(f"while ({name}-- > 0{also}) {{", trips):
            self.scope.places.append(counter)
            self._block(min(left - 12, self._rng.between(10, 70)))

    def _do_loop(self, left: int) -> None:
        if not (trips := self._trips()):
            return
        name = self._name("n")
        self.write(f"uint32_t {name} = 0;")
        counter = Place(name, U32, 1, trips, writable=False, addressable=False)
        with self._nested("do {", trips, f"}} while ({name} < {trips});"):
            self.write(f"{name}++;")
            self.scope.places.append(counter)
            self._block(min(left - 12, self._rng.between(10, 60)))

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
                    self._block(share)
                    falls = self._rng.chance(15)
                self.write("/* falls through */" if falls else "break;")
            with self._nested("default: {"):
                self._block(4)
            self.write("break;")
        self._in_loop = outer

    def _array_loop(self, left: int) -> None:
        """Change every element of an array, as vectorizers like it, or fill it."""
        arrays = [array for array in self.scope.arrays if array.writable and len(array.shape) == 1]
        arrays = [array for array in arrays if array.length * self._frequency <= _MAX_TRIPS]
        if not arrays or _longest(arrays) * self._frequency * 30 > self._work_limit - self.work:
            return
        array = self._rng.choice(arrays)
        counter = Place(self._name("i"), I32, 0, array.length - 1, writable=False, addressable=False)
        with self._nested(_counted(counter.text, array.length), array.length):
            outer = self.scope
            self.scope = Scope([place for place in outer.places[-5:]], outer.arrays, [], outer.functions)
            self.scope.places.append(counter)
            element = array.at(counter.value)
            value = self._value(element.type, min(left, 12))
            if isinstance(element.type, Real):
                value = arithmetic(self._rng.choice("+-*"), element.value, value)
            elif self._rng.chance(60) and isinstance(value.type, Integer):
                value = arithmetic(self._rng.choice("+-"), element.value, value)
            self.write(f"{element.text} = {fit(value, element.type, element.low, element.high).text};")

    def _reduction(self, left: int) -> None:
        arrays = [array for array in self.scope.arrays if len(array.shape) == 1]
        arrays = [array for array in arrays if array.length * self._frequency <= _MAX_TRIPS]
        if not arrays or _longest(arrays) * self._frequency * 30 > self._work_limit - self.work:
            return
        array = self._rng.choice(arrays)
        counter = Place(self._name("i"), I32, 0, array.length - 1, writable=False, addressable=False)
        element = array.at(counter.value).value
        if isinstance(element.type, Real):
            total = Place(self._name("sum"), F64, array.length * element.low, array.length * element.high, False)
            step = f"{total.text} += {element};"
        else:
            total = Place(self._name("sum"), U64 if element.type.bits == 64 else U32, 0, U32.high)
            total = Place(total.text, total.type, total.type.low, total.type.high)
            step = self._rng.choice((f"$ += {element};", f"$ ^= {element};", f"$ += {element} * {element};"))
            if "*" in step:
                step = f"$ += {arithmetic('*', element, element)};"
            if self._rng.chance(25):
                step = f"if ({compare('>', element, constant(self._rng.between(0, 100))).text}) {step}"
            step = step.replace("$", total.text)
        self.write(f"{total.declaration()} = 0;")
        with self._nested(_counted(counter.text, array.length), array.length):
            self.write(step)
        self.scope.places.append(total)

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
        others = [other for other in self.scope.arrays if (other.element, other.shape) == (array.element, array.shape)]
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
        places = [place for place in self.scope.places if place.writable and place.addressable]
        if not places:
            return
        place = self._rng.choice(places)
        same = [p for p in places if (p.type, p.low, p.high) == (place.type, place.low, place.high)]
        address = f"&{place.text}"
        if len(same) > 1 and self._rng.chance(60):
            address = f"{self._condition(1)} ? {address} : &{self._rng.choice(same).text}"
        name = self._name("p")
        self.write(f"{place.type.name} *{name} = {address};")
        target = Place(f"(*{name})", place.type, place.low, place.high, addressable=False)
        self.scope.places.append(target)
        value = self._value(place.type, left - 4)
        self.write(f"*{name} = {fit(value, place.type, place.low, place.high).text};")

    def _call(self, left: int) -> None:
        allowed = (self._work_limit - self.work) // self._frequency
        callable_ = [f for f in self.scope.functions if f.work <= allowed and self._arguments_exist(f)]
        if not callable_:
            return self._assignment(left)
        function = self._rng.choice(callable_[-12:])
        place = Place(self._name("r"), function.result.type, function.result.low, function.result.high)
        self.write(f"{place.declaration()} = {self._called(function)};")
        self.scope.places.append(place)
        return None

    def _called(self, function: Function) -> str:
        self.work += function.work * self._frequency
        arguments = ", ".join(self._argument(function, index) for index in range(len(function.parameters)))
        return f"{function.name}({arguments})"

    def _arguments_exist(self, function: Function) -> bool:
        """Say whether there is a different array, and a structure, for each parameter that wants one."""
        wanted = [p for p in function.parameters if isinstance(p, Array)]
        for parameter in wanted:
            count = sum(_alike(parameter, other) for other in wanted)
            if len(_matching(self.scope, parameter, alone=count > 1)) < count:
                return False
        records = [p for p in function.parameters if isinstance(p, Record)]
        return all(_matching_records(self.scope, parameter) for parameter in records)

    def _argument(self, function: Function, index: int) -> str:
        parameter = function.parameters[index]
        if isinstance(parameter, Place):
            value = self._value(parameter.type, 6)
            return fit(value, parameter.type, parameter.low, parameter.high).text
        if isinstance(parameter, Record):
            record = self._rng.choice(_matching_records(self.scope, parameter))
            return record.address if parameter.pointer else record.whole
        assert isinstance(parameter, Array)
        alike = [p for p in function.parameters if isinstance(p, Array) and _alike(parameter, p)]
        return _matching(self.scope, parameter, alone=len(alike) > 1)[alike.index(parameter)].text

    def _return(self, depth: int) -> None:
        with self._expressions() as expressions:
            value = expressions.of_type(self._result.type, depth)
        self.write(f"return {fit(value, self._result.type, self._result.low, self._result.high).text};")


def mixed(value: Value) -> str:
    """Make 64 bits of a number, in C."""
    if isinstance(value.type, Real):
        return f"(uint64_t)(int64_t)({value} * 16.0)"
    return value.text if value.type == U64 else f"(uint64_t){value}"


def _longest(arrays: list[Array]) -> int:
    """Return the length of the longest of some arrays."""
    return max(array.length for array in arrays)


def _counted(name: str, length: int) -> str:
    return f"for (int32_t {name} = 0; {name} < {length}; {name}++) {{"


def _alike(a: Array, b: Array) -> bool:
    return (a.element, a.shape) == (b.element, b.shape)


def _matching(scope: Scope, parameter: Array, *, alone: bool) -> list[Array]:
    """Return the arrays that can be arguments for a parameter, those first that were declared last.

    Where two arguments must be different arrays, members of structures are left out: their pointers may be equal.
    """
    found = [array for array in scope.arrays if _alike(array, parameter) and array.writable >= parameter.writable]
    return [array for array in found[::-1] if not alone or array.text.isidentifier()]


def _matching_records(scope: Scope, parameter: Record) -> list[Record]:
    return [
        record
        for record in scope.records
        if record.structure == parameter.structure
        and (record.writable or not parameter.pointer or not parameter.writable)
    ]


_Statement = Callable[[Body, int], None]

_STATEMENTS: tuple[tuple[int, int, _Statement], ...] = (
    # weight, least number of instructions, what is written
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
