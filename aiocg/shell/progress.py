"""Shows how far a command is, when it takes long."""

import asyncio
import contextlib
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Display

__all__ = ["PATIENCE", "Progress"]

PATIENCE = 2.0  # seconds without a word


class Progress:
    """The progress of one command at a time: a bar on a terminal, after a while; nothing elsewhere.

    Args:
        console: where the results go, too.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._title = ""
        self._done = 0
        self._started = 0.0
        self._total: int | None = None
        self._display: Display | None = None
        self._timer: asyncio.TimerHandle | None = None

    @contextlib.contextmanager
    def of(self, title: str) -> Iterator[None]:
        """Show the progress of a command for as long as the block lasts."""
        self._title, self._done, self._total, self._started = title, 0, None, time.monotonic()
        if self._console.is_terminal:
            self._timer = asyncio.get_running_loop().call_later(PATIENCE, self._show)
        try:
            yield
        finally:
            self.stop()

    def update(self, done: int, total: int | None = None, title: str | None = None) -> None:
        """Take note of how much is done of how much.

        Args:
            done: number of things done.
            total: how many there are; None when that is not known, or as it was.
            title: what is being done, as it was if None.
        """
        self._done = done
        self._total = total if total is not None else self._total
        self._title = title or self._title
        if self._display is not None:
            task = self._display.task_ids[0]
            self._display.update(
                task, description=self._title, completed=done, total=self._total, counted=self._counted()
            )

    @property
    def shown(self) -> bool:
        """Is there a bar on the terminal now?"""
        return self._display is not None

    def _show(self) -> None:
        self._display = Display(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[counted]}"),
            TimeElapsedColumn(),
            TextColumn("Ctrl-C interrupts", style="dim"),
            console=self._console,
            transient=True,
            get_time=time.monotonic,
        )
        task = self._display.add_task(self._title, completed=self._done, total=self._total, counted=self._counted())
        self._display.tasks[task].start_time = self._started
        self._display.start()

    def _counted(self) -> str:
        return "" if self._total is None else f"{self._done}/{self._total}"

    def stop(self) -> None:
        """Show no bar any more, say because something else needs the terminal."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._display is not None:
            self._display.stop()
            self._display = None
