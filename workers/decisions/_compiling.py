"""Compiles in processes of their own, which wait for decisions and can be forked there."""

import array
import atexit
import contextlib
import ctypes
import fcntl
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
import time
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.decisions._channel import Ended, Question, Reader
from aiocg.workers.limits import CRASH_SIGNALS, die_with_parent
from aiocg.workers.llvm.module import LlvmError
from aiocg.workers.llvm.native_code import find_or_build

_SOURCE = Path(__file__).with_name("fork.c")
_ANSWERS, _QUESTIONS, _CONTROL, _OTHERS = 3, 4, 5, 6  # descriptors of a process that compiles, as in fork.c
_MOST_DESCRIPTORS = 1 << 20
_SIGNAL = signal.SIGUSR1
_RESTART = 0x10000000  # SA_RESTART
_GRACE = 0.1  # share of the time left that is not waited for, so that the worker answers before it is killed
_SECONDS = 20.0  # for the reply to a fork

_dying: set[int] = set()  # processes that were killed, and have not been waited for

Work = Callable[[], tuple[dict[str, Any], bytes]]


class _Action(ctypes.Structure):
    """`struct sigaction` of the C library."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class Compiler:
    """Starts compiles.

    Args:
        clang: compiles the signal's handler, if it is not in the cache yet.
        cache: folder that keeps it.
        version: of the library.
        folder: for two links; LLVM opens the channel by a path.

    Raises:
        CompilationError: with `FailureCode.COMPILER` if the handler cannot be compiled.
    """

    def __init__(self, clang: str, cache: Path, version: str, folder: Path) -> None:
        self.channel = folder / "channel"
        for end, descriptor in (("in", _ANSWERS), ("out", _QUESTIONS)):
            (folder / f"channel.{end}").symlink_to(f"/proc/self/fd/{descriptor}")
        self._native = ctypes.CDLL(str(find_or_build(_SOURCE, clang, cache / "native", version)))
        self._native.aiocg_fork_of.argtypes = (ctypes.c_ulong,)
        self._libc = ctypes.CDLL(None, use_errno=True)

    def start(self, work: Work, deadline: float) -> "Compile":
        """Start a compile, and wait for its first decision or its end.

        Args:
            work: compiles, in a process forked from this one; returns what is measured, and the object file.
            deadline: seconds of the monotonic clock.

        Raises:
            CompilationError: with `FailureCode.ACTION` if it fails, dies or takes too long.
        """
        sys.stdout.flush()
        ends = _Ends()
        worker = os.getpid()
        try:
            process = os.fork()
        except OSError as error:
            ends.close()
            raise NoRoom(str(error)) from None
        if process == 0:
            self._compile(work, worker, ends)
        compile_ = Compile(process, ends.kept(), Reader())
        compile_.wait(deadline)
        return compile_

    def _compile(self, work: Work, worker: int, ends: "_Ends") -> NoReturn:
        try:
            die_with_parent(worker)
            gc.disable()  # it would copy memory that is shared
            ends.take()
            try:
                self._listen(worker)
                _write(*work())
            except BaseException as error:
                known = isinstance(error, CompilationError | LlvmError)
                _write({"failure": str(error) if known else traceback.format_exc()}, b"")
        finally:
            os._exit(0)

    def _listen(self, worker: int) -> None:
        """Have the signal fork this process, and crashes end it."""
        self._native.aiocg_fork_of(worker)
        for number in (*CRASH_SIGNALS, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        action = _Action(ctypes.cast(self._native.aiocg_fork, ctypes.c_void_p).value, flags=_RESTART)
        self._libc.sigaction(_SIGNAL, ctypes.byref(action), None)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())


class NoRoom(CompilationError):
    """The system has no room for another process, or for its descriptors."""

    def __init__(self, reason: str) -> None:
        super().__init__(FailureCode.ACTION, f"there is no room for another compile: {reason}")


class Killed(CompilationError):
    """Somebody has killed the process: it can be that another one gets further."""


class _Ends:
    """Both ends of the channel of a new process: answers, questions, control."""

    def __init__(self) -> None:
        made: list[int] = []
        try:
            for _ in range(2):
                made += os.pipe()
            self.control = socket.socketpair()
        except OSError as error:
            for descriptor in made:
                os.close(descriptor)
            raise NoRoom(str(error)) from None
        self.answers, self.questions = (made[0], made[1]), (made[2], made[3])

    def theirs(self) -> tuple[int, int, int]:
        return self.answers[0], self.questions[1], self.control[1].fileno()

    def kept(self) -> tuple[int, int, int]:
        """Close the other side's ends, and return ours."""
        for descriptor in self.theirs():
            os.close(descriptor)
        self.control[1].detach()
        return self.answers[1], self.questions[0], self.control[0].detach()

    def close(self) -> None:
        for descriptor in self.kept():
            os.close(descriptor)

    def take(self) -> None:
        """Put the ends of the process that compiles where it expects them, and close all else."""
        high = [fcntl.fcntl(one, fcntl.F_DUPFD, _OTHERS) for one in self.theirs()]
        for descriptor, place in zip(high, (_ANSWERS, _QUESTIONS, _CONTROL), strict=True):
            os.dup2(descriptor, place)
        os.closerange(_OTHERS, _MOST_DESCRIPTORS)


def _write(facts: dict[str, Any], content: bytes) -> None:
    with os.fdopen(_QUESTIONS, "wb", closefd=False) as file:
        file.write(json.dumps({"facts": facts, "size": len(content)}).encode() + b"\n" + content)


def pass_on(**remarks: str) -> None:
    """Send remarks of LLVM's to the worker, from a process that compiles."""
    os.write(_QUESTIONS, json.dumps(remarks).encode() + b"\n")


class Compile:
    """A process that compiles. It waits for a decision, or it has ended; it dies with this object.

    Attributes:
        state: the decision that it waits for, or the end.
        process: its process id.
    """

    def __init__(self, process: int, ends: tuple[int, int, int], reader: Reader) -> None:
        self.process = process
        self._answers, self._questions, self._control = ends
        self._reader = reader
        self._end = weakref.finalize(self, _kill, os.getpid(), process, ends)
        self._poll = select.poll()
        self._poll.register(self._questions, select.POLLIN)
        self.state: Question | Ended

    @property
    def features(self) -> Any:
        """The features of its decisions; None if it has not asked for any."""
        return self._reader.features

    def is_alive(self) -> bool:
        """Whether it still waits: one that has died has hung up."""
        return not self._poll.poll(0)

    def answer(self, value: bytes, deadline: float) -> None:
        """Answer, and wait for what comes next.

        Raises:
            CompilationError: with `FailureCode.ACTION` if it fails, dies or takes too long; it is gone then.
        """
        with contextlib.suppress(BrokenPipeError):  # its death shows in what it writes
            os.write(self._answers, value)
        self.wait(deadline)

    def wait(self, deadline: float) -> None:
        """Wait for the next decision or the end; errors are those of `answer`."""
        found = None
        while found is None:
            left = (deadline - time.monotonic()) * (1 - _GRACE)
            if not self._poll.poll(max(0.0, min(left, 1e6)) * 1000):
                self.close()
                raise CompilationError(FailureCode.ACTION, "LLVM has not come to its next decision in time")
            if not (more := os.read(self._questions, 1 << 16)):
                cause = self._cause()
                kind = Killed if cause == signal.SIGKILL.name else CompilationError
                raise kind(FailureCode.ACTION, f"LLVM ended over this decision, by {cause}")
            try:
                found = self._reader.feed(more)
            except ValueError as error:
                self.close()
                raise CompilationError(
                    FailureCode.ACTION, f"LLVM does not keep to its channel's form: {error}"
                ) from None
        self.state = found
        if isinstance(found, Ended):
            self.close()
            if "failure" in found.facts:
                raise CompilationError(FailureCode.ACTION, found.facts["failure"])

    def fork(self) -> "Compile":
        """Fork it where it waits.

        Raises:
            NoRoom: if the system has no room for another process.
            Killed: if it has died.
        """
        ends = _Ends()
        control = socket.socket(fileno=self._control)
        control.settimeout(_SECONDS)
        try:
            control.sendmsg([b"F"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", ends.theirs()))])
            os.kill(self.process, _SIGNAL)
            process = struct.unpack("q", control.recv(8))[0]
            failure: CompilationError = NoRoom(os.strerror(-process) if process < 0 else "")
        except (OSError, struct.error) as error:
            process, failure = 0, Killed(FailureCode.ACTION, f"a compile that waits does not: {error}")
        finally:
            control.detach()
        if process <= 0:
            ends.close()
            raise failure
        child = Compile(process, ends.kept(), Reader(self._reader.features, self._reader.context))
        child.state = self.state
        return child

    def close(self) -> None:
        """End it."""
        self._end()

    def _cause(self) -> str:
        self._end.detach()
        for descriptor in (self._answers, self._questions, self._control):
            os.close(descriptor)
        try:
            status = os.waitpid(self.process, 0)[1]
        except ChildProcessError:
            return "an unknown cause"
        number = os.waitstatus_to_exitcode(status)
        return signal.Signals(-number).name if number < 0 else f"exit status {number}"


def _kill(worker: int, process: int, descriptors: tuple[int, int, int]) -> None:
    if os.getpid() != worker:  # in a process that was forked from it, and frees objects
        return
    for descriptor in descriptors:
        os.close(descriptor)
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    _dying.add(process)
    _reap(os.WNOHANG)  # it takes a millisecond until a process is gone


@atexit.register
def _reap(how: int = 0) -> None:
    for process in list(_dying):
        with contextlib.suppress(ChildProcessError):
            if not os.waitpid(process, how)[0]:
                continue
        _dying.discard(process)
