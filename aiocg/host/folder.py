"""The runtime's private folder, and the janitor process that removes it even if we are killed."""

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

_MAX_SOCKET_PATH = 80  # bytes of the folder's path, so that paths of sockets in it fit the system's limit of 107
_JANITOR_TIMEOUT = 10.0  # seconds that the janitor may take to remove the folder


class RuntimeFolder:
    """A folder of mode 0700 for sockets; a janitor process removes it once this process has closed it or died."""

    def __init__(self, path: Path, janitor: asyncio.subprocess.Process) -> None:
        self.path = path
        self._janitor = janitor

    @classmethod
    async def create(cls) -> Self:
        """Start the janitor, then make the folder, so that there is no moment when a kill would leave it behind.

        Raises:
            WorkerStartError: if no folder can be made, or no process can be started.
        """
        name = f"aiocg-{secrets.token_hex(8)}"
        try:
            path = Path(scratch.parent_folder(), name)
        except OSError as error:
            raise _no_folder(error) from error
        if len(os.fsencode(path)) > _MAX_SOCKET_PATH:
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
        """Make the folder again if it was removed, for example by a cleaner of temporary files.

        Raises:
            OSError: if that is not possible, or something else is in its place.
        """
        with contextlib.suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
        found = self.path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise PermissionError(f"{self.path} has been replaced by something else")
        if found.st_mode & 0o077:  # a worker made it again, as the parent of its own folder
            self.path.chmod(0o700)

    def guard(self, group: int) -> None:
        """Have the janitor kill a process group when we die."""
        self._tell(f"+{group}\n")

    def release(self, group: int) -> None:
        """Tell the janitor that a process group has ended."""
        self._tell(f"-{group}\n")

    def _tell(self, line: str) -> None:
        assert self._janitor.stdin is not None
        if not self._janitor.stdin.is_closing():
            self._janitor.stdin.write(line.encode())

    async def close(self) -> None:
        """Have the janitor remove the folder, and wait until it has; idempotent."""
        assert self._janitor.stdin is not None
        if self._janitor.returncode is None:
            self._tell("end\n")
            self._janitor.stdin.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._janitor.wait(), _JANITOR_TIMEOUT)
            with contextlib.suppress(OSError, TimeoutError):  # so that nothing is closed after the event loop
                await asyncio.wait_for(self._janitor.stdin.wait_closed(), 1.0)
        shutil.rmtree(self.path, ignore_errors=True)  # in case the janitor was killed


def _no_folder(error: OSError) -> WorkerStartError:
    return WorkerStartError(
        f"no folder for the runtime's sockets can be made ({error}); set TMPDIR to a short writable path"
    )
