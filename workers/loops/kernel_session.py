"""What environments have in common whose state is a schedule that is compiled, checked and measured."""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError, CompilationSession
from aiocg.workers.loops.kernels import Kernels
from aiocg.workers.loops.observations import Observation
from aiocg.workers.loops.parameters import Parameters, exchange
from aiocg.workers.loops.schedule import Schedule
from aiocg.workers.loops.target import Roof, Timing
from aiocg.workers.loops.targets import open_target

__all__ = ["KernelSession"]

GRACE = 1.0  # seconds before the worker is killed, to say that others have kept the device busy


@dataclass
class _Measurement:
    """The last measurement of a schedule, which sessions share that have it from each other.

    Attributes:
        timing: what it came to, None before the first one.
    """

    timing: Timing | None = None


class KernelSession(CompilationSession):
    """A session whose state says how a computation is carried out.

    A measurement counts for everything that is observed of a state; what is asked for once more is measured once more.
    So speed and its spread are of the same runs, and an action without effect costs no measurement.
    """

    lookahead = 8
    options: ClassVar[Mapping[str, Any]] = {}
    observations: ClassVar[Mapping[str, Observation]] = {}  # by name
    _devices: ClassVar[dict[str, Kernels]] = {}

    @classmethod
    def device(cls, target: str) -> Kernels:
        """Return the kernels of a device, which is opened when it is first asked for.

        Args:
            target: `cpu` or `cuda`.

        Raises:
            CompilationError: with `FailureCode.UNSUPPORTED`, saying what is missing.
        """
        if target not in cls._devices:
            cls._devices[target] = Kernels(open_target(target, cls.options))
        return cls._devices[target]

    @classmethod
    def anticipate(cls, sessions: Sequence[Self], names: Sequence[str]) -> None:
        """Compile what is to be observed, on all processors; measuring comes one by one."""
        if not any(name in cls.observations and cls.observations[name].compiles for name in names):
            return
        for kernels in {id(session.kernels): session.kernels for session in sessions}.values():
            kernels.prepare(session.schedule for session in sessions if session.kernels is kernels)

    @classmethod
    def statistics(cls) -> dict[str, Any]:
        """Return how many kernels were compiled, checked and measured, of all devices."""
        total: dict[str, int] = {}
        for kernels in cls._devices.values():
            for name, count in kernels.statistics().items():
                total[name] = total.get(name, 0) + count
        return total

    def __init__(self, target: str) -> None:
        self.kernels = self.device(target)
        self.parameters = Parameters()
        self._measurement = _Measurement()
        self._told: frozenset[str] = frozenset()  # what the measurement was asked for

    @property
    @abc.abstractmethod
    def schedule(self) -> Schedule:
        """How the computation is carried out now."""

    @property
    def roof(self) -> Roof:
        """What the device can do."""
        return self.kernels.roof(self.deadline - GRACE)

    def source(self) -> str:
        """Return what the device's compiler is given, or makes of it.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION`, when the device cannot carry out these loops.
        """
        return self.kernels.kernel(self.schedule).source

    def timing(self, name: str) -> Timing:
        """Return how long the kernel takes.

        Args:
            name: of the observation that it is for: the same one gets another measurement.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION`, as `Kernels.measure`.
        """
        if self._measurement.timing is None or name in self._told:
            samples, seconds = self.parameters
            patience = self.deadline - GRACE - 2 * seconds
            self._measurement.timing = self.kernels.measure(self.schedule, samples, seconds, patience)
            self._told = frozenset()
        self._told |= {name}
        return self._measurement.timing

    def get_observation(self, name: str) -> Any:
        """Compute an observation of the state.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION`, the `reason` in its fields when there is no right kernel;
                or `FailureCode.OBSERVATION_UNKNOWN`.
        """
        observation = self.observations.get(name)
        if observation is None:
            raise CompilationError(
                FailureCode.OBSERVATION_UNKNOWN,
                f"{name!r} is not an observation space: there are {', '.join(self.observations)}",
            )
        return observation.compute(self)

    def acted(self, changed: bool) -> None:
        """Take note of an action, and whether the schedule is another one now."""
        self._told = frozenset()
        if changed:
            self._measurement = _Measurement()

    def fork(self) -> Self:
        """Return a session at the same state."""
        child = object.__new__(type(self))
        child.__dict__.update(self.__dict__)
        child._told = frozenset()
        return child

    def set_parameter(self, key: str, value: str) -> str:
        """Set or get how to measure (see `parameters`), or get the `device`.

        Raises:
            CompilationError: with `FailureCode.PARAMETER` when the key is not known or the value is bad.
        """
        if key == "device":
            if value:
                raise CompilationError(FailureCode.PARAMETER, "device can only be asked for, by ''")
            return self.kernels.target.description
        before = self.parameters
        self.parameters, answer = exchange(before, key, value)
        self.acted(self.parameters != before)
        return answer
