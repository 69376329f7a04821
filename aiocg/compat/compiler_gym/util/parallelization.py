"""Iterators for several threads."""

import itertools
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Self

__all__ = ["thread_safe_tee"]


class _LockedTee:
    def __init__(self, items: Any, lock: threading.Lock) -> None:
        self.items = items
        self.lock = lock

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        with self.lock:
            return next(self.items)

    def __copy__(self) -> "_LockedTee":
        with self.lock:
            return _LockedTee(self.items.__copy__(), self.lock)


def thread_safe_tee(iterable: Iterable[Any], n: int = 2) -> tuple[Iterator[Any], ...]:
    """Do as `itertools.tee`, with iterators that different threads may use at the same time."""
    lock = threading.Lock()
    return tuple(_LockedTee(items, lock) for items in itertools.tee(iterable, n))
