"""A folder for the content of programs, which the workers of one client share with each other and with their node."""

import contextlib
import hashlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_passing = itertools.count()  # numbers for the names of files that are being written


class ContentFolder:
    """Contents by their SHA-256, up to so many bytes together; a content that was kept stays until the folder goes.

    Several processes may use the folder at once. None believes what it reads before it has computed the hash.
    """

    def __init__(self, path: Path, most: int) -> None:
        self.path = path
        self._most = most

    def keep(self, content: bytes) -> bool:
        """Keep a content if there is room; return whether it is kept."""
        digest = hashlib.sha256(content).digest()
        with contextlib.suppress(OSError):  # such as a full disk
            if (self.path / digest.hex()).exists() or self.has_room(len(content)):
                with self.passing(digest) as file:
                    file.write(content)
                return True
        return False

    @contextlib.contextmanager
    def passing(self, digest: bytes) -> Iterator[BinaryIO]:
        """Open a file, which becomes a content when the block ends without an error.

        Raises:
            OSError: if it cannot be written.
        """
        passing = self.path / f"{os.getpid()}-{next(_passing)}"
        try:
            with open(passing, "wb") as file:
                yield file
            os.replace(passing, self.path / digest.hex())
        finally:
            passing.unlink(missing_ok=True)

    def has_room(self, size: int) -> bool:
        """Return whether another content of so many bytes would be kept."""
        with contextlib.suppress(OSError), os.scandir(self.path) as entries:
            return sum(map(_size, entries)) + size <= self._most
        return False

    def read(self, digest: bytes) -> bytes | None:
        """Return a content, None if it is not kept, or has been changed."""
        with contextlib.suppress(OSError):
            content = (self.path / digest.hex()).read_bytes()
            if hashlib.sha256(content).digest() == digest:
                return content
        return None

    def piece(self, digest: bytes, offset: int, size: int) -> bytes:
        """Return so many bytes of a content, or as many as there are; b"" if it is not kept."""
        with contextlib.suppress(OSError), open(self.path / digest.hex(), "rb") as file:
            file.seek(offset)
            return file.read(size)
        return b""


def _size(entry: "os.DirEntry[str]") -> int:
    with contextlib.suppress(FileNotFoundError):  # another process has just renamed it
        return entry.stat().st_size
    return 0
