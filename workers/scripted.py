"""A compiler that does what it is told, good or bad: for measuring everything but a compiler, and for testing faults.

Its program is a number and its actions are arithmetic, so that every state can be checked by hand; beside these there
are actions that misbehave in each of the ways that compilers do.

Its language of actions has the names of the first space, lists of them separated by commas, `add<5>`, `multiply<3>`
and `multiply<3;increment>`, and, for the decimal place 10**2 of a number that has it, `@2(raise)` and `@2(clear)`.
"""

import ctypes
import os
import re
import signal
import sys
import time
from typing import Any, Self

from aiocg.transport.arrays import Array
from aiocg.transport.messages import ActionParameter, ActionSpaceSpec, ActionSpec, FailureCode, ObservationSpec
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

ACTION_SPACES = (
    ActionSpaceSpec("scripted", ACTIONS, description="arithmetic, and misbehaviour"),
    ActionSpaceSpec(
        "Recipes",
        (
            ActionSpec("successor", "add 1", text="increment"),
            ActionSpec("odd", "double, then add 1", text="double,increment"),
            ActionSpec("fourth", "square twice", ("biquadrate",), text="square,square"),
        ),
        description="several steps in one",
    ),
    ActionSpaceSpec(
        "Arithmetic",
        (
            ActionSpec("nothing", "change nothing"),
            ActionSpec("add", "add a number", text="add$<>", parameters=(ActionParameter("number", ("1", "5", "10")),)),
            ActionSpec(
                "multiply",
                "multiply by a number",
                text="multiply$<>",
                parameters=(ActionParameter("factor", ("2", "3")), ActionParameter("then", ("", "increment"))),
            ),
        ),
        kind="parametrized",
        description="operations and their operands",
    ),
    ActionSpaceSpec(
        "Places",
        (ActionSpec("raise", "add 1 to the place"), ActionSpec("clear", "make the digit 0")),
        kind="targeted",
        description="operations on one decimal place",
        targets="places",
    ),
    ActionSpaceSpec("Texts", kind="text", description="any text of the language"),
)

_INDICES = {name: i for i, action in enumerate(ACTIONS) for name in (action.name, *action.aliases)}
_OPERATION = re.compile(
    r"(?P<name>add|multiply)<(?P<operand>\d+)(?P<then>;increment)?>"
    r"|@(?P<place>\d+)\((?P<on>raise|clear)\)"
)

_hoard: list[bytes] = []


class ScriptedSession(CompilationSession):
    """A session whose state is a number below 2**61 - 1; a benchmark's content is the first one, in decimal."""

    compiler_version = "1"
    action_spaces = ACTION_SPACES
    observation_spaces = (
        ObservationSpec("value", "integer", "the number", low=0, high=MODULUS, default=0),
        ObservationSpec("digits", "text", "the number in decimal", default=""),
        ObservationSpec("vector", "array", "the number, repeated", shape=(8,), low=0, default=None),
        ObservationSpec("block", "array", "64 KiB of the number's low byte", "uint8", (65536,), low=0, high=255),
        ObservationSpec("places", "texts", "the decimal places, lowest first: @0 @1 ...", default=[]),
        ObservationSpec("echo", "text", "the parameter of that name", default=""),
        ObservationSpec("impossible", "integer", "cannot be observed", default=-1, low=-1),
        ObservationSpec("pid", "integer", "process id of the worker", deterministic=False, low=0, default=0),
    )

    def __init__(self, benchmark: int) -> None:
        self._value = benchmark
        self._echo = ""

    @classmethod
    def load_benchmark(cls, content: bytes, program: bytes = b"") -> int:
        """Read the number; the word `kill` kills the worker."""
        if content == b"kill":
            os.kill(os.getpid(), signal.SIGSEGV)
        try:
            return int(content) % MODULUS
        except ValueError:
            raise CompilationError(FailureCode.BENCHMARK, f"expected a decimal number, got {content[:40]!r}") from None

    @classmethod
    def check_action(cls, action: Any) -> None:
        """Refuse what is neither an index nor a text of the language."""
        if not isinstance(action, str):
            super().check_action(action)
        elif not _OPERATION.fullmatch(action) and not all(name in _INDICES for name in _names(action)):
            raise CompilationError(FailureCode.ACTION_UNKNOWN, f"{action!r} is not in the language of actions")

    def apply_action(self, action: Any) -> bool:
        """Do what the action says."""
        before = self._value
        if isinstance(action, int):
            self._apply(ACTIONS[action].name)
        elif found := _OPERATION.fullmatch(action):
            self._operate(found)
        else:
            for name in _names(action):
                self._apply(ACTIONS[_INDICES[name]].name)
        return self._value != before

    def _operate(self, operation: re.Match[str]) -> None:
        name, operand, then, place, on = operation.groups()
        if name is not None:
            self._value = self._value + int(operand) if name == "add" else self._value * int(operand)
            self._value += then is not None
        else:
            if int(place) >= len(str(self._value)):
                raise CompilationError(FailureCode.ACTION_UNKNOWN, f"the number has no place @{place} now")
            weight = 10 ** int(place)
            self._value += weight if on == "raise" else -(self._value // weight % 10) * weight
        self._value %= MODULUS

    def _apply(self, name: str) -> None:
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
            case "places":
                return [f"@{place}" for place in range(len(str(self._value)))]
            case "echo":
                return self._echo
            case "pid":
                return os.getpid()
            case "impossible":
                raise CompilationError(FailureCode.OBSERVATION, "this cannot be observed")
            case _:
                raise CompilationError(FailureCode.OBSERVATION_UNKNOWN, f"no observation {name!r}")

    def fork(self) -> Self:
        """Return a session with the same number."""
        child = type(self)(self._value)
        child._echo = self._echo
        return child

    def state_hash(self) -> int:
        """The number is its own hash."""
        return self._value

    def set_parameter(self, key: str, value: str) -> str:
        """`echo` gives the value back, and can be observed."""
        if key == "echo":
            if value == "refused":
                raise CompilationError(FailureCode.PARAMETER, "refused, as asked")
            self._echo = value
            return value
        return super().set_parameter(key, value)


def _names(text: str) -> list[str]:
    return text.split(",") if text else []


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
