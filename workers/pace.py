"""A channel that reads no faster than its client may ask."""

import time

from aiocg.transport import limits
from aiocg.transport.errors import ProtocolError
from aiocg.transport.messages import Request
from aiocg.transport.security import ServerSecurity
from aiocg.transport.sockets import WorkerChannel

__all__ = ["PacedChannel"]

BURST = 1.0  # seconds of the rate that may be asked for at once, after nothing was


class PacedChannel(WorkerChannel):
    """A worker's channel with a limit on requests per second: it waits before it reads on, and nothing is refused."""

    def __init__(
        self,
        address: str,
        security: ServerSecurity,
        *,
        max_frame_bytes: int = limits.MAX_FRAME_BYTES,
        requests_per_second: float = 0.0,
    ) -> None:
        """Bind the address; see `WorkerChannel`. A rate of 0 is no limit."""
        super().__init__(address, security, max_frame_bytes=max_frame_bytes)
        self._rate = requests_per_second
        self._paid_until = time.monotonic()  # by then everything read so far may have been asked for

    def receive(self, timeout: float | None) -> list[tuple[bytes, list[Request] | ProtocolError]]:
        """Return everything at hand, once it may be read; see `WorkerChannel.receive`."""
        if self._rate <= 0:
            return super().receive(timeout)
        now = time.monotonic()
        self._paid_until = max(self._paid_until, now - BURST)
        if self._paid_until > now:
            time.sleep(self._paid_until - now)
        batches = super().receive(timeout)
        count = sum(1 if isinstance(requests, ProtocolError) else len(requests) for _, requests in batches)
        self._paid_until += count / self._rate
        return batches
