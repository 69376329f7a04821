"""The file that keeps what was discovered of a compiler's options."""

import contextlib
import fcntl
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator

import msgspec

from aiocg.workers.gcc.compiler_options import CompilerOptions

__all__ = ["OptionsFile"]

_FORMAT = 1  # to be raised whenever other options are found of the same compiler, or the file has another form


class _Content(msgspec.Struct, frozen=True):
    """What is in the file; `format`, `compiler` and `version` say whether it is the right one."""

    format: int
    compiler: str
    version: str
    found: CompilerOptions


class OptionsFile:
    """JSON in a folder, one file for each compiler and version.

    A file that is damaged, of another compiler or of another format counts as none, and one that cannot be written is
    not there the next time: neither is an error.
    """

    def __init__(self, folder: str, compiler: str, version: str) -> None:
        self._folder = folder
        self._compiler = compiler
        self._version = version
        name = hashlib.sha256(f"{compiler}\n{version}".encode(errors="surrogateescape")).hexdigest()[:24]
        self._path = os.path.join(folder, f"gcc-options-{name}.json") if folder else ""

    def get(self, discover: Callable[[], CompilerOptions]) -> CompilerOptions:
        """Return what is in the file, or discover it and write it there, while no other process does the same."""
        if found := self._read():
            return found
        with self._alone():
            if found := self._read():
                return found
            found = discover()
            self._write(found)
            return found

    def _read(self) -> CompilerOptions | None:
        if not self._path:
            return None
        try:
            with open(self._path, "rb") as file:
                content = msgspec.json.decode(file.read(), type=_Content)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        wanted = (_FORMAT, self._compiler, self._version)
        return content.found if (content.format, content.compiler, content.version) == wanted else None

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from doing the same, where the folder can be written to."""
        lock = -1
        if self._path:
            with contextlib.suppress(OSError):
                os.makedirs(self._folder, exist_ok=True)
                lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            if lock >= 0:
                os.close(lock)

    def _write(self, found: CompilerOptions) -> None:
        if not self._path:
            return
        content = msgspec.json.encode(_Content(_FORMAT, self._compiler, self._version, found))
        with contextlib.suppress(OSError):
            file, name = tempfile.mkstemp(dir=self._folder, prefix=os.path.basename(self._path))
            try:
                with open(file, "wb") as written:
                    written.write(msgspec.json.format(content, indent=1))
                os.replace(name, self._path)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(name)
