"""The text of a computation, which `language` parses."""

import math
import struct
from collections.abc import Iterable

from aiocg.workers.loops.expression import Affine, Axis, Computation, Expression, Number, Read, Stage


def unparse(computation: Computation) -> str:
    """Return the text of a computation; parsing it gives an equal one.

    The inputs must have the smallest possible shapes and be in the order of their first reads.
    """
    return "".join(f"{_stage_text(stage)}\n" for stage in computation.stages)


def _stage_text(stage: Stage) -> str:
    reduction = f"{stage.reducer}({_axes_text(stage.reduction)}) " if stage.reducer else ""
    return f"{stage.tensor}[{_axes_text(stage.spatial)}] = {reduction}{_text(stage.body, 0)}"


def _axes_text(axes: Iterable[Axis]) -> str:
    return ", ".join(f"{axis.name}:{axis.extent}" for axis in axes)


_OPERATORS = {"add": ("+", 0), "sub": ("-", 0), "mul": ("*", 1), "div": ("/", 1)}  # with their precedence


def _text(expression: Expression, tightness: int) -> str:
    """Return the text of an operand, in parentheses if its precedence is lower than this."""
    if isinstance(expression, Number):
        return _number_text(expression.value)
    if isinstance(expression, Read):
        return f"{expression.tensor}[{', '.join(map(_index_text, expression.indices))}]"
    operands = expression.arguments
    if expression.function in _OPERATORS:
        sign, own = _OPERATORS[expression.function]
        text = f"{_text(operands[0], own)} {sign} {_text(operands[1], own + 1)}"
        return f"({text})" if own < tightness else text
    if expression.function == "neg" and not isinstance(operands[0], Number):  # `-1` is a number
        return f"-{_text(operands[0], 2)}"
    return f"{expression.function}({', '.join(_text(one, 0) for one in operands)})"


def _number_text(value: float) -> str:
    """Return the shortest text that rounds to this `float32`."""
    return next(text for digits in range(6, 18) if _rounded(text := f"{value:.{digits}g}") == value)


def _rounded(text: str) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", float(text)))[0])
    except OverflowError:  # the largest `float32`, rounded up
        return math.inf


def _index_text(index: Affine) -> str:
    terms = [(factor, axis if abs(factor) == 1 else f"{abs(factor)}*{axis}") for axis, factor in index.terms]
    if index.constant or not terms:
        terms.append((index.constant, str(abs(index.constant))))
    (first, text), *rest = terms
    return ("-" if first < 0 else "") + text + "".join(f" {'-' if sign < 0 else '+'} {term}" for sign, term in rest)
