"""Tables as text."""

import csv
import importlib
import io
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["tabulate"]

_SEPARATORS = {"csv": ",", "tsv": "\t"}


def tabulate(rows: Iterable[Iterable[Any]], headers: Iterable[str], tablefmt: str | None = "grid") -> str:
    """Return a table.

    Args:
        rows: its cells.
        headers: of its columns.
        tablefmt: "grid", "csv" or "tsv"; any other format of the package `tabulate` if that is installed.

    Raises:
        ImportError: when that package is needed and is not there.
    """
    if tablefmt in _SEPARATORS:
        buffer = io.StringIO()
        writer = csv.writer(buffer, delimiter=_SEPARATORS[tablefmt or ""])
        writer.writerow([str(header) for header in headers])
        writer.writerows([str(cell) for cell in row] for row in rows)
        return buffer.getvalue()
    try:
        library = importlib.import_module("tabulate")
    except ImportError:
        if tablefmt != "grid":
            raise ImportError(f"tables of the format {tablefmt!r} need the package tabulate: install it") from None
        return _grid([list(row) for row in rows], [str(header) for header in headers])
    table: str = library.tabulate(rows, headers=headers, tablefmt=tablefmt)
    return table


def _grid(rows: list[list[Any]], headers: list[str]) -> str:
    """Draw a grid as that package does: columns of numbers go to the right."""
    columns = max([len(headers), *map(len, rows)]) if rows else len(headers)
    numeric = [
        bool(rows)
        and all(isinstance(row[i], (int, float)) and not isinstance(row[i], bool) for row in rows if i < len(row))
        for i in range(columns)
    ]
    texts = [[_cell(row[i]) if i < len(row) else "" for i in range(columns)] for row in rows]
    titles = headers + [""] * (columns - len(headers))
    widths = [max(len(line) for row in [titles, *texts] for line in row[i].split("\n")) for i in range(columns)]

    def rule(character: str) -> str:
        return "+" + "+".join(character * (width + 2) for width in widths) + "+"

    def line(cells: Sequence[str]) -> list[str]:
        split = [cell.split("\n") for cell in cells]
        height = max((len(part) for part in split), default=0)
        return [
            "|"
            + "|".join(
                f" {(part[at] if at < len(part) else ''):{'>' if right else '<'}{width}} "
                for part, width, right in zip(split, widths, numeric, strict=True)
            )
            + "|"
            for at in range(height)
        ]

    drawn = [rule("-"), *line(titles), rule("=")]
    for row in texts:
        drawn += [*line(row), rule("-")]
    return "\n".join(drawn if texts else [rule("-"), *line(titles), rule("-")])


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
