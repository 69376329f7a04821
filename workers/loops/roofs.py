"""Roofs are measured once: files that remember them."""

import json
import math
import os
import tempfile
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from aiocg.workers.loops.target import Roof

__all__ = ["remembered"]


def remembered(folder: Path | None, key: Mapping[str, str | int], measure: Callable[[], Roof]) -> Roof:
    """Return the roof that a file has for a key, or measure it and write it.

    A file that cannot be used is written anew, and where none can be written, nothing is remembered.

    Args:
        folder: where the files are; None for none.
        key: all that the roof depends on: the device, how it is used, the version of what measures.
        measure: does so.
    """
    if folder is None:
        return measure()
    text = json.dumps(dict(key), sort_keys=True)
    path = folder / f"roof-{sha256(text.encode()).hexdigest()[:16]}.json"
    roof = _read(path, key)
    if roof is None:
        roof = measure()
        _write(path, key, roof)
    return roof


def _read(path: Path, key: Mapping[str, str | int]) -> Roof | None:
    try:
        stored: Any = json.loads(path.read_text(encoding="utf-8"))
        if stored["key"] != dict(key):
            return None
        roof = Roof(float(stored["flops"]), tuple((int(size), float(rate)) for size, rate in stored["bandwidths"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    rates = (roof.flops, *(rate for _, rate in roof.bandwidths))
    sensible = roof.bandwidths and all(math.isfinite(rate) and rate > 0 for rate in rates)
    return roof if sensible else None


def _write(path: Path, key: Mapping[str, str | int], roof: Roof) -> None:
    """Write a file that is there whole or not at all."""
    text = json.dumps({"key": dict(key), "flops": roof.flops, "bandwidths": roof.bandwidths}, indent=1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError:
        return
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        os.replace(name, path)
    except OSError:
        Path(name).unlink(missing_ok=True)
