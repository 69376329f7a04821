"""Linking machine code into a program by its recipe."""

import contextlib
import errno
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO

from aiocg.workers.compilation import CompilationError
from aiocg.workers.installed_packages import CLANG_WHEEL, bundled_file
from aiocg.workers.programs import scratch
from aiocg.workers.programs.recipe import LinkError, Program, failure

OBJECT, EXECUTABLE = "program.o", "program"
LINK_TIMEOUT = 120.0  # seconds
LARGEST = 512 << 20  # bytes of a program, which an alignment can make arbitrarily large
MARGIN = 0.25  # seconds before a deadline, reserved to report that it was missed
MESSAGES = 4096  # limit in bytes for a linker's messages
TOO_LATE = "there was not enough time: give the step a longer timeout, or measure a shorter run, or fewer times"

LEAST_SPACE = 16 << 10  # bytes; a disk with less is full
_QUIET = {"LLVM_DISABLE_SYMBOLIZATION": "1"}  # a tool of LLVM's that crashes leaves no files
_INHERITED = ("PATH", "LD_LIBRARY_PATH")  # linkers find their parts through them


class Tools:
    """The tools for linking: clang, and the tools beside it.

    Args:
        clang: a path, or a name on PATH.
    """

    def __init__(self, clang: str) -> None:
        self.clang = clang

    @cached_property
    def linker(self) -> list[str]:
        """The beginning of an ELF linker's command line; empty without lld."""
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
        """The compiler-rt builtins library; empty if missing."""
        command = [self.clang, "--rtlib=compiler-rt", "-print-libgcc-file-name"]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return []
        path = done.stdout.strip()
        return [path] if os.path.isfile(path) else []

    @cached_property
    def runtime(self) -> list[str]:
        """Words that let programs find clang's shared libraries that no loader searches by default: LLVM's unwinder."""
        root = Path(os.path.realpath(shutil.which(self.clang) or self.clang)).parent.parent / "lib"
        folders = {path.parent for pattern in ("", "*/") for path in root.glob(f"{pattern}libunwind.so.1")}
        return [f"-Wl,-rpath,{folder}" for folder in sorted(folders)]

    def driver(self, language: str) -> list[str]:
        """The beginning of a compiler driver's command line for linking "c" or "c++"."""
        return [self.clang, "--driver-mode=g++"] if language == "c++" else [self.clang]

    def expand(self, command: Sequence[str]) -> list[str]:
        """Replace placeholders for tools.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if one is missing.
        """
        expanded: list[str] = []
        for word in command:
            match word:
                case "{clang}":
                    expanded += self.driver("c")
                case "{clang++}":
                    expanded += self.driver("c++")
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
    """A linked program in its own folder, which is removed with this object."""

    def __init__(self, folder: "tempfile.TemporaryDirectory[str]") -> None:
        self._folder = folder

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self._folder.name, EXECUTABLE)

    def close(self) -> None:
        """Remove the file."""
        self._folder.cleanup()


Linker = Callable[[list[str], str, Mapping[str, str], float], None]
"""A function that runs a command in a folder, like `link`."""


def can_build(tools: Tools, program: Program | None) -> bool:
    """Return whether there is a recipe and its tools are available."""
    if program is None or not program.command:
        return False
    try:
        first, *_ = tools.expand(program.command)
    except CompilationError:
        return False
    return shutil.which(first) is not None


def buildable(program: Program | None) -> Program:
    """Return the recipe of a program.

    Raises:
        CompilationError: with `FailureCode.OBSERVATION` if there is none.
    """
    if program is None or not program.command:
        raise failure("this benchmark does not say how it is linked to a program")
    return program


def build(
    command: list[str],
    files: Mapping[str, bytes],
    environment: Mapping[str, str],
    deadline: float,
    *,
    linker: "Linker | None" = None,
    below: str | None = None,
) -> Executable:
    """Link a program in its own folder.

    Args:
        command: the link command, expanded.
        files: its inputs, including the program's machine code.
        environment: the command's environment variables.
        deadline: the time limit, in seconds of the monotonic clock.
        linker: runs the command; by default `link`, as a local process.
        below: the parent of the program's folder; by default the folder for temporary files.

    Raises:
        CompilationError: with `FailureCode.OBSERVATION`, often as `LinkError`.
    """
    _check_size(len(files[OBJECT]))
    executable = Executable(folder := temporary_folder("build-", below))
    try:
        write_files(Path(folder.name), files)
        (linker or link)(command, folder.name, environment, deadline)
        if executable.path.is_symlink() or not executable.path.is_file():
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
    """Return the seconds left until a deadline.

    Raises:
        CompilationError: with `FailureCode.OBSERVATION` if there are none.
    """
    left = deadline - time.monotonic() - MARGIN
    if left <= 0:
        raise failure(TOO_LATE, "running")
    return left


def temporary_folder(prefix: str, below: str | None = None) -> "tempfile.TemporaryDirectory[str]":
    """Create a temporary folder, which is removed at the end of its context or when the object is collected.

    Args:
        prefix: the prefix of its name.
        below: its parent; by default the folder for temporary files.

    Raises:
        CompilationError: with `FailureCode.OBSERVATION` if it cannot be created.
    """
    try:
        return tempfile.TemporaryDirectory(prefix=prefix, dir=below, ignore_cleanup_errors=True)
    except OSError as error:
        raise no_place(error) from None


def no_place(error: OSError) -> CompilationError:
    """Return the error for failing to write temporary files."""
    return failure(f"there is no folder for temporary files, or no space in it: {error}. Set TMPDIR", machine=True)


def check_space(folder: str | os.PathLike[str]) -> None:
    """Check that the file system of a folder is not full, after something went wrong that this may be the reason for.

    Raises:
        CompilationError: with `FailureCode.OBSERVATION` if it is.
    """
    with contextlib.suppress(FileNotFoundError):
        found = os.statvfs(folder)
        blocks = found.f_bavail if os.geteuid() else found.f_bfree  # some are kept for root
        if blocks * found.f_frsize < LEAST_SPACE or (found.f_files and not found.f_ffree):
            raise no_place(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(folder)))


def write_files(folder: Path, files: Mapping[str, bytes], time: int | None = None) -> None:
    """Write files below a folder, which is created if necessary; links in it are not followed.

    Args:
        folder: the parent of the files.
        files: contents by relative name.
        time: their modification time in seconds since 1970; None for now.

    Raises:
        CompilationError: with `FailureCode.OBSERVATION` if they cannot be written.
    """
    try:
        folder.mkdir(exist_ok=True)
        scratch.write(folder, files, time)
    except OSError as error:
        machine = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
        raise failure(f"{error.filename or folder} cannot be written: {error.strerror}", machine=machine) from None


def _messages() -> IO[bytes]:
    """Create a file for a linker's messages: unlike a pipe, it need not be read while the linker runs."""
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        raise no_place(error) from None


def link(command: list[str], folder: str, environment: Mapping[str, str], deadline: float) -> None:
    """Run a linker's command line in a folder.

    Raises:
        LinkError: if it fails or takes too long; the message includes the linker's output.
        CompilationError: with `FailureCode.OBSERVATION` if there is no time or no space for it.
    """
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    variables = {"LC_ALL": "C", **_QUIET, **inherited, **environment}
    timeout, null = min(LINK_TIMEOUT, remaining(deadline)), subprocess.DEVNULL
    with _messages() as messages:
        try:
            done = subprocess.run(
                command, cwd=folder, env=variables, stdin=null, stdout=null, stderr=messages, timeout=timeout
            )
        except subprocess.TimeoutExpired:
            raise LinkError(f"{command[0]} took longer than {timeout:.1f} s", timed_out="linking") from None
        except OSError as error:
            raise LinkError(f"{command[0]}: {error.strerror}") from None
        if done.returncode == 0:
            return
        check_space(folder)  # a linker may have been killed for want of it
        messages.seek(0)
        words = messages.read(MESSAGES).decode(errors="replace").strip()
    status = f"was killed by signal {-done.returncode}" if done.returncode < 0 else f"ended with {done.returncode}"
    raise LinkError(f"{os.path.basename(command[0])} {status}\n{words}")
