"""CUDA C of nests: a kernel for each stage.

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

A guard is tested as soon as its variable is known, except guards that differ between threads of a block: these are
tested inside all loops that contain a barrier, since all threads of a block must reach each barrier.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import NamedTuple

import numpy as np

from aiocg.workers.loops.cuda.geometry import COORDINATES, Launch, Lines, Names, launch
from aiocg.workers.loops.expression import REDUCERS, Affine, Call, Computation, Expression, Number, Read, Tensor
from aiocg.workers.loops.nest import Fusion, Guard, Loop, Nest, Split
from aiocg.workers.loops.tile import Tile, staged_tile

MAX_ACCUMULATORS = 256  # per thread, which has at most 255 registers
LONGEST_INDEX = 2**31 - 1  # in 32 bits, which is cheaper than 64
COPIES_AT_ONCE = 4  # tile elements per thread, so that it waits for memory less often

PREAMBLE = """\
// NaN wins, as in NumPy.
__device__ __forceinline__ float maximum(float a, float b) { return a > b || a != a ? a : b; }
__device__ __forceinline__ float minimum(float a, float b) { return a < b || a != a ? a : b; }
"""
FUNCTIONS = {
    "add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "div": "({} / {})",
    "max": "maximum({}, {})", "min": "minimum({}, {})",
    "neg": "(-{})", "abs": "fabsf({})", "sqrt": "sqrtf({})", "exp": "expf({})", "log": "logf({})", "tanh": "tanhf({})",
}  # fmt: skip
REDUCTIONS = {"sum": "{0} += {1};", "max": "{0} = maximum({0}, {1});", "min": "{0} = minimum({0}, {1});"}
BITS = {math.inf: "__int_as_float(0x7f800000)", -math.inf: "__int_as_float(0xff800000)"}


class KernelCall(NamedTuple):
    """The launch of one stage's kernel.

    Attributes:
        function: the kernel's name.
        launch: the geometry.
        arguments: the tensors it takes, by their position in `Computation.tensors`. The last is the one it writes.
    """

    function: str
    launch: Launch
    arguments: tuple[int, ...]


class Program(NamedTuple):
    """The kernels of a computation and their launches.

    Attributes:
        source: CUDA C of all kernels, with the launches as comments.
        calls: one for each stage, in order.
    """

    source: str
    calls: tuple[KernelCall, ...]


def generate(computation: Computation, nests: Sequence[Nest]) -> Program:
    """Generate the kernels of a computation.

    Raises:
        CompilationError: with `FailureCode.ACTION` and a sentence that says why when no device can carry it out.
    """
    texts, calls = [PREAMBLE], []
    position = {tensor.name: index for index, tensor in enumerate(computation.tensors)}
    for number, nest in enumerate(nests):
        read = dict.fromkeys(one.tensor for one in nest.stage.reads())
        tensors = [computation.by_name[name] for name in (*read, nest.stage.tensor)]
        call = KernelCall(f"stage_{number}", launch(nest), tuple(position[tensor.name] for tensor in tensors))
        texts.append(_Kernel(nest, call, tensors).text())
        calls.append(call)
    return Program("\n".join(texts), tuple(calls))


class _Kernel:
    """Writes one kernel."""

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
        self._tiles = {staging.tensor: staged_tile(nest, staging) for staging in nest.stagings}
        self._barriers = frozenset(staging.variable for staging in nest.stagings)
        names = Names()
        self._names = {name: names.take(name) for name in (*self._tensors, *nest.extent)}
        self._tile_names = {name: names.take(f"{name}_tile") for name in self._tiles}
        self._starts = {
            name: [names.take(f"{name}_start_{at}") for at in range(len(tile.shape))]
            for name, tile in self._tiles.items()
        }
        self._places = {
            name: [names.take(f"{name}_{at}") for at in range(len(tile.shape))] for name, tile in self._tiles.items()
        }
        self._total, self._thread, self._index, self._element = map(names.take, ("total", "thread", "index", "element"))
        self._integer = "int" if self._fits() else "long long"

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
            for name, tile in self._tiles.items():
                self._lines.add(f"__shared__ float {self._tile_names[name]}[{math.prod(tile.shape)}];")
            if self._tiles:
                x, y, _ = block
                self._lines.add(
                    f"const int {self._thread} = threadIdx.x + {x} * (threadIdx.y + {y} * (int)threadIdx.z);"
                )
            for loop in self._bound:
                self._lines.add(f"const {self._integer} {self._names[loop.variable]} = {COORDINATES[loop.kind]};")
            known = frozenset(loop.variable for loop in self._bound)
            self._loops(self._outer, known, self._nest.guards, self._barriers, self._stage)
        return self._lines.text

    # ------------------------------------------------------------------------------------------------- loops

    def _loops(
        self,
        loops: Sequence[Loop],
        known: frozenset[str],
        guards: tuple[Guard, ...],
        barriers: frozenset[str],
        body: Callable[[frozenset[str], tuple[Guard, ...]], None],
    ) -> None:
        """Write loops around a body.

        Args:
            loops: from the outermost to the innermost.
            known: the variables defined here.
            guards: those not tested yet; the body gets the remaining ones.
            barriers: the loops from here inwards that begin with a barrier.
            body: writes the loops' body.
        """
        known = self._define(known)
        tested = tuple(guard for guard in guards if guard.variable in known and self._may_branch(guard, barriers))
        guards = tuple(guard for guard in guards if guard not in tested)
        with ExitStack() as inside:
            if tested:
                conditions = (f"{self._names[guard.variable]} < {guard.bound}" for guard in tested)
                inside.enter_context(self._lines.braces(f"if ({' && '.join(conditions)})"))
            if not loops:
                body(known, guards)
                return
            loop, *others = loops
            inside.enter_context(self._loop(loop))
            if loop.variable in barriers:
                self._copy_tiles(loop)
            self._loops(others, known | {loop.variable}, guards, barriers - {loop.variable}, body)

    def _loop(self, loop: Loop) -> AbstractContextManager[None]:
        name = self._names[loop.variable]
        if loop.kind == "unrolled":
            self._lines.add("#pragma unroll")
        return self._lines.braces(f"for ({self._integer} {name} = 0; {name} < {loop.extent}; ++{name})")

    def _may_branch(self, guard: Guard, barriers: frozenset[str]) -> bool:
        """Return whether a guard may be tested here without keeping some threads of a block from a barrier."""
        threads = {loop.variable for loop in self._bound if loop.kind.startswith("thread")}
        return not barriers or threads.isdisjoint(self._nest.dependencies[guard.variable])

    def _define(self, known: frozenset[str]) -> frozenset[str]:
        """Define all variables that follow from the known ones; return all known variables."""
        for relation in reversed(self._nest.relations):
            if isinstance(relation, Split):
                if {relation.outer, relation.inner} <= known and relation.parent not in known:
                    self._constant(relation.parent, self._parent(relation, self._names))
                    known |= {relation.parent}
            elif relation.fused in known and relation.outer not in known:
                fused = self._names[relation.fused]
                self._constant(relation.outer, f"{fused} / {relation.extent}")
                self._constant(relation.inner, f"{fused} % {relation.extent}")
                known |= {relation.outer, relation.inner}
        return known

    def _constant(self, variable: str, value: str) -> None:
        self._lines.add(f"const {self._integer} {self._names[variable]} = {value};")

    @staticmethod
    def _parent(split: Split, values: Mapping[str, str]) -> str:
        return _joined([_product(values[split.outer], split.factor), values[split.inner]])

    # ------------------------------------------------------------------------------------- loop bodies

    def _stage(self, known: frozenset[str], guards: tuple[Guard, ...]) -> None:
        """Write the code inside the result loops that surround all reduction loops."""
        nest = self._nest
        result = self._element_of(nest.stage.tensor, [Affine(0, ((axis.name, 1),)) for axis in nest.stage.spatial])
        body = self._value(nest.stage.body)
        none: frozenset[str] = frozenset()
        if not nest.stage.reducer:
            self._loops(self._inner, known, guards, none, lambda *_: self._lines.add(f"{result} = {body};"))
            return
        initial = _number(REDUCERS[nest.stage.reducer])
        count = math.prod(loop.extent for loop in self._kept)
        spatial = tuple(guard for guard in guards if guard.variable not in nest.reductions)
        barriers = self._barriers & {loop.variable for loop in self._inner}
        if count <= MAX_ACCUMULATORS:
            total = self._accumulators(count, initial)
        else:
            total = result
            self._loops(self._kept, known, spatial, none, lambda *_: self._lines.add(f"{result} = {initial};"))
        step = REDUCTIONS[nest.stage.reducer].format(total, body)
        self._loops(self._inner, known, guards, barriers, lambda *_: self._lines.add(step))
        if total != result:
            self._loops(self._kept, known, spatial, none, lambda *_: self._lines.add(f"{result} = {total};"))

    def _accumulators(self, count: int, initial: str) -> str:
        """Define accumulators; return the one of the current iteration of the result loops."""
        if not self._kept:
            self._lines.add(f"float {self._total} = {initial};")
            return self._total
        self._lines.add(f"float {self._total}[{count}];", "#pragma unroll")
        with self._lines.braces(f"for (int {self._index} = 0; {self._index} < {count}; ++{self._index})"):
            self._lines.add(f"{self._total}[{self._index}] = {initial};")
        position = _flat([self._names[loop.variable] for loop in self._kept], [loop.extent for loop in self._kept])
        return f"{self._total}[{position}]"

    def _copy_tiles(self, loop: Loop) -> None:
        """Write the copies by which all threads of a block stage a loop's tiles."""
        self._lines.add("__syncthreads();")
        for staging in self._nest.stagings:
            if staging.variable == loop.variable:
                self._copy(staging.tensor, self._tiles[staging.tensor])
        self._lines.add("__syncthreads();")

    def _copy(self, name: str, tile: Tile) -> None:
        starts = self._starts[name]
        for start, affine in zip(starts, tile.start, strict=True):
            values = {axis: self._at_start(axis, tile.inside) for axis, _ in affine.terms}
            self._lines.add(f"const {self._integer} {start} = {_affine(affine, values)};")
        threads, size, shape = self._call.launch.threads, math.prod(tile.shape), self._tensors[name].shape
        turn, element = self._index, self._element
        self._lines.add(f"#pragma unroll {COPIES_AT_ONCE}")
        with ExitStack() as inside:
            inside.enter_context(self._lines.braces(f"for (int {turn} = 0; {turn} < {size}; {turn} += {threads})"))
            self._lines.add(f"const int {element} = {turn} + {self._thread};")
            if size % threads:
                inside.enter_context(self._lines.braces(f"if ({element} < {size})"))
            stride = size
            for place, start, extent in zip(self._places[name], starts, tile.shape, strict=True):
                digit = element if stride == size else f"{element} % {stride}"
                stride //= extent
                digit = digit if stride == 1 else f"{digit} / {stride}"
                self._lines.add(f"const {self._integer} {place} = {start} + {digit};")
            within = " && ".join(
                f"{place} >= 0 && {place} < {extent}"
                for place, extent, index in zip(self._places[name], shape, tile.start, strict=True)
                if self._is_guarded(index)
            )
            source = f"{self._names[name]}[{_flat(self._places[name], shape)}]"
            value = f"{within} ? {source} : 0.0f" if within else source
            self._lines.add(f"{self._tile_names[name]}[{element}] = {value};")

    def _is_guarded(self, index: Affine) -> bool:
        """Return whether a guard keeps an index within its tensor."""
        axes = {axis for axis, _ in index.terms}
        return any(axes & self._nest.axes[guard.variable] for guard in self._nest.guards)

    def _at_start(self, variable: str, inside: frozenset[str]) -> str:
        """Return a variable's value with the variables of the inner loops as 0."""
        loops = self._nest.dependencies[variable]
        if loops <= inside:
            return "0"
        for relation in self._nest.relations:
            if isinstance(relation, Split) and relation.parent == variable:
                values = {each: self._at_start(each, inside) for each in (relation.outer, relation.inner)}
                return f"({self._parent(relation, values)})"
            if isinstance(relation, Fusion) and variable in (relation.outer, relation.inner):
                sign = "/" if variable == relation.outer else "%"
                return f"({self._at_start(relation.fused, inside)} {sign} {relation.extent})"
        return self._names[variable]

    # -------------------------------------------------------------------------------------------- expressions

    def _value(self, expression: Expression) -> str:
        match expression:
            case Number(value):
                return _number(value)
            case Call(function, arguments):
                return FUNCTIONS[function].format(*map(self._value, arguments))
            case Read(tensor, indices):
                return self._staged(tensor, indices) if tensor in self._tiles else self._element_of(tensor, indices)

    def _element_of(self, tensor: str, indices: Sequence[Affine]) -> str:
        places = [_affine(index, self._names) for index in indices]
        return f"{self._names[tensor]}[{_flat(places, self._tensors[tensor].shape)}]"

    def _staged(self, tensor: str, indices: Sequence[Affine]) -> str:
        places = [
            f"{_affine(index, self._names)} - {start}"
            for index, start in zip(indices, self._starts[tensor], strict=True)
        ]
        return f"{self._tile_names[tensor]}[{_flat(places, self._tiles[tensor].shape)}]"

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


def _number(value: float) -> str:
    """Return a literal: the shortest decimals that round to the same `float32`."""
    single = np.float32(value)
    if np.isinf(single):
        return BITS[float(single)]
    text = str(single)
    return f"({text}f)" if text.startswith("-") else f"{text}f"


def _affine(affine: Affine, values: Mapping[str, str]) -> str:
    """Return a sum of multiples."""
    terms = [_product(values[name], factor) for name, factor in affine.terms]
    constant = [str(affine.constant)] if affine.constant or not terms else []
    return _joined([*terms, *constant])


def _flat(places: Sequence[str], shape: Sequence[int]) -> str:
    """Return the position of an element in C order."""
    terms, stride = [], math.prod(shape)
    for place, extent in zip(places, shape, strict=True):
        stride //= extent
        terms.append(_product(place, stride))
    return _joined(terms)


def _product(value: str, factor: int) -> str:
    if factor == 1:
        return value
    return f"({value}) * {factor}" if " " in value else f"{value} * {factor}"


def _joined(terms: Sequence[str]) -> str:
    found = [term for term in terms if term != "0" and not term.startswith("0 * ")]
    return " + ".join(found).replace("+ -", "- ") or "0"
