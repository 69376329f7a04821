"""Showing on a terminal how far a long piece of work is."""

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Advance", "progress"]

PATIENCE = 2.0  # seconds without a word

Advance = Callable[[float], None]
"""Called with how much more has been done, in the unit of the total; from any thread."""


@contextlib.contextmanager
def progress(
    title: str, total: float | None = None, *, unit: Literal["bytes", "programs", ""] = ""
) -> Iterator[Advance]:
    """Show a bar on standard error, if that is a terminal, once the work has been going on for two seconds.

    Args:
        title: what is being done, such as "Downloading cbench-v1".
        total: how much there is to do; None if that is not known.
        unit: what is counted; "" for work that has no parts.
    """
    console = _console()
    if not console.is_terminal:
        yield lambda amount: None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns: dict[str, list[ProgressColumn]] = {
        "bytes": [BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()],
        "programs": [BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()],
        "": [],
    }
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        *columns[unit],
        console=console,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # what is meant for a file or a pipe must not go to the terminal instead
    )
    task = bar.add_task(title, total=total)
    timer = threading.Timer(PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda amount: bar.advance(task, amount)
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


@functools.cache
def _console() -> "Console":
    """Return the one console for standard error: bars within bars on it are shown below each other."""
    from rich.console import Console  # here, because most programs do nothing long

    return Console(stderr=True)
