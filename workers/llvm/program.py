"""How a program is built and run: the recipe that comes with a benchmark, and building by it.

`aiocg.datasets.recipe` writes recipes and says what is in them.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm.library import CLANG_WHEEL, bundled_file
from aiocg.workers.llvm.object_code import CodeGenerator, text_size
from aiocg.workers.llvm.states import State

VERSION = 1
OBJECT, BITCODE, EXECUTABLE = "program.o", "program.bc", "program"
LINK_TIMEOUT = 120.0  # seconds
LARGEST = 512 << 20  # bytes of a program: one alignment can make it as large as one likes
MARGIN = 0.25  # seconds that are left, at a deadline, to say that it was missed
MESSAGES = 4096  # bytes of a linker's words that are kept
TOO_LATE = "there was not enough time: give the step a longer timeout, or measure a shorter run, or fewer times"

_INHERITED = ("PATH", "LD_LIBRARY_PATH")  # by which a linker finds its parts


class Run(msgspec.Struct, frozen=True):
    """One way to run a program; see `aiocg.datasets.recipe`."""

    name: str
    arguments: tuple[str, ...]
    stdin: bytes
    files: dict[str, bytes]
    environment: dict[str, str]
    exit_status: int
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
        """Return a run by its name, the measured one for "".

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` when there is none.
        """
        for run in self.runs:
            if run.name == (name or self.measured):
                return run
        known = ", ".join(run.name for run in self.runs) or "none"
        raise failure(f"the program has no run named {name or self.measured!r}: there are {known}")


class LinkError(CompilationError):
    """A program cannot be linked, which is for the program's, the recipe's or the tools' sake."""

    def __init__(self, message: str, **fields: str) -> None:
        super().__init__(FailureCode.OBSERVATION, f"cannot be linked: {message}", **fields)


def failure(message: str, timed_out: str = "") -> CompilationError:
    """Make the error for a program that cannot be built or run.

    Args:
        message: says why.
        timed_out: "linking" or "running" if that took too long.
    """
    return CompilationError(FailureCode.OBSERVATION, message, **({"timed_out": timed_out} if timed_out else {}))


def decode_program(recipe: bytes) -> Program | None:
    """Read a recipe; None when it is empty.

    Raises:
        CompilationError: with `FailureCode.BENCHMARK` when it is not a recipe.
    """
    if not recipe:
        return None
    try:
        program = msgspec.msgpack.decode(recipe, type=Program)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _not_a_recipe(str(error)) from None
    if program.version != VERSION:
        raise _not_a_recipe(f"its version is {program.version}, not {VERSION}")
    for name in (*program.files, *(name for run in program.runs for name in (*run.files, *run.outputs))):
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
            raise _not_a_recipe(f"{name!r} is not the name of a file below a folder")
    for word in _words(program):
        if "\0" in word:
            raise _not_a_recipe(f"there is a NUL in {word!r}")
    for run in program.runs:
        if not run.timeout > 0:  # NaN is not either
            raise _not_a_recipe(f"the run {run.name!r} has no time: {run.timeout} s")
    return msgspec.structs.replace(program, digest=hashlib.sha256(recipe).hexdigest())


def _words(program: Program) -> Iterator[str]:
    """Yield all that processes are told when they are started."""
    yield from program.command
    for environment in (program.environment, *(run.environment for run in program.runs)):
        yield from (*environment, *environment.values())
    for run in program.runs:
        yield from run.arguments


def _not_a_recipe(reason: str) -> CompilationError:
    return CompilationError(FailureCode.BENCHMARK, f"this does not say how to build and run a program: {reason}")


class Tools:
    """The tools by which programs are linked: clang, and what lies beside it.

    Args:
        clang: a path, or a name on PATH.
    """

    def __init__(self, clang: str) -> None:
        self.clang = clang

    @cached_property
    def linker(self) -> list[str]:
        """The start of an ELF linker command line, empty when there is no lld."""
        clang = shutil.which(self.clang) or self.clang
        folders = dict.fromkeys((os.path.dirname(clang), os.path.dirname(os.path.realpath(clang))))
        beside = [os.path.join(folder, name) for folder in folders for name in ("lld", "ld.lld")]
        found = next((path for name in (*beside, "ld.lld") if (path := shutil.which(name))), None)
        found = found or str(bundled_file(r"lld", CLANG_WHEEL) or "")
        if not found:
            return []
        return [found] if "ld.lld" in os.path.basename(found) else [found, "-flavor", "gnu"]

    @cached_property
    def builtins(self) -> list[str]:
        """The library of arithmetic that processors lack, empty when there is none."""
        command = [self.clang, "--rtlib=compiler-rt", "-print-libgcc-file-name"]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return []
        path = done.stdout.strip()
        return [path] if os.path.isfile(path) else []

    def expand(self, command: Sequence[str]) -> list[str]:
        """Put the tools in the place of the words that stand for them.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` when one is missing.
        """
        expanded: list[str] = []
        for word in command:
            match word:
                case "{clang}":
                    expanded.append(self.clang)
                case "{clang++}":
                    expanded += [self.clang, "--driver-mode=g++"]
                case "{lld}":
                    if not self.linker:
                        raise failure(f"programs cannot be linked: there is no lld beside {self.clang} nor on PATH")
                    expanded += self.linker
                case "{builtins}":
                    expanded += self.builtins
                case _:
                    expanded.append(word)
        return expanded


class Executable:
    """A program that was linked, in a folder of its own that goes with this object."""

    def __init__(self, folder: "tempfile.TemporaryDirectory[str]") -> None:
        self._folder = folder

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self._folder.name, EXECUTABLE)

    def close(self) -> None:
        """Remove the file."""
        self._folder.cleanup()


class Builder:
    """Builds states by the recipes of their programs; the executable of the last one is kept.

    Args:
        code: generates the machine code.
        tools: link it.
    """

    def __init__(self, code: CodeGenerator, tools: Tools) -> None:
        self.code = code
        self.tools = tools
        self._last: tuple[State, str, Executable] | None = None

    def can_build(self, program: Program | None) -> bool:
        """Say whether there is a recipe, and the tools that it names."""
        if program is None or not program.command:
            return False
        try:
            first, *_ = self.tools.expand(program.command)
        except CompilationError:
            return False
        return shutil.which(first) is not None

    def build(self, state: State, program: Program | None, deadline: float) -> Executable:
        """Return the executable of a state; do not close it.

        Args:
            state: the program's IR.
            program: its recipe.
            deadline: when to give up, in seconds of the monotonic clock.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` when there is no recipe, or linking fails.
            LlvmError: when there is no machine code for it.
        """
        program = self._check(program)
        if self._last is None or self._last[0] is not state or self._last[1] != program.digest:
            self.release()
            self._last = state, program.digest, self._build(state, program, deadline)
        return self._last[2]

    def time(self, state: State, program: Program | None, deadline: float) -> float:
        """Build a state, whether it was built before or not, and return the seconds that this took.

        Raises what `build` does.
        """
        program = self._check(program)
        started = time.monotonic()
        self.code.forget()
        executable = self._build(state, program, deadline)
        elapsed = time.monotonic() - started
        executable.close()
        return elapsed

    def text_size(self, state: State, program: Program | None, deadline: float) -> int:
        """Return the bytes of code and read-only data in the executable of a state.

        Raises:
            CompilationError, LlvmError: as `build` does; LlvmError also when the executable is not ELF.
        """
        key = f"text_size-{self._check(program).digest}"
        if key not in state.memo:
            state.memo[key] = text_size(self.build(state, program, deadline).path.read_bytes())
        size: int = state.memo[key]
        return size

    def release(self) -> None:
        """Remove the executable that is kept."""
        last, self._last = self._last, None
        if last is not None:
            last[2].close()

    def _check(self, program: Program | None) -> Program:
        if program is None or not program.command:
            raise failure("this benchmark does not say how it is linked to a program")
        return program

    def _build(self, state: State, program: Program, deadline: float) -> Executable:
        command = self.tools.expand(program.command)
        code = self.code.object_file(state)
        _check_size(len(code))
        executable = Executable(folder := temporary_folder("build-"))
        try:
            write_files(Path(folder.name), program.files)
            write_files(Path(folder.name), {OBJECT: code})
            if any(BITCODE in word for word in command):
                write_files(Path(folder.name), {BITCODE: state.content})
            link(command, folder.name, program.environment, deadline)
            if not executable.path.is_file():
                raise LinkError(f"`{' '.join(command)}` wrote no file named {EXECUTABLE}")
            _check_size(executable.path.stat().st_size)
        except BaseException:
            executable.close()
            raise
        return executable


def _check_size(size: int) -> None:
    if size > LARGEST:
        raise LinkError(f"the program has {size} bytes, more than {LARGEST}")


def remaining(deadline: float) -> float:
    """Return the seconds that are left for work until a deadline.

    Raises:
        CompilationError: with `FailureCode.OBSERVATION` when there are none.
    """
    left = deadline - time.monotonic() - MARGIN
    if left <= 0:
        raise failure(TOO_LATE, "running")
    return left


def temporary_folder(prefix: str) -> "tempfile.TemporaryDirectory[str]":
    """Make a folder that goes with the object returned, at the end of its context or when it is no longer used.

    Raises:
        CompilationError: with `FailureCode.OBSERVATION` when it cannot be made.
    """
    try:
        return tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
    except OSError as error:
        raise no_place(error) from None


def no_place(error: OSError) -> CompilationError:
    """Make the error for temporary files that cannot be written."""
    return failure(f"there is no folder for temporary files, or no place in it: {error}. Set TMPDIR")


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a folder, which is made if need be.

    Raises:
        CompilationError: with `FailureCode.OBSERVATION` when they cannot be written.
    """
    path = folder
    try:
        folder.mkdir(exist_ok=True)
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    except OSError as error:
        raise failure(f"{path} cannot be written: {error.strerror}") from None


def _messages() -> IO[bytes]:
    """Make a file for what a linker says: unlike a pipe, nobody need read it, nor wait for those who have it open."""
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        raise no_place(error) from None


def link(command: list[str], folder: str, environment: Mapping[str, str], deadline: float) -> None:
    """Run a linker's command line in a folder.

    Raises:
        LinkError: when it fails or takes too long; the message has the linker's words.
        CompilationError: with `FailureCode.OBSERVATION` when there is no time or no place for it.
    """
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    timeout = min(LINK_TIMEOUT, remaining(deadline))
    with _messages() as messages:
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env={"LC_ALL": "C", **inherited, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=messages,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired:
            raise LinkError(f"{command[0]} took longer than {timeout:.1f} s", timed_out="linking") from None
        except OSError as error:
            raise LinkError(f"{command[0]}: {error.strerror}") from None
        if done.returncode == 0:
            return
        messages.seek(0)
        words = messages.read(MESSAGES).decode(errors="replace").strip()
    status = f"was killed by signal {-done.returncode}" if done.returncode < 0 else f"ended with {done.returncode}"
    raise LinkError(f"{os.path.basename(command[0])} {status}\n{words}")
