"""How the tests run; fixtures for those of what users touch (command line, README), and a killer of workers."""

import asyncio
import contextlib
import ctypes
import functools
import gc
import importlib.util
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import uuid
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

import aiocg.testing  # noqa: F401, which registers scripted-v0
from aiocg.compat._errors import DownloadFailed
from aiocg.datasets import DownloadError
from aiocg.datasets.cache import cache_directory
from aiocg.datasets.toolchain import UNUSED_LIBRARY, find_toolchain, loader_environment
from aiocg.gym import shared_nursery
from aiocg.host.local import LocalLauncher
from aiocg.host.nursery import VARIABLE, Nursery
from aiocg.transport.system import HAS_PIDFD

if TYPE_CHECKING:
    from .command_line import Run


def _offer_bench() -> None:
    """Let tests import `bench`, which is not installed, and none of the folders beside it by their short names."""
    spec = importlib.util.spec_from_file_location("bench", Path(__file__).parents[1] / "bench" / "__init__.py")
    assert spec is not None and spec.loader is not None
    sys.modules["bench"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


_offer_bench()
SIDE_BY_SIDE = 8  # at most: each process that runs tests has workers of its own
ONE_OF = 16  # slow cases of a test that is sampled is run
EXAMPLES = 10  # of hypothesis, at most, for a test that is not slow


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run the whole suite in three processes on two cores, and the files or folders that somebody names in this one.

    `-n` decides otherwise: `-n 0` runs everything here, one test after the other.
    """
    suite = Path(__file__).resolve().parent
    named = [(config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args]
    if not all(path == suite or path in suite.parents for path in named):
        return 0
    cores = len(os.sched_getaffinity(0))
    return min(cores + cores // 2, SIDE_BY_SIDE) if cores > 1 else 0  # now and then each waits for something


@pytest.hookimpl(trylast=True)  # when there is a cache
def pytest_configure(config: pytest.Config) -> None:
    """Let tests interrupt what they start, and let the Pythons that they start be quick."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a script
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _help_the_loader()
    cache: pytest.Cache | None = getattr(config, "cache", None)
    if os.environ.get("PYTHONDONTWRITEBYTECODE"):
        # Without bytecode every one of many hundreds of processes compiles all that it imports. Whoever does not want
        # it to be written does not want it beside the sources.
        with contextlib.suppress(OSError):
            folder = str(cache.mkdir("bytecode")) if cache is not None else _passing_folder(config)
            _take_over_bytecode(Path(folder))
            sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = folder
            sys.dont_write_bytecode = False
            del os.environ["PYTHONDONTWRITEBYTECODE"]
    if config.getoption("dist", "no") == "no":  # this process runs tests, and has others run none
        _choose_profile()


def _take_over_bytecode(folder: Path) -> None:
    """Link the bytecode that was installed beside its sources, where a folder for bytecode is new.

    It is most of what tests import, and to compile it takes ten seconds and more of one core.
    """
    installed = Path(sysconfig.get_path("purelib"))
    mirror = folder / installed.relative_to("/")
    if mirror.exists():
        return
    for cache in installed.rglob("__pycache__"):
        mirrored = mirror / cache.parent.relative_to(installed)
        mirrored.mkdir(parents=True, exist_ok=True)
        for file in cache.glob(f"*.{sys.implementation.cache_tag}.pyc"):
            (mirrored / file.name).symlink_to(file)


def _passing_folder(config: pytest.Config) -> str:
    """Make a folder that goes at the end."""
    folder = tempfile.mkdtemp(prefix="bytecode-")
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collect without the garbage collector, which would go through all that is collected again and again."""
    gc.disable()
    try:
        _import_a_part(session)
        return (yield)
    finally:
        gc.enable()


def _import_a_part(session: pytest.Session) -> None:
    """Begin with another part of the test modules in each of several processes.

    To compile them with their assertions takes most of the time that collecting takes. So each process finds most of
    them compiled by the others.
    """
    worker, count = os.environ.get("PYTEST_XDIST_WORKER"), os.environ.get("PYTEST_XDIST_WORKER_COUNT")
    if worker is None or count is None:
        return
    for path in sorted(Path(__file__).parent.rglob("test_*.py"))[int(worker.removeprefix("gw")) :: int(count)]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # to be told when it is collected
            pytest.Module.from_parent(session, path=path).obj  # noqa: B018, which imports it


def _help_the_loader() -> None:
    """Let this process load libLLVM where the machine lacks a library that it names, as workers are helped to."""
    if environment := loader_environment():
        os.environ.update(environment)  # for what is started
        with tempfile.TemporaryDirectory() as folder:
            library = f"{folder}/{UNUSED_LIBRARY}"
            command = [*find_toolchain().linker_command(), "-m", "elf_x86_64", "-shared", f"-soname={UNUSED_LIBRARY}"]
            subprocess.run([*command, "-o", library, "--format=binary", os.devnull], check=True)
            ctypes.CDLL(library)  # the loader knows it by its name from now on


def _choose_profile() -> None:
    """Say how many examples hypothesis tries.

    "quick" is for every day; "thorough", for the end of .ci/run, has as many as a test says, or else hypothesis itself.
    """
    from hypothesis import settings  # which takes a second or two to load

    settings.register_profile("thorough", settings(deadline=None))
    settings.register_profile("quick", settings(deadline=None), max_examples=EXAMPLES)
    settings.load_profile(_profile())


def _profile() -> str:
    return os.environ.get("HYPOTHESIS_PROFILE", "quick")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> Iterator[None]:
    """Make what is thinned slow, before those are chosen that are to be run, and bound the examples of these."""
    _thin(items)
    config.hook.pytest_deselected(items=_sample(items))
    yield
    if _profile() == "quick":
        for item in items:
            if item.get_closest_marker("hypothesis") is not None and item.get_closest_marker("slow") is None:
                _bound_examples(item)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests were skipped for each reason."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ").split("\n")[0] for report in reports)
    if reasons:
        terminalreporter.section("skipped tests by reason")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count:5}  {reason}")


def pytest_collection_finish() -> None:
    """Let no collection of garbage go through thousands of tests, which are none."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Skip what needs something that this machine has not, as its mark `needs` says, or a network for its fixtures."""
    for mark in item.iter_markers("needs"):
        for what in mark.args:
            if not _has(what):
                pytest.skip(f"needs {what}" if what != "libc" else "needs libc6-dev, to link with the C library")
    with _skipping_downloads():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Skip a test that wants to download something where the machine has no network at all."""
    with _skipping_downloads():
        return (yield)


@contextlib.contextmanager
def _skipping_downloads() -> Iterator[None]:
    try:
        yield
    except (DownloadError, DownloadFailed) as error:
        routes = Path("/proc/net/route")
        if routes.is_file() and len(routes.read_text().splitlines()) <= 1:  # no more than a heading
            pytest.skip(f"needs a network: {str(error).splitlines()[0]}")
        raise


@functools.cache
def _has(what: str) -> bool:
    if what == "libc":
        return any(any(Path("/usr").glob(f"{folder}/Scrt1.o")) for folder in ("lib*", "lib*/*"))
    return shutil.which(what) is not None


def _cases(items: list[pytest.Function], mark: str, *, slow: bool) -> list[list[pytest.Function]]:
    """Return the cases, slow ones or others, of each test that has a mark."""
    lists: dict[tuple[Any, ...], list[pytest.Function]] = {}
    for item in items:
        if item.get_closest_marker(mark) is not None and (item.get_closest_marker("slow") is not None) is slow:
            lists.setdefault((item.path, item.cls, item.originalname), []).append(item)
    return list(lists.values())


def _sample(items: list[pytest.Function]) -> list[pytest.Function]:
    """Drop what only EVERY_CASE=1 asks for, and return it.

    It is what is marked `every_case`, and 15 of 16 slow cases of tests marked `sampled`; other tests drop other ones.
    """
    dropped: list[pytest.Function] = []
    if os.environ.get("EVERY_CASE"):
        return dropped
    dropped += [item for item in items if item.get_closest_marker("every_case") is not None]
    gone = set(dropped)
    for cases in _cases([item for item in items if item not in gone], "sampled", slow=True):
        kept = zlib.crc32(cases[0].originalname.encode()) % min(ONE_OF, len(cases))
        dropped += [item for index, item in enumerate(cases) if index % ONE_OF != kept]
    gone = set(dropped)
    items[:] = [item for item in items if item not in gone]
    return dropped


def _thin(items: list[pytest.Function]) -> None:
    """Leave as many cases of a test as its mark `few` says, from all over their list; the others are slow."""
    for cases in _cases(items, "few", slow=False):
        (count,) = cases[0].get_closest_marker("few").args  # type: ignore[union-attr]
        kept = {index * (len(cases) - 1) // max(1, count - 1) for index in range(count)}
        for index, item in enumerate(cases):
            if index not in kept:
                item.add_marker("slow")


def _bound_examples(item: pytest.Function) -> None:
    """Let a test have no more examples than the quick profile, whatever it says itself."""
    from hypothesis import settings

    machine = item.cls if isinstance(getattr(item.cls, "settings", None), settings) else None
    # `settings` refuses a test that has some already; the attribute is the one that hypothesis's own plugin sets.
    where, name = (machine, "settings") if machine else (item.obj, "_hypothesis_internal_use_settings")
    if (own := getattr(where, name)).max_examples > EXAMPLES:
        setattr(where, name, settings(own, max_examples=EXAMPLES))


@dataclass(frozen=True)
class Workspace:
    """Where a program can be run so that afterwards one can see what it has left.

    Attributes:
        folder: the working directory.
        temporary: where it puts temporary files; short, as socket addresses must be.
        environment: variables that make it so, with a mark that all descendants inherit.
    """

    folder: Path
    temporary: Path
    environment: dict[str, str]

    def run(self, *command: str, timeout: float = 280.0) -> "subprocess.CompletedProcess[str]":
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

    def start(self, *command: str, **streams: Any) -> "subprocess.Popen[str]":
        """Start a command; what it writes can be read, all of it in one stream unless something else is said."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **streams}
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, text=True, **pipes)

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

    def remains(self) -> list[str]:
        """Return the processes and temporary files that are left, once they have had the time to go."""
        until = time.monotonic() + 60
        while (left := [*map(str, self.processes()), *self.leftovers()]) and time.monotonic() < until:
            time.sleep(0.02)
        return left


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> "Run":
    """Runs `aiocg` in this process, in a fresh folder and with room for wide tables."""
    from .command_line import runner  # this file is also a plugin, and then part of no package

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return runner(monkeypatch, capfd)


@pytest.fixture
def start_and_cancel() -> Callable[[Coroutine[Any, Any, Any]], Awaitable[None]]:
    """Starts a search, and cancels it soon: none of its tasks is left."""

    async def run(search: Coroutine[Any, Any, Any]) -> None:
        before = asyncio.all_tasks()
        task = asyncio.create_task(search)
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        left = {task.get_coro().__qualname__ for task in asyncio.all_tasks() - before}  # type: ignore[union-attr]
        assert all(name.startswith(("LocalProcess.", "Supervisor.")) for name in left)  # a busy worker is replaced

    return run


@pytest.fixture(scope="session", autouse=True)
def site_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for installed datasets that is empty at first, whatever the user has installed."""
    directory = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIOCG_SITE_DATA", str(directory))
        for variable in ("AIOCG_OFFLINE", "AIOCG_DATASET_MIRROR"):
            patch.delenv(variable, raising=False)
        yield directory


@pytest.fixture(scope="session")
def new_cache(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Makes caches with nothing in them but our own libraries, so that they are compiled once for all tests."""

    def make() -> Path:
        cache = tmp_path_factory.mktemp("cache")
        with contextlib.suppress(OSError):  # nobody has compiled any yet
            shutil.copytree(cache_directory() / "native", cache / "native")
        return cache

    return make


@pytest.fixture(scope="session")
def run_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that all processes of a run share, for what takes long to compile and nobody counts."""
    folder = tmp_path_factory.getbasetemp()
    return (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "cache"


@pytest.fixture(scope="session", autouse=True)
def shared_nurseries() -> Iterator[Callable[[LocalLauncher], Nursery]]:
    """Fork workers for all tests from one nursery of each common compiler: loading LLVM is most of what a worker costs.

    Workers with options of their own still have nurseries of their own, and so have processes that tests start.
    """
    use_own = LocalLauncher.use_nursery
    with shared_nursery("llvm-v0", "scripted-v0") if HAS_PIDFD else contextlib.nullcontext():
        folder = os.environ.pop(VARIABLE, None)

        @functools.wraps(use_own)
        def use_shared(launcher: LocalLauncher) -> Nursery:
            nursery = use_own(launcher)
            if folder is not None and nursery._shared is None:
                nursery._shared = launcher._socket(Path(folder))
            return nursery

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LocalLauncher, "use_nursery", use_shared)
            yield use_own


@pytest.fixture
def own_nurseries(monkeypatch: pytest.MonkeyPatch, shared_nurseries: Callable[[LocalLauncher], Nursery]) -> None:
    """Give each runtime nurseries of its own, as users have them."""
    monkeypatch.setattr(LocalLauncher, "use_nursery", shared_nurseries)


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """Undo what a test has said about logs, such as by `aiocg serve` within this process."""
    root = logging.getLogger("aiocg")
    before = root.handlers[:], root.level, root.propagate
    yield
    root.handlers[:], root.level, root.propagate = before


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workspace]:
    """A place whose PATH begins with the commands of this interpreter's environment."""
    with _workspace(tmp_path) as workspace:
        yield workspace


@pytest.fixture(scope="module")
def shared_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """A place as `place` is, for all tests of a module."""
    with _workspace(tmp_path_factory.mktemp("shared")) as workspace:
        yield workspace


@contextlib.contextmanager
def _workspace(folder: Path) -> Iterator[Workspace]:
    temporary = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
    scripts = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "TMPDIR": str(temporary),
        "COLUMNS": "80",
        "AIOCG_TEST_MARK": uuid.uuid4().hex,
    }
    yield Workspace(folder, temporary, environment)
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


@pytest.fixture
def eventually() -> Callable[..., object]:
    """Wait until a condition holds; fails when it does not within a generous time."""
    from .waiting import eventually

    return eventually
