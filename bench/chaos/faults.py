"""The faults, one class for each: how it is done, and what it may end.

There are two sorts. A `Misdeed` is committed by an environment, by asking its compiler for something that goes wrong;
it may end the episode of that environment, and no other. A `Fault` comes from outside, from the process that also has
an eye on everything; it may end nothing at all.
"""

import contextlib
import os
import random
import shutil
import signal
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import psutil

from aiocg.transport.framing import Outgoing
from bench.chaos.world import LLVM, SCRIPTED

DEATH = frozenset({"WorkerCrashed", "DeadlineExceeded", "Quarantined"})
CANCELLED = frozenset({"CancelledError"})
_STOPPED = CANCELLED | {"Quarantined"}  # where others have done the same until it killed their workers


@dataclass(frozen=True, slots=True)
class Misdeed:
    """A request that goes wrong.

    Attributes:
        name: of the misdeed.
        how: what goes wrong, in words.
        environment: what sort of environment commits it.
        actions: the texts of its actions; where it is an expansion, each is a candidate.
        timeout: its deadline in seconds.
        errors: names of the types of error that may come of it.
        benchmark: the program it takes, None for the one at hand.
        expand: it is an expansion, of which one candidate goes wrong.
        patience: seconds after which at most it is cancelled, at random; 0 to wait for its end.
        weight: how often it is chosen, beside the others.
    """

    name: str
    how: str
    environment: str
    actions: tuple[str, ...]
    timeout: float
    errors: frozenset[str] = DEATH
    benchmark: str | None = None
    expand: bool = False
    patience: float = 0.0
    weight: int = 4


SENT = (signal.SIGFPE, signal.SIGSEGV, signal.SIGABRT)  # nothing else here causes the first

_BUG = "benchmark://programs-v0/dct"  # with LLVM 22 and 23 that pass crashes on it
_LOOP = "benchmark://programs-v0/matmul"
_UNROLLED = ("@cholesky:2(unroll<1024>)",) * 3  # a billion copies of a loop's body
_SOME = ("increment", "nap", "double", "nap")

MISDEEDS = (
    Misdeed("hang", "an action that does not return", SCRIPTED, ("hang",), 0.3),
    Misdeed("abort", "an action that calls abort()", SCRIPTED, ("double", "abort"), 5.0),
    Misdeed("crash", "an action that reads address zero", SCRIPTED, ("crash",), 5.0),
    Misdeed("exit", "an action that exits", SCRIPTED, ("exit",), 5.0),
    Misdeed("grow", "an action that takes all memory there is", SCRIPTED, ("grow",), 10.0, DEATH | {"WorkerFailure"}),
    Misdeed("refuse", "an action that fails", SCRIPTED, ("refuse",), 5.0, DEATH | {"ActionFailed"}),
    Misdeed("candidate", "a candidate that aborts", SCRIPTED, ("double", "abort", "increment"), 5.0, expand=True),
    Misdeed("cancel", "an action that does not return, cancelled", SCRIPTED, ("hang",), 60.0, CANCELLED, patience=0.3),
    Misdeed("regret", "actions cancelled, perhaps too late", SCRIPTED, _SOME, 60.0, CANCELLED | {""}, patience=0.06),
    Misdeed("close", "an action that closes all descriptors of its worker", SCRIPTED, ("close",), 60.0),
    Misdeed(
        "close-one",
        "a candidate that closes all descriptors",
        SCRIPTED,
        ("double", "close", "increment"),
        60.0,
        expand=True,
    ),
    Misdeed("detach", "an action that leaves a daemon", SCRIPTED, ("double", "detach"), 60.0, frozenset({""})),
    Misdeed("halt", "an action that stops its worker", SCRIPTED, ("stop",), 60.0, DEATH | {""}),  # a `Pause` may end it
    Misdeed(
        "hoard", "actions that keep 512 MiB for good", SCRIPTED, ("hoard",) * 8, 60.0, frozenset({"", "WorkerFailure"})
    ),
    Misdeed("llvm-crash", "a pass with a bug", LLVM, ("unify-loop-exits",), 5.0, benchmark=_BUG, weight=8),
    Misdeed("llvm-hang", "unrolling that never ends", LLVM, _UNROLLED, 0.3, benchmark=_LOOP, weight=8),
    Misdeed("llvm-cancel", "endless unrolling, cancelled", LLVM, _UNROLLED, 60.0, _STOPPED, _LOOP, patience=0.3),
    Misdeed("llvm-memory", "unrolling until there is no memory", LLVM, _UNROLLED, 15.0, benchmark=_LOOP, weight=1),
)


def misdeed(seed: int, environment: str, names: Sequence[str]) -> Misdeed | None:
    """Choose one of those that a sort of environment commits, None when there is none."""
    choice = [one for one in MISDEEDS if one.environment == environment and one.name in names]
    if not choice:
        return None
    return random.Random(seed).choices(choice, [one.weight for one in choice])[0]


@dataclass(slots=True)
class Target:
    """What a fault may lay hands on.

    Attributes:
        workers: gives the workers that are up: process id, kind, and the path of the socket.
        busy: gives the process ids of those that are executing something.
        folder: of the runtime, with its sockets.
        cache: the folder for caches.
        no_disk: why that is not a small file system of its own, "" when it is.
        flags: where files are orders to the next worker of our own kind that can carry them out; see `frail_worker`.
    """

    workers: "Callable[[], list[tuple[int, str, Path]]]"
    busy: "Callable[[], set[int]]"
    folder: Path
    cache: Path
    no_disk: str
    flags: Path


class Fault(ABC):
    """A fault from outside.

    Attributes:
        name: on the command line and in tables.
        how: what is done, in words.
        weight: how often it is chosen, beside the others.
        patience: seconds that it waits for a good moment.
    """

    name: ClassVar[str]
    how: ClassVar[str]
    weight: ClassVar[int] = 4
    patience: ClassVar[float] = 0.5

    def opportune(self, target: Target) -> bool:
        """Say whether this is a good moment; if not, it is waited for another, but not for long."""
        return True

    def obstacle(self, target: Target) -> str:
        """Say why the fault cannot be done here, "" when it can."""
        return ""

    @abstractmethod
    def strike(self, target: Target, rng: random.Random) -> str | None:
        """Do it; return what was done, None when there was nothing to do it to."""

    def mend(self, target: Target) -> None:
        """Undo what is not undone by itself; called `lasts` seconds later, and at the end."""

    def lasts(self, rng: random.Random) -> float:
        """Say after how many seconds to mend it."""
        return 0.0


class _Ambush(Fault):
    """Meant for a worker that is executing something."""

    def opportune(self, target: Target) -> bool:
        """Wait for one."""
        return bool(target.busy())

    def victim(self, target: Target, rng: random.Random) -> tuple[int, str] | None:
        """Choose a worker, one that is busy if there is any; return its process id and kind."""
        workers = sorted(target.workers())
        busy = target.busy()
        choice = [worker for worker in workers if worker[0] in busy] or workers
        return rng.choice(choice)[:2] if choice else None


class _Signal(_Ambush):
    number: ClassVar[signal.Signals]

    def strike(self, target: Target, rng: random.Random) -> str | None:
        victim = self.victim(target, rng)
        if victim is None:
            return None
        pid, kind = victim
        return f"{kind} worker {pid}" if send(pid, self.number) else None


class Kill(_Signal):
    """A worker is killed."""

    name, how, weight = "kill", "SIGKILL to a worker", 10
    number = signal.SIGKILL


class KillAll(Fault):
    """All workers of a kind are killed at once."""

    name, how, weight = "kill-all", "SIGKILL to all workers of a kind", 1

    def strike(self, target: Target, rng: random.Random) -> str | None:
        """Kill them."""
        workers = sorted(target.workers())
        if not workers:
            return None
        chosen = rng.choice(sorted({kind for _, kind, _ in workers}))
        killed = [pid for pid, kind, _ in workers if kind == chosen and send(pid, signal.SIGKILL)]
        return f"{chosen} workers {killed}"


class Stop(_Signal):
    """A worker is stopped for good."""

    name, how = "stop", "SIGSTOP to a worker"
    number = signal.SIGSTOP


class Pause(_Ambush):
    """A worker is stopped, and goes on before anybody has lost patience, or just after."""

    name, how = "pause", "SIGSTOP to a worker, then SIGCONT"

    def __init__(self) -> None:
        self._stopped: list[psutil.Process] = []

    def strike(self, target: Target, rng: random.Random) -> str | None:
        """Stop one."""
        victim = self.victim(target, rng)
        if victim is None:
            return None
        pid, kind = victim
        try:
            process = psutil.Process(pid)
            process.suspend()
        except psutil.Error:
            return None
        self._stopped.append(process)
        return f"{kind} worker {pid}"

    def lasts(self, rng: random.Random) -> float:
        """Say for how long."""
        return rng.uniform(0.2, 2.5)

    def mend(self, target: Target) -> None:
        """Let it go on."""
        for process in self._stopped:
            with contextlib.suppress(psutil.Error):
                process.resume()
        self._stopped.clear()


class CrashSignals(_Ambush):
    """Somebody sends a worker the signals of crashes."""

    name, how = "crash-signals", "SIGFPE, SIGSEGV and SIGABRT to a worker, which do nothing"

    def strike(self, target: Target, rng: random.Random) -> str | None:
        """Send them."""
        victim = self.victim(target, rng)
        if victim is None or not all(send(victim[0], number) for number in SENT):
            return None
        return f"{victim[1]} worker {victim[0]}"


class Crash(Fault):
    """A worker crashes over something that is not to blame, as after an earlier request has damaged its memory."""

    name, how, weight = "crash-innocent", "a null pointer read while a scripted worker loads or acts", 8

    def strike(self, target: Target, rng: random.Random) -> str | None:
        """Have the next one do so that loads a program, or the next one that applies an action, perhaps in a replay."""
        order = rng.choice(["crash-load", "crash-action"])
        (target.flags / order).touch()
        return f"the next scripted worker: {order}"


class BadRequest(Fault):
    """Somebody else sends nonsense to a worker's socket."""

    name, how, weight = "bad-request", "nonsense sent to a worker's socket", 2

    def strike(self, target: Target, rng: random.Random) -> str | None:
        """Send it, each time in another form."""
        workers = sorted(target.workers())
        if not workers:
            return None
        pid, kind, path = rng.choice(workers)
        frames = [rng.randbytes(rng.randrange(200)) for _ in range(rng.randint(1, 4))]
        outgoing = Outgoing()
        outgoing.put(frames)
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as end:
            end.settimeout(0.2)
            end.connect(str(path))
            if rng.random() < 0.5:
                outgoing.hand_over(end.sendmsg)  # in their form
            else:
                end.sendall(b"".join(frames))
        return f"{kind} worker {pid}: {sum(map(len, frames))} bytes in {len(frames)} frames"


class BadReply(Fault):
    """A reply is cut short on its way out of a worker."""

    name, how, weight = "bad-reply", "a reply cut in half, by a scripted worker made for it", 2

    def strike(self, target: Target, rng: random.Random) -> str | None:
        """Have the next one cut that a worker of our own kind sends."""
        (target.flags / "corrupt").touch()
        return "the next reply of a scripted worker"


class FullDisk(Fault):
    """The disk with the caches is full for a while."""

    name, how, weight = "full-disk", "the cache's file system filled to the last byte", 2

    def obstacle(self, target: Target) -> str:
        """Say so when the cache lies on a file system that others use."""
        return target.no_disk

    def strike(self, target: Target, rng: random.Random) -> str | None:
        """Fill it."""
        written = 0
        with contextlib.suppress(OSError), (target.cache / "ballast").open("ab", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                with contextlib.suppress(OSError):
                    while count := file.write(bytes(size)):
                        written += count
        return f"{written} bytes" if written else None

    def lasts(self, rng: random.Random) -> float:
        """Say for how long."""
        return rng.uniform(1.0, 4.0)

    def mend(self, target: Target) -> None:
        """Make room again."""
        (target.cache / "ballast").unlink(missing_ok=True)


class NoFolder(Fault):
    """The folder with the sockets is removed, as cleaners of /tmp do."""

    name, how, weight = "no-folder", "the runtime's folder removed, sockets and all", 1

    def strike(self, target: Target, rng: random.Random) -> str | None:
        """Remove it."""
        if not target.folder.exists():
            return None
        shutil.rmtree(target.folder, ignore_errors=True)
        return str(target.folder)


FAULTS: tuple[type[Fault], ...] = (
    *(Kill, KillAll, Stop, Pause, CrashSignals, Crash, BadRequest, BadReply, FullDisk, NoFolder),
)

EARLY = "kill-early"
EARLY_HOW = "SIGKILL to a client soon after its start, while it compiles"

NAMES = (*(fault.name for fault in FAULTS), *(one.name for one in MISDEEDS), EARLY)


def send(pid: int, number: signal.Signals) -> bool:
    """Send a signal; say whether there was anybody to send it to."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Struck:
    """A fault that was done: when, in seconds of the monotonic clock, which, and to what."""

    when: float
    name: str
    what: str
    until: float = field(default=0.0, compare=False)


def now() -> float:
    """Return the time that the ledger has."""
    return time.monotonic()
