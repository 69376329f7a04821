"""The runtime's private folder, and the janitor process that removes it whatever happens to us."""

import asyncio
import contextlib
import os
import secrets
import shutil
import stat
import sys
from pathlib import Path
from typing import Self

from aiocg.datasets import scratch
from aiocg.errors import WorkerStartError

MAX_SOCKET_PATH = 80  # bytes of folder path, so that the names inside fit the 107 of a Unix socket address
JANITOR_TIMEOUT = 10.0  # seconds the janitor may take to remove the folder


class RuntimeFolder:
    """A 0700 folder for sockets, removed by a janitor process once this process has closed it or has died."""

    def __init__(self, path: Path, janitor: asyncio.subprocess.Process) -> None:
        self.path = path
        self._janitor = janitor

    @classmethod
    async def create(cls) -> Self:
        """Start a janitor and make its folder, in this order: whenever we are killed, there is somebody to remove it.

        Raises:
            WorkerStartError: when there is no place for a folder, or no process can be started.
        """
        name = f"aiocg-{secrets.token_hex(8)}"
        try:
            path = Path(scratch.parent_folder(), name)
        except OSError as error:
            raise _no_folder(error) from error
        if len(os.fsencode(path)) > MAX_SOCKET_PATH:
            path = Path("/tmp", name)
        script = str(Path(__file__).with_name("janitor.py"))
        try:
            janitor = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", script, str(path), str(scratch.__file__), str(os.getpid())),
                stdin=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise WorkerStartError(f"the janitor process cannot be started: {error}") from error
        folder = cls(path, janitor)
        try:
            path.mkdir(mode=0o700)
        except OSError as error:
            await folder.close()
            raise _no_folder(error) from error
        return folder

    def ensure(self) -> None:
        """Make the folder again if somebody has removed it, for example what tidies up old temporary files.

        Raises:
            OSError: when that is not possible, or something else is in its place.
        """
        with contextlib.suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
        found = self.path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise PermissionError(f"{self.path} is not the folder that was made there")

    def guard(self, group: int) -> None:
        """Have a process group killed when we die."""
        self._tell(f"+{group}\n")

    def release(self, group: int) -> None:
        """Say that a process group is gone."""
        self._tell(f"-{group}\n")

    def _tell(self, line: str) -> None:
        assert self._janitor.stdin is not None
        if not self._janitor.stdin.is_closing():
            self._janitor.stdin.write(line.encode())

    async def close(self) -> None:
        """Have the folder removed and wait until it is; idempotent."""
        assert self._janitor.stdin is not None
        if self._janitor.returncode is None:
            self._tell("end\n")
            self._janitor.stdin.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._janitor.wait(), JANITOR_TIMEOUT)
            with contextlib.suppress(OSError, TimeoutError):  # or it would be closed when the event loop is gone
                await asyncio.wait_for(self._janitor.stdin.wait_closed(), 1.0)
        shutil.rmtree(self.path, ignore_errors=True)  # should the janitor itself have been killed


def _no_folder(error: OSError) -> WorkerStartError:
    return WorkerStartError(
        f"no folder for the runtime's sockets can be made ({error}); set TMPDIR to a short writable path"
    )
