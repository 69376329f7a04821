"""Folders that programs have written to, or still do: what is there may be a trap, such as a link that leads elsewhere.

Whatever is opened here is opened part by part from a folder that is known, and never by a link.
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

__all__ = ["TooLarge", "empty", "folder_below", "folders_in", "read", "write"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe would keep us waiting for a writer
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK


class TooLarge(Exception):
    """A file has more bytes than it may have."""


def read(folder: Path, name: str, most: int | None = None) -> bytes | None:
    """Return the content of a file below a folder; None when there is no regular file, or a link leads to it.

    Args:
        folder: in which a program may have written.
        name: of the file, relative to it.
        most: bytes that it may have, None for any number.

    Raises:
        TooLarge: when it has more.
    """
    with contextlib.ExitStack() as opened:
        try:
            place, last = _parent(folder, name, opened)
            number = os.open(last, _FILE, dir_fd=place)
            opened.callback(os.close, number)  # a folder makes `open` fail, and stays open
            status = os.fstat(number)
            if not stat.S_ISREG(status.st_mode):
                return None
            if most is not None and status.st_size > most:
                raise TooLarge
            with open(number, "rb", closefd=False) as file:
                return file.read() if most is None else file.read(status.st_size)  # it may be growing
        except OSError:
            return None


def write(folder: Path, files: Mapping[str, bytes], time: int | None = None) -> None:
    """Write files below a folder, with the folders that they need.

    Args:
        folder: in which a program may be writing.
        files: contents by relative name.
        time: seconds since 1970 at which they say that they were written, None for now.

    Raises:
        OSError: when one cannot be written, or a link is in its way; it has the name.
    """
    for name, content in files.items():
        with contextlib.ExitStack() as opened:
            try:
                place, last = _parent(folder, name, opened, make=True)
                number = os.open(last, _NEW, 0o666, dir_fd=place)
                with open(number, "wb") as file:
                    if not stat.S_ISREG(os.fstat(number).st_mode):
                        raise OSError(errno.EINVAL, "it is no file")
                    file.write(content)
                    file.flush()
                    if time is not None:
                        os.utime(number, (time, time))
            except OSError as error:
                raise OSError(error.errno, error.strerror, os.path.join(folder, name)) from None


@contextlib.contextmanager
def folder_below(folder: Path, name: str, prefix: str) -> Iterator[str]:
    """Have a new folder below one that is below another, and remove it with all that is in it at the end.

    Args:
        folder: in which a program may be writing.
        name: of the one in it.
        prefix: how the new one's name begins, which is what the context has.

    Raises:
        OSError: when it cannot be made.
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
    """Open the folder that a file is in, and return that with the last part of its name."""
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
    """Remove what is in a folder, but for some folders below it, of which those above are to be kept as well.

    Raises:
        OSError: when something cannot be removed.
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
        else:  # something else is there now
            yield path


def _remove_stubborn(path: Path) -> None:
    """Remove what is nested deeper than Python can follow, or may not be read as it is."""
    for command in (["chmod", "-R", "u+rwX", "--", str(path)], ["rm", "-rf", "--", str(path)]):
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if path.exists() or path.is_symlink():
        raise OSError(f"{path} cannot be removed")
