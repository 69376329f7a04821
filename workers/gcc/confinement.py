"""A container that runs, confined, until whoever started it is gone."""

import contextlib
import itertools
import json
import os
import select
import shutil
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc.attached_shell import AttachedShell, Kills
from aiocg.workers.gcc.engine import Image, failure, said
from aiocg.workers.gcc.place import ENVIRONMENT
from aiocg.workers.gcc.shell_loop import FILES, KEEPER, KILL, LOOP

if TYPE_CHECKING:
    from docker import APIClient

__all__ = ["Container", "Limits"]

OWNER, FOLDER = "aiocg.owner", "aiocg.folder"  # labels: the process that made a container, and what it shares with it
_SHELLS = ".shells"  # the folder below the container's for those of its shells
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NOBODY = 65534
_SMALL = {"core": 0, "nofile": 1024}  # resource limits; the usual ones of engines may be more than they may set
_END_PATIENCE = 2.0  # seconds for the engine to notice that a container has ended
_LAST_WORDS = 0.2  # seconds for what a container said before it ended


class Limits(NamedTuple):
    """What a container may use.

    Attributes:
        memory: bytes, of all its processes together, and of address space of each.
        processes: at a time.
        processors: how many, 0 for as many as this process may use.
        temporary: bytes of /tmp, which count as memory.
    """

    memory: int = 4 << 30
    processes: int = 1024
    processors: float = 0.0
    temporary: int = 256 << 20


class Container:
    """A container with shells; its methods are for one thread at a time, as the connection to the engine is.

    It can write nothing but a folder, which it sees where it is outside, and a small /tmp. It has no network, no
    capabilities, limited memory, processes and processors, and an unprivileged user. When its standard input ends, it
    ends.

    Args:
        client: the engine.
        image: what it is made of.
        folder: what it shares with this machine.
        limits: what it may use.

    Attributes:
        user: the id of its user, as this machine sees it.
        idle: shells that do nothing.

    Raises:
        CompilationError: with `FailureCode.COMPILER` when it cannot be made; the message says why.
    """

    def __init__(self, client: "APIClient", image: Image, folder: str, limits: Limits) -> None:
        self.idle: list[AttachedShell] = []
        self.user = os.geteuid()
        self._client, self._image, self._folder = client, image, folder
        self._kills = Kills()
        self._names = itertools.count()
        self._id = ""
        self._keeper: socket.socket | None = None
        self._began = time.time()
        self._engine: Mapping[str, Any] = {}
        with self._explained():
            self._engine = client.info()
            _remove_left(client, folder)
            self._create(limits)
            streams = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
            self._keeper = _socket(client.attach_socket(self._id, streams))
            client.start(self._id)

    def open_shell(self) -> AttachedShell:
        """Start another shell.

        Raises:
            CompilationError: with `FailureCode.COMPILER` when that is not possible; the message says why.
        """
        with self._explained(), contextlib.ExitStack() as undo:
            name = str(next(self._names))
            files = self._make_files((_SHELLS, self._id, name))
            for descriptor in files.values():
                undo.callback(os.close, descriptor)
            folder = os.path.join(self._shells, name)
            made = self._client.exec_create(self._id, ["sh", "-c", LOOP, "sh", folder], stdin=True)
            stream = _socket(self._client.exec_start(made["Id"], socket=True))
            shell = AttachedShell(stream, folder, files, self._kills)
            undo.pop_all()
            return shell

    def _make_files(self, parts: Iterable[str]) -> dict[str, int]:
        """Make the files of a shell in a folder below ours, and open them; what runs over there may be in the way."""
        with contextlib.ExitStack() as opened, contextlib.ExitStack() as undo:
            place = os.open(self._folder, _OPEN_FOLDER)
            opened.callback(os.close, place)
            for part in parts:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=place)
                place = os.open(part, _OPEN_FOLDER, dir_fd=place)
                opened.callback(os.close, place)
            files = {}
            for name in FILES:
                files[name] = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=place)
                undo.callback(os.close, files[name])
                if self.user != os.geteuid():
                    os.fchown(files[name], self.user, -1)
            undo.pop_all()
            return files

    def kill(self, mark: str) -> None:
        """End all processes with a mark, as far as the engine can; it may take some time."""
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        with contextlib.suppress(DockerException, RequestException, OSError):  # whoever waits for their end will tell
            made = self._client.exec_create(self._id, ["sh", "-c", KILL, "sh", mark])
            self._client.exec_start(made["Id"], detach=True)

    def has_ended(self) -> bool:
        """Has the engine closed the connection to the first process?"""
        try:
            return self._keeper is None or (_readable(self._keeper, 0.0) and not self._keeper.recv(1, socket.MSG_PEEK))
        except OSError:
            return True

    def fate(self) -> str:
        """Say what has become of it, as far as the engine knows."""
        from requests.exceptions import RequestException

        patience = time.monotonic() + _END_PATIENCE
        try:
            while (events := self._events()).isdisjoint({"die", "died"}):
                if time.monotonic() > patience:
                    return "it has ended" if self.has_ended() else "the container itself still runs"
                time.sleep(0.05)
        except (RequestException, OSError, ValueError) as error:
            return f"the engine does not answer ({said(error)})"
        if "oom" in events:
            return "it had no memory left"
        return "somebody has killed it" if "kill" in events else "it has ended"

    def remove(self) -> None:
        """End it, with all that runs in it; idempotent. An engine that does not answer will find its input closed."""
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None
        while self.idle:
            self.idle.pop().close()
        if self._id:
            with contextlib.suppress(DockerException, RequestException, OSError):  # mostly: it is gone already
                self._client.remove_container(self._id, force=True)
            shutil.rmtree(self._shells, ignore_errors=True)

    @property
    def _shells(self) -> str:
        return os.path.join(self._folder, _SHELLS, self._id)

    def _create(self, limits: Limits) -> None:
        from docker.types import LogConfig, Ulimit

        security = self._engine.get("SecurityOptions") or ()
        rootless = any("name=rootless" in option for option in security)
        if self.user == 0 and not rootless:
            self.user = _NOBODY
            os.chown(self._folder, self.user, -1)
        group = _NOBODY if self.user == _NOBODY else os.getegid()
        processors = limits.processors or len(os.sched_getaffinity(0))
        able: dict[str, Any] = {}  # what a rootless engine is not allowed to limit it refuses
        if self._engine.get("MemoryLimit"):
            able |= {"mem_limit": limits.memory, "memswap_limit": limits.memory}
        if self._engine.get("PidsLimit"):
            able |= {"pids_limit": limits.processes}
        if self._engine.get("CpuCfsQuota"):
            able |= {"nano_cpus": int(min(processors, self._engine.get("NCPU") or processors) * 1e9)}
        if any("name=userns" in option for option in security):
            able |= {"userns_mode": "host"}  # or else its user could not read our folder
        host = self._client.create_host_config(
            auto_remove=True,
            binds={self._folder: {"bind": self._folder, "mode": "rw,Z"}},
            cap_drop=["ALL"],
            init=False,
            log_config=LogConfig(type="none"),
            network_mode="none",
            read_only=True,
            security_opt=["no-new-privileges"],
            tmpfs={"/tmp": f"rw,nosuid,nodev,noexec,mode=1777,size={limits.temporary}"},
            ulimits=[Ulimit(name=name, soft=most, hard=most) for name, most in _SMALL.items()],
            **able,
        )
        made = self._client.create_container(
            self._image.id,
            entrypoint=["sh", "-c", KEEPER],
            stdin_open=True,  # and closed with the connection that was attached to it
            user="0:0" if rootless else f"{self.user}:{group}",  # root of a rootless engine is its user, outside
            working_dir=self._folder,
            environment={**ENVIRONMENT, "HOME": "/tmp", "TMPDIR": "/tmp"},
            labels={OWNER: _owner(), FOLDER: self._folder},
            healthcheck={"test": ["NONE"]},
            host_config=host,
        )
        self._id = str(made["Id"])

    def _events(self) -> set[str]:
        """Return what has happened to the container so far. (docker-py's method waits without end for an engine.)"""
        client, filters = self._client, json.dumps({"container": [self._id]})
        found = client.get(
            f"{client.base_url}/v{client.api_version}/events",
            params={"since": str(int(self._began)), "until": f"{time.time():.6f}", "filters": filters},
            timeout=client.timeout,
        )
        events = map(json.loads, found.text.splitlines())
        return {str(event.get("Action") or event.get("status")).partition(":")[0] for event in events}

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Have the error of an engine say what is wrong, and leave nothing behind."""
        from docker.errors import DockerException
        from requests.exceptions import ConnectionError, RequestException, Timeout

        try:
            yield
        except (ConnectionError, Timeout) as error:
            self.remove()
            raise failure(
                f"the container engine does not answer any more ({said(error)}). If it is being restarted, go on then: "
                "the next command tries again",
                reason="engine",
            ) from None
        except (DockerException, RequestException, OSError) as error:
            problem = self.explain(said(error))
            self.remove()
            raise problem from None

    def explain(self, problem: str) -> CompilationError:
        """Return the error that says why the container cannot be used."""
        if words := self._last_words():
            problem = f"{problem}; {words}"
        name, machine = self._image.name, str(self._engine.get("Architecture") or "")
        own = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
        if "exec format error" in problem.lower():
            reason = (
                f"its programs are for {self._image.architecture or 'another architecture'}, this machine is {own}. Get"
                f"  the image for {own} (docker pull --platform linux/{own} {name})"
            )
        elif self._folder in problem:
            reason = (
                f"the engine does not see this machine's folder {self._folder} as it is ({problem}). Set TMPDIR to a "
                "folder that it sees, too; an engine on another machine sees none"
            )
        elif "not found" in problem or "there is no " in problem:
            reason = f"it lacks commands that are needed there, which are sh, cat and gcc: {problem}"
        else:
            reason = problem
        return failure(f"no container of the image {name!r} can be used: {reason}", reason="container")

    def _last_words(self) -> str:
        """Return what the first process has written, which it only does when something is wrong."""
        if self._keeper is None or not _readable(self._keeper, _LAST_WORDS):
            return ""
        with contextlib.suppress(OSError):
            return self._keeper.recv(4096)[8:].decode(errors="replace").strip()
        return ""


def _remove_left(client: "APIClient", folder: str) -> None:
    """Remove containers whose makers are gone, and those that share a folder with us: we have lost them.

    They end by themselves with the connection, but not those that were never started, nor all whose engine was.
    """
    from docker.errors import APIError

    for found in client.containers(all=True, filters={"label": OWNER}):
        labels = found["Labels"]
        if labels.get(FOLDER) == folder or _is_gone(labels[OWNER]):
            with contextlib.suppress(APIError):  # somebody else removes it, too
                client.remove_container(found["Id"], force=True)


def _owner() -> str:
    return f"{_processes()} {os.getpid()} {_start_of(os.getpid())}"


def _is_gone(owner: str) -> bool:
    """Is a process gone that is, or was, one of those that we can see?"""
    *processes, pid, start = owner.split()
    return " ".join(processes) == _processes() and _start_of(int(pid)) != start


def _processes() -> str:
    """Return what names the process ids here: this boot of this machine, and the namespace."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{file.read().strip()} {os.stat('/proc/self/ns/pid').st_ino}"


def _start_of(pid: int) -> str:
    """Return when a process was started, in ticks since the boot, "" if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except OSError:
        return ""


def _socket(stream: Any) -> socket.socket:
    """Return the socket behind what docker-py makes of one. Nothing must come by it before something was sent.

    For docker-py looks for it below a buffer, which may have taken more than the header of the answer.
    """
    found: socket.socket = getattr(stream, "_sock", stream)
    return found


def _readable(stream: socket.socket, seconds: float) -> bool:
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
