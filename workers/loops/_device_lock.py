"""A lock for measuring on a device, and a cache of measured rooflines."""

import contextlib
import fcntl
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.files import replace_file
from aiocg.workers.loops._target import Roof

FOLDER = Path("/tmp")
SHORTEST, LONGEST = 0.001, 0.02  # seconds between two tries


@contextmanager
def held(device: str, deadline: float = math.inf, folder: Path = FOLDER) -> Iterator[None]:
    """Hold the lock of a device of this machine.

    Args:
        device: such as `cpu` or `cuda-0`; part of the file's name.
        deadline: the time limit of waiting, in seconds of the monotonic clock.
        folder: the lock's folder.

    Raises:
        CompilationError: with `FailureCode.OBSERVATION` if others measure on the device until the deadline.
        OSError: if the file cannot be opened.
    """
    descriptor = _open(folder / f"aiocg-measures-on-{device}.lock")
    try:
        _wait(descriptor, device, deadline)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """Open the file for reading: Linux may forbid opening files of other users in /tmp for writing."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # another user may have made a pipe there
    while True:
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            pass
        try:
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            continue
        os.fchmod(descriptor, 0o444)  # regardless of the umask
        return descriptor


def _wait(descriptor: int, device: str, deadline: float) -> None:
    pause = SHORTEST
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            left = deadline - time.monotonic()
        if left <= 0:
            raise CompilationError(FailureCode.OBSERVATION, f"others measured on {device} all the time")
        time.sleep(min(pause, left))
        pause = min(2 * pause, LONGEST)


def remembered(folder: Path | None, key: Mapping[str, str | int], measure: Callable[[], Roof]) -> Roof:
    """Return a roofline from the cache, or measure and cache it.

    An unusable file is replaced; without a writable folder nothing is cached.

    Args:
        folder: the cache's folder; None for no cache.
        key: everything the roofline depends on: the device, its configuration, the version of the measurement.
        measure: measures the roofline.
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
    """Write a file atomically."""
    text = json.dumps({"key": dict(key), "flops": roof.flops, "bandwidths": roof.bandwidths}, indent=1)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, f"{text}\n".encode())
