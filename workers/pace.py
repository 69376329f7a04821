"""A channel that limits its client's rate of requests."""

import time

from aiocg.transport import limits
from aiocg.transport.errors import ProtocolError
from aiocg.transport.messages import Request
from aiocg.transport.security import ServerSecurity
from aiocg.transport.worker_sockets import WorkerChannel

BURST = 1.0  # an idle client may send as many requests at once as the rate allows in this many seconds


class PacedChannel(WorkerChannel):
    """A worker's channel with a limit on requests per second: it delays reading, and refuses nothing."""

    def __init__(
        self,
        address: str,
        security: ServerSecurity,
        *,
        max_frame_bytes: int = limits.MAX_FRAME_BYTES,
        requests_per_second: float = 0.0,
    ) -> None:
        """Bind the address; see `WorkerChannel`. A rate of 0 means no limit."""
        super().__init__(address, security, max_frame_bytes=max_frame_bytes)
        self._rate = requests_per_second
        self._paid_until = time.monotonic()  # when the rate allows everything read so far

    def receive(self, timeout: float | None) -> list[tuple[bytes, list[Request] | ProtocolError]]:
        """Return everything that has arrived, once the rate allows it; see `WorkerChannel.receive`."""
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
