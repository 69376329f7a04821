"""The variables and functions visible at a point in a program."""

import abc
import dataclasses
from collections.abc import Iterable

from aiocg.datasets.generators.random_c._values import Integer, Real, Scalar, Value


class Parameter(abc.ABC):
    """A variable that can be a parameter: an `Lvalue`, an `Array` or a `Record`."""

    __slots__ = ()

    @abc.abstractmethod
    def declaration(self) -> str:
        """Declare it, in C."""


@dataclasses.dataclass(frozen=True, slots=True)
class Lvalue(Parameter):
    """A variable, or what else holds a number.

    Attributes:
        low: it never holds less.
        high: it never holds more.
        writable: it may be assigned to.
        addressable: a pointer may point to it.
    """

    text: str
    type: Scalar
    low: float
    high: float
    writable: bool = True
    addressable: bool = True

    @property
    def value(self) -> Value:
        """The number in it."""
        return Value(self.text, self.type, self.low, self.high, True)

    def declaration(self) -> str:
        """Declare it."""
        return f"{self.type.name} {self.text}"


@dataclasses.dataclass(frozen=True, slots=True)
class Array(Parameter):
    """An array, or a pointer to the first element of one.

    Attributes:
        text: C.
        element: the type of its numbers.
        shape: its lengths.
        writable: its elements may be assigned to.
    """

    text: str
    element: Scalar
    shape: tuple[int, ...]
    writable: bool = True

    @property
    def length(self) -> int:
        """The number of its elements, or rows."""
        return self.shape[0]

    def is_like(self, other: "Array") -> bool:
        """Say whether another one has the same type."""
        return (self.element, self.shape) == (other.element, other.shape)

    def at(self, *indices: Value) -> Lvalue:
        """Return an element; the indices must be in range."""
        text = self.text + "".join(f"[{index.text}]" for index in indices)
        return Lvalue(text, self.element, self.element.low, self.element.high, self.writable)

    def declaration(self) -> str:
        """Declare a parameter for it."""
        constant = "" if self.writable or len(self.shape) > 1 else "const "
        if len(self.shape) == 1:
            return f"{constant}{self.element.name} *{self.text}"
        return f"{self.element.name} {self.text}[{self.shape[0]}][{self.shape[1]}]"


@dataclasses.dataclass(frozen=True, slots=True)
class Structure:
    """A structure type, with its numbers and arrays, those of inner structures included."""

    name: str
    text: str
    lvalues: tuple[Lvalue, ...]
    arrays: tuple[Array, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Record(Parameter):
    """A variable of a structure type, or a pointer to one.

    Attributes:
        text: C.
        structure: its type.
        pointer: it is a pointer.
        writable: its members may be assigned to.
    """

    text: str
    structure: Structure
    pointer: bool = False
    writable: bool = True

    @property
    def whole(self) -> str:
        """The structure itself, in C."""
        return f"*{self.text}" if self.pointer else self.text

    @property
    def address(self) -> str:
        """The address of the structure, in C."""
        return self.text if self.pointer else f"&{self.text}"

    def lvalues(self) -> list[Lvalue]:
        """Return its numbers."""
        members = self.structure.lvalues
        return [dataclasses.replace(one, text=self._member(one.text), writable=self.writable) for one in members]

    def arrays(self) -> list[Array]:
        """Return its arrays."""
        members = self.structure.arrays
        return [dataclasses.replace(one, text=self._member(one.text), writable=self.writable) for one in members]

    def _member(self, name: str) -> str:
        return f"{self.text}{'->' if self.pointer else '.'}{name}"

    def declaration(self) -> str:
        """Declare it."""
        constant = "" if self.writable or not self.pointer else "const "
        return f"{constant}struct {self.structure.name} {'*' if self.pointer else ''}{self.text}"


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """A function that can be called.

    Attributes:
        name: its name.
        result: what it returns; its text is not used.
        parameters: what it wants. An argument for an array must have this shape.
        text: its definition, with whatever serves only it.
        work: at most so many instructions are executed by a call, without any optimisation.
        pure: it neither reads nor writes anything but its arguments, all of them numbers.
    """

    name: str
    result: Lvalue
    parameters: tuple[Parameter, ...]
    text: str
    work: int
    pure: bool = False


@dataclasses.dataclass(slots=True)
class Scope:
    """What can be seen from inside a block.

    Attributes:
        functions: what may be called.
        seen: expressions that have been computed before, and may be so again.
    """

    lvalues: list[Lvalue] = dataclasses.field(default_factory=list)
    arrays: list[Array] = dataclasses.field(default_factory=list)
    records: list[Record] = dataclasses.field(default_factory=list)
    functions: list[Function] = dataclasses.field(default_factory=list)
    seen: list[Value] = dataclasses.field(default_factory=list)

    def values(self, kind: type[Integer] | type[Real], least: int = 0, most: int = 64) -> list[Value]:
        """Return the numbers in the variables of integer or floating-point types, of so many bits."""
        return [one.value for one in self.lvalues if isinstance(one.type, kind) and least <= one.type.bits <= most]

    def indices(self, length: int) -> list[Value]:
        """Return the numbers that are indices of any array of a length."""
        fitting = (one.value for one in self.lvalues if one.low >= 0 and one.high < length)
        return [value for value in fitting if isinstance(value.type, Integer)]

    def inner(self) -> "Scope":
        """Return the scope of a block inside; what is declared there is not seen here."""
        return Scope(list(self.lvalues), list(self.arrays), list(self.records), self.functions, list(self.seen))

    def add(self, items: Iterable[Parameter]) -> None:
        """Declare variables."""
        for item in items:
            if isinstance(item, Lvalue):
                self.lvalues.append(item)
            elif isinstance(item, Array):
                self.arrays.append(item)
            elif isinstance(item, Record):
                self.records.append(item)
                self.lvalues.extend(item.lvalues())
                self.arrays.extend(item.arrays())


def scalar_parameter(name: str, kind: Scalar, low: float | None = None, high: float | None = None) -> Lvalue:
    """Return an lvalue for a parameter that is a number, of the type's whole range if nothing else is said."""
    return Lvalue(name, kind, kind.low if low is None else low, kind.high if high is None else high)
