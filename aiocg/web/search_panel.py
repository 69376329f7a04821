"""The part of the page on which a search is started, watched and stopped."""

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from aiocg.web import view
from aiocg.web.searching import SEARCHES
from aiocg.web.session import Event
from aiocg.web.sessions import Sessions

__all__ = ["SearchPanel"]

USUAL = 10.0  # seconds of a search


class SearchPanel:
    """Chooses a search, and shows how far it is, built where it is made.

    Args:
        sessions: where the search runs.
        id: of the session.
        do: carries something out, and tells of its failure.
    """

    def __init__(
        self, sessions: Sessions, id: str, do: Callable[[Callable[[], Awaitable[Any]]], Awaitable[None]]
    ) -> None:
        self._sessions = sessions
        self._id = id
        self._do = do
        self._course: list[tuple[int, float]] = []
        self._lines = sessions.find(id).lines
        with ui.row().classes("items-center no-wrap"):
            self._name = ui.select(list(SEARCHES), value="greedy", label="search").props("dense options-dense")
            self._name.classes("w-32")
            self._seconds = ui.number("seconds", value=USUAL, min=0.1, max=sessions.limits.search_seconds)
            self._seconds.props("dense").classes("w-20")
            self._button = ui.button("start", on_click=self._press).props("dense no-caps")
        self._said = ui.label("It begins at the program as it came. Its candidates grow the tree.")
        self._said.classes("text-caption").props('role=status data-testid="search"')
        self._chart = ui.echart(view.course([], self._lines)).classes("w-full").style("height: 22vh")
        self._chart.props('role=img aria-label="Lowest cost found"')

    async def _press(self) -> None:
        await self._do(self._stop if self._sessions.search_of(self._id).running else self._start)

    async def _start(self) -> None:
        self._sessions.start_search(self._id, str(self._name.value), float(self._seconds.value or 0))
        self._course.clear()
        self._button.text = "stop"

    async def _stop(self) -> None:
        await self._sessions.search_of(self._id).stop()

    def show(self, event: Event) -> None:
        """Show what an event says of the search."""
        if self._course and event["evaluations"] < self._course[-1][0]:
            self._course.clear()  # another search, which another tab has started
        self._course.append((event["evaluations"], event["best"]))
        self._button.text = "stop" if event["running"] else "start"
        if event["error"]:
            self._said.text = event["error"]
        else:
            best, going = view.number(event["best"]), "so far" if event["running"] else "at the end"
            counted = f"{event['evaluations']:,} evaluated, {event['nodes']:,} nodes"
            self._said.text = f"{event['name']}: lowest cost {best} {going}; {counted}"
        self._chart.options.clear()
        self._chart.options.update(view.course(self._course, self._lines))
        self._chart.update()
