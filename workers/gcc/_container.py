"""A compiler in a container that is confined and lives no longer than its worker, with shells that run its commands.

Each thread gets its own shell, which is reused: starting one takes as long as a small compile.
"""

import contextlib
import errno
import functools
import itertools
import json
import os
import select
import shlex
import shutil
import socket
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from aiocg.transport.system import processors
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc._attached_shell import FILES, KEEPER, KILL, LOOP, AttachedShell, Kills, ShellLost
from aiocg.workers.gcc._engine import Image, connect, failure, find_image, said
from aiocg.workers.gcc._runner import ENVIRONMENT, Completed

if TYPE_CHECKING:
    from docker import APIClient


OWNER, FOLDER = ("aiocg.owner", "aiocg.folder")  # labels: the process that created a container, and their shared folder
_SHELLS = ".shells"  # the folder below the container's for its shells' folders
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NOBODY = 65534
_SMALL = {"core": 0, "nofile": 1024}  # resource limits; engines' defaults may exceed what they are allowed to set
_END_PATIENCE = 2.0  # seconds for the engine to notice that a container has ended
_LAST_WORDS = 0.2  # seconds to read a container's output after it ended


class Limits(NamedTuple):
    """The resource limits of a container.

    Attributes:
        memory: bytes, for all processes together and for the address space of each.
        processes: the number of processes.
        processors: the number of cores; 0 for as many as this process may use.
        temporary: size of /tmp in bytes, which counts as memory.
    """

    memory: int = 4 << 30
    processes: int = 1024
    processors: float = 0.0
    temporary: int = 256 << 20


class Container:
    """A container with shells. Not thread-safe, because the connection to the engine is not.

    It can write only to one folder, which has the same path inside and outside, and to a small /tmp. It has no network,
    no capabilities, an unprivileged user, and limited memory, processes and cores. It ends when its standard input is
    closed.

    Args:
        client: the engine.
        image: the image to run.
        folder: shared with this machine.
        limits: its resource limits.

    Attributes:
        user: the id of its user on this machine.
        idle: shells without a command.

    Raises:
        CompilationError: with `FailureCode.COMPILER` if it cannot be created; the message says why.
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
            CompilationError: with `FailureCode.COMPILER` if that fails; the message says why.
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
        """Create and open a shell's files, following no links that code in the container may have placed."""
        with contextlib.ExitStack() as opened, contextlib.ExitStack() as undo:
            directory = os.open(self._folder, _OPEN_FOLDER)
            opened.callback(os.close, directory)
            for part in parts:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=directory)
                directory = os.open(part, _OPEN_FOLDER, dir_fd=directory)
                opened.callback(os.close, directory)
            files = {}
            for name in FILES:
                files[name] = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=directory)
                undo.callback(os.close, files[name])
                if self.user != os.geteuid():
                    os.fchown(files[name], self.user, -1)
            undo.pop_all()
            return files

    def kill(self, mark: str) -> None:
        """Kill all processes with a mark, if the engine can; takes a while."""
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        with contextlib.suppress(DockerException, RequestException, OSError):  # the waiting caller will notice
            made = self._client.exec_create(self._id, ["sh", "-c", KILL, "sh", mark])
            self._client.exec_start(made["Id"], detach=True)

    def has_ended(self) -> bool:
        """Return whether the engine has closed the connection to the first process."""
        try:
            return self._keeper is None or (_readable(self._keeper, 0.0) and not self._keeper.recv(1, socket.MSG_PEEK))
        except OSError:
            return True

    def fate(self) -> str:
        """Describe how the container ended, as far as the engine knows."""
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
        """Kill and remove the container. Idempotent. If the engine does not reply, the closed input ends it later."""
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None
        while self.idle:
            self.idle.pop().close()
        if self._id:
            with contextlib.suppress(DockerException, RequestException, OSError):  # usually because it is already gone
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
        able: dict[str, Any] = {}  # a rootless engine refuses limits that it cannot set
        if self._engine.get("MemoryLimit"):
            able |= {"mem_limit": limits.memory, "memswap_limit": limits.memory}
        if self._engine.get("PidsLimit"):
            able |= {"pids_limit": limits.processes}
        if self._engine.get("CpuCfsQuota"):
            count = limits.processors or len(processors())
            able |= {"nano_cpus": int(min(count, self._engine.get("NCPU") or count) * 1e9)}
        if any("name=userns" in option for option in security):
            able |= {"userns_mode": "host"}  # otherwise its user could not read our folder
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
            stdin_open=True,  # closed with the attached connection
            user="0:0" if rootless else f"{self.user}:{group}",  # root of a rootless engine is its user outside
            working_dir=self._folder,
            environment={**ENVIRONMENT, "HOME": "/tmp", "TMPDIR": "/tmp"},
            labels={OWNER: _owner(), FOLDER: self._folder},
            healthcheck={"test": ["NONE"]},
            host_config=host,
        )
        self._id = str(made["Id"])

    def _events(self) -> set[str]:
        """Return the container's events so far. (docker-py's own method has no timeout.)"""
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
        """Convert the engine's errors to ours, and remove the container."""
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
        """Return an error that explains why the container cannot be used."""
        if words := self._last_words():
            problem = f"{problem}; {words}"
        name, machine = self._image.name, str(self._engine.get("Architecture") or "")
        own = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
        if "exec format error" in problem.lower():
            reason = (
                f"its programs are for {self._image.architecture or 'another architecture'}, this machine is {own}. Get"
                f" the image for {own} (docker pull --platform linux/{own} {name})"
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
        """Return the output of the first process, which writes only if something is wrong."""
        if self._keeper is None or not _readable(self._keeper, _LAST_WORDS):
            return ""
        with contextlib.suppress(OSError):
            return self._keeper.recv(4096)[8:].decode(errors="replace").strip()
        return ""


def _remove_left(client: "APIClient", folder: str) -> None:
    """Remove containers whose owners are gone, and those that share our folder, which are our own lost ones.

    Most containers end with their connection, except those never started, and some whose engine was restarted.
    """
    from docker.errors import APIError

    for found in client.containers(all=True, filters={"label": OWNER}):
        labels = found["Labels"]
        if labels.get(FOLDER) == folder or _is_gone(labels[OWNER]):
            with contextlib.suppress(APIError):  # another process removes it, too
                client.remove_container(found["Id"], force=True)


def _owner() -> str:
    return f"{_processes()} {os.getpid()} {_start_of(os.getpid())}"


def _is_gone(owner: str) -> bool:
    """Return whether the owner was visible to this process and has ended."""
    *processes, pid, start = owner.split()
    return " ".join(processes) == _processes() and _start_of(int(pid)) != start


def _processes() -> str:
    """Return the scope of process ids: the machine's current boot, and the PID namespace."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.stat('/proc/self/ns/pid').st_ino}"
    except FileNotFoundError:  # another system, where there is one scope
        return os.uname().nodename


def _start_of(pid: int) -> str:
    """Return the start time of a process, without blanks; "" if there is no such process."""
    if not os.path.isdir("/proc"):
        done = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], stdout=subprocess.PIPE, text=True)
        return "_".join(done.stdout.split())
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except OSError:
        return ""


def _socket(stream: Any) -> socket.socket:
    """Return the raw socket below docker-py's stream.

    The peer must not send first: docker-py's buffer may have read beyond the reply's header.
    """
    found: socket.socket = getattr(stream, "_sock", stream)
    return found


def _readable(stream: socket.socket, seconds: float) -> bool:
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


_LOOK_TIMEOUT = 30.0  # seconds for the commands that inspect a new container


class ContainerRunner:
    """Runs commands of the compiler in an image; see `CommandRunner`.

    Args:
        image: the image's name, such as `gcc:13`, or its id.
        limits: the container's limits.

    Raises:
        CompilationError: with `FailureCode.COMPILER` if there is no engine, no image, or no GCC in it; the message says
            what to do, and `fields["reason"]` what is wrong: `docker-py`, `engine`, `image`, `container` or `folder`.
    """

    is_apart = True

    def __init__(self, image: str, limits: Limits = Limits()) -> None:  # noqa: B008 it is a tuple
        self.name = f"docker:{image}"
        self._limits = limits
        self.memory = limits.memory
        self._lock = threading.Lock()
        self._client = connect()
        self._image = find_image(self._client, image)
        self.identity = self._image.id
        self._temporary = tempfile.TemporaryDirectory(prefix="gcc-", ignore_cleanup_errors=True)
        self.root = os.path.realpath(self._temporary.name)
        self._container: Container | None = None
        self._closed = False
        try:
            self.compiler = self._look_around()
        except BaseException:
            self.close()
            raise

    def run(
        self, command: Sequence[str], *, folder: str, timeout: float, stdin: bytes = b"", memory: int = 0
    ) -> Completed:
        """Run a command in a folder; see `CommandRunner`. An exit status above 128 is interpreted as a signal.

        Raises:
            CompilationError: with `FailureCode.COMPILER` if the container was lost during the command (the next one
                gets a new container), or if none can be created.
        """
        container, shell = self._take_shell()
        try:
            if container.user != os.geteuid():
                _give_away(self.root, folder, container.user)
            kill = functools.partial(self._kill, container)
            done = shell.run(command, folder, timeout, stdin, memory or self._limits.memory, kill)
        except ShellLost as lost:
            shell.close()
            raise failure(
                f"{self.name}: the container was lost while it ran `{shlex.join(command)[:200]}`: {lost} "
                f"({self._drop(container)}). The next command gets a new container",
                reason="container",
            ) from None
        except OSError as error:
            shell.close()
            raise failure(
                f"{self.name}: a command cannot be given to the container by {self.root}: {error.strerror}. "
                "Make room there, or set TMPDIR to another folder",
                reason="folder",
            ) from None
        container.idle.append(shell)
        return done

    def close(self) -> None:
        """Remove the container and the folder; idempotent."""
        with self._lock:
            self._closed = True
            if self._container is not None:
                self._container.remove()
                self._container = None
        self._temporary.cleanup()

    def _take_shell(self) -> tuple[Container, AttachedShell]:
        """Return an idle or new shell, starting a container if there is none."""
        with self._lock:
            if self._closed:
                raise failure(f"{self.name} was closed")
            if self._container is not None and self._container.has_ended():
                self._container.remove()
                self._container = None
            if self._container is None:
                self._container = Container(self._client, self._image, self.root, self._limits)
            with contextlib.suppress(IndexError):
                return self._container, self._container.idle.pop()
            return self._container, self._container.open_shell()

    def _kill(self, container: Container, mark: str) -> None:
        with self._lock:
            container.kill(mark)

    def _drop(self, container: Container) -> str:
        """Discard the container; return how it ended."""
        with self._lock:
            fate = container.fate()
            container.remove()
            if self._container is container:
                self._container = None
        return fate

    def _look_around(self) -> str:
        """Find the compiler in a new container, and check that it shares our folder.

        Raises:
            CompilationError: with `FailureCode.COMPILER` if there is none.
        """
        container, shell = self._take_shell()
        try:
            look = ["sh", "-c", "cat && command -v gcc"]
            done = shell.run(look, self.root, _LOOK_TIMEOUT, b".", self._limits.memory, container.kill)
        except ShellLost as lost:
            shell.close()
            raise container.explain(str(lost)) from None
        container.idle.append(shell)
        echo, compiler = done.output[:1], done.output[1:].decode(errors="replace").strip()
        if echo != b".":
            raise container.explain(f"{self.root}: {done.errors.decode(errors='replace').strip() or 'not writable'}")
        if not compiler:
            raise failure(
                f"there is no gcc in the image {self._image.name!r}: its PATH leads to none. Use an image that has it, "
                "such as gcc:13, or add it to yours (in images of Debian and Ubuntu: apt-get install gcc libc6-dev)",
                reason="image",
            )
        return compiler


def _give_away(root: str, folder: str, user: int) -> None:
    """Give ownership of the files that this process, as root, wrote to the container's user.

    Links are not followed: programs may have created them.
    """
    part = os.path.relpath(folder, root).partition(os.sep)[0]
    directory = os.open(root, _OPEN_FOLDER)
    try:
        _give(part, directory, user)
    except RecursionError:
        raise OSError(errno.ELOOP, "there are too many folders in each other") from None
    finally:
        os.close(directory)


def _give(name: str, directory: int, user: int) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # other threads remove their own files
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if status.st_uid != user:
            os.chown(name, user, -1, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            return
        inside = os.open(name, _OPEN_FOLDER, dir_fd=directory)
        try:
            for one in os.listdir(inside):
                _give(one, inside, user)
        finally:
            os.close(inside)
