"""Atomic file replacement."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO


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
