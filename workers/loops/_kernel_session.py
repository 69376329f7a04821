"""The base class of sessions whose state is a schedule that is compiled, checked and measured."""

import abc
import contextlib
import copy
import math
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from aiocg.transport.messages import FailureCode
from aiocg.transport.system import processors
from aiocg.workers.compilation import CompilationError, CompilationSession
from aiocg.workers.loops._expression import Computation
from aiocg.workers.loops._observations import COMPILED
from aiocg.workers.loops._reference import Expected, compare, expect, random_inputs
from aiocg.workers.loops._schedule import Schedule
from aiocg.workers.loops._target import Kernel, Roof, Target, Timing
from aiocg.workers.loops._targets import open_target
from aiocg.workers.programs.parameters import POSITIVE, Number

MOST_SAMPLES = 10_000
MOST_SECONDS = 30.0  # no other process can measure meanwhile


_NUMBERS = {
    "samples": Number(f"a number from 1 to {MOST_SAMPLES:,}", 1, MOST_SAMPLES),
    "seconds": Number(f"a number above 0, at most {MOST_SECONDS:g}", POSITIVE, MOST_SECONDS, float),
    "patience": Number("a number above 0, at most inf", POSITIVE, math.inf, float),
}


# -------------------- Kernels of one device: compiled and compared with NumPy once for each schedule, and then measured

KEPT_KERNELS = 256
KEPT_WORKLOADS = 256
LONG = 10  # times the seconds of a measurement: what takes longer is run once the first time
KEPT_BYTES = 1 << 30  # of arrays of all computations; the latest one's are always kept


class _Workload:
    """The arrays that kernels of a computation work on, and the expected results.

    Attributes:
        computation: what is computed.
        arrays: `float32`, one for each of its tensors; the inputs are random, and always the same.
        fastest: seconds that the fastest kernel takes of those measured.

    Raises:
        CompilationError: with `FailureCode.OBSERVATION` if `float32` overflows so that nothing of a result is known.
        MemoryError: if memory runs out.
    """

    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        self.fastest = math.inf
        self._results = [np.empty(stage.result.shape, np.float32) for stage in computation.stages]
        self.arrays = (*random_inputs(computation), *self._results)
        self._expected: dict[frozenset[str], list[Expected]] = {}
        for stage, (_, tolerance) in zip(computation.stages, self._expect(frozenset()), strict=True):
            if tolerance is not None and np.isinf(tolerance).all():
                raise _failure(
                    "overflow",
                    f"{stage.tensor} overflows float32 for inputs from -1 to 1, and then depends on the order of "
                    "operations, so that no kernel can be checked: scale the expression down",
                )

    def check(self, kernel: Kernel, rounded: frozenset[str]) -> tuple[str, float]:
        """Run a kernel once.

        Args:
            kernel: the kernel.
            rounded: the tensors that tensor cores compute.

        Returns:
            What is wrong or unwritten in its results, "" if nothing is; and the seconds that the run took.
        """
        self.forget()
        before = time.perf_counter()
        kernel.run(self.arrays)
        taken = time.perf_counter() - before
        return self.problem(rounded), taken

    def forget(self) -> None:
        """Overwrite the results."""
        for array in self._results:
            array.fill(np.nan)

    def problem(self, rounded: frozenset[str]) -> str:
        """Describe what is wrong or unwritten in the results; "" if nothing is."""
        return str(compare(self.computation, self._results, self._expect(rounded)) or "")

    def _expect(self, rounded: frozenset[str]) -> list[Expected]:
        if rounded not in self._expected:
            self._expected[rounded] = expect(self.computation, self.arrays[: len(self.computation.inputs)], rounded)
        return self._expected[rounded]


@dataclass
class _Entry:
    """What is known about a schedule.

    Attributes:
        kernel: the kernel, None if it cannot be compiled.
        refusal: the reason.
        checked: whether it was compared with NumPy.
        wrong: the difference found.
    """

    kernel: Kernel | None
    refusal: str = ""
    checked: bool = False
    wrong: str = ""


class Kernels:
    """The most recently used kernels of a device.

    Args:
        target: the device.

    Attributes:
        target: the device.
        compiles, checks, measurements, hits: the number of each; a hit is a kernel found in the cache.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.compiles = self.checks = self.measurements = self.hits = 0
        self._roof: Roof | None = None
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._workloads: OrderedDict[Computation, _Workload] = OrderedDict()

    def roof(self, deadline: float = math.inf) -> Roof:
        """Return the device's roofline; measuring it takes seconds the first time.

        Args:
            deadline: the time limit of waiting for others that measure, in seconds of the monotonic clock.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if others measured until the deadline.
        """
        if self._roof is None:
            self._roof = self.target.roof(deadline)
        return self._roof

    def prepare(self, schedules: Iterable[Schedule]) -> None:
        """Compile missing kernels in parallel. Failures are raised when the kernel is used."""
        missing = {one.digest: one for one in schedules if one.digest not in self._entries}
        if len(missing) > 1:
            compiling: dict[str, Future[_Entry]] = {}
            with contextlib.suppress(RuntimeError):  # the system refuses another thread
                for digest, schedule in missing.items():
                    compiling[digest] = self._pool.submit(self._compiled, schedule)
            for digest, future in compiling.items():
                if future.exception() is None:
                    self._keep(digest, future.result())

    def kernel(self, schedule: Schedule) -> Kernel:
        """Return the kernel of a schedule.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if the device cannot run these loops, or memory is short.
        """
        try:
            entry = self._entry(schedule)
        except MemoryError:
            raise _failure("memory", "there is no room to compile these loops") from None
        if entry.kernel is None:
            raise _failure("compilation", entry.refusal)
        return entry.kernel

    def measure(
        self, schedule: Schedule, samples: int, seconds: float, deadline: float = math.inf, patience: float = math.inf
    ) -> Timing:
        """Measure the kernel of a schedule; the first time, compare its results with NumPy's.

        It is compared before it is timed and, on a CPU, after that: what counts are runs that did all of the work.

        Args:
            schedule: the schedule.
            samples: the number of samples, at least 1; fewer are taken if one run takes longer than its share.
            seconds: the approximate total time.
            deadline: the time limit of waiting for others that measure, in seconds of the monotonic clock.
            patience: a kernel whose first run takes longer than `seconds`, and so many times as long as the fastest
                kernel of the computation, is not run again; neither is one that takes `LONG` times `seconds`.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if there is no kernel, it would leave a long computation to
                one thread of a device, its results are wrong, or memory is short, with a `reason` in its fields; or if
                others measured until the deadline.
        """
        if stage := schedule.left_alone:
            raise _failure("one thread", f"one thread of the device would compute {stage}: bind a loop of it before")
        kernel = self.kernel(schedule)
        entry = self._entries[schedule.digest]
        try:
            workload = self._workload(schedule.computation)
            first, unknown = 0.0, not entry.checked
            if unknown:
                self.checks += 1
                entry.wrong, first = workload.check(kernel, schedule.on_tensor_cores)
                entry.checked = True
            if entry.wrong:
                raise _failure("wrong result", f"the kernel computes something else: {entry.wrong}")
            self.measurements += 1
            alone = self.target.name == "cpu"  # on a device the first run also copies the tensors there
            if alone and first > max(seconds, min(LONG * seconds, patience * workload.fastest)):
                return Timing(first, first, first, samples=1, runs=1)
            if unknown and alone:
                workload.forget()
            timing = kernel.time(workload.arrays, samples=samples, seconds=seconds, deadline=deadline)
            if unknown and alone and (wrong := workload.problem(schedule.on_tensor_cores)):
                entry.wrong = wrong
                raise _failure("wrong result", f"the kernel computes something else when it is timed: {wrong}")
            workload.fastest = min(workload.fastest, timing.seconds)
            return timing
        except MemoryError:
            self._workloads.clear()
            message = f"there is no room for tensors of {schedule.computation.footprint:,} bytes, and to check them"
            raise _failure("memory", message) from None

    def statistics(self) -> dict[str, int]:
        """Return the counters."""
        return {
            "kernels_compiled": self.compiles,
            "kernels_checked": self.checks,
            "kernels_measured": self.measurements,
            "kernels_kept": len(self._entries),
            "kernel_hits": self.hits,
        }

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(max_workers=max(2, len(processors())), thread_name_prefix="compile")

    def _entry(self, schedule: Schedule) -> _Entry:
        entry = self._entries.get(schedule.digest)
        if entry is None:
            entry = self._compiled(schedule)
            self._keep(schedule.digest, entry)
        else:
            self.hits += 1
            self._entries.move_to_end(schedule.digest)
        return entry

    def _compiled(self, schedule: Schedule) -> _Entry:
        try:
            return _Entry(self.target.compile(schedule.computation, schedule.nests))
        except CompilationError as error:
            return _Entry(None, refusal=error.message)

    def _keep(self, digest: str, entry: _Entry) -> None:
        self.compiles += 1
        self._entries[digest] = entry
        while len(self._entries) > KEPT_KERNELS:
            self._entries.popitem(last=False)

    def _workload(self, computation: Computation) -> _Workload:
        found = self._workloads.pop(computation, None) or _Workload(computation)
        self._workloads[computation] = found
        while len(self._workloads) > 1 and self._workloads_are_many():
            self._workloads.popitem(last=False)
        return found

    def _workloads_are_many(self) -> bool:
        return len(self._workloads) > KEPT_WORKLOADS or sum(one.footprint for one in self._workloads) > KEPT_BYTES


def _failure(reason: str, message: str) -> CompilationError:
    return CompilationError(FailureCode.OBSERVATION, message, reason=reason)


# -------------------------- The base class of sessions whose state is a schedule that is compiled, checked and measured


class _Parameters(NamedTuple):
    """How to measure a kernel.

    Attributes:
        samples: the number of samples, of which the median is the result.
        seconds: their approximate total time; each averages as many runs as fit.
        patience: a kernel whose first run takes longer than that, and so many times as long as the fastest kernel of
            the computation, is not run again.
    """

    samples: int = 7
    seconds: float = 0.1
    patience: float = math.inf


GRACE = 1.0  # seconds before the worker is killed, to report that others kept the device busy


@dataclass
class _Measurement:
    """The last measurement of a schedule, shared by forks.

    Attributes:
        timing: its result, None before the first one.
    """

    timing: Timing | None = None


class KernelSession(CompilationSession):
    """A session whose state is a schedule.

    One measurement serves all observations of a state; requesting the same observation again measures again. So speed
    and spread come from the same runs, and an action without effect costs no measurement.
    """

    lookahead = 8
    options: ClassVar[Mapping[str, Any]] = {}
    _devices: ClassVar[dict[str, Kernels]] = {}

    @classmethod
    def device(cls, target: str) -> Kernels:
        """Return the kernels of a device, opening it on first use.

        Args:
            target: `cpu` or `cuda`.

        Raises:
            CompilationError: with `FailureCode.UNSUPPORTED`, naming what is missing.
        """
        if target not in cls._devices:
            cls._devices[target] = Kernels(open_target(target, cls.options))
        return cls._devices[target]

    @classmethod
    def anticipate(cls, sessions: Sequence[Self], names: Sequence[str]) -> None:
        """Compile the schedules to be observed, in parallel; measuring is sequential."""
        if COMPILED.isdisjoint(names):
            return
        for kernels in {id(session.kernels): session.kernels for session in sessions}.values():
            kernels.prepare(session.schedule for session in sessions if session.kernels is kernels)

    @classmethod
    def statistics(cls) -> dict[str, Any]:
        """Return the numbers of kernels compiled, checked and measured, over all devices."""
        total: dict[str, int] = {}
        for kernels in cls._devices.values():
            for name, count in kernels.statistics().items():
                total[name] = total.get(name, 0) + count
        return total

    def __init__(self, target: str) -> None:
        self.kernels = self.device(target)
        self.parameters = _Parameters()
        self._measurement = _Measurement()
        self._told: frozenset[str] = frozenset()  # the observations that the measurement has served

    @property
    @abc.abstractmethod
    def schedule(self) -> Schedule:
        """The current schedule."""

    @property
    def roof(self) -> Roof:
        """The device's roofline."""
        return self.kernels.roof(self.deadline - GRACE)

    def source(self) -> str:
        """Return the input of the device's compiler, or its output.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if the device cannot run these loops.
        """
        return self.kernels.kernel(self.schedule).source

    def timing(self, name: str) -> Timing:
        """Return the kernel's timing.

        Args:
            name: the observation that needs it; requesting the same one again measures again.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION`, as `Kernels.measure`.
        """
        if self._measurement.timing is None or name in self._told:
            samples, seconds, patience = self.parameters
            deadline = self.deadline - GRACE - 2 * seconds
            self._measurement.timing = self.kernels.measure(self.schedule, samples, seconds, deadline, patience)
            self._told = frozenset()
        self._told |= {name}
        return self._measurement.timing

    def acted(self, changed: bool) -> None:
        """Record an action, and whether it changed the schedule."""
        self._told = frozenset()
        if changed:
            self._measurement = _Measurement()

    def fork(self) -> Self:
        """Return a session at the same state."""
        child = copy.copy(self)
        child._told = frozenset()
        return child

    def set_parameter(self, key: str, value: str) -> str:
        """Set or get how to measure (see `parameters`), or get the `device`.

        Raises:
            CompilationError: with `FailureCode.PARAMETER` if the key is unknown or the value is invalid.
        """
        if key == "device":
            if value:
                raise CompilationError(FailureCode.PARAMETER, "device can only be asked for, by ''")
            return self.kernels.target.description
        if key not in _NUMBERS:
            known = ", ".join(_Parameters._fields)
            raise CompilationError(FailureCode.PARAMETER, f"unknown parameter {key!r}: there are {known}")
        before = self.parameters
        if value:
            self.parameters = before._replace(**{key: _NUMBERS[key].read(key, value)})
        self.acted(self.parameters != before)
        return f"{getattr(self.parameters, key):g}" if key != "samples" else str(self.parameters.samples)
