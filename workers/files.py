"""Atomic file replacement."""

import os
import tempfile
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Write a file such that other processes see all of it or what was there before.

    Raises:
        OSError: if it cannot be written; then nothing is left behind.
    """
    descriptor, scratch = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(scratch, path)
    except OSError:
        os.unlink(scratch)
        raise
