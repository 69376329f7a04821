"""A compiler in a container: one container for as long as the worker lives, with shells that carry out its commands.

A shell for each thread that has a command, because to start one takes an engine as long as some compiles.
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

from aiocg.workers.gcc.attached_shell import AttachedShell, ShellLost
from aiocg.workers.gcc.confinement import Container, Limits
from aiocg.workers.gcc.engine import connect, failure, find_image
from aiocg.workers.gcc.place import Completed

__all__ = ["ContainerPlace", "Limits"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_LOOK_TIMEOUT = 30.0  # seconds for the commands that look around in a new container


class ContainerPlace:
    """Runs commands of the compiler in an image; see `Place`.

    Args:
        image: its name, such as `gcc:13`, or its id.
        limits: for the container.

    Raises:
        CompilationError: with `FailureCode.COMPILER` when there is no engine, no image, or no GCC in it; the message
            says what to do, `fields["reason"]` what is wrong: `docker-py`, `engine`, `image`, `container` or `folder`.
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
        """Run a command in a folder; see `Place`. An exit status above 128 is taken for a signal's.

        Raises:
            CompilationError: with `FailureCode.COMPILER` when the container was lost meanwhile (the next command gets a
                new one), or there is none and none can be made.
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
        """Return an idle shell or a new one, in the container that there is or a new one."""
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
        """Let the next command have another container, and return what has become of this one."""
        with self._lock:
            fate = container.fate()
            container.remove()
            if self._container is container:
                self._container = None
        return fate

    def _look_around(self) -> str:
        """Find the compiler in a new container, whose folder must be ours.

        Raises:
            CompilationError: with `FailureCode.COMPILER` when there is none.
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
    """Let a user have what we have put into a folder and those beside it: we are root, and the container is not.

    Links are not followed: programs may have made them.
    """
    part = os.path.relpath(folder, root).partition(os.sep)[0]
    place = os.open(root, _FOLDER)
    try:
        _give(part, place, user)
    except RecursionError:
        raise OSError(errno.ELOOP, "there are too many folders in each other") from None
    finally:
        os.close(place)


def _give(name: str, place: int, user: int) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # other threads remove what they have made
        status = os.stat(name, dir_fd=place, follow_symlinks=False)
        if status.st_uid != user:
            os.chown(name, user, -1, dir_fd=place, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            return
        inside = os.open(name, _FOLDER, dir_fd=place)
        try:
            for one in os.listdir(inside):
                _give(one, inside, user)
        finally:
            os.close(inside)
