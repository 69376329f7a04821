"""Discovering a compiler's options: they are read from its help, checked by compiling, and cached in a file."""

import contextlib
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.files import replace_file
from aiocg.workers.gcc.checking import check
from aiocg.workers.gcc.help_text import read_help
from aiocg.workers.gcc.proposals import CompilerOptions, Dropped, Proposal, ceiling, exclusion, propose
from aiocg.workers.gcc.runner import CommandRunner
from aiocg.workers.gcc.trials import Trials, question
from aiocg.workers.shared_table import locked

__all__ = ["CompilerOptions", "Dropped", "discover"]

PATIENCE = 120.0  # seconds to wait for another process's discovery; less than a worker's start timeout
_FORMAT = 1  # increase when discovery finds other options for the same compiler, or the file format changes


class _Content(msgspec.Struct, frozen=True):
    """The file's content; `format`, `compiler` and `version` must match."""

    format: int
    compiler: str
    version: str
    found: CompilerOptions


class OptionsFile:
    """JSON files in a folder, one for each compiler and version.

    A file that is damaged, empty, or for another compiler or format is ignored, and a failed write is not an error.
    """

    def __init__(self, folder: str, compiler: str, version: str) -> None:
        self._folder = folder
        self._compiler = compiler
        self._version = version
        name = hashlib.sha256(f"{compiler}\n{version}".encode(errors="surrogateescape")).hexdigest()[:24]
        self._path = os.path.join(folder, f"gcc-options-{name}.json") if folder else ""

    def get(self, discover: Callable[[], CompilerOptions]) -> CompilerOptions:
        """Return the cached options, or discover and cache them under a lock.

        A process that holds the lock for longer than `PATIENCE`, perhaps because it is stopped, is not waited for.
        """
        if found := self._read():
            return found
        with locked(f"{self._path}.lock", PATIENCE) if self._path else contextlib.nullcontext():
            if found := self._read():
                return found
            found = discover()
            self._write(found)
            return found

    def _read(self) -> CompilerOptions | None:
        if not self._path:
            return None
        try:
            with open(self._path, "rb") as file:
                content = msgspec.json.decode(file.read(), type=_Content)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        wanted = (_FORMAT, self._compiler, self._version)
        is_right = (content.format, content.compiler, content.version) == wanted and content.found.options
        return content.found if is_right else None

    def _write(self, found: CompilerOptions) -> None:
        if not self._path:
            return
        content = msgspec.json.encode(_Content(_FORMAT, self._compiler, self._version, found))
        with contextlib.suppress(OSError):
            replace_file(Path(self._path), msgspec.json.format(content, indent=1))


_TOPICS = ("optimizers", "params")


def discover(runner: CommandRunner, cache_dir: str = "") -> CompilerOptions:
    """Return the options of a compiler.

    The first call takes about a hundred small compiles, later ones a single run of the compiler. If several processes
    start at once, one discovers the options and the others wait.

    Args:
        runner: runs the compiler.
        cache_dir: the folder for the cached options; "" for none. A folder that cannot be written is not an error.

    Raises:
        CompilationError: with `FailureCode.COMPILER` if there is no GCC, or it does not list its options.
    """
    version = question(runner, "--version").partition("\n")[0].strip()
    return OptionsFile(cache_dir, runner.identity, version).get(lambda: _discovered(runner, version))


def _discovered(runner: CommandRunner, version: str) -> CompilerOptions:
    trials = Trials(runner)
    entries = [
        entry
        for topic in _TOPICS
        for entry in read_help(question(runner, f"--help={topic}", "-Q"), question(runner, f"--help={topic}"))
    ]
    proposals, dropped = propose(entries)
    wanted = []
    for option, ask in proposals:
        if reason := exclusion(option.name):
            dropped.append(Dropped(option.name, reason))
            continue
        highest = ceiling(option.name)
        if option.template and highest is not None and highest < option.high:
            dropped.append(Dropped(option.template.replace("{}", str(option.high)), "too much memory"))
            option = msgspec.structs.replace(option, high=highest)
        wanted.append(Proposal(option, ask))
    options, refused = check(wanted, trials)
    if not options:
        raise CompilationError(FailureCode.COMPILER, f"{runner.name} has no options that GCC has: is it {version!r}?")
    return CompilerOptions(version, tuple(options), (*dropped, *refused))
