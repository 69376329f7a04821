"""A cache of files by key: checksummed, written atomically, and never a cause of failure."""

import contextlib
import errno
import hashlib
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import platformdirs

from aiocg.datasets.errors import CacheError, CacheWarning
from aiocg.datasets.locking import replacing

ATTEMPTS = 100  # to put an entry where others put theirs; that of the last one stays
_HEADER = b"aiocg-cache-1 "
_HEADER_LENGTH = len(_HEADER) + 64 + 1  # the checksum in hexadecimal, and a newline


# ------------ The user's settings for where datasets are installed and how they are fetched, and addresses for messages


def site_data_directory() -> Path:
    """Return the directory of installed data: `AIOCG_SITE_DATA`, or the user's data directory.

    Unlike the cache it holds what was asked for by name, and nothing is evicted::

        datasets/<scheme>/<dataset>/   what a dataset has installed
        indexes/<scheme>/<dataset>.sqlite   what was measured of its programs
    """
    chosen = os.environ.get("AIOCG_SITE_DATA")
    return Path(chosen).expanduser() if chosen else platformdirs.user_data_path("aiocg")


def is_offline() -> bool:
    """Return whether `AIOCG_OFFLINE` forbids using the network."""
    return os.environ.get("AIOCG_OFFLINE", "").strip().lower() not in ("", "0", "false", "no", "off")


def mirror() -> str:
    """Return the address of `AIOCG_DATASET_MIRROR`, which has all published files by name; "" if unset."""
    return os.environ.get("AIOCG_DATASET_MIRROR", "").rstrip("/")


def without_password(url: str) -> str:
    """Return an address without credentials, as it may be shown."""
    return re.sub(r"//[^/]*@", "//", url)


def cache_directory() -> Path:
    """Return the directory of all caches: `AIOCG_CACHE`, or the user's cache directory."""
    chosen = os.environ.get("AIOCG_CACHE")
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("aiocg")


@contextlib.contextmanager
def writing(place: Path) -> Iterator[None]:
    """Turn what keeps us from writing to the cache into its error.

    Args:
        place: to name where the system does not say which file it is.

    Raises:
        CacheError: instead of `OSError`.
    """
    try:
        yield
    except OSError as error:
        raise CacheError(str(error.filename or place), error.strerror or str(error)) from error


class Cache:
    """A directory of entries that may vanish at any time.

    Several processes may share one directory. Readers see whole entries only.
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
        """Store an entry, replacing any other.

        Raises:
            CacheError: when it cannot be written; nothing is left behind then.
        """
        target = self._path(key)
        with writing(target.parent):
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _write_unnamed(target, payload):
                with replacing(target) as file:
                    file.write(_header(payload) + payload)

    def keep(self, key: str, payload: bytes, what: str) -> None:
        """Write an entry, or warn that `what` happened, and that the result is lost."""
        try:
            self.write(key, payload)
        except CacheError as error:
            warnings.warn(f"{what} but not kept: {error}", CacheWarning, stacklevel=4)

    def _path(self, key: str) -> Path:
        return self.directory / key[:2] / key[2:]


def key_of(*fields: str | bytes) -> str:
    """Return a key of what an entry is made of; other fields have another one, wherever one ends."""
    digest = hashlib.sha256()
    for field in map(os.fsencode, fields):
        digest.update(len(field).to_bytes(8, "little") + field)
    return digest.hexdigest()


def _header(payload: bytes) -> bytes:
    return _HEADER + hashlib.sha256(payload).hexdigest().encode() + b"\n"


def _write_unnamed(target: Path, payload: bytes) -> bool:
    """Write to an unnamed file that is linked when complete, so that being killed leaves nothing behind.

    Returns:
        Whether the system and the file system support that.
    """
    if not hasattr(os, "O_TMPFILE"):
        return False
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
