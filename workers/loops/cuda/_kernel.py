"""The kernel of a stage.

A kernel looks like this; parts in brackets are optional:

    definitions of what the bound loops determine; [if (guards)]
    loops over the result
        [accumulators = the reduction's initial value]
        loops from the outermost reduction loop on
            [__syncthreads(), all threads of the block copy tiles, __syncthreads()]
            accumulators <- body
        [__syncthreads(), threads combine their accumulators in shared memory]
        [the result = accumulators, by vectors where that is possible]

A pipelined loop copies before it begins what its first turn reads; each turn waits for its copies, has a barrier, and
begins those of the next one.

There is one accumulator for each iteration of the result loops inside a reduction loop. Accumulators are registers if
the compiler finds room and knows their indices, which it does if those loops are unrolled. If there are too many, the
kernel accumulates in the result itself, since no other thread accesses a thread's elements.

A reduction loop may be bound to threads: each then accumulates its share, and the first stores what they have together.

A guard is tested as soon as its variable is known, and outside of a loop in which it holds for all turns or none.
Guards that differ between threads of a block are tested inside all loops that contain a barrier, since all threads of a
block must reach each barrier. A reduction into registers does without those guards that `_dropped` finds.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np

from aiocg.workers.loops._expression import REDUCERS, Call, Expression, Number, Read, Tensor
from aiocg.workers.loops._nest import Guard, Loop, Nest, Split
from aiocg.workers.loops._rules import (
    MOST_ACCUMULATORS,
    RESULTS,
    TensorLoops,
    Tile,
    accumulated,
    reduced_by_threads,
    shared_by_reduction,
    span,
    tensor_loops,
)
from aiocg.workers.loops.cuda._copies import VECTORS, Copies, coefficient, divisor, width
from aiocg.workers.loops.cuda._expressions import Expressions, Text, VariableNames, within
from aiocg.workers.loops.cuda._formulas import (
    COORDINATES,
    KernelCall,
    Lines,
    Names,
    at_start,
    fits,
    flat,
    joined,
    number,
    parameter,
    product,
    recomputed,
)

REGISTERS = 65536  # of a multiprocessor
ENOUGH = 128  # registers per thread, where half of them are accumulators
LONGEST_INDEX = 2**31 - 1  # in 32 bits, which is cheaper than 64

REDUCTIONS = {"sum": "{0} += {1};", "max": "{0} = maximum({0}, {1});", "min": "{0} = minimum({0}, {1});"}
NO_BARRIERS: frozenset[str] = frozenset()

Body = Callable[[frozenset[str], tuple[Guard, ...]], None]
Value = Callable[[Mapping[str, str], Mapping[Read, str]], str]


# --------------------------------- Guards that a reduction can do without, and loops that a guard need not be tested in

# Beyond a guard, an accumulator may hold anything, since it is never stored. So a guard of the result is dropped where
# all that is read is in a tile, or can be read elsewhere instead. A guard of the reduction is dropped where the body is
# zero beyond it and is summed up: zeros fill what tiles have outside of their tensors. Zero times infinity is no
# number, so all factors have to be zeros or constants.

KEEP_ZERO = frozenset({"neg", "abs", "sqrt", "tanh", "add", "sub", "max", "min"})  # if all arguments are zeros


class _Dropped(NamedTuple):
    """What a reduction into registers can do without.

    Attributes:
        guards: the guards.
        axes: the axes that may leave their extent without them, and by which a tensor is read that is not staged.
    """

    guards: frozenset[Guard]
    axes: frozenset[str]

    def without_axes(self, nest: Nest) -> "_Dropped":
        """Return what it can do without if no axis may leave its extent."""
        left = (guard for guard in self.guards if nest.axes[guard.variable].isdisjoint(self.axes))
        return _Dropped(frozenset(left), frozenset())


NOTHING = _Dropped(frozenset(), frozenset())


def _dropped(
    nest: Nest, guards: Sequence[Guard], tiles: Mapping[str, Tile], shapes: Mapping[str, tuple[int, ...]]
) -> _Dropped:
    """Return the guards that a nest's reduction into registers can do without.

    Args:
        nest: the loops.
        guards: those that are not tested outside of the reduction.
        tiles: the tiles of the tensors that are staged.
        shapes: of all tensors.
    """
    found: set[Guard] = set()
    axes: set[str] = set()
    for guard in guards:
        affected = nest.axes[guard.variable]
        reads = [(read, affected & read.axes) for read in nest.stage.reads()]
        reads = [(read, own) for read, own in reads if own]
        if not all(_covers(nest, tiles[read.tensor], own) for read, own in reads if read.tensor in tiles):
            continue
        if guard.variable not in nest.reductions:
            found.add(guard)
            axes |= {axis for read, own in reads if read.tensor not in tiles for axis in own}
        elif nest.stage.reducer == "sum" and all(read.tensor in tiles for read, _ in reads):
            zeros = {read for read, _ in reads if _lies_outside(read, guard, shapes[read.tensor])}
            if _is_zero(nest.stage.body, zeros):
                found.add(guard)
    return _Dropped(frozenset(found), frozenset(axes))


def _uniform_turns(nest: Nest, guard: Guard, loop: Loop) -> int:
    """Return for how many consecutive turns of a loop a guard holds for all or for none, other loops fixed.

    That is the loop's extent, or a vector's length by which it can be divided; 1 if neither is known.

    Args:
        nest: the loops.
        guard: the guard; it depends on the loop.
        loop: the loop.
    """
    first = divisor(nest, guard.variable, {loop.variable})
    for turns in (loop.extent, *VECTORS):
        step = coefficient(nest, guard.variable, loop.variable, turns)
        if step and loop.extent % turns == guard.bound % (step * turns) == first % (step * turns) == 0:
            return turns
    return 1


def _covers(nest: Nest, tile: Tile, axes: Set[str]) -> bool:
    """Return whether a tile has all that is read by these axes, guarded or not."""
    return all(_unguarded_span(nest, axis, tile.inside) == span(nest, axis, tile.inside) for axis in axes)


def _unguarded_span(nest: Nest, variable: str, inside: Set[str]) -> int:
    """Return what `span` would be without guards."""
    if not nest.dependencies[variable] & inside:
        return 1
    relation = nest.sources.get(variable)
    if relation is None:
        return nest.extent[variable]
    if isinstance(relation, Split):
        outer, inner = (_unguarded_span(nest, each, inside) for each in (relation.outer, relation.inner))
        return (outer - 1) * relation.factor + inner
    if variable == relation.inner:
        return relation.extent
    return (_unguarded_span(nest, relation.fused, inside) - 1) // relation.extent + 1


def _lies_outside(read: Read, guard: Guard, shape: tuple[int, ...]) -> bool:
    """Return whether an element is outside of its tensor wherever an axis is beyond its guard."""
    for index, extent in zip(read.indices, shape, strict=True):
        factors = dict(index.terms)
        factor = factors.get(guard.variable, 0)
        if factor and min(factors.values()) > 0 and index.constant + factor * guard.bound >= extent:
            return True
    return False


def _is_zero(expression: Expression, zeros: Set[Read]) -> bool:
    """Return whether an expression is 0 or -0 if some elements are 0, whatever the others are."""
    match expression:
        case Read():
            return expression in zeros
        case Number(value):
            return value == 0
        case Call("mul", (one, other)):
            pairs = ((one, other), (other, one))
            return any(_is_zero(first, zeros) and _is_finite(second, zeros) for first, second in pairs)
        case Call("div", (one, Number(value))):
            return _is_zero(one, zeros) and bool(np.float32(value) != 0)
        case Call(function, arguments):
            return function in KEEP_ZERO and all(_is_zero(argument, zeros) for argument in arguments)


def _is_finite(expression: Expression, zeros: Set[Read]) -> bool:
    if isinstance(expression, Number):
        return bool(np.isfinite(np.float32(expression.value)))
    return _is_zero(expression, zeros)


# ---------------------------------------------- CUDA C for tensor cores: loads, multiplications and stores of each lane

# The instruction is `mma.m16n8k8` for TF32. Lane l is at place p = l % 4 of group g = l / 4, and holds
#
#     of the left operand    (g, p), (g + 8, p), (g, p + 4), (g + 8, p + 4)
#     of the right one       (p, g), (p + 4, g)
#     of the result          (g, 2 p), (g, 2 p + 1), (g + 8, 2 p), (g + 8, 2 p + 1)
#
# by row and column (PTX ISA, Matrix Fragments for mma.m16n8k8). All lanes take part, so nothing is skipped: beyond a
# guard, the operands are 0.

LEFT = (("", ""), (" + 8", ""), ("", " + 4"), (" + 8", " + 4"))  # rows beyond the group, and terms beyond the place
RIGHT = ("", " + 4")  # terms beyond the place


class _TensorCode:
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
        turns = (_uniform_turns(self._nest, guard, columns) for guard in guards if self._on(guard, columns.variable))
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


# ------------------------------------------------------------------------------------------------ The kernel of a stage


class Kernel:
    """Writes one kernel.

    Args:
        nest: the loops.
        call: the kernel's name and launch.
        tensors: those that it takes; the last is the one it writes.
        shared_memory: that of a block, in bytes.

    Attributes:
        call: the same with the shared memory that it takes.
    """

    def __init__(self, nest: Nest, call: KernelCall, tensors: Sequence[Tensor], shared_memory: int) -> None:
        self._nest = nest
        self._tensors = {tensor.name: tensor for tensor in tensors}
        self._shapes = {tensor.name: tensor.shape for tensor in tensors}
        self._lines = Lines()
        free = [loop for loop in nest.loops if loop.kind not in COORDINATES and loop.kind != "tensor"]
        first = next((at for at, loop in enumerate(free) if loop.variable in nest.reductions), len(free))
        self._bound = [loop for loop in nest.loops if loop.kind in COORDINATES]
        self._outer, self._inner = free[:first], free[first:]
        self._kept = accumulated(nest)
        self._across = reduced_by_threads(nest)
        self._barriers = frozenset(staging.variable for staging in nest.stagings)
        self._last = frozenset({self._across.variable} if self._across else ())  # stands for the barriers at the end
        names = Names()
        self._names = VariableNames({name: names.take(name) for name in (*self._tensors, *nest.extent)})
        taken = shared_by_reduction(nest)
        self._copies = Copies(nest, self._tensors, call.launch, names, shared_memory, taken)
        self.call = call._replace(shared=self._copies.shared)
        self._total, self._index, self._first = map(names.take, ("total", "index", "first"))
        self._partial, self._left, self._half = map(names.take, ("partial", "left", "half"))
        sizes = [tensor.size for tensor in tensors]
        self._integer = "int" if fits(nest, sizes, LONGEST_INDEX) else "long long"
        self._expressions = Expressions(nest, self._tensors, self._copies, self._names)
        self._result = nest.stage.written
        self._dropped = NOTHING
        tensor = tensor_loops(nest)
        self._count = math.prod(loop.extent for loop in self._kept) * (RESULTS if tensor else 1)  # of accumulators
        self._in_registers = self._count <= MOST_ACCUMULATORS
        if nest.stage.reducer and self._in_registers:
            self._dropped = _dropped(nest, self._left_to_the_reduction(), self._copies.tiles, self._shapes)
        self._tensor: _TensorCode | None = None
        if tensor:
            self._dropped = self._dropped.without_axes(nest)
            self._tensor = _TensorCode(nest, tensor, self._expressions, names, self._dropped.guards)
        self._expressions.within = {axis: names.take(f"{axis}_within") for axis in sorted(self._dropped.axes)}
        self._vectors = {read: names.take(f"{read.tensor}_vector") for read in dict.fromkeys(nest.stage.reads())}

    def text(self, changing: Collection[str] | None = None) -> str:
        """Return the kernel's definition, or a part's of a kernel that changes these tensors in several stages."""
        stage = self._nest.stage
        parameters = ", ".join(
            parameter(self._names[name], written=name == stage.tensor, alone=name not in (changing or ()))
            for name in self._tensors
        )
        head = "static __device__ __forceinline__ void"
        if changing is None:
            self._lines.add(self.call.comment(self._tensors))
            head = f'extern "C" __global__ void __launch_bounds__({", ".join(map(str, self._launch_bounds()))})'
        with self._lines.braces(f"{head} {self.call.function}({parameters})"):
            self._copies.declare(self._lines)
            if self._across:
                self._lines.add(f"__shared__ float {self._partial}[{self.call.launch.threads}];")
            if self._across or self._copies.tiles:
                self._copies.number(self._lines)
            if self._tensor:
                self._tensor.number(self._lines)
            for loop in self._bound:
                self._lines.add(f"const {self._integer} {self._names[loop.variable]} = {COORDINATES[loop.kind]};")
            result = self._expressions.needing(lambda: self._expressions.element(self._result))
            body = self._expressions.needing(lambda: self._expressions.value(stage.body))
            part = _Part(self._outer, self._nest.guards, self._barriers | self._last, result.needs | body.needs)
            known = frozenset(loop.variable for loop in self._bound)
            if stage.reducer:
                self._loops(part, known, lambda inside, guards: self._stage(result, body, inside, guards))
            else:
                part = part._replace(reads=tuple(self._vectors))
                self._assign(part, known, lambda values, read: self._expressions.value(stage.body, values, read))
        return self._lines.text

    def _launch_bounds(self) -> list[int]:
        """Return the threads of a block, and perhaps how many blocks a multiprocessor is to have registers for."""
        threads = self.call.launch.threads
        if self._nest.stage.reducer and ENOUGH // 8 < self._count <= ENOUGH // 2 <= threads <= REGISTERS // ENOUGH:
            return [threads, REGISTERS // (ENOUGH * threads)]
        return [threads]

    # ------------------------------------------------------------------------------------------------- loops

    def _loops(self, part: "_Part", known: frozenset[str], body: Body) -> None:
        """Write loops around a body.

        Args:
            part: the loops.
            known: the variables known here.
            body: writes the loops' body, with the variables known there and the guards not tested.
        """
        known = self._define(part.needs, known)
        tested = [guard for guard in part.guards if guard.variable in known and self._may_branch(guard, part.barriers)]
        conditions = [f"{self._names[guard.variable]} < {guard.bound}" for guard in tested]
        loop = next(iter(part.loops), None)
        turns = {guard: self._uniform_turns(guard, loop, known, part.barriers) for guard in part.guards if loop}
        for guard in part.guards:
            if loop and guard not in tested and turns[guard] == loop.extent:
                first = at_start(self._nest, guard.variable, {loop.variable}, self._names)
                conditions.append(f"{first} < {guard.bound}")
                tested.append(guard)
        guards = tuple(guard for guard in part.guards if guard not in tested)
        with ExitStack() as inside:
            if conditions:
                inside.enter_context(self._lines.braces(f"if ({' && '.join(conditions)})"))
            if not loop:
                body(known, guards)
                return
            if part.value and len(part.loops) == 1 and not part.barriers:
                most = width(self._nest, self._result, self._shapes[self._result.tensor], loop)
                length = min([most, *(turns[guard] for guard in guards)])
                if length > 1:
                    self._assign_vectors(inside, loop, guards, length, part)
                    return
            if loop.variable in part.barriers:
                again = loop is not [*self._outer, *self._inner][0]
                self._copies.begin(self._lines, loop, self._names, self._integer, again=again)
            self._loop(inside, loop, self._names[loop.variable])
            if loop.variable in part.barriers:
                self._copies.write(self._lines, loop, self._names, self._integer)
            rest = part._replace(loops=part.loops[1:], guards=guards, barriers=part.barriers - {loop.variable})
            self._loops(rest, known | {loop.variable}, body)

    def _loop(self, inside: ExitStack, loop: Loop, name: str, step: int = 1) -> None:
        """Begin a loop."""
        if loop.kind == "unrolled":
            self._lines.add("#pragma unroll")
        turn = f"++{name}" if step == 1 else f"{name} += {step}"
        inside.enter_context(self._lines.braces(f"for ({self._integer} {name} = 0; {name} < {loop.extent}; {turn})"))

    def _assign(self, part: "_Part", known: frozenset[str], value: Value) -> None:
        """Write loops that assign a value to the result, several elements at once where these are neighbours."""
        element, names = self._expressions.element(self._result), self._names
        self._loops(part._replace(value=value), known, lambda *_: self._lines.add(f"{element} = {value(names, {})};"))

    def _assign_vectors(
        self, inside: ExitStack, loop: Loop, guards: Sequence[Guard], length: int, part: "_Part"
    ) -> None:
        """Write the innermost loop of an assignment.

        Args:
            inside: closes what is opened.
            loop: the loop.
            guards: those not tested; each holds for all elements of a vector or for none.
            length: of a vector.
            part: the loop as a part, with what is assigned.
        """
        assert part.value is not None
        first = "0" if length == loop.extent else self._first
        if length != loop.extent:
            self._loop(inside, loop, first, length)
        values = recomputed(self._nest, self._names, {loop.variable: first})
        if guards:
            conditions = (f"{values[guard.variable]} < {guard.bound}" for guard in guards)
            inside.enter_context(self._lines.braces(f"if ({' && '.join(conditions)})"))
        known: dict[Read, str] = {}
        for read in part.reads:
            name = self._vectors[read]
            most = width(self._nest, read, self._shapes[read.tensor], loop)
            if read.tensor not in self._copies.tiles and most % length == 0:
                known[read] = name
                element = self._expressions.element(read, values)
                self._lines.add(f"const float{length} {name} = *(const float{length} *)&{element};")
        elements = []
        for lane in range(length):
            at = recomputed(self._nest, self._names, {loop.variable: joined([first, str(lane)])})
            elements.append(part.value(at, {read: f"{name}.{'xyzw'[lane]}" for read, name in known.items()}))
        target = self._expressions.element(self._result, values)
        self._lines.add(f"*(float{length} *)&{target} = make_float{length}(")
        self._lines.add(*(f"    {element}," for element in elements[:-1]), f"    {elements[-1]}", ");")

    def _may_branch(self, guard: Guard, barriers: Set[str]) -> bool:
        """Return whether a guard may be tested here without keeping some threads of a block from a barrier."""
        threads = {loop.variable for loop in self._bound if loop.kind.startswith("thread")}
        return not barriers or threads.isdisjoint(self._nest.dependencies[guard.variable])

    def _uniform_turns(self, guard: Guard, loop: Loop, known: Set[str], barriers: Set[str]) -> int:
        """Return for how many turns of a loop a guard can be tested at once; 0 if it cannot be tested in it."""
        loops = self._nest.dependencies[guard.variable]
        if loop.variable in loops <= known | {loop.variable} and self._may_branch(guard, barriers):
            return _uniform_turns(self._nest, guard, loop)
        return 0

    def _left_to_the_reduction(self) -> list[Guard]:
        """Return the guards that are not tested in the loops outside of the reduction."""
        known = frozenset(loop.variable for loop in (*self._bound, *self._outer))
        barriers = self._barriers & {loop.variable for loop in self._inner} | self._last
        needed = self._nest.dependencies
        return [
            one for one in self._nest.guards if not (needed[one.variable] <= known and self._may_branch(one, barriers))
        ]

    def _define(self, needs: Set[str], known: frozenset[str]) -> frozenset[str]:
        """Define what is needed of the variables that follow from the known ones; return all known variables."""
        for relation in reversed(self._nest.relations):
            formulas: dict[str, str] = {}
            if isinstance(relation, Split):
                if {relation.outer, relation.inner} <= known and relation.parent not in known:
                    outer = product(self._names[relation.outer], relation.factor)
                    formulas = {relation.parent: joined([outer, self._names[relation.inner]])}
            elif relation.fused in known and relation.outer not in known:
                fused = self._names[relation.fused]
                formulas = {relation.outer: f"{fused} / {relation.extent}"}
                formulas[relation.inner] = f"{fused} % {relation.extent}"
            for variable, formula in formulas.items():
                self._define_one(variable, formula, needs)
            known |= formulas.keys()
        return known

    def _define_one(self, variable: str, formula: str, needs: Set[str]) -> None:
        name = self._names[variable]
        if variable in needs:
            self._lines.add(f"const {self._integer} {name} = {formula};")
        if within(variable) in needs:
            last = self._nest.extent[variable] - 1
            target = f"const {self._integer} {self._expressions.within[variable]}"
            self._lines.add(f"{target} = {name} < {last} ? {name} : {last};")

    # ------------------------------------------------------------------------------------- loop bodies

    def _stage(self, result: Text, body: Text, known: frozenset[str], guards: tuple[Guard, ...]) -> None:
        """Write the code inside the result loops that surround all reduction loops."""
        nest, code = self._nest, self._tensor
        initial = number(REDUCERS[nest.stage.reducer])
        lanes = frozenset(guard for guard in guards if code and code.depends(guard))  # tested by each lane on its own
        spatial = tuple(guard for guard in guards if guard.variable not in nest.reductions)
        kept = _Part(self._kept, tuple(guard for guard in spatial if guard not in lanes), NO_BARRIERS, result.needs)
        tested = tuple(guard for guard in guards if guard not in self._dropped.guards | lanes)
        barriers = self._barriers & {loop.variable for loop in self._inner}
        named = self._named(tested, known, barriers) | {guard.variable for guard in lanes}
        needs = body.needs | self._expressions.closed(named)
        if self._in_registers:
            self._define_accumulators(initial)
            total = self._accumulator(self._names)
        else:
            total, needs = result.text, needs | result.needs
            self._assign(kept, known, lambda *_: initial)
        lines = [REDUCTIONS[nest.stage.reducer].format(total, body.text)]
        if code:
            lines = code.multiplied(total, self._names, lanes)
        self._loops(_Part(self._inner, tested, barriers, needs), known, lambda *_: self._lines.add(*lines))
        with ExitStack() as inside:
            if self._across:
                self._combine(self._across)
                inside.enter_context(self._lines.braces(f"if ({self._names[self._across.variable]} == 0)"))
            if code:
                own = [self._accumulator(self._names, each) for each in range(RESULTS)]
                stores = code.stored(self._result, self._shapes[self._result.tensor], own, self._names,
                                     [guard for guard in spatial if guard in lanes])  # fmt: skip
                part = kept._replace(needs=result.needs | self._expressions.closed({one.variable for one in lanes}))
                self._loops(part, known, lambda *_: self._lines.add(*stores))
            elif self._in_registers:
                self._assign(kept, known, lambda values, _: self._accumulator(values))

    def _combine(self, across: Loop) -> None:
        """Write how threads combine what they have accumulated, which the first of them then has."""
        count, thread = self._count, self._copies.thread
        total = f"{self._total}[{self._index}]" if self._kept else self._total
        step = math.prod(self.call.launch.block[: "xyz".index(across.kind[-1])])  # from one of them to the next
        mine, other = f"{self._partial}[{thread}]", f"{self._partial}[{thread} + {product(self._half, step)}]"
        head = f"for (int {self._index} = 0; {self._index} < {count}; ++{self._index})" if self._kept else ""
        if self._kept:
            self._lines.add("#pragma unroll")
        with self._lines.braces(head):
            if self._kept or self._outer:
                self._lines.add("__syncthreads();")  # until others have read what they combine before this
            self._lines.add(f"{mine} = {total};")
            left, half = self._left, self._half
            with self._lines.braces(f"for (int {left} = {across.extent}; {left} > 1; {left} = ({left} + 1) / 2)"):
                self._lines.add("__syncthreads();", f"const int {half} = ({left} + 1) / 2;")
                with self._lines.braces(f"if ({self._names[across.variable]} + {half} < {left})"):
                    self._lines.add(REDUCTIONS[self._nest.stage.reducer].format(mine, other))
            self._lines.add(f"{total} = {mine};")

    def _named(self, guards: Sequence[Guard], known: Set[str], barriers: Set[str]) -> frozenset[str]:
        """Return the variables of the guards that the reduction tests inside the last loop that they depend on."""
        found = {guard.variable for guard in guards}
        for at, loop in enumerate(self._inner):
            left = barriers & {one.variable for one in self._inner[at:]}
            for guard in guards:
                if self._uniform_turns(guard, loop, known, left) == loop.extent:
                    found.discard(guard.variable)
            known = known | {loop.variable}
        return frozenset(found)

    def _define_accumulators(self, initial: str) -> None:
        if not self._kept and not self._tensor:
            self._lines.add(f"float {self._total} = {initial};")
            return
        self._lines.add(f"float {self._total}[{self._count}];", "#pragma unroll")
        with self._lines.braces(f"for (int {self._index} = 0; {self._index} < {self._count}; ++{self._index})"):
            self._lines.add(f"{self._total}[{self._index}] = {initial};")

    def _accumulator(self, values: Mapping[str, str], result: int = 0) -> str:
        """Return an accumulator of the current iteration of the result loops; a lane of a warp has several results."""
        if not self._kept and not self._tensor:
            return self._total
        position = flat([values[loop.variable] for loop in self._kept], [loop.extent for loop in self._kept])
        if self._tensor:
            position = joined([product(position, RESULTS), str(result)])
        return f"{self._total}[{position}]"


class _Part(NamedTuple):
    """Loops that are to be written.

    Attributes:
        loops: from the outermost to the innermost.
        guards: those not tested yet.
        barriers: those of the kernel's loops from here inwards that begin with a barrier.
        needs: the variables that have to be defined.
        value: what is assigned to the result in the innermost loop, if that is what they do: from the values of
            variables, and of elements that are read.
        reads: the elements that this value reads.
    """

    loops: Sequence[Loop]
    guards: tuple[Guard, ...]
    barriers: frozenset[str]
    needs: frozenset[str]
    value: Value | None = None
    reads: tuple[Read, ...] = ()
