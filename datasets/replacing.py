"""Files and folders that appear at once and complete."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from aiocg.datasets.locking import locked
from aiocg.datasets.progress import progress


@contextlib.contextmanager
def replacing(target: Path, mode: int = 0o600) -> Iterator[IO[bytes]]:
    """Open a new file that takes the target's place when the block ends; after an error the target is as it was.

    Raises:
        OSError: when the file cannot be written.
    """
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".new-{target.name[:100]}-", dir=target.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from None  # the name that the caller knows
    try:
        with open(descriptor, "w+b") as file:
            os.fchmod(descriptor, mode)
            yield file
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def make_folder(target: Path, fill: Callable[[Path], object], waiting_for: str) -> None:
    """Make a folder by a function that fills an empty one; do nothing if it is there already.

    Safe in several threads and processes at once; leftovers of killed processes are removed.

    Args:
        waiting_for: shown while another one does the same.

    Raises:
        OSError: when it cannot be written.
        Cancelled: when the event of `cancellable` was set.
    """
    with locked(target.with_name(f".{target.name}.lock"), waiting_for):
        if target.exists():
            return
        folder = target.with_name(f".new-{target.name}")
        if folder.exists():
            remove_tree(folder)
        folder.mkdir()
        try:
            fill(folder)
            folder.rename(target)
        except BaseException:
            with contextlib.suppress(OSError):  # the next one removes it
                remove_tree(folder)
            raise


def remove_tree(folder: Path) -> None:
    """Remove a folder with its content, showing progress if it takes long.

    Raises:
        OSError: when something cannot be removed.
    """
    with progress(f"Removing {folder}"):
        shutil.rmtree(folder)
