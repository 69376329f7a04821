"""Tensor expressions: what is computed, and nothing about in which order.

A computation is a list of stages. A stage computes each element of one tensor by an expression over elements of inputs
and of tensors of earlier stages, reduced over some axes. All elements are `float32`.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

__all__ = ["FUNCTIONS", "REDUCERS", "Affine", "Axis", "Call", "Computation", "Expression", "Number", "Read", "Stage",
           "Tensor"]  # fmt: skip

FUNCTIONS: Mapping[str, int] = {  # with how many arguments each has
    "add": 2, "sub": 2, "mul": 2, "div": 2, "max": 2, "min": 2,
    "neg": 1, "abs": 1, "sqrt": 1, "exp": 1, "log": 1, "tanh": 1,
}  # fmt: skip
REDUCERS: Mapping[str, float] = {"sum": 0.0, "max": -math.inf, "min": math.inf}  # with what each begins

ELEMENT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Affine:
    """A sum of a constant and multiples of axes.

    Attributes:
        constant: what does not depend on an axis.
        terms: names of axes and their factors, none of them 0, each axis once.
    """

    constant: int = 0
    terms: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Read:
    """An element of a tensor."""

    tensor: str
    indices: tuple[Affine, ...]


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
        """The number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Stage:
    """How one tensor is computed.

    Attributes:
        tensor: the name of what is computed; its shape is the extents of `spatial`, in that order.
        spatial: the axes of the result.
        reduction: the axes that are reduced over.
        reducer: one of `REDUCERS`; "" without reduction axes.
        body: what is reduced, or is the result.
    """

    tensor: str
    spatial: tuple[Axis, ...]
    reduction: tuple[Axis, ...]
    reducer: str
    body: Expression

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All axes, those that are reduced over last."""
        return self.spatial + self.reduction

    @property
    def result(self) -> Tensor:
        """The tensor that is computed."""
        return Tensor(self.tensor, tuple(axis.extent for axis in self.spatial))

    def reads(self) -> Iterator[Read]:
        """Yield each element that the body reads, in the order of the text, repeated as it is there."""
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
        inputs: the tensors that are given.
        stages: in the order in which they are computed.
    """

    inputs: tuple[Tensor, ...]
    stages: tuple[Stage, ...]

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors, which is also the order of a kernel's arguments: the inputs, and then each stage's."""
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
        """Bytes that must be read or written at least: the inputs and the result, each once."""
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
