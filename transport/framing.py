"""ZeroMQ's protocol on a stream of bytes, and back. Pure: the owner of the socket brings the bytes and takes them away.

This is ZMTP 3.1 (https://rfc.zeromq.org/spec/37/) with the mechanism NULL, as libzmq speaks it over `ipc://`: each end
begins with a greeting and the command READY; then a batch is a multipart message, frame by frame. Other commands, such
as those of heartbeats, are passed over.
"""

import mmap
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from aiocg.transport import limits
from aiocg.transport.codec import Frame
from aiocg.transport.errors import RemoteProtocolError

READ_BYTES: Final = 256 * 1024
"""Bytes read from a socket at once. Frames that fit are copied; a larger one gets memory of its own."""

PARTS: Final = 512
"""Pieces handed to the system in one call; the system's limit is 1,024."""

CALL_BYTES: Final = 1024 * 1024
"""Bytes handed to the system in one call, which lasts as long as the peer keeps reading."""

_MORE, _LONG, _COMMAND = 1, 2, 4  # flags of a frame
_LONG_HEAD: Final = struct.Struct(">BQ")
_LONGEST_HEAD: Final = _LONG_HEAD.size
_SHORT: Final = 255  # bytes of the largest frame with a short head
_SIGNATURE: Final = b"\xff" + bytes(8) + b"\x7f"
_VERSION: Final = bytes([3, 1])
_MECHANISM: Final = b"NULL".ljust(20, b"\0")
_GREETING: Final = (_SIGNATURE + _VERSION + _MECHANISM).ljust(64, b"\0")


def _ready(kind: str) -> bytes:
    """Return the command READY of a socket of a kind such as "DEALER"."""
    properties = b"".join(
        bytes([len(name)]) + name + len(value).to_bytes(4, "big") + value
        for name, value in ((b"Socket-Type", kind.encode()), (b"Identity", b""))
    )
    body = b"\x05READY" + properties
    return bytes([_COMMAND, len(body)]) + body


def _memory(size: int) -> memoryview:
    """Return memory that costs nothing until it is written to, since the size is only what the peer claims."""
    try:
        return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    except OSError as error:
        raise MemoryError(f"no memory for a frame of {size} bytes") from error


class Incoming:
    """Received bytes, and the batches in them: fill `room`, then take the `batches`.

    Attributes:
        ready: whether the peer has greeted us, so that it may be sent batches.
    """

    __slots__ = ("_bytes", "_end", "_filled", "_frames", "_greeted", "_large", "_more", "_size", "_start", "ready")

    def __init__(self) -> None:
        self.ready = self._greeted = False
        self._bytes = memoryview(bytearray(READ_BYTES))
        self._start = self._end = 0  # bounds of the bytes that were received and not taken
        self._frames: list[Frame] = []  # those of a batch that is not complete
        self._size = 0  # of these frames, in bytes
        self._large: memoryview | None = None  # memory of a frame that the buffer does not hold
        self._filled = 0  # bytes of it that are there
        self._more = False  # whether it is followed by another frame

    def room(self) -> memoryview:
        """Return the memory for the next bytes; it is never empty."""
        return self._bytes[self._end :] if self._large is None else self._large[self._filled :]

    def batches(self, count: int) -> Iterator[list[Frame]]:
        """Generate the frames of each complete batch, after `count` bytes were written into `room`.

        Raises:
            RemoteProtocolError: if the bytes are not ZMTP; the stream cannot be read any further.
        """
        if self._large is not None:
            self._filled += count
            if self._filled == len(self._large):
                frame, self._large = self._large, None
                if frames := self._joined(frame.toreadonly(), self._more):
                    yield frames
            return
        self._end += count
        while (there := self._end - self._start) > 1:
            flags, size, place = self._bytes[self._start], self._bytes[self._start + 1], self._start + 2
            if not self._greeted or flags & ~_MORE:
                if not self._greeted:
                    if not self._greet(there):
                        break
                    continue
                if flags & ~(_MORE | _LONG | _COMMAND) or (flags & _COMMAND and flags & _MORE):
                    raise RemoteProtocolError("not a frame: the stream does not continue with flags")
                if flags & _LONG:
                    if there < _LONGEST_HEAD:
                        break
                    (size,), place = struct.unpack_from(">Q", self._bytes, self._start + 1), self._start + _LONGEST_HEAD
            if place + size > self._end:
                self._check(size)
                if flags & _COMMAND and size > _SHORT:
                    raise RemoteProtocolError(f"a command of {size} bytes")
                if size > READ_BYTES - _LONGEST_HEAD:
                    self._grow(flags, size, place)
                    return
                break
            body, self._start = bytes(self._bytes[place : place + size]), place + size
            if not flags & ~_LONG and self.ready and not self._frames:
                yield [body]  # the usual case: a batch of one frame, all of it here
            elif flags & _COMMAND:
                self.ready = self.ready or body.startswith(b"\x05READY")
            elif frames := self._joined(body, bool(flags & _MORE)):
                yield frames
        self._move()

    def _greet(self, there: int) -> bool:
        """Take the peer's greeting; return False if it is not complete."""
        head = bytes(self._bytes[self._start : self._start + min(there, len(_GREETING))])
        if head[:1] != _SIGNATURE[:1] or head[9:10] not in (b"", _SIGNATURE[9:]):
            raise RemoteProtocolError("not ZeroMQ: the stream does not begin with a greeting")
        if len(head) < len(_GREETING):
            return False
        if head[10] < _VERSION[0] or head[12:32] != _MECHANISM:
            raise RemoteProtocolError(f"ZeroMQ of version {head[10]} or with a mechanism other than NULL")
        self._start += len(_GREETING)
        self._greeted = True
        return True

    def _check(self, size: int) -> None:
        if size > limits.MAX_FRAME_BYTES or self._size + size > limits.MAX_BATCH_BYTES:
            raise RemoteProtocolError(f"a frame of {size} bytes, more than {limits.MAX_FRAME_BYTES} or in all too many")

    def _joined(self, frame: Frame, more: bool) -> list[Frame] | None:
        """Return the frames of a batch with its last frame; keep an earlier one."""
        if not self.ready:
            raise RemoteProtocolError("a message before the command READY")
        frames = self._frames
        frames.append(frame if frames else bytes(frame))
        if not more:
            self._frames, self._size = [], 0
            return frames
        self._size += len(frame)
        self._check(0)
        if len(frames) > limits.MAX_FRAMES:
            raise RemoteProtocolError(f"a batch of more than {limits.MAX_FRAMES} frames")
        return None

    def _grow(self, flags: int, size: int, place: int) -> None:
        """Begin a frame that the buffer does not hold: what is there of it is all that is there."""
        self._large, self._filled, self._more = _memory(size), self._end - place, bool(flags & _MORE)
        self._large[: self._filled] = self._bytes[place : self._end]
        self._start = self._end = 0

    def _move(self) -> None:
        """Leave room for the rest of a frame."""
        if self._start == self._end:
            self._start = self._end = 0
        elif self._start > READ_BYTES // 2 or self._end == READ_BYTES:
            rest = bytes(self._bytes[self._start : self._end])
            self._bytes[: len(rest)] = rest
            self._start, self._end = 0, len(rest)


class Outgoing:
    """Frames to send, as far as the system has not taken them.

    Attributes:
        size: bytes left.
    """

    __slots__ = ("_parts", "size")

    def __init__(self) -> None:
        self._parts: deque[Frame] = deque()
        self.size = 0

    def greet(self, kind: str) -> None:
        """Begin a connection as a kind of ZeroMQ socket, such as "DEALER"."""
        greeting = _GREETING + _ready(kind)
        self._parts.append(greeting)
        self.size += len(greeting)

    def put(self, frames: Sequence[Frame]) -> None:
        """Add a batch; its frames are not copied, so do not change them."""
        left = len(frames)
        for frame in frames:
            left -= 1
            size = len(frame)
            more = _MORE if left else 0
            head = bytes((more, size)) if size <= _SHORT else _LONG_HEAD.pack(more | _LONG, size)
            self._parts += (head, frame)
            self.size += len(head) + size

    def hand_over(self, take: Callable[[Iterable[Frame]], int]) -> int:
        """Pass the next frames, but not too many, to a function such as `sendmsg`.

        Args:
            take: returns the number of bytes it took, or raises BlockingIOError if it takes none now.

        Returns:
            The number of bytes taken.
        """
        parts = self._parts
        try:
            count = left = take(parts if self.size <= CALL_BYTES and len(parts) <= PARTS else self._some())
        except BlockingIOError:
            return 0
        self.size -= count
        while parts and left >= len(parts[0]):
            left -= len(parts.popleft())
        if left:
            parts[0] = memoryview(parts[0])[left:]
        return count

    def _some(self) -> list[Frame]:
        some: list[Frame] = []
        room = CALL_BYTES
        for part in islice(self._parts, PARTS):
            some.append(memoryview(part)[:room])
            room -= len(some[-1])
            if not room:
                break
        return some
