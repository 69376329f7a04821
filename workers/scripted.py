"""A fake compiler, for measuring everything except a compiler, and for testing faults.

Its program is a number and its actions are arithmetic, so that every state can be checked by hand. Other actions
misbehave in all the ways that compilers do.

Its language of actions has the names of the first space, lists of them separated by commas, `add<5>`, `multiply<3>`
and `multiply<3;increment>`, `lie<hash>` (see `LIES`), and, for the decimal place 10**2 of a number that has it,
`@2(raise)` and `@2(clear)`.
"""

import contextlib
import ctypes
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from aiocg.transport.arrays import Array
from aiocg.transport.messages import ActionParameter, ActionSpaceSpec, ActionSpec, FailureCode, ObservationSpec
from aiocg.workers.compilation import CompilationError, CompilationSession

MODULUS = 2**61 - 1
FUSE = 0.05  # seconds

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

UNLISTED = {  # in the language, but in no action space
    "detach": "leave a daemon that sleeps for an hour, then add 1",
    "close": "close all file descriptors, then add 1",
    "sever": "close all file descriptors but that of the status page, then add 1",
    "stop": "stop this process",
    "spoil": "add 1; whatever is applied next, for whomever, crashes",
    "spoil3": "add 1; the third action that is applied then crashes",
    "spoil_increment": "add 1; the next `increment` crashes, and nothing else does",
    "spoil_fork": "add 1; the next session that is forked crashes",
    "spoil_close": "add 1; closing this session crashes",
    "fuse": "add 1; a thread crashes after 50 ms",
    "alarm": "add 1; SIGALRM ends the process after 50 ms",
    "quit": "add 1; a thread ends the process after 50 ms",
    "stumble": "crash over a file in the folder that `stones` names, and remove it; else add 1",
}

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

_NAMES = {name: action.name for action in ACTIONS for name in (action.name, *action.aliases)} | {
    name: name for name in UNLISTED
}
_OPERATION = re.compile(
    r"(?P<name>add|multiply)<(?P<operand>\d+)(?P<then>;increment)?>"
    r"|lie<(?P<lie>\w+)>"
    r"|@(?P<place>\d+)\((?P<on>raise|clear)\)"
)

LIES: dict[str, Any] = {  # wrong return values, with the methods that return them
    "effect": "yes",  # apply_action
    "hash": "seven",  # state_hash
    "negative": -1,  # state_hash
    "refusal": "refused \udcff, as asked",  # the error that apply_action raises
    "text": "\udcff",  # get_observation
    "object": object(),  # get_observation
    "fork": None,  # fork
}

_SPOILS = {"spoil": 1, "spoil3": 3, "spoil_increment": 1, "spoil_fork": 1}
_spoiled: dict[str, int] = {}  # how many actions until one crashes, by what has harmed this process
_hoard: list[bytes] = []
_daemons: list[int] = []


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
        ObservationSpec("daemon", "integer", "process id of the latest daemon", deterministic=False, low=0, default=0),
        ObservationSpec("pid", "integer", "process id of the worker", deterministic=False, low=0, default=0),
    )

    def __init__(self, benchmark: int) -> None:
        self._value = benchmark
        self._echo = self._stones = self._lie = ""
        self._rotten = False

    @classmethod
    def start(cls, options: Mapping[str, Any]) -> None:
        """Refuse to start while the file named by the option `unless` exists."""
        if os.path.exists(options.get("unless", "")):
            raise CompilationError(FailureCode.COMPILER, "it cannot be started, as asked")

    @classmethod
    def load_benchmark(cls, content: bytes, program: bytes = b"") -> int:
        """Read the number; `kill` kills the worker, `hang` hangs, and `5 stones FOLDER` is as the action `stumble`."""
        if content == b"kill":
            ctypes.string_at(0)
        if content == b"hang":
            time.sleep(3600)
        content, _, folder = content.partition(b" stones ")
        _stumble(folder.decode())
        try:
            return int(content) % MODULUS
        except ValueError:
            raise CompilationError(FailureCode.BENCHMARK, f"expected a decimal number, got {content[:40]!r}") from None

    @classmethod
    def check_action(cls, action: Any) -> None:
        """Refuse a value that is neither an index nor a text of the language."""
        if not isinstance(action, str):
            super().check_action(action)
        elif not _OPERATION.fullmatch(action) and not all(name in _NAMES for name in _names(action)):
            raise CompilationError(FailureCode.ACTION_UNKNOWN, f"{action!r} is not in the language of actions")

    def apply_action(self, action: Any) -> Any:
        """Execute the action."""
        before = self._value
        if isinstance(action, int):
            self._apply(ACTIONS[action].name)
        elif found := _OPERATION.fullmatch(action):
            if found["lie"]:
                return self._tell(found["lie"])
            self._operate(found)
        else:
            for name in _names(action):
                self._apply(_NAMES[name])
        return self._value != before

    def _tell(self, lie: str) -> Any:
        self._lie = lie
        if lie == "refusal":
            raise CompilationError(FailureCode.ACTION, LIES[lie])
        return LIES[lie] if lie == "effect" else False

    def _operate(self, operation: re.Match[str]) -> None:
        name, operand, then, _, place, on = operation.groups()
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
        if _spoiled:
            _decay(name)
        match name:
            case "nothing":
                pass
            case "double":
                self._value *= 2
            case "square":
                self._value *= self._value
            case "forget":
                self._value += os.getpid()
            case "refuse" | "hang" | "abort" | "crash" | "exit" | "stop" | "grow":
                _misbehave(name)
            case _:
                self._prepare(name)
                self._value += 1
        self._value %= MODULUS

    def _prepare(self, name: str) -> None:
        """Do what an action that adds 1 does before."""
        match name:
            case "spoil" | "spoil3" | "spoil_increment" | "spoil_fork":
                _spoiled[name] = _SPOILS[name]
            case "spoil_close":
                self._rotten = True
            case "fuse" | "alarm" | "quit":
                _light(name)
            case "nap":
                time.sleep(0.01)
            case "hoard":
                _hoard.append(b"x" * (64 << 20))
            case "detach":
                _daemons.append(_detach())
            case "close":
                os.closerange(0, 1024)
            case "sever":
                _sever()
            case "stumble":
                _stumble(self._stones)

    def get_observation(self, name: str) -> Any:
        """Return the number in one of its forms."""
        if self._lie in ("text", "object"):
            return LIES[self._lie]
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
            case "daemon":
                return _daemons[-1] if _daemons else 0
            case "impossible":
                raise CompilationError(FailureCode.OBSERVATION, "this cannot be observed")
            case _:
                raise CompilationError(FailureCode.OBSERVATION_UNKNOWN, f"no observation {name!r}")

    def fork(self) -> Any:
        """Return a session with the same number."""
        if self._lie == "fork":
            return LIES["fork"]
        if "spoil_fork" in _spoiled:
            ctypes.string_at(0)
        child = type(self)(self._value)
        child._echo, child._stones = self._echo, self._stones
        return child

    def close(self) -> None:
        """Crash, if it was asked for."""
        if self._rotten:
            ctypes.string_at(0)

    def state_hash(self) -> Any:
        """The number is its own hash."""
        if self._lie in ("hash", "negative"):
            return LIES[self._lie]
        return self._value

    def set_parameter(self, key: str, value: str) -> str:
        """`echo` gives the value back, and can be observed; `stones` is a folder for the action `stumble`."""
        if key == "stones":
            self._stones = value
            return value
        if key == "echo":
            if value == "refused":
                raise CompilationError(FailureCode.PARAMETER, "refused, as asked")
            self._echo = value
            return value
        return super().set_parameter(key, value)


def _names(text: str) -> list[str]:
    return text.split(",") if text else []


def _decay(name: str) -> None:
    """Crash, if something has harmed this process so that it crashes over this action."""
    for spoil in _spoiled.keys() & {"spoil", "spoil3", f"spoil_{name}"}:
        _spoiled[spoil] -= 1
        if not _spoiled[spoil]:
            ctypes.string_at(0)


def _light(name: str) -> None:
    """Have this process end in a moment, whatever it does then."""
    if name == "alarm":
        signal.setitimer(signal.ITIMER_REAL, FUSE)
    else:
        threading.Timer(FUSE, lambda: ctypes.string_at(0) if name == "fuse" else os._exit(3)).start()


def _sever() -> None:
    """Close all that the worker speaks by: it dies when it is to say something, and nothing tells of what."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one by which they were listed
            if "aiocg-status" not in os.readlink(f"/proc/self/fd/{name}"):
                os.close(int(name))


def _stumble(folder: str) -> None:
    """Remove a file from a folder and crash; without a file, return."""
    stones = sorted(os.listdir(folder)) if folder else []
    if stones:
        os.unlink(os.path.join(folder, stones[0]))
        ctypes.string_at(0)


def _detach() -> int:
    """Start a daemon in its own session that keeps all our descriptors open; return its process id."""
    reader, writer = os.pipe()
    between = os.fork()
    if not between:
        os.setsid()
        daemon = os.fork()
        if daemon:
            os.write(writer, daemon.to_bytes(8, sys.byteorder))
            os._exit(0)
        time.sleep(3600)
        os._exit(0)
    os.waitpid(between, 0)
    os.close(writer)
    with open(reader, "rb") as file:
        return int.from_bytes(file.read(8), sys.byteorder)


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
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "grow":
            hoard = []
            while True:
                hoard.append(bytearray(1 << 28))
