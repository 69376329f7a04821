"""The cache of compiler output, in memory and on disk."""

import contextlib
import hashlib
import os
import sqlite3
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec


@contextlib.contextmanager
def locked(path: str, patience: float) -> Iterator[bool]:
    """Hold a lock; yield whether it was acquired, since a stopped process may hold it forever.

    Args:
        path: the lock file, created with its folder if possible.
        patience: the seconds to wait for it.
    """
    from filelock import FileLock, Timeout  # slow to import, and most workers never need it

    lock = FileLock(path, mode=0o600)
    with contextlib.suppress(OSError, NotImplementedError, Timeout):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        lock.acquire(timeout=patience, poll_interval=0.02)
    try:
        yield lock.is_locked
    finally:
        lock.release()


NAME = "results-1.sqlite"  # the number is the format's version
LIMIT = 1 << 30  # bytes
BATCH, BATCH_SIZE = 64, 16 << 20  # results and bytes at which a batch is written, if no idle moment comes before
LARGEST = 16 << 20  # bytes of a compressed result
PATIENCE = 1.0  # seconds to wait for other processes that write, create or remove the file
REST = 60.0  # seconds without the file after another process has locked it for longer than that
FRESH = 3600  # seconds during which another use of a result is not recorded
OVERHEAD = 128  # bytes of a result in addition to its content

_SCHEMA = """
    CREATE TABLE IF NOT EXISTS results (key BLOB PRIMARY KEY, used INTEGER, size INTEGER, content BLOB);
    CREATE INDEX IF NOT EXISTS by_use ON results (used);
"""
_PUT = "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?)"
_OLDEST = "DELETE FROM results WHERE used <= (SELECT used FROM results ORDER BY used LIMIT 1 OFFSET ?)"


class Store:
    """Values by key, encoded as MessagePack; the least recently used are evicted first.

    Several processes and threads may use one file.

    Args:
        folder: the folder of the file.
        limit: the compressed size of all values in bytes; the file is slightly larger.

    Attributes:
        hits: the number of lookups that found a value.
    """

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        self.path = folder / NAME
        self.limit = limit
        self.hits = 0
        self._lock = threading.RLock()
        self._waiting: dict[bytes, tuple[int, bytes]] = {}  # by key: creation time and content
        self._waiting_size = 0
        self._used: set[bytes] = set()
        self._written = limit  # bytes written since the last count; initially unknown
        self._database: sqlite3.Connection | None = None
        self._resting = 0.0  # the end of the rest from the file, in seconds of the monotonic clock
        self._file = 0  # inode of the open file, to detect that another file has replaced it
        with self._lock, self._forgiving():
            self._open()

    def get(self, key: Any) -> Any:
        """Return a value; None if there is none."""
        digest = _digest(key)
        with self._lock:
            known = self._waiting.get(digest)
            content = known[1] if known is not None else self._read(digest)
            value = _decode(content, digest) if content is not None else None
            self.hits += value is not None
            return value

    def put(self, key: Any, value: Any) -> None:
        """Store a value, replacing any other; it is written with the next batch."""
        digest = _digest(key)
        content = zlib.compress(msgspec.msgpack.encode((digest, value)), 1)
        if len(content) > LARGEST:
            return
        with self._lock:
            _, before = self._waiting.get(digest, (0, b""))
            self._waiting[digest] = int(time.time()), content
            self._waiting_size += len(content) - len(before)
            if len(self._waiting) >= BATCH or self._waiting_size >= BATCH_SIZE:
                self.flush()

    def flush(self) -> None:
        """Write the pending batch."""
        with self._lock:
            if not self._waiting and not self._used:
                return
            waiting, self._waiting, self._waiting_size = self._waiting, {}, 0
            used, self._used = self._used, set()
            rows = [(key, when, len(content) + OVERHEAD, content) for key, (when, content) in waiting.items()]
            with self._forgiving():
                database = self._open()
                with database:
                    database.execute("BEGIN IMMEDIATE")
                    database.executemany(_PUT, rows)
                    now = int(time.time())
                    database.executemany("UPDATE results SET used = ? WHERE key = ?", [(now, key) for key in used])
                self._written += sum(row[2] for row in rows)
                if self._written > self.limit // 64:
                    self._shrink(database)

    def close(self) -> None:
        """Write the pending batch, and close the file. Idempotent."""
        with self._lock:
            self.flush()
            self._close()

    def _read(self, digest: bytes) -> bytes | None:
        with self._forgiving():
            row = self._open().execute("SELECT content, used FROM results WHERE key = ?", (digest,)).fetchone()
            if row is not None:
                if time.time() - row[1] > FRESH:
                    self._used.add(digest)
                content: bytes = row[0]
                return content
        return None

    def _shrink(self, database: sqlite3.Connection) -> None:
        """Evict the least recently used values beyond the limit."""
        count, size = database.execute("SELECT count(*), total(size) FROM results").fetchone()
        while count and size > self.limit:
            excess = 1 - 0.9 * self.limit / size
            database.execute(_OLDEST, (min(count - 1, int(count * excess)),))
            count, size = database.execute("SELECT count(*), total(size) FROM results").fetchone()
        self._written = 0

    @contextlib.contextmanager
    def _forgiving(self) -> Iterator[None]:
        """Ignore a file that cannot be used, and replace a damaged one."""
        try:
            yield
        except (sqlite3.OperationalError, OSError):  # the file is locked or read-only, or the disk is full
            pass
        except sqlite3.DatabaseError:
            self._replace()

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            if time.monotonic() < self._resting:
                raise TimeoutError
            with self._alone():
                database = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
                try:
                    database.execute("PRAGMA journal_mode = WAL")
                    database.execute("PRAGMA synchronous = OFF")  # a file damaged by a power failure is replaced
                    database.executescript(_SCHEMA)
                    self._file = self.path.stat().st_ino
                except BaseException:
                    database.close()
                    raise
            self._database = database
        return self._database

    def _close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            with contextlib.suppress(sqlite3.Error):
                database.close()

    def _replace(self) -> None:
        """Remove the damaged file, unless another process has; the next use creates a new one."""
        self._close()
        with contextlib.suppress(OSError), self._alone():
            if self._file in (0, self.path.stat().st_ino):
                for suffix in ("", "-wal", "-shm"):
                    Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        self._file = 0

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock for creating or removing the file."""
        with locked(f"{self.path}.lock", PATIENCE) as is_ours:
            if not is_ours:
                self._resting = time.monotonic() + REST
                raise TimeoutError
            yield


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
