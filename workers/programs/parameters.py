"""Parameters of observations, which forks inherit and resets keep."""

from collections.abc import Collection
from typing import Any, NamedTuple

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError


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
RANGES = {"warmups": (0, MOST), "alone": (0, 1)}  # of the numbers that do not begin at 1


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
        new: Any = value if field == "measured_run" else _count(key, value, *RANGES.get(field, (1, MOST)))
        parameters = parameters._replace(**{field: new})
    return parameters, str(getattr(parameters, field))


def _count(key: str, value: str, least: int, most: int) -> int:
    digits = len(value) <= len(str(MOST)) and value.isascii() and value.isdigit()
    if not digits or not least <= int(value) <= most:
        raise CompilationError(FailureCode.PARAMETER, f"{key} takes a number from {least} to {most}, not {value!r}")
    return int(value)
