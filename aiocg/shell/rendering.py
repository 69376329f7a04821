"""How values and lists look: tables for people."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from aiocg.shell.output import Paged, Source
from aiocg.shell.session import Entry
from aiocg.spaces import ObservationSpace

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["actions", "entry_line", "number", "observation", "stack_table", "summary", "table"]

SHORT = 200  # characters of an observation that is shown after each action
LONGEST = 300  # characters that are shown of an action


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[int] = ()) -> Table:
    """Return a table of values.

    Args:
        title: above it.
        columns: their headings.
        rows: the cells; they are shown as they are, without markup.
        right: numbers of the columns that are aligned to the right.
    """
    result = Table(*columns, title=escape(title), title_justify="left")
    for column in result.columns:
        column.overflow = "fold"  # what does not fit goes on below; nothing is cut off
    for index in right:
        result.columns[index].justify = "right"
    for row in rows:
        result.add_row(*(cell if isinstance(cell, Text) else escape(str(cell)) for cell in row))
    return result


def number(value: float | None) -> str:
    """Return a reward as text, or a dash."""
    return "-" if value is None else f"{value:.4f}"


def actions(count: int) -> str:
    """Return how many actions there are: "1 action", "2 actions"."""
    return f"{count} action{'' if count == 1 else 's'}"


def _reward(value: float | None) -> Text:
    style = "" if not value else "green" if value > 0 else "red"
    return Text(number(value), style=style)


def entry_line(entry: Entry, space: ObservationSpace | None) -> Text:
    """Return one line about what an action did.

    Args:
        entry: what it led to.
        space: of the observation, None if there is none.
    """
    line = Text(_shortened(entry.action), style="bold")
    if entry.reward is not None:
        line.append("  reward ", style="not bold").append_text(_reward(entry.reward))
        line.append(f"  in all {number(entry.total)}", style="not bold")
    if entry.had_no_effect:
        line.append("  no effect", style="not bold dim")
    if space is not None:
        line.append(f"\n{space.name}: {summary(space, entry.observation)}", style="not bold")
    return line


def _shortened(action: str) -> str:
    """Return an action without the end of it, if it is a command line of hundreds of options."""
    return action if len(action) <= LONGEST else f"{action[:LONGEST]}… ({len(action):,} characters)"


def stack_table(entries: Sequence[Entry], position: int) -> Table:
    """Return the table of a history, the latest state first."""
    rows = []
    for index in range(len(entries) - 1, -1, -1):
        entry = entries[index]
        here = ">" if index == position else ""
        effect = "" if not index else "no effect" if entry.had_no_effect else "changed"
        style = "dim" if index > position else ""
        name = Text(_shortened(entry.action) or "(as it came)", style=style)
        rows.append([Text(str(index), style=style), here, name, effect, _reward(entry.reward), _reward(entry.total)])
    return table("Actions", ("", "", "action", "program", "reward", "in all"), rows, right=(0, 4, 5))


def summary(space: ObservationSpace, value: Any) -> str:
    """Return an observation on one line, or how large it is."""
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    text = np.array2string(value, threshold=80, max_line_width=10**6) if isinstance(value, np.ndarray) else str(value)
    if len(text) <= SHORT or isinstance(value, np.ndarray):
        return " ".join(text.split())
    return f"{len(text):,} characters: `observation {space.name}` shows them"


def observation(space: ObservationSpace, value: Any) -> "RenderableType":
    """Return a whole observation."""
    if isinstance(value, str):
        return Source(value, "llvm" if space.name == "Ir" else "")
    if isinstance(value, bytes):
        return Text(f"{len(value):,} bytes, which `write FILE` can save where they are the program")
    if isinstance(value, np.ndarray) and space.keys and value.shape == (len(space.keys),):
        return Paged(_pairs(space.name, dict(zip(space.keys, value.tolist(), strict=True))))
    if isinstance(value, Mapping) and not any(isinstance(one, (Mapping, list, np.ndarray)) for one in value.values()):
        return Paged(_pairs(space.name, value))
    if isinstance(value, np.ndarray):
        return Source(np.array2string(value, threshold=10_000, max_line_width=100))
    if isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
        return Source("\n".join(value))
    if isinstance(value, (Mapping, list)):
        return Source(json.dumps(value, indent=2, default=_plain), "json")
    return Text(str(value))


def _pairs(title: str, values: Mapping[str, Any]) -> Table:
    return table(title, ("", "value"), [(name, value) for name, value in values.items()], right=(1,))


def _plain(value: Any) -> Any:
    """Return what JSON can say of a value that it does not know."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else repr(value)
