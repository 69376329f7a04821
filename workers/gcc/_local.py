"""Runs a compiler of this machine; finds the runner for a compiler's name."""

import contextlib
import itertools
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from aiocg.transport.system import HAS_PIDFD, UNKNOWN_LIMIT, unnamed_file
from aiocg.workers.gcc._engine import failure
from aiocg.workers.gcc._runner import ENVIRONMENT, CommandRunner, Completed
from aiocg.workers.limits import adopt_orphans, children

MEMORY_LIMIT = 4 << 30  # bytes of address space of each process
FILE_LIMIT = 256 << 20  # bytes of each written file, including standard output and error
OUTPUT_LIMIT = 16 << 20  # limit in bytes for standard output and error
_INHERITED = ("PATH", "LD_LIBRARY_PATH", "HOME")
_MARK = "RUN_OF_AIOCG"
_PROGRAMS = ("cc1", "cc1plus", "as", "ld")  # run by the compiler, and possibly replaced independently of it
_ANSWER_TIMEOUT = 20.0  # seconds; less than a worker's start timeout
_LOOKS = 50  # attempts to read a process's environment
_WAIT = 1.0  # seconds at a time

_marks = itertools.count()
_spawning = threading.Lock()  # a child inherits this process's current limits


class LocalRunner:
    """Runs commands of a compiler that is installed here; see `CommandRunner`.

    Args:
        gcc_bin: a path, or a name on PATH.

    Raises:
        CompilationError: with `FailureCode.COMPILER` if there is no such compiler.
    """

    is_apart = False

    def __init__(self, gcc_bin: str) -> None:
        found = shutil.which(os.path.expanduser(gcc_bin))
        if found is None:
            raise failure(_not_found(gcc_bin))
        self.name = gcc_bin
        self.compiler = os.path.abspath(found)
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        self.memory = sys.maxsize if most == resource.RLIM_INFINITY else most
        self._temporary = tempfile.TemporaryDirectory(prefix="gcc-", ignore_cleanup_errors=True)
        self.root = os.path.realpath(self._temporary.name)
        self._environment = {name: os.environ[name] for name in _INHERITED if name in os.environ} | ENVIRONMENT
        self._environment["TMPDIR"] = self.root
        adopt_orphans()
        self._programs = [self.compiler]
        self.identity = self._identify()
        self._programs = [self.compiler, *[path for name in _PROGRAMS if (path := self._program(name))]]
        self.identity = self._identify()

    def _program(self, name: str) -> str:
        """Return the path of a program that the compiler runs; "" if unknown."""
        done = self.run([self.compiler, f"-print-prog-name={name}"], folder=self.root, timeout=_ANSWER_TIMEOUT)
        if done.stopped:
            said = f"-print-prog-name={name} does not work: no answer in {_ANSWER_TIMEOUT:g} s"
            raise failure(f"{self.name} {said}")
        said = os.fsdecode(done.output).strip()
        if done.status or (said != name and not os.path.isabs(said)):
            return ""
        found = shutil.which(said, path=self._environment.get("PATH"))
        return os.path.realpath(found) if found else ""

    def _identify(self) -> str:
        """Compute the current `identity`.

        Raises:
            CompilationError: with `FailureCode.COMPILER` if the compiler is gone.
        """
        try:
            status = [os.stat(program) for program in self._programs]
        except OSError as error:
            raise failure(f"the compiler {error.filename} is gone: {error.strerror}", reason="gone") from None
        where = [self.compiler, os.path.realpath(self.compiler), *self._programs[1:]]
        return ":".join([*where, *[f"{one.st_size}:{one.st_mtime_ns}" for one in status]])

    def _check(self) -> None:
        """Raise if the compiler has changed: its output must not be mistaken for the old one's."""
        if self._identify() != self.identity:
            said = f"the compiler {self.compiler} was replaced while it was in use. Reset to go on with the new one"
            raise failure(said, reason="replaced")

    def run(
        self, command: Sequence[str], *, folder: str, timeout: float, stdin: bytes = b"", memory: int = 0
    ) -> Completed:
        """Run a command in a folder; see `CommandRunner`.

        Raises:
            CompilationError: with `FailureCode.COMPILER` if it cannot be started, or the compiler was replaced.
        """
        self._check()
        mark = f"{os.getpid()}-{next(_marks)}"
        others, environment = children(), {**self._environment, _MARK: mark}
        with _nameless() as given, _nameless() as output, _nameless() as errors:
            if stdin:
                os.pwrite(given, stdin, 0)
            started = time.monotonic()
            try:
                with _spawning, _limits(memory or MEMORY_LIMIT):
                    process = subprocess.Popen(
                        command, cwd=folder, env=environment, stdin=given, stdout=output, stderr=errors
                    )
            except OSError as error:
                raise failure(f"{command[0]} cannot be run in {folder}: {error.strerror}") from None
            with process:
                ended = _wait(process, timeout)
                if not ended:
                    process.kill()
                status = process.wait()
            _end_rest(mark, others)
            seconds = time.monotonic() - started
            self._check()  # the compiler may have been replaced during the run
            said, complaints = (os.pread(file, OUTPUT_LIMIT, 0) for file in (output, errors))
            return Completed(status, said, complaints, seconds, "" if ended else "timeout")

    def close(self) -> None:
        """Remove the folder; idempotent."""
        self._temporary.cleanup()


@contextlib.contextmanager
def _nameless() -> Iterator[int]:
    """Open a file in memory: it needs no disk space, and its readers need not wait for processes that keep it open."""
    descriptor = unnamed_file("aiocg")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _limits(memory: int) -> Iterator[None]:
    """Temporarily apply a compiler's limits to this process, so that a child inherits them."""
    wanted = {resource.RLIMIT_AS: memory, resource.RLIMIT_FSIZE: FILE_LIMIT}
    before = {limit: resource.getrlimit(limit) for limit in wanted}
    try:
        for limit, value in wanted.items():
            _, hard = before[limit]
            with contextlib.suppress(*UNKNOWN_LIMIT):
                resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
        yield
    finally:
        for limit, values in before.items():
            with contextlib.suppress(*UNKNOWN_LIMIT):
                resource.setrlimit(limit, values)


def _wait(process: "subprocess.Popen[bytes]", timeout: float) -> bool:
    """Wait for a child to end; return whether it ended within some seconds.

    On Linux, time during which this process was stopped does not count: a terminal stops the child as well.
    """
    if not HAS_PIDFD:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout)
        return process.returncode is not None
    descriptor = os.pidfd_open(process.pid)
    left = max(0.0, timeout)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while not poll.poll(min(left, _WAIT) * 1000):
            left -= _WAIT
            if left <= 0:
                return False
        return True
    finally:
        os.close(descriptor)


def _end_rest(mark: str, others: Collection[int]) -> None:
    """Kill all processes that a command left behind: orphans become this process's children.

    Args:
        mark: the mark in their environment.
        others: earlier children.
    """
    known = set(others)
    while found := children() - known:  # repeated, as ended processes may leave new orphans
        left = [pid for pid in found if _has_mark(pid, mark)]
        known |= found.difference(left)
        for pid in left:  # kill all before waiting: they may be starting others
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _has_mark(pid: int, mark: str) -> bool:
    for _ in range(_LOOKS):
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False
        if environment:
            return f"{_MARK}={mark}".encode() in environment.split(b"\0")
        time.sleep(0.001)  # the process is in exec, or has ended
    return False


def _not_found(gcc_bin: str) -> str:
    where = "there is no such file, or it cannot be executed" if "/" in gcc_bin else "it is not on PATH"
    return (
        f"there is no compiler {gcc_bin!r}: {where}. Install GCC (Debian and Ubuntu: apt install gcc; Fedora: "
        "dnf install gcc), or say which one to use, by gcc_bin: a name such as gcc-12, a path, or docker:gcc:13"
    )


DOCKER = "docker:"


def open_runner(gcc_bin: str) -> CommandRunner:
    """Return the runner of a compiler.

    Args:
        gcc_bin: a path, a name on PATH, or `docker:` and the name of an image.

    Raises:
        CompilationError: with `FailureCode.COMPILER` if there is no such compiler.
    """
    if gcc_bin.startswith(DOCKER):
        from aiocg.workers.gcc._container import ContainerRunner  # its imports are slow, and only containers need them

        return ContainerRunner(gcc_bin.removeprefix(DOCKER))
    return LocalRunner(gcc_bin)
