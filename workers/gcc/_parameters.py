"""Session parameters for compiling and observing: forks inherit them and resets keep them."""

import sys
from typing import NamedTuple

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc.execution import PARAMETERS
from aiocg.workers.programs import parameters as programs

LEAST_MEMORY = 256 << 20  # bytes; no compiler starts with less
_NUMBERS = {
    "timeout": programs.Number("a number of seconds above 0", programs.POSITIVE, sys.float_info.max, float),
    "memory": programs.Number(f"a number of bytes, {LEAST_MEMORY} or more", LEAST_MEMORY, (1 << 62) - 1),
}


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
    if key in _NUMBERS:
        if value:
            parameters = parameters._replace(**{key: _NUMBERS[key].read(key, value)})
        return parameters, f"{getattr(parameters, key):g}" if key == "timeout" else str(parameters.memory)
    if key.startswith("gcc."):
        runs, answer = programs.exchange(parameters.runs, key, value, compiler="gcc", names=PARAMETERS)
        return parameters._replace(runs=runs), answer
    known = ", ".join(f"gcc.{verb}_{name}" for name in PARAMETERS for verb in ("get", "set"))
    raise CompilationError(
        FailureCode.PARAMETER, f"unknown parameter {key!r}: there are gcc_spec, choices, timeout, memory, {known}"
    )
