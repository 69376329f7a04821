"""Files kept between runs, by key: each is checksummed, written atomically, and worth no failure."""

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

import platformdirs

from aiocg.datasets.errors import CacheError

__all__ = ["Cache", "cache_directory"]

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
        temporary = ""
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(prefix=".new-", dir=target.parent)
            with open(descriptor, "wb") as file:
                file.write(_header(payload))
                file.write(payload)
            os.replace(temporary, target)
        except OSError as error:
            raise CacheError(str(error.filename or target.parent), error.strerror or str(error)) from error
        finally:
            _remove(temporary)

    def _path(self, key: str) -> Path:
        return self.directory / key[:2] / key[2:]


def _header(payload: bytes) -> bytes:
    return _HEADER + hashlib.sha256(payload).hexdigest().encode() + b"\n"


def _remove(temporary: str) -> None:
    """Remove a file that was not moved to its place."""
    if temporary:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
