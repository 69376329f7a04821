"""Expressions that know their type and their range, with scalar types, and random numbers that are the same everywhere.

Where a signed result could overflow, the operation is done on unsigned numbers; divisors are made positive; shift
amounts are constants or masked. Where the ranges allow it, the plain operation is written, as a programmer would.
"""

import abc
import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

_MASK = 2**64 - 1


class Rng:
    """SplitMix64: 64 bits of state that grow by a constant, and are stirred for each draw.

    Args:
        seed: any whole number; the lower 64 bits count.
    """

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def bits(self) -> int:
        """Draw 64 bits."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = (self._state ^ self._state >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
        return mixed ^ mixed >> 31

    def below(self, bound: int) -> int:
        """Draw a number from 0 up to, not including, `bound`."""
        return self.bits() * bound >> 64

    def between(self, low: int, high: int) -> int:
        """Draw a number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def chance(self, percent: int) -> bool:
        """Say yes in so many cases of a hundred."""
        return self.below(100) < percent

    def choice(self, options: Sequence[T]) -> T:
        """Draw one of the options."""
        return options[self.below(len(options))]

    def weighted(self, options: Sequence[tuple[int, T]]) -> T:
        """Draw one of the options, each as often as its weight says."""
        position = self.below(sum(weight for weight, _ in options))
        for weight, option in options:
            position -= weight
            if position < 0:
                return option
        raise AssertionError("weights are positive")

    def sample(self, options: Sequence[T], count: int) -> list[T]:
        """Draw so many different options, or all if there are not so many, in random order."""
        rest = list(options)
        return [rest.pop(self.below(len(rest))) for _ in range(min(count, len(rest)))]


LIMIT = 2.0**20
"""No floating-point variable holds more, so that it converts to any integer type of 32 bits, and never overflows."""


class Scalar(abc.ABC):
    """A type of numbers: an `Integer` or a `Real`.

    Attributes:
        bits: its size.
    """

    __slots__ = ()

    bits: int

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Its name in C."""

    @property
    @abc.abstractmethod
    def suffix(self) -> str:
        """Its name in identifiers."""

    @property
    @abc.abstractmethod
    def low(self) -> float:
        """The least value that a variable holds."""

    @property
    @abc.abstractmethod
    def high(self) -> float:
        """The greatest value that a variable holds."""

    def holds(self, low: float, high: float) -> bool:
        """Say whether all values from `low` to `high` may be kept in a variable."""
        return self.low <= low and high <= self.high


@dataclasses.dataclass(frozen=True, slots=True)
class Integer(Scalar):
    """An integer type of 8, 16, 32 or 64 bits."""

    bits: int
    signed: bool

    @property
    def name(self) -> str:
        return f"{'' if self.signed else 'u'}int{self.bits}_t"

    @property
    def suffix(self) -> str:
        return f"{'i' if self.signed else 'u'}{self.bits}"

    @property
    def low(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        return (1 << (self.bits - self.signed)) - 1

    @property
    def unsigned(self) -> "Integer":
        """The unsigned type of the same size."""
        return Integer(self.bits, False)


@dataclasses.dataclass(frozen=True, slots=True)
class Real(Scalar):
    """A floating-point type of 32 or 64 bits."""

    bits: int

    @property
    def name(self) -> str:
        return "float" if self.bits == 32 else "double"

    @property
    def suffix(self) -> str:
        return f"f{self.bits}"

    @property
    def low(self) -> float:
        return -LIMIT

    @property
    def high(self) -> float:
        return LIMIT


I8, I16, I32, I64 = (Integer(bits, True) for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (Integer(bits, False) for bits in (8, 16, 32, 64))
F32, F64 = Real(32), Real(64)
INTEGERS = (I8, U8, I16, U16, I32, U32, I64, U64)
WORDS = (I32, U32, I64, U64)
REALS = (F32, F64)


def promoted(kind: Scalar) -> Scalar:
    """Return the type in which C computes with one operand: at least `int`."""
    return I32 if isinstance(kind, Integer) and kind.bits < 32 else kind


def common_type(a: Scalar, b: Scalar) -> Scalar:
    """Return the type in which C computes with two operands."""
    if isinstance(a, Real) or isinstance(b, Real):
        return Real(max(kind.bits for kind in (a, b) if isinstance(kind, Real)))
    a, b = promoted(a), promoted(b)
    assert isinstance(a, Integer) and isinstance(b, Integer)
    bits = max(a.bits, b.bits)
    return Integer(bits, all(kind.signed or kind.bits < bits for kind in (a, b)))


_VARIABLE = re.compile(r"\b(?!u?int\d+_t\b|float\b|double\b)[a-z_]")
_HUGE = 1e30  # a product of numbers below it overflows no double; a float's range ends at 3e38
_SUFFIXES: dict[Scalar, str] = {I32: "", U32: "u", I64: "ll", U64: "ull"}
_EXACT: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Value:
    """An expression without side effects.

    Attributes:
        low: no value is below.
        high: no value is above.
        atomic: it needs no parentheses as an operand.
    """

    text: str
    type: Scalar
    low: float
    high: float
    atomic: bool = False

    @property
    def constant(self) -> bool:
        """Whether there is no variable in it, so that clang computes it."""
        return not _VARIABLE.search(self.text)

    def __str__(self) -> str:
        return self.text if self.atomic else f"({self.text})"


def constant(number: int, kind: Scalar = I32) -> Value:
    """Write a number; kinds other than `I32` are for numbers that need them, or to compute in them."""
    if isinstance(kind, Real):
        return real_constant(float(number), kind)
    if not I32.holds(number, number) and kind is I32:
        kind = U32 if U32.holds(number, number) else I64 if I64.holds(number, number) else U64
    kind = promoted(kind)
    suffix = _SUFFIXES[kind]
    return Value(f"{number}{suffix}", kind, number, number, number >= 0)


def real_constant(number: float, kind: Real = F64) -> Value:
    """Write a floating-point number that both types can hold exactly."""
    return Value(f"{number!r}{'f' if kind.bits == 32 else ''}", kind, number, number, number >= 0)


def _convert(value: Value, kind: Scalar) -> Value:
    """Return what becomes of a value where C converts it by itself."""
    if isinstance(kind, Real) or kind.holds(value.low, value.high):
        return Value(value.text, kind, value.low, value.high, value.atomic)
    return Value(value.text, kind, kind.low, kind.high, value.atomic)


def cast(value: Value, kind: Scalar) -> Value:
    """Convert explicitly, if there is anything to convert. Real numbers become integers by way of `int32_t`."""
    if value.type == kind:
        return value
    if isinstance(value.type, Real) and isinstance(kind, Integer):
        value = bounded(value)
        return cast(Value(f"(int32_t){value}", I32, int(value.low) - 1, int(value.high) + 1, True), kind)
    converted = _convert(value, kind)
    return Value(f"({kind.name}){value}", kind, converted.low, converted.high, True)


def bounded(value: Value) -> Value:
    """Bring a real number between `-LIMIT` and `LIMIT`."""
    if value.low >= -LIMIT and value.high <= LIMIT:
        return value
    return Value(f"bounded({value.text})", F64, -LIMIT, LIMIT, True)


def arithmetic(operator: str, a: Value, b: Value) -> Value:
    """Add, subtract or multiply."""
    kind = common_type(a.type, b.type)
    left, right = _convert(a, kind), _convert(b, kind)
    exact = _EXACT[operator]
    corners = [exact(x, y) for x in (left.low, left.high) for y in (right.low, right.high)]
    low, high = min(corners), max(corners)
    if isinstance(kind, Real):
        if max(-low, high) > _HUGE:
            return arithmetic(operator, bounded(a), bounded(b))
    elif not kind.holds(low, high):
        assert isinstance(kind, Integer)
        if kind.signed:
            return arithmetic(operator, cast(a, kind.unsigned), b)
        low, high = kind.low, kind.high
    return Value(f"{a} {operator} {b}", kind, low, high)


def bitwise(operator: str, a: Value, b: Value) -> Value:
    """Combine the bits of two integers by `&`, `|` or `^`."""
    kind = common_type(a.type, b.type)
    a_bits, b_bits = _convert(a, kind), _convert(b, kind)
    low, high = kind.low, kind.high
    if a_bits.low >= 0 and b_bits.low >= 0:
        full = 2 ** max(int(a_bits.high).bit_length(), int(b_bits.high).bit_length()) - 1
        low, high = 0, full
        if operator == "&":
            high = min(a_bits.high, b_bits.high)
        elif operator == "|":
            low = max(a_bits.low, b_bits.low)
    elif operator == "&" and max(a_bits.low, b_bits.low) >= 0:
        low, high = 0, a_bits.high if a_bits.low >= 0 else b_bits.high
    return Value(f"{a} {operator} {b}", kind, low, high)


def shift(operator: str, a: Value, amount: Value) -> Value:
    """Shift by `<<` or `>>`; the amount is from 0 to 31, or to 63 where the type has 64 bits."""
    kind = promoted(a.type)
    assert isinstance(kind, Integer) and amount.low >= 0 and amount.high < kind.bits
    least, most = int(amount.low), int(amount.high)
    low, high = int(a.low), int(a.high)
    if operator == ">>":
        low, high = min(low >> least, low >> most), max(high >> least, high >> most)
    elif low >= 0 and kind.holds(0, high << most):
        low, high = low << least, high << most
    elif kind.signed:
        return shift(operator, cast(a, kind.unsigned), amount)
    else:
        low, high = kind.low, kind.high
    return Value(f"{a} {operator} {amount}", kind, low, high)


def rotate(a: Value, amount: int) -> Value:
    """Rotate an integer of 32 or 64 bits to the left by a constant above 0."""
    kind = promoted(a.type)
    assert isinstance(kind, Integer)
    a = cast(a, kind.unsigned)
    text = f"{a} << {amount} | {a} >> {kind.bits - amount}"
    return Value(text, kind.unsigned, kind.unsigned.low, kind.unsigned.high)


def quotient(operator: str, a: Value, b: Value) -> Value:
    """Divide by `/` or `%`, real numbers only by `/`. What could be zero as a divisor is changed first."""
    kind = common_type(a.type, b.type)
    if not isinstance(kind, Integer):
        if b.low < 0.5:
            b = arithmetic("+", arithmetic("*", b, b), constant(1, kind))
            b = dataclasses.replace(b, low=1.0)
        most = max(-a.low, a.high) / b.low
        return bounded(Value(f"{a} / {b}", kind, -most, most))
    if _convert(b, kind).low < 1:
        grown = arithmetic("+", b, constant(1)) if b.low >= 0 else b
        b = grown if grown.low >= 1 else bitwise("|", cast(b, kind.unsigned), constant(1))
        return quotient(operator, a, b)
    left, right = _convert(a, kind), _convert(b, kind)
    low, high = min(left.low, 0), max(left.high, 0)
    if operator == "%":
        low, high = max(low, 1 - right.high), min(high, right.high - 1)
    return Value(f"{a} {operator} {b}", kind, low, high)


def negate(a: Value) -> Value:
    """Change the sign, of unsigned numbers as C does it."""
    kind = promoted(a.type)
    if isinstance(kind, Integer) and not kind.holds(-a.high, -a.low):
        a = cast(a, kind.unsigned)
        return Value(f"-{a}", a.type, a.type.low, a.type.high)
    return Value(f"-{a}", kind, -a.high, -a.low)


def invert(a: Value) -> Value:
    """Flip all bits of an integer."""
    kind = promoted(a.type)
    assert isinstance(kind, Integer)
    top = -1 if kind.signed else kind.high
    return Value(f"~{a}", kind, top - a.high, top - a.low)


def compare(operator: str, a: Value, b: Value) -> Value:
    """Compare as C does, which converts signed numbers where they meet unsigned ones."""
    return Value(f"{a} {operator} {b}", I32, 0, 1)


def logical(operator: str, a: Value, b: Value) -> Value:
    """Combine two conditions by `&&` or `||`."""
    return Value(f"{a} {operator} {b}", I32, 0, 1)


def conditional(condition: Value, a: Value, b: Value) -> Value:
    """Choose one of two values."""
    kind = common_type(a.type, b.type)
    x, y = _convert(a, kind), _convert(b, kind)
    return Value(f"{condition} ? {a} : {b}", kind, min(x.low, y.low), max(x.high, y.high))


def wrapped(value: Value, length: int) -> Value:
    """Bring an integer between 0 and `length - 1`."""
    if value.low >= 0 and value.high < length:
        return value
    if length & (length - 1) == 0:
        return bitwise("&", value, constant(length - 1))
    kind = promoted(value.type)
    assert isinstance(kind, Integer)
    return quotient("%", value if value.low >= 0 else cast(value, kind.unsigned), constant(length))


def fit(value: Value, kind: Scalar, low: float, high: float) -> Value:
    """Make a value one that a variable of this type and range may hold."""
    if isinstance(kind, Real):
        return bounded(value)
    value = value if isinstance(value.type, Integer) else cast(value, I32)
    if kind.holds(low, high) and low <= value.low and value.high <= high:
        return value
    if not kind.holds(value.low, value.high) or (low, high) == (kind.low, kind.high):
        value = cast(value, kind)
    if low <= value.low and value.high <= high:
        return value
    if low == -high:
        return quotient("%", value, constant(int(high) + 1, promoted(kind)))
    rest = wrapped(value, int(high - low) + 1)
    return rest if low == 0 else arithmetic("+", rest, constant(int(low)))
