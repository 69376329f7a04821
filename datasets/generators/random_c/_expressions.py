"""Random expressions without side effects."""

import dataclasses
from collections.abc import Callable

from aiocg.datasets.generators.random_c._scope import Array, Function, Lvalue, Scope
from aiocg.datasets.generators.random_c._values import (
    F64,
    I32,
    I64,
    INTEGERS,
    U32,
    U64,
    Integer,
    Real,
    Rng,
    Scalar,
    Value,
    arithmetic,
    bitwise,
    bounded,
    cast,
    compare,
    conditional,
    constant,
    fit,
    invert,
    logical,
    negate,
    promoted,
    quotient,
    real_constant,
    rotate,
    shift,
    wrapped,
)

_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_FAMOUS = (31, 33, 37, 100, 255, 256, 1000, 1024, 4095, 0x7FFF, 0xFFFF, 0x55555555, 0x9E3779B1, 0x01000193)
_WIDE = (6364136223846793005, 0xCBF29CE484222325, 0x0F0F0F0F0F0F0F0F)


class Expressions:
    """Draws expressions from what a scope has; called functions execute no more instructions than `work_left`."""

    def __init__(self, rng: Rng, scope: Scope, work: int) -> None:
        self._rng = rng
        self._scope = scope
        self.work_left = work

    def of_type(self, kind: Scalar, depth: int) -> Value:
        """Draw an expression for a variable; its value may have to be fitted."""
        return self.integer(depth) if isinstance(kind, Integer) else self.real(depth)

    def integer(self, depth: int) -> Value:
        """Draw an integer expression with at most so many operations below each other."""
        if depth <= 0:
            return self._integer_leaf()
        if self._scope.seen and self._rng.chance(8):
            seen = self._rng.choice(self._scope.seen[-8:])
            return seen if isinstance(seen.type, Integer) else cast(seen, I32)
        return self._rng.weighted(_INTEGER_OPERATIONS)(self, depth - 1)

    def real(self, depth: int) -> Value:
        """Draw a floating-point expression."""
        if depth <= 0:
            return self._real_leaf()
        return self._rng.weighted(_REAL_OPERATIONS)(self, depth - 1)

    def condition(self, depth: int) -> Value:
        """Draw a condition."""
        if depth > 1 and self._rng.chance(25):
            return logical(self._rng.choice(("&&", "||")), self.condition(depth - 1), self.condition(depth - 1))
        reals = self._scope.values(Real)
        if reals and self._rng.chance(12):
            return compare(self._rng.choice(_COMPARISONS[:4]), self._rng.choice(reals), self.real(depth - 1))
        left = self.varying(depth - 1)
        if self._rng.chance(25):
            return compare(self._rng.choice(("==", "!=")), self._bit_test(left), constant(0))
        return compare(self._rng.choice(_COMPARISONS), left, self._integer_leaf())

    def varying(self, depth: int) -> Value:
        """Draw an integer expression that is no constant if there is any variable: clang drops dead branches itself."""
        value = self.integer(depth)
        lvalues = self._scope.values(Integer)
        return self._rng.choice(lvalues) if value.constant and lvalues else value

    def never(self) -> Value:
        """Draw a condition that does not hold, as the range of a variable shows."""
        lvalues = self._scope.values(Integer, most=32)
        value = self._rng.choice(lvalues) if lvalues else constant(0)
        if self._rng.chance(50) and value.low > -(2**31):
            return compare("<", value, constant(int(value.low))) if value.low else compare("!=", value, value)
        if value.high < 2**31 - 1:
            return compare(">", value, constant(int(value.high)))
        return compare("==", bitwise("|", value, constant(1)), constant(0))

    def element(self, array: Array) -> Lvalue:
        """Draw an element of an array."""
        return array.at(*(self.index(length) for length in array.shape))

    def index(self, length: int) -> Value:
        """Draw an index below a length, rather a variable that is in range than anything else."""
        fitting = self._scope.indices(length)
        if fitting and self._rng.chance(75):
            value = self._rng.choice(fitting[-4:])
            if value.high + 1 < length and self._rng.chance(25):
                return arithmetic("+", value, constant(1))
            return value
        if self._rng.chance(25):
            return constant(self._rng.below(length))
        return wrapped(self._integer_leaf(), length)

    def arguments(self, function: Function, depth: int) -> list[Value]:
        """Draw the arguments of a function whose parameters are all numbers."""
        drawn = []
        for parameter in function.parameters:
            assert isinstance(parameter, Lvalue)
            value = self.of_type(parameter.type, depth)
            drawn.append(fit(value, parameter.type, parameter.low, parameter.high))
        return drawn

    def _bit_test(self, value: Value) -> Value:
        mask = constant(1 << self._rng.below(6)) if self._rng.chance(60) else constant(2 ** self._rng.between(1, 4) - 1)
        return bitwise("&", value, mask)

    def _number(self) -> Value:
        rng = self._rng
        if rng.chance(55):
            return constant(rng.below(17))
        if rng.chance(20):
            return constant(-rng.between(1, 128))
        if rng.chance(40):
            return constant(rng.choice(_FAMOUS))
        if rng.chance(15):
            return constant(rng.choice(_WIDE), U64)
        return constant(2 ** rng.between(1, 30) - rng.below(2))

    def _integer_leaf(self) -> Value:
        choice = self._rng.below(100)
        if choice < 22:
            return self._number()
        arrays = [array for array in self._scope.arrays if isinstance(array.element, Integer)]
        if choice < 45 and arrays:
            array = self._rng.choice(arrays)
            return array.at(*(self._plain_index(length) for length in array.shape)).value
        lvalues = self._scope.values(Integer)
        if not lvalues:
            return self._number()
        return self._rng.choice(lvalues[-6:] if choice < 75 else lvalues)

    def _plain_index(self, length: int) -> Value:
        """Draw an index without asking for another leaf."""
        fitting = self._scope.indices(length)
        if fitting and self._rng.chance(85):
            return self._rng.choice(fitting[-4:])
        lvalues = self._scope.values(Integer)
        if not lvalues or self._rng.chance(25):
            return constant(self._rng.below(length))
        return wrapped(self._rng.choice(lvalues), length)

    def _real_leaf(self) -> Value:
        choice = self._rng.below(100)
        arrays = [array for array in self._scope.arrays if isinstance(array.element, Real)]
        if choice < 30 and arrays:
            array = self._rng.choice(arrays)
            return array.at(*(self._plain_index(length) for length in array.shape)).value
        lvalues = self._scope.values(Real)
        if choice < 75 and lvalues:
            return self._rng.choice(lvalues)
        if choice < 85:
            return cast(self._integer_leaf(), F64)
        return real_constant(self._rng.between(1, 64) / 16)

    def _arithmetic(self, depth: int) -> Value:
        operator = self._rng.choice("+-*+-")
        return arithmetic(operator, self.integer(depth), self.integer(depth if self._rng.chance(50) else 0))

    def _bitwise(self, depth: int) -> Value:
        operator = self._rng.choice("&|^^")
        return bitwise(operator, self.integer(depth), self.integer(depth if self._rng.chance(50) else 0))

    def _shift(self, depth: int) -> Value:
        value = self.integer(depth)
        kind = promoted(value.type)
        if self._rng.chance(75):
            return shift(self._rng.choice(("<<", ">>")), value, constant(self._rng.between(1, min(kind.bits - 1, 24))))
        return shift(self._rng.choice(("<<", ">>")), value, wrapped(self._integer_leaf(), kind.bits))

    def _quotient(self, depth: int) -> Value:
        divisor = constant(self._rng.between(2, 127)) if self._rng.chance(65) else self._integer_leaf()
        return quotient(self._rng.choice("/%%"), self.integer(depth), divisor)

    def _comparison(self, depth: int) -> Value:
        return self.condition(depth + 1)

    def _conditional(self, depth: int) -> Value:
        return conditional(self.condition(1), self.integer(depth), self.integer(0))

    def _unary(self, depth: int) -> Value:
        return self._rng.choice((negate, invert))(self.integer(depth))

    def _cast(self, depth: int) -> Value:
        return cast(self.integer(depth), self._rng.choice(INTEGERS))

    def _rotation(self, depth: int) -> Value:
        value = cast(self.integer(depth), self._rng.choice((U32, U64)))
        return rotate(value, self._rng.between(1, value.type.bits - 1))

    def _from_real(self, depth: int) -> Value:
        if not self._scope.values(Real):
            return self._arithmetic(depth)
        return cast(bounded(self.real(depth)), I32)

    def _call(self, depth: int) -> Value:
        affordable = [f for f in self._scope.functions if f.pure and f.work <= self.work_left]
        if not affordable:
            return self._arithmetic(depth)
        function = self._rng.choice(affordable)
        self.work_left -= function.work
        text = ", ".join(value.text for value in self.arguments(function, min(depth, 1)))
        called = dataclasses.replace(function.result, text=f"{function.name}({text})").value
        return cast(called, I64) if isinstance(called.type, Real) else called

    def _real_arithmetic(self, depth: int) -> Value:
        return arithmetic(self._rng.choice("+-**"), self.real(depth), self.real(depth if self._rng.chance(50) else 0))

    def _real_quotient(self, depth: int) -> Value:
        divisor = real_constant(self._rng.between(1, 40) / 2) if self._rng.chance(50) else self._real_leaf()
        return quotient("/", self.real(depth), divisor)

    def _real_conditional(self, depth: int) -> Value:
        return conditional(self.condition(1), self.real(depth), self.real(0))

    def _real_function(self, depth: int) -> Value:
        value = cast(bounded(self.real(depth)), F64)
        if self._rng.chance(50):
            return Value(f"fabs({value.text})", F64, 0.0, max(-value.low, value.high), True)
        return Value(f"sqrt(fabs({value.text}))", F64, 0.0, 1.0 + max(-value.low, value.high), True)

    def _from_integer(self, depth: int) -> Value:
        return cast(self.integer(depth), self._rng.choice((F64, F64, Real(32))))


_Operation = Callable[[Expressions, int], Value]

_INTEGER_OPERATIONS: tuple[tuple[int, _Operation], ...] = (
    (34, Expressions._arithmetic),
    (16, Expressions._bitwise),
    (12, Expressions._shift),
    (7, Expressions._quotient),
    (5, Expressions._comparison),
    (5, Expressions._conditional),
    (5, Expressions._unary),
    (7, Expressions._cast),
    (2, Expressions._rotation),
    (3, Expressions._from_real),
    (6, Expressions._call),
)

_REAL_OPERATIONS: tuple[tuple[int, _Operation], ...] = (
    (55, Expressions._real_arithmetic),
    (12, Expressions._real_quotient),
    (6, Expressions._real_conditional),
    (8, Expressions._real_function),
    (10, Expressions._from_integer),
)
