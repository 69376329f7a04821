"""Batches replies, without letting a finished reply wait for a slow request; its helper thread also keeps the beat."""

import threading
import time
from collections import deque
from collections.abc import Callable

from aiocg.transport.channels import ReplyChannel
from aiocg.transport.messages import Reply
from aiocg.transport.status import BEAT

REPLY_HOLD = 0.005  # seconds that a finished reply may wait for others while more requests are being executed
BATCH = 128  # replies that are sent without waiting, so that the client can work on them


class Outbox:
    """Collects replies until `flush`, or until there are `BATCH` of them, or until one has waited for `REPLY_HOLD`.

    For the last case there is a helper thread, which sends replies while a slow request keeps the main thread busy. The
    channel is used by one thread at a time: the helper uses it only while replies are collected, and none are while the
    main thread receives.

    Args:
        channel: to the clients.
        beat: called by the helper thread every `BEAT` seconds.
    """

    def __init__(self, channel: ReplyChannel, beat: Callable[[], None]) -> None:
        self._channel = channel
        self._beat = beat
        self._replies: deque[tuple[bytes, Reply]] = deque()  # one thread appends, and only `flush` takes
        self._lock = threading.Lock()
        self._filled = threading.Event()
        threading.Thread(target=self._send_late, name="aiocg-outbox", daemon=True).start()

    def put(self, client: bytes, reply: Reply, *, more: bool) -> None:
        """Add a reply; `more` means that another request is executed before the next `flush`."""
        self._replies.append((client, reply))
        if len(self._replies) >= BATCH:
            self.flush()
        elif more and not self._filled.is_set():
            self._filled.set()

    def flush(self) -> None:
        """Send the collected replies."""
        with self._lock:
            batches: dict[bytes, list[Reply]] = {}
            for _ in range(len(self._replies)):
                client, reply = self._replies.popleft()
                batches.setdefault(client, []).append(reply)
            for client, replies in batches.items():
                self._channel.send(client, replies)

    def _send_late(self) -> None:
        beaten = time.monotonic()
        while True:
            if self._filled.wait(BEAT):
                time.sleep(REPLY_HOLD)
                self._filled.clear()
                self.flush()
            if (now := time.monotonic()) - beaten >= BEAT:
                beaten = now
                self._beat()
