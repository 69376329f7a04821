"""Run descriptions of a project's programs, and their first results."""

import contextlib
import dataclasses
import os
import re
import resource
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

import msgspec

from aiocg.build.commands import ProjectError
from aiocg.datasets.recipe import ProgramRun, parse_run_line
from aiocg.datasets.scratch import scratch_folder, write_below

MEMORY_LIMIT = 4 << 30  # bytes of address space: nobody watches what is resident here
FILE_LIMIT = 64 << 20  # bytes of each file that a program writes

_TARGET = re.compile(r"([^\s:]+?)(?:#([\w.-]+))?:(?:\s+|$)")


@dataclasses.dataclass(frozen=True, slots=True)
class RunRequest:
    """A run of a target. The expected output is that of the unoptimised program.

    Attributes:
        target: the target's name.
        name: the run's name.
        run: the run, without expected output; `output_files` has the names of files to compare.
        measured: whether this run is timed.
    """

    target: str
    name: str
    run: ProgramRun
    measured: bool = False


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    target: str
    name: str = ""
    arguments: tuple[str, ...] = ()
    stdin: str = ""
    files: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    output_files: tuple[str, ...] = ()
    timeout: float = 60.0
    measured: bool = False


class _Tables(msgspec.Struct, forbid_unknown_fields=True):
    run: tuple[_Table, ...]


def parse_run(text: str, directory: str | os.PathLike[str] = ".") -> RunRequest:
    """Read a run such as `app: ./app input.txt` or `app#small: LANG=C ./app -n 3 < input.txt`.

    The first word of the command stands for the program. Files and folders named by arguments, if below the directory,
    are packed into the dataset under the same names. `VARIABLE=value` before the command is its environment.

    Args:
        text: the target, optionally the run's name, and the command.
        directory: the folder of its files.

    Raises:
        ProjectError: when it cannot be read.
    """
    match = _TARGET.match(text)
    if match is None:
        raise ProjectError(f"the run {text!r} does not begin with a target, as in 'app: ./app input.txt'")
    try:
        _, run = parse_run_line(text[match.end() :], Path(directory))
    except ValueError as error:
        raise ProjectError(f"the run {text!r} is no command line: {error}") from None
    return RunRequest(match[1], match[2] or "", dataclasses.replace(run, exit_status=0))


def read_runs(path: str | os.PathLike[str]) -> list[RunRequest]:
    """Read runs from a TOML file: tables `[[run]]`.

    Each has `target`, and may have `name`, `arguments`, `stdin` (a file), `files` (names or patterns), `environment` (a
    table), `output_files` (names of files that the program writes), `timeout` (seconds) and `measured` (true for the
    run that is timed). Files are relative to the folder of the TOML file; the program sees them under the same names.

    Raises:
        ProjectError: when it cannot be read, or has something else.
    """
    source = Path(path)
    try:
        tables = msgspec.toml.decode(source.read_bytes(), type=_Tables).run
    except OSError as error:
        raise ProjectError(f"{path} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProjectError(f"{path}: {error}") from None
    folder = source.absolute().parent
    return [_request(table, folder) for table in tables]


def _request(table: _Table, folder: Path) -> RunRequest:
    files: dict[str, bytes] = {}
    for pattern in table.files:
        if PurePath(pattern).is_absolute() or ".." in PurePath(pattern).parts:
            raise ProjectError(f"the file {pattern!r} of a run is not below {folder}")
        names = sorted(str(found.relative_to(folder)) for found in folder.glob(pattern) if found.is_file())
        if not names:
            raise ProjectError(f"there is no file {pattern!r} in {folder}")
        files |= {name: _read(folder, name) for name in names}
    if not table.timeout > 0:
        raise ProjectError(f"a run of {table.target} has the timeout {table.timeout}, expected seconds above 0")
    run = ProgramRun(
        table.arguments,
        stdin=_read(folder, table.stdin) if table.stdin else b"",
        files=files,
        environment=table.environment,
        output_files=dict.fromkeys(table.output_files),
        timeout=table.timeout,
    )
    return RunRequest(table.target, table.name, run, table.measured)


def _read(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise ProjectError(f"the input file {folder / name} of a run cannot be read: {error.strerror}") from None


@dataclasses.dataclass(frozen=True, slots=True)
class _Ended:
    """The result of a run.

    Attributes:
        exit_status: of the program, or minus the number of the signal that killed it.
        stdout: its output.
        output_files: the content of files by name; None for missing ones.
    """

    exit_status: int
    stdout: bytes
    output_files: Mapping[str, bytes | None]


def execute(program: Path, run: ProgramRun) -> _Ended:
    """Run a program once, as workers do: in its own folder, with only what the run specifies.

    Raises:
        ProjectError: when it cannot be started, or times out.
    """
    with scratch_folder() as scratch, tempfile.TemporaryFile() as output:
        folder = Path(scratch, "folder")
        folder.mkdir()
        write_below(folder, run.files)
        stdin = Path(scratch, "stdin")
        stdin.write_bytes(run.stdin)
        with open(stdin, "rb") as given, _started(program, run, folder, given.fileno(), output.fileno()) as process:
            try:
                status = process.wait(run.timeout)
            except subprocess.TimeoutExpired:
                raise ProjectError(f"took longer than {run.timeout:g} s") from None
        output.seek(0)
        written = {name: _written(folder / name) for name in run.output_files}
        return _Ended(status, output.read(), written)


@contextlib.contextmanager
def _started(
    program: Path, run: ProgramRun, folder: Path, stdin: int, stdout: int
) -> "Iterator[subprocess.Popen[bytes]]":
    """Run a program; it and its children are always ended."""
    words = [str(program), *run.arguments]
    how: dict[str, Any] = {"cwd": folder, "env": dict(run.environment), "start_new_session": True}
    try:
        process = subprocess.Popen(words, stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL, **how)
    except OSError as error:
        raise ProjectError(f"cannot be started: {error.strerror}") from None
    try:
        limits = {resource.RLIMIT_AS: MEMORY_LIMIT, resource.RLIMIT_FSIZE: FILE_LIMIT, resource.RLIMIT_CORE: 0}
        for limit, value in limits.items():
            with contextlib.suppress(OSError, ValueError):
                resource.prlimit(process.pid, limit, (value, value))
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _written(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError:
        return None
