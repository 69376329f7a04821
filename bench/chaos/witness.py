"""Sees from outside what the client and its workers do: what each worker executes, until when, and what is in use."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from aiocg.transport.status import StatusPage
from bench.chaos.ledger import microseconds

_LISTENING = 0x10000  # the kernel's __SO_ACCEPTCON
INTERVAL = 0.5  # seconds between two samples of what the client uses


@dataclass(frozen=True, slots=True)
class Sample:
    """What the client used at a moment: file descriptors, resident bytes, and processes below it."""

    when: float
    descriptors: int
    memory: int
    processes: int


@dataclass(frozen=True, slots=True)
class Sighting:
    """A request that a worker was seen executing.

    Attributes:
        worker: its process id.
        started, seen: when it began, and when it was last seen.
    """

    worker: int
    started: float
    seen: float


@dataclass(slots=True)
class _Watched:
    pid: int
    kind: str
    socket: Path
    page: StatusPage
    inode: int  # of the page, which what a worker has left holds as well
    busy: bool = False


@dataclass(slots=True)
class Witness:
    """Watches one client.

    Attributes:
        client: its process id.
        sightings: for each deadline, in microseconds, the last execution with that deadline.
        samples: what the client used.
        known: every process that was ever seen below the client, with the time it was started.
        zombies: those that had ended, when they were first and last seen so.
    """

    client: int
    sightings: dict[int, Sighting] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    known: dict[int, float] = field(default_factory=dict)
    zombies: dict[int, tuple[float, float]] = field(default_factory=dict)
    _watched: dict[int, _Watched] = field(default_factory=dict)

    def look(self, now: float) -> None:
        """Look at everybody; to be called many times a second."""
        alive = set(children(self.client))
        for pid in alive - self._watched.keys():
            self._watch(pid)
        for pid, watched in list(self._watched.items()):
            _, execution = watched.page.read()
            watched.busy = execution is not None
            if execution is not None:
                key = microseconds(execution.deadline - execution.started)
                self.sightings[key] = Sighting(pid, execution.started, now)
            if pid not in alive:
                watched.page.close()
                del self._watched[pid]
        if not self.samples or now - self.samples[-1].when >= INTERVAL:
            self._sample(now)

    def _watch(self, pid: int) -> None:
        """Map the status page of a process, if it is a worker; a forked one has the command line of its parent."""
        with contextlib.suppress(OSError, ValueError, psutil.Error):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            if "aiocg.workers" not in words:
                return
            descriptors = {one: os.readlink(one) for one in Path(f"/proc/{pid}/fd").iterdir()}
            pages = [one for one, target in descriptors.items() if target.startswith("/memfd:aiocg-status")]
            socket = _listens(pid, descriptors.values())
            if pages and socket is not None:
                inode = os.stat(pages[0]).st_ino
                if any(watched.inode == inode for watched in self._watched.values()):
                    return
                page = StatusPage(os.open(pages[0], os.O_RDWR | os.O_CLOEXEC))
                self._watched[pid] = _Watched(pid, words[words.index("aiocg.workers") + 1], socket, page, inode)

    def workers(self) -> list[tuple[int, str, Path]]:
        """Return the workers that were up at the last look: process id, kind, path of the socket."""
        return [(watched.pid, watched.kind, watched.socket) for watched in self._watched.values()]

    def busy(self) -> set[int]:
        """Return the process ids of the workers that were executing something at the last look."""
        return {watched.pid for watched in self._watched.values() if watched.busy}

    def _sample(self, now: float) -> None:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.client)
            below = process.children(recursive=True)
            for one in below:
                self.known.setdefault(one.pid, one.create_time())
                if one.status() == psutil.STATUS_ZOMBIE:
                    self.zombies[one.pid] = (self.zombies.get(one.pid, (now, now))[0], now)
            self.samples.append(Sample(now, process.num_fds(), process.memory_info().rss, len(below)))

    def close(self) -> None:
        """Let go of all pages."""
        for watched in self._watched.values():
            watched.page.close()
        self._watched.clear()


def children(pid: int) -> Iterator[int]:
    """Give the process ids of what is below a process, zombies included, at little cost."""
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, path.read_text().split()):
                yield child
                yield from children(child)


def _listens(pid: int, targets: Iterable[str]) -> Path | None:
    """Return the path of the Unix socket that a process listens at, given what its descriptors are."""
    inodes = {target[len("socket:[") : -1] for target in targets if target.startswith("socket:[")}
    for line in Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]:
        _, _, _, flags, _, _, inode, *path = line.split()
        if inode in inodes and int(flags, 16) & _LISTENING and path:
            return Path(path[0])
    return None
