"""Tensor expressions, independent of execution order.

A computation is a list of stages. A stage computes each element of one tensor by an expression over elements of inputs
and of tensors of earlier stages, reduced over some axes. All elements are `float32`.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

FUNCTIONS: Mapping[str, int] = {  # the number of arguments of each
    "add": 2, "sub": 2, "mul": 2, "div": 2, "max": 2, "min": 2,
    "neg": 1, "abs": 1, "sqrt": 1, "exp": 1, "log": 1, "tanh": 1,
}  # fmt: skip
REDUCERS: Mapping[str, float] = {"sum": 0.0, "max": -math.inf, "min": math.inf}  # the initial value of each

ELEMENT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Affine:
    """A sum of a constant and multiples of axes.

    Attributes:
        constant: the constant term.
        terms: names of axes and their factors, none of them 0, each axis once.
    """

    constant: int = 0
    terms: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Read:
    """An element of a tensor."""

    tensor: str
    indices: tuple[Affine, ...]

    @property
    def axes(self) -> frozenset[str]:
        """The axes that its indices depend on."""
        return frozenset(axis for index in self.indices for axis, _ in index.terms)


@dataclass(frozen=True, slots=True)
class Number:
    """A constant."""

    value: float


@dataclass(frozen=True, slots=True)
class Call:
    """A function of `FUNCTIONS` applied."""

    function: str
    arguments: "tuple[Expression, ...]"


Expression = Read | Number | Call


@dataclass(frozen=True, slots=True)
class Axis:
    """One index of a stage, from 0 to `extent` - 1."""

    name: str
    extent: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """An array of `float32`, in C order."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Stage:
    """How one tensor is computed.

    Attributes:
        tensor: the name of the result; its shape is the extents of `spatial`, in that order.
        spatial: the axes of the result.
        reduction: the reduction axes.
        reducer: one of `REDUCERS`; "" without reduction axes.
        body: the expression that is reduced, or is the result.
    """

    tensor: str
    spatial: tuple[Axis, ...]
    reduction: tuple[Axis, ...]
    reducer: str
    body: Expression

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All axes, reduction axes last."""
        return self.spatial + self.reduction

    @property
    def result(self) -> Tensor:
        """The result tensor."""
        return Tensor(self.tensor, tuple(axis.extent for axis in self.spatial))

    @property
    def written(self) -> Read:
        """The access by which the result is written."""
        return Read(self.tensor, tuple(Affine(0, ((axis.name, 1),)) for axis in self.spatial))

    def reads(self) -> Iterator[Read]:
        """Yield each read of the body in textual order, with repetitions."""
        return (one for one in _nodes(self.body) if isinstance(one, Read))

    @cached_property
    def flops(self) -> int:
        """Floating-point operations: one for each function applied, and for each step of a reduction."""
        calls = sum(isinstance(one, Call) for one in _nodes(self.body))
        return (calls + bool(self.reducer)) * math.prod(axis.extent for axis in self.axes)


@dataclass(frozen=True)
class Computation:
    """What a program computes: the last stage's tensor is the result.

    Attributes:
        inputs: the input tensors.
        stages: the stages, in execution order.
    """

    inputs: tuple[Tensor, ...]
    stages: tuple[Stage, ...]

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors, in the order of a kernel's arguments: the inputs, then each stage's result."""
        return (*self.inputs, *(stage.result for stage in self.stages))

    @cached_property
    def by_name(self) -> Mapping[str, Tensor]:
        """All tensors by name."""
        return {tensor.name: tensor for tensor in self.tensors}

    @cached_property
    def flops(self) -> int:
        """Floating-point operations of all stages."""
        return sum(stage.flops for stage in self.stages)

    @cached_property
    def traffic(self) -> int:
        """Minimal bytes moved: the inputs and the result, each once."""
        tensors = (*self.inputs, self.stages[-1].result)
        return ELEMENT_BYTES * sum(tensor.size for tensor in tensors)

    @cached_property
    def footprint(self) -> int:
        """Bytes of all tensors."""
        return ELEMENT_BYTES * sum(tensor.size for tensor in self.tensors)


def _nodes(expression: Expression) -> Iterator[Expression]:
    yield expression
    if isinstance(expression, Call):
        for argument in expression.arguments:
            yield from _nodes(argument)
