"""The container engine of the tests: one that answers here, a Docker of our own, or Podman.

Without any, tests that need one are skipped, or fail where `REQUIRE_ENGINE=1` says that there must be one.
"""

import contextlib
import ctypes
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from aiocg.workers.gcc._engine import addresses

from .images import host_rootfs, import_image

START_PATIENCE = 60.0  # seconds
PREFIX = "aiocg-engine-"
IMAGES = "aiocg-test"  # the repository of all images that tests make

# The engine has process ids and mounts of its own, so that it ends with all that it has started, and leaves no mounts.
# What it writes outside of its folder goes there, too. It touches no network.
NAMESPACE = r"""
folder=$1
shift
mount -t tmpfs tmpfs /run
mkdir -p "$folder/etc" "$folder/etc.work"
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$folder/etc,workdir=$folder/etc.work" /etc
dockerd --bridge=none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false "$@"
"""


class PrivateEngine:
    """A Docker engine in a temporary folder, for root; it leaves the machine as it was.

    Attributes:
        address: for `DOCKER_HOST`.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir="/tmp"))  # a short name, for the socket
        self.address = f"unix://{self.folder}/socket"
        self._group = f"/{self.folder.name}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Start it, and return "" once it answers, or what it has said at last."""
        for driver in ("", "vfs"):  # which needs nothing of the kernel
            if not (problem := self._start(*([f"--storage-driver={driver}"] if driver else []))):
                return ""
        return problem

    def stop(self) -> None:
        """End it, and everything in it, at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        gone = time.monotonic() + 10
        while self._left() and time.monotonic() < gone:
            time.sleep(0.02)

    def suspend(self) -> None:
        """Let it hang."""
        self.daemon().suspend()

    def daemon(self) -> psutil.Process:
        """Return the process of the engine itself."""
        assert self._process is not None
        children = psutil.Process(self._process.pid).children(recursive=True)
        return next(process for process in children if process.name() == "dockerd")

    def remove(self) -> None:
        """End it and remove what there is of it."""
        self.stop()
        for group in (*Path("/sys/fs/cgroup").glob(f"*{self._group}"), Path(f"/sys/fs/cgroup{self._group}")):
            for path in sorted([*group.rglob("*/"), group], reverse=True):
                with contextlib.suppress(OSError):
                    path.rmdir()
        shutil.rmtree(self.folder)

    def _start(self, *options: str) -> str:
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command += ["sh", "-c", NAMESPACE, "sh", str(self.folder), *options, f"--host={self.address}"]
        command += [f"--data-root={self.folder}/data", f"--exec-root={self.folder}/exec"]
        command += [f"--pidfile={self.folder}/pid", f"--cgroup-parent={self._group}"]
        log = self.folder / "log"
        (self.folder / "pid").unlink(missing_ok=True)
        shutil.rmtree(self.folder / "exec", ignore_errors=True)  # where there are process ids of the last time
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**os.environ, "PATH": f"/usr/sbin:/sbin:{os.environ['PATH']}"},
                preexec_fn=_die_with_us,
            )
        patience = time.monotonic() + START_PATIENCE
        while time.monotonic() < patience and self._process.poll() is None:
            if answers(self.address):
                return ""
            time.sleep(0.05)
        self.stop()
        return log.read_text(errors="replace")[-1000:]

    def _left(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if any(str(self.folder) in word for word in process.cmdline()):
                    found.append(process)
        return found


def _die_with_us() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


def answers(address: str) -> bool:
    """Does an engine answer at an address?"""
    import docker

    try:
        client = docker.APIClient(address, timeout=5)
        client.close()
    except Exception:
        return False
    return True


def unavailable(reason: str) -> Any:
    """Skip the test, or let it fail where there must be an engine."""
    if os.environ.get("REQUIRE_ENGINE") == "1":
        pytest.fail(f"REQUIRE_ENGINE is 1, and there is no container engine: {reason}", pytrace=False)
    pytest.skip(f"needs a container engine: {reason}")


@contextlib.contextmanager
def own_docker() -> Iterator[PrivateEngine]:
    """Have an engine that may be ended; the test that finds none is skipped, or fails."""
    engine = PrivateEngine()
    try:
        if problem := engine.start() if _may_start_one() else "one of its own, for root (apt install docker.io)":
            unavailable(problem)
        yield engine
    finally:
        engine.remove()


def _may_start_one() -> bool:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return os.geteuid() == 0 and all(shutil.which(command, path=path) for command in ("dockerd", "unshare"))


@contextlib.contextmanager
def _own_podman(problem: str) -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix=PREFIX, dir="/tmp")
    address = f"unix://{folder}/socket"
    if shutil.which("podman") is None:
        unavailable(problem or "none answers, and there is no podman nor, for root, dockerd (apt install docker.io)")
    command = ["podman", "--root", f"{folder}/data", "--runroot", f"{folder}/run", "system", "service", "--time=0"]
    process = subprocess.Popen([*command, address], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        patience = time.monotonic() + START_PATIENCE
        while not answers(address) and process.poll() is None and time.monotonic() < patience:
            time.sleep(0.05)
        if not answers(address):
            unavailable("Podman's service does not answer")
        yield address
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def engine() -> Iterator[str]:
    """The address of an engine, which `DOCKER_HOST` says as well."""
    if importlib.util.find_spec("docker") is None:
        unavailable("there is no docker-py (pip install 'aiocg[docker]')")
    with contextlib.ExitStack() as stack:
        address = next(filter(answers, addresses()), "")
        problem = ""
        if not address and _may_start_one():
            own = PrivateEngine()
            stack.callback(own.remove)
            problem = own.start()
            address = "" if problem else own.address
        if not address:
            address = stack.enter_context(_own_podman(problem))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("DOCKER_HOST", address)
        yield address


@pytest.fixture(scope="session")
def client(engine: str) -> Iterator[Any]:
    """A connection to the engine; the images that tests make are removed in the end."""
    import docker

    client = docker.APIClient(engine, timeout=60)
    yield client
    for image in client.images():
        for name in image.get("RepoTags") or ():
            if f"{IMAGES}/" in name:
                client.remove_image(name, force=True)
    client.close()


@pytest.fixture(scope="session")
def gcc_image(client: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of an image with this machine's compiler."""
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc on this machine to make an image of")
    archive = tmp_path_factory.mktemp("rootfs") / "gcc.tar"
    host_rootfs(archive)
    import_image(client, archive, f"{IMAGES}/gcc:host", ["ENV PATH=/usr/local/bin:/usr/bin:/bin"])
    archive.unlink()
    return f"{IMAGES}/gcc:host"
