"""What a client has left behind: processes, zombies, sockets, shared memory and temporary files."""

import contextlib
import ctypes
import os
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

MARK = "AIOCG_CHAOS_MARK"  # a variable that all descendants of a client inherit
PATIENCE = 10.0  # seconds that the janitor and the kernel have to clean up
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class Remains:
    """What is left, each as a line for people.

    Attributes:
        processes: that run.
        zombies: that nobody waits for.
        sockets: bound below the folder for temporary files.
        memory: shared memory segments.
        files: temporary files, also unfinished ones among the caches.
        seconds: it took until nothing was left, or until patience ran out.
    """

    processes: tuple[str, ...] = ()
    zombies: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def nothing(self) -> bool:
        """Is there nothing left?"""
        return not any((self.processes, self.zombies, self.sockets, self.memory, self.files))


@contextlib.contextmanager
def adopted_orphans() -> Iterator[None]:
    """Be the parent of descendants whose parent has died, in place of a process 1 that may not wait for them."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def reap() -> int:
    """Wait for those of our children that have ended, as process 1 does; return their number.

    To be called when no child is ours to wait for otherwise.
    """
    count = 0
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            count += 1
    return count


@dataclass(frozen=True, slots=True)
class SearchArea:
    """Where a client may have left something.

    Attributes:
        mark: what its environment has for `MARK`.
        temporary: the folder for temporary files and sockets; nobody else uses it.
        cache: the folder for caches, in which a name that begins with `.new-` is a temporary file.
        shared: the folder with POSIX shared memory, None when others use it, too: such memory has no maker's mark.
    """

    mark: str
    temporary: Path
    cache: Path
    shared: Path | None = None


def look(area: SearchArea, known: Mapping[int, float]) -> Remains:
    """Look for what is left now.

    Args:
        area: where to look.
        known: process ids seen below the client, with the times they were started.
    """
    processes, zombies = [], []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            mine = known.get(process.pid) == process.create_time()
            if process.status() == psutil.STATUS_ZOMBIE:
                zombies += [f"{process.pid} {process.name()}"] if mine else []
            elif mine or process.environ().get(MARK) == area.mark:
                processes.append(f"{process.pid} {' '.join(process.cmdline())[:100]}")
    files = [str(area.temporary / name) for name in os.listdir(area.temporary)]
    files += [path for path in _files(area.cache) if Path(path).name.startswith(".new-")]
    memory = [*_segments(known), *(map(str, area.shared.iterdir()) if area.shared is not None else ())]
    return Remains(tuple(processes), tuple(zombies), _sockets(area.temporary), tuple(memory), tuple(sorted(files)))


def wait(area: SearchArea, known: Mapping[int, float]) -> Remains:
    """Look until nothing is left, or patience is at its end."""
    started = time.monotonic()
    while True:
        reap()
        found = look(area, known)
        seconds = time.monotonic() - started
        if found.nothing or seconds > PATIENCE:
            return Remains(found.processes, found.zombies, found.sockets, found.memory, found.files, seconds)
        time.sleep(0.05)


def _sockets(temporary: Path) -> tuple[str, ...]:
    lines = Path("/proc/net/unix").read_text().splitlines()[1:]
    paths = (line.split(maxsplit=7)[-1] for line in lines if len(line.split()) > 7)
    return tuple(path for path in paths if path.lstrip("@").startswith(f"{temporary}/"))


def _segments(known: Collection[int]) -> list[str]:
    """Return the System V segments that the processes made."""
    found = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]:
            if int(line.split()[4]) in known:  # cpid
                found.append(f"System V segment {line.split()[1]}")
    return found


def _files(folder: Path) -> list[str]:
    """Return all files below a folder, which may become fewer at the same time."""
    return [os.path.join(path, name) for path, _, files in os.walk(folder) for name in files]
