"""Long lists of names on disk: a million of them are counted, indexed and searched without being loaded.

A list is text, one name a line, plain or compressed by gzip, bzip2 or xz. On first use an index is built in the cache,
which is mapped into memory from then on. The index is::

    a header: the format, how many names there are, how long the text is
    the text, filled up to a multiple of 8 bytes
    where each name begins in the text, and where the last one ends: 8 bytes each
    the checksums (CRC-32) of the names in ascending order, 4 bytes each
    the numbers of the names in that order, 4 bytes each

So the n-th name takes one lookup, and finding a name a binary search.
"""

import bisect
import bz2
import contextlib
import difflib
import gzip
import hashlib
import itertools
import lzma
import mmap
import os
import re
import struct
import tempfile
import warnings
import zlib
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Self, overload

from aiocg.datasets.cache import cache_directory, writing
from aiocg.datasets.errors import CacheError, CacheWarning, InstallError
from aiocg.datasets.locking import replacing
from aiocg.datasets.process import check_cancelled
from aiocg.datasets.progress import progress

HEADER = struct.Struct("=8sQQ")
MAGIC = b"aiocg-1\n"
CHUNK = 4 << 20  # bytes of text that are read at once
CANDIDATES = 300  # names with something in common with one that is missing, for each thing in common

_OPENERS: tuple[tuple[bytes, Any], ...] = (  # by how a file begins; a list of names may well begin with "BZh"
    (rb"\x1f\x8b\x08", gzip.open),
    (rb"BZh[1-9](1AY&SY|\x17rE8P\x90)", bz2.open),
    (rb"\xfd7zXZ\x00", lzma.open),
    (rb"", open),
)


class Manifest(Sequence[str]):
    """A list of names in a file, by a complete index that is open for reading; see `read`."""

    def __init__(self, index: IO[bytes]) -> None:
        self._map = mmap.mmap(index.fileno(), 0, access=mmap.ACCESS_READ)
        magic, size, text_size = HEADER.unpack_from(self._map)
        self._size = int(size)
        offsets = HEADER.size + _padded(text_size)
        checksums = offsets + 8 * (self._size + 1)
        numbers = checksums + 4 * self._size
        view = memoryview(self._map)
        if magic != MAGIC or len(view) != numbers + 4 * self._size:
            raise ValueError("the index is not complete")
        self._end = HEADER.size + text_size
        self._offsets = view[offsets:checksums].cast("Q")
        self._checksums = view[checksums:numbers].cast("I")
        self._numbers = view[numbers:].cast("I")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Open a list of names.

        Lines end with LF or CRLF; empty lines are skipped. Names keep their order.

        Raises:
            InstallError: when it cannot be read, or is damaged.
            CacheError: when there is no room for the index, neither in the cache nor among temporary files.
            Cancelled: when the event of `cancellable` was set.
        """
        try:
            status = path.stat()
        except OSError as error:
            raise _unreadable(path, error) from error
        identity = os.fsencode(f"{path.resolve()} {status.st_size} {status.st_mtime_ns}")
        place = cache_directory() / "manifests" / hashlib.sha256(identity).hexdigest()
        # A missing index, or one truncated by a crash of the machine, is rebuilt.
        with contextlib.suppress(OSError, ValueError, struct.error), open(place, "rb") as index:
            return cls(index)
        with writing(place), _new_file(place) as index:
            _build(path, index)
            return cls(index)

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(self._size))]
        return _decoded(self._bytes(range(self._size)[index]))

    def __iter__(self) -> Iterator[str]:
        for first in range(0, self._size, 4096):
            last = min(first + 4096, self._size)
            begin, end = HEADER.size + self._offsets[first], HEADER.size + self._offsets[last] - 1
            yield from _decoded(self._map[begin:end]).split("\n")

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    def index(self, name: str, start: int = 0, stop: int | None = None) -> int:
        """Return the number of a name, the first one if it is there several times.

        Raises:
            ValueError: when it is not there, or not within these bounds.
        """
        number = self._find(name)
        if number is None or number not in range(self._size)[start:stop]:
            raise ValueError(f"{name!r} is not in the list")
        return number

    def near(self, name: str) -> list[str]:
        """Return names similar to a missing one, best first.

        Only names that contain a third of the name, or of its last part, are compared: two typing errors leave one
        third intact.
        """
        found: dict[str, None] = {}
        for text in dict.fromkeys((name.rpartition("/")[2], name)):
            third = max(2, len(text) // 3)
            for piece in dict.fromkeys((text[:third], text[third:-third], text[-third:])):
                if len(piece) > 1:
                    found.update(dict.fromkeys(itertools.islice(self._containing(piece), CANDIDATES)))
        return difflib.get_close_matches(name, found, n=3)

    def _bytes(self, number: int) -> bytes:
        return self._map[HEADER.size + self._offsets[number] : HEADER.size + self._offsets[number + 1] - 1]

    def _find(self, name: str) -> int | None:
        try:
            wanted = name.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return None
        checksum = zlib.crc32(wanted)
        place = bisect.bisect_left(self._checksums, checksum)
        while place < self._size and self._checksums[place] == checksum:
            if self._bytes(self._numbers[place]) == wanted:
                return self._numbers[place]
            place += 1
        return None

    def _containing(self, piece: str) -> Iterator[str]:
        wanted = piece.encode("utf-8", "surrogateescape")
        place = self._map.find(wanted, HEADER.size, self._end)
        while place >= 0:
            begin = self._map.rfind(b"\n", HEADER.size, place) + 1 or HEADER.size
            end = self._map.find(b"\n", place, self._end)
            yield _decoded(self._map[begin:end])
            place = self._map.find(wanted, end, self._end)


def _build(path: Path, index: IO[bytes]) -> None:
    """Write the index of a text."""
    import numpy  # here, because an index is built once

    offsets, checksums = array("Q", [0]), array("I")
    index.write(bytes(HEADER.size))
    for names in _names(path):
        index.write(b"\n".join((*names, b"")))
        checksums.extend(map(zlib.crc32, names))
        ends = itertools.accumulate((len(name) + 1 for name in names), initial=offsets[-1])
        offsets.extend(itertools.islice(ends, 1, None))
    order = numpy.argsort(numpy.frombuffer(checksums, dtype=numpy.uint32), kind="stable")
    index.write(bytes(_padded(offsets[-1]) - offsets[-1]))
    offsets.tofile(index)
    index.write(numpy.frombuffer(checksums, dtype=numpy.uint32)[order].tobytes())
    index.write(order.astype(numpy.uint32).tobytes())
    index.seek(0)
    index.write(HEADER.pack(MAGIC, len(checksums), offsets[-1]))
    index.flush()


def _names(path: Path) -> Iterator[list[bytes]]:
    """Yield the names in batches; raise InstallError when they cannot be read."""
    try:
        with open(path, "rb") as packed:
            beginning = packed.read(10)
        opener = next(opener for magic, opener in _OPENERS if re.match(magic, beginning))
        with opener(path, "rb") as text, progress(f"Reading the names in {path.name}") as _:
            while lines := text.readlines(CHUNK):
                check_cancelled()
                yield [name for line in lines if (name := line.rstrip(b"\r\n"))]
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> InstallError:
    reason = (isinstance(error, OSError) and error.strerror) or str(error)
    return InstallError(path.name, f"the names in {path} cannot be read: {reason}")


@contextlib.contextmanager
def _new_file(place: Path) -> Iterator[IO[bytes]]:
    """Open a file that is renamed when complete, or an anonymous one where that is impossible."""
    with contextlib.ExitStack() as stack:
        try:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = stack.enter_context(replacing(place))
        except OSError as error:
            warnings.warn(str(CacheError(str(place), error.strerror or str(error))), CacheWarning, stacklevel=4)
            file = stack.enter_context(tempfile.TemporaryFile())
        yield file


def _padded(size: int) -> int:
    return -(-size // 8) * 8


def _decoded(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
