"""Recipes of benchmarks: how a program is built and run.

`aiocg.datasets.recipe` writes recipes and documents their content.
"""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

import msgspec

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError

VERSION = 1


class Run(msgspec.Struct, frozen=True):
    """One way to run a program; see `aiocg.datasets.recipe`."""

    name: str
    arguments: tuple[str, ...]
    stdin: bytes
    files: dict[str, bytes]
    environment: dict[str, str]
    exit_status: int | None
    stdout: bytes | None
    outputs: dict[str, bytes | None]
    timeout: float


class Program(msgspec.Struct, frozen=True):
    """How to build and run a benchmark; see `aiocg.datasets.recipe`."""

    version: int
    command: tuple[str, ...]
    files: dict[str, bytes]
    environment: dict[str, str]
    runs: tuple[Run, ...]
    measured: str
    digest: str = ""

    def run(self, name: str) -> Run:
        """Return a run by its name; the measured one for "".

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if there is none.
        """
        for run in self.runs:
            if run.name == (name or self.measured):
                return run
        known = ", ".join(run.name for run in self.runs) or "none"
        raise failure(f"the program has no run named {name or self.measured!r}: there are {known}")


class LinkError(CompilationError):
    """A program cannot be linked, because of the program, its recipe or the tools."""

    def __init__(self, message: str, **fields: str) -> None:
        super().__init__(FailureCode.OBSERVATION, f"cannot be linked: {message}", **fields)


def failure(message: str, timed_out: str = "", *, machine: bool = False) -> CompilationError:
    """Return the error for a program that cannot be built or run.

    Args:
        message: the reason.
        timed_out: "linking" or "running" if that took too long.
        machine: whether the reason is this machine, such as a full disk, whatever the program.
    """
    fields: dict[str, object] = {"timed_out": timed_out} if timed_out else {}
    return CompilationError(FailureCode.OBSERVATION, message, **fields, **({"machine": True} if machine else {}))


def decode_program(recipe: bytes) -> Program | None:
    """Decode a recipe; None if it is empty.

    Raises:
        CompilationError: with `FailureCode.BENCHMARK` if it is not a recipe.
    """
    if not recipe:
        return None
    try:
        program = msgspec.msgpack.decode(recipe, type=Program)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _not_a_recipe(str(error)) from None
    if program.version != VERSION:
        raise _not_a_recipe(f"its version is {program.version}, not {VERSION}")
    names = (*program.files, *(name for run in program.runs for name in (*run.files, *run.outputs)))
    if problem := problem_of_names(names, _words(program)):
        raise _not_a_recipe(problem)
    for run in program.runs:
        if not run.timeout > 0:  # also rejects NaN
            raise _not_a_recipe(f"the run {run.name!r} has no time: {run.timeout} s")
    return msgspec.structs.replace(program, digest=hashlib.sha256(recipe).hexdigest())


def problem_of_names(names: Iterable[str], words: Iterable[str]) -> str:
    """Say what is wrong with names of files, or with words of commands; "" if nothing is."""
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
            return f"{name!r} is not the name of a file below a folder"
    return next((f"there is a NUL in {word!r}" for word in words if "\0" in word), "")


def _words(program: Program) -> Iterator[str]:
    """Yield all strings that are passed to processes."""
    yield from program.command
    for environment in (program.environment, *(run.environment for run in program.runs)):
        yield from (*environment, *environment.values())
    for run in program.runs:
        yield from run.arguments


def _not_a_recipe(reason: str) -> CompilationError:
    return CompilationError(FailureCode.BENCHMARK, f"this does not say how to build and run a program: {reason}")
