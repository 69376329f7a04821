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

from aiocg.workers.loops._expression import REDUCERS, Axis, Call, Computation, Expression, Number, Read, Stage

CONTRACTED = 1 << 21  # elements of a BLAS operand
BROADCAST = 1 << 17  # elements of an expression evaluated together
COMPARED = FILLED = 1 << 20  # elements compared, or generated, together

_LETTERS = string.ascii_letters  # names for axes; a stage has fewer
_ILL_DEFINED = {"div", "log", "sqrt"}  # for some numbers, so inputs are positive

Floats = NDArray[np.float32]


# ------------------------------- Error bounds of `float32` results: running error bounds for expressions and reductions

# The bounds are those of N. J. Higham, Accuracy and Stability of Numerical Algorithms (2nd edition, SIAM 2002), with u
# = 2^-24. One operation: fl(a op b) = (a op b)(1 + d), |d| <= u (2.4), which is propagated as in section 3.3. A sum of
# n terms, in any order: |fl(s) - s| <= gamma(n - 1) sum |x|, gamma(n) = n u / (1 - n u) (4.4). Fused multiply-adds
# round less often, so the bounds hold for them too.
#
# If all values are multiples of one power of two and small enough, nothing is rounded in any order: then a result must
# equal the exact one to the last bit, and the bound is 0.

PRECISION = 24  # bits of a float32
UNIT = 2.0**-PRECISION
TINY = 2.0**-126  # below it, numbers have fewer bits or are flushed to zero
LARGEST = float(np.finfo(np.float32).max)
OVERFLOW = 2.0**128  # float32 rounds it to infinity
OPERAND_ROUNDING = 2 * 2.0**-11 + 2.0**-22 + 4 * UNIT
"""The relative error of a product that tensor cores add to a sum: they round its factors to 11 bits, and cut sums off.

M. Fasi, N. J. Higham, M. Mikaitis and S. Pranesh, Numerical behavior of NVIDIA tensor cores (PeerJ CS, 2021).
"""
LIBRARY_ERROR = 8 * UNIT
"""The relative error of exp, log and tanh: CUDA's have at most 2 ulps (1 ulp is up to 2 u), vectorised ones 4."""
DIVISION_ERROR = 4 * UNIT  # of division and square root, which GPUs approximate on request

_CHUNK = 1 << 20  # elements

Bound = NDArray[np.float64] | float


class Scale(NamedTuple):
    """All values are multiples of 2**`grid`, and none is farther from 0 than `magnitude`."""

    grid: int
    magnitude: float

    @property
    def exact(self) -> bool:
        """Whether `float32` represents all such values exactly."""
        return self.magnitude <= min(LARGEST, math.ldexp(1.0, PRECISION + self.grid))


class _Approximation(NamedTuple):
    """Values and error bounds of their `float32` versions; both `float64`, where a bound of 0 may be a plain number.

    Infinities and NaN have the bound 0 where `float32` certainly has the same, and infinity where it may not.
    """

    value: NDArray[np.float64]
    error: Bound


def growth(terms: int) -> float:
    """Return the error bound of a sum of this many terms, relative to the sum of their absolute values."""
    relative = (terms - 1) * UNIT
    return relative / (1 - relative) if relative < 0.5 else 1.0


def scale_of_array(array: NDArray[np.float32]) -> Scale | None:
    """Return the scale of an array's elements; None if they are not finite."""
    magnitude, grid = 0.0, PRECISION
    for chunk in _chunks(array):
        if not np.isfinite(chunk).all():
            return None
        magnitude = max(magnitude, float(np.abs(chunk).max()))
        mantissa, exponent = np.frexp(chunk[chunk != 0])
        whole = (np.abs(mantissa) * 2**PRECISION).astype(np.int32)
        _, zeros = np.frexp((whole & -whole).astype(np.float32))  # one more than the number of trailing zeros of each
        grid = min(grid, int((exponent + zeros).min(initial=grid + PRECISION + 1)) - PRECISION - 1)
    return Scale(grid, magnitude)


def _scale_of_expression(expression: Expression, tensors: Mapping[str, Scale | None]) -> Scale | None:
    """Return the scale of the values; None if an operation rounds, or may round."""
    if isinstance(expression, Read):
        return tensors[expression.tensor]
    if isinstance(expression, Number):
        return scale_of_array(np.array([expression.value], np.float32))
    scales = [_scale_of_expression(one, tensors) for one in expression.arguments]
    known = [scale for scale in scales if scale is not None]
    if len(known) < len(scales) or expression.function not in _EXACT:
        return None
    scale = _EXACT[expression.function](known)
    return scale if scale.exact else None


def _scale_of_stage(stage: Stage, tensors: Mapping[str, Scale | None]) -> Scale | None:
    """Return the scale of the elements that a stage computes; None if an operation rounds, or may round."""
    scale = _scale_of_expression(stage.body, tensors)
    if scale is None or stage.reducer != "sum":
        return scale
    total = Scale(scale.grid, scale.magnitude * math.prod(axis.extent for axis in stage.reduction))
    return total if total.exact else None


def _apply(call: Call, arguments: Sequence[_Approximation], *, exact: bool) -> _Approximation:
    """Apply a function to approximations.

    Args:
        call: the function.
        arguments: the approximations.
        exact: whether the function does not round here.
    """
    values = [argument.value for argument in arguments]
    value = _VALUES[call.function](*values)
    error = _inherited(call.function, arguments, value)
    rounding = _ROUNDING.get(call.function, 0.0)
    if rounding and not exact:
        error = error + rounding * (np.abs(value) + error) + TINY
    unsure = np.any(np.broadcast_arrays(*map(_unsure, arguments)), axis=0)
    if call.function in ("add", "sub") and any(map(_may_be_fused, call.arguments)):
        unsure = unsure | np.isnan(value)
    # A product may be added before it is rounded, which can bring back one that is less than twice too large.
    return _in_range(value, error, unsure, 2 * OVERFLOW if call.function == "mul" else OVERFLOW)


def _in_range(
    value: NDArray[np.float64], error: Bound, unsure: NDArray[np.bool_], overflow: float = OVERFLOW
) -> _Approximation:
    """Turn values that `float32` cannot represent into the infinities that it has instead.

    Args:
        value, error: the values and their error bounds.
        unsure: where infinities and NaN may be something else in `float32`.
        overflow: magnitude from which values become infinite for certain.
    """
    size = np.abs(value)
    if (size + error < LARGEST).all():
        return _Approximation(value, error)
    over = size - error >= overflow
    value = np.where(over, np.copysign(np.inf, value), value)
    unknown = np.isnan(error) | (size + error >= LARGEST)
    special = np.where(unsure, np.inf, 0.0)
    return _Approximation(value, np.where(np.isfinite(value), np.where(unknown, np.inf, error), special))


def _may_be_fused(expression: Expression) -> bool:
    """Return whether an addition may use a product that has not been rounded, and so never became infinite."""
    return isinstance(expression, Call) and expression.function in ("mul", "neg")


def _unsure(argument: _Approximation) -> NDArray[np.bool_]:
    """Return where an argument may be 0, of either sign, or anything."""
    value, error = argument
    return (error > 0) & (np.where(np.isfinite(value), np.abs(value), 0.0) <= error)


def _inherited(function: str, arguments: Sequence[_Approximation], value: NDArray[np.float64]) -> Bound:
    """Return the error propagated from the arguments."""
    if all(isinstance(argument.error, float) and argument.error == 0 for argument in arguments):
        return 0.0
    (a, e), *rest = arguments
    b, d = rest[0] if rest else (a, 0.0)
    match function:
        case "add" | "sub":
            return e + d
        case "mul":
            return np.abs(a) * d + np.abs(b) * e + e * d
        case "div":
            left = np.abs(b) - d
            return np.where(left > 0, (e + np.abs(value) * d) / left, np.inf)
        case "max" | "min":
            return np.maximum(e, d)
        case "sqrt":
            return np.minimum(np.sqrt(e), e / np.sqrt(a))
        case "exp":
            return value * np.expm1(e)
        case "log":
            return np.where(e < a, -np.log1p(-e / a), np.inf)
    return e  # the results of neg, abs and tanh change no more than their arguments


def _chunks(array: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
    flat = array.reshape(-1)
    return (flat[start : start + _CHUNK] for start in range(0, flat.size, _CHUNK))


def _added(scales: Sequence[Scale]) -> Scale:
    return Scale(min(scale.grid for scale in scales), sum(scale.magnitude for scale in scales))


def _multiplied(scales: Sequence[Scale]) -> Scale:
    return Scale(sum(scale.grid for scale in scales), math.prod(scale.magnitude for scale in scales))


def _chosen(scales: Sequence[Scale]) -> Scale:
    return Scale(min(scale.grid for scale in scales), max(scale.magnitude for scale in scales))


_EXACT: Mapping[str, Callable[[Sequence[Scale]], Scale]] = {
    "add": _added, "sub": _added, "mul": _multiplied, "max": _chosen, "min": _chosen, "neg": _chosen, "abs": _chosen,
}  # fmt: skip
_VALUES: Mapping[str, Callable[..., NDArray[np.float64]]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum,
    "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "tanh": np.tanh,
}  # fmt: skip
_ROUNDING = {
    "add": UNIT, "sub": UNIT, "mul": UNIT, "div": DIVISION_ERROR, "sqrt": DIVISION_ERROR,
    "exp": LIBRARY_ERROR, "log": LIBRARY_ERROR, "tanh": LIBRARY_ERROR,
}  # fmt: skip


# ---------------------------- Reference results from NumPy in `float64`, and comparison of a kernel's results with them


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
        scales[stage.tensor] = None if stage.tensor in rounded else _scale_of_stage(stage, scales)
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
            scales[stage.tensor] = _scale_of_stage(stage, scales)
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
        self._exact = not rounded and _scale_of_stage(stage, scales) is not None
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

    def _reduced(self, spatial: Block, extents: Mapping[str, int]) -> _Approximation:
        stage = self._stage
        if not stage.reducer:
            found = self._broadcast(stage.body, spatial)
            return _Approximation(self._whole(found.value, spatial), found.error)
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
            fused = np.isnan(size) & _may_be_fused(stage.body)
            return _in_range(total.value, error, fused | ~np.isfinite(np.asarray(total.error)))
        return _Approximation(total.value, error)

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

    def _broadcast(self, expression: Expression, block: Block) -> _Approximation:
        """Evaluate an expression, with extent 1 along axes that it does not depend on."""
        if isinstance(expression, Number):
            return _Approximation(np.full((1,) * len(block), expression.value), 0.0)
        if isinstance(expression, Read):
            value, tolerance = self._known[expression.tensor]
            error = 0.0 if tolerance is None else _view(tolerance, expression, block).astype(np.float64)
            return _Approximation(_view(value, expression, block).astype(np.float64), error)
        arguments = [self._broadcast(argument, block) for argument in expression.arguments]
        exact = self._exact or _scale_of_expression(expression, self._scales) is not None
        return _apply(expression, arguments, exact=exact)

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
