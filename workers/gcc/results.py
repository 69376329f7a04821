"""What compiles have made, remembered in memory and, where there is a store, on disk."""

import threading
from collections import OrderedDict
from typing import Any

from aiocg.workers.gcc.store import Store

__all__ = ["Results"]

LIMIT = 64 << 20  # bytes
OVERHEAD = 1024  # bytes that a result takes beside its content
_ELEMENT = 100  # bytes that one of several values takes beside its content


class Results:
    """Values by key and name; the least recently used leave the memory first, and stay on disk.

    Args:
        store: keeps them on disk, if there is one.
        limit: bytes that values may take in memory.

    Attributes:
        hits, misses: how often a value was asked for that was known, and that was not.
    """

    def __init__(self, store: Store | None = None, limit: int = LIMIT) -> None:
        self.store = store
        self.limit = limit
        self.size = 0
        self.hits = 0
        self.misses = 0
        self._lock = threading.Lock()
        self._values: OrderedDict[tuple[str, str], tuple[Any, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str, name: str) -> Any:
        """Return a value, None when it is not known."""
        with self._lock:
            found = self._values.get((key, name))
            if found is not None:
                self._values.move_to_end((key, name))
                self.hits += 1
                return found[0]
        value = self.store.get((key, name)) if self.store is not None else None
        self.hits += value is not None
        self.misses += value is None
        if value is not None:
            self._keep(key, name, value)
        return value

    def put(self, key: str, name: str, value: Any) -> None:
        """Remember a value, in place of the one that there may be."""
        self._keep(key, name, value)
        if self.store is not None:
            self.store.put((key, name), value)

    def _keep(self, key: str, name: str, value: Any) -> None:
        size = OVERHEAD + _size(value)
        with self._lock:
            _, before = self._values.pop((key, name), (None, 0))
            self._values[key, name] = value, size
            self.size += size - before
            while self.size > self.limit and len(self._values) > 1:
                _, (_, freed) = self._values.popitem(last=False)
                self.size -= freed


def _size(value: Any) -> int:
    """Return about how many bytes a value has in memory."""
    if isinstance(value, (bytes, str)):
        return len(value)
    if isinstance(value, dict):
        return sum(_ELEMENT + _size(key) + _size(one) for key, one in value.items())
    return sum(_ELEMENT + _size(one) for one in value) if isinstance(value, (list, tuple)) else 0
