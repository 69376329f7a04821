"""The Explorer's page.

Everything that a browser loads comes from here. The page of a tab has a session, whose id is in its address; so it
outlasts a reload, and two tabs can have the same one.
"""

import asyncio
import base64
import contextlib
import html
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import DatasetError
from aiocg.datasets.scratch import scratch_folder
from aiocg.errors import AiocgError, WorkerCrashed, WorkerFailure
from aiocg.host.threads import in_thread
from aiocg.web import _view as view
from aiocg.web._links import Link, link_to, read_link
from aiocg.web._programs import named, sent
from aiocg.web._session import Event, ExplorerSession
from aiocg.web.api import create_app
from aiocg.web.limits import Refusal
from aiocg.web.saved import SQLITE, Opening, openings
from aiocg.web.sessions import Sessions
from aiocg.web.tree import TreeError

try:
    from nicegui import background_tasks, events, ui
except ImportError:
    raise AiocgError("the Explorer needs NiceGUI: pip install 'aiocg[web]'") from None

from fastapi import FastAPI, Request
from fastapi.middleware.gzip import GZipMiddleware

from aiocg.web._panels import (
    STYLE,
    ActionList,
    ChangesPanel,
    Chart,
    CountsPanel,
    Explanation,
    PicturePanel,
    Rows,
    SearchPanel,
    picture_of,
)

SHOWN = 20_000  # characters of a program in a link
OPENING = 120.0  # seconds that compiling a program and making its environment may take
RECONNECTING = 30.0  # seconds for which a browser may not be heard of, since searches keep all processors busy
FRAME = 0.25  # seconds between two looks at a search, at least
REST, LONGEST_REST = 100, 1.0  # times as long as the processor is busy with a look, and seconds
_WRONG = (AiocgError, DatasetError, TreeError, Refusal)


# ------------------------------------------------------------------------- Dialogs: copying actions, choosing a program

LISTED = 2000  # programs to choose from
LANGUAGES = {  # of programs that are pasted, by the kind of worker
    "llvm": {"c": "C", "c++": "C++", "ir": "LLVM IR"},
    "gcc": {"c": "C", "c++": "C++"},
    "loops": {"expression": "tensor expression, such as C[i:512] = sum(k:512) A[i, k] * B[k]"},
}


class _Dialogs:
    """The dialogs of one tab.

    Args:
        sessions: where a new program gets its session.
        session: of the tab.
        do: carries something out, and passes the message of its failure on.
    """

    def __init__(
        self,
        sessions: Sessions,
        session: ExplorerSession,
        do: Callable[[Callable[[], Awaitable[Any]], Callable[[str], None]], Awaitable[None]],
    ) -> None:
        self._sessions = sessions
        self._session = session
        self._do = do
        self._problem: ui.label | None = None  # in the dialog that is open

    async def copy(self) -> None:
        """Show how the present state is reached elsewhere."""
        session = self._session
        actions = session.tree.path(session.tree.present.number)
        env, spaces = session.env, session.env.action_spaces
        usual = set(map(env.action_space.text, env.action_space.names))
        text = next((name for name in spaces if spaces[name].kind == "text"), "")
        space = "" if usual.issuperset(actions) else text
        texts = view.copies(env.spec.id, str(env.benchmark.uri), actions, spaces.language, space)
        try:
            texts["link"] = str(ui.context.client.request.base_url).rstrip("/") + await in_thread(
                lambda: link_to(session)
            )
        except (Refusal, DatasetError, OSError) as problem:
            texts["link"] = f"# {problem}"
        with ui.dialog() as dialog, ui.card().classes("w-full").props('aria-label="Copy"'):
            for name, text in texts.items():
                with ui.row().classes("items-center w-full"):
                    ui.label(name).classes("text-weight-bold")
                    ui.space()
                    ui.button("copy", on_click=lambda text=text: ui.clipboard.write(text)).props(
                        f'flat dense no-caps aria-label="copy {name}"'
                    )
                ui.html(html.escape(text), sanitize=False).classes("diff w-full").style("max-height: 24vh")
        dialog.open()

    async def choose(self) -> None:
        """Let the user choose another program, for a new session."""
        names = await in_thread(self._names)
        with ui.dialog() as dialog, ui.card().classes("w-full q-gutter-y-sm").props('aria-label="Choose a program"'):
            picked = ui.select(names, label="program of a dataset", with_input=True, new_value_mode="add-unique")
            picked.classes("w-full").props("dense")
            ui.button("open", on_click=lambda: self._open(dialog, lambda: named(str(picked.value)))).props("no-caps")
            ui.separator()
            languages = LANGUAGES.get(self._session.env.spec.worker, LANGUAGES["llvm"])
            language = ui.radio(languages, value=next(iter(languages))).props("inline dense")
            source = ui.textarea(label="or paste a program").classes("w-full").props("outlined input-class=diff rows=8")
            limits = self._sessions.limits
            ui.button(
                "compile",
                on_click=lambda: self._open(dialog, lambda: sent(source.value or "", str(language.value), limits)),
            ).props("no-caps")
            ui.separator()
            upload = ui.upload(
                label="or upload a program, a state (.json, .csv) or transitions (.db)",
                auto_upload=True,
                max_file_size=limits.source_bytes,
            )
            upload.classes("w-full").props('flat bordered aria-label="Upload a program or a state"')
            upload.on_upload(lambda event: self._upload(dialog, event))
            upload.on("rejected", lambda: self._tell(f"the file has more than {limits.source_bytes} bytes"))
            self._problem = _problem_label()
        dialog.open()

    def _tell(self, message: str) -> None:
        """Show what is wrong in the dialog, which a notification would cover."""
        if self._problem is not None:
            self._problem.text = message
            self._problem.visible = bool(message)

    async def _try(self, what: Callable[[], Awaitable[Any]]) -> None:
        self._tell("")
        await self._do(what, self._tell)

    def _names(self) -> list[str]:
        known = self._sessions.runtime.datasets.datasets(installed_only=True, kind=self._session.env.spec.kind)
        names: list[str] = []
        for dataset in known:
            if 0 < dataset.size <= LISTED - len(names):
                names += [str(uri).removeprefix("benchmark://") for uri in dataset.benchmark_uris()]
        return names

    async def _upload(self, dialog: Any, event: events.UploadEventArguments) -> None:
        content, suffix = await event.file.read(), event.file.name.rpartition(".")[2]
        if suffix in ("json", "jsonl", "csv") or content.startswith(SQLITE):
            await self._try(lambda: self._saved(dialog, content))
            return
        language = {"c": "c", "ll": "ir", "bc": "bitcode"}.get(suffix, "c++")
        text = base64.b64encode(content).decode() if language == "bitcode" else content.decode(errors="replace")
        await self._open(dialog, lambda: sent(text, language, self._sessions.limits))

    async def _saved(self, dialog: Any, content: bytes) -> None:
        """Open what was saved in a file or, if it has several states, let the user choose."""

        def read() -> list[Opening]:
            with scratch_folder() as folder:
                path = Path(folder, "saved")
                path.write_bytes(content)
                return openings(path, self._session.env.spec.id)

        found = await in_thread(read)
        if not found:
            raise Refusal(422, "this file has no states: take one that `aiocg search --state` has written")
        if len(found) == 1:
            await self._go(dialog, found[0])
            return
        dialog.clear()
        names = {place: _title(one) for place, one in enumerate(found[:LISTED])}
        with dialog, ui.card().classes("w-full"):
            picked = ui.select(names, value=0, label="state", with_input=True).classes("w-full").props("dense")
            ui.button("open", on_click=lambda: self._try(lambda: self._go(dialog, found[int(picked.value)])))
            self._problem = _problem_label()

    async def _go(self, dialog: Any, opening: Opening) -> None:
        id = await self._sessions.open_saved(opening.visiting())
        dialog.close()
        ui.navigate.to(f"/?session={id}")

    async def _open(self, dialog: Any, find: Callable[[], Benchmark | str]) -> None:
        await self._try(lambda: self._go(dialog, Opening(self._session.env.spec.id, find())))


def _problem_label() -> ui.label:
    """Return a place for a message of many lines, which is not seen until there is one."""
    label = ui.label().classes("diff loss w-full").style("max-height: 30vh").props("role=alert")
    label.visible = False
    return label


def _title(opening: Opening) -> str:
    """Return what is said of something that can be opened."""
    earned = "" if opening.reward is None else f", reward {opening.reward:.4f}"
    states = f", {len(opening.paths)} states" if opening.paths else ""
    return f"{opening.program}{earned}{states}"


# -------------------------------------------------------------------------------------------------- The Explorer's page


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

    @ui.page("/", title="aiocg explorer", response_timeout=OPENING)
    async def page(request: Request, session: str = "", fork: str = "") -> None:
        sessions: Sessions = app.state.sessions
        new = bool(fork) or session not in sessions
        try:
            link = read_link(request.url.query, sessions.limits)
            if link is not None and link.source:
                _ask(sessions, link)
                return
            begin = opening if link is None else link.opening(sessions.limits)
            if new:
                session = await (sessions.fork(fork) if fork else sessions.open_saved(begin))
        except _WRONG as error:
            ui.label(str(error)).classes("loss").style("white-space: pre-wrap")
            return
        if new:
            ui.add_body_html(f"<script>history.replaceState(null, '', '/?session={session}')</script>")
        _Page(sessions, session).build()

    ui.run_with(
        app,
        title="aiocg explorer",
        dark=None,
        favicon="🌳",
        show_welcome_message=False,
        reconnect_timeout=RECONNECTING,
        tailwind=False,  # which looks at every element that comes
        gzip_middleware_factory=partial(GZipMiddleware, compresslevel=1),  # of megabytes, for every new visitor
    )
    return app


def _ask(sessions: Sessions, link: Link) -> None:
    """Show the program that a link has, and open it when the user wants that: the link may come from anybody."""
    with ui.card().classes("w-full").props('role=main aria-label="A link with a program"'):
        ui.label(f"This link has a program ({link.language}) and {len(link.actions)} actions for {link.environment}.")
        source = link.source[:SHOWN]
        if link.language == "bitcode":  # in base64
            source = f"LLVM bitcode, {len(link.source) * 3 // 4:,} bytes"
        ui.html(html.escape(source), sanitize=False).classes("diff w-full").style("max-height: 60vh")

        async def open() -> None:
            try:
                id = await sessions.open_saved(link.opening(sessions.limits))
            except _WRONG as error:
                problem.text, problem.visible = str(error), True
            else:
                ui.navigate.to(f"/?session={id}")

        ui.button("open", on_click=open).props("no-caps")
        problem = _problem_label()
    ui.add_css(STYLE)


class _Page:
    """The page of one tab."""

    def __init__(self, sessions: Sessions, id: str) -> None:
        self._sessions = sessions
        self._id = id
        self._session: ExplorerSession = sessions.find(id)
        self._whole: set[int] = set()
        self._tabbed: dict[str, Callable[[], Coroutine[Any, Any, None] | None]] = {}  # show what is in a tab
        self._dark = ui.dark_mode(value=None)
        self._dialogs = _Dialogs(sessions, self._session, self._do)

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
        session, drawn = self._session, picture_of(self._session)
        of_llvm = "Ir" in session.env.observation_spaces
        counted = [*(["Functions"] if of_llvm else []), *(["Features"] if session.counted else [])]
        names = [*counted, *([drawn] if drawn else []), *(["Explain -Oz"] if of_llvm else [])]
        with ui.element("div").classes("panels"):
            with ui.tabs().props("dense no-caps align=left").classes("w-full") as self._tabs:
                for name in ("Tree", "Chart", *names, "Search"):
                    ui.tab(name)
            panels = ui.tab_panels(self._tabs, value="Tree", animated=False).props("keep-alive").classes("w-full")
            with panels.classes("tabbed"):
                with ui.tab_panel("Tree").classes("q-pa-sm"):
                    self._tree = Rows("node", "Tree of states", self._select)
                    self._tabbed["Tree"] = self._show_tree
                    ui.link("SVG", f"/sessions/{self._id}/tree.svg").props("download").classes("text-caption")
                with ui.tab_panel("Chart").classes("q-pa-sm"):
                    self._chart = Chart("Cost on the way here", "calc(100% - 24px)")
                    self._tabbed["Chart"] = self._show_chart
                    ui.link("SVG", f"/sessions/{self._id}/chart.svg").props("download").classes("text-caption")
                for name in counted:
                    with ui.tab_panel(name).classes("q-pa-sm"):
                        self._tabbed[name] = CountsPanel(session, self._do, functions=name == "Functions").show
                if drawn:
                    with ui.tab_panel(drawn).classes("q-pa-sm"):
                        self._tabbed[drawn] = PicturePanel(session, self._id, self._do).show
                if of_llvm:
                    with ui.tab_panel("Explain -Oz").classes("q-pa-sm"):
                        Explanation(session, self._do, lambda: self._changes)
                with ui.tab_panel("Search").classes("q-pa-sm"):
                    self._tabbed["Search"] = SearchPanel(self._sessions, self._id, self._do).show
        self._tabs.on_value_change(self._show_tab)
        with ui.element("div").classes("changes"):
            self._changes = ChangesPanel(session, self._do)

    # ------------------------------------------------------------------------------------------------- showing

    def _update(self) -> None:
        """Show where the session stands; what takes longer follows."""
        session, tree = self._session, self._session.tree
        node, cost = tree.present, session.costs[0]
        self._title.text = f"{session.env.benchmark.uri}".removeprefix("benchmark://")
        self._levels.text = ", ".join(f"{name} {view.number(value)}" for name, value in session.lines.items())
        self._cost.text = f"{cost} {view.number(node.costs[cost])}"
        self._show_tab()
        background_tasks.create(self._changes.show(), name="difference of a node")
        self._actions.show()

    def _show_tree(self) -> None:
        self._tree.show(view.tree_nodes(self._session.tree, self._session.costs[0], self._whole))

    def _show_chart(self) -> None:
        session, cost = self._session, self._session.costs[0]
        self._chart.show(view.chart({cost: session.tree.way(cost)}, session.lines, cost, symbols=True))

    def _show_tab(self) -> None:
        """Show in the open tab what it missed while it was not seen."""
        found = self._tabbed.get(str(self._tabs.value), lambda: None)()
        if found is not None:
            background_tasks.create(found, name="what the open tab shows")

    def _tell(self, message: str, kind: Any = "negative") -> None:
        with self._tree.client:
            ui.notify(message[:500], type=kind, multi_line=True, close_button=True, classes="lines")

    async def _follow(self, client: Any) -> None:
        """Show what happens in the session, whoever does it, until the tab is gone."""
        session = self._session
        with session.events() as queue:
            while not client.is_deleted:
                with contextlib.suppress(TimeoutError):
                    came = [await asyncio.wait_for(queue.get(), 1.0)]
                    while not queue.empty():
                        came.append(queue.get_nowait())
                    if client.is_deleted:
                        break
                    started = time.thread_time()
                    if self._show(came):
                        return
                    if came[-1]["event"] == "search":  # which is slowed down by what this takes
                        rest = REST * (time.thread_time() - started) if came[-1]["running"] else 0.0
                        await asyncio.sleep(min(max(FRAME, rest), LONGEST_REST))
        if len(session.tree) == 1 and not session.watched:  # nothing is lost; whoever comes again gets another
            with contextlib.suppress(Refusal):
                await self._sessions.close(self._id)

    def _show(self, came: Sequence[Event]) -> bool:
        """Show events that have come together, of each kind what is still true; return whether they are the last."""
        last = {event["event"]: event for event in came}
        if "closed" in last:
            self._tell("this session was closed: reload the page for another", "warning")
            return True
        if "search" in last and self._tabs.value in ("Search", "Tree"):
            self._show_tab()
        if "moved" in last:
            self._update()
        for event in came:
            if event["event"] == "failed":
                self._tell(f"{event['action']}: {event['error']}: {event['message']}")
        if "death" in last:
            self._tell(f"a worker died ({last['death']['cause']}); another took its place", "warning")
        return False

    # -------------------------------------------------------------------------------------------------- acting

    async def _do(self, what: Callable[[], Awaitable[Any]], tell: Callable[[str], None] | None = None) -> None:
        try:
            self._sessions.find(self._id)
            await what()
        except _WRONG as error:
            if not isinstance(error, (WorkerCrashed, WorkerFailure)):  # these are told by an event, to all tabs
                (tell or self._tell)(str(error))

    async def _undo(self) -> None:
        await self._do(self._session.undo)

    async def _select(self, chosen: str) -> None:
        if chosen.startswith("more-"):
            self._whole.add(int(chosen.removeprefix("more-")))
            self._show_tree()
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
