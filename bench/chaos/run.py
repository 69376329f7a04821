"""Both runs: undisturbed, and then the same with faults, to the last one, which ends the client."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.chaos import disk, remains
from bench.chaos.faults import EARLY, Target, send
from bench.chaos.injector import Injector, schedule
from bench.chaos.ledger import Ledger, LedgerTail
from bench.chaos.remains import MARK, Remains, SearchArea
from bench.chaos.witness import Witness
from bench.chaos.world import FRAIL, Settings

CHECKOUT = Path(__file__).resolve().parents[2]
TICK = 0.02  # seconds between two looks of the witness
SHARED_MEMORY = Path("/dev/shm")
DISK_BYTES = 48 << 20  # of the disk for caches
BUSY = 1.0  # seconds that the client is kept busy before it is killed
EARLY_DEATHS = 4
EARLY_SECONDS = 5.0
OVERTIME = 180.0  # seconds beyond what a run should take, after which it is given up

_ENTRY_POINTS = f"[aiocg.workers]\n{FRAIL} = bench.chaos.frail_worker:FrailSession\n"


@dataclass(slots=True)
class Outcome:
    """What both runs left for the checks.

    Attributes:
        settings: what was run.
        reference, disturbed: the ledgers of the runs.
        witness: of the disturbed run.
        injector: of the disturbed run.
        remains: what was left after the client was killed.
        early: for each client that was killed early, after how many seconds, and what was left.
        reference_remains: what was left after the undisturbed client had ended by itself.
        seconds: how long both took.
        gave_up: why a run was not brought to its end, "" when it was.
        last_words: the end of what the client wrote to its standard error.
    """

    settings: Settings
    reference: Ledger
    disturbed: Ledger
    witness: Witness
    injector: Injector
    remains: Remains
    reference_remains: Remains
    early: list[tuple[float, Remains]]
    seconds: float
    gave_up: str = ""
    last_words: str = ""


@dataclass(slots=True)
class Stage:
    """Folders for one run of a client, and the client.

    Attributes:
        folder: of the run.
        no_disk: why the folder for caches is not a file system of its own, "" when it is.
        shared: the folder with shared memory, if it is ours alone.
        mark: what the client and all below it have for `MARK` in their environment.
    """

    folder: Path
    shared: Path | None
    no_disk: str = ""
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def ledger(self) -> Path:
        """Where the client writes."""
        return self.folder / "ledger"

    @property
    def temporary(self) -> Path:
        """Where temporary files go, sockets among them."""
        return self.folder / "t"

    @property
    def cache(self) -> Path:
        """Where caches go."""
        return self.folder / "cache"

    @property
    def flags(self) -> Path:
        """Where workers of our own kind look for orders."""
        return self.folder / "flags"

    def search_area(self) -> SearchArea:
        """Return where the client may leave something."""
        return SearchArea(self.mark, self.temporary, self.cache, self.shared)

    def start(self, settings: Settings, disturbed: bool) -> "subprocess.Popen[bytes]":
        """Start the client."""
        for name in ("t", "cache", "flags", "cwd", "path/aiocg_chaos-0.dist-info"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        information = self.folder / "path" / "aiocg_chaos-0.dist-info"
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: aiocg-chaos\nVersion: 0\n")
        (information / "entry_points.txt").write_text(_ENTRY_POINTS)
        (self.folder / "path" / "bench").symlink_to(CHECKOUT / "bench")  # and not the whole checkout
        order = {
            "settings": settings.to_dict(),
            "disturbed": disturbed,
            "ledger": str(self.ledger),
            "folder": str(self.folder / "cwd"),
        }
        (self.folder / "order").write_text(json.dumps(order))
        environment = {
            **os.environ,
            MARK: self.mark,
            "TMPDIR": str(self.temporary),
            "AIOCG_CACHE": str(self.cache),
            "AIOCG_CHAOS_FLAGS": str(self.flags),
            "PYTHONPATH": os.pathsep.join([str(self.folder / "path"), *filter(None, [os.environ.get("PYTHONPATH")])]),
        }
        with (self.folder / "errors").open("wb") as errors:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "bench.chaos.client", str(self.folder / "order")],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )

    def last_words(self) -> str:
        """Return the end of what the client wrote to its standard error."""
        with contextlib.suppress(OSError):
            return (self.folder / "errors").read_bytes()[-2000:].decode(errors="replace").strip()
        return ""


@contextlib.contextmanager
def stage(no_mounts: str, shared: Path | None) -> Iterator[Stage]:
    """Make a stage and take it down; say why there can be no disk for the cache, or "" to have one."""
    folder = Path(tempfile.mkdtemp(prefix="chaos-", dir="/tmp"))  # short, as socket addresses must be
    made = Stage(folder, shared)
    try:
        made.cache.mkdir()
        made.no_disk = no_mounts or disk.mount(made.cache, DISK_BYTES)
        yield made
    finally:
        if not made.no_disk:
            disk.unmount(made.cache)
        shutil.rmtree(folder, ignore_errors=True)


@remains.adopted_orphans()
def run(settings: Settings, tell: Callable[[str], None]) -> Outcome:
    """Run undisturbed, then with faults.

    Args:
        settings: what to run.
        tell: called with a line about what is being done.
    """
    started = time.monotonic()
    no_mounts = disk.have_mounts_of_our_own()
    shared = None if no_mounts or disk.mount(SHARED_MEMORY, DISK_BYTES) else SHARED_MEMORY
    with stage(no_mounts, shared) as quiet, stage(no_mounts, shared) as loud:
        tell("walking undisturbed")
        reference, gave_up = _undisturbed(settings, quiet)
        first_remains = remains.wait(quiet.search_area(), {})
        words = quiet.last_words()
        with contextlib.suppress(OSError):  # what a worker cannot do without; programs are compiled again
            shutil.copytree(quiet.cache / "native", loud.cache / "native")
        witness, injector = Witness(0), Injector(iter(()), _target(loud, Witness(0), Path()))
        disturbed = Ledger()
        if not gave_up:
            tell(f"walking among faults, for at least {settings.seconds:g} s")
            disturbed, witness, injector, gave_up = _disturbed(settings, loud)
            words = loud.last_words()
        left = remains.wait(loud.search_area(), witness.known) if loud.temporary.exists() else first_remains
    early = []
    if EARLY in settings.faults:
        tell("killing clients early")
        early = _early_deaths(settings, no_mounts, shared)
    seconds = time.monotonic() - started
    return Outcome(
        settings, reference, disturbed, witness, injector, left, first_remains, early, seconds, gave_up, words
    )


def _early_deaths(settings: Settings, no_mounts: str, shared: Path | None) -> list[tuple[float, Remains]]:
    """Start clients whose caches are empty, and kill each at a time that the seed decides."""
    rng = random.Random(f"early {settings.seed}")
    found = []
    for _ in range(EARLY_DEATHS):
        seconds = rng.uniform(0.2, EARLY_SECONDS)
        with stage(no_mounts, shared) as early:
            with _client(early, settings, disturbed=True):
                time.sleep(seconds)
            found.append((seconds, remains.wait(early.search_area(), {})))
    return found


def _undisturbed(settings: Settings, stage: Stage) -> tuple[Ledger, str]:
    limit = settings.seconds + OVERTIME
    with _client(stage, settings, disturbed=False) as client:
        try:
            status = client.wait(limit)
            gave_up = "" if status == 0 else f"the undisturbed client ended with status {status}"
        except subprocess.TimeoutExpired:
            gave_up = f"the undisturbed walks were not done after {limit:g} s"
    return Ledger.read(stage.ledger), gave_up


@contextlib.contextmanager
def _client(stage: Stage, settings: Settings, disturbed: bool) -> "Iterator[subprocess.Popen[bytes]]":
    """Start the client; kill it at the end, if it has not ended."""
    client = stage.start(settings, disturbed)
    try:
        yield client
    finally:
        if client.poll() is None:
            client.kill()
        client.wait()


def _target(stage: Stage, witness: Witness, folder: Path) -> Target:
    return Target(witness.workers, witness.busy, folder, stage.cache, stage.no_disk, stage.flags)


def _disturbed(settings: Settings, stage: Stage) -> tuple[Ledger, Witness, Injector, str]:
    """Run the client among faults, and kill it at last."""
    limit = settings.seconds * 3 + OVERTIME
    with _client(stage, settings, disturbed=True) as client:
        witness = Witness(client.pid)
        target = _target(stage, witness, Path())
        injector = Injector(schedule(settings), target)
        tail = LedgerTail(stage.ledger)
        marks: dict[str, float] = {}
        begun = time.monotonic()
        gave_up = ""
        while not ("busy" in marks and time.monotonic() > marks["busy"] + BUSY):
            for when, event, *fields in tail.more():
                if event == "mark":
                    marks[fields[0]] = when
                elif event == "fact" and fields[0] == "folder":
                    target.folder = Path(fields[1])
            now = time.monotonic()
            witness.look(now)
            if "finished" in marks:
                injector.end()
            elif "walking" in marks and now > marks["walking"] + settings.seconds:
                injector.end()  # what is left of the walks is to come to its end
            elif "walking" in marks:
                injector.turn(now - marks["walking"], now)
            if client.poll() is not None:
                gave_up = f"the client ended by itself, with status {client.returncode}"
                break
            if now > begun + limit:
                gave_up = f"the walks among faults were not done after {limit:g} s"
                break
            time.sleep(TICK)
        injector.end()
        for pid, _, _ in witness.workers()[:1]:
            send(pid, signal.SIGSTOP)  # not even a stopped worker may stay
        client.kill()
        client.wait()
        witness.look(time.monotonic())
        witness.close()
    return Ledger.read(stage.ledger), witness, injector, gave_up
