"""Rendering and printing results."""

import asyncio
import contextlib
import json
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console, RenderableType
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from aiocg.cli.output import table
from aiocg.cli.shell.session import Entry
from aiocg.spaces import ObservationSpace

HIGHLIGHTED = 300_000  # characters: highlighting longer text takes seconds


@dataclass(frozen=True, slots=True)
class Source:
    """Text that is printed unchanged; on a terminal with syntax highlighting for its language, if any."""

    text: str
    language: str = ""

    def __rich__(self) -> RenderableType:
        if not self.language or len(self.text) > HIGHLIGHTED:
            return Text(self.text)
        text = Syntax(self.text, self.language, background_color="default", theme="ansi_dark").highlight(self.text)
        text.rstrip()  # highlighting always adds a line end
        return text


async def show(console: Console, result: RenderableType | None, *, paging: bool = False) -> None:
    """Print a command's result, if not None; if `paging`, long ones through a pager."""
    if result is None:
        return
    if isinstance(result, Source) and not console.is_terminal:
        text = result.text if result.text.endswith("\n") else f"{result.text}\n"
    else:
        with console.capture() as capture:
            console.print(result, soft_wrap=isinstance(result, Source | Text))
        text = capture.get()
        if paging and console.is_terminal and text.count("\n") >= console.height - 1 and await _page(text):
            return
    console.file.write(text)
    console.file.flush()


async def _page(text: str) -> bool:
    """Show text in the user's pager; return False if there is none."""
    command = shlex.split(os.environ.get("AIOCG_PAGER") or os.environ.get("PAGER") or "less")
    if not command or shutil.which(command[0]) is None:
        return False
    environment = {"LESS": "FRX", **os.environ}  # as git: colours, and no paging of short text
    pager = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE, env=environment)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the pager was left early
        await pager.communicate(text.encode())
    await pager.wait()
    return True


SHORT = 200  # characters of an observation shown after each action
LONGEST = 300  # characters of an action that are shown


def number(value: float | None) -> str:
    """Return a reward as text, or a dash."""
    return "-" if value is None else f"{value:.4f}"


def reward(value: float | None) -> Text:
    """Return a reward in the colour of its sign."""
    return Text(number(value), style="" if not value else "green" if value > 0 else "red")


def entry_line(entry: Entry, space: ObservationSpace | None) -> Text:
    """Return a line about the result of an action, and one with the observation unless the space is None."""
    line = Text(_shortened(entry.action), style="bold")
    if entry.reward is not None:
        line.append("  reward ", style="not bold").append_text(reward(entry.reward))
        line.append(f"  in all {number(entry.total)}", style="not bold")
    if entry.had_no_effect:
        line.append("  no effect", style="not bold dim")
    if space is not None:
        line.append(f"\n{space.name}: {summary(space, entry.observation)}", style="not bold")
    return line


def _shortened(action: str) -> str:
    """Shorten an action that is a long command line."""
    return action if len(action) <= LONGEST else f"{action[:LONGEST]}… ({len(action):,} characters)"


def stack_table(entries: Sequence[Entry], position: int) -> Table:
    """Return the table of a history, the latest state first."""
    rows = []
    for index, entry in reversed(list(enumerate(entries))):
        effect = "" if not index else "no effect" if entry.had_no_effect else "changed"
        style = "dim" if index > position else ""
        name = Text(_shortened(entry.action) or "(as it came)", style=style)
        here = ">" if index == position else ""
        rows.append([Text(str(index), style=style), here, name, effect, reward(entry.reward), reward(entry.total)])
    return table("Actions", ("", "", "action", "program", "reward", "in all"), rows, right=(0, 4, 5))


def summary(space: ObservationSpace, value: Any) -> str:
    """Return an observation on one line, or its size."""
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    text = np.array2string(value, threshold=80, max_line_width=10**6) if isinstance(value, np.ndarray) else str(value)
    if len(text) <= SHORT or isinstance(value, np.ndarray):
        return " ".join(text.split())
    return f"{len(text):,} characters: `observation {space.name}` shows them"


def observation(space: ObservationSpace, value: Any) -> RenderableType:
    """Return a whole observation."""
    if isinstance(value, str):
        return Source(value, "llvm" if space.name == "Ir" else "")
    if isinstance(value, bytes):
        return Text(f"{len(value):,} bytes, which `write FILE` can save where they are the program")
    if isinstance(value, np.ndarray) and space.keys and value.shape == (len(space.keys),):
        value = dict(zip(space.keys, value.tolist(), strict=True))
    if isinstance(value, Mapping) and not any(isinstance(one, Mapping | list | np.ndarray) for one in value.values()):
        return table(space.name, ("", "value"), list(value.items()), right=(1,))
    if isinstance(value, np.ndarray):
        return Source(np.array2string(value, threshold=10_000, max_line_width=100))
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return Source("\n".join(value))
    if isinstance(value, Mapping | list):
        return Source(json.dumps(value, indent=2, default=_plain), "json")
    return Text(str(value))


def _plain(value: Any) -> Any:
    """Convert a value for JSON."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else repr(value)
