"""Atomic output files, also for compilers of `make -j`."""

import os
import stat
from pathlib import Path

from aiocg.datasets.replacing import replacing


def write_whole(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write a file and return where it is; what was there is replaced at once, or kept if that fails.

    What is no regular file, such as /dev/null, is written to, not replaced.

    Args:
        path: `~` is expanded, links are followed.

    Raises:
        OSError: when it cannot be written.
    """
    target = Path(os.path.realpath(os.path.expanduser(path)))
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        target.write_bytes(content)
        return target
    with replacing(target, 0o666 & ~_umask()) as file:
        file.write(content)
    return target


def _umask() -> int:
    """Return the mask of permissions. Setting it is the only other way to read it, and other threads would see that."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return int(status.partition("\nUmask:\t")[2].split("\n", 1)[0], 8)
    except (OSError, ValueError):
        os.umask(mask := os.umask(0o077))
        return mask
