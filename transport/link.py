"""A link: batches that arrive exactly once and in order, although connections break. Pure: no sockets.

A connection between machines can be cut and lose what is in flight. A link continues over the next connection. It has
two ends: a client, which begins and has the only timer, and a server, which only answers.

Each end numbers its batches from 1, and keeps a sent batch until the peer acknowledges it in a later multipart. Each
end accepts only the next number, and drops duplicates and batches that come too early. Each end says how many batches
it has sent; since a connection keeps the order, a peer that has received fewer knows that some were lost, and asks for
them.

Each multipart begins with a head:

    kind     what else the multipart says, see `Kind`
    client   the client's instance: 16 random bytes
    server   the server's instance, zeros while the client does not know it
    number   number of the batch that follows, 0 if none does
    sent     number of the last batch sent before this one
    taken    number of the last batch accepted from the peer

Instances distinguish processes: a server that was restarted on the same address knows nothing of earlier batches, and
says so (`Kind.GONE`) instead of executing something twice. So a client first asks for the server's instance, and sends
its first batch when it knows it.
"""

import struct
from collections import deque
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from aiocg.transport.codec import Frame
from aiocg.transport.errors import LinkLostError, RemoteProtocolError

INSTANCE_BYTES: Final = 16

WINDOW_BATCHES: Final = 64
WINDOW_BYTES: Final = 16 * 1024 * 1024
"""Batches and bytes that may be in flight (sent and not acknowledged). The rest waits. One batch is always allowed."""

QUEUED_BATCHES: Final = 2 * WINDOW_BATCHES
"""Capacity of each ZeroMQ queue, in multiparts: a full window, and room to send some again."""

ACKNOWLEDGE_BATCHES: Final = 16
ACKNOWLEDGE_BYTES: Final = 4 * 1024 * 1024
"""Batches and bytes accepted after which an acknowledgement is sent by itself; a fraction of the window."""

KEPT_BYTES: Final = 64 * 1024 * 1024
"""While a server keeps this many bytes for a client, it accepts nothing from it, because the client does not read."""

LOST_BYTES: Final = 2 * 1024 * 1024 * 1024
"""At this many bytes the server gives the client up, because replies to earlier requests need too much memory."""

BATCH_COST: Final = 512
"""Approximate overhead of a kept batch, in bytes."""

PATIENCE: Final = 1.0
LONGEST_PATIENCE: Final = 8.0
"""Seconds of silence after which a waiting client asks: the first pause, and the longest."""

_HEAD: Final = struct.Struct(f"<4sB{INSTANCE_BYTES}s{INSTANCE_BYTES}sQQQ")
_MAGIC: Final = b"acg1"
_UNKNOWN: Final = bytes(INSTANCE_BYTES)


class Kind(IntEnum):
    """What a multipart says in addition to its batch, if it has one."""

    PLAIN = 0
    ASK = 1  # please answer
    AGAIN = 2  # send again what comes after `taken`
    GONE = 3  # this client is unknown, or was forgotten


_KINDS: Final = frozenset(Kind)


class Head(NamedTuple):
    """The first frame of each multipart."""

    kind: Kind
    client: bytes
    server: bytes
    number: int
    sent: int
    taken: int

    def pack(self) -> bytes:
        """Return the frame."""
        return _HEAD.pack(_MAGIC, *self)


def read_head(frames: Sequence[Frame]) -> Head:
    """Read the first frame of a multipart.

    Raises:
        RemoteProtocolError: if it is not a head, or does not match what follows.
    """
    if not frames or len(frames[0]) != _HEAD.size:
        raise RemoteProtocolError("a multipart without the head of a link")
    magic, kind, client, server, number, sent, taken = _HEAD.unpack(frames[0])
    if magic != _MAGIC or kind not in _KINDS or client == _UNKNOWN:
        raise RemoteProtocolError("a multipart with the head of another kind of link; is it the same release of aiocg?")
    if (number > 0) != (len(frames) > 1):
        raise RemoteProtocolError(f"batch {number} of a link came with {len(frames) - 1} frames")
    return Head(Kind(kind), client, server, number, sent, taken)


def is_first(head: Head) -> bool:
    """Return whether this is a client's first head."""
    return head[:1] + head[2:] == (Kind.ASK, _UNKNOWN, 0, 0, 0)


def gone(head: Head, server: bytes) -> list[Frame]:
    """Return a server's answer to a client that it does not know."""
    return [Head(Kind.GONE, head.client, server, 0, 0, 0).pack()]


class _Batch(NamedTuple):
    number: int
    frames: list[Frame]
    size: int


class _Link:
    """What both ends have in common; see `ClientLink` and `ServerLink`.

    Pass `push` the batches to deliver, and `receive` the multiparts that arrive. `outgoing` returns the multipart to
    send next; call `sent` once the connection has accepted it.

    Attributes:
        client: the client's instance.
        server: the server's instance; zeros while it is unknown.
        kept_bytes: size of the batches kept until the peer acknowledges them.
        lost: why the link has failed, None while it works.
    """

    def __init__(self, client: bytes, server: bytes) -> None:
        self.client = client
        self.server = server
        self.kept_bytes = 0
        self.lost: LinkLostError | None = None
        self._kept: deque[_Batch] = deque()  # batches in flight, then waiting ones
        self._in_flight = 0  # batches
        self._in_flight_bytes = 0
        self._pushed = 0  # number of the last batch pushed
        self._arrived = 0  # number of the last batch acknowledged by the peer
        self._sent = 0  # number of the last batch that was ever sent
        self._taken = 0  # number of the last batch accepted from the peer
        self._acknowledged = 0  # the value of `_taken` in our last multipart
        self._unacknowledged_bytes = 0
        self._there = 0  # number of the last batch that the peer says it has sent
        self._again_after = -1  # the value of `_taken` when missing batches were last requested
        self._word: Kind | None = None  # the kind to send, without a batch if there is none to send

    @property
    def pending(self) -> bool:
        """Whether there are batches that the peer has not acknowledged."""
        return bool(self._kept)

    @property
    def room(self) -> bool:
        """Whether a batch pushed now could be sent at once."""
        return self._in_flight == len(self._kept) and self._may_send(0)

    # ------------------------------------------------------------------------------------------- sending

    def push(self, frames: list[Frame]) -> None:
        """Accept a batch for delivery. Its frames are kept by reference: do not change them.

        Raises:
            LinkLostError: if the link has failed.
        """
        if self.lost is not None:
            raise self.lost
        self._pushed += 1
        size = BATCH_COST + sum(map(len, frames))
        self._kept.append(_Batch(self._pushed, frames, size))
        self.kept_bytes += size

    def outgoing(self) -> list[Frame] | None:
        """Return the multipart to send next, None if there is nothing to send now."""
        batch = self._next_batch()
        if batch is not None:
            return [self._head(self._word or Kind.PLAIN, batch.number), *batch.frames]
        return None if self._word is None else [self._head(self._word, 0)]

    def sent(self) -> None:
        """Record that the multipart returned by `outgoing` was sent."""
        batch = self._next_batch()
        if batch is not None:
            self._in_flight += 1
            self._in_flight_bytes += batch.size
            self._sent = max(self._sent, batch.number)
        self._word = None
        self._acknowledged = self._taken
        self._unacknowledged_bytes = 0

    def _head(self, kind: Kind, number: int) -> bytes:
        return Head(kind, self.client, self.server, number, self._arrived + self._in_flight, self._taken).pack()

    def _next_batch(self) -> _Batch | None:
        if self._in_flight == len(self._kept) or self.lost is not None:
            return None
        batch = self._kept[self._in_flight]
        return batch if self._may_send(batch.size) else None

    def _may_send(self, size: int) -> bool:
        return not self._in_flight or (
            self._in_flight < WINDOW_BATCHES and self._in_flight_bytes + size <= WINDOW_BYTES
        )

    def _send_again(self) -> None:
        self._in_flight = self._in_flight_bytes = 0

    def _say(self, word: Kind) -> None:
        if self._word is None or word > self._word:
            self._word = word

    # ----------------------------------------------------------------------------------------- receiving

    def receive(self, head: Head, frames: Sequence[Frame]) -> list[Frame] | None:
        """Handle a multipart that arrived.

        Args:
            head: its head, as `read_head` returns it.
            frames: the multipart, including the head.

        Returns:
            The frames of the next batch; None if the multipart has no batch, or not the next one.
        """
        if self.lost is not None or not self._belongs(head):
            return None
        if head.taken > self._sent:
            self._lose("it acknowledged a batch that was never sent")
            return None
        while self._arrived < head.taken:
            self._forget_first()
        self._heed(head)
        self._there = max(self._there, head.sent)
        if head.sent > self._taken and self._again_after != self._taken and self._welcome():
            self._again_after = self._taken  # ask only once, as the next heads show the same gap
            self._say(Kind.AGAIN)
        return self._take(head.number, frames) if head.number and self._welcome() else None

    def _belongs(self, head: Head) -> bool:
        return (head.client, head.server) == (self.client, self.server)

    def _heed(self, head: Head) -> None:
        """Act on the kind of a head."""
        if head.kind == Kind.AGAIN:
            self._send_again()

    def _welcome(self) -> bool:
        """Return whether batches are accepted now."""
        return True

    def _forget_first(self) -> None:
        batch = self._kept.popleft()
        self._arrived = batch.number
        self.kept_bytes -= batch.size
        if self._in_flight:
            self._in_flight -= 1
            self._in_flight_bytes -= batch.size

    def _take(self, number: int, frames: Sequence[Frame]) -> list[Frame] | None:
        if number <= self._taken:
            self._say(Kind.PLAIN)  # the peer missed our acknowledgement
        if number != self._taken + 1:
            return None
        self._taken = number
        self._unacknowledged_bytes += sum(map(len, frames))
        if self._taken - self._acknowledged >= ACKNOWLEDGE_BATCHES or self._unacknowledged_bytes >= ACKNOWLEDGE_BYTES:
            self._say(Kind.PLAIN)
        return list(frames[1:])

    def _lose(self, why: str) -> None:
        self.lost = LinkLostError(f"the link to the other side is lost: {why}")
        self._kept.clear()
        self.kept_bytes = 0
        self._send_again()
        self._word = None


class ClientLink(_Link):
    """The client's end."""

    def __init__(self, instance: bytes) -> None:
        """Begin with a unique instance: `INSTANCE_BYTES` random bytes."""
        super().__init__(instance, _UNKNOWN)
        self._word = Kind.ASK
        self._patience = PATIENCE
        self._since: float | None = None  # when waiting began, or something was last heard or asked

    @property
    def known(self) -> bool:
        """Whether the server has ever answered."""
        return self.server != _UNKNOWN

    def ask(self) -> None:
        """Ask the server to answer; call this when there is a new connection."""
        if self.lost is None:
            self._again_after = -1
            self._say(Kind.ASK)

    def heard(self, now: float) -> None:
        """Record that something arrived from the server; `now` is the time in seconds."""
        self._since = now
        self._patience = PATIENCE

    def tick(self, now: float, waiting: bool) -> float | None:
        """Ask the server to answer if it has been silent for too long.

        Args:
            now: the time in seconds.
            waiting: whether the caller waits for the server; the link knows what it waits for itself.

        Returns:
            The seconds until the next call is due; None if nothing is awaited.
        """
        waiting = waiting or bool(self._kept) or not self.known or self._there > self._taken
        if self.lost is not None or not waiting:
            self._since = None
            return None
        if self._since is None:
            self._since = now
        if now - self._since >= self._patience:
            self.ask()
            self._since = now
            self._patience = min(2 * self._patience, LONGEST_PATIENCE)
        return self._since + self._patience - now

    def _next_batch(self) -> _Batch | None:
        return super()._next_batch() if self.known else None

    def _may_send(self, size: int) -> bool:
        return self.known and super()._may_send(size)

    def _belongs(self, head: Head) -> bool:
        if head.client != self.client:
            return False
        if head.kind == Kind.GONE:
            self._lose("it does not know this client, or has forgotten it")
            return False
        if not self.known:
            self.server = head.server
        return head.server == self.server


class ServerLink(_Link):
    """The server's end of a link to one client."""

    def push(self, frames: list[Frame]) -> None:
        """Accept a batch for delivery. Its frames are kept by reference: do not change them.

        Raises:
            LinkLostError: if the link has failed, or fails now because the client does not read.
        """
        super().push(frames)
        if self.kept_bytes > LOST_BYTES:
            self._lose(f"it does not read, and {LOST_BYTES >> 20} MiB wait for it")
            assert self.lost is not None
            raise self.lost

    def _belongs(self, head: Head) -> bool:
        return super()._belongs(head) or is_first(head)

    def _heed(self, head: Head) -> None:
        super()._heed(head)
        if head.kind in (Kind.ASK, Kind.AGAIN):
            self._again_after = -1
            self._say(Kind.PLAIN)

    @property
    def full(self) -> bool:
        """Whether too much is kept for the client to accept more from it."""
        return self.kept_bytes >= KEPT_BYTES

    def _welcome(self) -> bool:
        return not self.full
