"""Working in another folder for a while."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["temporary_working_directory"]


@contextlib.contextmanager
def temporary_working_directory(directory: str | Path | None = None) -> Iterator[Path]:
    """Return a context manager whose block has another working directory.

    Args:
        directory: which one; if None, a new one that is removed afterwards.
    """
    with contextlib.ExitStack() as stack:
        if not directory:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="compiler_gym-"))
        before = os.getcwd()
        os.chdir(directory)
        stack.callback(os.chdir, before)
        yield Path(directory)
