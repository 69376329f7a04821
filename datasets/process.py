"""Running a compiler with bounded time, memory and output, cancellably."""

import contextlib
import contextvars
import os
import resource
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

from aiocg.datasets.errors import BenchmarkInitError, CompilationCancelled

MEMORY_LIMIT = 8 << 30  # bytes of address space: a runaway template must not take the machine with it
MESSAGE_LIMIT = 64 << 10  # bytes of diagnostics that are kept
POLL_INTERVAL = 0.05  # seconds between looks at the cancellation event
SIGNAL_INTERVAL = 0.5  # seconds until a signal is handled that did not wake the thread that waits

_cancellation: contextvars.ContextVar[threading.Event | None] = contextvars.ContextVar("cancellation", default=None)


class TimedOut(Exception):
    """The process ran past its time and was killed."""


class Cancelled(Exception):
    """The caller set the cancellation event; the process was killed."""


@contextlib.contextmanager
def cancellable(event: threading.Event) -> Iterator[None]:
    """Let an event stop every compiler started in this context.

    Compilation is synchronous and often runs in a thread. The event reaches it through the context, which
    `asyncio.to_thread` and anyio copy into the thread:

        stop = threading.Event()
        with cancellable(stop):
            try:
                content = await asyncio.to_thread(lambda: benchmark.content)
            except asyncio.CancelledError:
                stop.set()
                raise
    """
    token = _cancellation.set(event)
    try:
        yield
    finally:
        _cancellation.reset(token)


def check_cancelled() -> None:
    """Raise if the caller has cancelled; long computations call this repeatedly.

    Raises:
        Cancelled: when the event of `cancellable` was set.
    """
    event = _cancellation.get()
    if event is not None and event.is_set():
        raise Cancelled


@contextlib.contextmanager
def told_of(name: str, tool: str, *, late: str, cancelled: str) -> Iterator[None]:
    """Turn what keeps a tool from its end into errors of a benchmark, with these reasons.

    Raises:
        BenchmarkInitError: when it took too long, or cannot be started.
        CompilationCancelled: when the event of `cancellable` was set.
    """
    try:
        yield
    except TimedOut:
        raise BenchmarkInitError(name, late) from None
    except Cancelled:
        raise CompilationCancelled(name, cancelled) from None
    except OSError as error:
        raise BenchmarkInitError(name, f"{tool} cannot be started: {error.strerror or error}") from error


def run_bounded(command: Sequence[str], *, cwd: str, env: Mapping[str, str], timeout: float) -> tuple[int, str]:
    """Run a command and return its exit status and the beginning of its standard error.

    Args:
        env: the whole environment.

    Raises:
        TimedOut: when it took longer.
        Cancelled: when the event of `cancellable` was set.
        OSError: when it cannot be started.
    """
    cancelled = _cancellation.get()
    deadline = time.monotonic() + timeout
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    process = subprocess.Popen(command, cwd=cwd, env=env, stdin=null, stdout=null, stderr=pipe, start_new_session=True)
    assert process.stderr is not None
    with process.stderr:
        try:
            _limit_memory(process.pid)
            messages = _read_messages(process.stderr, deadline, cancelled)
            status = process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise TimedOut from None
        finally:
            if process.returncode is None:
                _kill(process)
    return status, messages.decode(errors="replace")


def _read_messages(stream: IO[bytes], deadline: float, cancelled: threading.Event | None) -> bytes:
    """Read standard error until the process ends."""
    kept = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while True:
            if cancelled is not None and cancelled.is_set():
                raise Cancelled
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimedOut
            if not selector.select(min(remaining, POLL_INTERVAL if cancelled else SIGNAL_INTERVAL)):
                continue
            chunk = os.read(stream.fileno(), 1 << 16)
            if not chunk:
                return bytes(kept)
            kept += chunk[: MESSAGE_LIMIT - len(kept)]


def _limit_memory(pid: int) -> None:
    if hasattr(resource, "prlimit"):
        with contextlib.suppress(OSError, ValueError):  # it has ended, or a lower limit is in force
            resource.prlimit(pid, resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
