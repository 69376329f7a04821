"""Starting the shell: the runtime, the environment, and a terminal or a script."""

import asyncio
import contextlib
import importlib
import io
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TextIO

import anyio
from rich.console import Console
from rich.text import Text

from aiocg.cli.shell.interpreter import Shell
from aiocg.cli.shell.session import ShellSession
from aiocg.runtime import Runtime

INTERRUPTED = 130  # exit status, as in shells


async def run_shell(
    environment: str, *, workers: int | None = None, commands: str | None = None, **options: Any
) -> int:
    """Run the shell to its end.

    Args:
        environment, options: as for `ShellSession.open`.
        workers: number of processes; one per processor if None.
        commands: to carry out, in place of asking for any; on a terminal they are asked for, elsewhere read from
            standard input.

    Returns:
        The exit status: 0; for a script 1 if a command has failed, 130 if it was interrupted.

    Raises:
        AiocgError, DatasetError: when the environment cannot be had.
    """
    interactive = commands is None and sys.stdin.isatty() and sys.stdout.isatty()
    async with Runtime(workers=workers) as runtime:
        opening = asyncio.create_task(ShellSession.open(runtime, environment, **options))
        with _on_sigint(opening.cancel):
            if interactive:
                # Import what the terminal needs while the first worker starts.
                await asyncio.to_thread(importlib.import_module, "aiocg.cli.shell._prompt")
            try:
                session = await opening
            except asyncio.CancelledError:
                return INTERRUPTED
        shell = Shell(session, Console(highlight=False), interactive=interactive)
        return await (_converse(shell) if interactive else _run_script(shell, commands))


async def _converse(shell: Shell) -> int:
    from aiocg.cli.shell._prompt import Prompt, history_file

    env = shell.session.env
    shell.console.print(Text(f"{env.spec.id}: {env.spec.description} ({env.compiler_version})", style="bold"))
    shell.console.print("`tutorial` shows how to begin, `help` lists the commands, Tab completes, Ctrl-D leaves.")
    with _on_sigint(shell.interrupt):
        await Prompt(shell, history_file()).run()
    return 0


async def _run_script(shell: Shell, commands: str | None) -> int:
    """Execute commands, by default from standard input, until one fails; return the exit status."""
    interrupted = succeeded = False
    script = asyncio.create_task(_carry_out(shell, commands))

    def interrupt() -> None:
        nonlocal interrupted
        interrupted = True
        if shell.running:
            shell.interrupt()
        else:
            script.cancel()

    with _on_sigint(interrupt):
        try:
            succeeded = await script
        except asyncio.CancelledError:
            if not interrupted:
                raise
    return INTERRUPTED if interrupted else 0 if succeeded else 1


async def _carry_out(shell: Shell, commands: str | None) -> bool:
    if commands is not None:
        return await shell.run(commands)
    async for line in _lines_of(sys.stdin):
        if not await shell.run(line) or shell.finished:
            return shell.finished
    return True


async def _lines_of(stream: TextIO) -> AsyncIterator[str]:
    """Yield the lines of a stream as they arrive, without blocking the event loop."""
    rest = b""
    while True:
        try:
            await anyio.wait_readable(stream.fileno())
        except (io.UnsupportedOperation, OSError):  # not a file, or one that is always readable
            for line in stream:
                yield line
            return
        chunk = os.read(stream.fileno(), 65536)
        *whole, rest = (rest + chunk).split(b"\n")
        for one in whole if chunk else [rest]:
            yield one.decode(errors="replace")
        if not chunk:
            return


@contextlib.contextmanager
def _on_sigint(function: Callable[[], object]) -> Iterator[None]:
    """Call a function on Ctrl-C during the block."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, function)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
