"""Carries out lines: finds the command, runs its handler, shows what it returns, and tells what went wrong."""

import asyncio
import traceback
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console

from aiocg.datasets.errors import DatasetError
from aiocg.errors import AiocgError, WorkerCrashed
from aiocg.shell.command import CommandTable
from aiocg.shell.commands import COMMANDS
from aiocg.shell.line import split_commands, split_words
from aiocg.shell.output import show
from aiocg.shell.progress import Progress
from aiocg.shell.rendering import actions
from aiocg.shell.session import ActionEnded, ShellSession

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Shell"]

T = TypeVar("T")

_EXPECTED = (AiocgError, DatasetError, OSError, ValueError)  # what the user can do something about


class Shell:
    """A session, the commands for it, and where they print.

    Attributes:
        session: what the commands act on.
        console: where their results go.
        table: the commands.
        progress: that of the command being carried out.
        interactive: there is somebody to ask.
        finished: somebody has said `exit`.
        lines: what was carried out, first to last.
    """

    def __init__(
        self,
        session: ShellSession,
        console: Console | None = None,
        errors: Console | None = None,
        *,
        table: CommandTable = COMMANDS,
        interactive: bool = False,
    ) -> None:
        self.session = session
        self.console = console or Console(highlight=False)
        self.table = table
        self.interactive = interactive
        self.progress = Progress(self.console)
        self.finished = False
        self.lines: list[str] = []
        self._errors = errors or Console(stderr=True, highlight=False, soft_wrap=True)
        self._running: asyncio.Task[Any] | None = None

    async def run(self, text: str) -> bool:
        """Carry out the commands of a line, or of several, until one fails or says that it is the end.

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
        """Is a command being carried out?"""
        return self._running is not None

    def interrupt(self) -> None:
        """Give up the command that is being carried out, if there is one; `run` then returns False."""
        if self._running is not None:
            self._running.cancel()

    async def _run(self, command: str) -> bool:
        try:
            result = await self._interruptible(self._carry_out(command))
            await show(self.console, result, paging=self.interactive)
        except BrokenPipeError:
            raise  # nobody reads any more
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise  # it is the shell that ends
            return await self._give_up()
        except _EXPECTED as error:
            self._tell(error)
            if isinstance(error, ActionEnded) and error.lost:
                self._tell_loss()
        except Exception:
            self._errors.print("error:", "this should not happen; please report it", style="bold red")
            self._errors.print(traceback.format_exc(), markup=False)
        else:
            return True
        await self._recover()
        return False

    async def _interruptible(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something that `interrupt` can cancel."""
        self._running = task = asyncio.create_task(work)
        try:
            return await task
        finally:
            self._running = None

    async def _carry_out(self, text: str) -> "RenderableType | None":
        name, *rest = text.split(maxsplit=1)
        command = self.table.find(name)
        words = rest if command.raw else split_words(" ".join(rest))
        command.check(words)
        with self.progress.of(command.name):
            return await command.handler(self, words)

    async def _give_up(self) -> bool:
        """Leave to nobody what an interrupted command has started, and go back to the state before it."""
        self._errors.print("interrupted", style="yellow")
        self.session.runtime.interrupt()
        await self._recover()
        return False

    async def _recover(self) -> None:
        try:
            lost = await self._interruptible(self.session.recover())
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            self.session.runtime.interrupt()
            self._errors.print("the state is uncertain: `reset`, or `undo`, to go to one that is not", style="yellow")
        except _EXPECTED as error:
            self._tell(error)
        else:
            if lost:
                self._tell_loss()

    def _tell_loss(self) -> None:
        self._errors.print("the state before could not be built again: the history is empty", style="yellow")

    def _tell(self, error: Exception) -> None:
        self._errors.print("error:", style="bold red", end=" ")
        message = str(error)
        if isinstance(error, OSError) and error.strerror:
            message = error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"
        self._errors.print(message or repr(error), markup=False)
        if isinstance(error, ActionEnded | WorkerCrashed):
            self._errors.print(f"the program is as it was, after {actions(self.session.position)}", style="dim")
