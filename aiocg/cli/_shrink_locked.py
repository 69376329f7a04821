"""`aiocg shrink --locked`: imports little, as a build by the lock file is to take no longer than one by clang."""

import hashlib
import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from aiocg.datasets.cache import cache_directory
from aiocg.datasets.errors import DatasetError
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import find_toolchain
from aiocg.shrink import locked_build as locked
from aiocg.shrink.lock import LockError, read_lock

NOTHING_LINKED = (
    "the build has linked no program or shared library from what it has compiled by a compiler that it calls by its "
    "name. If objects were there before, clean the project first, as by `make clean`. If it calls its compiler by a "
    "path, as CMake and Meson do in a folder that is configured already, configure it anew with that of "
    "`aiocg shrink --toolchain cmake` (or meson), or within the command: "
    "aiocg shrink -- sh -c 'cmake -S . -B new && cmake --build new'"
)


def main(words: Sequence[str], lock: Path = Path("aiocg.lock"), *, as_json: bool = False) -> int | None:
    """Build by a lock file at once, if that has only what allows it, and return the exit status; None if not.

    Args:
        words: of the build.
        lock: the file.
        as_json: whether the images are told as JSON.
    """
    try:
        if not locked.is_repeatable(known := read_lock(lock)):
            return None
        with scratch_folder() as scratch:
            status, images = locked.build(shlex.join(words), known, commands(), Path(scratch))
    except LockError:
        return None  # others say it
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except (OSError, DatasetError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if status:
        print(f"error: the build failed: `{shlex.join(words)}` ended with {status}", file=sys.stderr)
        return status if 0 < status < 256 else 1
    if not images:
        print(f"error: {NOTHING_LINKED}", file=sys.stderr)
        return 1
    if as_json:
        print(json.dumps({"llvm": find_toolchain().version, "images": [asdict(image) for image in images]}))
    for image in () if as_json else images:
        print(f"{image.name}: {image.bytes:,} bytes, {image.note or 'as the lock file says'}")
    return 0


def commands() -> Path:
    """Return a folder for commands that stays, as CMake remembers where it has found the compiler."""
    name = hashlib.sha256(os.fsencode(os.environ.get("PATH", os.defpath))).hexdigest()[:16]
    return cache_directory() / "shrink" / name
