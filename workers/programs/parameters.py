"""Parameters of observations, which forks inherit and resets keep, and observations of times."""

import contextlib
import math
import struct
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from aiocg.transport.arrays import Array
from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError, Observation


class Parameters(NamedTuple):
    """Parameters of observations; immutable, so that forks share them.

    Attributes:
        runtimes: number of timed runs for one observation of `Runtime`.
        warmups: number of untimed runs before them.
        buildtimes: number of timed builds for one observation of `Buildtime`.
        measured_run: name of the timed run; "" for the benchmark's default.
        alone: 1 if nothing else may be measured on the machine meanwhile, 0 if on other cores it may.
    """

    runtimes: int = 3
    warmups: int = 0
    buildtimes: int = 1
    measured_run: str = ""
    alone: int = 0


KEYS = {
    "runtimes_per_observation_count": "runtimes",
    "warmup_runs_count_per_runtime_observation": "warmups",
    "buildtimes_per_observation_count": "buildtimes",
    "measured_run": "measured_run",
    "measured_alone": "alone",
}
"""Parameters by the part after "llvm.set_" and "llvm.get_" in keys. All but the last two are CompilerGym's."""

MOST = 10_000


class Number(NamedTuple):
    """A parameter that is a number.

    Attributes:
        takes: what it takes, in words.
        least, most: the ends of what it may be.
        kind: `int` or `float`.
    """

    takes: str
    least: float
    most: float
    kind: type[int] | type[float] = int

    def read(self, key: str, value: str) -> Any:
        """Read the text of a value.

        Raises:
            CompilationError: with `FailureCode.PARAMETER` if it is another one.
        """
        number = math.nan
        if value.isascii() and (self.kind is float or value.isdigit()):
            with contextlib.suppress(ValueError):
                number = self.kind(value)
        if not self.least <= number <= self.most:  # also rejects NaN
            raise CompilationError(FailureCode.PARAMETER, f"{key} takes {self.takes}, not {value[:40]!r}")
        return number


POSITIVE = math.ulp(0.0)
"""The least number above 0."""
_COUNT = Number(f"a number from 1 to {MOST}", 1, MOST)
_NUMBERS = {"warmups": Number(f"a number from 0 to {MOST}", 0, MOST), "alone": Number("a number from 0 to 1", 0, 1)}


def exchange(
    parameters: Parameters, key: str, value: str, *, compiler: str = "llvm", names: Collection[str] = tuple(KEYS)
) -> tuple[Parameters, str]:
    """Set or get a parameter; return the new parameters and the reply.

    Args:
        parameters: the current ones.
        key: such as `llvm.set_measured_run`.
        value: the new value.
        compiler: the first word of keys.
        names: the available `KEYS`.

    Raises:
        CompilationError: with `FailureCode.PARAMETER` if the key is unknown or the value is invalid.
    """
    verb, _, name = key.removeprefix(f"{compiler}.").partition("_")
    if not key.startswith(f"{compiler}.") or name not in names or verb not in ("get", "set"):
        known = ", ".join(f"{compiler}.{verb}_{name}" for name in names for verb in ("get", "set"))
        raise CompilationError(FailureCode.PARAMETER, f"unknown parameter {key!r}: there are {known}")
    field = KEYS[name]
    if verb == "set":
        new: Any = value if field == "measured_run" else _NUMBERS.get(field, _COUNT).read(key, value)
        parameters = parameters._replace(**{field: new})
    return parameters, str(getattr(parameters, field))


def time_values(values: list[float]) -> Array:
    """Encode times as the value of an observation."""
    return Array("float64", (len(values),), struct.pack(f"<{len(values)}d", *values))


def times(name: str, description: str, compute: Callable[[Any], Array]) -> Observation:
    """Return an observation of times, in seconds."""
    return Observation.of(
        name,
        "array",
        description,
        compute,
        dtype="float64",
        shape=(-1,),
        low=0,
        deterministic=False,
        platform_dependent=True,
        default=time_values([]),
    )


def execution(name: str, compute: Callable[[Any], list[dict[str, Any]]]) -> Observation:
    """Return the observation of all runs of a program."""
    about = "How each run of the program ended and what it wrote."
    return Observation.of(name, "json", about, compute, platform_dependent=True, default=[])
