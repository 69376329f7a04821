"""Executing lines: finding the command, running its handler, and printing its result or error."""

import asyncio
import traceback
from collections.abc import Coroutine
from typing import Any, TypeVar

from rich.console import Console

from aiocg.cli.output import CommandError, counted
from aiocg.cli.shell._command import Context, Result, split_commands, split_words
from aiocg.cli.shell._commands import COMMANDS
from aiocg.cli.shell._rendering import show
from aiocg.cli.shell.session import ActionEnded, ShellSession
from aiocg.datasets.errors import DatasetError
from aiocg.errors import AiocgError, WorkerCrashed

T = TypeVar("T")

_EXPECTED = (AiocgError, CommandError, DatasetError, OSError, ValueError)  # errors the user can fix


class Shell(Context):
    """A session, its commands, and the consoles for results and errors."""

    def __init__(
        self,
        session: ShellSession,
        console: Console | None = None,
        errors: Console | None = None,
        *,
        interactive: bool = False,
    ) -> None:
        super().__init__(session, console or Console(highlight=False), COMMANDS, interactive)
        self._errors = errors or Console(stderr=True, highlight=False, soft_wrap=True)
        self._running: asyncio.Task[Any] | None = None

    async def run(self, text: str) -> bool:
        """Execute the commands of one or more lines, until one fails or ends the shell.

        Returns:
            Whether none failed.
        """
        for command in split_commands(text, self.table.raw):
            self.lines.append(command)
            if not await self._run(command):
                return False
            if self.finished:
                break
        return True

    @property
    def running(self) -> bool:
        """Return whether a command is running."""
        return self._running is not None

    def interrupt(self) -> None:
        """Cancel the running command, if any; `run` then returns False."""
        if self._running is not None:
            self._running.cancel()

    async def _run(self, command: str) -> bool:
        try:
            result = await self._interruptible(self._carry_out(command))
            await show(self.console, result, paging=self.interactive)
            return True
        except BrokenPipeError:
            raise  # the reader is gone
        except asyncio.CancelledError:
            self._reraise_if_ending()
            self._errors.print("interrupted", style="yellow")
            self.session.runtime.interrupt()  # nobody waits for what the command started
        except _EXPECTED as error:
            self._tell(error)
            if isinstance(error, ActionEnded) and error.lost:
                self._tell_loss()
        except Exception:
            self._errors.print("error:", "this should not happen; please report it", style="bold red")
            self._errors.print(traceback.format_exc(), markup=False)
        await self._recover()
        return False

    async def _interruptible(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something that `interrupt` can cancel."""
        self._running = task = asyncio.create_task(work)
        try:
            return await task
        finally:
            self._running = None

    async def _carry_out(self, text: str) -> Result:
        name, *rest = text.split(maxsplit=1)
        command = self.table.find(name)
        words = rest if command.raw else split_words(" ".join(rest))
        command.check(words)
        with self.progress.of(command.name):
            return await command.handler(self, words)

    async def _recover(self) -> None:
        """Restore the state from before a failed or interrupted command."""
        try:
            if await self._interruptible(self.session.recover()):
                self._tell_loss()
        except asyncio.CancelledError:
            self._reraise_if_ending()
            self.session.runtime.interrupt()
            self._errors.print("the state is uncertain: `reset`, or `undo`, to go to one that is not", style="yellow")
        except _EXPECTED as error:
            self._tell(error)

    def _reraise_if_ending(self) -> None:
        """Within `except CancelledError`: re-raise it unless only the command was cancelled."""
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise

    def _tell_loss(self) -> None:
        self._errors.print("the state before could not be built again: the history is empty", style="yellow")

    def _tell(self, error: Exception) -> None:
        self._errors.print("error:", style="bold red", end=" ")
        message = str(error)
        if isinstance(error, OSError) and error.strerror:
            message = error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"
        self._errors.print(message or repr(error), markup=False)
        if isinstance(error, ActionEnded | WorkerCrashed):
            after = counted(self.session.position, "action")
            self._errors.print(f"the program is as it was, after {after}", style="dim")
