"""The CPU as a target of loop nests."""

import contextlib
import math
import platform
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from aiocg.transport import system
from aiocg.workers.loops._device_lock import remembered
from aiocg.workers.loops._expression import Affine, Axis, Computation, Read, Stage, Tensor
from aiocg.workers.loops._layout import Layout
from aiocg.workers.loops._nest import Loop, Nest, Split
from aiocg.workers.loops._rules import RULES, groups
from aiocg.workers.loops._schedule import Schedule
from aiocg.workers.loops._target import Roof
from aiocg.workers.loops.cpu import _jit as jit
from aiocg.workers.loops.cpu._functions import FLOAT, call, splat
from aiocg.workers.loops.cpu._kernel import CpuKernel, Step, Team, write_driver
from aiocg.workers.loops.cpu._loops import INDEX, Loops
from aiocg.workers.loops.cpu._stages import Room, write_stage
from aiocg.workers.loops.cpu._templates import Machine, templates

VERSION = 1  # of the roofline measurement


# --------------------------------- Measuring the CPU's roofline: the rates of a compute-only kernel and of copy kernels

ALIGNMENT = 64  # bytes: a cache line, and the longest vector


def aligned(shape: tuple[int, ...]) -> NDArray[np.float32]:
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
    arrays = [aligned((elements,)) for _ in range(2)]
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
    seconds = min(kernel.sample([aligned(tensor.shape)], samples=SAMPLES, seconds=SECONDS, deadline=deadline)[0])
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


def processors() -> int:
    """Return the number of cores that this process may use."""
    return len(system.processors())


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
        self.threads = threads or processors()
        self.cache_dir = cache_dir
        self.description = f"{_model()} ({jit.cpu_name()}), {self.threads} threads, {jit.vector_length()} float32"
        self.machine = Machine(jit.vector_length(), jit.vector_registers(), self.threads)
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
        """Return layouts for each statement that are likely to be fast; see `_templates`."""
        return templates(schedule, self.machine)

    def roof(self, deadline: float = math.inf) -> Roof:
        """Return the CPU's roofline; measuring it takes seconds the first time.

        Args:
            deadline: the time limit of waiting for the device, in seconds of the monotonic clock.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if others measure on the device until the deadline.
        """
        key: dict[str, str | int] = {
            "device": self.name, "model": _model(), "llvm": jit.cpu_name(), "threads": self.threads,
            "vector": jit.vector_length(), "version": VERSION,
        }  # fmt: skip
        return remembered(self.cache_dir, key, lambda: _measure_roof(self._team, deadline))


def _model() -> str:
    with contextlib.suppress(OSError):  # only Linux says it there
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
