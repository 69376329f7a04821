"""Session parameters for compiling and observing: forks inherit them and resets keep them."""

import math
from typing import NamedTuple

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc.execution import PARAMETERS
from aiocg.workers.programs import parameters as programs

LEAST_MEMORY = 256 << 20  # bytes; no compiler starts with less


class Parameters(NamedTuple):
    """How to compile and observe.

    Attributes:
        timeout: the time limit of each compiler process in seconds.
        memory: the memory limit of each compiler process in bytes.
        runs: how programs are measured.
    """

    timeout: float = 60.0
    memory: int = 4 << 30
    runs: programs.Parameters = programs.Parameters()


def exchange(parameters: Parameters, key: str, value: str) -> tuple[Parameters, str]:
    """Set or get a parameter; return the new parameters and the reply.

    A value sets one of this module's parameters; "" gets it.

    Raises:
        CompilationError: with `FailureCode.PARAMETER` if the key is unknown or the value is invalid.
    """
    if key == "timeout":
        if value:
            parameters = parameters._replace(timeout=_seconds(value))
        return parameters, f"{parameters.timeout:g}"
    if key == "memory":
        if value:
            parameters = parameters._replace(memory=_bytes(value))
        return parameters, str(parameters.memory)
    if key.startswith("gcc."):
        runs, answer = programs.exchange(parameters.runs, key, value, compiler="gcc", names=PARAMETERS)
        return parameters._replace(runs=runs), answer
    known = ", ".join(f"gcc.{verb}_{name}" for name in PARAMETERS for verb in ("get", "set"))
    raise CompilationError(
        FailureCode.PARAMETER, f"unknown parameter {key!r}: there are gcc_spec, choices, timeout, memory, {known}"
    )


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:  # also rejects NaN
        raise CompilationError(FailureCode.PARAMETER, f"timeout takes a number of seconds above 0, not {value!r}")
    return seconds


def _bytes(value: str) -> int:
    if not (value.isascii() and value.isdigit() and LEAST_MEMORY <= int(value) < 1 << 62):
        raise CompilationError(
            FailureCode.PARAMETER, f"memory takes a number of bytes, {LEAST_MEMORY} or more, not {value!r}"
        )
    return int(value)
