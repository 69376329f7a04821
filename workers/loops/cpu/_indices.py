"""Indices as linear combinations of loop variables, and of quotients and remainders where loops were fused.

Loop counters and bounds are natural numbers, so the maximum of a sum is the sum of its parts' maxima. Factors may be
negative only where a tensor is read backwards.
"""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from aiocg.workers.loops._nest import Nest, Split


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
    found = {loop.variable: variable(loop.variable) for loop in nest.loops}
    for relation in reversed(nest.relations):
        if isinstance(relation, Split):
            found[relation.parent] = found[relation.inner].plus(found[relation.outer], relation.factor)
        else:
            fused = found[relation.fused]
            found[relation.outer], found[relation.inner] = fused.divided(relation.extent, nest.extent)
    return found


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
