"""The part of the page on which -Oz is explained."""

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from aiocg.datasets.errors import DatasetError
from aiocg.errors import AiocgError
from aiocg.web import view
from aiocg.web.changes_panel import ChangesPanel
from aiocg.web.explain import Stage, changes, stages
from aiocg.web.limits import Refusal
from aiocg.web.session import ExplorerSession
from aiocg.web.templates import STAGE_ROW
from aiocg.web.tree import TreeError

__all__ = ["Explanation"]


class Explanation:
    """A table of the passes of -Oz that change the program, built where it is made.

    Args:
        session: whose program is explained.
        do: carries something out, and tells of its failure.
        panel: returns the panel that shows what a pass changed.
    """

    def __init__(
        self,
        session: ExplorerSession,
        do: Callable[[Callable[[], Awaitable[Any]]], Awaitable[None]],
        panel: Callable[[], ChangesPanel],
    ) -> None:
        self._session = session
        self._do = do
        self._panel = panel
        with ui.row().classes("items-center"):
            self._explain_button = ui.button("explain", on_click=self._explain).props("dense no-caps")
            self._explained = ui.label("default<Oz> of the program as it came, pass by pass").classes("text-caption")
        columns = [
            {"name": "number", "label": "", "field": "number", "align": "left"},
            {"name": "label", "label": "pass", "field": "label", "align": "left"},
            {"name": "gain", "label": "gain", "field": "gain", "align": "right"},
            {"name": "cost", "label": "cost", "field": "cost", "align": "right"},
            {"name": "go", "label": "", "field": "number"},
        ]
        self._stages = ui.table(rows=[], columns=columns, row_key="number").classes("tight w-full")
        self._stages.props("dense flat hide-pagination hide-no-data :rows-per-page-options=[0]")
        self._stages.add_slot("body", STAGE_ROW)
        self._stages.on("go", lambda event: self._do(lambda: self._go_to_stage(event.args["action"])))
        self._stages.on("changes", lambda event: self._do(lambda: self._show_changes(event.args)))

    async def _go_to_stage(self, action: str) -> None:
        await self._session.goto(0)
        await self._session.step([action])

    async def _show_changes(self, row: dict[str, Any]) -> None:
        panel = self._panel()
        lines = await changes(self._session, row["before"], row["action"], panel.text)
        panel.show_lines(f"what {row['label']}, pass {row['number']} of -Oz, changed", lines)

    async def _explain(self) -> None:
        self._explain_button.disable()
        rows: list[dict[str, Any]] = []
        count, before = 0, ""
        try:
            async for stage in stages(self._session):
                count = stage.number
                if stage.effect:
                    rows.append(_row(stage, before))
                before = stage.action
                if not stage.number % 8:
                    self._stages.rows = list(rows)
                    self._explained.text = f"{count} passes so far"
            self._stages.rows = rows
            self._explained.text = f"{count} passes, of which {len(rows)} change the program; the others are hidden"
        except (AiocgError, DatasetError, TreeError, Refusal) as error:
            self._explained.text = str(error)
        finally:
            self._explain_button.enable()


def _row(stage: Stage, before: str) -> dict[str, Any]:
    return {
        "before": before,
        "number": stage.number,
        "name": stage.name,
        "label": view.label(stage.name),
        "action": stage.action,
        "gain": view.change(stage.gain) or "0",
        "cost": view.number(stage.cost),
        "color": view.color(stage.gain),
    }
