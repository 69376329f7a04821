"""Elements of the page: charts, and lists of buttons, of which there may be hundreds (actions, nodes of the tree)."""

import html
from collections.abc import Callable, Iterator, Mapping
from itertools import islice, zip_longest
from typing import Any

import msgspec
from nicegui import ui

DIFF_LINES = 3000  # that are shown
KINDS = {"+": "add", "-": "del", "@": "at"}

STYLE = """
body { font-family: system-ui, sans-serif; }
.items-center { align-items: center; } .w-full { width: 100%; } .w-20 { width: 5rem; } .w-32 { width: 8rem; }
.diff { font-family: ui-monospace, monospace; font-size: 12px; white-space: pre; overflow: auto; line-height: 1.45; }
.diff .add { background: #16a34a26; } .diff .del { background: #dc262626; } .diff .at { opacity: .6; }
.beside { display: grid; grid-template-columns: 1fr 1fr; column-gap: 8px; }
.beside > div { white-space: pre-wrap; overflow-wrap: anywhere; padding-left: 4px; }
.beside > .whole { grid-column: 1 / 3; }
button:focus-visible { outline: 2px solid #0d9488; outline-offset: -2px; }
.rows { list-style: none; margin: 0; padding: 0; width: 100%; overflow: hidden auto; }
.rows button { display: flex; gap: 8px; width: 100%; padding: 4px 8px; border: 0; background: none; color: inherit;
  font: inherit; text-align: left; cursor: pointer; }
.rows button:hover { background: #7b879422; } .rows button[aria-current] { font-weight: bold; }
.rows.action button { justify-content: space-between; }
.rows.action .ellipsis { white-space: normal; overflow-wrap: anywhere; } .rows .faint { opacity: .7; }
.columns { display: grid; grid-template-columns: minmax(240px, 300px) minmax(0, 1fr); gap: 12px; }
.rows.action { height: calc(100vh - 130px); }
.picture { overflow: auto; width: 100%; max-height: calc(42vh - 70px); } .picture svg { max-width: none; }
.tabbed { height: 42vh; } .changes .diff { height: calc(58vh - 170px); }
@media (min-width: 1280px) {
  .states { display: grid; grid-template-columns: minmax(450px, 4fr) minmax(0, 5fr); gap: 12px; }
  .picture { max-height: calc(100vh - 210px); }
  .tabbed { height: calc(100vh - 120px); } .changes .diff { height: calc(100vh - 110px); }
}
.body--dark svg.aiocg .box { fill: #1f2937; } .body--dark svg.aiocg .box.here { fill: #115e59; }
.body--dark svg.aiocg .box.depth-1 { fill: #22323a; } .body--dark svg.aiocg .box.depth-2 { fill: #23433f; }
.body--dark svg.aiocg .box.depth-3 { fill: #155e4f; } .body--dark svg.aiocg text.inside { fill: #e5e7eb; }
.gain { font-variant-numeric: tabular-nums; }
.q-tab { padding: 0 5px; } .q-tab__label { font-size: 13px; }
.win { color: #15803d; } .loss { color: #b91c1c; }
.body--dark .win { color: #4ade80; } .body--dark .loss { color: #f87171; }
.lines .q-notification__message { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 40vh; overflow: auto; }
@media (max-width: 1000px) { .levels { display: none; } }
.tight td, .tight th { height: 30px !important; padding: 0 8px !important; }
.tight .q-btn { min-height: 28px; }
"""

STAGE_ROW = """
<q-tr :props="props">
  <q-td>{{ props.row.number }}</q-td>
  <q-td><q-btn flat dense no-caps no-wrap :label="props.row.label" :title="props.row.name"
    :aria-label="'show what ' + props.row.name + ' changed'" @click="$parent.$emit('changes', props.row)" /></q-td>
  <q-td class="text-right gain" :class="props.row.color">{{ props.row.gain }}</q-td>
  <q-td class="text-right gain">{{ props.row.cost }}</q-td>
  <q-td><q-btn flat dense no-caps label="go" :aria-label="'go to the program after ' + props.row.name"
    @click="$parent.$emit('go', props.row)" /></q-td>
</q-tr>
"""


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
