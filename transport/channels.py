"""What a channel does, whatever it is made of: Unix sockets (`streams`, `worker_stream`), or ZeroMQ (`sockets`)."""

from collections.abc import Callable, Sequence
from typing import Protocol

from aiocg.transport.errors import ProtocolError
from aiocg.transport.messages import Reply, Request

__all__ = ["Connect", "ReplyChannel", "RequestChannel"]


class RequestChannel(Protocol):
    """A client's connection to one worker.

    Attributes:
        bytes_sent, bytes_received: of batches so far.
    """

    bytes_sent: int
    bytes_received: int

    @property
    def bytes_queued(self) -> int:
        """Encoded size in bytes of the requests that wait for the worker to take them."""

    def send(self, message: Request) -> None:
        """Queue a request; all that are queued in one turn of the loop travel together."""

    def receive_pending(self) -> None:
        """Hand over every reply that has arrived, now; meant for after the worker's death."""

    def close(self) -> None:
        """Close the connection and forget what is queued; may be called twice."""


Connect = Callable[[Callable[[list[Reply]], None], Callable[[Exception], None]], RequestChannel]
"""Opens a channel, given what is to be called with replies and with errors."""


class ReplyChannel(Protocol):
    """A worker's end of the connections of all its clients.

    Attributes:
        bytes_sent, bytes_received: of batches so far.
    """

    bytes_sent: int
    bytes_received: int

    def receive(self, timeout: float | None) -> list[tuple[bytes, list[Request] | ProtocolError]]:
        """Return batches and who sent them, waiting for the first; an empty list after `timeout` seconds."""

    def send(self, client: bytes, replies: Sequence[Reply]) -> bool:
        """Send replies to a client, together; say whether they could be handed over."""

    def close(self) -> None:
        """Close, once the last replies are on their way; may be called twice."""
