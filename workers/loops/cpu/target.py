"""The CPU as a target of loop nests, with layout templates derived from memory accesses.

They choose an axis for the vectors, results to keep in registers, parts of sums that caches hold, and the order of the
loops around. All of it follows from strides, extents and the device, so it does not matter what is computed.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import count, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from aiocg.transport import system
from aiocg.workers.loops._device_lock import remembered
from aiocg.workers.loops._expression import Affine, Axis, Computation, Read, Stage, Tensor
from aiocg.workers.loops._nest import Loop, Nest, Split
from aiocg.workers.loops._observations import accesses, stride
from aiocg.workers.loops._rules import RULES, VECTORS, groups
from aiocg.workers.loops._schedule import Layout, Place, Schedule
from aiocg.workers.loops._target import Roof
from aiocg.workers.loops.cpu import _jit as jit
from aiocg.workers.loops.cpu._functions import FLOAT, call, splat
from aiocg.workers.loops.cpu._kernel import CpuKernel, Step, Team, write_driver
from aiocg.workers.loops.cpu._loops import INDEX, Loops
from aiocg.workers.loops.cpu._stages import Room, write_stage

MOST_TEMPLATES = 60  # templates of a statement
TILES = (8, 4)  # tiles in these with vectors along the best axis, and along the second
WORTH_THREADS = 1 << 17  # operations of a statement that are worth starting threads for
BLOCKS = (64, 128, 256)  # turns of the parts that a sum is done in
ROWS = (1, 2, 3, 4, 6, 8, 12, 14, 16, 24)  # results kept in registers along an axis, in vectors
SPARE = 2  # registers for what is read


class _Machine(NamedTuple):
    """What a processor has, which decides what schedules are worth trying.

    Attributes:
        vector: `float32` elements of a vector.
        registers: vectors that registers hold.
        threads: threads that share a parallel loop.
    """

    vector: int
    registers: int
    threads: int


class _Tile(NamedTuple):
    """What is done at once: a vector, and copies of it.

    Attributes:
        axis: the axis that vectors go along.
        width: elements of a vector.
        copies: other axes with the copies along each.
    """

    axis: str
    width: int
    copies: tuple[tuple[str, int], ...]

    @property
    def inside(self) -> dict[str, int]:
        """The turns that an axis has inside the tile."""
        return {**dict(self.copies), self.axis: self.width}


def templates(schedule: Schedule, machine: _Machine) -> tuple[tuple[Layout, ...], ...]:
    """Return layouts for each statement, the most promising first.

    Args:
        schedule: the initial schedule.
        machine: what the device has.
    """
    shapes = {tensor.name: tensor.shape for tensor in schedule.computation.tensors}
    return tuple(_Templates(nest, shapes, machine).best() for nest in schedule.nests)


class _Templates:
    """The templates of one statement.

    Attributes:
        strides: how far apart each axis' turns are in the result, and then in what is read, in elements.
    """

    def __init__(self, nest: Nest, shapes: dict[str, tuple[int, ...]], machine: _Machine) -> None:
        self.nest = nest
        known = [(access, shapes[access.tensor]) for access in accesses(nest.stage)]
        self.strides = {axis: [stride(nest, *one, axis) for one in known] for axis in nest.extent}
        self.machine = machine
        self.spatial = [axis.name for axis in nest.stage.spatial]
        self.reduction = [axis.name for axis in nest.stage.reduction]

    def best(self) -> tuple[Layout, ...]:
        found: dict[Layout, None] = {}
        groups = [list(self._layouts(tile)) for tile in self._tiles()]
        for rank in range(max(map(len, groups), default=0)):  # each tile in its first order, before any in its second
            found |= dict.fromkeys(group[rank] for group in groups if rank < len(group))
        return tuple(found)[:MOST_TEMPLATES]

    # ------------------------------------------------------------------------------------------- tiles

    def _tiles(self) -> list[_Tile]:
        """Return tiles, those first that need the fewest loads for a result and use the registers."""
        found = []
        for axis, most in zip(self._vector_axes(), TILES, strict=False):
            found += sorted(dict.fromkeys(self._tiles_along(axis)), key=self._cost)[:most]
        return sorted(found, key=self._cost)

    def _vector_axes(self) -> list[str]:
        """Return the axes along which elements lie close to each other and which are long, the best first."""
        axes = [axis for axis, extent in self.nest.extent.items() if extent > 1]
        return sorted(axes, key=lambda axis: (self._scattered(axis) + self._narrow(self.nest.extent[axis]),
                                              axis in self.reduction, -self.nest.extent[axis]))  # fmt: skip

    def _scattered(self, axis: str) -> int:
        """Return the sum of an axis's strides over all accesses, each at most a vector; 0 and 1 count as nothing.

        What is written counts twice.
        """
        written, *read = (min(abs(step), self.machine.vector) * (step not in (0, 1)) for step in self.strides[axis])
        return 2 * written + sum(read)

    def _narrow(self, width: int) -> float:
        """Return how many times as wide a vector might be."""
        return max(1.0, self.machine.vector / width)

    def _tiles_along(self, axis: str) -> Iterator[_Tile]:
        extent, length = self.nest.extent[axis], self.machine.vector
        widths = [width for width in VECTORS if width <= extent and (width >= length or 2 * width > extent)]
        copied = sorted((one for one in self.spatial if one != axis), key=lambda one: (-self._shared(one), one))
        copied = [one for one in copied if self.nest.extent[one] > 1][:2]
        for width in widths:
            for counts in product(ROWS, repeat=len(copied)):
                copies = tuple((one, count) for one, count in zip(copied, counts, strict=True) if count > 1)
                if all(count <= self.nest.extent[one] for one, count in copies):
                    tile = _Tile(axis, width, copies)
                    if self._registers(tile) <= self.machine.registers - SPARE:
                        yield tile

    def _shared(self, axis: str) -> int:
        """Return how many reads are the same for all turns of an axis."""
        return sum(step == 0 for step in self.strides[axis][1:])

    def _registers(self, tile: _Tile) -> int:
        """Return how many registers the results of a tile take."""
        return math.prod(count for _, count in tile.copies) * max(1, tile.width // self.machine.vector)

    def _cost(self, tile: _Tile) -> tuple[float, ...]:
        """Return a sort key: the estimated cost of a vector of results, then more vectors first, then the narrower."""
        vectors = self._registers(tile)
        loads = 0.0
        for access in range(1, len(self.strides[tile.axis])):
            along = {axis: count for axis, count in tile.copies if self.strides[axis][access]}
            wide = max(1, tile.width // self.machine.vector) if self.strides[tile.axis][access] else 1
            loads += math.prod(along.values()) * wide
        waste = math.prod(-(-self.nest.extent[axis] // count) * count / self.nest.extent[axis]
                          for axis, count in tile.inside.items())  # fmt: skip
        chains = 8 / min(8, vectors) if self.reduction else 1.0  # too few sums at once wait for each other
        cost = self._scattered(tile.axis) + loads / vectors + 1
        streams = 1 + math.prod(count for _, count in tile.copies) / 100  # which caches and prefetchers follow
        return (cost * waste * chains * streams * self._narrow(tile.width), -vectors, tile.width)

    # ------------------------------------------------------------------------------------------- loops around

    def _layouts(self, tile: _Tile) -> Iterator[Layout]:
        """Yield the loops around a tile: in textual order, with the vectors' axis outermost, and sums in parts."""
        inner = [Place(axis, count, "unroll") for axis, count in tile.copies]
        inner.append(Place(tile.axis, tile.width, "vectorize"))
        around = [axis for axis in self.spatial if self.nest.extent[axis] > tile.inside.get(axis, 0)]
        sums = [Place(axis) for axis in self.reduction if self.nest.extent[axis] > tile.inside.get(axis, 0)]
        turned = sorted(around, key=lambda axis: axis != tile.axis)
        orders = [around] if turned == around else [around, turned]
        for order in orders:
            yield self._whole([Place(axis) for axis in order], sums, inner, tile)
        longest = max(self.reduction, key=self.nest.extent.__getitem__, default="")
        width = tile.inside.get(longest, 1)
        for block in (one for one in BLOCKS if longest and 2 * one <= self.nest.extent[longest] and one > width):
            parts = [Place(one.axis, block // width) if one.axis == longest else one for one in sums]
            for order in orders:
                first = [Place(axis) for axis in order]
                yield self._whole([*first[:1], Place(longest), *first[1:]], parts, inner, tile)

    def _whole(self, outer: list[Place], sums: list[Place], inner: Sequence[Place], tile: _Tile) -> Layout:
        """Return a layout with its outermost loop shared by threads, and axes that tiles take whole left to these."""
        places = [*outer, *sums, *inner]
        if self._is_shared(places[0], tile):
            places[0] = places[0]._replace(kind="parallel")
        return tuple(places)

    def _is_shared(self, place: Place, tile: _Tile) -> bool:
        turns = self.nest.extent[place.axis] // tile.inside.get(place.axis, 1)
        enough = turns >= self.machine.threads > 1 and self.nest.stage.flops >= WORTH_THREADS
        return enough and place.axis in self.spatial and not (place.turns or place.kind)


VERSION = 1  # of the roofline measurement


# --------------------------------- Measuring the CPU's roofline: the rates of a compute-only kernel and of copy kernels

ALIGNMENT = 64  # bytes: a cache line, and the longest vector


def _aligned(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return a new uninitialised array of `float32`, in C order."""
    size = 4 * math.prod(shape)
    room = np.empty(size + ALIGNMENT, np.uint8)
    first = -room.ctypes.data % ALIGNMENT
    return room[first : first + size].view(np.float32).reshape(shape)


CHAINS = 12  # of dependent operations: enough for two units with a latency of up to 6 cycles
TURNS = 4096  # iterations of the compute loop
SMALLEST = 1 << 13  # bytes of a copy's working set, for each thread
BEYOND_CACHES = 4  # times the last cache
MOST = 1 << 29  # bytes
SAMPLES = 12
SECONDS = 0.08  # for each kernel
UNROLLED = 4


def _measure_roof(team: Team, deadline: float = math.inf) -> Roof:
    """Measure with all threads of a team, and copies also with one thread, which is faster for small ones.

    This takes a few seconds, after waiting for others that measure, until the deadline at most.
    """
    smallest = SMALLEST * team.threads
    largest = min(MOST, max(16 * smallest, BEYOND_CACHES * _last_cache()))
    sizes = [smallest << step for step in range(1 + math.ceil(math.log2(largest / smallest)))]
    teams = {1, team.threads}
    bandwidths = tuple((size, max(_bandwidth(team, size, count, deadline) for count in teams)) for size in sizes)
    return Roof(_flops(team, deadline), bandwidths)


def _copy_nest(size: int, threads: int) -> tuple[Computation, Nest]:
    """Return the computation that copies so many elements, and its loops: each thread copies one part, by long vectors.

    `size` must be a multiple of threads * `UNROLLED` * vector length.
    """
    place = (Affine(0, (("i", 1),)),)
    stage = Stage("B", (Axis("i", size),), (), "", Read("A", place))
    part, width = size // threads, jit.vector_length()
    extents = {"i": size, "t": threads, "p": part, "o": part // (width * UNROLLED), "w": width * UNROLLED,
               "u": UNROLLED, "v": width}  # fmt: skip
    relations = (Split("i", "t", "p", part), Split("p", "o", "w", width * UNROLLED), Split("w", "u", "v", width))
    kinds = {"t": "parallel", "o": "serial", "u": "unrolled", "v": "vectorized"}
    loops = tuple(Loop(name, extents[name], kind) for name, kind in kinds.items())  # type: ignore[arg-type]
    return Computation((Tensor("A", (size,)),), (stage,)), Nest(stage, loops, relations, tuple(extents.items()))


def _bandwidth(team: Team, size: int, threads: int, deadline: float) -> float:
    """Return the bytes per second of a copy whose two arrays have so many bytes together."""
    elements = size // 8
    computation, nest = _copy_nest(elements, threads)
    module = ir.Module("copy")
    function = jit.declare(module, "copy", ir.FunctionType(ir.VoidType(), [ir.PointerType()] * 2 + [INDEX, INDEX]))
    write_stage(function, nest, computation.tensors, Room())
    write_driver(module, [Step((function,), threads, True)], 2)
    kernel = CpuKernel(computation, jit.Code(module), team, threads)
    arrays = [_aligned((elements,)) for _ in range(2)]
    for array in arrays:
        array.fill(0)
    return size / min(kernel.sample(arrays, samples=SAMPLES, seconds=SECONDS, deadline=deadline)[0])


def _flops(team: Team, deadline: float) -> float:
    """Return the maximal multiplications and additions per second."""
    width = jit.vector_length()
    tensor = Tensor("S", (team.threads, width))
    module = ir.Module("peak")
    function = jit.declare(module, "peak", ir.FunctionType(ir.VoidType(), [ir.PointerType(), INDEX, INDEX]))
    _write_chains(function, width)
    write_driver(module, [Step((function,), team.threads, True)], 1)
    stage = Stage("S", (Axis("t", team.threads), Axis("v", width)), (), "", Read("S", ()))
    kernel = CpuKernel(Computation((), (stage,)), jit.Code(module), team, team.threads)
    seconds = min(kernel.sample([_aligned(tensor.shape)], samples=SAMPLES, seconds=SECONDS, deadline=deadline)[0])
    return 2 * width * CHAINS * TURNS * team.threads / seconds


def _write_chains(function: ir.Function, width: int) -> None:
    """Write a loop of fused multiply-adds on registers, and store their sum, so that LLVM keeps them."""
    kind = ir.VectorType(FLOAT, width)
    sink, first, _ = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    chains = [builder.alloca(kind) for _ in range(CHAINS)]
    for number, chain in enumerate(chains):
        builder.store(splat(kind, float(number)), chain)

    def turn(_: ir.Value) -> None:
        for chain in chains:
            value = builder.load(chain, typ=kind)
            builder.store(call(builder, "fma", (value, splat(kind, 0.5), splat(kind, 1.0))), chain)

    Loops(builder, {}).count(INDEX(0), INDEX(TURNS), turn)
    total = builder.load(chains[0], typ=kind)
    for chain in chains[1:]:
        total = builder.fadd(total, builder.load(chain, typ=kind))
    builder.store(total, builder.gep(sink, [first], source_etype=kind), align=4)
    builder.ret_void()


def _last_cache() -> int:
    """Return the bytes of the largest cache; 32 MiB if unknown."""
    units = {"K": 1 << 10, "M": 1 << 20}
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text(encoding="ascii").strip()
        if text[:-1].isdigit() and text[-1] in units:
            sizes.append(int(text[:-1]) * units[text[-1]])
    return max(sizes, default=32 << 20)


# ------------------------------------------------------------------------------------ The CPU as a target of loop nests


class CpuTarget:
    """This machine's CPU.

    Attributes:
        name: `cpu`.
        description: the model, the number of threads, and the vector length.
        threads: the number of threads that share a parallel loop.
        cache_dir: stores measurements; None to store none.
        machine: its vectors, registers and threads.
        rules: what loops it can carry out.
    """

    name = "cpu"
    rules = RULES["cpu"]

    def __init__(self, threads: int | None = None, cache_dir: Path | None = None) -> None:
        """Use so many threads, by default one per core."""
        self.threads = threads or len(system.processors())
        self.cache_dir = cache_dir
        self.description = (
            f"{system.processor_name()} ({jit.cpu_name()}), {self.threads} threads, {jit.vector_length()} float32"
        )
        self.machine = _Machine(jit.vector_length(), jit.vector_registers(), self.threads)
        self._team = Team(self.threads)

    def compile(self, computation: Computation, nests: Sequence[Nest]) -> CpuKernel:
        """Compile a nest for each stage. Several threads may do so at once.

        Raises:
            CompilationError: with `FailureCode.ACTION` if no code can be generated for these nests, or too much would
                be.
        """
        module = ir.Module("nests")
        kind = ir.FunctionType(ir.VoidType(), [*[ir.PointerType()] * len(computation.tensors), INDEX, INDEX])
        steps, room, number = [], Room(), count()
        for leader, *others in groups(nests):
            functions = []
            for nest in (leader, *others):
                functions.append(jit.declare(module, f"stage{next(number)}.{nest.stage.tensor}", kind))
                write_stage(functions[-1], nest, computation.tensors, room, in_parts=bool(others))
            parallel = bool(leader.loops) and leader.loops[0].kind == "parallel"
            steps.append(Step(tuple(functions), leader.loops[0].extent if leader.loops else 1, parallel))
        write_driver(module, steps, len(computation.tensors))
        threads = self.threads if any(step.parallel for step in steps) else 1
        return CpuKernel(computation, jit.Code(module), self._team, threads)

    def templates(self, schedule: Schedule) -> tuple[tuple[Layout, ...], ...]:
        """Return layouts for each statement that are likely to be fast; see `templates`."""
        return templates(schedule, self.machine)

    def roof(self, deadline: float = math.inf) -> Roof:
        """Return the CPU's roofline; measuring it takes seconds the first time.

        Args:
            deadline: the time limit of waiting for the device, in seconds of the monotonic clock.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if others measure on the device until the deadline.
        """
        key: dict[str, str | int] = {
            "device": self.name, "model": system.processor_name(), "llvm": jit.cpu_name(), "threads": self.threads,
            "vector": jit.vector_length(), "version": VERSION,
        }  # fmt: skip
        return remembered(self.cache_dir, key, lambda: _measure_roof(self._team, deadline))
