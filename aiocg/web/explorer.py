"""The page: what compilers do, to be looked at and taken over by hand.

Everything that a browser loads comes from here. The page of a tab has a session, whose id is in its address; so it
outlasts a reload, and two tabs can have the same one.
"""

import asyncio
import base64
import contextlib
import html
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import DatasetError
from aiocg.errors import AiocgError
from aiocg.host.threads import in_thread
from aiocg.web import view
from aiocg.web.api import create_app
from aiocg.web.explain import Stage, stages
from aiocg.web.limits import Refusal
from aiocg.web.programs import named, sent
from aiocg.web.session import ExplorerSession
from aiocg.web.sessions import Sessions
from aiocg.web.tree import TreeError

try:
    from nicegui import background_tasks, events, ui
except ImportError:
    raise AiocgError("the Explorer needs NiceGUI: pip install 'aiocg[web]'") from None

from fastapi import FastAPI

__all__ = ["create_explorer"]

_WRONG = (AiocgError, DatasetError, TreeError, Refusal)
_LISTED = 2000  # programs to choose from
_DIFF_LINES = 3000

_STYLE = """
body { font-family: system-ui, sans-serif; }
.diff { font-family: ui-monospace, monospace; font-size: 12px; white-space: pre; overflow: auto; line-height: 1.45; }
.diff .add { background: #16a34a26; } .diff .del { background: #dc262626; } .diff .at { opacity: .6; }
.q-tree__node-header:focus-visible, button:focus-visible { outline: 2px solid #0d9488; }
.columns { display: grid; grid-template-columns: minmax(260px, 330px) minmax(0, 1fr); gap: 12px; }
.gain { font-variant-numeric: tabular-nums; }
"""

_ACTION_ROW = """
<q-tr :props="props">
  <q-td colspan="2" class="q-pa-none">
    <q-btn flat dense no-caps align="between" class="full-width q-px-sm" :data-action="props.row.action"
      :aria-label="'apply ' + props.row.action + ', ' + props.row.said" @click="$parent.$emit('apply', props.row)">
      <span class="ellipsis" style="max-width: 220px" :title="props.row.action">{{ props.row.label }}</span>
      <span class="gain" :class="props.row.color">{{ props.row.gain }}</span>
    </q-btn>
  </q-td>
</q-tr>
"""

_TREE_NODE = """
<span :title="props.node.title" :data-node="props.node.id" :aria-current="props.node.here ? 'true' : null">
  <b v-if="props.node.here">{{ props.node.text }}</b><span v-else>{{ props.node.text }}</span>
  <span v-if="props.node.cost" class="gain q-ml-sm" style="opacity: .7">{{ props.node.cost }}</span>
  <span v-if="props.node.change" class="gain q-ml-xs" :class="props.node.better ? 'text-positive' : 'text-negative'">
    {{ props.node.change }}</span>
</span>
"""

_STAGE_ROW = """
<q-tr :props="props">
  <q-td>{{ props.row.number }}</q-td>
  <q-td><span :title="props.row.name">{{ props.row.label }}</span></q-td>
  <q-td class="text-right gain" :class="props.row.color">{{ props.row.gain }}</q-td>
  <q-td class="text-right gain">{{ props.row.cost }}</q-td>
  <q-td><q-btn flat dense no-caps label="go" :aria-label="'go to the program after ' + props.row.name"
    @click="$parent.$emit('go', props.row)" /></q-td>
</q-tr>
"""


def create_explorer(program: Benchmark | str, environment: str = "llvm-ic-v0", **options: Any) -> FastAPI:
    """Make the application: the API, and the page at `/`. There can be one in a process.

    Args:
        program: what a page begins with; it may be a file of this machine.
        environment: in which.
        options: of `create_app`.
    """
    app = create_app(**options)
    inner = app.router.lifespan_context

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        async with inner(app) as state:
            sessions: Sessions = app.state.sessions
            with contextlib.suppress(*_WRONG):  # the first page tells what is wrong; else, workers are up for it
                await sessions.close(await sessions.open(environment, benchmark=program))
            yield state

    app.router.lifespan_context = lifespan

    @ui.page("/", title="aiocg explorer")
    async def page(session: str = "") -> None:
        sessions: Sessions = app.state.sessions
        try:
            sessions.find(session)
        except Refusal:
            try:
                session = await sessions.open(environment, benchmark=program)
            except _WRONG as error:
                ui.label(str(error)).classes("text-negative").style("white-space: pre-wrap")
                return
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
        self._rows: list[dict[str, Any]] = []
        self._dark = ui.dark_mode(value=None)

    # -------------------------------------------------------------------------------------------------- layout

    def build(self) -> None:
        """Lay the page out, and show the session from now on."""
        ui.add_css(_STYLE)
        ui.colors(primary="#0d9488")
        with ui.header().classes("items-center no-wrap q-py-xs q-px-md q-gutter-x-sm").props("role=banner"):
            ui.label("aiocg explorer").classes("text-subtitle1 text-weight-bold").style("white-space: nowrap")
            self._title = ui.label().classes("ellipsis")
            ui.space()
            self._cost = (
                ui.label()
                .classes("gain ellipsis")
                .style("flex-shrink: 2")
                .props('role=status aria-live=polite data-testid="cost"')
            )
            self._button("undo", "Undo (u)", self._undo)
            self._button("call_split", "Fork into a new tab (f)", self._fork)
            self._button("folder_open", "Choose a program (o)", self._choose)
            self._button("content_copy", "Copy as a command or as Python (c)", self._copy)
            self._button("dark_mode", "Light or dark (d)", self._toggle)
        with ui.element("main").classes("columns w-full"):
            with ui.element("section").props('aria-label="Actions"'):
                self._build_actions()
            with ui.element("section").props('aria-label="States"').classes("column no-wrap q-gutter-y-sm"):
                self._build_states()
        ui.keyboard(on_key=self._key)
        self._update()
        background_tasks.create(self._follow(ui.context.client), name="events of a session")

    def _button(self, icon: str, name: str, do: Callable[[], Any]) -> None:
        with ui.button(icon=icon, on_click=do).props(f'flat dense size=sm color=white aria-label="{name}"'):
            ui.tooltip(name)

    def _build_actions(self) -> None:
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
        self._actions = ui.table(rows=[], columns=columns, row_key="action").classes("w-full")
        self._actions.props("dense flat hide-pagination :rows-per-page-options=[0]")
        self._actions.style("height: calc(100vh - 130px)")
        self._actions.add_slot("body", _ACTION_ROW)
        self._actions.on("apply", lambda event: self._do(lambda: self._session.step([event.args["action"]])))

    def _build_states(self) -> None:
        with ui.tabs().props("dense align=left").classes("w-full") as tabs:
            for name in ("Tree", "Chart", "Functions", "Explain -Oz"):
                ui.tab(name)
        with (
            ui.tab_panels(tabs, value="Tree", animated=False)
            .props("keep-alive")
            .classes("w-full")
            .style("height: 42vh")
        ):
            with ui.tab_panel("Tree").classes("q-pa-sm"):
                self._tree = ui.tree([], label_key="text", on_select=self._select)
                self._tree.props('dense no-connectors=false aria-label="Tree of states"')
                self._tree.add_slot("default-header", _TREE_NODE)
            with ui.tab_panel("Chart").classes("q-pa-sm"):
                self._chart = ui.echart({}).classes("w-full h-full").props('role=img aria-label="Cost on the way here"')
            with ui.tab_panel("Functions").classes("q-pa-sm"):
                names = ("function", "instructions", "before", "blocks", "before ")
                columns = [
                    {
                        "name": name,
                        "label": name,
                        "field": name,
                        "align": "right" if place else "left",
                        "sortable": True,
                    }
                    for place, name in enumerate(names)
                ]
                self._functions = ui.table(rows=[], columns=columns, row_key="function").classes("w-full")
                self._functions.props("dense flat hide-pagination :rows-per-page-options=[0]")
            with ui.tab_panel("Explain -Oz").classes("q-pa-sm"):
                self._build_explanation()
        self._said = ui.label().classes("text-caption")
        self._diff = ui.html("", sanitize=False).classes("diff w-full").style("height: calc(58vh - 150px)")
        self._diff.props('tabindex=0 role=region aria-label="Difference of the program" data-testid="diff"')

    def _build_explanation(self) -> None:
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
        self._stages = ui.table(rows=[], columns=columns, row_key="number").classes("w-full")
        self._stages.props("dense flat hide-pagination :rows-per-page-options=[0]")
        self._stages.add_slot("body", _STAGE_ROW)
        self._stages.on("go", lambda event: self._do(lambda: self._go_to_stage(event.args["action"])))

    # ------------------------------------------------------------------------------------------------- showing

    def _update(self) -> None:
        """Show where the session stands; what takes longer follows."""
        session, tree = self._session, self._session.tree
        node, cost = tree.present, session.costs[0]
        self._title.text = f"{session.env.benchmark.uri}".removeprefix("benchmark://")
        beside = ", ".join(f"{name} {view.number(value)}" for name, value in session.lines.items())
        self._cost.text = f"{cost} {view.number(node.costs[cost])}" + (f" ({beside})" if beside else "")
        self._tree.props["nodes"] = view.tree_nodes(tree, cost, self._whole)
        self._tree.props["expanded"] = [str(one.number) for one in tree if one.edges][:1000]
        self._tree.update()
        options = view.chart(tree, cost, session.lines)
        self._chart.options.clear()
        self._chart.options.update(options)
        self._chart.update()
        self._round += 1
        background_tasks.create(self._show_gains(self._round), name="gains of actions")
        background_tasks.create(self._show_difference(self._round), name="difference of a node")

    async def _show_gains(self, round: int) -> None:
        self._busy.visible = True
        try:
            gains = await self._session.expand(wanted=lambda: round == self._round)
        except _WRONG as error:
            gains = []
            self._tell(str(error))
        if round != self._round:
            return
        self._rows = [
            {
                "action": one.action,
                "label": view.label(one.action),
                "gain": "fails" if one.error else f"{one.gain:+,.0f}" if one.gain else "0" if one.effect else "no-op",
                "said": "fails" if one.error else f"gain {one.gain:,.0f}" if one.effect else "no effect",
                "color": "text-positive" if one.gain > 0 else "text-negative" if one.gain < 0 or one.error else "",
                "shown": one.effect,
            }
            for one in gains
        ]
        self._list()
        self._busy.visible = False

    def _list(self) -> None:
        text = (self._filter.value or "").lower()
        self._actions.rows = [
            row for row in self._rows if text in row["action"].lower() and (row["shown"] or self._noops.value)
        ]

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
        self._diff.content = _colored(lines) if before != node.number else html.escape(new[:200_000])
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
        """Show what happens in the session, whoever does it, until the tab is gone or another program is chosen."""
        session = self._session
        with session.events() as queue:
            while not client.is_deleted and session is self._session:
                with contextlib.suppress(TimeoutError):
                    event = await asyncio.wait_for(queue.get(), 1.0)
                    if event["event"] == "moved":
                        self._update()
                    elif event["event"] == "failed":
                        self._tell(f"{event['action']}: {event['error']}: {event['message']}")
                    elif event["event"] == "death":
                        self._tell(f"a worker died ({event['cause']}); another took its place", "warning")
                    elif event["event"] == "closed":
                        self._tell("this session was closed: reload the page for another", "warning")
                        return

    # -------------------------------------------------------------------------------------------------- acting

    async def _do(self, what: Callable[[], Awaitable[Any]]) -> None:
        try:
            self._sessions.find(self._id)
            await what()
        except _WRONG as error:
            if not isinstance(error, AiocgError):  # others are told by the event
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

    async def _fork(self) -> None:
        async def fork() -> None:
            ui.navigate.to(f"/?session={await self._sessions.fork(self._id)}", new_tab=True)

        await self._do(fork)

    async def _go_to_stage(self, action: str) -> None:
        await self._session.goto(0)
        await self._session.step([action])

    def _toggle(self) -> None:
        self._dark.value = not self._dark.value

    async def _explain(self) -> None:
        self._explain_button.disable()
        rows: list[dict[str, Any]] = []
        count = 0
        try:
            async for stage in stages(self._session):
                count = stage.number
                if stage.effect:
                    rows.append(_row(stage))
                if not stage.number % 8:
                    self._stages.rows = list(rows)
                    self._explained.text = f"{count} passes so far"
            self._stages.rows = rows
            self._explained.text = f"{count} passes, of which {len(rows)} change the program; the others are hidden"
        except _WRONG as error:
            self._explained.text = str(error)
        finally:
            self._explain_button.enable()

    async def _key(self, event: events.KeyEventArguments) -> None:
        if not event.action.keydown or event.action.repeat or event.modifiers.ctrl or event.modifiers.meta:
            return
        keys: dict[str, Callable[[], Any]] = {
            "u": self._undo, "f": self._fork, "o": self._choose, "c": self._copy, "d": self._toggle,
            "/": lambda: self._filter.run_method("focus"),
        }  # fmt: skip
        if (do := keys.get(str(event.key))) is not None:
            found = do()
            if isinstance(found, Awaitable) and asyncio.iscoroutine(found):
                await found

    # ------------------------------------------------------------------------------------------------- dialogs

    def _copy(self) -> None:
        session = self._session
        actions = session.tree.path(session.tree.present.number)
        texts = view.copies(
            session.env.spec.id, str(session.env.benchmark.uri), actions, session.env.action_spaces.language
        )
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

    async def _choose(self) -> None:
        names = await in_thread(self._names)
        with ui.dialog() as dialog, ui.card().classes("w-full q-gutter-y-sm").props('aria-label="Choose a program"'):
            picked = ui.select(names, label="program of a dataset", with_input=True, new_value_mode="add-unique")
            picked.classes("w-full").props("dense")
            ui.button("open", on_click=lambda: self._open(dialog, lambda: named(str(picked.value)))).props("no-caps")
            ui.separator()
            language = ui.radio({"c": "C", "c++": "C++", "ir": "LLVM IR"}, value="c").props("inline dense")
            source = ui.textarea(label="or paste a program").classes("w-full").props("outlined input-class=diff rows=8")
            limits = self._sessions.limits
            ui.button(
                "compile",
                on_click=lambda: self._open(dialog, lambda: sent(source.value or "", str(language.value), limits)),
            ).props("no-caps")
            ui.separator()
            upload = ui.upload(
                label="or upload .c, .cc, .cpp, .ll or .bc", auto_upload=True, max_file_size=limits.source_bytes
            )
            upload.classes("w-full").props('flat bordered aria-label="Upload a program"')
            upload.on_upload(lambda event: self._upload(dialog, event))
            upload.on("rejected", lambda: self._tell(f"the file has more than {limits.source_bytes} bytes"))
        dialog.open()

    def _names(self) -> list[str]:
        known = self._sessions.runtime.datasets.datasets(installed_only=True, kind=self._session.env.spec.kind)
        names: list[str] = []
        for dataset in known:
            if 0 < dataset.size <= _LISTED - len(names):
                names += [str(uri).removeprefix("benchmark://") for uri in dataset.benchmark_uris()]
        return names

    async def _upload(self, dialog: Any, event: events.UploadEventArguments) -> None:
        content, suffix = await event.file.read(), event.file.name.rpartition(".")[2]
        language = {"c": "c", "ll": "ir", "bc": "bitcode"}.get(suffix, "c++")
        text = base64.b64encode(content).decode() if language == "bitcode" else content.decode(errors="replace")
        await self._open(dialog, lambda: sent(text, language, self._sessions.limits))

    async def _open(self, dialog: Any, find: Callable[[], Benchmark | str]) -> None:
        async def open() -> None:
            try:
                id = await self._sessions.open(self._session.env.spec.id, benchmark=find())
            except (AiocgError, DatasetError) as error:
                self._tell(str(error))
                return
            dialog.close()
            ui.navigate.to(f"/?session={id}")

        await self._do(open)


def _row(stage: Stage) -> dict[str, Any]:
    return {
        "number": stage.number,
        "name": stage.name,
        "label": view.label(stage.name),
        "action": stage.action,
        "gain": f"{stage.gain:+,.0f}" if stage.gain else "0",
        "cost": view.number(stage.cost),
        "color": "text-positive" if stage.gain > 0 else "text-negative" if stage.gain < 0 else "",
    }


def _colored(lines: list[str]) -> str:
    """Return a difference as HTML."""
    if not lines:
        return "only numbers of values differ"
    kinds = {"+": "add", "-": "del", "@": "at"}
    shown = [
        f'<div class="{kinds.get(line[:1], "")}">{html.escape(line) or " "}</div>'
        for line in lines[2 : _DIFF_LINES + 2]
    ]
    if len(lines) > _DIFF_LINES + 2:
        shown.append(f"<div>and {len(lines) - _DIFF_LINES - 2} lines more</div>")
    return "".join(shown)
