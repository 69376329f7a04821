"""A compiler that does what it is told, good or bad: for measuring everything but a compiler, and for testing faults.

Its program is a number and its actions are arithmetic, so that every state can be checked by hand; beside these there
are actions that misbehave in each of the ways that compilers do.
"""

import ctypes
import os
import signal
import sys
import time
from typing import Any, Self

from aiocg.transport.arrays import Array
from aiocg.transport.messages import ActionSpaceSpec, ActionSpec, FailureCode, ObservationSpec
from aiocg.workers.compilation import CompilationError, CompilationSession

MODULUS = 2**61 - 1

ACTIONS = (
    ActionSpec("nothing", "change nothing"),
    ActionSpec("increment", "add 1", ("inc",)),
    ActionSpec("double", "multiply by 2"),
    ActionSpec("square", "multiply by itself"),
    ActionSpec("refuse", "fail with an error"),
    ActionSpec("hang", "sleep for an hour"),
    ActionSpec("abort", "print a last message and abort"),
    ActionSpec("crash", "read address zero"),
    ActionSpec("exit", "exit with status 3"),
    ActionSpec("grow", "allocate memory until there is none"),
    ActionSpec("forget", "add the process id: different in every process"),
    ActionSpec("nap", "sleep for 10 ms, then add 1"),
    ActionSpec("hoard", "keep 64 MiB of memory for good, then add 1"),
)

_hoard: list[bytes] = []


class ScriptedSession(CompilationSession):
    """A session whose state is a number below 2**61 - 1; a benchmark's content is the first one, in decimal."""

    compiler_version = "1"
    action_spaces = (ActionSpaceSpec("scripted", ACTIONS),)
    observation_spaces = (
        ObservationSpec("value", "integer", "the number", low=0, high=MODULUS, default=0),
        ObservationSpec("digits", "text", "the number in decimal", default=""),
        ObservationSpec("vector", "array", "the number, repeated", shape=(8,), low=0, default=None),
        ObservationSpec("block", "array", "64 KiB of the number's low byte", "uint8", (65536,), low=0, high=255),
        ObservationSpec("impossible", "integer", "cannot be observed", default=-1, low=-1),
        ObservationSpec("pid", "integer", "process id of the worker", deterministic=False, low=0, default=0),
    )

    def __init__(self, benchmark: int) -> None:
        self._value = benchmark

    @classmethod
    def load_benchmark(cls, content: bytes, program: bytes = b"") -> int:
        """Read the number; the word `kill` kills the worker."""
        if content == b"kill":
            os.kill(os.getpid(), signal.SIGSEGV)
        try:
            return int(content) % MODULUS
        except ValueError:
            raise CompilationError(FailureCode.BENCHMARK, f"expected a decimal number, got {content[:40]!r}") from None

    def apply_action(self, action: Any) -> bool:
        """Do what the action says."""
        before = self._value
        name = ACTIONS[action].name
        match name:
            case "increment":
                self._value += 1
            case "double":
                self._value *= 2
            case "square":
                self._value *= self._value
            case "forget":
                self._value += os.getpid()
            case "nap":
                time.sleep(0.01)
                self._value += 1
            case "hoard":
                _hoard.append(b"x" * (64 << 20))
                self._value += 1
            case "nothing":
                pass
            case _:
                _misbehave(name)
        self._value %= MODULUS
        return self._value != before

    def get_observation(self, name: str) -> Any:
        """Return the number in one of its forms."""
        match name:
            case "value":
                return self._value
            case "digits":
                return str(self._value)
            case "vector":
                return Array("int64", (8,), self._value.to_bytes(8, sys.byteorder) * 8)
            case "block":
                return Array("uint8", (65536,), bytes([self._value & 255]) * 65536)
            case "pid":
                return os.getpid()
            case "impossible":
                raise CompilationError(FailureCode.OBSERVATION, "this cannot be observed")
            case _:
                raise CompilationError(FailureCode.OBSERVATION_UNKNOWN, f"no observation {name!r}")

    def fork(self) -> Self:
        """Return a session with the same number."""
        return type(self)(self._value)

    def state_hash(self) -> int:
        """The number is its own hash."""
        return self._value

    def set_parameter(self, key: str, value: str) -> str:
        """`echo` gives the value back."""
        if key == "echo":
            return value
        return super().set_parameter(key, value)


def _misbehave(name: str) -> None:
    match name:
        case "refuse":
            raise CompilationError(FailureCode.ACTION, "refused, as asked")
        case "hang":
            time.sleep(3600)
        case "abort":
            print("scripted: aborting, as asked", file=sys.stderr, flush=True)
            os.abort()
        case "crash":
            ctypes.string_at(0)
        case "exit":
            os._exit(3)
        case "grow":
            hoard = []
            while True:
                hoard.append(bytearray(1 << 28))
