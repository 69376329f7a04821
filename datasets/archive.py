"""Unpacking untrusted tar archives, compressed or not.

An archive is unpacked into a new folder beside the target, which is renamed to the target when complete. The rules are
stricter than those of `tarfile.data_filter`, which lets symbolic links through and which Python has since 3.11.4 only:

- Paths must be relative, printable and without `..`, and must not collide. Of the modes only "executable" is kept.
- A link, symbolic or hard, to a file of the archive becomes a hard link, so the result has no symbolic links. Links to
  folders, and dangling ones, are left out. A link that leads out of the archive is an error.
- Devices, pipes and sparse files are errors.
- No path has more than 100 parts, so that `shutil.rmtree` can remove the result.
- The content must fit on the disk, and must not be suspiciously larger than the archive.
"""

import bz2
import gzip
import io
import lzma
import os
import re
import shutil
import stat
import struct
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Self

from aiocg.datasets.errors import InstallError
from aiocg.datasets.locking import make_folder
from aiocg.datasets.process import check_cancelled
from aiocg.datasets.progress import Advance, progress

LARGEST_RATIO = 300  # between what is unpacked and what is packed
HARMLESS = 256 << 20  # bytes that may be unpacked whatever the ratio
RESERVE = 64 << 20  # bytes of the disk that are left free
LOOK_EVERY = 4 << 20  # bytes between looks at the disk
BLOCK = 4 << 10  # bytes that a file takes at least
DEEPEST = 100  # folders in each other, with the file in the last one
CHUNK = 1 << 20  # bytes that are read at once; no header is longer
_STRANGE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


class _Refused(Exception):
    """A member, and so its archive, is refused; the text continues after the member's name."""


def _parts_of(name: str) -> tuple[str, ...]:
    """Split the path of a member; raise _Refused when it is not a relative path of printable text."""
    if strange := _STRANGE.search(name):
        raise _Refused(f"has the character {strange[0]!r} in its name")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if name.startswith("/") or ".." in parts:
        raise _Refused("leads out of the archive")
    if len(parts) > DEEPEST:
        raise _Refused(f"lies more than {DEEPEST} folders deep")
    return parts


def _destination(member: tarfile.TarInfo) -> tuple[str, ...]:
    """Return where a symbolic link leads to, from the root of the archive; raise _Refused when it leads out."""
    path, link = list(_parts_of(member.name)[:-1]), member.linkname
    if link.startswith("/"):
        raise _Refused(f"is a link to {link!r}, which is not in the archive")
    for part in link.split("/"):
        if part == "..":
            if not path:
                raise _Refused(f"is a link to {link!r}, which is not in the archive")
            path.pop()
        elif part not in ("", "."):
            path.append(part)
    return tuple(path)


def _plain(packed: IO[bytes]) -> Any:
    """Return the content of a file that may be compressed."""
    beginning = packed.read(6)
    packed.seek(0)
    if beginning.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=packed)
    if beginning.startswith(b"BZh"):
        return bz2.BZ2File(packed)
    return lzma.LZMAFile(packed) if beginning.startswith(b"\xfd7zXZ\x00") else packed


class _Stream(io.RawIOBase):
    """Forward-only content of a compressed file; `count` is called with the size of all that is read."""

    def __init__(self, file: Any, count: Callable[[int], None]) -> None:
        self._file = file
        self._count = count
        self._position = 0

    def read(self, size: int = -1) -> bytes:
        """Read this many bytes, fewer at the end; at most a chunk."""
        if not 0 <= size <= CHUNK:
            raise ValueError(f"a header of {size:,} bytes")
        data: bytes = self._file.read(size)
        self._count(len(data))
        self._position += len(data)
        return data

    def seek(self, position: int, whence: int = 0) -> int:
        """Skip to a later position."""
        if whence or position < self._position:
            raise ValueError("a header that leads back")
        while self._position < position:
            if not self.read(min(CHUNK, position - self._position)):
                break
        return self._position

    def tell(self) -> int:
        """Return how much has been read."""
        return self._position


class _Member(tarfile.TarInfo):
    """A header that must be valid: `tarfile` takes a damaged one for the end of the archive."""

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> Self:
        """Read the header at the archive's current position, and those that belong to it."""
        # Not `frombuf`, which the security releases of Python from 2026 on no longer call.
        try:
            return super().fromtarfile(tarfile_)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(str(error)) from error


_BROKEN = (tarfile.TarError, zlib.error, lzma.LZMAError, struct.error, EOFError, ValueError, OverflowError, LookupError)


def unpack(archive: Path, target: Path, *, strip_prefix: str = "", description: str = "") -> None:
    """Unpack an archive atomically. If the target exists already, nothing is done.

    Safe in several threads and processes at once; leftovers of killed processes are removed.

    Args:
        archive: a .tar, .tar.gz, .tar.bz2 or .tar.xz, whatever its name.
        strip_prefix: unpack only what is below this folder of the archive, and strip it from the paths.
        description: shown as progress; by default "Unpacking" and the archive's name.

    Raises:
        InstallError: when the archive is damaged or has in it what it must not have, or there is no room for it.
        Cancelled: when the event of `cancellable` was set.
    """
    title = description or f"Unpacking {archive.name}"
    try:
        waiting_for = f"Waiting for {archive.name} to be unpacked"
        make_folder(target, lambda folder: unpack_into(archive, folder, strip_prefix, title), waiting_for)
    except OSError as error:
        raise InstallError(
            archive.name,
            f"{error.filename or target} cannot be written: {error.strerror or error}; free some space, or set "
            "AIOCG_SITE_DATA to a directory that can be written",
        ) from error


def unpack_into(archive: Path, folder: Path, strip_prefix: str, title: str) -> None:
    """Unpack into an empty folder, and leave it to the caller that nobody sees a part of it.

    Raises:
        InstallError: when the archive is damaged or has in it what it must not have.
        OSError: when the folder cannot be written.
        Cancelled: when the event of `cancellable` was set.
    """
    with open(archive, "rb") as packed, progress(title, archive.stat().st_size, unit="bytes") as advance:
        unpacking = _Unpacking(packed, folder, strip_prefix, advance)
        cause: Exception | None = None
        try:
            unpacking.run()
        except _Refused as error:
            reason = str(error)
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            reason, cause = "stands where another one is", error
        except (*_BROKEN, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # gzip and bz2 report corrupt data without
                raise
            reason, cause = f"or what follows it is damaged: {error}", error
        else:
            return
    subject = f"its member {unpacking.member!r}" if unpacking.member else "its beginning"
    message = f"{subject} {reason}; nothing of {archive} was installed; tell its publisher"
    raise InstallError(archive.name, message) from cause


class _Unpacking:
    """Writes the members of an archive to their places, within limits.

    Args:
        packed: the archive's own file.
        folder: where it is unpacked.
        strip_prefix: stripped from the paths; members elsewhere are skipped.
        advance: called with the progress in bytes of the archive.

    Attributes:
        member: name of the current member, for messages; "" before the first.
    """

    def __init__(self, packed: IO[bytes], folder: Path, strip_prefix: str, advance: Advance) -> None:
        self.member = ""
        self._packed = packed
        self._packed_size = os.fstat(packed.fileno()).st_size
        self._folder = str(folder)
        self._prefix = tuple(part for part in strip_prefix.split("/") if part not in ("", "."))
        self._advance = advance
        self._shown = self._unpacked = self._members = self._look_again = self._files = 0
        self._parent = ""
        self._links: dict[tuple[str, ...], tuple[str, ...]] = {}

    def run(self) -> None:
        """Unpack everything.

        Raises:
            _Refused: when there is too much, or something that must not be.
            FileExistsError: when the place of something is taken.
            InstallError: when there is no file at all.
            Cancelled: when the event of `cancellable` was set.
        """
        stream = _Stream(_plain(self._packed), self._count)
        with tarfile.open(fileobj=stream, mode="r:", tarinfo=_Member) as tar:
            while (member := tar.next()) is not None:
                tar.members.clear()  # type: ignore[attr-defined]  # or it would keep a million of them
                check_cancelled()
                self.member = member.name
                self._members += 1
                if member.isreg():
                    stream.seek(member.offset_data)
                self._add(member, stream)
        while stream.read(CHUNK):  # to the end, where the checksum is
            pass
        self._make_links()
        if not self._files:
            below = f" below {'/'.join(self._prefix)!r}" if self._prefix else ""
            raise InstallError(Path(self._packed.name).name, f"there is no file in it{below}")

    def _count(self, size: int) -> None:
        """Count unpacked bytes; each member takes a disk block at least."""
        check_cancelled()
        self._unpacked += size
        if self._unpacked > max(HARMLESS, LARGEST_RATIO * self._packed_size):
            sizes = f"{self._unpacked:,} bytes of an archive of {self._packed_size:,}"
            raise _Refused(f"makes more than {sizes}, which is no honest one")
        taken = self._unpacked + self._members * BLOCK
        if taken >= self._look_again:
            self._look_again = taken + LOOK_EVERY
            disk = os.statvfs(self._folder)
            if disk.f_bavail * disk.f_frsize < RESERVE:
                raise _Refused(f"leaves only {disk.f_bavail * disk.f_frsize:,} bytes of the disk free")
            if disk.f_files and disk.f_favail < 1000:
                raise _Refused("leaves no room on the disk for more files")
            position = self._packed.tell()
            self._advance(position - self._shown)
            self._shown = position

    def _add(self, member: tarfile.TarInfo, content: _Stream) -> None:
        """Write one member, or skip it."""
        parts = _parts_of(member.name)
        link: tuple[str, ...] | None = None
        if member.issym() or member.islnk():
            link = _destination(member) if member.issym() else _parts_of(member.linkname)
        elif not member.isdir() and (not member.isreg() or member.issparse()):
            raise _Refused("is neither a file nor a folder")
        if parts[: len(self._prefix)] != self._prefix or len(parts) == len(self._prefix):
            return
        if link is not None:
            if parts in self._links:
                raise FileExistsError
            self._links[parts] = link
        elif member.isdir():
            os.makedirs(self._place(parts), exist_ok=True)
        else:
            self._write(self._place(parts), member, content)
            self._files += 1

    def _make_links(self) -> None:
        for parts in self._links:
            self.member = "/".join(parts)
            origin, seen = self._links[parts], 0
            while origin in self._links and seen < 40:
                origin, seen = self._links[origin], seen + 1
            if origin[: len(self._prefix)] == self._prefix and os.path.isfile(self._place(origin)):
                place = self._place(parts)
                self._make_parent(place)
                try:
                    os.link(self._place(origin), place)
                except FileExistsError:
                    raise
                except OSError:  # a file system without links
                    shutil.copy(self._place(origin), place)

    def _place(self, parts: tuple[str, ...]) -> str:
        return "/".join((self._folder, *parts[len(self._prefix) :]))

    def _make_parent(self, place: str) -> None:
        parent = os.path.dirname(place)
        if parent != self._parent:
            os.makedirs(parent, exist_ok=True)
            self._parent = parent

    def _write(self, place: str, member: tarfile.TarInfo, content: _Stream) -> None:
        self._make_parent(place)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(place, flags, 0o777 if member.mode & stat.S_IXUSR else 0o666), "wb") as file:
            left = member.size
            while left:
                chunk = content.read(min(left, CHUNK))
                if not chunk:
                    raise EOFError("it ends too early")
                file.write(chunk)
                left -= len(chunk)
