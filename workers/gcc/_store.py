"""The cache of compiler output, in memory and on disk."""

import hashlib
import threading
import zlib
from collections import OrderedDict
from pathlib import Path
from typing import Any

import msgspec

from aiocg.workers.shared_table import LIMIT, Table

NAME = "results-1.sqlite"  # the number is the format's version
LARGEST = 16 << 20  # bytes of a compressed result


class Store(Table):
    """Values by key, encoded as MessagePack and compressed, in a `Table`.

    Args:
        folder: the folder of the file.
        limit: the compressed size of all values in bytes; the file is slightly larger.

    Attributes:
        hits: the number of lookups that found a value.
    """

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        super().__init__(folder / NAME, limit)
        self.hits = 0

    def get(self, key: Any) -> Any:
        """Return a value; None if there is none."""
        digest = _digest(key)
        content = self.find([digest]).get(digest)
        value = _decode(content, digest) if content is not None else None
        self.hits += value is not None
        return value

    def put(self, key: Any, value: Any) -> None:
        """Store a value, replacing any other; it is written with the next batch."""
        digest = _digest(key)
        content = zlib.compress(msgspec.msgpack.encode((digest, value)), 1)
        if len(content) <= LARGEST:
            self.add(digest, content)


def _digest(key: Any) -> bytes:
    return hashlib.blake2b(msgspec.msgpack.encode(key), digest_size=20).digest()


def _decode(content: bytes, digest: bytes) -> Any:
    """Decode a value; None if it is damaged or belongs to another key."""
    try:
        found, value = msgspec.msgpack.decode(zlib.decompress(content))
    except (zlib.error, msgspec.DecodeError, ValueError, TypeError):
        return None
    return value if found == digest else None


IN_MEMORY = 64 << 20  # bytes
IN_MEMORY_EACH = 1024  # bytes of a result in addition to its content
_ELEMENT = 100  # bytes of one of several values in addition to its content


class Results:
    """Values by key and name; the least recently used are dropped from memory first, and stay on disk.

    Args:
        store: the store on disk, if any.
        limit: the limit in memory, in bytes.

    Attributes:
        hits: the number of lookups that found a value in memory or on disk.
    """

    def __init__(self, store: Store | None = None, limit: int = IN_MEMORY) -> None:
        self.store = store
        self.limit = limit
        self.size = 0
        self.hits = 0
        self._lock = threading.Lock()
        self._values: OrderedDict[tuple[str, str], tuple[Any, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str, name: str) -> Any:
        """Return a value; None if neither memory nor disk has it."""
        with self._lock:
            found = self._values.get((key, name))
            if found is not None:
                self._values.move_to_end((key, name))
                self.hits += 1
                return found[0]
        value = self.store.get((key, name)) if self.store is not None else None
        self.hits += value is not None
        if value is not None:
            self._keep(key, name, value)
        return value

    def put(self, key: str, name: str, value: Any) -> None:
        """Store a value, replacing any other."""
        self._keep(key, name, value)
        if self.store is not None:
            self.store.put((key, name), value)

    def _keep(self, key: str, name: str, value: Any) -> None:
        size = IN_MEMORY_EACH + _size(value)
        with self._lock:
            _, before = self._values.pop((key, name), (None, 0))
            self._values[key, name] = value, size
            self.size += size - before
            while self.size > self.limit and len(self._values) > 1:
                _, (_, freed) = self._values.popitem(last=False)
                self.size -= freed


def _size(value: Any) -> int:
    """Estimate the size of a value in memory, in bytes."""
    if isinstance(value, (bytes, str)):
        return len(value)
    if isinstance(value, dict):
        return sum(_ELEMENT + _size(key) + _size(one) for key, one in value.items())
    return sum(_ELEMENT + _size(one) for one in value) if isinstance(value, (list, tuple)) else 0
