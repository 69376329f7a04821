"""Starts the shell: the runtime, the environment, and either a terminal or a script."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from aiocg.runtime import Runtime
from aiocg.shell.interpreter import Shell
from aiocg.shell.script import INTERRUPTED, Script
from aiocg.shell.session import ShellSession

__all__ = ["ShellOptions", "run_shell"]


@dataclass(frozen=True, slots=True)
class ShellOptions:
    """What a shell begins with.

    Attributes:
        environment: id of the environment.
        benchmark: the program; that of the environment if None.
        observation_space, reward_space, action_space: instead of those of the environment.
        workers: number of processes; one per processor if None.
        timeout: seconds that an action may take, the environment's if None.
        seed: of random actions and programs.
    """

    environment: str = "llvm-ic-v0"
    benchmark: str | None = None
    observation_space: str | None = None
    reward_space: str | None = None
    action_space: str | None = None
    workers: int | None = None
    timeout: float | None = None
    seed: int | None = None


async def run_shell(options: ShellOptions, commands: str | None = None) -> int:
    """Run the shell to its end.

    Args:
        options: what it begins with.
        commands: to carry out, in place of asking for any; on a terminal they are asked for, elsewhere read from
            standard input.

    Returns:
        The exit status: 0; for a script 1 if a command has failed, 130 if it was interrupted.

    Raises:
        AiocgError, DatasetError: when the environment cannot be had.
    """
    interactive = commands is None and sys.stdin.isatty() and sys.stdout.isatty()
    async with Runtime(workers=options.workers) as runtime:
        opening = asyncio.create_task(_open(runtime, options))
        with _on_sigint(opening.cancel):
            if interactive:
                # Most of its time the first worker needs to start; that time is for loading what the terminal needs.
                await asyncio.to_thread(_load_prompt)
            try:
                session = await opening
            except asyncio.CancelledError:
                return INTERRUPTED
        shell = Shell(session, Console(highlight=False), interactive=interactive)
        if interactive:
            with _on_sigint(shell.interrupt):
                await _converse(shell)
            return 0
        script = Script(shell, commands)
        with _on_sigint(script.interrupt):
            return await script.run()


async def _open(runtime: Runtime, options: ShellOptions) -> ShellSession:
    return await ShellSession.open(
        runtime,
        options.environment,
        benchmark=options.benchmark,
        observation_space=options.observation_space,
        reward_space=options.reward_space,
        action_space=options.action_space,
        timeout=options.timeout,
        seed=options.seed,
    )


def _load_prompt() -> None:
    import aiocg.shell.commands
    import aiocg.shell.prompt  # noqa: F401


async def _converse(shell: Shell) -> None:
    from aiocg.shell.prompt import Prompt, history_file

    env = shell.session.env
    shell.console.print(Text(f"{env.spec.id}: {env.spec.description} ({env.compiler_version})", style="bold"))
    shell.console.print("`tutorial` shows how to begin, `help` lists the commands, Tab completes, Ctrl-D leaves.")
    await Prompt(shell, history_file()).run()


@contextlib.contextmanager
def _on_sigint(function: Callable[[], object]) -> Iterator[None]:
    """Have Ctrl-C call a function for as long as the block lasts."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, function)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
