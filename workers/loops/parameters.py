"""What a session can be told about how to measure: values that forks inherit and resets keep."""

import math
from typing import NamedTuple

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError

__all__ = ["Parameters", "exchange"]

MOST_SAMPLES = 10_000
MOST_SECONDS = 30.0  # nobody else can measure meanwhile


class Parameters(NamedTuple):
    """How to measure a kernel.

    Attributes:
        samples: how many samples to take, of which the median counts.
        seconds: about how long they take together; each is of as many runs as fit.
    """

    samples: int = 7
    seconds: float = 0.1


def exchange(parameters: Parameters, key: str, value: str) -> tuple[Parameters, str]:
    """Set or get a parameter; return the parameters as they are then, and the answer.

    Args:
        parameters: as they are.
        key: `samples` or `seconds`.
        value: what to set it to; "" leaves it as it is.

    Raises:
        CompilationError: with `FailureCode.PARAMETER` when the key is not known or the value is bad.
    """
    if key == "samples":
        if value:
            parameters = parameters._replace(samples=_samples(value))
        return parameters, str(parameters.samples)
    if key == "seconds":
        if value:
            parameters = parameters._replace(seconds=_seconds(value))
        return parameters, f"{parameters.seconds:g}"
    raise CompilationError(FailureCode.PARAMETER, f"unknown parameter {key!r}: there are samples, seconds")


def _samples(value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 10 and 1 <= int(value) <= MOST_SAMPLES):
        raise CompilationError(
            FailureCode.PARAMETER, f"samples takes a number from 1 to {MOST_SAMPLES:,}, not {value[:40]!r}"
        )
    return int(value)


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= MOST_SECONDS:  # NaN is not either
        raise CompilationError(
            FailureCode.PARAMETER, f"seconds takes a number above 0, at most {MOST_SECONDS:g}, not {value[:40]!r}"
        )
    return seconds
