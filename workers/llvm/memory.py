"""Reads this process's memory through `/proc/self/mem`, where a wrong address cannot crash."""

import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["Memory", "Unexpected", "expect", "only", "open_memory"]

T = TypeVar("T")


class Unexpected(Exception):
    """LLVM's memory layout differs from that of all known releases; the message says where."""


class Memory:
    """Reads this process's memory; any address is allowed."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, address: int, size: int) -> bytes:
        """Return bytes; zeros if the address is not mapped."""
        try:
            content = os.pread(self._descriptor, size, address)
        except (OSError, OverflowError):
            content = b""
        return content if len(content) == size else bytes(size)

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Return the words of an object."""
        return struct.unpack(f"<{count}Q", self.read(address, 8 * count))


@contextmanager
def open_memory() -> Iterator[Memory]:
    """Open this process's memory."""
    with open("/proc/self/mem", "rb", buffering=0) as file:
        yield Memory(file.fileno())


def expect(holds: object, what: str) -> None:
    """Raise `Unexpected` unless something holds."""
    if not holds:
        raise Unexpected(f"{what} not as expected")


def only(places: Iterable[T], what: str) -> T:
    """Return the one place that fits."""
    found = list(places)
    expect(len(found) == 1, what)
    return found[0]
