"""Layouts in which stages are joined, derived from the templates of each stage.

The templates' loops stay as they are, but for the shared axis, which becomes the outermost loop. Stages fit together
if a turn of it has as many elements in each, and a block as many threads.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from aiocg.workers.loops.joins import check_joins
from aiocg.workers.loops.layout import Layout, Place, arrange, arranged
from aiocg.workers.loops.nest import BLOCKS, THREADS, Nest
from aiocg.workers.loops.primitives import Refusal
from aiocg.workers.loops.rules import Rules
from aiocg.workers.loops.schedule import Schedule

MOST = 24  # schedules
LENGTHS = {"cpu": (1, 8, 4, 2, 16), "cuda": (1, 4)}  # elements of the shared axis in a turn
SHARING = (256, 128, 512, 64, 32, 1024)  # threads that go along another axis
RANKS = 3  # of the templates of a stage that are tried

Key = tuple[int, int]  # the length of a turn, and the threads of a block


def joined_layouts(schedule: Schedule, templates: Sequence[Sequence[Layout]]) -> tuple[tuple[Layout, ...], ...]:
    """Return layouts for all stages in which some are joined, the most promising first; none if none can be.

    Args:
        schedule: the initial schedule.
        templates: layouts for each stage, the most promising first.
    """
    alone = tuple(layouts[0] if layouts else () for layouts in templates)
    together: list[list[tuple[Layout, ...]]] = []
    first = 0
    while first < len(alone):
        after = first + 1
        for axes in _joinable(schedule.nests[first:], schedule.rules):
            found = _combinations(schedule.nests[first:], axes, templates[first:], schedule.rules)
            if found:
                after = first + len(axes)
                together.append([(*alone[:first], *layouts, *alone[after:]) for layouts in found])
                break
        first = after
    legal: dict[tuple[Layout, ...], None] = {}
    for rank in range(max(map(len, together), default=0)):
        for group in together:
            if rank < len(group) and _is_legal(schedule, group[rank]):
                legal[group[rank]] = None
    return tuple(legal)[:MOST]


def _is_legal(schedule: Schedule, layouts: tuple[Layout, ...]) -> bool:
    try:
        arrange(schedule, layouts)
    except Refusal:
        return False
    return True


def _joinable(nests: Sequence[Nest], rules: Rules) -> list[list[str]]:
    """Return axes by which stages can be joined to the first one, those of the most stages first."""
    grown = (_grown(nests, axis.name, rules) for axis in nests[0].stage.spatial)
    return sorted((axes for axes in grown if len(axes) > 1), key=len, reverse=True)


def _grown(nests: Sequence[Nest], axis: str, rules: Rules) -> list[str]:
    """Return the axes by which stages can be joined to the first one along one of its axes."""
    axes, group = [axis], [_outermost(nests[0], axis, "block.x" if rules.shared_memory else "")]
    for nest in nests[1:]:
        for own in nest.stage.spatial:
            trial = _outermost(nest, own.name, "join")
            try:
                check_joins([*group, trial], rules)
            except Refusal:
                continue
            axes.append(own.name)
            group.append(trial)
            break
        else:
            break
    return axes


def _outermost(nest: Nest, axis: str, kind: str) -> Nest:
    return arranged(nest, (Place(axis, kind=kind), *(Place(one) for one in nest.axes if one != axis)))


def _combinations(
    nests: Sequence[Nest], axes: Sequence[str], templates: Sequence[Sequence[Layout]], rules: Rules
) -> list[tuple[Layout, ...]]:
    """Return layouts of joined stages that fit together, those of the best templates first."""
    members: list[dict[Key, list[Layout]]] = []
    for nest, axis, layouts in zip(nests, axes, templates, strict=False):
        found: dict[Key, list[Layout]] = {}
        for layout in layouts:
            for key, own in _led(layout, axis, nest.extent, rules, leads=not members):
                if own not in found.setdefault(key, []):
                    found[key].append(own)
        members.append(found)
    common = [key for key in members[0] if all(key in member for member in members)]
    ranks = sorted(product(range(RANKS), repeat=2), key=sum)  # of stages with sums, and of those without
    chosen = [[pair[not nest.stage.reducer] for nest in nests[: len(members)]] for pair in ranks]
    return [
        tuple(member[key][min(at, len(member[key]) - 1)] for at, member in zip(rank, members, strict=True))
        for rank in chosen
        for key in common
    ]


def _led(
    layout: Layout, axis: str, extent: Mapping[str, int], rules: Rules, *, leads: bool
) -> Iterator[tuple[Key, Layout]]:
    """Yield variants of a layout in which an axis is outermost, for several lengths and blocks."""
    others = [place for place in layout if (place.axis, place.turns) != (axis, 0)]
    if len(others) == len(layout):
        return  # there is no loop that goes over the whole axis
    inner = [place._replace(kind="") if place.kind in (*BLOCKS, "parallel") else place for place in others]
    inner = [place for place in inner if place.kind not in THREADS]
    kind = "parallel" * any(place.kind == "parallel" for place in layout)
    threads: list[list[Place]] = [[]]
    if rules.shared_memory:
        kind = "block.x"
        bound = [place for place in layout if place.kind == "thread.x" and place.axis != axis]
        threads = [[one._replace(turns=count)] for one in bound for count in SHARING if count <= extent[one.axis]]
    for length, own in product(LENGTHS[rules.target], threads):
        kept = inner
        inside = math.prod(place.turns for place in inner if place.axis == axis)
        if length % inside:  # what is unrolled of the axis can be left out
            kept = [place for place in inner if (place.axis, place.kind) != (axis, "unroll")]
            inside = math.prod(place.turns for place in kept if place.axis == axis)
        if length % inside == 0 and length <= extent[axis]:
            between = [Place(axis, length // inside)] if length > inside else []
            key = (length, math.prod(place.turns for place in own))
            yield key, (Place(axis, kind=kind if leads else "join"), *own, *between, *kept)
