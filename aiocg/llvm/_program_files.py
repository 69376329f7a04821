"""Programs as text and files, which are replaced at once, also by compilers of `make -j`."""

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from aiocg.datasets.locking import replacing

if TYPE_CHECKING:
    from aiocg.env.env import Env


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


async def ir(env: "Env") -> str:
    """Return the program as textual IR."""
    text: str = await env.observe("Ir")
    return text


async def ir_sha1(env: "Env") -> str:
    """Return the SHA-1 of the textual IR without the line that names the module, in hexadecimal."""
    digest: str = await env.observe("IrSha1")
    return digest


async def write_ir(env: "Env", path: str | os.PathLike[str]) -> Path:
    """Write the program as textual IR and return where it is.

    Args:
        env: an environment that was reset.
        path: `~` is expanded. A file that is there is replaced at once, by a whole one.

    Raises:
        OSError: when it cannot be written; what was there is still there then.
    """
    import anyio.to_thread  # here, since every start of `aiocg cc` imports this module

    return await anyio.to_thread.run_sync(write_whole, path, (await ir(env)).encode("utf-8", "surrogateescape"))


async def write_bitcode(env: "Env", path: str | os.PathLike[str]) -> Path:
    """Write the program as bitcode; arguments and errors as for `write_ir`."""
    import anyio.to_thread

    return await anyio.to_thread.run_sync(write_whole, path, bytes(await env.observe("Bitcode")))
