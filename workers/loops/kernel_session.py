"""The base class of sessions whose state is a schedule that is compiled, checked and measured."""

import abc
import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError, CompilationSession
from aiocg.workers.loops.kernels import Kernels
from aiocg.workers.loops.observations import COMPILED
from aiocg.workers.loops.schedule import Schedule
from aiocg.workers.loops.target import Roof, Timing
from aiocg.workers.loops.targets import open_target
from aiocg.workers.programs.parameters import POSITIVE, Number

MOST_SAMPLES = 10_000
MOST_SECONDS = 30.0  # no other process can measure meanwhile


_NUMBERS = {
    "samples": Number(f"a number from 1 to {MOST_SAMPLES:,}", 1, MOST_SAMPLES),
    "seconds": Number(f"a number above 0, at most {MOST_SECONDS:g}", POSITIVE, MOST_SECONDS, float),
    "patience": Number("a number above 0, at most inf", POSITIVE, math.inf, float),
}


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


def _exchange(parameters: _Parameters, key: str, value: str) -> tuple[_Parameters, str]:
    """Set or get a parameter; return the new parameters and the reply.

    Args:
        parameters: the current ones.
        key: `samples`, `seconds` or `patience`.
        value: the new value; "" to get the current one.

    Raises:
        CompilationError: with `FailureCode.PARAMETER` if the key is unknown or the value is invalid.
    """
    if key in _NUMBERS:
        if value:
            parameters = parameters._replace(**{key: _NUMBERS[key].read(key, value)})
        return parameters, f"{getattr(parameters, key):g}" if key != "samples" else str(parameters.samples)
    raise CompilationError(
        FailureCode.PARAMETER, f"unknown parameter {key!r}: there are {', '.join(_Parameters._fields)}"
    )


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
        before = self.parameters
        self.parameters, answer = _exchange(before, key, value)
        self.acted(self.parameters != before)
        return answer
