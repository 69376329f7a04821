"""Measuring the CPU's roofline: the rates of a compute-only kernel and of copy kernels."""

import math
from pathlib import Path

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from aiocg.workers.loops.cpu import jit
from aiocg.workers.loops.cpu._driver import Step, write_driver
from aiocg.workers.loops.cpu._functions import FLOAT, call, splat
from aiocg.workers.loops.cpu._loops import INDEX, Loops
from aiocg.workers.loops.cpu._stages import Room, write_stage
from aiocg.workers.loops.cpu.kernel import CpuKernel, Team
from aiocg.workers.loops.expression import Affine, Axis, Computation, Read, Stage, Tensor
from aiocg.workers.loops.nest import Loop, Nest, Split
from aiocg.workers.loops.target import Roof

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


def measure_roof(team: Team, deadline: float = math.inf) -> Roof:
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
