"""The part of the page with counts: of each function, and of features of the program."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from nicegui import ui

from aiocg.web import view
from aiocg.web.session import ExplorerSession

__all__ = ["CountsPanel"]


class CountsPanel:
    """Shows what there is how often now, and how that differs from before; built where it is made.

    Args:
        session: whose program is counted.
        do: carries something out, and tells of its failure.
        functions: whether to count what is in each function, not features of the program.
    """

    def __init__(
        self,
        session: ExplorerSession,
        do: Callable[[Callable[[], Awaitable[Any]]], Awaitable[None]],
        *,
        functions: bool = False,
    ) -> None:
        self._session = session
        self._do = do
        self._functions = functions
        self._shown = -1, -1  # the present node and the one before, of what is shown
        self._rows: list[dict[str, Any]] = []
        names = ("function", "instructions", "before", "blocks", "before ") if functions else (
            "feature", "now", "last action", "in all",
        )  # fmt: skip
        if not functions:
            self._unchanged = ui.checkbox("unchanged ones, too", on_change=self._list).props("dense")
        columns = [
            {"name": name, "label": name, "field": name, "align": "right" if place else "left", "sortable": True}
            for place, name in enumerate(names)
        ]
        self._table = ui.table(rows=[], columns=columns, row_key=names[0]).classes("tight w-full")
        self._table.props("dense flat hide-pagination :rows-per-page-options=[0] no-data-label='counting …'")

    async def show(self) -> None:
        """Count what is in the present state, if that is not what is shown."""
        await self._do(self._show)

    async def _show(self) -> None:
        session, trail = self._session, self._session.tree.trail
        place = trail[-1], trail[-2] if len(trail) > 1 else 0
        if place == self._shown:
            return
        if self._functions:
            rows = _of_functions(await session.text(0), await session.text(place[0]))
        else:
            rows = _of_features(*[await session.features(one) for one in (0, place[1], place[0])])
        if trail == session.tree.trail:
            self._shown, self._rows = place, rows
            self._list()

    def _list(self) -> None:
        every = self._functions or self._unchanged.value
        rows = [row for row in self._rows if every or row["changed"]]
        if self._shown[0] >= 0:
            empty = "there are no functions" if self._functions else "nothing has changed"
            self._table.props(f"no-data-label='{empty}'")
        self._table.rows = rows


def _of_functions(first: str, text: str) -> list[dict[str, Any]]:
    then, now = view.counts(first), view.counts(text)
    return [
        {
            "function": name,
            "instructions": now.get(name, (0, 0))[0],
            "before": then.get(name, (0, 0))[0],
            "blocks": now.get(name, (0, 0))[1],
            "before ": then.get(name, (0, 0))[1],
        }
        for name in dict.fromkeys([*then, *now])
    ]


def _of_features(
    first: Mapping[str, float], before: Mapping[str, float], now: Mapping[str, float]
) -> list[dict[str, Any]]:
    rows = []
    for name in dict.fromkeys([*first, *before, *now]):
        value, then, came = (one.get(name, 0) for one in (now, before, first))
        rows.append(
            {
                "feature": name,
                "now": view.number(value),
                "last action": view.change(value - then),
                "in all": view.change(value - came),
                "changed": value != then or value != came,
            }
        )
    return rows
