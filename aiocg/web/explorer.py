"""The page: what compilers do, to be looked at and taken over by hand.

Everything that a browser loads comes from here. The page of a tab has a session, whose id is in its address; so it
outlasts a reload, and two tabs can have the same one.
"""

import asyncio
import contextlib
import html
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import DatasetError
from aiocg.errors import AiocgError, WorkerCrashed, WorkerFailure
from aiocg.web import view
from aiocg.web.api import create_app
from aiocg.web.events import Event
from aiocg.web.limits import Refusal
from aiocg.web.saved import Opening
from aiocg.web.session import ExplorerSession
from aiocg.web.sessions import Sessions
from aiocg.web.templates import STYLE, TREE_NODE, colored
from aiocg.web.tree import TreeError

try:
    from nicegui import background_tasks, events, ui
except ImportError:
    raise AiocgError("the Explorer needs NiceGUI: pip install 'aiocg[web]'") from None

from fastapi import FastAPI

from aiocg.web.action_list import ActionList
from aiocg.web.dialogs import Dialogs
from aiocg.web.explanation import Explanation
from aiocg.web.picture_panel import PICTURES, PicturePanel, picture_of
from aiocg.web.search_panel import SearchPanel

__all__ = ["create_explorer"]

FRAME = 0.25  # seconds between two looks at a search
_SHOW_PRESENT = "setTimeout(() => document.querySelector('[aria-current]')?.scrollIntoView({block: 'nearest'}), 50)"
_WRONG = (AiocgError, DatasetError, TreeError, Refusal)


def create_explorer(program: Benchmark | str | Opening, environment: str = "llvm-ic-v0", **options: Any) -> FastAPI:
    """Make the application: the API, and the page at `/`. There can be one in a process.

    Args:
        program: what a page begins with, a program or something that was saved; it may be a file of this machine.
        environment: of a program.
        options: of `create_app`.
    """
    opening = program if isinstance(program, Opening) else Opening(environment, program)
    app = create_app(**options)
    inner = app.router.lifespan_context

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        async with inner(app) as state:
            sessions: Sessions = app.state.sessions
            with contextlib.suppress(*_WRONG):  # the first page tells what is wrong; else, workers are up for it
                await sessions.close(await sessions.open_saved(opening))
            yield state

    app.router.lifespan_context = lifespan

    @ui.page("/", title="aiocg explorer")
    async def page(session: str = "", fork: str = "") -> None:
        sessions: Sessions = app.state.sessions
        new = bool(fork) or session not in sessions
        try:
            if new:
                session = await (sessions.fork(fork) if fork else sessions.open_saved(opening))
        except _WRONG as error:
            ui.label(str(error)).classes("text-negative").style("white-space: pre-wrap")
            return
        if new:
            ui.add_body_html(f"<script>history.replaceState(null, '', '/?session={session}')</script>")
        Page(sessions, session).build()

    ui.run_with(app, title="aiocg explorer", dark=None, favicon="🌳", show_welcome_message=False)
    return app


class Page:
    """The page of one tab."""

    def __init__(self, sessions: Sessions, id: str) -> None:
        self._sessions = sessions
        self._id = id
        self._session: ExplorerSession = sessions.find(id)
        self._whole: set[int] = set()
        self._round = 0  # of what is shown; what belongs to an older one is not shown any more
        self._functions: ui.table | None = None  # which there is for LLVM
        self._lines: list[str] | None = None  # of the difference that is shown
        self._dark = ui.dark_mode(value=None)
        self._dialogs = Dialogs(sessions, self._session, self._do, self._tell)

    # -------------------------------------------------------------------------------------------------- layout

    def build(self) -> None:
        """Lay the page out, and show the session from now on."""
        ui.add_css(STYLE)
        ui.colors(primary="#0d9488")
        with ui.header().classes("items-center no-wrap q-py-xs q-px-md q-gutter-x-sm").props("role=banner"):
            ui.label("aiocg explorer").classes("text-subtitle1 text-weight-bold").style("white-space: nowrap")
            self._title = ui.label().classes("ellipsis")
            ui.space()
            self._levels = ui.label().classes("gain ellipsis levels").style("opacity: .85")
            self._cost = ui.label().classes("gain text-weight-bold").style("white-space: nowrap")
            self._cost.props('role=status aria-live=polite data-testid="cost"')
            self._button("undo", "Undo (u)", self._undo)
            self._button("call_split", "Fork into a new tab (f)", self._fork)
            self._button("folder_open", "Choose a program (o)", self._dialogs.choose)
            self._button("content_copy", "Copy as a command or as Python (c)", self._dialogs.copy)
            self._button("dark_mode", "Light or dark (d)", self._toggle)
        with ui.element("main").classes("columns w-full"):
            with ui.element("section").props('aria-label="Actions"'):
                self._actions = ActionList(self._session, self._do)
            with ui.element("section").props('aria-label="States"').classes("states"):
                self._build_states()
        ui.keyboard(on_key=self._key, ignore=["input", "select", "textarea"])
        self._update()
        background_tasks.create(self._follow(ui.context.client), name="events of a session")

    def _button(self, icon: str, name: str, do: Callable[[], Any]) -> None:
        with ui.button(icon=icon, on_click=do).props(f'flat dense size=sm color=white aria-label="{name}"'):
            ui.tooltip(name)

    def _build_states(self) -> None:
        drawn = picture_of(self._session)
        of_llvm = "Ir" in self._session.env.observation_spaces
        of_llvm_only = ["Functions", drawn, "Explain -Oz"] if of_llvm else [drawn] if drawn else []
        names = ["Tree", "Chart", *of_llvm_only, "Search"]
        with ui.element("div").classes("panels"):
            with ui.tabs().props("dense no-caps align=left").classes("w-full") as self._tabs:
                for name in names:
                    ui.tab(name)
            panels = ui.tab_panels(self._tabs, value="Tree", animated=False).props("keep-alive").classes("w-full")
            with panels.classes("tabbed"):
                with ui.tab_panel("Tree").classes("q-pa-sm"):
                    self._tree = ui.tree([], label_key="text", on_select=self._select)
                    self._tree.props('dense no-connectors=false aria-label="Tree of states"')
                    self._tree.add_slot("default-header", TREE_NODE)
                    ui.link("SVG", f"/sessions/{self._id}/tree.svg").props("download").classes("text-caption")
                with ui.tab_panel("Chart").classes("q-pa-sm"):
                    self._chart = ui.echart({}).classes("w-full h-full")
                    self._chart.props('role=img aria-label="Cost on the way here"')
                if of_llvm:
                    with ui.tab_panel("Functions").classes("q-pa-sm"):
                        self._build_functions()
                    with ui.tab_panel("Explain -Oz").classes("q-pa-sm"):
                        Explanation(self._session, self._do)
                if drawn:
                    with ui.tab_panel(drawn).classes("q-pa-sm"):
                        self._picture = PicturePanel(self._session, self._id, self._do)
                    self._tabs.on_value_change(self._show_picture)
                with ui.tab_panel("Search").classes("q-pa-sm"):
                    self._search = SearchPanel(self._sessions, self._id, self._do)
        with ui.element("div").classes("changes"):
            with ui.row().classes("items-center no-wrap w-full"):
                self._said = ui.label().classes("text-caption ellipsis")
                ui.space()
                self._beside = ui.checkbox("side by side", on_change=self._color).props("dense")
            self._diff = ui.html("", sanitize=False).classes("diff w-full")
            self._diff.props('tabindex=0 role=region aria-label="Difference of the program" data-testid="diff"')

    def _build_functions(self) -> None:
        names = ("function", "instructions", "before", "blocks", "before ")
        columns = [
            {"name": name, "label": name, "field": name, "align": "right" if place else "left", "sortable": True}
            for place, name in enumerate(names)
        ]
        self._functions = ui.table(rows=[], columns=columns, row_key="function").classes("tight w-full")
        self._functions.props("dense flat hide-pagination :rows-per-page-options=[0]")

    # ------------------------------------------------------------------------------------------------- showing

    def _update(self) -> None:
        """Show where the session stands; what takes longer follows."""
        session, tree = self._session, self._session.tree
        node, cost = tree.present, session.costs[0]
        self._title.text = f"{session.env.benchmark.uri}".removeprefix("benchmark://")
        self._levels.text = ", ".join(f"{name} {view.number(value)}" for name, value in session.lines.items())
        self._cost.text = f"{cost} {view.number(node.costs[cost])}"
        self._show_tree()
        self._tree.client.run_javascript(_SHOW_PRESENT)
        options = view.chart(tree, cost, session.lines)
        self._chart.options.clear()
        self._chart.options.update(options)
        self._chart.update()
        self._round += 1
        self._actions.show()
        background_tasks.create(self._show_difference(self._round), name="difference of a node")
        background_tasks.create(self._show_picture(), name="picture of a program")

    def _show_tree(self) -> None:
        tree = self._session.tree
        nodes = view.tree_nodes(tree, self._session.costs[0], self._whole)
        self._tree.props["nodes"] = nodes
        self._tree.props["expanded"] = list(view.parents(nodes))
        self._tree.update()

    async def _show_picture(self) -> None:
        if self._tabs.value in PICTURES.values():
            await self._picture.show()

    def _color(self) -> None:
        if self._lines is not None:
            self._diff.content = colored(self._lines, beside=bool(self._beside.value))

    async def _show_difference(self, round: int) -> None:
        session, tree = self._session, self._session.tree
        node = tree.present
        before = tree.trail[-2] if len(tree.trail) > 1 else 0
        try:
            new = await session.text(node.number)
            lines = await session.difference(before, node.number) if before != node.number else []
        except _WRONG as error:
            new, lines = "", []
            self._tell(str(error))
        if round != self._round:
            return
        self._said.text = (
            f"what {view.label(node.action)} changed (node {before} to {node.number})"
            if before != node.number
            else "the program as it came"
        )
        self._lines = lines if before != node.number else None
        self._diff.content = html.escape(new[:200_000])
        self._color()
        if self._functions is None:
            return
        then = view.counts(await session.text(0)) if new else {}
        now = view.counts(new)
        self._functions.rows = [
            {
                "function": name,
                "instructions": now.get(name, (0, 0))[0],
                "before": then.get(name, (0, 0))[0],
                "blocks": now.get(name, (0, 0))[1],
                "before ": then.get(name, (0, 0))[1],
            }
            for name in dict.fromkeys([*then, *now])
        ]

    def _tell(self, message: str, kind: Any = "negative") -> None:
        with self._tree.client:
            ui.notify(message[:500], type=kind, multi_line=True, close_button=True)

    async def _follow(self, client: Any) -> None:
        """Show what happens in the session, whoever does it, until the tab is gone."""
        session = self._session
        with session.events() as queue:
            while not client.is_deleted:
                with contextlib.suppress(TimeoutError):
                    came = [await asyncio.wait_for(queue.get(), 1.0)]
                    while not queue.empty():
                        came.append(queue.get_nowait())
                    if self._show(came):
                        return
                    if came[-1]["event"] == "search":
                        await asyncio.sleep(FRAME)  # a browser has enough to do with so many frames
        if len(session.tree) == 1 and not session.watched:  # nothing is lost; whoever comes again gets another
            with contextlib.suppress(Refusal):
                await self._sessions.close(self._id)

    def _show(self, came: Sequence[Event]) -> bool:
        """Show events that have come together, of each kind what is still true; return whether they are the last."""
        last = {event["event"]: event for event in came}
        if "search" in last:
            self._search.show()
            self._show_tree()
        if "moved" in last:
            self._update()
        for event in came:
            if event["event"] == "failed":
                self._tell(f"{event['action']}: {event['error']}: {event['message']}")
        if "death" in last:
            self._tell(f"a worker died ({last['death']['cause']}); another took its place", "warning")
        if "closed" in last:
            self._tell("this session was closed: reload the page for another", "warning")
        return "closed" in last

    # -------------------------------------------------------------------------------------------------- acting

    async def _do(self, what: Callable[[], Awaitable[Any]]) -> None:
        try:
            self._sessions.find(self._id)
            await what()
        except _WRONG as error:
            if not isinstance(error, (WorkerCrashed, WorkerFailure)):  # these are told by an event, to all tabs
                self._tell(str(error))

    async def _undo(self) -> None:
        await self._do(self._session.undo)

    async def _select(self, event: events.ValueChangeEventArguments[Any]) -> None:
        if event.value is None:
            return
        chosen = str(event.value)
        self._tree.deselect()
        if chosen.startswith("more-"):
            self._whole.add(int(chosen.removeprefix("more-")))
            self._update()
        elif int(chosen) != self._session.tree.present.number:
            await self._do(lambda: self._session.goto(int(chosen)))

    def _fork(self) -> None:
        ui.navigate.to(f"/?fork={self._id}", new_tab=True)  # at once, or a browser takes it for a popup

    async def _toggle(self) -> None:
        dark = self._dark.value
        if dark is None:  # as the system has it
            dark = bool(await ui.run_javascript("document.body.classList.contains('body--dark')"))
        self._dark.value = not dark

    async def _key(self, event: events.KeyEventArguments) -> None:
        if not event.action.keydown or event.action.repeat or event.modifiers.ctrl or event.modifiers.meta:
            return
        keys: dict[str, Callable[[], Any]] = {
            "u": self._undo, "f": self._fork, "o": self._dialogs.choose, "c": self._dialogs.copy, "d": self._toggle,
            "/": self._actions.focus,
        }  # fmt: skip
        if (do := keys.get(str(event.key))) is not None:
            found = do()
            if isinstance(found, Awaitable) and asyncio.iscoroutine(found):
                await found
