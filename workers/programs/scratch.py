"""Access to folders in which untrusted programs write, safe against traps such as links that lead elsewhere.

Every path is opened component by component from a known folder, and never through a link.
"""

import contextlib
import errno
import os
import secrets
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping, Set
from pathlib import Path, PurePosixPath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # opening a pipe must not wait for a writer
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK


class TooLarge(Exception):
    """A file is too large."""


def read(folder: Path, name: str, most: int | None = None) -> bytes | None:
    """Return the content of a file below a folder; None if it is not a regular file, or reached through a link.

    Args:
        folder: a folder in which a program may have written.
        name: the file's name, relative to the folder.
        most: the maximal number of bytes; None for no limit.

    Raises:
        TooLarge: if it has more.
    """
    with contextlib.ExitStack() as opened:
        try:
            place, last = _parent(folder, name, opened)
            number = os.open(last, _FILE, dir_fd=place)
            opened.callback(os.close, number)  # `open` fails for a folder, which would stay open
            status = os.fstat(number)
            if not stat.S_ISREG(status.st_mode):
                return None
            if most is not None and status.st_size > most:
                raise TooLarge
            with open(number, "rb", closefd=False) as file:
                return file.read() if most is None else file.read(status.st_size)  # the file may be growing
        except OSError:
            return None


def write(folder: Path, files: Mapping[str, bytes], time: int | None = None) -> None:
    """Write files below a folder, creating their folders.

    Args:
        folder: a folder in which a program may be writing.
        files: contents by relative name.
        time: their modification time in seconds since 1970; None for now.

    Raises:
        OSError: if one cannot be written, or a link is in the way; the error has the name.
    """
    for name, content in files.items():
        with contextlib.ExitStack() as opened:
            try:
                place, last = _parent(folder, name, opened, make=True)
                number = os.open(last, _NEW, 0o666, dir_fd=place)
                with open(number, "wb") as file:
                    if not stat.S_ISREG(os.fstat(number).st_mode):
                        raise OSError(errno.EINVAL, "it is not a file")
                    file.write(content)
                    file.flush()
                    if time is not None:
                        os.utime(number, (time, time))
            except OSError as error:
                raise OSError(error.errno, error.strerror, os.path.join(folder, name)) from None


@contextlib.contextmanager
def folder_below(folder: Path, name: str, prefix: str) -> Iterator[str]:
    """Make a new folder in a subfolder, and remove it with its content at the end.

    Args:
        folder: a folder in which a program may be writing.
        name: the subfolder's name.
        prefix: the prefix of the new folder's name, which the context returns.

    Raises:
        OSError: if it cannot be created.
    """
    place, own = os.open(folder, _FOLDER), prefix + secrets.token_hex(8)
    try:
        inner = os.open(name, _FOLDER, dir_fd=place)
    finally:
        os.close(place)
    try:
        os.mkdir(own, 0o700, dir_fd=inner)
        try:
            yield own
        finally:
            shutil.rmtree(own, ignore_errors=True, dir_fd=inner)
    finally:
        os.close(inner)


def _parent(folder: Path, name: str, opened: contextlib.ExitStack, *, make: bool = False) -> tuple[int, str]:
    """Open the folder of a file, and return it with the last component of the file's name."""
    *parents, last = PurePosixPath(name).parts
    place = os.open(folder, _FOLDER)
    opened.callback(os.close, place)
    for parent in parents:
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(parent, dir_fd=place)
        place = os.open(parent, _FOLDER, dir_fd=place)
        opened.callback(os.close, place)
    return place, last


def folders_in(folder: Path) -> frozenset[Path]:
    """Return all folders below a folder."""
    return frozenset(path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink())


def empty(folder: Path, keep: Set[Path] = frozenset()) -> None:
    """Remove the content of a folder, except some folders below it and their parents.

    Raises:
        OSError: if something cannot be removed.
    """
    for path in _unwanted(folder, keep):
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        except (OSError, RecursionError):
            _remove_stubborn(path)


def _unwanted(folder: Path, keep: Set[Path]) -> Iterator[Path]:
    for entry in list(os.scandir(folder)):
        path = Path(entry.path)
        if path not in keep:
            yield path
        elif entry.is_dir(follow_symlinks=False):
            yield from _unwanted(path, keep)
        else:  # replaced in the meantime
            yield path


def _remove_stubborn(path: Path) -> None:
    """Remove folders that are nested too deeply for Python, or unreadable."""
    for command in (["chmod", "-R", "u+rwX", "--", str(path)], ["rm", "-rf", "--", str(path)]):
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if path.exists() or path.is_symlink():
        raise OSError(f"{path} cannot be removed")
