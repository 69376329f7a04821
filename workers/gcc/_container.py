"""A compiler in a container: one container per worker, with shells that run its commands.

Each thread gets its own shell, which is reused: starting one takes as long as a small compile.
"""

import contextlib
import errno
import functools
import os
import shlex
import stat
import tempfile
import threading
from collections.abc import Sequence

from aiocg.workers.gcc._attached_shell import AttachedShell, ShellLost
from aiocg.workers.gcc._confinement import Container, Limits
from aiocg.workers.gcc._engine import connect, failure, find_image
from aiocg.workers.gcc._runner import Completed

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
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
    directory = os.open(root, _FOLDER)
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
        inside = os.open(name, _FOLDER, dir_fd=directory)
        try:
            for one in os.listdir(inside):
                _give(one, inside, user)
        finally:
            os.close(inside)
