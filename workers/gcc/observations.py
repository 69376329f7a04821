"""The observation spaces of the GCC environments, by name."""

import functools
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from aiocg.transport.arrays import Array
from aiocg.transport.messages import ObservationSpec
from aiocg.transport.options import UNSET, Option
from aiocg.workers.compilation import Observation
from aiocg.workers.gcc._parameters import Parameters
from aiocg.workers.gcc.compilation import Benchmark, Compilation
from aiocg.workers.gcc.execution import Execution
from aiocg.workers.programs.recipe import Program
from aiocg.workers.programs.times import execution, time_values, times

_LEVELS = ("O0", "Os", "Oz", "O2", "O3")


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
