"""Layouts: the loops of every statement as one text, so that a whole schedule is one action.

`nests<i,j,k,i:8=unroll,j:16=vectorize;i=parallel,j>` has the loops of two statements, each from the outermost to the
innermost. `axis:turns` is a loop of so many turns, and an axis alone has as many as its other loops leave, rounded up.
Each loop of an axis goes over what those after it do in one turn, and the one without turns over what all others do,
wherever it stands: in `nests<i=block.x,k:64=thread.x,k>` neighbouring threads have neighbouring elements. `=` gives its
kind, and `@` names tensors that are staged in it: `k=pipeline@A@B`. A statement without loops keeps those of the start.
In `nests<i,j;i=join,j>` the second statement is computed in the turns of the first one's outermost loop.
"""

import math
import re
from dataclasses import replace
from typing import NamedTuple

from aiocg.workers.loops import _nest as nests
from aiocg.workers.loops._nest import Kind, Loop, Nest, Refusal
from aiocg.workers.loops._rules import check, check_joins
from aiocg.workers.loops._schedule import BINDINGS, KINDS, MAX_LOOPS, Schedule

NESTS = "nests"
_TEXT = re.compile(rf"{NESTS}<([^<>]*)>")
_LOOP = re.compile(r"(?P<axis>\w+)(?::(?P<turns>[1-9][0-9]{0,8}))?(?:=(?P<kind>[a-z.]+)(?P<staged>(?:@\w+)*))?")
_KINDS: dict[str, Kind] = {**KINDS, **{kind: kind for kind in BINDINGS}}


class Place(NamedTuple):
    """A loop of a layout.

    Attributes:
        axis: the axis that it goes over.
        turns: its turns; 0 for as many as the axis' other loops leave.
        kind: a primitive that gives a loop its kind, such as `unroll`, or the index that it is bound to; "" for none.
        staged: the tensors that are staged in it.
    """

    axis: str
    turns: int = 0
    kind: str = ""
    staged: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The loop as text."""
        kind = "@".join([self.kind or "serial" * bool(self.staged), *self.staged])
        return self.axis + (f":{self.turns}" if self.turns else "") + (f"={kind}" if kind else "")


Layout = tuple[Place, ...]


def write_layout(layout: Layout) -> str:
    """Return the loops of a statement as text."""
    return ",".join(place.text for place in layout)


def read_layouts(text: str) -> tuple[Layout, ...] | None:
    """Return the layouts of an action, None if it is another action.

    Raises:
        ValueError: if a loop is none.
    """
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    return tuple(tuple(map(_place, part.split(",") if part else ())) for part in found[1].split(";"))


def arrange(first: Schedule, layouts: tuple[Layout, ...]) -> Schedule:
    """Return the schedule with these layouts.

    Args:
        first: the initial schedule.
        layouts: one for each statement.

    Raises:
        Refusal: if there are more or fewer layouts than statements, one does not fit its statement, or the target does
            not support the loops.
    """
    if len(layouts) != len(first.nests):
        raise Refusal(f"there are {len(layouts)} layouts and {len(first.nests)} statements")
    nests = tuple(arranged(nest, layout) if layout else nest for nest, layout in zip(first.nests, layouts, strict=True))
    if sum(len(nest.loops) for nest in nests) > MAX_LOOPS:
        raise Refusal(f"there would be more than {MAX_LOOPS} loops")
    for nest in nests:
        check(nest, first.rules)
    check_joins(nests, first.rules)
    return replace(first, nests=nests)


def arranged(nest: Nest, layout: Layout) -> Nest:
    """Return a statement's loops in a layout; whether a target supports them is for `check` to say.

    Args:
        nest: the loops at the start.
        layout: the layout.

    Raises:
        Refusal: if it does not fit the statement.
    """
    if {place.axis for place in layout} != nest.axes.keys():
        raise Refusal(f"the axes of {nest.stage.tensor} are {', '.join(nest.axes)}")
    variables: dict[int, str] = {}
    for axis in nest.axes:
        places = [index for index, place in enumerate(layout) if place.axis == axis]
        places.sort(key=lambda index: layout[index].turns != 0)  # the one that has what is left goes over the others
        nest = _cut(nest, axis, [layout[index].turns for index in places])
        halves = [f"{axis}{'.1' * depth}.0" for depth in range(len(places) - 1)]
        variables |= zip(places, [*halves, axis + ".1" * len(halves)], strict=True)
    loops = {loop.variable: loop for loop in nest.loops}
    nest = replace(
        nest, loops=tuple(_of_kind(loops[variables[index]], place.kind) for index, place in enumerate(layout))
    )
    for index, place in enumerate(layout):
        for tensor in place.staged:
            nest = nests.stage(nest, index, tensor)
    return nest


def _cut(nest: Nest, axis: str, turns: list[int]) -> Nest:
    """Split an axis into loops of so many turns, 0 for what is left, the outermost first."""
    if 0 in turns[1:]:
        raise Refusal(f"only one loop of {axis} has as many turns as are left")
    extent = nest.extent[axis]
    inside = math.prod(turns[1:])
    if turns[0] not in (0, -(-extent // inside)):
        raise Refusal(f"the loops of {axis} have {turns[0] * inside} turns, and {axis} has {extent}")
    variable = axis
    for index in range(1, len(turns)):
        position = next(at for at, loop in enumerate(nest.loops) if loop.variable == variable)
        nest = nests.split(nest, position, math.prod(turns[index:]))
        variable = f"{variable}.1"
    return nest


def _of_kind(loop: Loop, kind: str) -> Loop:
    return loop._replace(kind=_KINDS[kind]) if kind else loop


def _place(text: str) -> Place:
    found = _LOOP.fullmatch(text)
    if found is None or (found["kind"] or "serial") not in _KINDS:
        raise ValueError(f"{text!r} is no loop of a layout, such as i, i:8 or i:8=unroll")
    staged = tuple((found["staged"] or "").split("@")[1:])
    return Place(found["axis"], int(found["turns"] or 0), found["kind"] or "", staged)
