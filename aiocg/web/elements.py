"""Elements of the page: charts, and lists of buttons, of which there may be hundreds (actions, nodes of the tree)."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from nicegui import ui

__all__ = ["Chart", "Rows"]


class Chart:
    """A chart, which the browser loads when there is something to show; built where it is made.

    Args:
        name: for screen readers.
        height: as CSS has it.
    """

    def __init__(self, name: str, height: str) -> None:
        self._name = name
        self._place = ui.element("div").classes("w-full").style(f"height: {height}")
        self._chart: ui.echart | None = None

    def show(self, options: Mapping[str, Any]) -> None:
        """Show what options of ECharts say."""
        if self._chart is None:
            with self._place:
                self._chart = ui.echart(dict(options)).style("width: 100%; height: 100%")
            self._chart.props(f'role=img aria-label="{self._name}"')
            return
        self._chart.options.clear()
        self._chart.options.update(options)
        self._chart.update()


class Rows(ui.element, component="rows.js"):
    """A list of buttons, between which arrow keys move.

    Args:
        kind: what they are; a button has its id as the attribute `data-` and this.
        name: for screen readers.
        choose: is told the id of a button that was pressed.
    """

    def __init__(self, kind: str, name: str, choose: Callable[[str], Any]) -> None:
        super().__init__()
        self._props |= {"kind": kind, "rows": "[]", "aria-label": name}
        self.on("choose", lambda event: choose(str(event.args)))

    def show(self, rows: list[dict[str, Any]]) -> None:
        """Show what `view.row` has made, unless that is what is shown."""
        text = msgspec.json.encode(rows).decode()  # as NiceGUI would wrap each part of a list, and look into it
        if text != self._props["rows"]:
            self._props["rows"] = text
            self.update()
