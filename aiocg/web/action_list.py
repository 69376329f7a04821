"""The part of the page with all actions and what each would gain."""

import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from nicegui import background_tasks, ui

from aiocg.web import view
from aiocg.web.gain import Gain
from aiocg.web.session import ExplorerSession
from aiocg.web.templates import ACTION_ROW

__all__ = ["ActionList"]

PATIENCE = 1.5  # seconds after which the gains are shown that are known
UNKNOWN = {"gain": "…", "said": "not tried yet"}  # of an action that was not tried yet


class ActionList:
    """A list of actions, the best first, of which a click applies one; built where it is made.

    Args:
        session: whose actions are listed.
        do: carries something out, and tells of its failure.
    """

    def __init__(
        self, session: ExplorerSession, do: Callable[[Callable[[], Awaitable[Any]]], Coroutine[Any, Any, None]]
    ) -> None:
        self._session = session
        self._do = do
        self._round = 0  # of what is shown; what belongs to an older one is not shown any more
        self._rows: list[dict[str, Any]] = []
        with ui.row().classes("items-center no-wrap w-full"):
            self._filter = ui.input(placeholder="filter (/)", on_change=self._list).props(
                'dense clearable aria-label="Filter actions" data-testid="filter"'
            ).classes("col")  # fmt: skip
            self._noops = ui.checkbox("no-ops", on_change=self._list).props("dense")
        self._busy = ui.linear_progress(show_value=False).props('indeterminate size=2px aria-label="computing gains"')
        columns = [
            {"name": "action", "label": "action", "field": "action", "align": "left"},
            {"name": "gain", "label": "gain", "field": "gain", "align": "right"},
        ]
        self._actions = ui.table(rows=[], columns=columns, row_key="action").classes("tight actions w-full")
        self._actions.props("dense flat hide-pagination :rows-per-page-options=[0]")
        self._actions.style("height: calc(100vh - 130px)")
        self._actions.add_slot("body", ACTION_ROW)
        self._actions.on("apply", lambda event: do(lambda: session.step([event.args["action"]])))

    def focus(self) -> None:
        """Let the user type what the actions are filtered by."""
        self._filter.run_method("focus")

    def show(self) -> None:
        """Show the gains of the present state when they are known; those of a slow compiler as they come."""
        self._round += 1
        self._busy.visible = True
        background_tasks.create(self._do(self._show), name="gains of actions")

    async def _show(self) -> None:
        round, told = self._round, time.monotonic()
        texts: Sequence[str] = ()

        def wanted(known: Sequence[Gain]) -> bool:
            nonlocal told
            if round == self._round and time.monotonic() - told > PATIENCE:
                told = time.monotonic()
                self._fill(known, texts)
            return round == self._round

        known: Sequence[Gain] = ()
        try:
            texts = await self._session.possible()
            known = await self._session.expand(wanted=wanted, order=lambda text: not self._fits(text))
        finally:
            if round == self._round:
                self._fill(known, texts)
                self._busy.visible = False

    def _fill(self, known: Sequence[Gain], texts: Sequence[str]) -> None:
        """Show gains, the best first, and behind them the actions that were not tried yet."""
        tried = {gain.action for gain in known}
        self._rows = list(map(_row, sorted(known, key=Gain.rank)))
        self._rows += [_row(Gain(text, {}, 0.0, 0, True)) | UNKNOWN for text in texts if text not in tried]
        self._list()

    def _fits(self, action: str) -> bool:
        return (self._filter.value or "").lower() in action.lower()

    def _list(self) -> None:
        self._actions.rows = [
            row for row in self._rows if self._fits(row["action"]) and (row["shown"] or self._noops.value)
        ]


def _row(gain: Gain) -> dict[str, Any]:
    """Return what is shown of an action."""
    return {
        "action": gain.action,
        "label": view.label(gain.action),
        "gain": "fails" if gain.error else view.change(gain.gain) or ("0" if gain.effect else "no-op"),
        "said": "fails" if gain.error else f"gain {view.number(gain.gain)}" if gain.effect else "no effect",
        "color": "text-positive" if gain.gain > 0 else "text-negative" if gain.gain < 0 or gain.error else "",
        "shown": gain.effect,
    }
