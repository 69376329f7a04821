"""LLVM in a process of its own, for single operations on programs; and the LLVM programs of this machine."""

import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

from aiocg.datasets.cache import cache_directory
from aiocg.datasets.errors import BenchmarkInitError, CompilationCancelled, ToolchainNotFound
from aiocg.datasets.locking import replacing
from aiocg.datasets.process import Cancelled, TimedOut, run_bounded
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import find_toolchain, loader_environment
from aiocg.errors import DeadlineExceeded, EnvironmentNotSupported, ServiceError, WorkerCrashed, failure
from aiocg.transport.messages import FailureCode

TIMEOUT = 300.0  # seconds for one operation
SPLIT = "coro-cond(coro-early,cgscc(coro-split),coro-cleanup,globaldce)"  # as `clang -O0` does
_INLINED = re.compile(r"'([^']+)' inlined into '([^']+)'")
_LINE = (sys.executable, "-P", "-m", "aiocg.workers.llvm._tool")


def run_tool(command: str, arguments: Iterable[str | Path], *, subject: str, timeout: float) -> None:
    """Run one operation of `aiocg.workers.llvm._tool`; its results are in the files that the arguments name.

    Within a `LoadedTool`, that carries it out, and nothing cancels it.

    Raises:
        BenchmarkInitError: when LLVM does not accept a program.
        WorkerCrashed: when LLVM died over it; DeadlineExceeded when it took longer.
        EnvironmentNotSupported: when there is no LLVM.
        WorkerFailure: for what else LLVM cannot do.
        CompilationCancelled: when the event of `aiocg.datasets.cancellable` was set.
    """
    words = [command, *map(str, arguments)]
    try:
        status, messages = (_loaded[-1].run if _loaded else _run)(words, timeout)
    except TimedOut:
        raise DeadlineExceeded(timeout, f"{command} of {subject}") from None
    except Cancelled:
        raise CompilationCancelled(subject, f"{command} was cancelled") from None
    _check(status, messages, command, subject)


def _run(words: Sequence[str], timeout: float) -> tuple[int, str]:
    """Run one operation in a process of its own; return its status and its messages."""
    environment = {**os.environ, **loader_environment()}
    return run_bounded([*_LINE, *words], cwd=os.getcwd(), env=environment, timeout=timeout)


_loaded: list["LoadedTool"] = []


class LoadedTool:
    """A process that has LLVM loaded: within a `with` statement `run_tool` is carried out in forks of it.

    They are carried out one after the other. The process begins with the first.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = threading.Lock()

    def __enter__(self) -> Self:
        """Take over from `run_tool`."""
        _loaded.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        _loaded.remove(self)
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    @property
    def pid(self) -> int | None:
        """The process, if it was started."""
        return None if self._process is None else self._process.pid

    def run(self, words: Sequence[str], timeout: float) -> tuple[int, str]:
        """Run one operation; return its status and its messages.

        Raises:
            TimedOut: when it took longer.
        """
        with self._turn:
            process = self._process = self._process or self._started()
            assert process.stdin is not None and process.stdout is not None
            try:
                process.stdin.write(json.dumps([timeout, *words]).encode() + b"\n")
                process.stdin.flush()
                reply = process.stdout.readline()
            except BrokenPipeError:
                reply = b""
        if not reply:  # it could not start, or has died: the other way says why
            process.communicate()
            self._process = None
            return _run(words, timeout)
        status, messages = json.loads(reply)
        if status == -signal.SIGALRM:
            raise TimedOut
        return status, messages

    @staticmethod
    def _started() -> "subprocess.Popen[bytes]":
        environment = {**os.environ, **loader_environment()}
        pipe = subprocess.PIPE
        return subprocess.Popen([*_LINE, "serve"], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environment)


def _check(status: int, messages: str, command: str, subject: str) -> None:
    """Raise the error that a process has told, or died of."""
    if status == 0:
        return
    try:
        told = json.loads(messages.strip().rpartition("\n")[2])
        code, message = told["code"], told["message"]
    except (ValueError, TypeError, KeyError):
        cause = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        raise WorkerCrashed(cause, f"{command} of {subject}", messages.strip()[-2000:]) from None
    if code == FailureCode.BENCHMARK:
        raise BenchmarkInitError(subject, message)
    if code == FailureCode.COMPILER:
        raise EnvironmentNotSupported(message)
    raise failure(code, message)


def compute(command: str, programs: Iterable[tuple[str, bytes]], subject: str, timeout: float) -> bytes:
    """Return what an operation makes of programs.

    Args:
        programs: names, for messages, and bitcode or textual IR.

    Raises:
        BenchmarkInitError: when LLVM cannot do it.
        CompilationCancelled: as `run_tool`.
    """
    with scratch_folder() as scratch:
        output, paths = Path(scratch, "output.bc"), []
        for number, (name, content) in enumerate(programs):
            paths.append(Path(scratch, f"{number}-{name or 'part'}"))
            paths[-1].write_bytes(content)
        try:
            run_tool(command, [output, *paths], subject=subject, timeout=timeout)
        except ServiceError as error:
            raise BenchmarkInitError(subject, str(error)) from error
        return output.read_bytes()


def apply(
    program: bytes,
    actions: Sequence[str],
    *,
    subject: str = "the program",
    text: bool = False,
    llvm_options: Sequence[str] = (),
    no_plt: bool = False,
    part: bool = False,
) -> bytes:
    """Return a program after actions, as an environment applies them, in a process of its own.

    Args:
        actions: texts; there may be more than a command line holds.
        llvm_options: such as "-unroll-count=4", which LLVM takes at its start.
        no_plt: whether functions of other libraries are then called without a stub, where that takes less bytes.
        part: whether it is only a part of the program for which the actions are: what they do to others is left out.

    Raises:
        AiocgError: when LLVM refuses the program or an action, or dies of it; as `run_tool`.
    """
    flags = [*(["--text"] if text else []), *(["--no-plt"] if no_plt else []), *(["--part"] if part else [])]
    options = [*flags, *(f"--llvm-option={option}" for option in llvm_options)]
    with scratch_folder() as scratch:
        return _applied(program, actions, options, subject, Path(scratch))


def generable(program: bytes) -> bytes:
    """Return bitcode for which code can be generated with no more passes: its coroutines are split."""
    return apply(program, [SPLIT]) if b"llvm.coro." in program else program


def inlined(program: bytes, actions: Sequence[str], subject: str) -> tuple[dict[str, list[str]], bytes]:
    """Return into which functions each function of a program is inlined by actions, and the program after them.

    Raises:
        AiocgError: as `apply`.
    """
    with scratch_folder() as scratch:
        remarks = Path(scratch, "remarks.json")
        options = [f"--remarks={remarks}", "--llvm-option=-pass-remarks=inline"]
        content = _applied(program, actions, options, subject, Path(scratch))
        found: dict[str, list[str]] = {}
        for line in json.loads(remarks.read_bytes()):
            if match := _INLINED.search(line):
                found.setdefault(match[1], []).append(match[2])
        return found, content


def _applied(program: bytes, actions: Sequence[str], options: list[str], subject: str, scratch: Path) -> bytes:
    given, output, listed = (scratch / name for name in ("given", "output", "actions.json"))
    given.write_bytes(program)
    listed.write_text(json.dumps(list(actions)), encoding="utf-8")
    run_tool("apply", [*options, output, given, listed], subject=subject, timeout=TIMEOUT)
    return output.read_bytes()


def clang_path() -> Path:
    """Return the clang that compiles programs.

    Raises:
        ToolchainNotFound: when there is none.
    """
    return find_toolchain().clang


def lld_path() -> Path:
    """Return the linker that belongs to clang; run as it is, it may need `-flavor gnu` first.

    Raises:
        ToolchainNotFound: when there is none.
    """
    return Path(find_toolchain().linker_command()[0])


def program_path(name: str) -> Path:
    """Return a program of LLVM, such as "opt", "llc", "lli", "llvm-dis" or "llvm-diff".

    The bundled LLVM has clang and lld; others are looked for beside clang, in the system's LLVM of the same release,
    and on PATH under that release's number. One of another release would read other bitcode, and is not taken.
    For some, `python -m aiocg.llvm` takes their place.

    Raises:
        ToolchainNotFound: when it is not there; what can be done without it is said.
        OSError: when the file that takes its place cannot be written to the cache.
    """
    toolchain = find_toolchain()
    release = toolchain.major
    folders = (toolchain.clang.parent, toolchain.clang.resolve().parent, Path(f"/usr/lib/llvm-{release}/bin"))
    for candidate in (*(str(folder / name) for folder in folders), f"{name}-{release}"):
        if found := shutil.which(candidate):
            return Path(found)
    if name in _OURS:
        return _stand_in(name)
    instead = _INSTEAD.get(name, "")
    raise ToolchainNotFound(
        f"there is no {name} of LLVM {release}, which the bundled LLVM does not contain either",
        f"{instead}install LLVM {release} (Debian and Ubuntu: llvm-{release})",
    )


_OURS = {"opt", "llc", "llvm-as", "llvm-dis", "llvm-diff", "llvm-link"}  # commands of `python -m aiocg.llvm`
_INSTEAD = {"llvm-extract": "use aiocg.llvm.split_benchmark_by_function, or "}


def _stand_in(name: str) -> Path:
    script = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m aiocg.llvm {name} "$@"\n'.encode()
    path = cache_directory() / "programs" / hashlib.sha256(script).hexdigest()[:16] / name
    if not os.access(path, os.X_OK):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, 0o755) as file:
            file.write(script)
    return path
