"""The shell without a terminal: commands from the command line, or from standard input as they come."""

import asyncio
import io
import os
import sys
from collections.abc import AsyncIterator
from typing import TextIO

from aiocg.shell.interpreter import Shell

__all__ = ["INTERRUPTED", "Script", "lines_of"]

INTERRUPTED = 130  # as shells say it


class Script:
    """Carries out commands until one fails.

    Args:
        shell: that carries them out.
        commands: all of them; None for those that come on standard input.
    """

    def __init__(self, shell: Shell, commands: str | None) -> None:
        self._shell = shell
        self._commands = commands
        self._task: asyncio.Task[bool] | None = None
        self._interrupted = False

    async def run(self) -> int:
        """Carry out all commands.

        Returns:
            The exit status: 0, 1 if a command has failed, or 130 if it was interrupted.
        """
        self._task = asyncio.create_task(self._run())
        try:
            succeeded = await self._task
        except asyncio.CancelledError:
            if not self._interrupted:
                raise
            succeeded = False
        return INTERRUPTED if self._interrupted else 0 if succeeded else 1

    def interrupt(self) -> None:
        """End it: the command that is being carried out, or the waiting for one."""
        self._interrupted = True
        if self._shell.running:
            self._shell.interrupt()
        elif self._task is not None:
            self._task.cancel()

    async def _run(self) -> bool:
        if self._commands is not None:
            return await self._shell.run(self._commands)
        async for line in lines_of(sys.stdin):
            if not await self._shell.run(line):
                return False
            if self._shell.finished:
                break
        return True


async def lines_of(stream: TextIO) -> AsyncIterator[str]:
    """Give the lines of a stream as they come, without holding up the event loop where they are waited for."""
    try:
        descriptor = stream.fileno()
        readable = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(descriptor, readable.set)
    except (io.UnsupportedOperation, OSError):  # no file, or one that is always readable
        for line in stream:
            yield line
        return
    try:
        rest = b""
        while True:
            readable.clear()
            await readable.wait()
            chunk = os.read(descriptor, 65536)
            *whole, rest = (rest + chunk).split(b"\n")
            for one in whole:
                yield one.decode(errors="replace")
            if not chunk:
                break
        if rest:
            yield rest.decode(errors="replace")
    finally:
        loop.remove_reader(descriptor)
