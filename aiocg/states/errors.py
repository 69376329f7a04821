"""Kinds of validation errors, each with its evidence."""

import enum
import json
import traceback
from typing import Any

import msgspec


class ErrorKind(enum.StrEnum):
    """Kinds of validation errors; the texts are CompilerGym's, where it has the kind."""

    BENCHMARK_UNAVAILABLE = "Benchmark unavailable"
    REPLAY_FAILED = "Replay failed"
    ANOTHER_STATE = "Another state"
    WRONG_REWARD = "Wrong reward"
    UNKNOWN_RUN = "Unknown run"
    COMPILATION_FAILED = "Compilation failed"
    COMPILATION_TIMEOUT = "Compilation timeout"
    EXECUTION_TIMEOUT = "Execution timeout"
    MEMORY_LEAK = "Memory leak"
    MEMORY_ERROR = "Memory error"
    DATA_RACE = "Data race"
    UNDEFINED_BEHAVIOUR = "Undefined behaviour"
    SEGMENTATION_FAULT = "Segmentation fault"
    ILLEGAL_INSTRUCTION = "Illegal Instruction"
    RUNTIME_ERROR = "Runtime error"
    WRONG_OUTPUT = "Wrong output"
    OUTPUT_NOT_GENERATED = "Output not generated"
    WRONG_FILE = "Wrong output (file)"
    CALLBACK_FAILED = "Validation callback failed"


class ValidationError(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong. It is a value, not an exception: validating finds any number of them.

    Errors are ordered by their type and then by their data.

    Attributes:
        kind: one of `ErrorKind`, or a text of their own for callbacks of benchmarks.
        data: the evidence, plain enough for JSON: outputs, commands, traces. Which run of the program it was is under
            `"run"`, which sanitizer under `"sanitizer"`, and how often it was tried under `"attempts"`.
        exit_code: of the program, for `RUNTIME_ERROR`; minus the number of the signal that ended it.
        by_itself: the program has it as it came, so that the optimisation is not to blame.
    """

    kind: str
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    exit_code: int | None = None
    by_itself: bool = False

    @classmethod
    def of_exception(cls, kind: str, error: BaseException, *, trace: bool = False) -> "ValidationError":
        """Make an error of an exception, with its type and words and, if asked for, where it was raised."""
        data = {"error_type": type(error).__name__, "error_details": str(error)}
        if trace:
            data["traceback"] = "".join(traceback.format_exception(error))
        return cls(kind=kind, data=data)

    @property
    def type(self) -> str:
        """The kind in full, such as "Runtime error (1)" or "Memory leak, by itself"."""
        number = "" if self.exit_code is None else f" ({self.exit_code})"
        return f"{self.kind}{number}{', by itself' if self.by_itself else ''}"

    @property
    def can_be_chance(self) -> bool:
        """Is it worth another try? What a compiler refuses it will refuse again, and code that is wrong stays wrong."""
        return self.kind not in (ErrorKind.COMPILATION_FAILED, ErrorKind.CALLBACK_FAILED)

    def sort_key(self) -> tuple[str, str]:
        """Return what errors are ordered by."""
        return self.type, json.dumps(self.data, sort_keys=True, default=str)

    def __lt__(self, other: "ValidationError") -> bool:
        if not isinstance(other, ValidationError):
            return NotImplemented
        return self.sort_key() < other.sort_key()

    def __hash__(self) -> int:
        return hash(self.sort_key())

    def __str__(self) -> str:
        return self.type
