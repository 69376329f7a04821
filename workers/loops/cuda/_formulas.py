"""Parts of CUDA source: the grid of a kernel, lines, names, the values of variables, and the places of elements."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops._expression import Affine
from aiocg.workers.loops._nest import BLOCKS, THREADS, Kind, Nest, Refusal, Split
from aiocg.workers.loops._rules import Rules, block_threads, check

COORDINATES: dict[Kind, str] = {
    **{kind: kind.replace("block", "blockIdx") for kind in BLOCKS},
    **{kind: kind.replace("thread", "threadIdx") for kind in THREADS},
    "joined": "blockIdx.x",
}


class Launch(NamedTuple):
    """How a kernel is launched.

    Attributes:
        grid: the numbers of blocks in x, y and z.
        block: the numbers of threads of a block in x, y and z.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]

    @property
    def threads(self) -> int:
        """The number of threads in a block."""
        return math.prod(self.block)


class KernelCall(NamedTuple):
    """The launch of a kernel of one stage, or of several that are joined.

    Attributes:
        function: the kernel's name.
        launch: the geometry.
        arguments: the tensors it takes, by their position in `Computation.tensors`; those of a stage end with the one
            that it writes.
        shared: the shared memory that is asked for at the launch, in bytes.
    """

    function: str
    launch: Launch
    arguments: tuple[int, ...]
    shared: int = 0

    def comment(self, tensors: Iterable[str]) -> str:
        """Return the launch as a comment, with the names of the tensors."""
        sizes = ", ".join([f"dim3{size}" for size in self.launch] + [str(self.shared)] * (self.shared > 0))
        return f"// {self.function}<<<{sizes}>>>({', '.join(tensors)})"


def launch(nest: Nest, rules: Rules) -> Launch:
    """Return the launch configuration of a nest's kernel.

    Args:
        nest: the loops.
        rules: those of the device.

    Raises:
        CompilationError: with `FailureCode.ACTION` and the reason if the device cannot run it.
    """
    try:
        check(nest, rules)
    except Refusal as refusal:
        raise CompilationError(FailureCode.ACTION, refusal.reason) from None
    extents = {loop.kind: loop.extent for loop in nest.loops if loop.kind in COORDINATES} | block_threads(nest)
    x, y, z = (extents.get(kind, 1) for kind in BLOCKS)
    grid = (x, y, z)
    x, y, z = (extents.get(kind, 1) for kind in THREADS)
    return Launch(grid, (x, y, z))


def parameter(name: str, *, written: bool, alone: bool = True) -> str:
    """Return the declaration of a tensor: whether the function writes it, and whether nothing else does meanwhile."""
    return f"{'' if written else 'const '}float *{'__restrict__ ' if alone else ''}{name}"


class Lines:
    """A text that grows line by line."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def add(self, *lines: str) -> None:
        """Append lines at the current depth, indenting preprocessor directives too."""
        self._lines += ["    " * self._depth + line for line in lines]

    @contextmanager
    def braces(self, head: str) -> Iterator[None]:
        """Surround the context's lines with braces."""
        self.add(f"{head} {{" if head else "{")
        self._depth += 1
        yield
        self._depth -= 1
        self.add("}")

    @property
    def text(self) -> str:
        """All lines."""
        return "".join(f"{line}\n" for line in self._lines)


# Names that NVRTC predefines, and C++ keywords. Names that begin with two underscores do not occur.
WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class co_await
    co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do
    double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    requires return short signed sizeof static static_assert static_cast struct switch template this thread_local throw
    true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
    blockDim blockIdx gridDim threadIdx warpSize dim3 fabsf sqrtf expf logf tanhf maximum minimum
    float2 float4 make_float2 make_float4 copy_later finish_copies rounded multiply
    size_t ptrdiff_t clock_t NULL INFINITY NAN linux unix i386
"""
RESERVED = frozenset(WORDS.split())


class Names:
    """Gives each entity of a function a unique name, as close to its own name as C++ allows."""

    def __init__(self) -> None:
        self._taken = set(RESERVED)

    def take(self, wanted: str) -> str:
        """Return a name that was not returned before."""
        base = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_") or "v"
        base = base if base[0].isalpha() else f"v{base}"
        name, number = base, 1
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name


BITS = {math.inf: "__int_as_float(0x7f800000)", -math.inf: "__int_as_float(0xff800000)"}


def at_start(nest: Nest, variable: str, inside: Set[str], values: Mapping[str, str]) -> str:
    """Return a variable's value with the variables of the loops `inside` as 0.

    Args:
        nest: the loops.
        variable: any of `nest.extents`.
        inside: the loops.
        values: the value of each other loop's variable.
    """
    if nest.dependencies[variable] <= inside:
        return "0"
    relation = nest.sources.get(variable)
    if relation is None:
        return values[variable]
    if isinstance(relation, Split):
        outer, inner = (at_start(nest, each, inside, values) for each in (relation.outer, relation.inner))
        return joined([product(outer, relation.factor), inner])
    sign = "/" if variable == relation.outer else "%"
    return f"({at_start(nest, relation.fused, inside, values)}) {sign} {relation.extent}"


def from_start(nest: Nest, variable: str, inside: Set[str], values: Mapping[str, str]) -> str:
    """Return how far a variable is from its value `at_start`.

    Args:
        nest: the loops.
        variable: any of `nest.extents` that is not computed from fused loops of which only some are inside.
        inside: the loops.
        values: the value of each variable.
    """
    loops = nest.dependencies[variable]
    if loops <= inside:
        return values[variable]
    if not loops & inside:
        return "0"
    relation = nest.sources[variable]
    assert isinstance(relation, Split)
    outer, inner = (from_start(nest, each, inside, values) for each in (relation.outer, relation.inner))
    return joined([product(outer, relation.factor), inner])


def recomputed(nest: Nest, names: Mapping[str, str], changed: Mapping[str, str]) -> dict[str, str]:
    """Return the values of all variables for some values of loops' variables.

    Args:
        nest: the loops.
        names: the names of variables, which are their values elsewhere.
        changed: the values by the loops' variables.
    """
    found = {**names, **changed}
    for relation in reversed(nest.relations):
        if isinstance(relation, Split):
            if nest.dependencies[relation.parent] & changed.keys():
                outer = product(found[relation.outer], relation.factor)
                found[relation.parent] = joined([outer, found[relation.inner]])
        elif nest.dependencies[relation.fused] & changed.keys():
            found[relation.outer] = f"({found[relation.fused]}) / {relation.extent}"
            found[relation.inner] = f"({found[relation.fused]}) % {relation.extent}"
    return found


def fits(nest: Nest, sizes: Iterable[int], most: int) -> bool:
    """Return whether no index is greater than `most`, including those of elements beyond a guard.

    Args:
        nest: the loops.
        sizes: of tensors.
        most: the greatest index.
    """
    own = {loop.variable: loop.extent - 1 for loop in nest.loops}
    greatest = nest.derived(
        own, lambda outer, inner, factor: outer * factor + inner, lambda fused, extent: (fused // extent, extent - 1)
    )
    indices = (index for read in nest.stage.reads() for index in read.indices)
    ends = (abs(one.constant) + sum(abs(factor) * greatest[axis] for axis, factor in one.terms) for one in indices)
    return max(*greatest.values(), *sizes, *ends) <= most


def number(value: float) -> str:
    """Return a literal: the shortest decimals that round to the same `float32`."""
    single = np.float32(value)
    if np.isinf(single):
        return BITS[float(single)]
    text = str(single)
    return f"({text}f)" if text.startswith("-") else f"{text}f"


def affine(index: Affine, values: Mapping[str, str]) -> str:
    """Return a sum of multiples of variables with these values."""
    terms = [product(values[name], factor) for name, factor in index.terms]
    constant = [str(index.constant)] if index.constant or not terms else []
    return joined([*terms, *constant])


def flat(places: Sequence[str], shape: Sequence[int]) -> str:
    """Return the position of an element in C order."""
    terms, stride = [], math.prod(shape)
    for place, extent in zip(places, shape, strict=True):
        stride //= extent
        terms.append(product(place, stride))
    return joined(terms)


def product(value: str, factor: int) -> str:
    """Return a multiple."""
    if factor == 1 or value == "0":
        return value
    return f"({value}) * {factor}" if " " in value else f"{value} * {factor}"


def joined(terms: Sequence[str]) -> str:
    """Return a sum."""
    found = [term for term in terms if term != "0" and not term.startswith("0 * ")]
    return " + ".join(found).replace("+ -", "- ") or "0"
