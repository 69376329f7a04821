"""The file that keeps what was discovered of a compiler's options."""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable

import msgspec

from aiocg.workers.gcc.compiler_options import CompilerOptions
from aiocg.workers.gcc.locking import locked

__all__ = ["OptionsFile"]

PATIENCE = 120.0  # seconds for another process that discovers, which takes some; less than a worker may take to start
_FORMAT = 1  # to be raised whenever other options are found of the same compiler, or the file has another form


class _Content(msgspec.Struct, frozen=True):
    """What is in the file; `format`, `compiler` and `version` say whether it is the right one."""

    format: int
    compiler: str
    version: str
    found: CompilerOptions


class OptionsFile:
    """JSON in a folder, one file for each compiler and version.

    A file that is damaged, has no options, or is of another compiler or format counts as none, and one that cannot be
    written is not there the next time: neither is an error.
    """

    def __init__(self, folder: str, compiler: str, version: str) -> None:
        self._folder = folder
        self._compiler = compiler
        self._version = version
        name = hashlib.sha256(f"{compiler}\n{version}".encode(errors="surrogateescape")).hexdigest()[:24]
        self._path = os.path.join(folder, f"gcc-options-{name}.json") if folder else ""

    def get(self, discover: Callable[[], CompilerOptions]) -> CompilerOptions:
        """Return what is in the file, or discover it and write it there, while no other process does the same.

        Another process that does so for longer than `PATIENCE`, as one does that was stopped, is not waited for.
        """
        if found := self._read():
            return found
        with locked(f"{self._path}.lock", PATIENCE) if self._path else contextlib.nullcontext():
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
        is_right = (content.format, content.compiler, content.version) == wanted and content.found.options
        return content.found if is_right else None

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
