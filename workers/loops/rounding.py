"""How far `float32` results may be from exact ones: running error bounds for expressions and reductions.

The bounds are those of N. J. Higham, Accuracy and Stability of Numerical Algorithms (2nd edition, SIAM 2002), with
u = 2^-24. One operation: fl(a op b) = (a op b)(1 + d), |d| <= u (2.4), whose consequences are carried along as in
section 3.3. A sum of n terms, in any order: |fl(s) - s| <= gamma(n - 1) sum |x|, gamma(n) = n u / (1 - n u) (4.4).
Fused multiplications and additions round less often, so the bounds hold for them too.

Where all values are multiples of one power of two and small enough, nothing is rounded, in any order: then a result
must be equal to the last bit, and the bound is 0.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aiocg.workers.loops.expression import Call, Expression, Number, Read, Stage

__all__ = ["Approximation", "Scale", "apply", "growth", "scale_of_array", "scale_of_expression", "scale_of_stage"]

PRECISION = 24  # bits of a float32
UNIT = 2.0**-PRECISION
TINY = 2.0**-126  # below it, numbers have fewer bits or are flushed to zero
LIBRARY_ERROR = 8 * UNIT
"""Of exp, log and tanh, relative to the result: CUDA's have at most 2 ulps (1 ulp is up to 2 u), vectorised ones 4."""
DIVISION_ERROR = 4 * UNIT  # of division and square root, which GPUs approximate when they are told to

_CHUNK = 1 << 20  # elements

Bound = NDArray[np.float64] | float


class Scale(NamedTuple):
    """All values are multiples of 2**`grid`, and none is farther from 0 than `magnitude`."""

    grid: int
    magnitude: float

    @property
    def exact(self) -> bool:
        """Whether `float32` has all such numbers."""
        return self.magnitude <= math.ldexp(1.0, PRECISION + self.grid)


class Approximation(NamedTuple):
    """Values, and how far what `float32` makes of them may be away; both `float64`, a bound of 0 may be a number."""

    value: NDArray[np.float64]
    error: Bound


def growth(terms: int) -> float:
    """Return what the error of a sum of so many terms is at most, relative to the sum of their absolute values."""
    relative = (terms - 1) * UNIT
    return relative / (1 - relative) if relative < 0.5 else 1.0


def scale_of_array(array: NDArray[np.float32]) -> Scale | None:
    """Return the scale of an array's elements; None when they are not finite."""
    magnitude, grid = 0.0, PRECISION
    for chunk in _chunks(array):
        if not np.isfinite(chunk).all():
            return None
        magnitude = max(magnitude, float(np.abs(chunk).max()))
        mantissa, exponent = np.frexp(chunk[chunk != 0])
        whole = (np.abs(mantissa) * 2**PRECISION).astype(np.int32)
        _, zeros = np.frexp((whole & -whole).astype(np.float32))  # one more than how many zeros each ends with
        grid = min(grid, int((exponent + zeros).min(initial=grid + PRECISION + 1)) - PRECISION - 1)
    return Scale(grid, magnitude)


def scale_of_expression(expression: Expression, tensors: Mapping[str, Scale | None]) -> Scale | None:
    """Return the scale of the values; None when something is rounded on the way, or may be."""
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
    """Return the scale of the elements that a stage computes; None when something is rounded, or may be."""
    scale = scale_of_expression(stage.body, tensors)
    if scale is None or stage.reducer != "sum":
        return scale
    total = Scale(scale.grid, scale.magnitude * math.prod(axis.extent for axis in stage.reduction))
    return total if total.exact else None


def apply(call: Call, arguments: Sequence[Approximation], *, exact: bool) -> Approximation:
    """Apply a function to what is known up to errors.

    Args:
        call: the function.
        arguments: what to apply it to.
        exact: that nothing is rounded here.
    """
    values = [argument.value for argument in arguments]
    value = _VALUES[call.function](*values)
    error = _inherited(call.function, arguments, value)
    rounding = _ROUNDING.get(call.function, 0.0)
    if rounding and not exact:
        error = error + rounding * (np.abs(value) + error) + TINY
    return Approximation(value, error)


def _inherited(function: str, arguments: Sequence[Approximation], value: NDArray[np.float64]) -> Bound:
    """Return the error that a result has because of those of the arguments."""
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
    return e  # neg, abs and tanh change nothing by more than their argument changes


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
