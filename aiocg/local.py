"""Workers on this machine: processes of our own, with sockets in a private folder."""

import asyncio
import contextlib
import functools
import itertools
import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiocg.endpoint import Endpoint, SocketFile
from aiocg.folder import RuntimeFolder
from aiocg.launcher import Look
from aiocg.preparation import in_thread
from aiocg.transport.channels import RequestChannel
from aiocg.transport.messages import Reply
from aiocg.transport.status import StatusPage

if TYPE_CHECKING:
    from aiocg.registry import EnvironmentSpec

__all__ = ["LocalLauncher", "LocalPlace", "LocalProcess"]

STDERR_TAIL = 4096  # bytes of a worker's last words that are kept

_names = itertools.count()  # of workers, in whatever folder


class LocalPlace:
    """Runs workers on this machine; its folder is made with the first launcher."""

    def __init__(self) -> None:
        self._folder: RuntimeFolder | None = None

    @property
    def path(self) -> Path | None:
        """The private folder with the workers' sockets, None while there is none."""
        return self._folder.path if self._folder is not None else None

    @property
    def workers(self) -> int:
        """As many workers as there are usable processors."""
        return len(os.sched_getaffinity(0))

    async def launcher(self, spec: "EnvironmentSpec", options: Mapping[str, Any], memory_limit: int) -> "LocalLauncher":
        """Return what starts the workers of an environment; see `Place`.

        Raises:
            WorkerStartError: when there is no place for a folder, or no process can be started.
        """
        if self._folder is None:
            self._folder = await RuntimeFolder.create()
        if spec.prepare is not None:
            await in_thread(functools.partial(spec.prepare, spec.settings))
        return LocalLauncher(
            spec.worker,
            self._folder,
            options={
                "shared_folder": str(self._folder.path),
                **await in_thread(spec.options),
                **spec.settings,
                **options,
            },
            environ=await in_thread(spec.environ),
            memory_limit=memory_limit,
        )

    def stop(self) -> None:
        """Starting a worker takes no time here that would have to be ended."""

    async def close(self) -> None:
        """Remove the folder; idempotent."""
        folder, self._folder = self._folder, None
        if folder is not None:
            await folder.close()


class LocalLauncher:
    """Starts workers of one kind on this machine.

    Args:
        kind: of the workers.
        folder: for their sockets and temporary files.
        options: for the compiler.
        environ: environment variables that they need beside ours.
        memory_limit: address space of each in bytes, 0 for no limit.
        endpoint: makes the place where one listens, given a path in the folder that is its own.
    """

    def __init__(
        self,
        kind: str,
        folder: RuntimeFolder,
        *,
        options: Mapping[str, Any],
        environ: Mapping[str, str],
        memory_limit: int,
        endpoint: Callable[[Path], Endpoint] = SocketFile,
    ) -> None:
        self._kind = kind
        self._folder = folder
        self._options = options
        self._environ = environ
        self._memory_limit = memory_limit
        self._endpoint = endpoint

    async def spawn(self) -> "LocalProcess":
        """Start a worker; see `Launcher`."""
        path = self._folder.path / f"{self._kind}-{next(_names)}"
        self._folder.ensure()
        scratch = Path(f"{path}.tmp")  # for its temporary files; it goes when the worker does
        with contextlib.ExitStack() as undo:
            scratch.mkdir()
            undo.callback(shutil.rmtree, scratch, ignore_errors=True)
            status = StatusPage.create()
            undo.callback(status.close)
            endpoint = self._endpoint(path)
            undo.callback(endpoint.close)
            process = await self._execute(endpoint, status, scratch)
            undo.pop_all()
        endpoint.inherited()
        self._folder.guard(process.pid)
        return LocalProcess(process, endpoint, scratch, status, self._folder)

    async def _execute(self, endpoint: Endpoint, status: StatusPage, scratch: Path) -> asyncio.subprocess.Process:
        command = [
            *(sys.executable, "-P", "-m", "aiocg.workers", self._kind, *endpoint.arguments),
            *("--parent", str(os.getpid()), "--status", str(status.descriptor)),
            *("--memory-limit", str(self._memory_limit), "--options", json.dumps(dict(self._options))),
        ]
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=(status.descriptor, *endpoint.descriptors),
            env={**os.environ, **self._environ, "TMPDIR": str(scratch)},
            start_new_session=True,  # the terminal's Ctrl-C is for us; and a group of its own to kill
        )


class LocalProcess:
    """A worker process on this machine; see `WorkerProcess`.

    Attributes:
        pid: process id.
        endpoint: where it listens.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        endpoint: Endpoint,
        scratch: Path,
        status: StatusPage,
        folder: RuntimeFolder,
    ) -> None:
        self.pid = process.pid
        self.endpoint = endpoint
        self._process = process
        self._scratch = scratch
        self._status = status
        self._folder = folder
        self._tail = bytearray()
        self._over = False  # nothing is left of it, and its number may be another's
        self._reader = asyncio.create_task(self._read_stderr())

    async def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(65536):
            self._tail += chunk
            del self._tail[:-STDERR_TAIL]

    def look(self) -> Look:
        """Return what is to be seen of the process now."""
        sequence, execution = self._status.read()
        unreachable = sequence > 0 and not self.endpoint.reachable()
        return Look(sequence, execution, self._stopped(), self._memory(), self._status.counts(), unreachable)

    def _stopped(self) -> bool:
        try:
            return Path(f"/proc/{self.pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"T"
        except OSError:
            return False

    def _memory(self) -> int:
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_bytes().split()[1]) * resource.getpagesize()
        except (OSError, IndexError):
            return 0

    def connect(
        self, on_replies: Callable[[list[Reply]], None], on_error: Callable[[Exception], None]
    ) -> RequestChannel:
        """Open a channel to the worker, which may not listen yet."""
        return self.endpoint.connect(on_replies, on_error)

    def kill(self) -> None:
        """End the process and all its children at once."""
        if self._over:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    async def wait(self) -> int:
        """Wait for the end of the process and its last words; return its exit status, minus the signal if killed."""
        return_code = await self._process.wait()
        self.kill()  # children it may have left
        self._over = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._reader, 1.0)
        return return_code

    @property
    def stderr(self) -> str:
        """The last lines the process wrote."""
        return self._tail.decode(errors="replace").strip()

    def close(self) -> None:
        """Free what belongs to the dead process on our side, on disk too."""
        self.kill()
        self._folder.release(self.pid)
        self._reader.cancel()
        self._status.close()
        self.endpoint.close()
        shutil.rmtree(self._scratch, ignore_errors=True)
