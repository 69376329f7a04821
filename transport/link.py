"""A link: batches that arrive exactly once and in order, though the connections under it break. Pure: no sockets.

A connection between machines is cut, resets, and loses what was under way. A link goes on over the next connection
where it was. Its two ends are a client, which begins and which alone has a timer, and a server, which only answers.

Each batch has a number, the client's and the server's batches by themselves from 1. Each end keeps what it has sent
until the other has said, with whatever it sends next, that it has it. Each end takes the next number only, and drops
what comes twice or too early. Each says how much it has sent, and since a connection keeps the order, who has less than
that knows that something was lost, and asks for it.

Each multipart begins with a head:

    kind     what it says beside the rest, see `Kind`
    client   the client's instance: 16 bytes that it drew when it began
    server   the server's instance, zeros while the client does not know it
    number   of the batch that follows, 0 when none does
    sent     number of the last batch sent before this
    taken    number of the last batch taken from the other side

The instances keep apart what does not belong together: a process that was started anew on an old address knows nothing
of what was sent to the one before it, and says so (`Kind.GONE`) rather than do things twice. That is why a client first
asks whom it talks to, and sends its first batch when it knows.
"""

import struct
from collections import deque
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from aiocg.transport.codec import Frame
from aiocg.transport.errors import LinkLostError, RemoteProtocolError

__all__ = ["INSTANCE_BYTES", "ClientLink", "Head", "Kind", "Link", "ServerLink", "gone", "is_first", "read_head"]

INSTANCE_BYTES: Final = 16

WINDOW_BATCHES: Final = 64
WINDOW_BYTES: Final = 16 * 1024 * 1024
"""What may be under way: sent, and not known to have arrived. The rest waits. One batch may always be."""

TOLD_BATCHES: Final = 16
TOLD_BYTES: Final = 4 * 1024 * 1024
"""When so much was taken without a word to the other side, it is told; a fraction of the window."""

KEPT_BYTES: Final = 64 * 1024 * 1024
"""While a server keeps so much for a client, it takes nothing from it: whoever reads nothing is not worked for."""

LOST_BYTES: Final = 2 * 1024 * 1024 * 1024
"""And here it gives the client up: the replies to what it had taken before are more than it can keep."""

BATCH_COST: Final = 512
"""Bytes that a kept batch costs beside its frames, about."""

PATIENCE: Final = 1.0
LONGEST_PATIENCE: Final = 8.0
"""Seconds without a word after which a client that waits for something asks: at first, and at most."""

_HEAD: Final = struct.Struct(f"<4sB{INSTANCE_BYTES}s{INSTANCE_BYTES}sQQQ")
_MAGIC: Final = b"acg1"
_UNKNOWN: Final = bytes(INSTANCE_BYTES)


class Kind(IntEnum):
    """What a multipart says beside the batch that it may bring."""

    PLAIN = 0
    ASK = 1  # say something
    AGAIN = 2  # send again what comes after `taken`
    GONE = 3  # I do not know you, or not any more


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
        RemoteProtocolError: when it is no head, or what follows does not agree with it.
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
    """Say whether this is how a client begins."""
    return head[:1] + head[2:] == (Kind.ASK, _UNKNOWN, 0, 0, 0)


def gone(head: Head, server: bytes) -> list[Frame]:
    """Return a server's answer to a client that it does not know."""
    return [Head(Kind.GONE, head.client, server, 0, 0, 0).pack()]


class _Batch(NamedTuple):
    number: int
    frames: list[Frame]
    size: int


class Link:
    """What both ends have; see `ClientLink` and `ServerLink`.

    `push` takes a batch to be delivered and `receive` what has arrived. `outgoing` returns what is to be sent next, and
    `sent` is to be called once the connection has taken that.

    Attributes:
        client: the client's instance.
        server: the server's instance; zeros while it is unknown.
        kept_bytes: size of what is kept until the other side has it.
        lost: why nothing goes in or out any more, None while it does.
    """

    def __init__(self, client: bytes, server: bytes) -> None:
        self.client = client
        self.server = server
        self.kept_bytes = 0
        self.lost: LinkLostError | None = None
        self._kept: deque[_Batch] = deque()  # those under way, then those that wait
        self._under_way = 0  # batches
        self._under_way_bytes = 0
        self._pushed = 0  # number of the last batch pushed
        self._arrived = 0  # number of the last batch known to have arrived
        self._sent = 0  # number of the last batch that was ever sent
        self._taken = 0  # number of the last batch taken from the other side
        self._told = 0  # what the other side was last told about that
        self._untold_bytes = 0
        self._there = 0  # number of the last batch that the other side says it has sent
        self._again_after = -1  # the value of `_taken` when what is missing was last asked for
        self._word: Kind | None = None  # what has to be said, alone if no batch can go with it

    @property
    def pending(self) -> bool:
        """Whether there are batches that are not known to have arrived."""
        return bool(self._kept)

    @property
    def room(self) -> bool:
        """Whether a batch that is pushed now could be under way at once."""
        return self._under_way == len(self._kept) and self._may_send(0)

    # ------------------------------------------------------------------------------------------- sending

    def push(self, frames: list[Frame]) -> None:
        """Take a batch to be delivered. Its frames are kept by reference: do not change them.

        Raises:
            LinkLostError: when nothing is delivered any more.
        """
        if self.lost is not None:
            raise self.lost
        self._pushed += 1
        size = BATCH_COST + sum(map(len, frames))
        self._kept.append(_Batch(self._pushed, frames, size))
        self.kept_bytes += size

    def outgoing(self) -> list[Frame] | None:
        """Return what is to be sent next, None when there is nothing to be sent now."""
        batch = self._next_batch()
        if batch is not None:
            return [self._head(self._word or Kind.PLAIN, batch.number), *batch.frames]
        return None if self._word is None else [self._head(self._word, 0)]

    def sent(self) -> None:
        """Say that what `outgoing` returned is on its way."""
        batch = self._next_batch()
        if batch is not None:
            self._under_way += 1
            self._under_way_bytes += batch.size
            self._sent = max(self._sent, batch.number)
        self._word = None
        self._told = self._taken
        self._untold_bytes = 0

    def _head(self, kind: Kind, number: int) -> bytes:
        return Head(kind, self.client, self.server, number, self._arrived + self._under_way, self._taken).pack()

    def _next_batch(self) -> _Batch | None:
        if self._under_way == len(self._kept) or self.lost is not None:
            return None
        batch = self._kept[self._under_way]
        return batch if self._may_send(batch.size) else None

    def _may_send(self, size: int) -> bool:
        return not self._under_way or (
            self._under_way < WINDOW_BATCHES and self._under_way_bytes + size <= WINDOW_BYTES
        )

    def _send_again(self) -> None:
        self._under_way = self._under_way_bytes = 0

    def _say(self, word: Kind) -> None:
        if self._word is None or word > self._word:
            self._word = word

    # ----------------------------------------------------------------------------------------- receiving

    def receive(self, head: Head, frames: Sequence[Frame]) -> list[Frame] | None:
        """Take what has arrived.

        Args:
            head: what `read_head` found.
            frames: the multipart, with its head.

        Returns:
            the frames of a batch to be worked on; None when there is none, or none that is due.
        """
        if self.lost is not None or not self._belongs(head):
            return None
        if head.taken > self._sent:
            self._lose("it says that it has what was never sent")
            return None
        while self._arrived < head.taken:
            self._forget_first()
        self._heed(head)
        self._there = max(self._there, head.sent)
        if head.sent > self._taken and self._again_after != self._taken and self._welcome():
            self._again_after = self._taken  # once: the next heads will say the same
            self._say(Kind.AGAIN)
        return self._take(head.number, frames) if head.number and self._welcome() else None

    def _belongs(self, head: Head) -> bool:
        return (head.client, head.server) == (self.client, self.server)

    def _heed(self, head: Head) -> None:
        """Do what the kind of a head says."""
        if head.kind == Kind.AGAIN:
            self._send_again()

    def _welcome(self) -> bool:
        """Say whether batches are taken."""
        return True

    def _forget_first(self) -> None:
        batch = self._kept.popleft()
        self._arrived = batch.number
        self.kept_bytes -= batch.size
        if self._under_way:
            self._under_way -= 1
            self._under_way_bytes -= batch.size

    def _take(self, number: int, frames: Sequence[Frame]) -> list[Frame] | None:
        if number <= self._taken:
            self._say(Kind.PLAIN)  # it does not know that it was here
        if number != self._taken + 1:
            return None
        self._taken = number
        self._untold_bytes += sum(map(len, frames))
        if self._taken - self._told >= TOLD_BATCHES or self._untold_bytes >= TOLD_BYTES:
            self._say(Kind.PLAIN)
        return list(frames[1:])

    def _lose(self, why: str) -> None:
        self.lost = LinkLostError(f"the link to the other side is lost: {why}")
        self._kept.clear()
        self.kept_bytes = 0
        self._send_again()
        self._word = None


class ClientLink(Link):
    """The client's end."""

    def __init__(self, instance: bytes) -> None:
        """Begin with an instance that nobody else has: `INSTANCE_BYTES` at random."""
        super().__init__(instance, _UNKNOWN)
        self._word = Kind.ASK
        self._patience = PATIENCE
        self._since: float | None = None  # when waiting began, or something was last heard or asked

    @property
    def known(self) -> bool:
        """Whether the server has ever answered."""
        return self.server != _UNKNOWN

    def ask(self) -> None:
        """Have the server say something; to be called when there is a new connection."""
        if self.lost is None:
            self._again_after = -1
            self._say(Kind.ASK)

    def heard(self, now: float) -> None:
        """Say that something came from the server, at a time in seconds."""
        self._since = now
        self._patience = PATIENCE

    def tick(self, now: float, waiting: bool) -> float | None:
        """Look at the clock: ask when there was no word for too long.

        Args:
            now: time in seconds.
            waiting: whether something is to come from the server, beside what the link itself waits for.

        Returns:
            after how many seconds to look again; None when nothing is waited for.
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
            self._lose("it does not know this client, or not any more")
            return False
        if not self.known:
            self.server = head.server
        return head.server == self.server


class ServerLink(Link):
    """The server's end of a link to one client."""

    def __init__(self, client: bytes, server: bytes) -> None:
        super().__init__(client, server)

    def push(self, frames: list[Frame]) -> None:
        """Take a batch to be delivered. Its frames are kept by reference: do not change them.

        Raises:
            LinkLostError: when nothing is delivered any more, also because the client takes nothing.
        """
        super().push(frames)
        if self.kept_bytes > LOST_BYTES:
            self._lose(f"it takes nothing, and {LOST_BYTES >> 20} MiB wait for it")
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
        """Whether so much is kept for the client that nothing is taken from it."""
        return self.kept_bytes >= KEPT_BYTES

    def _welcome(self) -> bool:
        return not self.full
