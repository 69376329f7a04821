"""The list of actions and their gains."""

import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from nicegui import background_tasks, ui

from aiocg.web import view
from aiocg.web.elements import Rows
from aiocg.web.gain import Gain
from aiocg.web.session import ExplorerSession

__all__ = ["ActionList"]

PATIENCE = 1.5  # seconds after which the gains are shown that are known


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
        self._rows: list[tuple[dict[str, Any], bool]] = []
        with ui.row().classes("items-center no-wrap w-full"):
            self._filter = ui.input(placeholder="filter (/)", on_change=self._list).props(
                'dense clearable aria-label="Filter actions" data-testid="filter"'
            ).classes("col")  # fmt: skip
            self._noops = ui.checkbox("no-ops", on_change=self._list).props("dense")
        self._busy = ui.linear_progress(show_value=False).props('indeterminate size=2px aria-label="computing gains"')
        self._actions = Rows("action", "Actions", lambda action: do(lambda: session.step([action])))

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
        names = view.labels([*texts, *tried])
        self._rows = [_row(gain, names[gain.action]) for gain in sorted(known, key=Gain.rank)]
        untried = (Gain(text, {}, 0.0, 0, True) for text in texts if text not in tried)
        self._rows += [_row(gain, names[gain.action], tried=False) for gain in untried]
        self._list()

    def _fits(self, action: str) -> bool:
        return (self._filter.value or "").lower() in action.lower()

    def _list(self) -> None:
        every = self._noops.value
        self._actions.show([row for row, shown in self._rows if self._fits(row["id"]) and (shown or every)])


def _row(gain: Gain, name: str, tried: bool = True) -> tuple[dict[str, Any], bool]:
    """Return what is shown of an action, and whether it would do anything."""
    if not tried:
        earned, said = "…", "not tried yet"
    elif gain.error:
        earned = said = "fails"
    else:
        earned = view.change(gain.gain) or ("0" if gain.effect else "no-op")
        said = f"gain {view.number(gain.gain)}" if gain.effect else "no effect"
    return view.row(
        gain.action,
        name,
        (earned, "loss" if gain.error else view.color(gain.gain)),
        title=gain.action,
        said=f"apply {gain.action}, {said}",
    ), gain.effect
