"""The processor as a target of loop nests."""

import math
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from llvmlite import ir

from aiocg.workers.loops.cpu import jit
from aiocg.workers.loops.cpu.driver import Step, write_driver
from aiocg.workers.loops.cpu.kernel import CpuKernel
from aiocg.workers.loops.cpu.loops import INDEX
from aiocg.workers.loops.cpu.peak import measure_roof
from aiocg.workers.loops.cpu.stages import Room, write_stage
from aiocg.workers.loops.cpu.team import Team
from aiocg.workers.loops.expression import Computation
from aiocg.workers.loops.nest import Nest
from aiocg.workers.loops.roofs import remembered
from aiocg.workers.loops.target import Roof

__all__ = ["CpuTarget", "processors"]


VERSION = 1  # of how roofs are measured


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))


class CpuTarget:
    """This machine's processor.

    Attributes:
        name: `cpu`.
        description: the model, how many threads are used, and how long vectors are.
        threads: how many share a parallel loop.
        cache_dir: where to keep what was measured; None for not at all.
    """

    name = "cpu"

    def __init__(self, threads: int | None = None, cache_dir: Path | None = None) -> None:
        """Use so many threads, by default one for each processor."""
        self.threads = threads or processors()
        self.cache_dir = cache_dir
        self.description = f"{_model()} ({jit.cpu_name()}), {self.threads} threads, {jit.vector_length()} float32"
        self._team = Team(self.threads)

    def compile(self, computation: Computation, nests: Sequence[Nest]) -> CpuKernel:
        """Compile a nest for each stage. Several threads may do so at once.

        Raises:
            CompilationError: with `FailureCode.ACTION` when there is no code for these nests, or too much.
        """
        module = ir.Module("nests")
        kind = ir.FunctionType(ir.VoidType(), [*[ir.PointerType()] * len(computation.tensors), INDEX, INDEX])
        steps, room = [], Room()
        for number, nest in enumerate(nests):
            function = jit.declare(module, f"stage{number}.{nest.stage.tensor}", kind)
            write_stage(function, nest, computation.tensors, room)
            parallel = bool(nest.loops) and nest.loops[0].kind == "parallel"
            steps.append(Step(function, nest.loops[0].extent if nest.loops else 1, parallel))
        write_driver(module, steps, len(computation.tensors))
        threads = self.threads if any(step.parallel for step in steps) else 1
        return CpuKernel(computation, jit.Code(module), self._team, threads)

    def roof(self, deadline: float = math.inf) -> Roof:
        """Return what the processor can do, which takes seconds when it was not measured before.

        Args:
            deadline: until when to wait for the device, in seconds of the monotonic clock.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` when others measure on the device until the deadline.
        """
        key: dict[str, str | int] = {
            "device": self.name, "model": _model(), "llvm": jit.cpu_name(), "threads": self.threads,
            "vector": jit.vector_length(), "version": VERSION,
        }  # fmt: skip
        return remembered(self.cache_dir, key, lambda: measure_roof(self._team, deadline))


def _model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
