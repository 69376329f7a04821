"""Batches in a stream of bytes, and back. Pure: whoever has the socket brings the bytes and takes them away.

A batch is a header and its frames, one after the other. The header is the mark of this format, the number of frames,
and the size of each in bytes, little-endian.
"""

import mmap
import struct
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final

from aiocg.transport import limits
from aiocg.transport.codec import Frame
from aiocg.transport.errors import RemoteProtocolError

__all__ = ["Incoming", "Outgoing"]

READ_BYTES: Final = 256 * 1024
"""What is asked of a socket at once, and how much of a batch is copied; a larger one has its memory to itself."""

PARTS: Final = 512
"""Frames handed to the system in one call, which takes 1,024."""

CALL_BYTES: Final = 1024 * 1024
"""Bytes handed to the system in one call, which goes on for as long as the other side keeps pace."""

_MARK: Final = 0xA10C6001
_HEAD: Final = struct.Struct("<II")  # mark, number of frames
_SINGLE: Final = struct.Struct("<IIQ")  # the whole header of one frame, which is the usual one


def _header(frames: Sequence[Frame]) -> bytes:
    if len(frames) == 1:
        return _SINGLE.pack(_MARK, 1, len(frames[0]))
    return struct.pack(f"<II{len(frames)}Q", _MARK, len(frames), *map(len, frames))


def _memory(size: int) -> mmap.mmap:
    """Return memory that costs nothing before it is filled: the size is but what the other side says."""
    try:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"no memory for a batch of {size} bytes") from error


class Incoming:
    """Bytes as they came, and the batches in them: fill `room`, say how much with `filled`, take with `batch`."""

    __slots__ = ("_bytes", "_end", "_start")

    def __init__(self) -> None:
        self._bytes = memoryview(bytearray(READ_BYTES))
        self._start = self._end = 0  # what has come and was not taken

    def room(self) -> memoryview:
        """Return where to put what comes next, which is never empty."""
        return self._bytes[self._end :]

    def filled(self, count: int) -> None:
        """Say how many bytes were put there."""
        self._end += count

    def batch(self) -> list[Frame] | None:
        """Return the frames of the next batch, None when it is not there yet.

        Raises:
            RemoteProtocolError: when this is no batch; there is no way to find the next one then.
        """
        start, there = self._start, self._end - self._start
        if there >= _SINGLE.size:  # the usual batch, which is small and here
            mark, count, size = _SINGLE.unpack_from(self._bytes, start)
            if mark == _MARK and count == 1 and size <= there - _SINGLE.size and len(self._bytes) == READ_BYTES:
                place = start + _SINGLE.size
                self._start = place + size
                return [bytes(self._bytes[place : place + size])]
        if there < _HEAD.size:
            self._make_room(_HEAD.size)
            return None
        mark, count = _HEAD.unpack_from(self._bytes, start)
        if mark != _MARK or not 0 < count <= limits.MAX_FRAMES + 1:
            raise RemoteProtocolError("not a batch: the stream does not go on with a header")
        header = _HEAD.size + 8 * count
        if there < header:
            self._make_room(header)
            return None
        sizes = struct.unpack_from(f"<{count}Q", self._bytes, start + _HEAD.size)
        size = sum(sizes)
        if size > limits.MAX_BATCH_BYTES or max(sizes) > limits.MAX_FRAME_BYTES:
            raise RemoteProtocolError(f"a batch of {size} bytes, more than {limits.MAX_BATCH_BYTES} in all")
        if there < header + size:
            self._make_room(header + size)
            return None
        return self._taken(start + header, sizes)

    def _taken(self, place: int, sizes: Sequence[int]) -> list[Frame]:
        own = len(self._bytes) > READ_BYTES  # the memory has this batch and nothing else, and can be given away
        frames: list[Frame] = []
        for size in sizes:
            frame = self._bytes[place : place + size]
            frames.append(frame.toreadonly() if own and frames else bytes(frame))
            place += size
        if own:
            self._bytes = memoryview(bytearray(READ_BYTES))
            place = self._end = 0
        self._start = place
        return frames

    def _make_room(self, size: int) -> None:
        """See to it that there is room for so many bytes from the start of the batch, and for one more."""
        rest = self._bytes[self._start : self._end]
        if self._start + max(size, len(rest) + 1) > len(self._bytes):
            if size > READ_BYTES:
                memory = memoryview(_memory(size))
                memory[: len(rest)] = rest
                self._bytes = memory
            else:
                self._bytes[: len(rest)] = rest
            self._start, self._end = 0, len(rest)
        elif not rest:
            self._start = self._end = 0


class Outgoing:
    """Frames on their way out, as far as they have not been taken.

    Attributes:
        size: bytes left.
    """

    __slots__ = ("_parts", "size")

    def __init__(self) -> None:
        self._parts: deque[Frame] = deque()
        self.size = 0

    def put(self, frames: Sequence[Frame]) -> None:
        """Add a batch; its frames are not copied, so do not change them."""
        header = _header(frames)
        self._parts.append(header)
        self._parts.extend(frames)
        self.size += len(header) + sum(map(len, frames))

    def parts(self) -> list[Frame]:
        """Return what goes out next, some of it if it is much."""
        first = islice(self._parts, PARTS)
        if self.size <= CALL_BYTES:
            return list(first)
        parts: list[Frame] = []
        room = CALL_BYTES
        for part in first:
            parts.append(memoryview(part)[:room])
            room -= len(parts[-1])
            if not room:
                break
        return parts

    def taken(self, count: int) -> None:
        """Say how many bytes of that went out."""
        self.size -= count
        parts = self._parts
        while parts and count >= len(parts[0]):
            count -= len(parts.popleft())
        if count:
            parts[0] = memoryview(parts[0])[count:]
