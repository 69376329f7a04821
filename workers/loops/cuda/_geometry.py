"""Parts of CUDA source: the grid of a kernel, indented lines, and names."""

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops._nest import BLOCKS, THREADS, Kind, Nest, Refusal
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
