"""The part of the page on which searches are started, watched, paused and compared."""

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from aiocg.web import view
from aiocg.web.elements import Chart
from aiocg.web.searching import Run
from aiocg.web.sessions import Sessions
from aiocg.web.templates import colored
from aiocg.web.watchable import watchable

__all__ = ["SearchPanel"]

USUAL = 10.0  # seconds of a search


class SearchPanel:
    """Chooses a search, shows how far it is and compares it with others, built where it is made; `show` fills it.

    Args:
        sessions: where the searches run.
        id: of the session.
        do: carries something out, and tells of its failure.
    """

    def __init__(
        self, sessions: Sessions, id: str, do: Callable[[Callable[[], Awaitable[Any]]], Awaitable[None]]
    ) -> None:
        self._sessions = sessions
        self._id = id
        self._do = do
        self._session = sessions.find(id)
        known = watchable(self._session)
        with ui.row().classes("items-center w-full q-gutter-x-sm"):
            self._name = ui.select(list(known), value=next(iter(known), None), label="search").props(
                "dense options-dense"
            )
            self._name.classes("w-32")
            self._seconds = ui.number("seconds", value=USUAL, min=0.1, max=sessions.limits.search_seconds)
            self._seconds.props("dense").classes("w-20")
            self._here = ui.checkbox("from here").props("dense")
            self._here.bind_enabled_from(self._name, "value", lambda name: name in known and known[name].anywhere)
            self._start = ui.button("start", on_click=lambda: do(self._begin)).props("dense no-caps")
            self._pause = ui.button("pause", on_click=lambda: do(self._stop)).props("dense no-caps")
            self._resume = ui.button("go on", on_click=lambda: do(self._go_on)).props("dense no-caps outline")
            self._compare = ui.button("compare", on_click=lambda: do(self._open)).props("dense no-caps flat")
        self._said = ui.label(
            "Its candidates grow the tree; it ends at the best state that it found."
            if known
            else "There are no actions or there is no cost that can be searched here."
        )
        self._said.classes("text-caption").props('role=status data-testid="search"')
        self._chart = Chart("Lowest cost found", "22vh")

    async def _begin(self) -> None:
        seconds, here = float(self._seconds.value or 0), self._here.enabled and bool(self._here.value)
        self._sessions.start_search(self._id, str(self._name.value), seconds, here=here)
        self.show()

    async def _stop(self) -> None:
        await self._sessions.search_of(self._id).pause()

    async def _go_on(self) -> None:
        self._sessions.resume_search(self._id, float(self._seconds.value or 0))
        self.show()

    def show(self) -> None:
        """Show where the searches of the session stand."""
        search = self._sessions.search_of(self._id)
        last = search.last
        self._start.visible, self._pause.visible = not search.running, search.running
        self._resume.visible = search.resumable
        self._compare.visible = sum(run.node is not None for run in search.runs) > 1
        if last is None:
            return
        if last.error:
            self._said.text = last.error
        else:
            best = "…" if last.best is None else view.number(last.best)
            kind = "lowest cost"
            if last.cost != self._session.costs[0]:
                kind, best = "shortest running time", f"{best}s"
            going = "so far" if last.running else "at the end"
            counted = f"{last.evaluations:,} evaluated, {len(self._session.tree):,} nodes"
            verdict = f"; {last.verdict}" if last.verdict else ""
            self._said.text = f"{_from(last)}: {kind} {best} {going}; {counted}{verdict}"
        self._chart.show(self._course(search.runs))

    def _course(self, runs: list[Run]) -> dict[str, Any]:
        """Return a chart of those searches that lower what the last one lowers."""
        last = runs[-1]
        alike = {title(run): run for run in runs if run.cost == last.cost}
        return view.course({name: run.points for name, run in alike.items()}, last.lines, last.cost)

    async def _open(self) -> None:
        """Show two searches beside each other: how they went, and how the programs differ that they found."""
        runs = [run for run in self._sessions.search_of(self._id).runs if run.node is not None]
        names = {run.number: title(run) for run in runs}
        with ui.dialog().props("maximized") as dialog, ui.card().classes("w-full").props('aria-label="Compare"'):
            with ui.row().classes("items-center w-full"):
                one = ui.select(names, value=runs[-2].number, label="one").props("dense options-dense").classes("w-32")
                other = ui.select(names, value=runs[-1].number, label="other").props("dense options-dense")
                other.classes("w-32")
                said = ui.label().classes("text-caption")
                ui.space()
                ui.button("close", on_click=dialog.close).props("flat no-caps")
            chart = Chart("Lowest costs found", "26vh")
            diff = ui.html("", sanitize=False).classes("diff w-full").style("height: calc(74vh - 130px)")
            diff.props('tabindex=0 role=region aria-label="Difference of the best states" data-testid="compared"')

            async def show() -> None:
                two = [run for number in (one.value, other.value) for run in runs if run.number == number]
                chart.show(self._course(two))
                before, after = (run.node or 0 for run in two)
                lines = [] if before == after else await self._session.difference(before, after)
                said.text = "both end at the same state" if before == after else f"node {before} and node {after}"
                if two[0].cost != two[1].cost:
                    said.text += f"; one has lowered {two[0].cost}, the other {two[1].cost}, whose curve this is"
                diff.content = "" if before == after else colored(lines, beside=True)

            one.on_value_change(lambda: self._do(show))
            other.on_value_change(lambda: self._do(show))
            await show()
        dialog.open()


def title(run: Run) -> str:
    """Return what a search is called among others."""
    return f"{run.number} {_from(run)}"


def _from(run: Run) -> str:
    return f"{run.name} from node {run.origin}" if run.origin else run.name
