"""Contents by key in a file that all processes share."""

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

LIMIT = 1 << 30  # bytes
BATCH, BATCH_SIZE = 64, 16 << 20  # contents and bytes at which a batch is written, if no idle moment comes before
PATIENCE = 1.0  # seconds to wait for other processes that write, create or remove the file
REST = 60.0  # seconds without the file after another process has locked it for longer than that
FRESH = 3600  # seconds during which another use of a content is not recorded
OVERHEAD = 128  # bytes of a content in addition to itself
MOST_ASKED = 1000  # keys in one query

_SCHEMA = """
    CREATE TABLE IF NOT EXISTS results (key BLOB PRIMARY KEY, used INTEGER, size INTEGER, content BLOB);
    CREATE INDEX IF NOT EXISTS by_use ON results (used);
"""
_PUT = "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?)"
_FIND = "SELECT key, content, used FROM results WHERE key IN"
_OLDEST = "DELETE FROM results WHERE used <= (SELECT used FROM results ORDER BY used LIMIT 1 OFFSET ?)"


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


class Table:
    """Contents by key in one file of SQLite; the least recently used are evicted first.

    Several processes and threads may use one file. A file that cannot be used has nothing, and a damaged one is
    replaced.

    Args:
        path: the file.
        limit: the size of all contents in bytes; the file is slightly larger.
    """

    def __init__(self, path: Path, limit: int = LIMIT) -> None:
        self.path = path
        self.limit = limit
        self._lock = threading.RLock()
        self._waiting: dict[bytes, tuple[int, bytes]] = {}  # by key: creation time and content
        self._waiting_size = 0
        self.used: set[bytes] = set()
        self._written = limit  # bytes written since the last count; initially unknown
        self._database: sqlite3.Connection | None = None
        self._resting = 0.0  # the end of the rest from the file, in seconds of the monotonic clock
        self._file = 0  # inode of the open file, to detect that another file has replaced it
        with self._lock, self._forgiving():
            self._open()

    def find(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the contents that there are, by key."""
        with self._lock:
            found = {key: self._waiting[key][1] for key in keys if key in self._waiting}
            left = [key for key in keys if key not in found]
            for first in range(0, len(left), MOST_ASKED):
                found |= self._read(left[first : first + MOST_ASKED])
            return found

    def add(self, key: bytes, content: bytes) -> None:
        """Store a content, replacing any other; it is written with the next batch."""
        with self._lock:
            _, before = self._waiting.get(key, (0, b""))
            self._waiting[key] = int(time.time()), content
            self._waiting_size += len(content) - len(before)
            if len(self._waiting) >= BATCH or self._waiting_size >= BATCH_SIZE:
                self.flush()

    def flush(self) -> None:
        """Write the pending batch."""
        with self._lock:
            if not self._waiting and not self.used:
                return
            waiting, self._waiting, self._waiting_size = self._waiting, {}, 0
            used, self.used = self.used, set()
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

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        query, stale = f"{_FIND} ({', '.join('?' * len(keys))})", time.time() - FRESH
        with self._forgiving():
            for key, content, used in self._open().execute(query, keys):
                found[key] = content
                if used < stale:
                    self.used.add(key)
        return found

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
