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
import contextlib
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
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Self

from aiocg.datasets.errors import InstallError
from aiocg.datasets.locking import locked
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


class _Limits:
    """Accounting of what is read of an archive.

    Args:
        packed: the archive's own file.
        folder: where it is unpacked.
        advance: called with the progress in bytes of the archive.

    Attributes:
        member: name of the current member, for messages; "" before the first.
    """

    def __init__(self, packed: IO[bytes], folder: Path, advance: Advance) -> None:
        self.member = ""
        self._packed = packed
        self._packed_size = os.fstat(packed.fileno()).st_size
        self._folder = folder
        self._advance = advance
        self._shown = 0
        self._unpacked = 0
        self._members = 0
        self._look_again = 0

    def begin(self, member: str) -> None:
        """Begin a member; each takes a disk block at least.

        Raises:
            Cancelled: when the event of `cancellable` was set.
        """
        self.member = member
        self._members += 1
        check_cancelled()

    def count(self, size: int) -> None:
        """Count unpacked bytes.

        Raises:
            _Refused: when that is too much.
            Cancelled: when the event of `cancellable` was set.
        """
        check_cancelled()
        self._unpacked += size
        if self._unpacked > max(HARMLESS, LARGEST_RATIO * self._packed_size):
            sizes = f"{self._unpacked:,} bytes of an archive of {self._packed_size:,}"
            raise _Refused(f"makes more than {sizes}, which is no honest one")
        taken = self._unpacked + self._members * BLOCK
        if taken >= self._look_again:
            self._look_again = taken + LOOK_EVERY
            self._look_at_disk()
            position = self._packed.tell()
            self._advance(position - self._shown)
            self._shown = position

    def _look_at_disk(self) -> None:
        disk = os.statvfs(self._folder)
        if disk.f_bavail * disk.f_frsize < RESERVE:
            raise _Refused(f"leaves only {disk.f_bavail * disk.f_frsize:,} bytes of the disk free")
        if disk.f_files and disk.f_favail < 1000:
            raise _Refused("leaves no room on the disk for more files")


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
    """Forward-only content of a compressed file, which counts what is read."""

    def __init__(self, file: Any, limits: _Limits) -> None:
        self._file = file
        self._limits = limits
        self._position = 0

    def read(self, size: int = -1) -> bytes:
        """Read this many bytes, fewer at the end; at most a chunk."""
        if not 0 <= size <= CHUNK:
            raise ValueError(f"a header of {size:,} bytes")
        data: bytes = self._file.read(size)
        self._limits.count(len(data))
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


def _members(packed: IO[bytes], limits: _Limits) -> Iterator[tuple[tarfile.TarInfo, _Stream]]:
    """Enumerate the members of an archive, each with the stream at the beginning of its content."""
    stream = _Stream(_plain(packed), limits)
    with tarfile.open(fileobj=stream, mode="r:", tarinfo=_Member) as tar:
        while (member := tar.next()) is not None:
            tar.members.clear()  # type: ignore[attr-defined]  # or it would keep a million of them
            limits.begin(member.name)
            if member.isreg():
                stream.seek(member.offset_data)
            yield member, stream
    while stream.read(CHUNK):  # to the end, where the checksum is
        pass


_DAMAGED = (
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    ValueError,
    OverflowError,
    LookupError,
    struct.error,
)


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
        limits = _Limits(packed, folder, advance)
        try:
            for member, content in _members(packed, limits):
                writer.add(member, content)
            writer.finish(limits)
        except _Refused as error:
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

    def add(self, member: tarfile.TarInfo, content: _Stream) -> None:
        """Write one member, or skip it.

        Raises:
            _Refused: when its name must not be, or it is neither a file, a folder nor a link.
            FileExistsError: when its place is taken.
        """
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

    def finish(self, limits: _Limits) -> None:
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

    def _write(self, place: str, member: tarfile.TarInfo, content: _Stream) -> None:
        self._make_parent(place)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(place, flags, 0o777 if member.mode & stat.S_IXUSR else 0o666), "wb", buffering=0) as file:
            left = member.size
            while left:
                chunk = content.read(min(left, CHUNK))
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
