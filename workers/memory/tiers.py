"""The places where a memory is kept: a folder of this machine, or a Redis server."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from aiocg.workers.shared_table import Table

NAME = "transitions-1.sqlite"  # the number is that of the table's form
LIMIT = 2 << 30  # bytes of the file
PREFIX = b"aiocg:"  # of keys on a server
PATIENCE = 1.0  # seconds to wait for a server; nobody else waits meanwhile
REST = 1.0  # seconds without a server after it has failed
SERVERS = ("redis://", "rediss://", "unix://")

logger = logging.getLogger(__name__)


class Tier(Protocol):
    """One place. Whatever is wrong with it, it has nothing then, and what is written is lost.

    Attributes:
        problem: what was wrong with it for the first time; empty so far.
    """

    problem: str

    def find(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Return the contents that there are, by key."""

    def write(self, contents: Mapping[bytes, bytes]) -> None:
        """Write contents by key."""


def open_tier(place: str) -> Tier:
    """Open a place: the address of a server, or a folder.

    Raises:
        ImportError: if the client of a server is not installed.
        ValueError: if an address cannot be read.
    """
    return ServerTier(place) if place.startswith(SERVERS) else FileTier(Path(place).expanduser())


class FileTier:
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


class ServerTier:
    """A Redis or Valkey server, for any number of machines; it decides itself what it forgets."""

    def __init__(self, address: str) -> None:
        from redis import Redis  # needs an extra
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        self._client = Redis.from_url(
            address, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE, retry=Retry(NoBackoff(), 0)
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
