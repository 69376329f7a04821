"""Progress of slow commands."""

import asyncio
import contextlib
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

PATIENCE = 2.0  # seconds before it is shown


class Progress:
    """The progress of one command at a time: a delayed bar on a terminal, nothing elsewhere.

    Args:
        console: the one of results.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar: Bar | None = None

    @contextlib.contextmanager
    def of(self, title: str) -> Iterator[None]:
        """Show the progress of a command during the block."""
        if not self._console.is_terminal:
            yield
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn())
        counted, hint = TextColumn("{task.fields[counted]}"), TextColumn("Ctrl-C interrupts", style="dim")
        self._bar = bar = Bar(
            *columns, counted, TimeElapsedColumn(), hint, console=self._console, transient=True, get_time=time.monotonic
        )
        bar.add_task(title, total=None, counted="")
        timer = asyncio.get_running_loop().call_later(PATIENCE, self._show)
        try:
            yield
        finally:
            timer.cancel()
            self.stop()

    def update(self, done: int, total: int, title: str | None = None) -> None:
        """Record the numbers of finished and of all things, and optionally what is being done."""
        if self._bar is not None:
            task = self._bar.task_ids[0]
            self._bar.update(task, description=title, completed=done, total=total, counted=f"{done}/{total}")

    @property
    def shown(self) -> bool:
        """Return whether a bar is shown."""
        return self._bar is not None and self._bar.live.is_started

    def _show(self) -> None:
        if self._bar is not None:
            self._bar.start()

    def stop(self) -> None:
        """Remove the bar, for example because something else needs the terminal."""
        if self._bar is not None and self._bar.live.is_started:
            self._bar.stop()
        self._bar = None
