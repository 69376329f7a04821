"""CUDA C for tensor cores: loads, multiplications and stores of each lane.

The instruction is `mma.m16n8k8` for TF32. Lane l is at place p = l % 4 of group g = l / 4, and holds

    of the left operand    (g, p), (g + 8, p), (g, p + 4), (g + 8, p + 4)
    of the right one       (p, g), (p + 4, g)
    of the result          (g, 2 p), (g, 2 p + 1), (g + 8, 2 p), (g + 8, 2 p + 1)

by row and column (PTX ISA, Matrix Fragments for mma.m16n8k8). All lanes take part, so nothing is skipped: beyond a
guard, the operands are 0.
"""

from collections.abc import Collection, Mapping, Sequence, Set

from aiocg.workers.loops._tensor_cores import RESULTS, TensorLoops
from aiocg.workers.loops.cuda._expressions import Expressions
from aiocg.workers.loops.cuda._formulas import recomputed
from aiocg.workers.loops.cuda._guards import uniform_turns
from aiocg.workers.loops.cuda._vectors import width
from aiocg.workers.loops.cuda.geometry import Lines, Names
from aiocg.workers.loops.expression import Read
from aiocg.workers.loops.nest import Guard, Nest

LEFT = (("", ""), (" + 8", ""), ("", " + 4"), (" + 8", " + 4"))  # rows beyond the group, and terms beyond the place
RIGHT = ("", " + 4")  # terms beyond the place


class TensorCode:
    """Writes what the lanes do.

    Args:
        nest: the loops.
        loops: those that tensor cores carry out.
        expressions: writes elements.
        names: names for what the lanes need.
        dropped: the guards that need not be tested where elements of tiles are read.
    """

    def __init__(
        self, nest: Nest, loops: TensorLoops, expressions: Expressions, names: Names, dropped: Set[Guard]
    ) -> None:  # fmt: skip
        self._nest = nest
        self._loops = loops
        self._expressions = expressions
        self._dropped = dropped
        self._group, self._place = map(names.take, ("group", "place"))
        self._inside = {loop.variable for loop in loops[:3]}

    def depends(self, guard: Guard) -> bool:
        """Return whether a guard differs between the turns of the loops."""
        return not self._nest.dependencies[guard.variable].isdisjoint(self._inside)

    def number(self, lines: Lines) -> None:
        """Write the definitions of the lane's group and place."""
        lines.add(f"const int {self._group} = threadIdx.x / 4;", f"const int {self._place} = threadIdx.x % 4;")

    def multiplied(self, total: str, names: Mapping[str, str], guards: Collection[Guard]) -> list[str]:
        """Return the lines of a multiplication.

        Args:
            total: the first of the lane's accumulators.
            names: of variables.
            guards: those that depend on the loops.
        """
        rows, columns, terms, left, right = self._loops
        operands = []
        for row, term in LEFT:
            values = {rows.variable: self._group + row, columns.variable: "0", terms.variable: self._place + term}
            operands.append(self._operand(left, columns.variable, recomputed(self._nest, names, values), guards))
        for term in RIGHT:
            values = {rows.variable: "0", columns.variable: self._group, terms.variable: self._place + term}
            operands.append(self._operand(right, rows.variable, recomputed(self._nest, names, values), guards))
        return [f"multiply(&{total},", *(f"    {one}," for one in operands[:-1]), f"    {operands[-1]});"]

    def stored(
        self, result: Read, shape: tuple[int, ...], accumulators: Sequence[str], names: Mapping[str, str],
        guards: Collection[Guard],
    ) -> list[str]:  # fmt: skip
        """Return the lines that store a lane's results.

        Args:
            result: the element of the result.
            shape: that of its tensor.
            accumulators: the lane's.
            names: of variables.
            guards: those that are not tested yet.
        """
        rows, columns = self._loops.rows, self._loops.columns
        turns = (uniform_turns(self._nest, guard, columns) for guard in guards if self._on(guard, columns.variable))
        pairs = width(self._nest, result, shape, columns) > 1 and all(each % 2 == 0 for each in turns)
        lines = []
        for row, first in (("", 0), (" + 8", RESULTS // 2)):
            for column, second in [("", first)] if pairs else [("", first), (" + 1", first + 1)]:
                at = {rows.variable: self._group + row, columns.variable: f"{self._place} * 2{column}"}
                values = recomputed(self._nest, names, at)
                element, condition = self._expressions.element(result, values), self._condition(guards, values)
                store = f"{element} = {accumulators[second]};"
                if pairs:
                    store = f"*(float2 *)&{element} = make_float2({accumulators[first]}, {accumulators[first + 1]});"
                lines.append(f"if ({condition}) {store}" if condition else store)
        return lines

    def _operand(self, read: Read, other: str, values: Mapping[str, str], guards: Collection[Guard]) -> str:
        """Return an operand's element.

        Args:
            read: the element.
            other: the variable of the loop that it does not depend on.
            values: of all variables.
            guards: those that depend on the loops; the ones that depend on that loop are for the other operand.
        """
        tested = [guard for guard in guards if not self._on(guard, other) and guard not in self._dropped]
        element = self._expressions.value(read, values)
        condition = self._condition(tested, values)
        return f"{condition} ? {element} : 0.0f" if condition else element

    def _on(self, guard: Guard, variable: str) -> bool:
        return variable in self._nest.dependencies[guard.variable]

    def _condition(self, guards: Collection[Guard], values: Mapping[str, str]) -> str:
        return " && ".join(f"{values[guard.variable]} < {guard.bound}" for guard in guards)
