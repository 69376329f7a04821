"""Workers on this machine: child processes, with sockets in a private folder."""

import asyncio
import contextlib
import functools
import importlib.util
import itertools
import json
import math
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from aiocg.errors import AiocgError, WorkerStartError
from aiocg.host import janitor
from aiocg.host.folder import RuntimeFolder
from aiocg.host.launcher import Look
from aiocg.host.nursery import ALLOCATOR, Child, Nursery, NurseryGone, Started, shared_folder, socket_of
from aiocg.host.run_time import RunTime
from aiocg.host.threads import in_thread
from aiocg.transport.channels import RequestChannel
from aiocg.transport.messages import Reply
from aiocg.transport.status import StatusPage
from aiocg.transport.streams import ClientStream
from aiocg.transport.system import HAS_PIDFD, processors

if TYPE_CHECKING:
    from aiocg.registry import EnvironmentSpec

_PAUSED = (b"T", b"t")  # states of a process that a signal or a debugger has stopped
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_STDERR_TAIL = 4096  # bytes kept of the end of a worker's stderr

_names = itertools.count()  # numbers for the names of workers, unique over all folders


# ----------------------------------------------- Folders in which workers share transitions; see `aiocg.workers.memory`

VARIABLE = "AIOCG_MEMORY"
SERVERS = ("redis://", "rediss://", "unix://")

Places = str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None
"""Folders and addresses of servers; in one text, commas separate them."""


def choose_memory(given: Places) -> str:
    """Return the value of AIOCG_MEMORY for workers: what was given, or else the variable's own, with absolute paths.

    Raises:
        AiocgError: if a place cannot be used.
    """
    if given is None:
        given = os.environ.get(VARIABLE, "")
    if isinstance(given, str | os.PathLike):
        given = os.fspath(given).split(",")
    return ",".join(_checked(os.fspath(place).strip()) for place in given if place)


def _checked(place: str) -> str:
    if place.startswith(SERVERS):
        if importlib.util.find_spec("redis") is None:
            raise AiocgError("a memory on a server needs its client: pip install 'aiocg[redis]'")
        return place
    path = os.path.abspath(os.path.expanduser(place))
    if "://" in place or "," in place or (os.path.exists(path) and not os.path.isdir(path)):
        raise AiocgError(f"{place!r} is no place for a memory: expected a folder, or redis://HOST:PORT")
    return path


# ------------------------------------------- Workers on this machine: child processes, with sockets in a private folder


class _Endpoint(Protocol):
    """Where one worker listens.

    Attributes:
        arguments: command-line arguments that tell the worker where and how to listen.
        descriptors: file descriptors that the worker inherits for this.
    """

    arguments: list[str]
    descriptors: list[int]

    def inherited(self) -> None:
        """Close what only the worker needs, after its process has been started."""

    def reachable(self) -> bool:
        """Return whether clients can connect, once the worker listens."""

    def connect(
        self, on_replies: Callable[[list[Reply]], None], on_error: Callable[[Exception], None]
    ) -> RequestChannel:
        """Open a channel to the worker, which may not listen yet."""

    def close(self) -> None:
        """Clean up, after the process has ended or could not be started; idempotent."""


class SocketFile:
    """A socket in a private folder, for a client on the same machine.

    Attributes:
        address: address of the socket.

    Args:
        path: path of the socket.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.address = f"ipc://{path}"
        self.arguments = ["--address", self.address]
        self.descriptors: list[int] = []

    def inherited(self) -> None:
        """Do nothing: the worker inherits no descriptors for its socket."""

    def reachable(self) -> bool:
        """Return whether the socket still exists."""
        return os.path.exists(self._path)

    def connect(
        self, on_replies: Callable[[list[Reply]], None], on_error: Callable[[Exception], None]
    ) -> RequestChannel:
        """Open a channel to the worker, which may not listen yet."""
        return ClientStream(self.address, on_replies=on_replies, on_error=on_error)

    def close(self) -> None:
        """Remove the socket."""
        with contextlib.suppress(OSError):
            self._path.unlink()


class LocalMachine:
    """Runs workers on this machine; the folder is made with the first launcher.

    Args:
        memory: where the workers remember transitions for others; see `shared_memory`.
    """

    def __init__(self, memory: str = "") -> None:
        self._memory = memory
        self._folder: RuntimeFolder | None = None
        self._nurseries: list[Nursery] = []

    @property
    def path(self) -> Path | None:
        """The private folder with the workers' sockets, None until it is made."""
        return self._folder.path if self._folder is not None else None

    @property
    def workers(self) -> int:
        """As many workers as there are usable processors; one where processes share a nursery, as each has its own."""
        return 1 if shared_folder() else len(processors())

    async def launcher(self, spec: "EnvironmentSpec", options: Mapping[str, Any], memory_limit: int) -> "LocalLauncher":
        """Return what starts the workers of an environment; see `Machine`.

        Raises:
            WorkerStartError: if no folder can be made, or no process can be started.
        """
        if self._folder is None:
            self._folder = await RuntimeFolder.create()
        if spec.prepare is not None:
            await in_thread(functools.partial(spec.prepare, spec.settings))
        launcher = LocalLauncher(
            spec.worker,
            self._folder,
            options={
                "shared_folder": str(self._folder.path),
                **await in_thread(functools.partial(spec.options, spec.settings)),
                **spec.settings,
                **options,
            },
            environ={**await in_thread(spec.environ), VARIABLE: self._memory},  # with passwords: no argument
            memory_limit=memory_limit,
            endpoint=SocketFile,
        )
        if spec.forked and HAS_PIDFD:
            self._nurseries.append(launcher.use_nursery())
        return launcher

    async def share(self, spec: "EnvironmentSpec", memory_limit: int) -> None:
        """Let other processes fork their workers of an environment from ours; they find its socket in our folder.

        Raises:
            WorkerStartError: if no folder can be made, or no process can be started.
        """
        if spec.forked and not HAS_PIDFD:
            raise WorkerStartError("only on Linux can processes fork their workers from one that has the compiler")
        launcher = await self.launcher(spec, {}, memory_limit)
        if spec.forked:
            try:
                await launcher.share()
            except OSError as error:
                raise WorkerStartError(f"no process that workers are forked from can be started: {error}") from error

    def stop(self) -> None:
        """Start no more workers: waiting calls raise `RuntimeClosed`. Existing workers live on."""
        for nursery in self._nurseries:
            nursery.stop()

    async def close(self) -> None:
        """Remove the folder; idempotent."""
        await asyncio.gather(*(nursery.close() for nursery in self._nurseries))
        folder, self._folder = self._folder, None
        if folder is not None:
            await folder.close()


class LocalLauncher:
    """Starts workers of one kind on this machine.

    Args:
        kind: the kind of worker.
        folder: folder for their sockets and temporary files.
        options: options for the compiler.
        environ: environment variables to set in addition to ours.
        memory_limit: address space of each in bytes, 0 for no limit.
        endpoint: makes a worker's endpoint from a path that is its own.
        tuned: tune malloc for compilers, as in workers that are forked.
    """

    def __init__(
        self,
        kind: str,
        folder: RuntimeFolder,
        *,
        options: Mapping[str, Any],
        environ: Mapping[str, str],
        memory_limit: int,
        endpoint: Callable[[Path], _Endpoint] = SocketFile,
        tuned: bool = False,
    ) -> None:
        self._kind = kind
        self._folder = folder
        self._options = options
        self._environ = environ
        self._memory_limit = memory_limit
        self._endpoint = endpoint
        self._tuned = tuned
        self._nursery: Nursery | None = None

    def use_nursery(self) -> Nursery:
        """Fork the workers from one process, which the caller must stop and close."""
        scratch = self._folder.path / f"{self._kind}-{next(_names)}.nursery"
        others = shared_folder()
        self._tuned = True
        self._nursery = Nursery(self._arguments(), scratch, self._folder, self._socket(others) if others else None)
        return self._nursery

    async def share(self) -> None:
        """Let other processes fork workers of this kind from our nursery; see `Nursery.share`."""
        assert self._nursery is not None
        await self._nursery.share(self._socket(self._folder.path), {**os.environ, **self._environ})

    def _socket(self, folder: Path) -> Path:
        return socket_of(folder, self._kind, self._memory_limit, {**self._options, **self._environ})

    def _arguments(self) -> list[str]:
        return [self._kind, "--memory-limit", str(self._memory_limit), "--options", json.dumps(dict(self._options))]

    async def spawn(self) -> "LocalProcess":
        """Start a worker; see `Launcher`."""
        path = self._folder.path / f"{self._kind}-{next(_names)}"
        self._folder.ensure()
        scratch = Path(f"{path}.tmp")  # for its temporary files; removed with the worker
        with contextlib.ExitStack() as undo:
            scratch.mkdir()
            undo.callback(shutil.rmtree, scratch, ignore_errors=True)
            status = StatusPage.create()
            undo.callback(status.close)
            endpoint = self._endpoint(path)
            undo.callback(endpoint.close)
            process = await self._start(endpoint, status, scratch)
            undo.pop_all()
        endpoint.inherited()
        self._folder.guard(process.pid)
        return LocalProcess(process, endpoint, scratch, status, self._folder)

    async def _start(self, endpoint: _Endpoint, status: StatusPage, scratch: Path) -> Child:
        environ = {**os.environ, **self._environ, "TMPDIR": str(scratch)}
        if self._nursery is not None and isinstance(endpoint, SocketFile):
            with contextlib.suppress(NurseryGone):
                return await self._nursery.fork(endpoint.address, environ, status.descriptor)
        allocator = {name: value for name, value in ALLOCATOR.items() if self._tuned and name not in environ}
        command = [
            *(sys.executable, "-P", "-m", "aiocg.workers", *self._arguments(), *endpoint.arguments),
            *("--parent", str(os.getpid()), "--status", str(status.descriptor)),
            *(f"--unset={name}" for name in allocator),
        ]
        return await Started.start(command, environ | allocator, (status.descriptor, *endpoint.descriptors))


class LocalProcess:
    """A worker process on this machine; see `WorkerProcess`.

    Attributes:
        pid: process id.
        endpoint: its endpoint.
    """

    def __init__(
        self, process: Child, endpoint: _Endpoint, scratch: Path, status: StatusPage, folder: RuntimeFolder
    ) -> None:
        self.pid = process.pid
        self.endpoint = endpoint
        self._process = process
        self._scratch = scratch
        self._status = status
        self._folder = folder
        self._tail = bytearray()
        self._nice = 0
        self._run_time = RunTime()
        self._over = False  # it was reaped, so its process id may have been reused
        self._reader = asyncio.create_task(self._read_stderr())

    async def _read_stderr(self) -> None:
        while chunk := await self._process.stderr.read(65536):
            self._tail += chunk
            del self._tail[:-_STDERR_TAIL]

    def look(self) -> Look:
        """Return what can be seen of the process now; pauses count as no time of what it is executing."""
        sequence, execution = self._status.read()
        unreachable = sequence > 0 and not self.endpoint.reachable()
        state, processor, memory = self._state()
        started = execution.started if execution is not None else math.inf
        paused = self._run_time.looked(
            time.monotonic(), sequence, started, state in _PAUSED, processor, self._status.beats()
        )
        if execution is not None and paused:
            execution = replace(execution, started=started + paused, deadline=execution.deadline + paused)
        return Look(sequence, execution, state == b"T", memory, self._status.counts(), unreachable)

    def renice(self, nice: int) -> None:
        """Set by how much the process is nicer than this one; a decrease has no effect without the privilege for it.

        With autogroups, the system weighs sessions instead of processes, so this also sets the session's value.
        """
        if nice == self._nice:
            return
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PGRP, self.pid, os.getpriority(os.PRIO_PROCESS, 0) + nice)
        try:
            Path(f"/proc/{self.pid}/autogroup").write_text(str(nice))
        except BlockingIOError:  # too often: try again at the next call
            return
        except OSError:
            pass
        self._nice = nice

    def _state(self) -> tuple[bytes, float, int]:
        """Return the state of the main thread, the processor time that it has had in seconds, and resident bytes."""
        try:
            with open(f"/proc/{self.pid}/task/{self.pid}/stat", "rb", buffering=0) as file:
                state, *fields = file.read().rpartition(b")")[2].split()
            processor = (int(fields[10]) + int(fields[11])) / _CLOCK_TICKS
            return state, processor, int(fields[20]) * resource.getpagesize()
        except (OSError, ValueError, IndexError):
            return b"", 0.0, 0

    def connect(
        self, on_replies: Callable[[list[Reply]], None], on_error: Callable[[Exception], None]
    ) -> RequestChannel:
        """Open a channel to the worker, which may not listen yet."""
        return self.endpoint.connect(on_replies, on_error)

    def kill(self) -> None:
        """Kill the process and all its children."""
        if self._over:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    async def wait(self) -> int:
        """Wait for the end of the process and of its output; return its exit status, minus the signal if killed."""
        return_code = await self._process.wait()
        self.kill()  # children it may have left
        if isinstance(self._process, Started):  # a nursery does this for its own workers
            await in_thread(functools.partial(janitor.end_users_of, str(self._scratch)))
        self._over = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._reader, 1.0)
        return return_code

    @property
    def stderr(self) -> str:
        """The last lines that the process wrote."""
        return self._tail.decode(errors="replace").strip()

    def close(self) -> None:
        """Free our resources for the dead process, including its files."""
        self.kill()
        self._folder.release(self.pid)
        self._reader.cancel()
        self._process.close()
        self._status.close()
        self.endpoint.close()
        shutil.rmtree(self._scratch, ignore_errors=True)
