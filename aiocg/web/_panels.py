"""The panel with the program's text and its changes."""

import functools
import html
import os
import re
import subprocess
import time
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import msgspec
from nicegui import background_tasks, ui

from aiocg.datasets.errors import DatasetError
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import find_toolchain, loader_environment
from aiocg.errors import AiocgError
from aiocg.host.threads import in_thread
from aiocg.llvm.difference import difference
from aiocg.pictures import cfg, functions, nested
from aiocg.spaces.actions import split_list
from aiocg.web import _view as view
from aiocg.web._searching import Run, watchable
from aiocg.web._session import ExplorerSession, Gain
from aiocg.web.limits import Refusal
from aiocg.web.sessions import Sessions
from aiocg.web.tree import TreeError

Do = Callable[[Callable[[], Awaitable[Any]]], Coroutine[Any, Any, None]]
"""Does something in the session of a page, and tells the user what goes wrong."""

LONGEST = 200_000  # characters of a program that are shown
BEFORE, FIRST, ALONE = "before", "as it came", "nothing"  # what the program is compared with


# ------ Elements of the page: charts, and lists of buttons, of which there may be hundreds (actions, nodes of the tree)

DIFF_LINES = 3000  # that are shown
KINDS = {"+": "add", "-": "del", "@": "at"}

STYLE = Path(__file__).with_name("explorer.css")


def colored(lines: list[str], *, beside: bool = False) -> str:
    """Return a difference in unified format as HTML.

    Args:
        lines: of the difference.
        beside: whether the old lines stand beside the new ones.
    """
    if not lines:
        return "only numbers of values differ"
    rows = list(islice(_beside(lines[2:]) if beside else map(_line, lines[2:]), DIFF_LINES + 1))
    if len(rows) > DIFF_LINES:
        rows[-1] = "<div>and more lines</div>"
    return f'<div class="beside">{"".join(rows)}</div>' if beside else "".join(rows)


def _line(line: str) -> str:
    return f'<div class="{KINDS.get(line[:1], "")}">{html.escape(line) or " "}</div>'


def _beside(lines: list[str]) -> Iterator[str]:
    """Yield rows of two cells, or one that is as wide."""
    old: list[str] = []
    new: list[str] = []
    for line in [*lines, ""]:
        kind = line[:1]
        if kind in ("-", "+"):
            (old if kind == "-" else new).append(line)
            continue
        yield from (_line(one) + _line(other) for one, other in zip_longest(old, new, fillvalue=""))
        old, new = [], []
        if line:
            yield f'<div class="at whole">{html.escape(line)}</div>' if kind == "@" else _line(line) * 2


def select(options: Any, label: str, value: Any, change: Callable[[], Any] | None = None) -> ui.select:
    """Return a small list of options to choose from."""
    return ui.select(options, label=label, value=value, on_change=change).props("dense options-dense").classes("w-32")


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


class Rows(ui.element, component="rows.js"):
    """A list of buttons, between which arrow keys move.

    Args:
        kind: what they are; a button has its id as the attribute `data-` and this.
        name: for screen readers.
        choose: is told the id of a button that was pressed.
    """

    def __init__(self, kind: str, name: str, choose: Callable[[str], Any]) -> None:
        super().__init__()
        self._props |= {"kind": kind, "rows": "[]", "aria-label": name}
        self.on("choose", lambda event: choose(str(event.args)))

    def show(self, rows: list[dict[str, Any]]) -> None:
        """Show what `view.row` has made, unless that is what is shown."""
        text = msgspec.json.encode(rows).decode()  # as NiceGUI would wrap each part of a list, and look into it
        if text != self._props["rows"]:
            self._props["rows"] = text
            self.update()


# ----------------------------------------------------------------------------- The effect of each pass of `default<Oz>`

# A stage is the pipeline up to a pass, applied as one action to the program as it came, whose functions are marked
# before where the level does that. So every stage is a program that LLVM makes, and the last one is that of
# `default<Oz>`, which is checked. LLVM has a pass for the inliner with its function passes as -Oz sets them, but none
# for a part of that. So what happens within is shown where nothing is inlined differently by the defaults of the
# inliner, and is one stage elsewhere.


WHOLE = "default<Oz>"
INLINER = "scc-oz-module-inliner"
AT_ONCE = 8  # stages of one request
TIMEOUT = 60.0  # seconds for clang to print its pipeline

_MANAGED = re.compile(r"((?:module|cgscc|function|loop|loop-mssa|devirt)(?:<[^>]*>)?)\((.*)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Stage:
    """The program after a part of the pipeline.

    Attributes:
        number: from 1.
        name: of the last pass of the part, with its options.
        actions: texts of marks and of the part, which lead here from the program as it came.
        state, cost: of the program there.
        gain: by how much the pass lowers the cost.
        effect: whether the pass changes the program.
    """

    number: int
    name: str
    actions: tuple[str, ...]
    state: int
    cost: float
    gain: float
    effect: bool


def _marks() -> tuple[str, ...]:
    """Return what `default<Oz>` does before its passes: since LLVM 23 it is -O2 for functions that it marks."""
    return ("mark<minsize>",) if find_toolchain().major >= 23 else ()


@functools.cache
def pipeline() -> tuple[str, ...]:
    """Return the elements of `default<Oz>` as clang prints them.

    Raises:
        ToolchainNotFound: when there is no clang.
        Refusal: when it prints none.
    """
    clang = find_toolchain().clang
    with scratch_folder() as folder:
        program = Path(folder, "empty.ll")
        program.write_text("")
        level = "-O2" if _marks() else "-Oz"
        options = ("-x", "ir", level, "-S", "-emit-llvm", "-o", os.devnull, "-mllvm", "-print-pipeline-passes")
        done = subprocess.run(
            [str(clang), "-Wno-override-module", *options, str(program)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            env={**os.environ, **loader_environment()},
        )
    elements = tuple(one for one in split_list(done.stdout.strip()) if one not in ("print", "verify"))
    if done.returncode or not elements:
        raise Refusal(503, f"{clang} does not print its passes: {done.stderr.strip()[-300:] or 'nothing was printed'}")
    return elements


def prefixes(elements: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each pass of a pipeline, whatever it is nested in, with the pipeline up to it."""
    for place, element in enumerate(elements):
        before = elements[:place]
        if (nested := _MANAGED.fullmatch(element)) is not None:
            for name, inner in prefixes(split_list(nested[2])):
                yield name, ",".join([*before, f"{nested[1]}({inner})"])
        else:
            yield element, ",".join([*before, element])


async def stages(session: ExplorerSession) -> AsyncIterator[_Stage]:
    """Yield the stages of -Oz of the program as it came, as they become known.

    Raises:
        Refusal: when this compiler has no -Oz, or its passes do not lead where -Oz leads.
    """
    if session.env.spec.worker != "llvm":
        raise Refusal(409, f"{session.env.spec.id} has no passes of LLVM: take an LLVM environment")
    printed = await in_thread(pipeline)
    exact = [INLINER if one.startswith("cgscc(") else one for one in printed]
    marks = _marks()
    whole, *marked = await session.try_all([WHOLE, *marks])
    coarse, fine = await session.try_all([",".join(exact), ",".join(printed)], marks)
    if coarse.error or coarse.state != whole.state:
        raise Refusal(409, f"the passes that clang prints do not lead where {WHOLE} leads: {coarse.error or 'another'}")
    parts = list(prefixes(printed if fine.state == whole.state else exact))
    number, main = 0, session.costs[0]
    state, cost = session.tree[0].state, session.tree[0].costs[main]

    async def tried() -> AsyncIterator[tuple[str, tuple[str, ...], Gain]]:
        for found in marked:
            yield found.action, marks, found
        for start in range(0, len(parts), AT_ONCE):
            chunk = parts[start : start + AT_ONCE]
            gains = await session.try_all([text for _, text in chunk], marks)
            for (name, text), found in zip(chunk, gains, strict=True):
                yield name, (*marks, text), found

    async for name, actions, found in tried():
        if found.state is None:
            raise Refusal(409, f"{name} fails: {found.error}")
        number, now = number + 1, found.costs[main]
        yield _Stage(number, name, actions, found.state, now, cost - now, found.state != state)
        state, cost = found.state, now


async def changes(
    session: ExplorerSession, before: Sequence[str], actions: Sequence[str], name: str = "Ir"
) -> list[str]:
    """Return how the program differs between two stages, in unified format.

    Args:
        session: whose program it is.
        before, actions: of the stages; none for the program as it came.
        name: the observation that is the program as text.
    """
    async with session.beginning() as env:
        found = await env.expand_texts([before, actions], observation_spaces=[name], reward_spaces=[])
    for one in found:
        if one.error is not None:
            raise one.error
    old, new = (str(one.observation[0]) for one in found)
    return await in_thread(lambda: difference(old, new, "before", "after"))


# -------------------------------------------------------------------- The panel with the program's text and its changes


class ChangesPanel:
    """Shows what the last action changed in the program, built where it is made.

    Args:
        session: whose program is shown.
        do: carries something out, and tells of its failure.
    """

    def __init__(self, session: ExplorerSession, do: Do) -> None:
        self._session = session
        self._do = do
        self._round = 0  # of what is shown; what belongs to an older one is not shown any more
        self._lines: list[str] | None = None  # of the difference that is shown
        texts = list(session.texts)
        with ui.row().classes("items-center w-full q-gutter-x-sm"):
            self._text = select(texts, "text", texts[0] if texts else None, self.show).props("borderless")
            self._text.visible = len(texts) > 1
            self._against = select([BEFORE, FIRST, ALONE], "compared with", BEFORE, self.show).props("borderless")
            self._beside = ui.checkbox("side by side", on_change=self._color).props("dense")
        self._said = ui.label().classes("text-caption ellipsis w-full")
        self._diff = ui.html("", sanitize=False).classes("diff w-full")
        self._diff.props('tabindex=0 role=region aria-label="Difference of the program" data-testid="diff"')

    @property
    def text(self) -> str:
        """The observation that is shown, "" if there is none."""
        return self._session.texts.get(str(self._text.value), "")

    async def show(self) -> None:
        """Show the present state."""
        await self._do(self._show)

    def show_lines(self, said: str, lines: list[str]) -> None:
        """Show another difference, until the session moves.

        Args:
            said: what it is.
            lines: in unified format.
        """
        self._round += 1
        self._said.text, self._lines = said, lines
        self._color()

    async def _show(self) -> None:
        self._round += 1
        round, session, tree = self._round, self._session, self._session.tree
        node, name = tree.present, self.text
        before = {BEFORE: tree.trail[-2] if len(tree.trail) > 1 else 0, FIRST: 0}.get(str(self._against.value))
        if before is None or before == node.number:
            text = await session.text(node.number, name)
            if round == self._round:
                self._said.text, self._lines = "the program" if node.number else "the program as it came", None
                self._diff.content = html.escape(text[:LONGEST])
            return
        lines = await session.difference(before, node.number, name)
        if round == self._round:
            of_one = before == node.parent and node.action
            changed = f"what {view.label(node.action)} changed" if of_one else "what changed"
            self.show_lines(f"{changed} (node {before} to {node.number})", lines)

    def _color(self) -> None:
        if self._lines is not None:
            self._diff.content = colored(self._lines, beside=bool(self._beside.value))


# ------------------------------ The part of the page with counts: of each function, and of features of the program


class CountsPanel:
    """Shows what there is how often now, and how that differs from before; built where it is made.

    Args:
        session: whose program is counted.
        do: carries something out, and tells of its failure.
        functions: whether to count what is in each function, not features of the program.
    """

    def __init__(self, session: ExplorerSession, do: Do, *, functions: bool = False) -> None:
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
    rows = []
    for name in dict.fromkeys([*then, *now]):
        (before, blocks_before), (instructions, blocks) = (one.get(name, (0, 0)) for one in (then, now))
        counts = {"instructions": instructions, "before": before, "blocks": blocks, "before ": blocks_before}
        rows.append({"function": name, **counts})
    return rows


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


# -------- The part of the page with a picture of the program: the control flow of a function, or the nest of loops

PICTURES = {"Ir": "CFG", "loop_tree": "Nest"}  # what is drawn of an observation


def picture_of(session: ExplorerSession) -> str:
    """Return what an environment's programs are drawn as, "" if there is nothing."""
    return next((name for observed, name in PICTURES.items() if observed in session.env.observation_spaces), "")


_SHOW_FIRST = """setTimeout(() => {
  const picture = document.querySelector('.picture'), box = picture?.querySelector('rect.box')?.getBBox();
  if (box) picture.scrollLeft = box.x + box.width / 2 - picture.clientWidth / 2;
}, 50)"""


class PicturePanel:
    """Draws the program of the present state, built where it is made.

    Args:
        session: whose program is drawn.
        id: of the session.
        do: carries something out, and tells of its failure.
    """

    def __init__(self, session: ExplorerSession, id: str, do: Do) -> None:
        self._session = session
        self._id = id
        self._do = do
        self._drawn: tuple[object, ...] = ()
        with ui.row().classes("items-center w-full"):
            self._function = select([], "function", None, self.show)
            self._whole = ui.checkbox("instructions", on_change=self.show).props("dense")
            self._svg = ui.link("SVG", "").props("download")
            self._dot = ui.link("dot", "").props("download")
            self._said = ui.label().classes("text-caption")
        for one in (self._function, self._whole, self._dot):
            one.visible = picture_of(session) == "CFG"
        self._picture = ui.html("", sanitize=False).classes("picture")
        self._picture.props('tabindex=0 role=region aria-label="Picture of the program" data-testid="picture"')

    async def show(self) -> None:
        """Draw the present state, if that is not what is drawn."""
        await self._do(self._draw)

    async def _draw(self) -> None:
        session = self._session
        number = session.tree.present.number
        text = await session.text(number)
        if picture_of(session) == "Nest":
            self._picture.content = nested(text, "nest of loops")
            self._link(self._svg, "nest.svg")
            return
        blocks = await in_thread(lambda: {name: len(found) for name, found in functions(text).items()})
        names = sorted(blocks)
        if self._function.options != names:
            chosen, largest = self._function.value, max(blocks, key=lambda name: blocks[name])
            self._function.set_options(names, value=chosen if chosen in blocks else largest)
        name, whole = str(self._function.value), bool(self._whole.value)
        if self._drawn == (number, name, whole):
            return
        self._drawn = number, name, whole
        query = urllib.parse.urlencode({"function": name, "instructions": whole})
        self._link(self._svg, f"cfg.svg?{query}")
        self._link(self._dot, f"cfg.dot?{query}")
        self._said.text = f"{blocks[name]} blocks"
        if blocks[name] > (most := session.limits.blocks):
            self._picture.content = html.escape(f"{name} has {blocks[name]} blocks; up to {most} are drawn: take dot")
            return
        self._picture.content = await in_thread(lambda: cfg(text, name, instructions=whole).svg())
        self._picture.client.run_javascript(_SHOW_FIRST)

    def _link(self, link: ui.link, picture: str) -> None:
        link.props["href"] = f"/sessions/{self._id}/{picture}"
        link.update()


# ------------------------------------------------------------------ The part of the page on which -Oz is explained


class Explanation:
    """A table of the passes of -Oz that change the program, built where it is made.

    Args:
        session: whose program is explained.
        do: carries something out, and tells of its failure.
        panel: returns the panel that shows what a pass changed.
    """

    def __init__(self, session: ExplorerSession, do: Do, panel: Callable[[], ChangesPanel]) -> None:
        self._session = session
        self._do = do
        self._panel = panel
        with ui.row().classes("items-center"):
            self._explain_button = ui.button("explain", on_click=self._explain).props("dense no-caps")
            self._explained = ui.label("default<Oz> of the program as it came, pass by pass").classes("text-caption")
        shown = {"number": "", "label": "pass", "gain": "gain", "cost": "cost", "go": ""}
        columns: list[dict[str, Any]] = [
            {"name": name, "label": label, "field": name, "align": "right" if name in ("gain", "cost") else "left"}
            for name, label in shown.items()
        ]
        self._stages = ui.table(rows=[], columns=columns, row_key="number").classes("tight w-full")
        self._stages.props("dense flat hide-pagination hide-no-data :rows-per-page-options=[0]")
        self._stages.add_slot("body", Path(__file__).with_name("stage_row.html").read_text())
        self._stages.on("go", lambda event: self._do(lambda: self._go_to_stage(event.args["actions"])))
        self._stages.on("changes", lambda event: self._do(lambda: self._show_changes(event.args)))

    async def _go_to_stage(self, actions: list[str]) -> None:
        await self._session.goto(0)
        await self._session.step(actions)

    async def _show_changes(self, row: dict[str, Any]) -> None:
        panel = self._panel()
        lines = await changes(self._session, row["before"], row["actions"], panel.text)
        panel.show_lines(f"what {row['label']}, pass {row['number']} of -Oz, changed", lines)

    async def _explain(self) -> None:
        self._explain_button.disable()
        rows: list[dict[str, Any]] = []
        count, before = 0, tuple[str, ...]()
        try:
            async for stage in stages(self._session):
                count = stage.number
                if stage.effect:
                    rows.append(_row(stage, before))
                before = stage.actions
                if not stage.number % 8:
                    self._stages.rows = list(rows)
                    self._explained.text = f"{count} passes so far"
            self._stages.rows = rows
            self._explained.text = f"{count} passes, of which {len(rows)} change the program; the others are hidden"
        except (AiocgError, DatasetError, TreeError, Refusal) as error:
            self._explained.text = str(error)
        finally:
            self._explain_button.enable()


def _row(stage: _Stage, before: Sequence[str]) -> dict[str, Any]:
    return {
        "before": before,
        "number": stage.number,
        "name": stage.name,
        "label": view.label(stage.name),
        "actions": stage.actions,
        "gain": view.change(stage.gain) or "0",
        "cost": view.number(stage.cost),
        "color": view.color(stage.gain),
    }


# -------------------------------- The part of the page on which searches are started, watched, paused and compared

USUAL = 10.0  # seconds of a search


class SearchPanel:
    """Chooses a search, shows how far it is and compares it with others, built where it is made; `show` fills it.

    Args:
        sessions: where the searches run.
        id: of the session.
        do: carries something out, and tells of its failure.
    """

    def __init__(self, sessions: Sessions, id: str, do: Do) -> None:
        self._sessions = sessions
        self._id = id
        self._do = do
        self._session = sessions.find(id)
        known = watchable(self._session)
        with ui.row().classes("items-center w-full q-gutter-x-sm"):
            self._name = select(list(known), "search", next(iter(known), None))
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
        self._sessions.search_of(self._id).start(str(self._name.value), seconds, here=here)
        self.show()

    async def _stop(self) -> None:
        await self._sessions.search_of(self._id).pause()

    async def _go_on(self) -> None:
        self._sessions.search_of(self._id).resume(float(self._seconds.value or 0))
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
        alike = {_title(run): run for run in runs if run.cost == last.cost}
        return view.chart({name: run.points for name, run in alike.items()}, last.lines, f"lowest {last.cost}")

    async def _open(self) -> None:
        """Show two searches beside each other: how they went, and how the programs differ that they found."""
        runs = [run for run in self._sessions.search_of(self._id).runs if run.node is not None]
        names = {run.number: _title(run) for run in runs}
        with ui.dialog().props("maximized") as dialog, ui.card().classes("w-full").props('aria-label="Compare"'):
            with ui.row().classes("items-center w-full"):
                one = select(names, "one", runs[-2].number)
                other = select(names, "other", runs[-1].number)
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


def _title(run: Run) -> str:
    """Return what a search is called among others."""
    return f"{run.number} {_from(run)}"


def _from(run: Run) -> str:
    return f"{run.name} from node {run.origin}" if run.origin else run.name


# ----------------------------------------------------------------------------- The list of actions and their gains

PATIENCE = 1.5  # seconds after which the gains are shown that are known


class ActionList:
    """A list of actions, the best first, of which a click applies one; built where it is made.

    Args:
        session: whose actions are listed.
        do: carries something out, and tells of its failure.
    """

    def __init__(self, session: ExplorerSession, do: Do) -> None:
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
        self._rows = [_action_row(gain, names[gain.action]) for gain in sorted(known, key=Gain.rank)]
        untried = (Gain(text, {}, 0.0, None, True) for text in texts if text not in tried)
        self._rows += [_action_row(gain, names[gain.action], tried=False) for gain in untried]
        self._list()

    def _fits(self, action: str) -> bool:
        return (self._filter.value or "").lower() in action.lower()

    def _list(self) -> None:
        every = self._noops.value
        self._actions.show([row for row, shown in self._rows if self._fits(row["id"]) and (shown or every)])


def _action_row(gain: Gain, name: str, tried: bool = True) -> tuple[dict[str, Any], bool]:
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
