"""Results that are kept on disk, for other workers and later runs: a file of SQLite, which is worth no failure.

Whatever is wrong with the file, whoever uses it goes on without: what cannot be read is not there, and what cannot be
written is not kept. A damaged file is replaced.
"""

import contextlib
import hashlib
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from aiocg.workers.gcc.locking import locked

__all__ = ["Store"]

NAME = "results-1.sqlite"  # the number is that of the form of its content
LIMIT = 1 << 30  # bytes
BATCH, BATCH_SIZE = 64, 16 << 20  # results, and bytes of them, that are written at once if no quiet moment comes before
LARGEST = 16 << 20  # bytes of a result, compressed
PATIENCE = 1.0  # seconds for other processes that write, or make or remove the file
REST = 60.0  # seconds to go on without the file after another process has kept us from it for longer
FRESH = 3600  # seconds in which it is not noted again that a result was used
OVERHEAD = 128  # bytes that a result takes beside its content

_SCHEMA = """
    CREATE TABLE IF NOT EXISTS results (key BLOB PRIMARY KEY, used INTEGER, size INTEGER, content BLOB);
    CREATE INDEX IF NOT EXISTS by_use ON results (used);
"""
_PUT = "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?)"
_OLDEST = "DELETE FROM results WHERE used <= (SELECT used FROM results ORDER BY used LIMIT 1 OFFSET ?)"


class Store:
    """Values by key, both as MessagePack can say them; the least recently used go first when there are too many.

    Several processes and threads may use one file.

    Args:
        folder: where the file lies.
        limit: bytes that all values may have, compressed; the file is a little larger.

    Attributes:
        hits, misses: how often a value was asked for that was there, and that was not.
    """

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        self.path = folder / NAME
        self.limit = limit
        self.hits = 0
        self.misses = 0
        self._lock = threading.RLock()
        self._waiting: dict[bytes, tuple[int, bytes]] = {}  # by key: when it was made, and the content
        self._waiting_size = 0
        self._used: set[bytes] = set()
        self._written = limit  # bytes since all was counted: at first nobody knows
        self._database: sqlite3.Connection | None = None
        self._resting = 0.0  # until when the file is left alone, in seconds of the monotonic clock
        self._file = 0  # number of the file that is open, by which one sees that another has replaced it
        with self._lock, self._forgiving():
            self._open()

    def get(self, key: Any) -> Any:
        """Return the value of a key, None when it is not there."""
        digest = _digest(key)
        with self._lock:
            known = self._waiting.get(digest)
            content = known[1] if known is not None else self._read(digest)
            value = _decode(content, digest) if content is not None else None
            self.hits += value is not None
            self.misses += value is None
            return value

    def put(self, key: Any, value: Any) -> None:
        """Keep a value, in place of the one that there may be; it is written with the next batch."""
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
        """Write what is waiting."""
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
        """Write what is waiting, and close the file; idempotent."""
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
        """Forget what was not used for the longest time, if there is too much."""
        count, size = database.execute("SELECT count(*), total(size) FROM results").fetchone()
        while count and size > self.limit:
            excess = 1 - 0.9 * self.limit / size
            database.execute(_OLDEST, (min(count - 1, int(count * excess)),))
            count, size = database.execute("SELECT count(*), total(size) FROM results").fetchone()
        self._written = 0

    @contextlib.contextmanager
    def _forgiving(self) -> Iterator[None]:
        """Go on without the file where it cannot be used now, and without its content where that is damaged."""
        try:
            yield
        except (sqlite3.OperationalError, OSError):  # it is locked, or the disk is full, or may not be written to
            pass
        except sqlite3.DatabaseError:
            self._replace()

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            if time.monotonic() < self._resting:
                raise TimeoutError
            with self._alone():
                database = sqlite3.connect(
                    self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
                )
                try:
                    database.execute("PRAGMA journal_mode = WAL")
                    database.execute("PRAGMA synchronous = OFF")  # what a power failure damages is replaced
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
        """Remove the damaged file, unless another process has done so; the next use makes a new one."""
        self._close()
        with contextlib.suppress(OSError), self._alone():
            if self._file in (0, self.path.stat().st_ino):
                for suffix in ("", "-wal", "-shm"):
                    Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        self._file = 0

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Be the only process that makes or removes the file."""
        with locked(f"{self.path}.lock", PATIENCE) as is_ours:
            if not is_ours:
                self._resting = time.monotonic() + REST
                raise TimeoutError
            yield


def _digest(key: Any) -> bytes:
    return hashlib.blake2b(msgspec.msgpack.encode(key), digest_size=20).digest()


def _decode(content: bytes, digest: bytes) -> Any:
    """Return the value in a content; None when it is damaged, or that of another key."""
    try:
        found, value = msgspec.msgpack.decode(zlib.decompress(content))
    except (zlib.error, msgspec.DecodeError, ValueError, TypeError):
        return None
    return value if found == digest else None
