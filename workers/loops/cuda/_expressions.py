"""Expressions as CUDA C, and the variables that they need."""

from collections.abc import Callable, Mapping, Set
from typing import NamedTuple

from aiocg.workers.loops._expression import Call, Expression, Number, Read, Tensor
from aiocg.workers.loops._nest import Nest, Split
from aiocg.workers.loops.cuda._copies import Copies
from aiocg.workers.loops.cuda._formulas import affine, flat, number

FUNCTIONS = {
    "add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "div": "({} / {})",
    "max": "maximum({}, {})", "min": "minimum({}, {})",
    "neg": "(-{})", "abs": "fabsf({})", "sqrt": "sqrtf({})", "exp": "expf({})", "log": "logf({})", "tanh": "tanhf({})",
}  # fmt: skip


class Text(NamedTuple):
    """A text, and the variables that have to be defined where it stands."""

    text: str
    needs: frozenset[str]


class VariableNames(dict[str, str]):
    """Names of tensors and variables.

    Attributes:
        used: those that were asked for.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__(names)
        self.used: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.used.add(name)
        return super().__getitem__(name)


def within(axis: str) -> str:
    """Return the name under which the value of an axis, but at most its last, is needed."""
    return f"{axis} within"


class Expressions:
    """Writes expressions.

    Args:
        nest: the loops.
        tensors: the kernel's tensors by name.
        copies: those of them that are staged.
        names: the names of tensors and variables.

    Attributes:
        within: the names of axes' values that are at most their last ones, where these are to be read by.
    """

    def __init__(self, nest: Nest, tensors: Mapping[str, Tensor], copies: Copies, names: VariableNames) -> None:
        self.within: Mapping[str, str] = {}
        self._nest = nest
        self._tensors = tensors
        self._copies = copies
        self._names = names

    def value(
        self, expression: Expression, values: Mapping[str, str] | None = None, known: Mapping[Read, str] | None = None
    ) -> str:
        """Return the value of an expression.

        Args:
            expression: the expression.
            values: the values of variables, if not their names.
            known: the values of elements that need not be read.
        """
        match expression:
            case Number(value):
                return number(value)
            case Call(function, arguments):
                return FUNCTIONS[function].format(*(self.value(argument, values, known) for argument in arguments))
            case Read(tensor):
                if known and expression in known:
                    return known[expression]
                if tensor in self._copies.tiles:
                    return self._copies.element(expression, values or self._names)
                return self.element(expression, values, self.within)

    def element(
        self, element: Read, values: Mapping[str, str] | None = None, instead: Mapping[str, str] | None = None
    ) -> str:
        """Return an element of a tensor in the device's memory.

        Args:
            element: the element.
            values: the values of variables, if not their names.
            instead: values of axes that are to be used instead.
        """
        instead = instead or {}
        axes = {axis: (values or self._names)[axis] for index in element.indices for axis, _ in index.terms}
        self._names.used |= {within(axis) for axis in axes.keys() & instead.keys()}
        places = [affine(index, {**axes, **instead}) for index in element.indices]
        return f"{self._names[element.tensor]}[{flat(places, self._tensors[element.tensor].shape)}]"

    def needing(self, write: Callable[[], str]) -> Text:
        """Return a text with the variables that it needs."""
        self._names.used.clear()
        text = write()
        return Text(text, self.closed(self._names.used))

    def closed(self, variables: Set[str]) -> frozenset[str]:
        """Return variables and those that they are computed from."""
        found = set(variables)
        for relation in self._nest.relations:
            if isinstance(relation, Split):
                found |= {relation.outer, relation.inner} if relation.parent in found else set()
            else:
                found |= {relation.fused} if not found.isdisjoint((relation.outer, relation.inner)) else set()
        return frozenset(found)
