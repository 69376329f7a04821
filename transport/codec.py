"""Batches of messages as frames of bytes, and back. Pure: no sockets, no clock, no state between calls.

Frame 0 is a list of messages in MessagePack. Arrays and large byte strings in it are extensions:

    code 1  an array           header (see `arrays`), elements
    code 2  an array           number of the frame with its elements (32 bits, little-endian), header
    code 3  a byte string      number of the frame with its content

Frames are numbered from 1, and each is referred to exactly once.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar, get_args

import msgspec
from msgspec.msgpack import Ext

from aiocg.transport import limits
from aiocg.transport.arrays import (
    Array,
    Octets,
    ValueRefusedError,
    check_data,
    check_incoming,
    outgoing,
    pack_header,
    to_numpy,
    unpack_header,
)
from aiocg.transport.errors import LocalProtocolError, RemoteProtocolError
from aiocg.transport.messages import Expanded, Failure, FailureCode, Message, Observed, Reply, Request

Frame = bytes | bytearray | memoryview
ArrayMaker = Callable[[str, tuple[int, ...], Octets], Any]
AnyMessage = TypeVar("AnyMessage", bound=Message)

_ARRAY, _ARRAY_FRAME, _BYTES_FRAME = 1, 2, 3
_INDEX: Final = struct.Struct("<I")
_COUNT: Final = struct.Struct(">BI")  # MessagePack's array32 for any count, because the count is filled in last
_ENCODER: Final = msgspec.msgpack.Encoder()
_RAWS: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])
_HEADS: Final = msgspec.msgpack.Decoder(list[Any], ext_hook=lambda code, data: None)


class Batch(Generic[AnyMessage]):
    """A batch being built. If a message cannot be sent, `add` refuses it and the batch is unchanged.

    Attributes:
        messages: number of messages.
        size: total size of the frames in bytes.
        full: the next message should begin another batch.
    """

    __slots__ = ("_enough", "_frames", "_head", "_largest", "full", "messages", "size")

    def __init__(self, max_frame_bytes: int | None = None) -> None:
        """Begin with no messages; `max_frame_bytes` limits frames, by default to what the protocol allows."""
        self._largest = limits.MAX_FRAME_BYTES if max_frame_bytes is None else max_frame_bytes
        self._enough = min(limits.FULL_BATCH_BYTES, self._largest // 2)
        self.messages = 0
        self.size = _COUNT.size
        self.full = False
        self._head = bytearray(_COUNT.size)
        self._frames: list[Frame] = []

    def add(self, message: AnyMessage) -> None:
        """Append a message.

        Large byte strings and arrays in it are kept by reference until the batch is sent; do not change them.

        Raises:
            LocalProtocolError: if the message cannot be sent; the batch is unchanged.
        """
        head, frames = self._head, self._frames
        end, count = len(head), len(frames)
        try:
            _ENCODER.encode_into(outgoing(message, self._lift), head, -1)
            size = self.size + len(head) - end
            if frames:
                size += sum(map(len, frames[count:]))
            full = (
                size >= self._enough
                or self.messages + 1 >= limits.FULL_BATCH_MESSAGES
                or len(frames) >= limits.MAX_FRAMES // 2
            )
            if full:
                self._check(size)
        except Exception as error:
            del head[end:], frames[count:]
            raise _unsendable(message, error) from error
        self.size, self.full = size, full
        self.messages += 1

    def _check(self, size: int) -> None:
        """Check the limits for a batch of so many bytes, to which a message is being added."""
        if self.messages >= limits.MAX_MESSAGES:
            raise ValueRefusedError(f"the batch already has the maximum of {limits.MAX_MESSAGES} messages")
        if len(self._frames) > limits.MAX_FRAMES:
            raise ValueRefusedError(f"the batch would have more than {limits.MAX_FRAMES} frames")
        if len(self._head) > self._largest:
            raise ValueRefusedError(f"{len(self._head)} bytes, more than the {self._largest} allowed in one frame")
        if size > limits.MAX_BATCH_BYTES:
            raise ValueRefusedError(f"the batch would have {size} bytes, more than {limits.MAX_BATCH_BYTES}")

    def frames(self) -> list[Frame]:
        """Return the frames to send; the first changes when more messages are added."""
        _COUNT.pack_into(self._head, 0, 0xDD, self.messages)
        return [self._head, *self._frames]

    def _lift(self, value: bytes | Array) -> Ext:
        data = value if isinstance(value, bytes) else value.data
        if len(data) > self._largest:
            raise ValueRefusedError(f"{len(data)} bytes, more than the {self._largest} allowed in one frame")
        if isinstance(value, Array):
            header = pack_header(value.dtype, value.shape)
            if len(data) < limits.INLINE_BYTES:
                return Ext(_ARRAY, b"".join((header, data)))
            self._frames.append(data)
            return Ext(_ARRAY_FRAME, _INDEX.pack(len(self._frames)) + header)
        self._frames.append(data)
        return Ext(_BYTES_FRAME, _INDEX.pack(len(self._frames)))


def reply_batches(replies: Iterable[Reply]) -> Iterator[Batch[Reply]]:
    """Put replies into batches; a reply that cannot be sent becomes a `Failure` of its request."""
    batch: Batch[Reply] = Batch()
    for reply in replies:
        if batch.full:
            yield batch
            batch = Batch()
        try:
            batch.add(reply)
        except LocalProtocolError as error:
            if error.request is None:
                raise
            returned = "get_observation of the session returned a value that cannot be sent; "
            text = f"{returned if isinstance(reply, (Observed, Expanded)) else ''}{error}"
            batch.add(Failure(error.request, FailureCode.INTERNAL, text))
    if batch.messages:
        yield batch


class Codec(Generic[AnyMessage]):
    """Encodes and decodes batches of one direction; see `request_codec` and `reply_codec`.

    An instance serves one thread.
    """

    def __init__(self, kind: Any, array: ArrayMaker) -> None:
        """`kind` is the union of the message types, `array` makes the value of a decoded array."""
        self._array = array
        self._frames: Sequence[Frame] = ()
        self._used: set[int] = set()
        self._decoder = msgspec.msgpack.Decoder(list[kind], ext_hook=self._ext)
        self._single = msgspec.msgpack.Decoder(kind, ext_hook=self._ext)

    def encode(self, messages: Iterable[AnyMessage]) -> list[Frame]:
        """Return the frames of one batch.

        Raises:
            LocalProtocolError: if one of the messages, or the whole batch, cannot be sent.
        """
        batch: Batch[AnyMessage] = Batch()
        for index, message in enumerate(messages):
            try:
                batch.add(message)
            except LocalProtocolError as error:
                error.index = index
                raise
        head, *frames = batch.frames()
        return [bytes(head), *frames]

    def decode(self, frames: Sequence[Frame]) -> list[AnyMessage]:
        """Return the messages of one batch. Large arrays in them share memory with their frame.

        Raises:
            RemoteProtocolError: for any error in the frames; no other exception is raised.
        """
        _check_frames(frames)
        self._frames = frames
        self._used.clear()
        try:
            batch: list[AnyMessage] = self._decoder.decode(frames[0])
            check_incoming(batch)
            if len(self._used) != len(frames) - 1:
                unused = min(set(range(1, len(frames))) - self._used)
                raise RemoteProtocolError(f"frame {unused} of {len(frames)} is not referred to by any message")
            return batch
        except Exception as error:  # msgspec's errors, RecursionError, ...: all are caused by the peer's data
            raise self._located(frames[0], error) from error
        finally:
            self._frames = ()

    def _ext(self, code: int, data: memoryview) -> Any:
        elements: Octets
        if code == _ARRAY:
            end = 2 + 8 * data[1] if len(data) >= 2 else 2
            header, elements = bytes(data[:end]), bytes(data[end:])
        elif code == _ARRAY_FRAME:
            frame = self._take(data)
            header = bytes(data[_INDEX.size :])
            elements = frame if isinstance(frame, bytes) else memoryview(frame).toreadonly()
        elif code != _BYTES_FRAME:
            raise ValueError(f"extension of unknown code {code}")
        elif len(data) != _INDEX.size:
            raise ValueError(f"frame reference of {len(data)} bytes, not {_INDEX.size}")
        else:
            return bytes(self._take(data))
        dtype, shape, size = unpack_header(header)
        if size != len(elements) or dtype == "bool":
            check_data(dtype, shape, size, elements)
        return self._array(dtype, shape, elements)

    def _take(self, data: memoryview) -> Frame:
        index: int = _INDEX.unpack_from(data)[0]
        if not 0 < index < len(self._frames):
            raise ValueError(f"reference to frame {index} of a batch of {len(self._frames)} frames")
        if index in self._used:
            raise ValueError(f"frame {index} is referred to twice")
        self._used.add(index)
        return self._frames[index]

    def _located(self, head: Frame, error: Exception) -> RemoteProtocolError:
        """Return an error that names the malformed message of a batch, as far as it can be identified."""
        try:
            raws = _RAWS.decode(head)
        except Exception:  # not even MessagePack
            return RemoteProtocolError(f"not a batch of messages: {_reason(error)}")
        self._used.clear()
        for index, raw in enumerate(raws):
            try:
                check_incoming([self._single.decode(raw)])
            except Exception as cause:
                kind, request = _identity(raw)
                where = f"message {index} of {len(raws)} ({kind})"
                return RemoteProtocolError(f"{where} is malformed: {_reason(cause)}", index=index, request=request)
        return RemoteProtocolError(_reason(error))


def request_codec() -> Codec[Request]:
    """Return a codec for what clients send. Arrays are decoded as `Array`, so that workers need no numpy."""
    return Codec(Request, Array)


def reply_codec() -> Codec[Reply]:
    """Return a codec for what workers send; arrays are decoded as read-only `numpy.ndarray`."""
    return Codec(Reply, to_numpy)


_NUMBERED: Final = {kind.__name__ for kind in get_args(Request | Reply) if kind.__struct_fields__[:1] == ("request",)}


def _check_frames(frames: Sequence[Frame]) -> None:
    if not frames:
        raise RemoteProtocolError("a batch without frames")
    if len(frames) > limits.MAX_FRAMES + 1:
        raise RemoteProtocolError(f"a batch of {len(frames)} frames, more than {limits.MAX_FRAMES}")
    if len(frames) > 1 or len(frames[0]) > limits.MAX_FRAME_BYTES:
        sizes = [len(frame) for frame in frames]
        if max(sizes) > limits.MAX_FRAME_BYTES or sum(sizes) > limits.MAX_BATCH_BYTES:
            raise RemoteProtocolError(f"a batch of {sum(sizes)} bytes, more than {limits.MAX_BATCH_BYTES} in all")
    start = frames[0][:5]
    first = start[0] if start else 0
    if first in (0xDC, 0xDD):
        count = int.from_bytes(start[1 : 3 if first == 0xDC else 5], "big")
    elif first & 0xF0 == 0x90:
        count = first & 0x0F
    else:
        raise RemoteProtocolError("not a batch of messages: its first frame does not begin with a list")
    if not 0 < count <= limits.MAX_MESSAGES:
        raise RemoteProtocolError(f"a batch of {count} messages, not of 1 to {limits.MAX_MESSAGES}")


def _identity(raw: msgspec.Raw) -> tuple[str, int | None]:
    """Return type and request number of a malformed message, as far as they can be read."""
    try:
        kind, *rest = _HEADS.decode(raw)
    except Exception:
        return "of unknown type", None
    if not isinstance(kind, str):  # it may be anything, even unhashable
        return "of unknown type", None
    if kind not in _NUMBERED:
        return kind, None
    return kind, rest[0] if rest and type(rest[0]) is int else None


def _reason(error: Exception) -> str:
    if isinstance(error, ValueRefusedError):
        return f"{error.path}: {error.reason}" if error.path else error.reason
    return str(error) or type(error).__name__


def _unsendable(message: Message, error: Exception) -> LocalProtocolError:
    """Return an error that names the field because of which a message cannot be sent."""
    kind = type(message).__name__
    where = f"{kind}{error.path}" if isinstance(error, ValueRefusedError) else kind + _culprit(message)
    return LocalProtocolError(f"{where} cannot be sent: {_reason(error)}", request=getattr(message, "request", None))


def _culprit(value: Any) -> str:
    """Return the path to the first, innermost value that the encoder refuses."""
    parts: Iterable[tuple[str, Any]] = ()
    if isinstance(value, msgspec.Struct):
        parts = ((f".{name}", getattr(value, name)) for name in value.__struct_fields__)
    elif isinstance(value, dict):
        parts = ((f"[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, (list, tuple)):
        parts = ((f"[{index}]", item) for index, item in enumerate(value))
    for step, part in parts:
        try:
            _ENCODER.encode(part)
        except Exception:
            return step + _culprit(part)
    return f" ({type(value).__name__})"
