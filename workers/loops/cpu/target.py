"""The CPU as a target of loop nests."""

import contextlib
import math
import platform
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from llvmlite import ir

from aiocg.transport import system
from aiocg.workers.loops.cpu import jit
from aiocg.workers.loops.cpu._driver import Step, write_driver
from aiocg.workers.loops.cpu._loops import INDEX
from aiocg.workers.loops.cpu._stages import Room, write_stage
from aiocg.workers.loops.cpu.kernel import CpuKernel, Team
from aiocg.workers.loops.cpu.peak import measure_roof
from aiocg.workers.loops.cpu.templates import Machine, templates
from aiocg.workers.loops.device_lock import remembered
from aiocg.workers.loops.expression import Computation
from aiocg.workers.loops.joins import groups
from aiocg.workers.loops.layout import Layout
from aiocg.workers.loops.nest import Nest
from aiocg.workers.loops.rules import RULES
from aiocg.workers.loops.schedule import Schedule
from aiocg.workers.loops.target import Roof

VERSION = 1  # of the roofline measurement


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
        """Return layouts for each statement that are likely to be fast; see `cpu.templates`."""
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
        return remembered(self.cache_dir, key, lambda: measure_roof(self._team, deadline))


def _model() -> str:
    with contextlib.suppress(OSError):  # only Linux says it there
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
