"""Files that appear whole or not at all."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aiocg.compat.compiler_gym.util import runfiles_path

__all__ = ["atomic_file_write", "get_storage_paths", "is_in_memory"]


def get_storage_paths() -> list[Path]:
    """Return the folders in which files are kept."""
    return sorted(
        {runfiles_path.cache_path("."), runfiles_path.transient_cache_path("."), runfiles_path.site_data_path(".")}
    )


@contextlib.contextmanager
def atomic_file_write(path: Path, fileobj: bool = False, mode: str = "wb") -> Iterator[Any]:
    """Return a context manager for writing a file, which gets its name at the end of the block.

    Args:
        path: the file.
        fileobj: give the block an open file rather than the path of a temporary one.
        mode: of the open file.
    """
    with tempfile.NamedTemporaryFile(dir=Path(path).parent, delete=False, mode=mode) as temporary:
        written = Path(temporary.name)
        try:
            yield temporary if fileobj else written
            temporary.flush()
            if written.is_file():
                os.rename(written, path)
        finally:
            written.unlink(missing_ok=True)


def is_in_memory(path: Path) -> bool:
    """Say whether a path is in the file system that Linux keeps in memory."""
    return str(path).startswith("/dev/shm")
