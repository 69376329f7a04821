"""Folders that programs have written to: what is there may be a trap, such as a link that leads elsewhere."""

import contextlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Set
from pathlib import Path, PurePosixPath

__all__ = ["empty", "folders_in", "read"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe would keep us waiting for a writer


def read(folder: Path, name: str) -> bytes | None:
    """Return the content of a file below a folder; None when there is no regular file, or a link leads to it."""
    *parents, last = PurePosixPath(name).parts
    with contextlib.ExitStack() as opened:
        try:
            place = os.open(folder, _FOLDER)
            opened.callback(os.close, place)
            for parent in parents:
                place = os.open(parent, _FOLDER, dir_fd=place)
                opened.callback(os.close, place)
            number = os.open(last, _FILE, dir_fd=place)
            with open(number, "rb") as file:
                return file.read() if stat.S_ISREG(os.fstat(number).st_mode) else None
        except OSError:
            return None


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
