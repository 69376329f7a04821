"""The thread that writes to a file of transitions, and the rows that wait for it."""

import contextlib
import fcntl
import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from aiocg.datasets.uri import BenchmarkUri
from aiocg.transitions import _schema as codecs
from aiocg.transitions import _schema as schema
from aiocg.transitions._schema import TransitionsError, signed

BATCH = 1 << 14  # entries of one transaction, at most: hashes touch pages all over the file, each written once
WAITING = 1 << 16  # entries that may wait for the thread: several batches, as it takes one at a time
AT_ONCE = 128  # rows of one statement: for each, Python gives its lock up, and waits for it with all other threads
PERIOD = 0.5  # seconds between transactions, at most: what a crash may lose
REMEMBERED = 1 << 17  # texts of a table, and states, that are known to be in the file

_logger = logging.getLogger(__name__)


class Compiler(NamedTuple):
    """The compiler that all transitions of the file are of."""

    version: str


class Start(NamedTuple):
    """The state that a benchmark begins in."""

    benchmark: BenchmarkUri | str
    state: int


class Step(NamedTuple):
    """The result of one request from a state; `next` is None if the compiler refused the actions."""

    benchmark: BenchmarkUri | str
    state: int
    actions: tuple[str, ...]
    next: int | None
    rewards: dict[str, float]


class Observation(NamedTuple):
    """The value of an observation space in a state."""

    state: int
    space: str
    value: Any


Row = Compiler | Start | Step | Observation

Later = tuple[Callable[..., Iterable[Row]], Any, Any]
"""A function and its two arguments, which returns rows."""


class Writer:
    """Writes rows to a file, in a thread of its own, some thousands in a transaction.

    Attributes:
        dropped: number of rows that were not written.
        error: why the file can no longer be written, None if it can.

    Args:
        path: the file, which is made if there is none.
        block: wait when too many rows are waiting, instead of dropping the new one.

    Raises:
        TransitionsError: if the file cannot be used, or another process or log writes to it.
    """

    def __init__(self, path: Path, *, block: bool = True) -> None:
        self._path = path
        self._owner = os.getpid()
        self._block = block
        self.dropped = 0
        self.error: TransitionsError | None = None
        self._stack = contextlib.ExitStack()
        self._database = self._stack.enter_context(opened_alone(path))
        self._ids: dict[str, dict[Any, int]] = {table: {} for table in ("Benchmarks", "Actions", "Spaces")}
        self._states: set[int] = set()  # that are in the file, as it stores them
        self._rows: deque[Row | Later] = deque()
        self._changed = threading.Condition()
        self._asked = self._answered = 0  # flushes
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=f"aiocg-transitions {path.name}", daemon=True)
        self._thread.start()

    @property
    def clock(self) -> int:
        """The clock of the thread's processor time, for `time.clock_gettime`."""
        assert self._thread.ident is not None
        return time.pthread_getcpuclockid(self._thread.ident)

    def put(self, row: Row | Later) -> None:
        """Add a row; it is in the file after less than a second if the disk keeps up, or after `flush`."""
        if self.error is not None or self._closing:
            self.dropped += 1
            return
        waiting = len(self._rows)
        if waiting and waiting % BATCH == 0 and not self._make_room():
            self.dropped += 1
            return
        self._rows.append(row)

    def _make_room(self) -> bool:
        with self._changed:
            self._changed.notify_all()
            if len(self._rows) < WAITING:
                return True
            if self._block:
                self._changed.wait_for(lambda: len(self._rows) < WAITING or self.error is not None)
            return self._block

    def flush(self) -> None:
        """Wait until all rows are in the file.

        Raises:
            TransitionsError: if they cannot be written.
        """
        with self._changed:
            self._asked += 1
            number = self._asked
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._answered >= number or not self._thread.is_alive())
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Write what is left, and close the file; idempotent.

        Raises:
            TransitionsError: if rows could not be written.
        """
        if self._closing or self._owner != os.getpid():  # in a fork of the process, the file is not ours
            return
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        self._stack.close()
        if self.error is not None:
            raise self.error

    # ------------------------------------------------------------------------------------ in the thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._closing or self._asked > self._answered or len(self._rows) >= BATCH, PERIOD
                )
                asked, closing = self._asked, self._closing
            while self._rows and self.error is None:
                self._write_some()
            with self._changed:
                if self.error is not None:
                    self.dropped += len(self._rows)
                    self._rows.clear()
                self._answered = asked
                self._changed.notify_all()
            if closing:
                return

    def _write_some(self) -> None:
        rows = [self._rows.popleft() for _ in range(min(BATCH, len(self._rows)))]
        with self._changed:
            self._changed.notify_all()  # there is room again
        try:
            with self._database:
                self._database.execute("BEGIN IMMEDIATE")
                self._write(rows)
        except Exception as error:  # whatever it is, nobody may wait for a thread that has ended
            self.dropped += len(rows)
            self.error = TransitionsError(f"nothing more is logged to {self._path}: {error}")
            _logger.error("%s", self.error)
            with self._changed:
                self._changed.notify_all()

    def _write(self, rows: Sequence[Row | Later]) -> None:
        parts: dict[type, list[Any]] = {kind: [] for kind in (Compiler, Start, Step, Observation)}
        for row in rows:
            if type(row) is tuple:
                make, *arguments = cast(Later, row)
                for one in make(*arguments):
                    parts[type(one)].append(one)
            else:
                parts[type(row)].append(row)
        self._database.executemany("INSERT OR IGNORE INTO Meta VALUES ('compiler', ?)", parts[Compiler])
        for uri, state in parts[Start]:
            benchmark = self._id("Benchmarks", uri)
            self._database.execute("UPDATE Benchmarks SET state = ? WHERE id = ?", (signed(state), benchmark))
            self._database.execute("INSERT OR IGNORE INTO States VALUES (?, ?)", (signed(state), benchmark))
        self._write_steps(parts[Step])
        self._write_observations(parts[Observation])

    def _write_steps(self, steps: Sequence[Step]) -> None:
        encode, benchmarks, actions = msgspec.json.encode, self._ids["Benchmarks"], self._ids["Actions"]
        values: list[tuple[int, int, int | None, str]] = []
        known, states = self._states, []
        for uri, state, texts, following, rewards in steps:
            benchmark = benchmarks.get(uri) or self._id("Benchmarks", uri)
            before, after = signed(state), None if following is None else signed(following)
            values.append((before, actions.get(texts) or self._id("Actions", texts), after, encode(rewards).decode()))
            for one in (before, after):
                if one not in known and one is not None:
                    known.add(one)
                    states.append((one, benchmark))  # the benchmark that came to it first
        _insert(self._database, "INSERT OR IGNORE INTO States VALUES {}", sorted(states))  # faster in order
        if len(known) > REMEMBERED:
            known.clear()
        _write_transitions(self._database, values)

    def _write_observations(self, observations: Sequence[Observation]) -> None:
        spaces = self._ids["Spaces"]
        rows = [
            (signed(state), spaces.get(space) or self._id("Spaces", space), *codecs.encode(value))
            for state, space, value in observations
        ]
        rows.sort(key=itemgetter(0))
        _insert(self._database, "INSERT OR IGNORE INTO Observations VALUES {}", rows)

    def _id(self, table: str, named: BenchmarkUri | str | tuple[str, ...]) -> int:
        """Return the number of a benchmark, of actions or of a space in its table, where it is put if it is new."""
        known = self._ids[table]
        number = known.get(named)
        if number is None:
            if len(known) >= REMEMBERED:
                known.clear()
            text = msgspec.json.encode(named).decode() if isinstance(named, tuple) else str(named)
            number = known[named] = _id_of(self._database, table, text)
        return number


def _id_of(database: sqlite3.Connection, table: str, text: str) -> int:
    """Return the number of a text in Benchmarks, Actions or Spaces, where it is put if it is new."""
    column = {"Benchmarks": "uri", "Actions": "texts", "Spaces": "name"}[table]
    found = database.execute(f"SELECT id FROM {table} WHERE {column} = ?", (text,)).fetchone()
    if found is not None:
        return int(found[0])
    return int(database.execute(f"INSERT INTO {table} ({column}) VALUES (?)", (text,)).lastrowid or 0)


def _write_transitions(database: sqlite3.Connection, values: Sequence[tuple[int, int, int | None, str]]) -> None:
    """Add transitions (state, action, next state, rewards as JSON); those with another result become conflicts."""
    before = database.total_changes
    _insert(
        database,
        "INSERT INTO StateTransitions (state, action, next, rewards) VALUES {}"
        " ON CONFLICT DO UPDATE SET rewards = json_patch(rewards, excluded.rewards)"
        " WHERE next IS excluded.next AND rewards IS NOT excluded.rewards",
        values,
    )
    if database.total_changes - before == len(values):
        return  # each was new, or had a new reward
    database.executemany(
        "INSERT OR IGNORE INTO Conflicts SELECT state, action, ?3 FROM StateTransitions"
        " WHERE state = ?1 AND action = ?2 AND next IS NOT ?3",
        [value[:3] for value in values],
    )


def _insert(database: sqlite3.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Execute a statement with rows, all as long, in place of its `{}`."""
    if not rows:
        return
    one = f"({', '.join('?' * len(rows[0]))})"
    whole = len(rows) - len(rows) % AT_ONCE
    several = (tuple(chain.from_iterable(rows[at : at + AT_ONCE])) for at in range(0, whole, AT_ONCE))
    database.executemany(statement.format(", ".join([one] * AT_ONCE)), several)
    database.executemany(statement.format(one), rows[whole:])


@contextlib.contextmanager
def opened_alone(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a file for writing, and keep other writers away; SQLite's own locks would let them write in turns.

    Raises:
        TransitionsError: if the file cannot be used, or somebody writes to it.
    """
    try:
        claim = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise TransitionsError(f"cannot write to {path}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise TransitionsError(
                f"{path} is being written by another log: give each its own file, and merge them with "
                "`aiocg transitions merge`"
            ) from error
        database = schema.create(path)
        try:
            yield database
        finally:
            schema.close(database)
    finally:
        os.close(claim)  # after SQLite has closed the file, whose locks this would drop
