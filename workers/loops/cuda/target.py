"""A GPU as a target of loop nests."""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops import device_lock
from aiocg.workers.loops.cuda.device import Device, open_device
from aiocg.workers.loops.cuda.source import Program, generate
from aiocg.workers.loops.cuda.templates import templates
from aiocg.workers.loops.cuda.timing import ROOF_VERSION, measure_roof, time_runs
from aiocg.workers.loops.device_lock import remembered
from aiocg.workers.loops.expression import Computation
from aiocg.workers.loops.layout import Layout
from aiocg.workers.loops.nest import Nest
from aiocg.workers.loops.rules import MOST_SHARED, RULES
from aiocg.workers.loops.schedule import Schedule
from aiocg.workers.loops.target import Arrays, Roof, Timing, check_arrays

OPTIONS = ("--std=c++17",)
KEPT_MODULES = 256


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
        program = generate(computation, nests, self.rules)
        if next(self._compiled) % KEPT_MODULES == 0:
            self._device.cupy.clear_memo()  # otherwise CuPy keeps all modules forever
        return _CudaKernel(self._device, computation, program)

    def templates(self, schedule: Schedule) -> tuple[tuple[Layout, ...], ...]:
        """Return layouts for each statement that are likely to be fast; see `cuda.templates`."""
        return templates(schedule, self.rules, self._device.multiprocessors)

    def roof(self, deadline: float = math.inf) -> Roof:
        """Return the device's roofline; measuring it takes seconds the first time.

        Args:
            deadline: the time limit of waiting for the device, in seconds of the monotonic clock.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if others measure on the device until the deadline.
        """
        key: dict[str, str | int] = {"target": self.name, "device": self.description, "measured by": ROOF_VERSION}
        return remembered(self._cache_dir, key, lambda: self._measure_roof(deadline))

    def _measure_roof(self, deadline: float) -> Roof:
        with device_lock.held(self._device.lock, deadline):
            return measure_roof(self._device)


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
            return time_runs(self._device, lambda: self._launch(memory), samples=samples, seconds=seconds)

    def _upload(self, arrays: Arrays) -> list[Any]:
        check_arrays(self._computation, arrays)
        return [self._device.cupy.asarray(array) for array in arrays]

    def _launch(self, memory: Sequence[Any]) -> None:
        for function, call in zip(self._functions, self._calls, strict=True):
            arguments = tuple(memory[at] for at in call.arguments)
            function(call.launch.grid, call.launch.block, arguments, shared_mem=call.shared)
