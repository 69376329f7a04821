"""How the tests run; fixtures for those of what users touch (command line, README), and a killer of workers."""

import asyncio
import contextlib
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

SIDE_BY_SIDE = 8  # at most: each process that runs tests has workers of its own


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run the whole suite in a process per core, and the files or folders that somebody names in this one.

    `-n` decides otherwise: `-n 0` runs everything here, one test after the other.
    """
    suite = Path(__file__).resolve().parent
    named = [(config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args]
    if not all(path == suite or path in suite.parents for path in named):
        return 0
    cores = len(os.sched_getaffinity(0))
    return min(cores, SIDE_BY_SIDE) if cores > 1 else 0


@pytest.hookimpl(trylast=True)  # when there is a cache
def pytest_configure(config: pytest.Config) -> None:
    """Let tests interrupt what they start, and let the Pythons that they start be quick."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a script
        signal.signal(signal.SIGINT, signal.default_int_handler)
    cache: pytest.Cache | None = getattr(config, "cache", None)
    if os.environ.get("PYTHONDONTWRITEBYTECODE") and cache is not None:
        # Without bytecode every one of many hundreds of processes compiles all that it imports. Whoever does not want
        # it to be written does not want it beside the sources.
        with contextlib.suppress(OSError):
            sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(cache.mkdir("bytecode"))
            sys.dont_write_bytecode = False
            del os.environ["PYTHONDONTWRITEBYTECODE"]


@dataclass(frozen=True)
class Place:
    """Where a program can be run so that afterwards one can see what it has left.

    Attributes:
        folder: the working directory.
        temporary: where it puts temporary files; short, as socket addresses must be.
        environment: variables that make it so, with a mark that all descendants inherit.
    """

    folder: Path
    temporary: Path
    environment: dict[str, str]

    def run(self, *command: str, timeout: float = 110.0) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end."""
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def processes(self) -> list[psutil.Process]:
        """Return the processes started here that still run."""
        found = []
        for process in psutil.process_iter():
            try:
                alive = process.status() != psutil.STATUS_ZOMBIE
                if alive and process.environ().get("AIOCG_TEST_MARK") == self.environment["AIOCG_TEST_MARK"]:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def leftovers(self) -> list[str]:
        """Return what is left in the folder for temporary files."""
        return sorted(path.name for path in self.temporary.iterdir())


@pytest.fixture(scope="session", autouse=True)
def site_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for installed datasets that is empty at first, whatever the user has installed."""
    directory = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIOCG_SITE_DATA", str(directory))
        for variable in ("AIOCG_OFFLINE", "AIOCG_DATASET_MIRROR"):
            patch.delenv(variable, raising=False)
        yield directory


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """Undo what a test has said about logs, such as by `aiocg serve` within this process."""
    root = logging.getLogger("aiocg")
    before = root.handlers[:], root.level, root.propagate
    yield
    root.handlers[:], root.level, root.propagate = before


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A place whose PATH begins with the commands of this interpreter's environment."""
    temporary = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
    scripts = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "TMPDIR": str(temporary),
        "COLUMNS": "80",
        "AIOCG_TEST_MARK": uuid.uuid4().hex,
    }
    yield Place(tmp_path, temporary, environment)
    shutil.rmtree(temporary, ignore_errors=True)


@pytest.fixture
def killer(runtime: Any) -> Callable[..., Any]:
    """Kill workers at random for as long as the block lasts; gives the list of those killed."""

    @contextlib.asynccontextmanager
    async def kill(shortest: float = 0.05, longest: float = 0.3) -> AsyncIterator[list[int]]:
        rng, killed = random.Random(3), []

        async def run() -> None:
            while True:
                await asyncio.sleep(rng.uniform(shortest, longest))
                if pids := runtime.worker_pids():
                    killed.append(rng.choice(pids))
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(killed[-1], signal.SIGKILL)

        task = asyncio.create_task(run())
        try:
            yield killed
        finally:
            task.cancel()

    return kill
