"""Observations of a program's behaviour under a sanitizer."""

from collections.abc import Callable
from typing import Any

from aiocg.transport.messages import ObservationSpec
from aiocg.workers.llvm import sanitizers
from aiocg.workers.llvm.observations.observation import Observation, Subject
from aiocg.workers.llvm.sanitizers import Sanitizer

_KINDS = (
    ("Asan", sanitizers.ADDRESS, "AddressSanitizer, which finds memory errors and leaks"),
    ("Tsan", sanitizers.THREAD, "ThreadSanitizer, which finds data races"),
    ("Msan", sanitizers.MEMORY_USE, "MemorySanitizer, which finds uses of uninitialised memory"),
    ("Ubsan", sanitizers.UNDEFINED, "UndefinedBehaviorSanitizer; the program must have been compiled with its checks"),
)


def _execution_under(sanitizer: Sanitizer) -> Callable[[Subject], dict[str, Any]]:
    def compute(subject: Subject) -> dict[str, Any]:
        program = subject.benchmark.program
        return sanitizers.watch(subject.engine, subject.state, program, sanitizer, subject.deadline)

    return compute


OBSERVATIONS = tuple(
    Observation(
        ObservationSpec(
            f"Execution{name}",
            "json",
            f"As Execution, under {what}; or why that cannot be.",
            deterministic=False,
            platform_dependent=True,
            default={"skipped": "", "runs": []},
        ),
        _execution_under(sanitizer),
    )
    for name, sanitizer, what in _KINDS
)
