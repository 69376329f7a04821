"""Loops, branches and indices as LLVM IR; indices are linear combinations of loop variables.

Loop counters and bounds are natural numbers, so the maximum of a sum is the sum of its parts' maxima. Factors may be
negative only where a tensor is read backwards.
"""

import functools
import math
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from llvmlite import ir

from aiocg.workers.loops._nest import Nest


class Division(NamedTuple):
    """The quotient or remainder of a sum and a number."""

    dividend: "Form"
    divisor: int
    remainder: bool


Atom = str | Division


class Form(NamedTuple):
    """A sum of multiples of atoms and a constant.

    Attributes:
        terms: atoms, each once, and their factors, which are positive except where a tensor is read backwards.
        constant: the constant term.
    """

    terms: tuple[tuple[Atom, int], ...]
    constant: int

    @property
    def variables(self) -> frozenset[str]:
        """The loop variables that it depends on."""
        return frozenset(_variables(self))

    @property
    def natural(self) -> bool:
        """Whether no factor is negative, so that no part of the sum is below 0."""
        return all(factor > 0 for _, factor in self.terms)

    def factor(self, name: str) -> int | None:
        """Return the factor of a variable: 0 if it does not occur, None if it also occurs in a division."""
        if any(name in atom.dividend.variables for atom, _ in self.terms if isinstance(atom, Division)):
            return None
        return dict(self.terms).get(name, 0)

    def without(self, name: str) -> "Form":
        """Return the sum without the multiple of a variable."""
        return Form(tuple(term for term in self.terms if term[0] != name), self.constant)

    def largest(self, extents: Mapping[str, int]) -> int:
        """Return an upper bound, which is reached unless there are remainders."""
        return self.constant + sum(factor * _largest(atom, extents) for atom, factor in self.terms)

    def plus(self, other: "Form", times: int = 1) -> "Form":
        """Return the sum of this form and a multiple of another."""
        terms: dict[Atom, int] = dict(self.terms)
        for atom, factor in other.terms:
            terms[atom] = terms.get(atom, 0) + times * factor
        return Form(tuple(terms.items()), self.constant + times * other.constant)

    def divided(self, divisor: int, extents: Mapping[str, int]) -> "tuple[Form, Form]":
        """Return quotient and remainder, without divisions where possible.

        Multiples of the divisor are moved out of the division. So are small terms that only fill the gaps between
        multiples of a number that divides everything else: (16 a + b) // 32 = (16 a) // 32 for b < 16.
        """
        whole = Form(tuple((a, f // divisor) for a, f in self.terms if f % divisor == 0), self.constant // divisor)
        rest = Form(tuple((a, f) for a, f in self.terms if f % divisor), self.constant % divisor)
        if rest.largest(extents) < divisor:
            return whole, rest
        terms = sorted(rest.terms, key=lambda term: term[1])
        for count in reversed(range(len(terms))):
            small = Form(tuple(terms[:count]), rest.constant)
            large = Form(tuple(terms[count:]), 0)
            if small.largest(extents) < math.gcd(divisor, *(factor for _, factor in large.terms)):
                break
        else:
            small, large = constant(0), rest
        quotient, remainder = Division(large, divisor, False), Division(large, divisor, True)
        return whole.plus(Form(((quotient, 1),), 0)), small.plus(Form(((remainder, 1),), 0))

    def where(self, values: Mapping[str, int], extents: Mapping[str, int]) -> "Form":
        """Return the sum with numbers substituted for some variables."""
        found = constant(self.constant)
        for atom, factor in self.terms:
            if isinstance(atom, Division):
                if atom.dividend.variables.isdisjoint(values):
                    part = Form(((atom, 1),), 0)
                else:
                    part = atom.dividend.where(values, extents).divided(atom.divisor, extents)[atom.remainder]
            else:
                part = constant(values[atom]) if atom in values else variable(atom)
            found = found.plus(part, factor)
        return found


def constant(value: int) -> Form:
    """Return a number as a sum."""
    return Form((), value)


def variable(name: str) -> Form:
    """Return a loop variable as a sum."""
    return Form(((name, 1),), 0)


def forms(nest: Nest) -> dict[str, Form]:
    """Return every variable of a nest, including former loops', in terms of its loop variables."""
    own = {loop.variable: variable(loop.variable) for loop in nest.loops}
    parted = functools.partial(Form.divided, extents=nest.extent)
    return nest.derived(own, lambda outer, inner, factor: inner.plus(outer, factor), parted)


def _variables(form: Form) -> Iterator[str]:
    for atom, _ in form.terms:
        if isinstance(atom, Division):
            yield from _variables(atom.dividend)
        else:
            yield atom


def _largest(atom: Atom, extents: Mapping[str, int]) -> int:
    if not isinstance(atom, Division):
        return extents[atom] - 1
    largest = atom.dividend.largest(extents)
    return min(largest, atom.divisor - 1) if atom.remainder else largest // atom.divisor


INDEX = ir.IntType(64)
BIT = ir.IntType(1)
NATURAL = ("nuw", "nsw")  # nothing overflows or is negative
INTEGER = ("nsw",)


@dataclass(frozen=True)
class Condition:
    """The body is skipped where `form` >= `bound`.

    Attributes:
        reduced: whether it belongs to a reduction loop.
        apart: whether each copy of the code tests it separately.
    """

    form: Form
    bound: int
    reduced: bool
    apart: bool = False


@dataclass(frozen=True)
class Scope:
    """What is known at one point of the code.

    Attributes:
        numbers: the variables of unrolled loops around it.
        values: the variables of the other loops around it.
        conditions: those not tested yet.
        rolled: whether unrolled loops stay loops here, because this code rarely runs.
        mask: the active lanes of a vector; None if all are.
        computed: values computed earlier that this point can use.
    """

    numbers: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, ir.Value] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    rolled: bool = False
    mask: ir.Value | None = None
    computed: ChainMap[object, ir.Value] = field(default_factory=ChainMap)

    def number(self, name: str, value: int) -> "Scope":
        """Return the scope of one iteration of an unrolled loop."""
        return replace(self, numbers={**self.numbers, name: value})

    def value(self, name: str, value: ir.Value) -> "Scope":
        """Return the scope of a loop's body."""
        return replace(self.inner(), values={**self.values, name: value})

    def inner(self) -> "Scope":
        """Return the scope of a conditional block, whose computed values cannot be used elsewhere."""
        return replace(self, computed=self.computed.new_child())

    def without(self, conditions: Collection[Condition]) -> "Scope":
        """Return a scope in which these conditions are known to hold."""
        return replace(self, conditions=tuple(one for one in self.conditions if one not in conditions))

    def knows(self, names: Iterable[str]) -> bool:
        """Return whether all these variables are bound."""
        return all(name in self.numbers or name in self.values for name in names)


Body = Callable[[Scope], None]


class Loops:
    """Writes loops, branches and indices into a function.

    Attributes:
        builder: the position of the next instruction.
        extents: the extents of all variables.
    """

    def __init__(self, builder: ir.IRBuilder, extents: Mapping[str, int]) -> None:
        self.builder = builder
        self.extents = extents

    def resolved(self, form: Form, scope: Scope) -> Form:
        """Substitute the variables whose values are known here."""
        return form.where(scope.numbers, self.extents) if form.terms and scope.numbers else form

    def index(self, form: Form, scope: Scope) -> ir.Value:
        """Compute a sum."""
        form = self.resolved(form, scope)
        moving = self.moving(form, scope)
        if moving is None:
            return ir.Constant(INDEX, form.constant)
        return self.builder.add(moving, ir.Constant(INDEX, form.constant), flags=NATURAL) if form.constant else moving

    def moving(self, form: Form, scope: Scope) -> ir.Value | None:
        """Compute a resolved sum without its constant; None if it is only a constant."""
        if not form.terms:
            return None
        found = scope.computed.get(form.terms)
        if found is None:
            flags = NATURAL if form.natural else INTEGER
            for atom, factor in form.terms:
                value = self._atom(atom, scope)
                if factor != 1:
                    value = self.builder.mul(value, ir.Constant(INDEX, factor), flags=flags)
                found = value if found is None else self.builder.add(found, value, flags=flags)
            scope.computed[form.terms] = found
        return found

    def below(self, form: Form, bound: int, scope: Scope) -> ir.Value | bool:
        """Compare a sum with a bound, without code if the answer is known."""
        form = self.resolved(form, scope)
        if form.largest(self.extents) < bound:
            return True
        if form.constant >= bound:
            return False
        return self.builder.icmp_signed("<", self.index(form, scope), ir.Constant(INDEX, bound))

    def both(self, a: ir.Value | bool, b: ir.Value | bool) -> ir.Value | bool:
        """Return the conjunction of two conditions, without code if the answer is known."""
        if isinstance(a, bool):
            return a and b
        if isinstance(b, bool):
            return b and a
        return self.builder.and_(a, b)

    def when(self, holds: ir.Value | bool, scope: Scope, body: Body) -> None:
        """Write code that runs if a condition holds."""
        if holds is True:
            body(scope)
        elif holds is not False:
            with self.builder.if_then(holds):
                body(scope.inner())

    def either(self, holds: ir.Value | bool, yes: Callable[[], None], no: Callable[[], None]) -> None:
        """Write two branches, or only the one known to be taken."""
        if isinstance(holds, bool):
            (yes if holds else no)()
            return
        with self.builder.if_else(holds) as (then, otherwise):
            with then:
                yes()
            with otherwise:
                no()

    def count(self, first: ir.Value, end: ir.Value, body: Callable[[ir.Value], None]) -> None:
        """Write a loop from one number up to but excluding another, which may be smaller."""
        builder = self.builder
        sure = isinstance(first, ir.Constant) and isinstance(end, ir.Constant) and first.constant < end.constant
        before = builder.block
        inside, after = builder.append_basic_block(), builder.append_basic_block()
        if sure:
            builder.branch(inside)
        else:
            builder.cbranch(builder.icmp_signed("<", first, end), inside, after)
        builder.position_at_end(inside)
        variable = builder.phi(INDEX)
        variable.add_incoming(first, before)
        body(variable)
        following = builder.add(variable, ir.Constant(INDEX, 1), flags=NATURAL)
        variable.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, end), inside, after)
        builder.position_at_end(after)

    def _atom(self, atom: Atom, scope: Scope) -> ir.Value:
        if not isinstance(atom, Division):
            return scope.values[atom]
        found = scope.computed.get(atom)
        if found is None:
            divide = self.builder.urem if atom.remainder else self.builder.udiv
            found = divide(self.index(atom.dividend, scope), ir.Constant(INDEX, atom.divisor))
            scope.computed[atom] = found
        return found
