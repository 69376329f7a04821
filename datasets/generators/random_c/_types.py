"""Scalar types of the programs, and C's usual arithmetic conversions."""

import abc
import dataclasses

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
