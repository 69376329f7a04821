"""The memory: where it is kept, asked for a moment at most, and written behind.

Two threads do all that may take long, as a place may be slow, stuck or gone: one looks up what is asked for, the other
one writes. A question that is not answered in time has no answer, and no further one is asked until it is.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import NamedTuple, Protocol

from aiocg.workers.memory.records import Record, Rests, Step, decode, encode, facts_of, key_of
from aiocg.workers.shared_table import Table

NAME = "transitions-1.sqlite"  # the number is that of the table's form
LIMIT = 2 << 30  # bytes of the file
PREFIX = b"aiocg:"  # of keys on a server
SERVER_PATIENCE = 1.0  # seconds to wait for a server; nobody else waits meanwhile
REST = 1.0  # seconds without a server after it has failed
SERVERS = ("redis://", "rediss://", "unix://")


class _Tier(Protocol):
    """One place. Whatever is wrong with it, it has nothing then, and what is written is lost.

    Attributes:
        problem: what was wrong with it for the first time; empty so far.
    """

    problem: str

    def find(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Return the contents that there are, by key."""

    def write(self, contents: Mapping[bytes, bytes]) -> None:
        """Write contents by key."""


def open_tier(place: str) -> _Tier:
    """Open a place: the address of a server, or a folder.

    Raises:
        ImportError: if the client of a server is not installed.
        ValueError: if an address cannot be read.
    """
    return _ServerTier(place) if place.startswith(SERVERS) else _FileTier(Path(place).expanduser())


class _FileTier:
    """A file in a folder, for all processes of this machine. One thread may read while another one writes."""

    problem = ""

    def __init__(self, folder: Path) -> None:
        self._reads, self._writes = Table(folder / NAME, LIMIT), Table(folder / NAME, LIMIT)

    def find(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Return the contents that there are, by key."""
        found = self._reads.find(keys)
        if self._reads.used:
            self._writes.used |= self._reads.used
            self._reads.used.clear()
        return found

    def write(self, contents: Mapping[bytes, bytes]) -> None:
        """Write contents by key."""
        for key, content in contents.items():
            self._writes.add(key, content)
        self._writes.flush()


class _ServerTier:
    """A Redis or Valkey server, for any number of machines; it decides itself what it forgets."""

    def __init__(self, address: str) -> None:
        from redis import Redis  # needs an extra
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        self._client = Redis.from_url(
            address, socket_timeout=SERVER_PATIENCE, socket_connect_timeout=SERVER_PATIENCE, retry=Retry(NoBackoff(), 0)
        )
        self.problem = ""
        self._name = address.rpartition("@")[2]  # without a password
        self._resting = 0.0  # the end of a rest, in seconds of the monotonic clock

    def find(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Return the contents that there are, by key."""
        values = self._ask(lambda: self._client.mget([PREFIX + key for key in keys]))
        if not isinstance(values, list):
            return {}
        return {key: value for key, value in zip(keys, values, strict=False) if isinstance(value, bytes)}

    def write(self, contents: Mapping[bytes, bytes]) -> None:
        """Write contents by key."""
        self._ask(lambda: self._client.mset({PREFIX + key: content for key, content in contents.items()}))

    def _ask(self, ask: Callable[[], object]) -> object:
        """Return an answer of the server; None if there is none, and for a while afterwards."""
        if time.monotonic() < self._resting:
            return None
        try:
            return ask()
        except Exception as error:  # whatever it says that its client does not expect
            self._resting = time.monotonic() + REST
            if not self.problem:
                self.problem = f"{self._name}: {error or type(error).__name__}"
                logger.warning("the memory does not answer, and is done without: %s", self.problem)
            return None


PATIENCE = 0.002  # seconds to wait for an answer
LINGER = 0.01  # seconds until what was computed is written, as more becomes known of a state soon after
BATCH = 256  # records written at once
MOST_WAITING = 20_000  # records to be written; more are dropped

logger = logging.getLogger(__name__)


class _Question:
    """Steps that are asked for; the lock is held until they are answered."""

    __slots__ = ("answered", "found", "steps")

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.found: dict[Step, Record] = {}
        self.answered = Lock()
        self.answered.acquire()


class _Made(NamedTuple):
    """An outcome to be written; its state's memo is read when it is."""

    step: Step
    after: int
    instructions: int
    memo: Mapping[str, object]


class _Copied(NamedTuple):
    """What one place had, to be written to those before it."""

    contents: Mapping[bytes, bytes]
    places: int


class Memory:
    """Outcomes of steps, in one or several places, which are asked in order.

    Attributes:
        hits, misses: steps asked for that it had, and had not.
        late: questions that were not answered in time.
        written: records handed over for writing.
        done: how many of these have been written.

    Args:
        open_tiers: opens the places; called in a thread.
        identify: returns the context of all steps; called in a thread.
        patience: seconds to wait for an answer.
    """

    def __init__(
        self,
        open_tiers: Callable[[], Sequence[_Tier]],
        identify: Callable[[], bytes],
        patience: float = PATIENCE,
    ) -> None:
        """Begin; nothing is opened before `start`, so that the process may be forked."""
        self.hits = self.misses = self.late = self.written = self.done = 0
        self._open_tiers = open_tiers
        self._identify = identify
        self._patience = patience
        self._rests = Rests()
        self._last: _Question | None = None
        self._due: _Question | None = None  # the last one that was not answered in time
        self._asked: SimpleQueue[_Question] = SimpleQueue()
        self._made: SimpleQueue[_Made | _Copied] = SimpleQueue()
        self._started = False
        self._tiers: Sequence[_Tier] = ()
        self._unopened: list[str] = []

    @property
    def problems(self) -> list[str]:
        """What was wrong with its places, if anything was."""
        return self._unopened + [tier.problem for tier in self._tiers if tier.problem]

    def start(self) -> None:
        """Open the places, without waiting for that; idempotent."""
        if not self._started:
            self._started = True
            Thread(target=self._read, name="memory-reader", daemon=True).start()

    def find(self, steps: Sequence[Step]) -> Mapping[Step, Record]:
        """Return the outcomes of steps, as far as they are known and there in time."""
        self.start()
        if self._last is not None and self._last.answered.locked():
            return {}
        now = time.monotonic()
        if self._rests.rests(now):
            return {}
        question = self._last = _Question(steps)
        self._asked.put(question)
        if not question.answered.acquire(timeout=self._patience):
            self.late += 1
            self._rests.late(now)
            self._due = question
            return {}
        question.answered.release()
        self._rests.answered()
        return self._counted(question)

    def arrived(self) -> Mapping[Step, Record]:
        """Return, once, the outcomes that were not there in time and are there now."""
        question = self._due
        if question is None or question.answered.locked():
            return {}
        self._due = None
        return self._counted(question)

    def _counted(self, question: _Question) -> Mapping[Step, Record]:
        self.hits += len(question.found)
        self.misses += len(question.steps) - len(question.found)
        return question.found

    def put(self, step: Step, after: int, instructions: int, memo: Mapping[str, object]) -> None:
        """Remember the outcome of a step, some time later."""
        self.start()
        if self._made.qsize() < MOST_WAITING:
            self.written += 1
            self._made.put(_Made(step, after, instructions, memo))

    def _read(self) -> None:
        try:
            context, tiers = self._identify(), self._open_tiers()
            self._tiers = tiers
        except Exception as error:
            self._unopened.append(str(error))
            logger.warning("the memory of transitions is not used: %s", error)
            return
        Thread(target=self._write, args=(context, tiers), name="memory-writer", daemon=True).start()
        while True:
            question = self._asked.get()
            keys = {key_of(context, step): step for step in question.steps}
            for key, written in self._look_up(tiers, list(keys)).items():
                if (record := decode(key, written)) is not None:
                    question.found[keys[key]] = record
            question.answered.release()

    def _look_up(self, tiers: Sequence[_Tier], keys: list[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for place, tier in enumerate(tiers):
            new = tier.find([key for key in keys if key not in found])
            if place and new:
                self._made.put(_Copied(new, place))
            found |= new
            if len(found) == len(keys):
                break
        return found

    def _write(self, context: bytes, tiers: Sequence[_Tier]) -> None:
        while True:
            waiting = [self._made.get()]
            time.sleep(LINGER)
            waiting += [self._made.get() for _ in range(min(self._made.qsize(), BATCH))]
            contents: dict[bytes, bytes] = {}
            for one in waiting:
                if isinstance(one, _Copied):
                    for tier in tiers[: one.places]:
                        tier.write(one.contents)
                else:
                    key = key_of(context, one.step)
                    contents[key] = encode(key, Record(one.after, one.instructions, facts_of(dict(one.memo))))
            if contents:
                for tier in tiers:
                    tier.write(contents)
            self.done += sum(isinstance(one, _Made) for one in waiting)
