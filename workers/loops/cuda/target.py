"""A GPU as a target of loop nests, with layout templates derived from memory accesses.

There are four kinds. Where nothing is reduced, threads go along the axis by which elements are neighbours. Where
many results are sums of few, each thread of a block has several of them in registers, and reads tiles in shared memory.
Where few results are sums of many, threads share each sum. On tensor cores, each warp of a
block has several of their tiles.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import count, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops import _device_lock as device_lock
from aiocg.workers.loops._device_lock import remembered
from aiocg.workers.loops._expression import Computation
from aiocg.workers.loops._nest import Nest, Refusal
from aiocg.workers.loops._observations import accesses, stride
from aiocg.workers.loops._rules import MOST_SHARED, MOST_SHARED_TOGETHER, RULES, SHAPE, Rules, check, groups, shared
from aiocg.workers.loops._schedule import Layout, Place, Schedule, arranged
from aiocg.workers.loops._target import Arrays, Roof, Timing, check_arrays
from aiocg.workers.loops.cuda._device import Device, open_device
from aiocg.workers.loops.cuda._formulas import KernelCall, Lines, Names, launch, parameter
from aiocg.workers.loops.cuda._kernel import Kernel

MOST = 60  # templates of a statement
WARP = 32
STREAMS = tuple(product((256, 128, 512), (4, 1, 2, 8)))  # threads of a block, and elements of each
TRANSPOSED = ((32, 4), (32, 8), (16, 4), (64, 4), (32, 2))  # the edge of a tile, and elements of each thread
TILES = ((16, 16, 8, 8), (16, 16, 4, 4), (8, 16, 8, 4), (8, 8, 8, 8), (8, 8, 4, 4), (16, 16, 4, 8), (16, 16, 2, 2),
         (8, 32, 8, 4), (16, 16, 1, 1), (32, 32, 4, 4))  # threads along both axes, and elements of each  # fmt: skip
WARPS = ((2, 2, 4, 8), (2, 4, 4, 4), (2, 2, 2, 4), (4, 2, 2, 8), (2, 2, 4, 4), (4, 2, 4, 8), (1, 4, 4, 4), (2, 2, 2, 2),
         (1, 2, 1, 2))  # down and across, and tiles of tensor cores that each has  # fmt: skip
DEPTHS = (16, 8, 32)  # of a tile, in turns of the longest sum
ROWS = tuple(product((256, 128, 32, 512, 64, 1024), (1, 4)))  # threads that share a sum, and neighbours that each adds
COLUMNS = tuple(product((32, 64, 128), (1, 8, 16, 4, 32)))  # results side by side, and threads that share each sum


def templates(schedule: Schedule, rules: Rules, multiprocessors: int) -> tuple[tuple[Layout, ...], ...]:
    """Return layouts for each statement, the most promising first.

    Args:
        schedule: the initial schedule.
        rules: those of the device.
        multiprocessors: of the device.
    """
    shapes = {tensor.name: tensor.shape for tensor in schedule.computation.tensors}
    return tuple(
        tuple(dict.fromkeys(_legal(nest, _Templates(nest, shapes, multiprocessors, rules).all(), rules)))[:MOST]
        for nest in schedule.nests
    )


def _legal(nest: Nest, layouts: Iterator[Layout], rules: Rules) -> Iterator[Layout]:
    for layout in layouts:
        fitting = _fitted(layout, nest)
        try:
            check(arranged(nest, fitting), rules)
        except Refusal:
            continue
        yield fitting


def _fitted(layout: Layout, nest: Nest) -> Layout:
    """Return a layout in which no axis has more turns than elements; the innermost loops keep theirs."""
    left, places = dict(nest.extent), []
    for place in reversed(layout):
        if place.turns:
            place = place._replace(turns=min(place.turns, left[place.axis]))
            left[place.axis] //= place.turns
        places.append(place)
    return tuple(reversed(places))


class _Templates:
    """The templates of one statement, of which some may not be legal."""

    def __init__(self, nest: Nest, shapes: dict[str, tuple[int, ...]], multiprocessors: int, rules: Rules) -> None:
        self._nest = nest
        self._tensor_cores = "tensor" in rules.kinds
        self._multiprocessors = multiprocessors
        self._read = accesses(nest.stage)[1:]
        known = [(read, shapes[read.tensor]) for read in self._read]
        self._strides = {axis: [stride(nest, *one, axis) for one in known] for axis in nest.extent}
        long = [axis.name for axis in nest.stage.axes if axis.extent > 1]
        self._short = [Place(axis.name) for axis in nest.stage.axes if axis.extent == 1]
        self._spatial = [axis.name for axis in nest.stage.spatial if axis.name in long]
        self._reduction = [axis.name for axis in nest.stage.reduction if axis.name in long]

    def all(self) -> Iterator[Layout]:
        """Yield layouts, the most promising first."""
        if not self._reduction:
            yield from self._transposed()
            yield from self._streaming()
            return
        if self._tensor_cores and len(self._spatial) > 1:
            yield from self._for_tensor_cores()
        results = math.prod(self._nest.extent[axis] for axis in self._spatial)
        tiled = sorted(self._tiled(), key=self._cost) if len(self._spatial) > 1 else []
        rows, columns = list(self._rows()), list(self._columns())
        beside = any(self._beside(axis) for axis in self._reduction)
        if beside and results < WARP * WARP * self._multiprocessors:
            yield from (*rows, *tiled, *columns)
        else:
            yield from (*tiled, *columns, *rows)

    def _beside(self, axis: str) -> bool:
        """Return whether something is read that lies side by side along an axis."""
        return 1 in self._strides[axis]

    def _around(self, but: Sequence[str], kinds: Sequence[str]) -> tuple[list[Place], list[Place]]:
        """Return places of the other axes of the result: those that are bound to blocks, and those that are not."""
        left = [axis for axis in self._spatial if axis not in but]
        bound = [Place(axis, kind=kind) for axis, kind in zip(reversed(left), kinds, strict=False)]
        return bound, [Place(axis) for axis in left[: len(left) - len(bound)]] + self._short

    # ------------------------------------------------------------------------------------------- without sums

    def _streaming(self) -> Iterator[Layout]:
        """Yield layouts in which neighbouring threads have neighbouring results."""
        if not self._spatial:
            return
        last = self._spatial[-1]
        blocks, rest = self._around([last], ("block.y", "block.z"))
        for threads, each in STREAMS:
            places = [*blocks, Place(last, kind="block.x")]
            if blocks and threads >= 2 * self._nest.extent[last]:  # rows are short: a block has several
                places.append(Place(blocks[0].axis, threads // self._nest.extent[last], "thread.y"))
            places.append(Place(last, threads, "thread.x"))
            yield (*places, *rest, *([Place(last, each, "unroll")] if each > 1 else []))

    def _transposed(self) -> Iterator[Layout]:
        """Yield layouts in which a block copies a tile of what is read along another axis than it is written."""
        if len(self._spatial) < 2:
            return
        last = self._spatial[-1]
        turned = {
            read.tensor: axis
            for read, *along in zip(self._read, *(self._strides[axis] for axis in self._spatial), strict=True)
            for axis, step in zip(self._spatial, along, strict=True)
            if step == 1 and axis != last and along[-1]  # it lies across what is written, and differs along that
        }
        for other in dict.fromkeys(turned.values()):
            staged = tuple(tensor for tensor, axis in turned.items() if axis == other)
            blocks, rest = self._around([last, other], ("block.z",))
            for edge, each in TRANSPOSED:
                yield (
                    *blocks, Place(other, kind="block.y"), Place(last, kind="block.x"),
                    Place(other, edge // each, "thread.y"), Place(last, edge, "thread.x"), *rest,
                    Place(other, 1, staged=staged), Place(other, each, "unroll"),
                )  # fmt: skip

    # ------------------------------------------------------------------------------------------- with sums

    def _tiled(self) -> Iterator[Layout]:
        """Yield layouts in which a thread has several results along two axes, and tiles are in shared memory."""
        last, other = self._edges()
        longest = max(self._reduction, key=self._nest.extent.__getitem__)
        sums = [axis for axis in self._reduction if axis != longest]
        blocks, rest = self._around([last, other], ("block.z",))
        tensors = tuple(dict.fromkeys(read.tensor for read in self._read))
        for (down, across, high, wide), depth, kind in product(TILES, DEPTHS, ("pipeline", "serial", "")):
            steps = [Place(longest, kind=kind, staged=tensors if kind else ())]
            if 1 < depth < self._nest.extent[longest]:
                steps.append(Place(longest, depth, "unroll"))
            elif kind:
                steps = [Place(longest, 1, kind, tensors), Place(longest)]
            steps[1:1] = [Place(axis) for axis in sums]
            yield (
                *blocks, Place(other, kind="block.y"), Place(last, kind="block.x"),
                Place(other, down, "thread.y"), Place(last, across, "thread.x"), *rest, *steps,
                *(Place(axis, count, "unroll") for axis, count in ((other, high), (last, wide)) if count > 1),
            )  # fmt: skip

    def _for_tensor_cores(self) -> Iterator[Layout]:
        """Yield layouts in which a warp has several tiles of tensor cores, whose operands are in shared memory."""
        last, other = self._edges()
        longest = max(self._reduction, key=self._nest.extent.__getitem__)
        sums = [Place(axis) for axis in self._reduction if axis != longest]
        blocks, rest = self._around([last, other], ("block.z",))
        tensors = tuple(dict.fromkeys(read.tensor for read in self._read))
        rows, columns, terms = SHAPE
        for (rows_axis, columns_axis), (down, across, high, wide), depth in product(
            ((other, last), (last, other)), WARPS, (32, 16, 64, 8)
        ):
            yield (
                *blocks, Place(rows_axis, kind="block.y"), Place(columns_axis, kind="block.x"),
                Place(rows_axis, down, "thread.y"), Place(columns_axis, across, "thread.z"), *rest,
                Place(longest, kind="pipeline", staged=tensors), *sums,
                *([Place(longest, depth // terms, "unroll")] if depth > terms else []),
                Place(rows_axis, high, "unroll"), Place(columns_axis, wide, "unroll"),
                Place(rows_axis, rows, "tensorize"), Place(columns_axis, columns, "tensorize"),
                Place(longest, terms, "tensorize"),
            )  # fmt: skip

    def _edges(self) -> tuple[str, str]:
        """Return the two axes of the result along which a block has a tile: the last one, and another."""
        last, *others = reversed(self._spatial)
        return last, max(others, key=lambda axis: (self._saved(axis, last), self._nest.extent[axis]))

    def _saved(self, axis: str, last: str) -> int:
        """Return how many reads are the same along one of two axes and differ along the other."""
        return sum((one == 0) != (two == 0) for one, two in zip(self._strides[axis], self._strides[last], strict=True))

    def _cost(self, layout: Layout) -> float:
        """Return a sort key: what threads read for a multiply-add, times how little of the device they fill."""
        results = [place.turns for place in layout if place.kind == "unroll" and place.axis in self._spatial]
        threads = math.prod(place.turns for place in layout if place.kind in ("thread.x", "thread.y"))
        tile = threads * math.prod(results)
        blocks = math.prod(self._nest.extent[axis] for axis in self._spatial) / tile
        filled = min(1.0, blocks * threads / (8 * WARP * self._multiprocessors))
        staged = 1 if any(place.staged for place in layout) else 3
        waiting = 1.0 if any(place.kind == "pipeline" for place in layout) else 1.1
        return staged * waiting * (1 + sum(1 / count for count in results or [1])) / filled

    def _rows(self) -> Iterator[Layout]:
        """Yield layouts in which the threads of a row share a sum."""
        axes = sorted(self._reduction, key=lambda axis: (not self._beside(axis), -self._nest.extent[axis]))
        shared, sums = axes[0], [Place(axis) for axis in self._reduction if axis != axes[0]]
        blocks, rest = self._around([], ("block.x", "block.y", "block.z"))
        for threads, each in ROWS:
            if threads > WARP and threads * each >= 2 * self._nest.extent[shared]:
                continue
            rows = [Place(blocks[0].axis, 256 // threads, "thread.y")] if blocks and threads < 256 else []
            unrolled = [Place(shared, each, "unroll")] if each > 1 else []
            yield (*blocks, *rows, Place(shared, threads, "thread.x"), *rest, *sums, Place(shared), *unrolled)

    def _columns(self) -> Iterator[Layout]:
        """Yield layouts in which neighbouring threads have neighbouring results, and others share the sums."""
        if not self._spatial:
            return
        last = self._spatial[-1]
        longest = max(self._reduction, key=self._nest.extent.__getitem__)
        sums = [Place(axis) for axis in self._reduction]
        blocks, rest = self._around([last], ("block.y", "block.z"))
        for wide, sharing in COLUMNS:
            shared = [Place(longest, sharing, "thread.y")] if sharing > 1 else []
            yield (*blocks, Place(last, kind="block.x"), *shared, Place(last, wide, "thread.x"), *rest, *sums)


OPTIONS = ("--std=c++17",)
KEPT_MODULES = 256


# ----------------------------------------------------------- Measuring a GPU: the run time of kernels, and the roofline

MOST_RUNS = 1024  # in a graph
RESOLUTION = 5e-7  # seconds, of the device's clock
ENOUGH = 0.5  # fraction of one sample's time; a warm-up of this length shows how many runs fit


def _time_runs(device: Device, run: Callable[[], None], *, samples: int, seconds: float) -> Timing:
    """Warm up, then time, inside `Device.use`.

    A run that takes longer than the time for all samples is the only sample: on a single thread it takes seconds.

    Args:
        device: the device.
        run: launches only what is timed; its kernels must be compiled.
        samples: the number of samples, at least 1.
        seconds: the approximate total time.
    """
    span = seconds / samples
    runs = 1
    while True:
        graph = _record(device, run, runs)
        taken = _elapsed(device, graph, 1)
        if runs == 1 and taken >= seconds:
            return Timing(taken, taken, taken, 1, 1)
        if taken >= ENOUGH * span or runs == MOST_RUNS:
            break
        runs = max(runs + 1, min(int(runs * span / taken), 16 * runs, MOST_RUNS))
    launches = max(1, int(span / taken))
    if launches > 1:
        _elapsed(device, graph, launches)
    times = [_elapsed(device, graph, launches) / (launches * runs) for _ in range(samples)]
    low, median, high = (float(value) for value in np.percentile(times, (25, 50, 75)))
    return Timing(median, low, high, samples, launches * runs)


def _record(device: Device, run: Callable[[], None], runs: int) -> Any:
    device.stream.begin_capture()
    try:
        for _ in range(runs):
            run()
    finally:
        graph = device.stream.end_capture()
    graph.upload(device.stream)
    return graph


def _elapsed(device: Device, graph: Any, launches: int) -> float:
    """Return the seconds that the device takes to run a graph so many times."""
    cuda, stream = device.cupy.cuda, device.stream
    start, end = cuda.Event(), cuda.Event()
    start.record(stream)
    for _ in range(launches):
        graph.launch(stream)
    end.record(stream)
    end.synchronize()
    milliseconds: float = cuda.get_elapsed_time(start, end)
    return max(milliseconds / 1000, RESOLUTION)


ROOF_VERSION = 1  # of the measurement

THREADS = 256  # per block
CHAINS = 8  # concurrent chains of multiply-adds in a thread
TURNS = 4096  # iterations of each chain
BLOCKS = 32  # per multiprocessor, which has room for 8
SMALLEST, LARGEST = 1 << 13, 1 << 30  # bytes read and written
SAMPLES, SECONDS = 5, 0.05

SOURCE = f"#define THREADS {THREADS}\n#define CHAINS {CHAINS}\n#define TURNS {TURNS}\n" + (
    Path(__file__).with_name("roof.cu").read_text(encoding="utf-8")
)


def _measure_roof(device: Device, deadline: float) -> Roof:
    """Return a device's roofline, measured while no other process measures on it.

    Raises:
        MemoryError, CompilationError: as `Device.use`.
    """
    with device_lock.held(device.lock, deadline), device.use():
        module = device.cupy.RawModule(code=SOURCE, options=("--std=c++17",))
        largest = min(LARGEST, device.free_memory() // 4)
        sizes = [1 << power for power in range(SMALLEST.bit_length() - 1, largest.bit_length())]
        bandwidths = tuple((size, _bandwidth(device, module, size)) for size in sizes)
        return Roof(_flops(device, module), bandwidths)


def _bandwidth(device: Device, module: Any, size: int) -> float:
    copy, count = module.get_function("copy"), size // 8
    source, to = device.cupy.zeros(count, np.float32), device.cupy.empty(count, np.float32)

    def run() -> None:
        copy((count // (4 * THREADS),), (THREADS,), (source, to))

    return size / _seconds(device, run)


def _flops(device: Device, module: Any) -> float:
    multiply_add, blocks = module.get_function("multiply_add"), BLOCKS * device.multiprocessors
    result = device.cupy.empty(blocks * THREADS, np.float32)

    def run() -> None:
        multiply_add((blocks,), (THREADS,), (np.float32(0.5), np.float32(1), result))

    return 2 * CHAINS * TURNS * blocks * THREADS / _seconds(device, run)


def _seconds(device: Device, run: Any) -> float:
    return _time_runs(device, run, samples=SAMPLES, seconds=SECONDS).seconds


# --------------------------------------------- CUDA C of nests: a kernel for each stage, or for several that are joined

PREAMBLE, LATER, MULTIPLY = (
    Path(__file__).with_name(f"{name}.cu").read_text(encoding="utf-8")
    for name in ("preamble", "copy_later", "multiply")
)


class Program(NamedTuple):
    """The kernels of a computation and their launches.

    Attributes:
        source: CUDA C of all kernels, with the launches as comments.
        calls: one for each stage or group of joined ones, in order.
    """

    source: str
    calls: tuple[KernelCall, ...]


def _generate(computation: Computation, nests: Sequence[Nest], rules: Rules = RULES["cuda"]) -> Program:
    """Generate the kernels of a computation.

    Args:
        computation: what is computed.
        nests: the loops of each stage.
        rules: those of the device.

    Raises:
        CompilationError: with `FailureCode.ACTION` and a sentence that says why when the device cannot carry it out.
    """
    pipelined = any(loop.kind == "pipelined" for nest in nests for loop in nest.loops)
    tensor = any(loop.kind == "tensor" for nest in nests for loop in nest.loops)
    texts, calls = [PREAMBLE, *([LATER] if pipelined else []), *([MULTIPLY] if tensor else [])], []
    names = (f"stage_{number}" for number in count())
    for group in groups(nests):
        most = rules.shared_memory if len(group) == 1 else MOST_SHARED_TOGETHER
        spare = (most - sum(map(shared, group))) // len(group)
        parts = [_kernel(computation, nest, next(names), shared(nest) + spare, rules) for nest in group]
        if len(group) == 1:
            texts.append(parts[0].text())
            calls.append(parts[0].call)
        else:
            written = [nest.stage.tensor for nest in group]
            text, call = _together(computation, [part.call for part in parts], written)
            texts += [*(part.text(written) for part in parts), text]
            calls.append(call)
    return Program("\n".join(texts), tuple(calls))


def _kernel(computation: Computation, nest: Nest, name: str, shared_memory: int, rules: Rules) -> Kernel:
    read = dict.fromkeys(one.tensor for one in nest.stage.reads())
    tensors = [computation.by_name[name] for name in (*read, nest.stage.tensor)]
    call = KernelCall(name, launch(nest, rules), tuple(map(computation.tensors.index, tensors)))
    return Kernel(nest, call, tensors, shared_memory)


def _together(computation: Computation, parts: Sequence[KernelCall], written: Sequence[str]) -> tuple[str, KernelCall]:
    """Return the kernel of joined stages: each block carries out a turn of one after the same turn of the other."""
    arguments = tuple(dict.fromkeys(at for part in parts for at in part.arguments))
    function = f"{parts[0].function}_to_{parts[-1].function.removeprefix('stage_')}"
    call = KernelCall(function, parts[0].launch, arguments)
    tensors, names, lines = [computation.tensors[at].name for at in arguments], Names(), Lines()
    for part in parts:
        names.take(part.function)
    named = {at: names.take(tensor) for at, tensor in zip(arguments, tensors, strict=True)}
    changing = {at for at in arguments if computation.tensors[at].name in written}  # one thread reads what others wrote
    parameters = (parameter(named[at], written=at in changing, alone=at not in changing) for at in arguments)
    lines.add(call.comment(tensors))
    bounds = f"__launch_bounds__({call.launch.threads})"
    with lines.braces(f'extern "C" __global__ void {bounds} {function}({", ".join(parameters)})'):
        for number, part in enumerate(parts):
            if number:
                lines.add("__syncthreads();")
            lines.add(f"{part.function}({', '.join(named[at] for at in part.arguments)});")
    return lines.text, call


# -------------------------------------------------------------------------------------- A GPU as a target of loop nests


class CudaTarget:
    """The first GPU that this process sees.

    Args:
        cache_dir: stores measurements; None to store none.
        tensor_cores: whether loops may be carried out by tensor cores, which round what they multiply to TF32.

    Attributes:
        name: `cuda`.
        description: the model, and the versions of driver and NVRTC.
        rules: those for GPUs, with the shared memory that this one has.

    Raises:
        CompilationError: with `FailureCode.UNSUPPORTED`, listing everything that this machine lacks.
    """

    name = "cuda"

    def __init__(self, cache_dir: Path | None = None, *, tensor_cores: bool = False) -> None:
        self._device = open_device()
        if tensor_cores and not self._device.has_tensor_cores:
            reason = f"{self._device.description}: it has no tensor cores for tf32, which need compute capability 8.0"
            raise CompilationError(FailureCode.UNSUPPORTED, reason)
        self._cache_dir = cache_dir
        self._compiled = itertools.count(1)
        self.description = self._device.description
        shared_memory = min(MOST_SHARED, self._device.shared_memory)
        kinds = RULES["cuda"].kinds - (frozenset() if tensor_cores else {"tensor"})
        self.rules = RULES["cuda"]._replace(shared_memory=shared_memory, kinds=kinds)

    def compile(self, computation: Computation, nests: Sequence[Nest]) -> "_CudaKernel":
        """Compile a nest for each stage. Several threads may do so at once.

        Raises:
            CompilationError: with `FailureCode.ACTION` if the device cannot run these nests.
        """
        program = _generate(computation, nests, self.rules)
        if next(self._compiled) % KEPT_MODULES == 0:
            self._device.cupy.clear_memo()  # otherwise CuPy keeps all modules forever
        return _CudaKernel(self._device, computation, program)

    def templates(self, schedule: Schedule) -> tuple[tuple[Layout, ...], ...]:
        """Return layouts for each statement that are likely to be fast; see `templates`."""
        return templates(schedule, self.rules, self._device.multiprocessors)

    def roof(self, deadline: float = math.inf) -> Roof:
        """Return the device's roofline; measuring it takes seconds the first time.

        Args:
            deadline: the time limit of waiting for the device, in seconds of the monotonic clock.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if others measure on the device until the deadline.
        """
        key: dict[str, str | int] = {"target": self.name, "device": self.description, "measured by": ROOF_VERSION}
        return remembered(self._cache_dir, key, lambda: _measure_roof(self._device, deadline))


class _CudaKernel:
    """A computation compiled for a GPU.

    Attributes:
        source: the CUDA C that was compiled, with the launches as comments.
    """

    def __init__(self, device: Device, computation: Computation, program: Program) -> None:
        self.source = program.source
        self._device = device
        self._computation = computation
        self._calls = program.calls
        module = device.cupy.RawModule(code=program.source, options=OPTIONS)
        try:
            with device.use():
                self._functions = [module.get_function(call.function) for call in program.calls]
                for function, call in zip(self._functions, program.calls, strict=True):
                    function.compile()
                    if call.shared:
                        function.max_dynamic_shared_size_bytes = call.shared
        except device.cupy.cuda.compiler.CompileException as error:
            raise CompilationError(FailureCode.ACTION, f"NVRTC refuses the kernel: {error}") from None
        except MemoryError as error:
            raise CompilationError(FailureCode.OBSERVATION, f"the device has no room for the kernel: {error}") from None

    def run(self, arrays: Arrays) -> None:
        """Run all stages once, in place: inputs are read, all other arrays are written entirely.

        Raises:
            MemoryError: if the device has too little memory.
            CompilationError: with `FailureCode.OBSERVATION` if it refuses to run them.
        """
        with self._device.use():
            memory = self._upload(arrays)
            self._launch(memory)
            for array, result in list(zip(arrays, memory, strict=True))[len(self._computation.inputs) :]:
                result.get(out=array)
            self._device.stream.synchronize()

    def time(self, arrays: Arrays, *, samples: int, seconds: float, deadline: float = math.inf) -> Timing:
        """Warm up, then time; nothing else that this library measures runs on the device meanwhile.

        Args:
            arrays: as for `run`; they do not change.
            samples: the number of samples, at least 1.
            seconds: the approximate total time; each sample averages as many runs as fit.
            deadline: the time limit of waiting for the device, in seconds of the monotonic clock.

        Raises:
            MemoryError: if the device has too little memory.
            CompilationError: with `FailureCode.OBSERVATION` if it refuses, or others measure until the deadline.
        """
        with device_lock.held(self._device.lock, deadline), self._device.use():
            memory = self._upload(arrays)
            return _time_runs(self._device, lambda: self._launch(memory), samples=samples, seconds=seconds)

    def _upload(self, arrays: Arrays) -> list[Any]:
        check_arrays(self._computation, arrays)
        return [self._device.cupy.asarray(array) for array in arrays]

    def _launch(self, memory: Sequence[Any]) -> None:
        for function, call in zip(self._functions, self._calls, strict=True):
            arguments = tuple(memory[at] for at in call.arguments)
            function(call.launch.grid, call.launch.block, arguments, shared_mem=call.shared)
