"""Replies on their way out: those that are ready together travel together, and none waits for a slow request."""

import threading
import time
from collections import deque

from aiocg.transport.channels import ReplyChannel
from aiocg.transport.messages import Reply

REPLY_HOLD = 0.005  # seconds a finished reply may wait for company while more requests are being executed
COMPANY = 128  # replies that go without waiting: the client works on them while the worker goes on

__all__ = ["Outbox"]


class Outbox:
    """Collects replies until `flush`, or until there are enough of them, or until they have waited for `REPLY_HOLD`.

    A thread sees to the last. It is what lets a reply out while the request behind it keeps the main thread busy,
    however long. The channel is used by one thread at a time: by the helper only while something is collected, which it
    never is while the main thread receives.
    """

    def __init__(self, channel: ReplyChannel) -> None:
        self._channel = channel
        self._replies: deque[tuple[bytes, Reply]] = deque()  # one thread appends, and only `flush` takes
        self._lock = threading.Lock()
        self._filled = threading.Event()
        threading.Thread(target=self._send_late, name="aiocg-outbox", daemon=True).start()

    def put(self, client: bytes, reply: Reply, *, more: bool) -> None:
        """Add a reply; `more` says that another request is executed before the next `flush`."""
        self._replies.append((client, reply))
        if len(self._replies) >= COMPANY:
            self.flush()
        elif more and not self._filled.is_set():
            self._filled.set()

    def flush(self) -> None:
        """Send what is collected."""
        with self._lock:
            batches: dict[bytes, list[Reply]] = {}
            for _ in range(len(self._replies)):
                client, reply = self._replies.popleft()
                batches.setdefault(client, []).append(reply)
            for client, replies in batches.items():
                self._channel.send(client, replies)

    def _send_late(self) -> None:
        while True:
            self._filled.wait()
            time.sleep(REPLY_HOLD)
            self._filled.clear()
            self.flush()
