"""Charts of the page."""

from collections.abc import Mapping
from typing import Any

from nicegui import ui

__all__ = ["Chart"]


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
