"""The kernel of a stage.

A kernel looks like this; parts in brackets are optional:

    definitions of what the bound loops determine; [if (guards)]
    loops over the result
        [accumulators = the reduction's initial value]
        loops from the outermost reduction loop on
            [__syncthreads(), all threads of the block copy tiles, __syncthreads()]
            accumulators <- body
        [the result = accumulators]

There is one accumulator for each iteration of the result loops inside a reduction loop. Accumulators are registers if
the compiler finds room and knows their indices, which it does if those loops are unrolled. If there are too many, the
kernel accumulates in the result itself, since no other thread accesses a thread's elements.

A guard is tested as soon as its variable is known, and outside of a loop in which it holds for all turns or none.
Guards that differ between threads of a block are tested inside all loops that contain a barrier, since all threads of a
block must reach each barrier. A reduction into registers does without those guards that `guards.dropped` finds.
"""

import math
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import AbstractContextManager, ExitStack
from typing import NamedTuple

from aiocg.workers.loops.cuda.copies import Copies
from aiocg.workers.loops.cuda.formulas import affine, at_start, flat, joined, number, product
from aiocg.workers.loops.cuda.geometry import COORDINATES, KernelCall, Lines, Names
from aiocg.workers.loops.cuda.guards import NOTHING, dropped, is_uniform
from aiocg.workers.loops.expression import REDUCERS, Affine, Call, Expression, Number, Read, Tensor
from aiocg.workers.loops.nest import Guard, Loop, Nest, Split

MAX_ACCUMULATORS = 256  # per thread, which has at most 255 registers
LONGEST_INDEX = 2**31 - 1  # in 32 bits, which is cheaper than 64

FUNCTIONS = {
    "add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "div": "({} / {})",
    "max": "maximum({}, {})", "min": "minimum({}, {})",
    "neg": "(-{})", "abs": "fabsf({})", "sqrt": "sqrtf({})", "exp": "expf({})", "log": "logf({})", "tanh": "tanhf({})",
}  # fmt: skip
REDUCTIONS = {"sum": "{0} += {1};", "max": "{0} = maximum({0}, {1});", "min": "{0} = minimum({0}, {1});"}
NO_BARRIERS: frozenset[str] = frozenset()

Body = Callable[[frozenset[str], tuple[Guard, ...]], None]


class Kernel:
    """Writes one kernel.

    Args:
        nest: the loops.
        call: the kernel's name and launch.
        tensors: those that it takes; the last is the one it writes.
    """

    def __init__(self, nest: Nest, call: KernelCall, tensors: Sequence[Tensor]) -> None:
        self._nest = nest
        self._call = call
        self._tensors = {tensor.name: tensor for tensor in tensors}
        self._lines = Lines()
        free = [loop for loop in nest.loops if loop.kind not in COORDINATES]
        first = next((at for at, loop in enumerate(free) if loop.variable in nest.reductions), len(free))
        self._bound = [loop for loop in nest.loops if loop.kind in COORDINATES]
        self._outer, self._inner = free[:first], free[first:]
        self._kept = [loop for loop in self._inner if loop.variable not in nest.reductions]
        self._barriers = frozenset(staging.variable for staging in nest.stagings)
        names = Names()
        self._names = _Names({name: names.take(name) for name in (*self._tensors, *nest.extent)})
        self._copies = Copies(nest, self._tensors, call.launch, names)
        self._total, self._index = map(names.take, ("total", "index"))
        self._integer = "int" if self._fits() else "long long"
        self._within: dict[str, str] = {}
        self._dropped = NOTHING
        self._in_registers = math.prod(loop.extent for loop in self._kept) <= MAX_ACCUMULATORS
        if nest.stage.reducer and self._in_registers:
            shapes = {tensor.name: tensor.shape for tensor in tensors}
            self._dropped = dropped(nest, self._left_to_the_reduction(), self._copies.tiles, shapes)
            self._within = {axis: names.take(f"{axis}_within") for axis in sorted(self._dropped.axes)}

    def text(self) -> str:
        """Return the kernel's definition."""
        stage, (grid, block) = self._nest.stage, self._call.launch
        parameters = [
            f"{'float' if name == stage.tensor else 'const float'} *__restrict__ {self._names[name]}"
            for name in self._tensors
        ]
        self._lines.add(f"// {self._call.function}<<<dim3{grid}, dim3{block}>>>({', '.join(self._tensors)})")
        bounds = f"__launch_bounds__({self._call.launch.threads})"
        with self._lines.braces(f'extern "C" __global__ void {bounds} {self._call.function}({", ".join(parameters)})'):
            self._copies.declare(self._lines)
            for loop in self._bound:
                self._lines.add(f"const {self._integer} {self._names[loop.variable]} = {COORDINATES[loop.kind]};")
            written = [Affine(0, ((axis.name, 1),)) for axis in stage.spatial]
            result = self._needing(lambda: self._element_of(Read(stage.tensor, tuple(written)), {}))
            body = self._needing(lambda: self._value(stage.body))
            part = _Part(self._outer, self._nest.guards, self._barriers, result.needs | body.needs)
            known = frozenset(loop.variable for loop in self._bound)
            self._loops(part, known, lambda inside, guards: self._stage(result, body, inside, guards))
        return self._lines.text

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
        for guard in part.guards:
            if loop and guard not in tested and self._is_uniform(guard, loop, known, part.barriers):
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
            inside.enter_context(self._loop(loop))
            if loop.variable in part.barriers:
                self._copies.write(self._lines, loop, self._names, self._integer)
            rest = part._replace(loops=part.loops[1:], guards=guards, barriers=part.barriers - {loop.variable})
            self._loops(rest, known | {loop.variable}, body)

    def _loop(self, loop: Loop) -> AbstractContextManager[None]:
        name = self._names[loop.variable]
        if loop.kind == "unrolled":
            self._lines.add("#pragma unroll")
        return self._lines.braces(f"for ({self._integer} {name} = 0; {name} < {loop.extent}; ++{name})")

    def _may_branch(self, guard: Guard, barriers: Set[str]) -> bool:
        """Return whether a guard may be tested here without keeping some threads of a block from a barrier."""
        threads = {loop.variable for loop in self._bound if loop.kind.startswith("thread")}
        return not barriers or threads.isdisjoint(self._nest.dependencies[guard.variable])

    def _is_uniform(self, guard: Guard, loop: Loop, known: Set[str], barriers: Set[str]) -> bool:
        """Return whether a guard that is known inside a loop can be tested outside of it."""
        return (
            self._nest.dependencies[guard.variable] <= known | {loop.variable}
            and self._may_branch(guard, barriers)
            and is_uniform(self._nest, guard, loop, loop.extent)
        )

    def _left_to_the_reduction(self) -> list[Guard]:
        """Return the guards that are not tested in the loops outside of the reduction."""
        known = frozenset(loop.variable for loop in (*self._bound, *self._outer))
        barriers = self._barriers & {loop.variable for loop in self._inner}
        return [
            guard
            for guard in self._nest.guards
            if not (self._nest.dependencies[guard.variable] <= known and self._may_branch(guard, barriers))
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
                formulas = {
                    relation.outer: f"{fused} / {relation.extent}",
                    relation.inner: f"{fused} % {relation.extent}",
                }
            for variable, formula in formulas.items():
                self._define_one(variable, formula, needs)
            known |= formulas.keys()
        return known

    def _define_one(self, variable: str, formula: str, needs: Set[str]) -> None:
        name = self._names[variable]
        if variable in needs:
            self._lines.add(f"const {self._integer} {name} = {formula};")
        if _within(variable) in needs:
            last = self._nest.extent[variable] - 1
            self._lines.add(f"const {self._integer} {self._within[variable]} = {name} < {last} ? {name} : {last};")

    # ------------------------------------------------------------------------------------- loop bodies

    def _stage(self, result: "_Text", body: "_Text", known: frozenset[str], guards: tuple[Guard, ...]) -> None:
        """Write the code inside the result loops that surround all reduction loops."""
        nest, add = self._nest, self._lines.add
        inner = _Part(self._inner, guards, NO_BARRIERS, result.needs | body.needs)
        if not nest.stage.reducer:
            self._loops(inner, known, lambda *_: add(f"{result.text} = {body.text};"))
            return
        initial = number(REDUCERS[nest.stage.reducer])
        spatial = tuple(guard for guard in guards if guard.variable not in nest.reductions)
        kept = _Part(self._kept, spatial, NO_BARRIERS, result.needs)
        if self._in_registers:
            total = self._accumulators(initial)
        else:
            total = result.text
            self._loops(kept, known, lambda *_: add(f"{total} = {initial};"))
        step = REDUCTIONS[nest.stage.reducer].format(total, body.text)
        barriers = self._barriers & {loop.variable for loop in self._inner}
        tested = tuple(guard for guard in guards if guard not in self._dropped.guards)
        named = self._closed(self._named(tested, known, barriers))
        needs = body.needs | named if self._in_registers else body.needs | named | result.needs
        self._loops(_Part(self._inner, tested, barriers, needs), known, lambda *_: add(step))
        if self._in_registers:
            self._loops(kept, known, lambda *_: add(f"{result.text} = {total};"))

    def _named(self, guards: Sequence[Guard], known: Set[str], barriers: Set[str]) -> frozenset[str]:
        """Return the variables of the guards that the reduction tests inside the last loop that they depend on."""
        found = {guard.variable for guard in guards}
        for at, loop in enumerate(self._inner):
            left = barriers & {one.variable for one in self._inner[at:]}
            for guard in guards:
                if loop.variable in self._nest.dependencies[guard.variable] and self._is_uniform(
                    guard, loop, known, left
                ):
                    found.discard(guard.variable)
            known = known | {loop.variable}
        return frozenset(found)

    def _accumulators(self, initial: str) -> str:
        """Define accumulators; return the one of the current iteration of the result loops."""
        if not self._kept:
            self._lines.add(f"float {self._total} = {initial};")
            return self._total
        count = math.prod(loop.extent for loop in self._kept)
        self._lines.add(f"float {self._total}[{count}];", "#pragma unroll")
        with self._lines.braces(f"for (int {self._index} = 0; {self._index} < {count}; ++{self._index})"):
            self._lines.add(f"{self._total}[{self._index}] = {initial};")
        position = flat([self._names[loop.variable] for loop in self._kept], [loop.extent for loop in self._kept])
        return f"{self._total}[{position}]"

    # -------------------------------------------------------------------------------------------- expressions

    def _value(self, expression: Expression) -> str:
        match expression:
            case Number(value):
                return number(value)
            case Call(function, arguments):
                return FUNCTIONS[function].format(*map(self._value, arguments))
            case Read(tensor):
                if tensor in self._copies.tiles:
                    return self._copies.element(expression, self._names)
                return self._element_of(expression, self._within)

    def _element_of(self, element: Read, within: Mapping[str, str]) -> str:
        """Return an element of a tensor in the device's memory.

        Args:
            element: the element.
            within: values of axes that are to be used instead of their own.
        """
        axes = {axis: self._names[axis] for index in element.indices for axis, _ in index.terms}
        self._names.used |= {_within(axis) for axis in axes.keys() & within.keys()}
        places = [affine(index, {**axes, **within}) for index in element.indices]
        return f"{self._names[element.tensor]}[{flat(places, self._tensors[element.tensor].shape)}]"

    def _needing(self, write: Callable[[], str]) -> "_Text":
        """Return a text with the variables that it needs."""
        self._names.used.clear()
        text = write()
        return _Text(text, self._closed(self._names.used))

    def _closed(self, variables: Set[str]) -> frozenset[str]:
        """Return variables and those that they are computed from."""
        found = set(variables)
        for relation in self._nest.relations:
            if isinstance(relation, Split):
                found |= {relation.outer, relation.inner} if relation.parent in found else set()
            else:
                found |= {relation.fused} if not found.isdisjoint((relation.outer, relation.inner)) else set()
        return frozenset(found)

    def _fits(self) -> bool:
        """Return whether 32 bits hold all indices, including those of elements beyond a guard."""
        greatest = {loop.variable: loop.extent - 1 for loop in self._nest.loops}
        for relation in reversed(self._nest.relations):
            if isinstance(relation, Split):
                greatest[relation.parent] = greatest[relation.outer] * relation.factor + greatest[relation.inner]
            else:
                greatest[relation.outer] = greatest[relation.fused] // relation.extent
                greatest[relation.inner] = relation.extent - 1
        sizes = (tensor.size for tensor in self._tensors.values())
        indices = (
            abs(index.constant) + sum(abs(factor) * greatest[axis] for axis, factor in index.terms)
            for read in self._nest.stage.reads()
            for index in read.indices
        )
        return max(*greatest.values(), *sizes, *indices) <= LONGEST_INDEX


class _Part(NamedTuple):
    """Loops that are to be written.

    Attributes:
        loops: from the outermost to the innermost.
        guards: those not tested yet.
        barriers: those of the kernel's loops from here inwards that begin with a barrier.
        needs: the variables that have to be defined.
    """

    loops: Sequence[Loop]
    guards: tuple[Guard, ...]
    barriers: frozenset[str]
    needs: frozenset[str]


class _Text(NamedTuple):
    """A text, and the variables that have to be defined where it stands."""

    text: str
    needs: frozenset[str]


class _Names(dict[str, str]):
    """Names of tensors and variables.

    Attributes:
        used: those that were asked for.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__(names)
        self.used: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.used.add(name)
        return super().__getitem__(name)


def _within(axis: str) -> str:
    """Return the name under which the value of an axis, but at most its last, is needed."""
    return f"{axis} within"
