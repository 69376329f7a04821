"""Progress bars on a terminal."""

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console

PATIENCE = 2.0  # seconds without a word

Advance = Callable[[float], None]
"""Called with how much more has been done, in the unit of the total; from any thread."""


@contextlib.contextmanager
def progress(
    title: str, total: float | None = None, *, unit: Literal["bytes", "programs", ""] = ""
) -> Iterator[Advance]:
    """Show a progress bar on standard error, if that is a terminal, after two seconds.

    Args:
        title: what is being done, such as "Downloading cbench-v1".
        total: amount of work; None if unknown.
        unit: of the amount; "" for none.
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
    """Return the shared console of standard error, which stacks nested bars."""
    from rich.console import Console  # here, because most programs do nothing long

    return Console(stderr=True)
