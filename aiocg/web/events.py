"""Broadcast that never blocks on slow readers."""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["Event", "Events"]

QUEUED = 256  # events that a slow reader may be behind before it loses the oldest

Event = Mapping[str, Any]


class Events:
    """What happens somewhere, told to all who read it."""

    def __init__(self) -> None:
        self._readers: set[asyncio.Queue[Event]] = set()

    @contextlib.contextmanager
    def events(self) -> Iterator[asyncio.Queue[Event]]:
        """Give a queue of what happens from now on; a slow reader loses the oldest."""
        queue: asyncio.Queue[Event] = asyncio.Queue(QUEUED)
        self._readers.add(queue)
        try:
            yield queue
        finally:
            self._readers.discard(queue)

    @property
    def watched(self) -> bool:
        """Whether anybody reads the events."""
        return bool(self._readers)

    def tell(self, event: str, **facts: Any) -> None:
        """Tell all readers of an event."""
        for queue in self._readers:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait({"event": event, **facts})
