"""Error bounds of `float32` results: running error bounds for expressions and reductions.

The bounds are those of N. J. Higham, Accuracy and Stability of Numerical Algorithms (2nd edition, SIAM 2002), with u =
2^-24. One operation: fl(a op b) = (a op b)(1 + d), |d| <= u (2.4), which is propagated as in section 3.3. A sum of n
terms, in any order: |fl(s) - s| <= gamma(n - 1) sum |x|, gamma(n) = n u / (1 - n u) (4.4). Fused multiply-adds round
less often, so the bounds hold for them too.

If all values are multiples of one power of two and small enough, nothing is rounded in any order: then a result must
equal the exact one to the last bit, and the bound is 0.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aiocg.workers.loops.expression import Call, Expression, Number, Read, Stage

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


class Approximation(NamedTuple):
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


def scale_of_expression(expression: Expression, tensors: Mapping[str, Scale | None]) -> Scale | None:
    """Return the scale of the values; None if an operation rounds, or may round."""
    if isinstance(expression, Read):
        return tensors[expression.tensor]
    if isinstance(expression, Number):
        return scale_of_array(np.array([expression.value], np.float32))
    scales = [scale_of_expression(one, tensors) for one in expression.arguments]
    known = [scale for scale in scales if scale is not None]
    if len(known) < len(scales) or expression.function not in _EXACT:
        return None
    scale = _EXACT[expression.function](known)
    return scale if scale.exact else None


def scale_of_stage(stage: Stage, tensors: Mapping[str, Scale | None]) -> Scale | None:
    """Return the scale of the elements that a stage computes; None if an operation rounds, or may round."""
    scale = scale_of_expression(stage.body, tensors)
    if scale is None or stage.reducer != "sum":
        return scale
    total = Scale(scale.grid, scale.magnitude * math.prod(axis.extent for axis in stage.reduction))
    return total if total.exact else None


def apply(call: Call, arguments: Sequence[Approximation], *, exact: bool) -> Approximation:
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
    if call.function in ("add", "sub") and any(map(may_be_fused, call.arguments)):
        unsure = unsure | np.isnan(value)
    # A product may be added before it is rounded, which can bring back one that is less than twice too large.
    return in_range(value, error, unsure, 2 * OVERFLOW if call.function == "mul" else OVERFLOW)


def in_range(
    value: NDArray[np.float64], error: Bound, unsure: NDArray[np.bool_], overflow: float = OVERFLOW
) -> Approximation:
    """Turn values that `float32` cannot represent into the infinities that it has instead.

    Args:
        value, error: the values and their error bounds.
        unsure: where infinities and NaN may be something else in `float32`.
        overflow: magnitude from which values become infinite for certain.
    """
    size = np.abs(value)
    if (size + error < LARGEST).all():
        return Approximation(value, error)
    over = size - error >= overflow
    value = np.where(over, np.copysign(np.inf, value), value)
    unknown = np.isnan(error) | (size + error >= LARGEST)
    special = np.where(unsure, np.inf, 0.0)
    return Approximation(value, np.where(np.isfinite(value), np.where(unknown, np.inf, error), special))


def may_be_fused(expression: Expression) -> bool:
    """Return whether an addition may use a product that has not been rounded, and so never became infinite."""
    return isinstance(expression, Call) and expression.function in ("mul", "neg")


def _unsure(argument: Approximation) -> NDArray[np.bool_]:
    """Return where an argument may be 0, of either sign, or anything."""
    value, error = argument
    return (error > 0) & (np.where(np.isfinite(value), np.abs(value), 0.0) <= error)


def _inherited(function: str, arguments: Sequence[Approximation], value: NDArray[np.float64]) -> Bound:
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
