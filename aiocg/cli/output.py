"""Output of commands: tables and progress on the terminal, or one JSON object."""

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

QUIET, BETWEEN = 1.5, 10.0  # seconds before the first line of progress where there is no terminal, and between lines

console = Console(stderr=False, highlight=False, soft_wrap=False)
errors = Console(stderr=True, highlight=False, soft_wrap=True)


class CommandError(Exception):
    """A command cannot be executed; the message is for the user."""


def print_json(value: dict[str, Any]) -> None:
    """Print a JSON object on one line."""
    print(json.dumps(value), flush=True)


def answer(json: bool, value: dict[str, Any], *told: RenderableType) -> None:
    """Print a command's result: as a JSON object, or as lines of text and tables."""
    if json:
        print_json(value)
    for one in () if json else told:
        print_line(one) if isinstance(one, str) else console.print(one)


def fields(one: object, *names: str) -> dict[str, Any]:
    """Return attributes of something by their names, for JSON."""
    return {name: getattr(one, name) for name in names}


def facts_table(facts: Iterable[tuple[str, str | None]]) -> Table:
    """Return what is known of one thing, each fact with its name before it; those that are empty are left out."""
    grid = Table.grid("", "", padding=(0, 2))
    for name, fact in facts:
        if fact:
            grid.add_row(Text(name, style="bold"), Text(fact, overflow="fold"))
    return grid


def print_line(text: str) -> None:
    """Print text without markup or wrapping, so that it can be copied."""
    console.print(text, markup=False, soft_wrap=True)


def counted(number: int, what: str) -> str:
    """Return a number with its noun: "1 program", "2 programs"."""
    return f"{number} {what}{'' if number == 1 else 's'}"


@contextlib.contextmanager
def working(name: str, stage: str, *, json: bool = False) -> Iterator[Callable[[Text | str], None]]:
    """Show what a command is doing, by a function that takes the next stage, or a whole line.

    A terminal shows it at once and then on one line. Elsewhere, and with --json, it is a line of standard error before
    two seconds have passed, and another every ten.
    """
    started, shown = time.monotonic(), [Text(stage)]

    def line() -> Text:
        if shown[-1].spans:  # a whole line
            return shown[-1]
        seconds = time.monotonic() - started
        return Text(f"{name}  {seconds:.1f} s  {shown[-1].plain}", no_wrap=True, overflow="ellipsis")

    def show(text: Text | str) -> None:
        shown[:] = [text if isinstance(text, Text) else Text(text)]

    if console.is_terminal and not json:
        from rich.live import Live

        with Live(get_renderable=line, console=console, refresh_per_second=8, transient=True):
            yield show
        return
    ended = threading.Event()

    def print_lines() -> None:
        pause = QUIET
        while not ended.wait(pause):
            with contextlib.suppress(OSError, ValueError):  # nobody reads it
                errors.print(line().plain, markup=False)
            pause = BETWEEN

    thread = threading.Thread(target=print_lines, daemon=True)
    thread.start()
    try:
        yield show
    finally:
        ended.set()
        thread.join()


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Sequence[int] = (),
    whole: Sequence[int] = (),
) -> Table:
    """Return a table. Long cells wrap.

    Args:
        right: numbers of right-aligned columns.
        whole: numbers of columns that never wrap.
    """
    result = Table(*columns, title=escape(title), title_justify="left")
    for index, column in enumerate(result.columns):
        column.overflow = "fold"
        column.justify = "right" if index in right else "left"
        column.no_wrap = index in whole
    for row in rows:
        result.add_row(*(cell if isinstance(cell, Text) else escape(str(cell)) for cell in row))
    return result


def check_writable(path: Path | None, *suffixes: str) -> None:
    """Exit with a message if a result file, if any, could not be written; called before the work.

    Args:
        path: of the file.
        suffixes: of names for what it will be; any name will do if there are none.
    """
    if path is None:
        return
    if suffixes and path.suffix and path.suffix.lower() not in suffixes:
        fail(f"cannot write {path}: its name should end in {' or '.join(suffixes)}, which is what it will be")
    if path.is_dir():
        fail(f"cannot write {path}: it is a directory")
    if not path.absolute().parent.is_dir():
        fail(f"cannot write {path}: there is no directory {path.absolute().parent}")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        fail(f"cannot write {path}: permission denied")


def write_file(path: Path, content: bytes) -> None:
    """Write a result file; raise CommandError when that is not possible."""
    try:
        path.expanduser().write_bytes(content)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from error


@contextlib.contextmanager
def reading(place: object) -> Iterator[None]:
    """Exit with a message where a file cannot be read."""
    try:
        yield
    except OSError as error:
        fail(f"cannot read {error.filename or place}: {error.strerror or error}")


def fail(message: str, status: int = 1) -> NoReturn:
    """Print an error, with --json also as the JSON object on the last line of standard output, and exit."""
    errors.print("error:", style="bold red", end=" ")
    errors.print(message, markup=False)
    print_json_error(message)
    sys.exit(status)


def print_json_error(message: str) -> None:
    """Print an error as a JSON object, if the command line asks for JSON."""
    if "--json" in sys.argv:
        with contextlib.suppress(OSError):  # standard output takes nothing; standard error has said it
            print_json({"error": message})


def interrupted(message: str) -> NoReturn:
    """Print what a signal has left, with --json also as the JSON object on the last line, and exit."""
    errors.print(message, markup=False)
    print_json_error(message)
    sys.exit(interrupted_status())


def interrupted_status() -> int:
    """Return the exit status of a command that a signal has ended: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + (_received or [signal.SIGINT])[0]


T = TypeVar("T")

_received: list[int] = []  # signals that have ended the latest `run`
_endings: list[Callable[[], object]] = []  # the last of which the first signal calls


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine.

    Ctrl-C, SIGTERM and SIGHUP cancel it, so that it can clean up, and keep what it has, unless it says otherwise by
    `ended_by`; a second one ends the process.

    Raises:
        KeyboardInterrupt: if it was cancelled by a signal.
    """
    _received.clear()
    with contextlib.closing(main):  # a signal may come before it begins
        import asyncio

        factory: Callable[[], asyncio.AbstractEventLoop] | None = None
        with contextlib.suppress(ImportError):  # Windows has none
            import uvloop

            factory = uvloop.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            loop = runner.get_loop()

            def stop(number: int, _: object) -> None:
                _end_at_second(number)
                for end in _endings[-1:]:
                    loop.call_soon_threadsafe(end)

            async def begin() -> T:
                task = asyncio.current_task()
                assert task is not None
                with ended_by(task.cancel):
                    if _received:
                        raise asyncio.CancelledError
                    return await main

            try:
                with _handled_by(stop):
                    return runner.run(begin())
            except asyncio.CancelledError:
                if not _received:
                    raise
                raise KeyboardInterrupt from None


@contextlib.contextmanager
def ended_by(end: Callable[[], object]) -> Iterator[None]:
    """Have a signal call a function that brings the block to its end, in place of cancelling the task of `run`."""
    _endings.append(end)
    try:
        yield
    finally:
        _endings.remove(end)


def service_status() -> int:
    """Return the exit status of a service, for which SIGTERM is the usual end: 130 for Ctrl-C, 0 otherwise."""
    return interrupted_status() if _received[:1] == [signal.SIGINT] else 0


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Have SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does; a second signal ends the process."""

    def stop(number: int, _: object) -> None:
        _end_at_second(number)
        raise KeyboardInterrupt

    _received.clear()
    with _handled_by(stop):
        yield


def _end_at_second(number: int) -> None:
    """Take note of a signal, and end the process if it is the second one."""
    if _received:
        console.show_cursor()
        os._exit(128 + number)
    _received.append(number)


def was_stopped() -> bool:
    """Return whether a signal has cancelled the task, which goes on from there to keep what it has."""
    import asyncio

    task = asyncio.current_task()
    if _received and task is not None and task.cancelling():
        task.uncancel()
        return True
    return False


@contextlib.contextmanager
def _handled_by(stop: Callable[[int, object], None]) -> Iterator[None]:
    """Handle the signals that end a process, except those that it was started to ignore, as by nohup."""
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    ours = [number for number, handler in before.items() if handler is not None and handler is not signal.SIG_IGN]
    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in ours:
            if signal.getsignal(number) is stop:
                signal.signal(number, before[number])
