"""The observation spaces of the GCC environments, by name."""

import functools
import sys
from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from aiocg.transport.arrays import Array
from aiocg.transport.messages import FailureCode, ObservationSpec
from aiocg.transport.options import UNSET, Option
from aiocg.workers.compilation import CompilationError, Observation
from aiocg.workers.gcc._compilation import Benchmark, Compilation
from aiocg.workers.gcc._execution import PARAMETERS, Execution
from aiocg.workers.programs import parameters as programs
from aiocg.workers.programs.parameters import execution, time_values, times
from aiocg.workers.programs.recipe import Program

_LEVELS = ("O0", "Os", "Oz", "O2", "O3")


# ------------------------------ Session parameters for compiling and observing: forks inherit them and resets keep them

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


# -------------------------------------------------------------- The observation spaces of the GCC environments, by name


class _Subject(Protocol):
    """The input of an observation: a program and its compiler options."""

    benchmark: Benchmark
    choices: tuple[int, ...]
    parameters: Parameters

    @property
    def deadline(self) -> float:
        """The deadline of the observation, in seconds of the monotonic clock."""

    @property
    def execution(self) -> Execution:
        """Links and runs the program."""

    def check_code(self, code: bytes) -> None:
        """Raise for machine code that must not be linked on this machine."""

    @property
    def command_line(self) -> str:
        """The options, as an action."""

    def compilation(self, level: str = "") -> Compilation:
        """Return the compilation with these options, or with only a level such as `-Os`."""


def observation_spaces(options: Sequence[Option]) -> tuple[ObservationSpec, ...]:
    """Return all spaces for a compiler with these options; sizes at `-Oz` only where it has that level."""
    levels = {word.removeprefix("-") for one in options if one.kind == "level" for word in one.texts}
    missing = tuple([f"_{level}" for level in _LEVELS if level not in levels])
    known = [one.spec for name, one in OBSERVATIONS.items() if not name.endswith(missing)]
    return tuple([replace(spec, shape=(len(options),)) if spec.name == "choices" else spec for spec in known])


def _fact(name: str, level: str = "") -> Callable[[_Subject], Any]:
    return lambda subject: subject.compilation(level).fact(name)


def _text(content: bytes) -> str:
    return content.decode(errors="replace")


def _runnable(subject: _Subject) -> tuple[Program, bytes] | None:
    """Return how the program is linked and run, and its object file; None if that is not known."""
    recipe = subject.benchmark.recipe
    if recipe is None or not recipe.command or not recipe.runs:
        return None
    code = subject.compilation().object_file()
    subject.check_code(code)
    return recipe, code


def _is_runnable(subject: _Subject) -> int:
    found = _runnable(subject)
    return int(found is not None and subject.execution.is_runnable(*found, subject.deadline))


def _runtime(subject: _Subject) -> Array:
    found = _runnable(subject)
    times = subject.execution.run_times(*found, subject.parameters.runs, subject.deadline) if found else []
    return time_values(times)


def _execution(subject: _Subject) -> list[dict[str, Any]]:
    found = _runnable(subject)
    return subject.execution.run_all(*found, subject.deadline) if found else []


_made = functools.partial(Observation.of, platform_dependent=True)
_counted = functools.partial(Observation.integer, platform_dependent=True)
_SIZES = {
    "asm_size": "Bytes of the assembly, as the compiler writes it.",
    "obj_size": "Bytes of the object file.",
    "obj_image_size": "Bytes that the object file brings into an image: all that is loaded, but for zeroed memory.",
    "obj_bss_size": "Bytes of memory that begin as zero, of which the object file has nothing.",
    "obj_text_size": "Bytes of code and read-only data in the object file; moving data into variables lowers it.",
}

_ALL = (
    Observation.of(
        "source",
        "text",
        "The program's translation units, one after the other.",
        lambda subject: subject.benchmark.sources.text,
    ),
    _made(
        "rtl",
        "text",
        "GCC's register transfer language after its last pass, unit by unit.",
        lambda subject: _text(subject.compilation().rtl()),
    ),
    _made(
        "asm", "text", "The assembly, unit by unit.", lambda subject: _text(b"".join(subject.compilation().assembly()))
    ),
    _counted("asm_size", _SIZES["asm_size"], _fact("asm_size")),
    _made("asm_hash", "text", "MD5 of the assembly, in hexadecimal.", _fact("asm_hash")),
    _made(
        "instruction_counts",
        "json",
        "How often each instruction is in the assembly, by its name; no directives, no labels.",
        _fact("instruction_counts"),
    ),
    _made(
        "obj",
        "binary",
        "The object file; of several units, the one that they are linked to.",
        lambda subject: subject.compilation().object_file(),
    ),
    *(_counted(name, about, _fact(name)) for name, about in _SIZES.items() if name != "asm_size"),
    _made("obj_hash", "text", "MD5 of the object file, in hexadecimal.", _fact("obj_hash")),
    _made(
        "undefined_behaviour",
        "json",
        "What the compiler warns of at -O2 since the standard does not define it, such as reads outside of arrays.",
        lambda subject: subject.compilation("-O2").undefined(),
        default=[],
    ),
    Observation.of(
        "choices",
        "array",
        "The choice of each option, -1 where it is not given.",
        lambda subject: Array("int64", (len(subject.choices),), array("q", subject.choices).tobytes()),
        shape=(-1,),
        low=UNSET,
    ),
    Observation.of(
        "command_line",
        "text",
        "The options that are given, as an action.",
        lambda subject: subject.command_line,
        default="gcc",
    ),
    times(
        "runtime",
        "Seconds that the program takes, for each run; an error if one does not do what is expected of it.",
        _runtime,
    ),
    execution("execution", _execution),
    _counted(
        "is_runnable",
        "1 if the program can be linked as the benchmark says, which says how it is run, too.",
        _is_runnable,
        high=1,
    ),
    *(
        _counted(f"{size}_{level}", f"{what[:-1]}, at -{level} alone.", _fact(size, f"-{level}"))
        for size, what in _SIZES.items()
        for level in _LEVELS
    ),
)

OBSERVATIONS: dict[str, Observation] = {observation.spec.name: observation for observation in _ALL}
