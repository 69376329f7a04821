"""Files kept between runs, by key: each is checksummed, written atomically, and worth no failure."""

import contextlib
import errno
import hashlib
import os
import tempfile
from pathlib import Path

import platformdirs

from aiocg.datasets.errors import CacheError

__all__ = ["Cache", "cache_directory"]

ATTEMPTS = 100  # to put an entry where others put theirs; that of the last one stays
_HEADER = b"aiocg-cache-1 "
_HEADER_LENGTH = len(_HEADER) + 64 + 1  # the checksum in hexadecimal, and a newline


def cache_directory() -> Path:
    """Return the directory of all caches: `AIOCG_CACHE`, or the one the system gives to users."""
    chosen = os.environ.get("AIOCG_CACHE")
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("aiocg")


class Cache:
    """A directory of entries that may vanish at any time.

    Several processes may use one directory. A reader sees a whole entry or none.

    Args:
        directory: where the entries lie; made when the first one is written.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def read(self, key: str) -> bytes | None:
        """Return the entry, or None when it is not there, damaged or unreadable."""
        try:
            data = self._path(key).read_bytes()
        except OSError:
            return None
        header, payload = data[:_HEADER_LENGTH], data[_HEADER_LENGTH:]
        return payload if header == _header(payload) else None

    def write(self, key: str, payload: bytes) -> None:
        """Keep an entry, replacing the one that is there.

        Raises:
            CacheError: when it cannot be written; nothing is left behind then.
        """
        target = self._path(key)
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _write_unnamed(target, payload):
                _write_beside(target, payload)
        except OSError as error:
            raise CacheError(str(error.filename or target.parent), error.strerror or str(error)) from error

    def _path(self, key: str) -> Path:
        return self.directory / key[:2] / key[2:]


def _header(payload: bytes) -> bytes:
    return _HEADER + hashlib.sha256(payload).hexdigest().encode() + b"\n"


def _write_unnamed(target: Path, payload: bytes) -> bool:
    """Write to a file that has no name before it is whole, so that nothing stays of it if we are killed.

    Returns:
        Whether that can be done here: the file system has such files, and gives them names.
    """
    try:
        descriptor = os.open(target.parent, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT):
            return False
        raise
    with open(descriptor, "wb") as file:
        file.write(_header(payload))
        file.write(payload)
        file.flush()
        folder = os.open(target.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for _ in range(ATTEMPTS):
                try:
                    # With a descriptor of a folder the link is followed to the file, as it must be.
                    os.link(f"/proc/self/fd/{descriptor}", target.name, dst_dir_fd=folder)
                    return True
                except FileExistsError:  # another writer's, or an old one
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(target.name, dir_fd=folder)
                except OSError:  # such as without /proc
                    return False
        finally:
            os.close(folder)
    return True


def _write_beside(target: Path, payload: bytes) -> None:
    temporary = ""
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=".new-", dir=target.parent)
        with open(descriptor, "wb") as file:
            file.write(_header(payload))
            file.write(payload)
        os.replace(temporary, target)
    finally:
        _remove(temporary)


def _remove(temporary: str) -> None:
    """Remove a file that was not moved to its place."""
    if temporary:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
