"""Unpacking untrusted archives: tar, compressed or not, and zip.

An archive is unpacked into a new folder beside the target, which is renamed to the target when complete. The rules are
the same for all formats and all versions of Python (`tarfile` has filters since 3.11.4):

- Paths must be relative, printable and without `..`, and must not collide. Of the modes only "executable" is kept.
- A link, symbolic or hard, to a file of the archive becomes a hard link, so the result has no symbolic links. Links to
  folders, and dangling ones, are left out. A link that leads out of the archive is an error.
- Devices, pipes, sparse files and encrypted files are errors.
- No path has more than 100 parts, so that `shutil.rmtree` can remove the result.
- The content must fit on the disk, and must not be suspiciously larger than the archive.
"""

import contextlib
import lzma
import os
import shutil
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

from aiocg.datasets.archive_members import CHUNK, Entry, Limits, Refused, entries, parts_of
from aiocg.datasets.errors import InstallError
from aiocg.datasets.locking import locked
from aiocg.datasets.progress import progress

_DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    ValueError,
    RuntimeError,  # an encrypted zip, and NotImplementedError: an unknown compression
    OverflowError,
    LookupError,
    struct.error,
)


def unpack(archive: Path, target: Path, *, strip_prefix: str = "", description: str = "") -> None:
    """Unpack an archive atomically. If the target exists already, nothing is done.

    Safe in several threads and processes at once; leftovers of killed processes are removed.

    Args:
        archive: a .tar, .tar.gz, .tar.bz2, .tar.xz or .zip, whatever its name.
        strip_prefix: unpack only what is below this folder of the archive, and strip it from the paths.
        description: shown as progress; by default "Unpacking" and the archive's name.

    Raises:
        InstallError: when the archive is damaged or has in it what it must not have, or there is no room for it.
        Cancelled: when the event of `cancellable` was set.
    """
    try:
        with locked(target.with_name(f".{target.name}.lock"), f"Waiting for {archive.name} to be unpacked"):
            if target.exists():
                return
            folder = target.with_name(f".new-{target.name}")
            if folder.exists():
                remove_tree(folder)
            folder.mkdir()
            try:
                _unpack(archive, folder, strip_prefix, description or f"Unpacking {archive.name}")
                folder.rename(target)
            except BaseException:
                with contextlib.suppress(OSError):  # the next one removes it
                    remove_tree(folder)
                raise
    except OSError as error:
        raise InstallError(
            archive.name,
            f"{error.filename or target} cannot be written: {error.strerror or error}; free some space, or set "
            "AIOCG_SITE_DATA to a directory that can be written",
        ) from error


def remove_tree(folder: Path) -> None:
    """Remove a folder with its content, showing progress if it takes long.

    Raises:
        OSError: when something cannot be removed.
    """
    with progress(f"Removing {folder}"):
        shutil.rmtree(folder)


def _unpack(archive: Path, folder: Path, strip_prefix: str, title: str) -> None:
    """Unpack into an empty folder."""
    prefix = tuple(part for part in strip_prefix.split("/") if part not in ("", "."))
    writer = _Writer(archive.name, folder, prefix)
    with open(archive, "rb") as packed, progress(title, archive.stat().st_size, unit="bytes") as advance:
        limits = Limits(packed, folder, advance)
        try:
            for entry in entries(packed, limits):
                writer.add(entry)
            writer.finish(limits)
        except Refused as error:
            raise _refusal(archive, limits.member, str(error)) from None
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            raise _refusal(archive, limits.member, "stands where another one is") from error
        except _DAMAGED as error:
            raise _refusal(archive, limits.member, f"or what follows it is damaged: {error}") from error
        except OSError as error:
            if error.errno is not None:
                raise
            # gzip and bz2 report corrupt data this way
            raise _refusal(archive, limits.member, f"or what follows it is damaged: {error}") from error


def _refusal(archive: Path, member: str, reason: str) -> InstallError:
    subject = f"its member {member!r}" if member else "its beginning"
    return InstallError(archive.name, f"{subject} {reason}; nothing of {archive} was installed; tell its publisher")


class _Writer:
    """Writes members to their places.

    Args:
        prefix: stripped from the paths; members elsewhere are skipped.
    """

    def __init__(self, archive: str, folder: Path, prefix: tuple[str, ...]) -> None:
        self._archive = archive
        self._folder = str(folder)
        self._prefix = prefix
        self._parent = ""
        self._files = 0
        self._links: dict[tuple[str, ...], tuple[str, ...]] = {}

    def add(self, entry: Entry) -> None:
        """Write one member, or skip it.

        Raises:
            Refused: when its name must not be.
            FileExistsError: when its place is taken.
        """
        parts = parts_of(entry.name)
        if parts[: len(self._prefix)] != self._prefix or len(parts) == len(self._prefix):
            return
        if entry.link is not None:
            if parts in self._links:
                raise FileExistsError
            self._links[parts] = entry.link
        elif entry.content is None:
            os.makedirs(self._place(parts), exist_ok=True)
        else:
            self._write(self._place(parts), entry)
            self._files += 1

    def finish(self, limits: Limits) -> None:
        """Create the links.

        Raises:
            FileExistsError: when the place of one is taken.
            InstallError: when there was no file at all.
        """
        for parts in self._links:
            limits.member = "/".join(parts)
            origin, seen = self._links[parts], 0
            while origin in self._links and seen < 40:
                origin, seen = self._links[origin], seen + 1
            if origin[: len(self._prefix)] == self._prefix and os.path.isfile(self._place(origin)):
                self._link(self._place(origin), self._place(parts))
        if not self._files:
            below = f" below {'/'.join(self._prefix)!r}" if self._prefix else ""
            raise InstallError(self._archive, f"there is no file in it{below}")

    def _place(self, parts: tuple[str, ...]) -> str:
        return "/".join((self._folder, *parts[len(self._prefix) :]))

    def _make_parent(self, place: str) -> None:
        parent = os.path.dirname(place)
        if parent != self._parent:
            os.makedirs(parent, exist_ok=True)
            self._parent = parent

    def _write(self, place: str, entry: Entry) -> None:
        assert entry.content is not None
        self._make_parent(place)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(place, flags, 0o777 if entry.executable else 0o666), "wb", buffering=0) as file:
            left = entry.size
            while left:
                chunk = entry.content.read(min(left, CHUNK))
                if not chunk:
                    raise EOFError("it ends too early")
                written = file.write(chunk)
                if written != len(chunk):
                    file.write(chunk[written:])
                left -= len(chunk)

    def _link(self, origin: str, place: str) -> None:
        self._make_parent(place)
        try:
            os.link(origin, place)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            shutil.copy(origin, place)
