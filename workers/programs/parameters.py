"""What a session can be told about how to observe: values that forks inherit and resets keep."""

from collections.abc import Collection
from typing import Any, NamedTuple

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError


class Parameters(NamedTuple):
    """How to observe; a value, so that forks share it.

    Attributes:
        runtimes: how often a program is run and timed for one observation of `Runtime`.
        warmups: how often it is run before that without being timed.
        buildtimes: how often a program is built and timed for one observation of `Buildtime`.
        measured_run: name of the run that is timed, "" for the one that the benchmark says is best for that.
    """

    runtimes: int = 3
    warmups: int = 0
    buildtimes: int = 1
    measured_run: str = ""


KEYS = {
    "runtimes_per_observation_count": "runtimes",
    "warmup_runs_count_per_runtime_observation": "warmups",
    "buildtimes_per_observation_count": "buildtimes",
    "measured_run": "measured_run",
}
"""What is after "llvm.set_" and "llvm.get_" in a key, and what that sets. All but the last are CompilerGym's."""

MOST = 10_000


def exchange(
    parameters: Parameters, key: str, value: str, *, compiler: str = "llvm", names: Collection[str] = tuple(KEYS)
) -> tuple[Parameters, str]:
    """Set or get a parameter; return the parameters as they are then, and the answer.

    Args:
        parameters: as they are.
        key: such as `llvm.set_measured_run`.
        value: to set.
        compiler: the first word of keys.
        names: those of `KEYS` that there are.

    Raises:
        CompilationError: with `FailureCode.PARAMETER` when the key is not known or the value is bad.
    """
    verb, _, name = key.removeprefix(f"{compiler}.").partition("_")
    if not key.startswith(f"{compiler}.") or name not in names or verb not in ("get", "set"):
        known = ", ".join(f"{compiler}.{verb}_{name}" for name in names for verb in ("get", "set"))
        raise CompilationError(FailureCode.PARAMETER, f"unknown parameter {key!r}: there are {known}")
    field = KEYS[name]
    if verb == "set":
        new: Any = value if field == "measured_run" else _count(key, value, least=0 if field == "warmups" else 1)
        parameters = parameters._replace(**{field: new})
    return parameters, str(getattr(parameters, field))


def _count(key: str, value: str, least: int) -> int:
    digits = len(value) <= len(str(MOST)) and value.isascii() and value.isdigit()
    if not digits or not least <= int(value) <= MOST:
        raise CompilationError(FailureCode.PARAMETER, f"{key} takes a number from {least} to {MOST}, not {value!r}")
    return int(value)
