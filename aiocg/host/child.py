"""Child processes. The death of a process is noticed at once, even while its descendants hold its pipes open."""

import asyncio
import contextlib
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Self

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
