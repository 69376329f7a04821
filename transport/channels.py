"""The interfaces of channels, implemented over Unix sockets (`streams`, `worker_stream`) and ZeroMQ (`sockets`)."""

from collections.abc import Callable, Sequence
from typing import ParamSpec, Protocol

from aiocg.transport.errors import ProtocolError
from aiocg.transport.messages import Reply, Request

Arguments = ParamSpec("Arguments")


def guarded(callback: Callable[Arguments, None], channel: str) -> Callable[Arguments, None]:
    """Return a callback whose errors go to the loop's exception handler, so that they lose no later batch."""
    import asyncio  # which workers, who import this module, do without

    loop = asyncio.get_running_loop()

    def call(*arguments: Arguments.args, **options: Arguments.kwargs) -> None:
        try:
            callback(*arguments, **options)
        except Exception as error:
            loop.call_exception_handler({"message": f"callback of the channel {channel} failed", "exception": error})

    return call


class RequestChannel(Protocol):
    """A client's connection to one worker.

    Attributes:
        bytes_sent, bytes_received: total size of batches so far.
    """

    bytes_sent: int
    bytes_received: int

    @property
    def bytes_queued(self) -> int:
        """Encoded size in bytes of the requests that the worker has not read yet."""

    def send(self, message: Request, *, at_once: bool = False) -> None:
        """Queue a request; requests queued in one turn of the event loop travel together, unless sent `at_once`."""

    def receive_pending(self) -> None:
        """Deliver every reply that has arrived, now; used after the worker's death."""

    def close(self) -> None:
        """Close the connection and drop what is queued; may be called twice."""


Connect = Callable[[Callable[[list[Reply]], None], Callable[[Exception], None]], RequestChannel]
"""Opens a channel, given the callbacks for replies and for errors."""


class ReplyChannel(Protocol):
    """A worker's end of the connections of all its clients.

    Attributes:
        bytes_sent, bytes_received: total size of batches so far.
    """

    bytes_sent: int
    bytes_received: int

    def receive(self, timeout: float | None) -> list[tuple[bytes, list[Request] | ProtocolError]]:
        """Wait for batches and return each with its sender; return an empty list after `timeout` seconds."""

    def send(self, client: bytes, replies: Sequence[Reply]) -> bool:
        """Send replies to a client, together; return whether they could be handed over."""

    def close(self) -> None:
        """Close after the last replies have been sent; may be called twice."""
