"""Workers forked from a process that has already loaded their compiler; `aiocg.workers.nursery` is that process."""

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from aiocg.errors import RuntimeClosed
from aiocg.host.folder import RuntimeFolder
from aiocg.transport.system import HAS_PIDFD


class Child:
    """A process whose end is reported to us.

    Attributes:
        pid: process id.
        stderr: what the process writes to its standard error.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.stderr = asyncio.StreamReader()
        self._pipe: asyncio.ReadTransport | None = None
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def read_from(self, descriptor: int) -> None:
        """Connect `stderr` to a pipe."""
        loop = asyncio.get_running_loop()
        self._pipe, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self.stderr), os.fdopen(descriptor, "rb", 0)
        )

    def end(self, status: int) -> None:
        """Record the exit status."""
        if not self._ended.done():
            self._ended.set_result(status)

    async def wait(self) -> int:
        """Wait for the end of the process; return its exit status, minus the signal if killed."""
        return await asyncio.shield(self._ended)

    def close(self) -> None:
        """Reap the process, if it is dead; its process id may then be reused."""
        if self._pipe is not None:
            self._pipe.close()


class Started(Child):
    """A child of this process. On Linux it is a zombie from its death until `close`."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        super().__init__(process.pid)
        self._process = process
        self._closed = False
        loop = asyncio.get_running_loop()
        if HAS_PIDFD:
            self._watch = os.pidfd_open(process.pid)  # readable once the process is dead, unlike asyncio's own wait
            loop.add_reader(self._watch, self._died)
        else:
            threading.Thread(target=self._await_death, args=(loop,), daemon=True).start()

    @classmethod
    async def start(cls, command: Sequence[str], environ: Mapping[str, str], descriptors: Sequence[int]) -> Self:
        """Start a command in a session and process group of its own.

        Args:
            command: the command and its arguments.
            environ: its environment variables.
            descriptors: file descriptors that it inherits.

        Raises:
            OSError: if no process can be created now.
        """
        reader, writer = os.pipe()
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=writer,
                pass_fds=descriptors,
                env=environ,
                start_new_session=True,  # keeps the terminal's Ctrl-C away, and makes a process group to kill
            )
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        child = cls(process)
        await child.read_from(reader)
        return child

    def _died(self) -> None:
        asyncio.get_running_loop().remove_reader(self._watch)
        os.close(self._watch)
        result = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        assert result is not None
        self.end(result.si_status if result.si_code == os.CLD_EXITED else -result.si_status)
        if self._closed:
            self._process.wait()

    def _await_death(self, loop: asyncio.AbstractEventLoop) -> None:
        status = self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self.end, status)

    def close(self) -> None:
        """Reap the process, now or when it dies."""
        super().close()
        self._closed = True
        if self._ended.done():
            with contextlib.suppress(ChildProcessError):
                self._process.wait()


ALLOCATOR = {
    "GLIBC_TUNABLES": ":".join(
        f"glibc.malloc.{name}={value}"
        for name, value in (
            ("hugetlb", 1),  # transparent huge pages
            ("tcache_count", 2000),  # cached free blocks of each size
            ("mxfast", 0),  # no fast bins, which are merged all at once
            ("mmap_threshold", 32 << 20),
            ("trim_threshold", 256 << 20),  # bytes that a worker keeps for the next module
        )
    )
}
"""Tunes malloc for compilers, which allocate and free many small objects: modules stay close together in memory."""

VARIABLE = "AIOCG_NURSERY"
"""The environment variable that names a folder with the sockets of nurseries that others may order workers from."""

PATIENCE = 30.0  # seconds that a nursery may take to load the compiler and fork
CLOSE_PATIENCE = 1.0  # seconds that it may take to end when it is idle


def shared_folder() -> Path | None:
    """Return the folder with the sockets of shared nurseries, None if there is none, or none any more."""
    path = os.environ.get(VARIABLE)
    return Path(path) if path and os.path.isdir(path) else None


def socket_of(folder: Path, kind: str, memory_limit: int, options: Mapping[str, Any]) -> Path:
    """Return the path of the socket of a nursery, which only those find who would start it in the same way."""
    text = json.dumps([sys.executable, kind, memory_limit, {**options, "shared_folder": ""}], sort_keys=True)
    return folder / f"nursery-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


class NurseryGone(Exception):
    """There is no nursery, or it has died: the worker must be started without one."""


class Forked(Child):
    """A process forked by a nursery, which reports its end to us."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        super().__init__(pid)
        self._connection = connection

    def close(self) -> None:
        """Have the nursery reap the process, if it is dead; its process id may then be reused."""
        if self._ended.done():
            with contextlib.suppress(OSError):  # the nursery is gone, and the process was reaped with it
                self._connection.send(json.dumps({"reap": self.pid}).encode())
        super().close()


class Nursery:
    """Forks workers of one kind from a process that is started with the first worker, and again if it has died.

    Args:
        arguments: command-line arguments of the process, which say what to load.
        scratch: folder for its temporary files.
        folder: the runtime's folder, whose janitor guards the process.
        shared: socket of a nursery of another process, which is used instead for as long as somebody listens there.
    """

    def __init__(
        self, arguments: Sequence[str], scratch: Path, folder: RuntimeFolder, shared: Path | None = None
    ) -> None:
        self._shared = shared
        self._arguments = arguments
        self._scratch = scratch
        self._folder = folder
        self._turn = asyncio.Lock()  # held while a worker is being forked
        self._connection: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._answer: asyncio.Future[Forked] | None = None
        self._workers: dict[int, Forked] = {}
        self._proven = False  # a nursery has forked a worker
        self._given_up = self._stopped = False

    async def fork(self, address: str, environ: Mapping[str, str], status: int) -> Forked:
        """Fork a worker.

        Args:
            address: where it should listen.
            environ: its environment variables.
            status: file descriptor of its status page.

        Raises:
            NurseryGone: if there is no working nursery.
            OSError: if no process can be created now.
            RuntimeClosed: after `stop`.
        """
        async with self._turn:
            if self._stopped:
                raise RuntimeClosed("the runtime was closed")
            if self._given_up:
                raise NurseryGone
            reader, writer = os.pipe()
            try:
                if self._connection is None:
                    await self._begin(environ)
                worker = await self._order(address, environ, [writer, status])
            except NurseryGone:
                self._given_up = not self._proven
                await self._end()
                os.close(reader)
                raise
            except BaseException:
                os.close(reader)
                raise
            finally:
                os.close(writer)
            self._proven = True
            await worker.read_from(reader)
            return worker

    async def share(self, path: Path, environ: Mapping[str, str]) -> None:
        """Start the process, and let others on this machine order workers at a socket.

        Raises:
            OSError: if no process can be created now, or the path cannot be a socket.
        """
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(path))
            listener.listen()
            async with self._turn:
                self._shared = None
                if self._connection is None:
                    await self._begin(environ)
                assert self._connection is not None
                socket.send_fds(self._connection, [json.dumps({"share": True}).encode()], [listener.fileno()])

    def stop(self) -> None:
        """Fork no more: waiting calls raise `RuntimeClosed`. Existing workers live on."""
        self._stopped = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(RuntimeClosed("the runtime was closed"))

    async def close(self) -> None:
        """End the process and its remaining workers."""
        self.stop()
        async with self._turn:
            process = self._process
            if self._proven and process is not None:
                self._disconnect()  # the process sees this after it has reaped the dead workers
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), CLOSE_PATIENCE)
            await self._end()

    async def _begin(self, environ: Mapping[str, str]) -> None:
        if (shared := _connected(self._shared)) is not None:
            self._use(shared)
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._scratch.mkdir(exist_ok=True)
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", "aiocg.workers", *self._arguments),
                    *("--parent", str(os.getpid()), "--nursery", str(theirs.fileno())),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.DEVNULL,  # an error here happens again in a worker, where it is reported
                    pass_fds=(theirs.fileno(),),
                    env={**ALLOCATOR, **environ, "TMPDIR": str(self._scratch)},
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        self._folder.guard(self._process.pid)
        self._use(ours)

    def _use(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection
        asyncio.get_running_loop().add_reader(connection, self._read, connection)

    async def _order(self, address: str, environ: Mapping[str, str], descriptors: list[int]) -> Forked:
        assert self._connection is not None
        self._answer = asyncio.get_running_loop().create_future()
        order = json.dumps({"address": address, "environ": dict(environ)}).encode()
        try:
            socket.send_fds(self._connection, [order], descriptors)
        except OSError as error:
            raise NurseryGone from error
        try:
            await asyncio.wait([self._answer], timeout=PATIENCE)
            if not self._answer.done():  # what has come while we were busy counts
                raise NurseryGone
            return self._answer.result()
        finally:
            self._answer = None

    def _read(self, connection: socket.socket) -> None:
        try:
            content = connection.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            content = b""
        if not content:
            self._disconnect()
            return
        message: dict[str, Any] = json.loads(content)
        if "ended" in message:
            self._workers.pop(message["ended"]).end(message["status"])
            return
        worker = None
        if "started" in message:
            worker = self._workers[message["started"]] = Forked(message["started"], connection)
        if self._answer is None or self._answer.done():
            return
        if worker is not None:
            self._answer.set_result(worker)
        else:
            self._answer.set_exception(OSError(message["error"], os.strerror(message["error"])))

    def _disconnect(self) -> None:
        """Handle the end of the process; the kernel kills its workers with it."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        asyncio.get_running_loop().remove_reader(connection)
        connection.close()
        workers, self._workers = self._workers, {}
        for worker in workers.values():
            worker.end(-signal.SIGKILL)
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(NurseryGone())

    async def _end(self) -> None:
        """Kill the process, if there is one, and wait for its end."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            self._folder.release(process.pid)
            shutil.rmtree(self._scratch, ignore_errors=True)
        self._disconnect()


def _connected(path: Path | None) -> socket.socket | None:
    """Return a connection to a shared nursery, None if there is none."""
    if path is None:
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(PATIENCE)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        return None
    return connection
