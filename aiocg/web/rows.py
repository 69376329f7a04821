"""Lists of buttons, of which there may be hundreds on the page: actions, and the nodes of the tree."""

from collections.abc import Callable
from typing import Any

import msgspec
from nicegui import ui

__all__ = ["Rows"]


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
