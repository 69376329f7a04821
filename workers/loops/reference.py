"""Reference results from NumPy in `float64`, and comparison of a kernel's results with them.

What `float32` cannot represent becomes infinite in the reference as in kernels, and infinities and NaN are compared.
Reductions of a product of two reads go to BLAS; everything else is broadcast block by block, in bounded memory.
"""

import itertools
import math
import string
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from aiocg.workers.loops.expression import REDUCERS, Axis, Computation, Expression, Number, Read, Stage
from aiocg.workers.loops.rounding import (
    LARGEST,
    OPERAND_ROUNDING,
    Approximation,
    Bound,
    Scale,
    apply,
    growth,
    in_range,
    may_be_fused,
    scale_of_array,
    scale_of_expression,
    scale_of_stage,
)

CONTRACTED = 1 << 21  # elements of a BLAS operand
BROADCAST = 1 << 17  # elements of an expression evaluated together
COMPARED = FILLED = 1 << 20  # elements compared, or generated, together

_LETTERS = string.ascii_letters  # names for axes; a stage has fewer
_ILL_DEFINED = {"div", "log", "sqrt"}  # for some numbers, so inputs are positive

Floats = NDArray[np.float32]


class Expected(NamedTuple):
    """The expected content of a tensor.

    Attributes:
        values: `float32`, of the tensor's shape.
        tolerance: allowed error of each element, `float32` of the same shape; None for equality. Infinite where it is
            unknown: where rounding decides whether `float32` overflows.
    """

    values: Floats
    tolerance: Floats | None


class _Mismatch(NamedTuple):
    """A wrong result.

    Attributes:
        tensor: the tensor's name.
        place: the indices of the element that exceeds its tolerance most.
        value: that element's value.
        expected: its expected value.
        tolerance: its allowed error.
        wrong: the number of wrong elements in the tensor.
        size: the number of elements in the tensor.
    """

    tensor: str
    place: tuple[int, ...]
    value: float
    expected: float
    tolerance: float
    wrong: int
    size: int

    def __str__(self) -> str:
        place = ", ".join(map(str, self.place))
        return (
            f"{self.tensor}[{place}] is {self.value:.9g}, expected {self.expected:.9g} with a tolerance of "
            f"{self.tolerance:.2g}; {self.wrong:,} of {self.size:,} elements are wrong"
        )


def random_inputs(computation: Computation, seed: int = 0) -> list[Floats]:
    """Return an array for each input: numbers from -1 to 1, the same for the same seed.

    They have few enough bits for sums and products to be exact, so that an error in the smallest term shows.
    Computations with divisions, roots or logarithms get positive numbers.
    """
    bits = _bits(computation)
    positive = any(function in _ILL_DEFINED for stage in computation.stages for function in _functions(stage.body))
    rng = np.random.default_rng(seed)
    lowest = 1 if positive else -(2**bits)
    arrays = []
    for tensor in computation.inputs:
        array = np.empty(tensor.size, np.float32)
        for start in range(0, tensor.size, FILLED):
            part = array[start : start + FILLED]
            part[:] = rng.integers(lowest, 2**bits, part.size, np.int32, endpoint=True)
            part *= np.float32(2.0**-bits)
        arrays.append(array.reshape(tensor.shape))
    return arrays


def expect(computation: Computation, inputs: Sequence[Floats], rounded: Collection[str] = ()) -> list[Expected]:
    """Return the expected result of each stage, with tolerances.

    Args:
        computation: what to evaluate.
        inputs: arrays for `computation.inputs`.
        rounded: the tensors of stages that tensor cores compute, which round what they multiply.

    Raises:
        ValueError: if their shapes are wrong.
    """
    shapes = [array.shape for array in inputs]
    if shapes != [tensor.shape for tensor in computation.inputs]:
        raise ValueError(f"expected inputs of the shapes {[one.shape for one in computation.inputs]}, got {shapes}")
    names = [tensor.name for tensor in computation.inputs]
    known = {name: Expected(array, None) for name, array in zip(names, inputs, strict=True)}
    scales = {name: scale_of_array(array) for name, array in zip(names, inputs, strict=True)}
    for stage in computation.stages:
        with np.errstate(all="ignore"):
            known[stage.tensor] = _StageEvaluation(stage, known, scales, stage.tensor in rounded).run()
        scales[stage.tensor] = None if stage.tensor in rounded else scale_of_stage(stage, scales)
    return [known[stage.tensor] for stage in computation.stages]


def compare(computation: Computation, got: Sequence[Floats], expected: Sequence[Expected]) -> _Mismatch | None:
    """Return the mismatch of the first wrong stage; None if all results are right.

    Args:
        computation: what was computed.
        got: an array for each stage, as a kernel computed it from the inputs that `expect` got.
        expected: what `expect` returned.
    """
    for stage, array, right in zip(computation.stages, got, expected, strict=True):
        if array.shape != right.values.shape or array.dtype != np.float32:
            raise ValueError(f"expected float32 of the shape {right.values.shape} for {stage.tensor}, "
                             f"got {array.dtype} of the shape {array.shape}")  # fmt: skip
        if mismatch := _mismatch(stage.tensor, array, right):
            return mismatch
    return None


def _mismatch(tensor: str, got: Floats, right: Expected) -> _Mismatch | None:
    wrong, worst, place = 0, 0.0, -1
    flat, values = got.reshape(-1), right.values.reshape(-1)
    tolerances = None if right.tolerance is None else right.tolerance.reshape(-1)
    for start in range(0, flat.size, COMPARED):
        here = slice(start, start + COMPARED)
        with np.errstate(all="ignore"):
            distance = np.abs(flat[here].astype(np.float64) - values[here])
            excess = distance if tolerances is None else distance - tolerances[here]
        excess[(flat[here] == values[here]) | (np.isnan(flat[here]) & np.isnan(values[here]))] = 0  # infinities, NaN
        excess[np.isnan(excess)] = np.inf
        if tolerances is not None:
            excess[np.isinf(tolerances[here])] = 0
        if (count := int(np.count_nonzero(excess > 0))) == 0:
            continue
        wrong += count
        farthest = int(excess.argmax())
        if place < 0 or excess[farthest] > worst:
            worst, place = float(excess[farthest]), start + farthest
    if not wrong:
        return None
    index = tuple(map(int, np.unravel_index(place, got.shape)))
    tolerance = 0.0 if tolerances is None else float(tolerances[place])
    return _Mismatch(tensor, index, float(flat[place]), float(values[place]), tolerance, wrong, got.size)


def _bits(computation: Computation) -> int:
    """Return the number of bits of random inputs with which most stages are exact."""

    def exact(bits: int) -> int:
        scales: dict[str, Scale | None] = {tensor.name: Scale(-bits, 1.0) for tensor in computation.inputs}
        for stage in computation.stages:
            scales[stage.tensor] = scale_of_stage(stage, scales)
        return sum(scale is not None for scale in scales.values())

    return max(range(24), key=lambda bits: (exact(bits), bits))


def _functions(expression: Expression) -> Iterator[str]:
    if not isinstance(expression, Read | Number):
        yield expression.function
        for argument in expression.arguments:
            yield from _functions(argument)


Block = Mapping[str, range]  # the evaluated part of each axis


class _Partial(NamedTuple):
    """A partial reduction: arrays whose shape is the extents of the spatial axes in a block."""

    value: NDArray[np.float64]
    error: Bound
    absolute: Bound  # of sums: the sum of the terms' absolute values, with their errors


class _StageEvaluation:
    """The evaluation of one stage.

    Args:
        stage: what to evaluate.
        known: the tensors it reads, by name.
        scales: the scales of these tensors.
        rounded: whether tensor cores round the factors.
    """

    def __init__(
        self, stage: Stage, known: Mapping[str, Expected], scales: Mapping[str, Scale | None], rounded: bool
    ) -> None:
        self._stage = stage
        self._known = known
        self._scales = scales
        self._exact = not rounded and scale_of_stage(stage, scales) is not None
        self._rounding = OPERAND_ROUNDING if rounded else 0.0
        factors = _factors(stage.body) if stage.reducer == "sum" else None
        self._factors = factors if factors is not None and factors[1] else None

    def run(self) -> Expected:
        stage = self._stage
        shape = stage.result.shape
        values = np.empty(shape, np.float32)
        tolerance = None if self._exact else np.empty(shape, np.float32)
        extents = self._block_extents()
        for block in _blocks(stage.spatial, extents):
            value, error = self._reduced(block, extents)
            here = tuple(slice(part.start, part.stop) for part in block.values())
            values[here] = value
            if tolerance is not None:
                bound = 1.000001 * (error + np.abs(values[here] - value))  # exceeds the loss from rounding to float32
                unknown = np.where(np.isfinite(value), ~np.isfinite(bound), ~np.isfinite(error))
                tolerance[here] = np.where(unknown, np.inf, np.where(np.isfinite(value), bound, 0.0))
        return Expected(values, tolerance)

    def _block_extents(self) -> dict[str, int]:
        """Return the block size along each axis: the longest are halved until a block fits."""
        if self._factors is None:
            sets, limit = [frozenset(axis.name for axis in self._stage.axes)], BROADCAST
        else:
            reads = [read.axes for read in self._factors[1]]
            sets, limit = [*reads, frozenset(axis.name for axis in self._stage.spatial)], CONTRACTED
        extents = {axis.name: axis.extent for axis in self._stage.axes}
        for axes in sets:
            while math.prod(extents[axis] for axis in axes) > limit:
                longest = max(sorted(axes), key=extents.__getitem__)
                extents[longest] = -(-extents[longest] // 2)
        return extents

    def _reduced(self, spatial: Block, extents: Mapping[str, int]) -> Approximation:
        stage = self._stage
        if not stage.reducer:
            found = self._broadcast(stage.body, spatial)
            return Approximation(self._whole(found.value, spatial), found.error)
        partials = (self._partial({**spatial, **reduced}) for reduced in _blocks(stage.reduction, extents))
        total = next(partials)
        combine: Callable[..., NDArray[np.float64]] = _COMBINED[stage.reducer]
        for one in partials:
            error = total.error + one.error if stage.reducer == "sum" else np.maximum(total.error, one.error)
            total = _Partial(combine(total.value, one.value), error, total.absolute + one.absolute)
        error = total.error
        if stage.reducer == "sum" and not self._exact:
            terms = math.prod(axis.extent for axis in stage.reduction)
            error = error + growth(terms) * total.absolute
            size = np.abs(total.value)  # where terms have several signs, parts of the sum may overflow either way
            partly = (np.asarray(total.absolute) >= LARGEST) & (size < 0.999 * np.asarray(total.absolute))
            error = np.where(np.isfinite(size), np.where(partly, np.inf, error), total.error)
            fused = np.isnan(size) & may_be_fused(stage.body)
            return in_range(total.value, error, fused | ~np.isfinite(np.asarray(total.error)))
        return Approximation(total.value, error)

    def _partial(self, block: Block) -> _Partial:
        if self._factors is not None:
            return self._contracted(block, *self._factors)
        stage = self._stage
        term = self._broadcast(stage.body, block)
        value = self._whole(term.value, block)
        over = tuple(range(len(stage.spatial), value.ndim))
        if stage.reducer != "sum":
            error = term.error if isinstance(term.error, float) else self._whole(term.error, block).max(over)
            return _Partial(_REDUCED[stage.reducer](value, over), error, 0.0)
        error = term.error if isinstance(term.error, float) else self._whole(term.error, block).sum(over)
        absolute = 0.0 if self._exact else np.abs(value).sum(over) + error
        return _Partial(value.sum(over), error, absolute)

    def _whole(self, array: NDArray[np.float64], block: Block) -> NDArray[np.float64]:
        return np.broadcast_to(array, tuple(map(len, block.values())))

    def _broadcast(self, expression: Expression, block: Block) -> Approximation:
        """Evaluate an expression, with extent 1 along axes that it does not depend on."""
        if isinstance(expression, Number):
            return Approximation(np.full((1,) * len(block), expression.value), 0.0)
        if isinstance(expression, Read):
            value, tolerance = self._known[expression.tensor]
            error = 0.0 if tolerance is None else _view(tolerance, expression, block).astype(np.float64)
            return Approximation(_view(value, expression, block).astype(np.float64), error)
        arguments = [self._broadcast(argument, block) for argument in expression.arguments]
        exact = self._exact or scale_of_expression(expression, self._scales) is not None
        return apply(expression, arguments, exact=exact)

    def _contracted(self, block: Block, factor: float, reads: Sequence[Read]) -> _Partial:
        """Sum a product of reads over a block."""
        views = [_view(self._known[read.tensor].values, read, block).astype(np.float64) for read in reads]
        value = factor * self._summed(views, block)
        if self._exact:
            return _Partial(value, 0.0, 0.0)
        sizes = [np.abs(view) for view in views]
        absolute = plain = abs(factor) * self._summed(sizes, block)
        tolerances = [self._known[read.tensor].tolerance for read in reads]
        if any(tolerance is not None for tolerance in tolerances):
            for size, read, tolerance in zip(sizes, reads, tolerances, strict=True):
                if tolerance is not None:
                    size += _view(tolerance, read, block)
            absolute = abs(factor) * self._summed(sizes, block)
        rounding = growth(len(reads) + (factor != 1)) + self._rounding
        return _Partial(value, absolute - plain + rounding * absolute, (1 + rounding) * absolute)

    def _summed(self, views: Sequence[NDArray[np.float64]], block: Block) -> NDArray[np.float64]:
        """Multiply arrays, whose dimensions are those of a block or 1, and sum over the reduction axes."""
        number = {axis: index for index, axis in enumerate(block)}
        kept = len(self._stage.spatial)
        present: set[int] = set()
        operands, subscripts = [], []
        for view in views:
            axes = [index for index in number.values() if view.shape[index] > 1]
            operands.append(view.reshape([view.shape[index] for index in axes]))
            subscripts.append("".join(_LETTERS[index] for index in axes))
            present.update(axes)
        missing = math.prod(len(part) for axis, part in block.items() if number[axis] not in present | set(range(kept)))
        result_subscripts = "".join(_LETTERS[index] for index in range(kept) if index in present)
        result = np.einsum(f"{','.join(subscripts)}->{result_subscripts}", *operands, optimize=True)
        shape = [len(part) if number[axis] in present else 1 for axis, part in block.items()][:kept]
        whole = [len(part) for part in block.values()][:kept]
        return np.broadcast_to(missing * np.asarray(result).reshape(shape), whole)


def _factors(expression: Expression) -> tuple[float, list[Read]] | None:
    """Return a product of at most two reads as a number and the reads; None for other expressions."""
    if isinstance(expression, Read):
        return 1.0, [expression]
    if isinstance(expression, Number):
        return expression.value, []
    if expression.function != "mul":
        return None
    left, right = map(_factors, expression.arguments)
    if left is None or right is None or len(left[1]) + len(right[1]) > 2:
        return None
    return left[0] * right[0], left[1] + right[1]


def _blocks(axes: Sequence[Axis], extents: Mapping[str, int]) -> Iterator[Block]:
    """Split the axes into parts of at most these extents."""

    def cut(extent: int, step: int) -> list[range]:
        return [range(start, min(start + step, extent)) for start in range(0, extent, step)]

    parts = [cut(axis.extent, extents[axis.name]) for axis in axes]
    names = [axis.name for axis in axes]
    return (dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*parts))


def _view(array: Floats, read: Read, block: Block) -> Floats:
    """Return the elements of a read, with one dimension for each axis of the block, of extent 1 for unused axes."""
    first = [index.constant + sum(factor * block[axis].start for axis, factor in index.terms) for index in read.indices]
    strides = dict.fromkeys(block, 0)
    low, high = list(first), list(first)
    for dimension, index in enumerate(read.indices):
        for axis, factor in index.terms:
            strides[axis] += factor * array.strides[dimension]
            reach = factor * (len(block[axis]) - 1)
            low[dimension] += min(reach, 0)
            high[dimension] += max(reach, 0)
    if any(one < 0 for one in low) or any(one >= size for one, size in zip(high, array.shape, strict=True)):
        raise ValueError(f"{read.tensor} of the shape {array.shape} is read outside of it")
    used = read.axes
    shape = [len(part) if axis in used else 1 for axis, part in block.items()]
    start = array[tuple(slice(one, None) for one in first)]
    return as_strided(start, shape, list(strides.values()), writeable=False)


_COMBINED: Mapping[str, Callable[..., NDArray[np.float64]]] = {"sum": np.add, "max": np.maximum, "min": np.minimum}
_REDUCED: Mapping[str, Callable[..., NDArray[np.float64]]] = {"max": np.max, "min": np.min}
assert _COMBINED.keys() == REDUCERS.keys()
