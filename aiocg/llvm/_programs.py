"""The program of an environment as text and as files."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from aiocg.llvm._output_file import write_whole

if TYPE_CHECKING:
    from aiocg.env.env import Env


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
    return await anyio.to_thread.run_sync(write_whole, path, (await ir(env)).encode("utf-8", "surrogateescape"))


async def write_bitcode(env: "Env", path: str | os.PathLike[str]) -> Path:
    """Write the program as bitcode; arguments and errors as for `write_ir`."""
    return await anyio.to_thread.run_sync(write_whole, path, bytes(await env.observe("Bitcode")))
