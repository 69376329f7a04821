"""The loops of a computation as they are written first, in C compiled by GCC, and in Python compiled by Numba."""

import ctypes
import math
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aiocg.workers.loops._expression import Affine, Axis, Computation, Expression, Number, Read
from aiocg.workers.loops._reference import compare, expect, random_inputs
from bench.loops.sides import processor_seconds

SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


class Naive:
    """The loops of a computation as they are written, in C, compiled by `gcc -O3 -march=native`."""

    def __init__(self, computation: Computation, folder: Path) -> None:
        source = Path(tempfile.mkdtemp(dir=folder)) / "naive.c"
        library = source.with_suffix(".so")
        source.write_text(naive_source(computation), encoding="utf-8")
        options = ("-O3", "-march=native", "-std=c99", "-shared", "-fPIC")
        subprocess.run(["gcc", *options, "-o", library, source, "-lm"], check=True)
        inputs = random_inputs(computation)
        self._arrays = [*inputs, *(np.zeros(stage.result.shape, np.float32) for stage in computation.stages)]
        self._run = ctypes.CDLL(str(library)).run
        self._pointers = [ctypes.c_void_p(array.ctypes.data) for array in self._arrays]
        self._run(*self._pointers)
        wrong = compare(computation, self._arrays[len(inputs) :], expect(computation, inputs))
        if wrong is not None:
            raise AssertionError(f"the C code is wrong: {wrong}")

    def processor_seconds(self, seconds: float, samples: int) -> float:
        """Return how much time of the processor one run takes, at best."""
        return processor_seconds(lambda: self._run(*self._pointers), seconds, samples)


class Numba:
    """The same loops in Python, compiled by `numba.njit(fastmath=True)`; `pip install numba` is all it needs."""

    def __init__(self, computation: Computation) -> None:
        import numba

        self._arrays = [
            *random_inputs(computation),
            *(np.zeros(stage.result.shape, np.float32) for stage in computation.stages),
        ]
        names: dict[str, Any] = {"math": math}
        exec(python_source(computation), names)
        self._run = numba.njit(fastmath=True)(names["run"])
        self._run(*self._arrays)
        inputs = self._arrays[: len(computation.inputs)]
        wrong = compare(computation, self._arrays[len(inputs) :], expect(computation, inputs))
        if wrong is not None:
            raise AssertionError(f"Numba's code is wrong: {wrong}")

    def processor_seconds(self, seconds: float, samples: int) -> float:
        """Return how much time of the processor one run takes, at best."""
        return processor_seconds(lambda: self._run(*self._arrays), seconds, samples)


def python_source(computation: Computation) -> str:
    """Return a computation as Python: a nest of loops for each statement, in textual order."""
    lines = [f"def run({', '.join(tensor.name for tensor in computation.tensors)}):"]
    for stage in computation.stages:
        for depth, axis in enumerate(stage.axes, 1):
            if depth == len(stage.spatial) + 1:
                lines.append(
                    f"{' ' * depth}value = {({'max': '-math.inf', 'min': 'math.inf'}).get(stage.reducer, '0.0')}"
                )
            lines.append(f"{' ' * depth}for {axis.name} in range({axis.extent}):")
        place = f"{stage.tensor}[{', '.join(axis.name for axis in stage.spatial)}]"
        value, inside = python_text(stage.body), " " * (len(stage.axes) + 1)
        if not stage.reducer:
            lines.append(f"{inside}{place} = {value}")
            continue
        lines.append(
            f"{inside}value = {f'value + {value}' if stage.reducer == 'sum' else f'{stage.reducer}(value, {value})'}"
        )
        lines.append(f"{' ' * (len(stage.spatial) + 1)}{place} = value")
    return "\n".join(lines) + "\n"


def python_text(expression: Expression) -> str:
    """Return an expression as Python."""
    if isinstance(expression, Number):
        return repr(expression.value)
    if isinstance(expression, Read):
        indices = (
            " + ".join([str(index.constant), *(f"{factor} * {axis}" for axis, factor in index.terms)])
            for index in expression.indices
        )
        return f"{expression.tensor}[{', '.join(indices)}]"
    arguments = [python_text(one) for one in expression.arguments]
    if sign := SIGNS.get(expression.function):
        return f"({arguments[0]} {sign} {arguments[1]})"
    name = {"neg": "-", "max": "max", "min": "min", "abs": "abs"}.get(
        expression.function, f"math.{expression.function}"
    )
    return f"{name}({', '.join(arguments)})"


def naive_source(computation: Computation) -> str:
    """Return a computation as C: a nest of loops for each statement, in textual order."""
    shapes = {tensor.name: tensor.shape for tensor in computation.tensors}
    lines = []

    def loop(axis: Axis) -> str:
        return f"for (long {axis.name} = 0; {axis.name} < {axis.extent}; {axis.name}++)"

    for stage in computation.stages:
        place = c_text(Read(stage.tensor, tuple(Affine(0, ((axis.name, 1),)) for axis in stage.spatial)), shapes)
        value = c_text(stage.body, shapes)
        lines += [f"{loop(axis)} {{" for axis in stage.spatial]
        lines.append(f"float value = {({'max': '-INFINITY', 'min': 'INFINITY'}).get(stage.reducer, '0')};")
        lines += map(loop, stage.reduction)
        combined = {"": value, "sum": f"value + {value}"}.get(stage.reducer, f"f{stage.reducer}f(value, {value})")
        lines += [f"value = {combined};", f"{place} = value;", "}" * len(stage.spatial)]
    pointers = ", ".join(f"float *restrict {name}" for name in shapes)
    return "#include <math.h>\nvoid run({}) {{\n{}\n}}\n".format(pointers, "\n".join(lines))


def c_text(expression: Expression, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Return an expression as C."""
    if isinstance(expression, Number):
        return f"{expression.value!r}f"
    if isinstance(expression, Read):
        place = "0"
        for extent, index in zip(shapes[expression.tensor], expression.indices, strict=True):
            terms = [str(index.constant), *(f"{factor} * {axis}" for axis, factor in index.terms)]
            place = f"({place}) * {extent} + {' + '.join(terms)}"
        return f"{expression.tensor}[{place}]"
    arguments = [c_text(one, shapes) for one in expression.arguments]
    if sign := SIGNS.get(expression.function):
        return f"({arguments[0]} {sign} {arguments[1]})"
    names = {"neg": "-", "max": "fmaxf", "min": "fminf", "abs": "fabsf"}
    name = names.get(expression.function, f"{expression.function}f")
    return f"{name}({', '.join(arguments)})"
