"""Loop nests: in which order one stage is computed. They are values; what changes them is in `primitives`.

Each axis begins as one loop. A split makes two loops of one, a fusion one of two. The variables of loops that are no
more, axes among them, are computed from those that are there, as the relations say:

    split:   parent = outer * factor + inner      and the body is left out where parent >= its extent
    fusion:  outer = fused // extent,  inner = fused % extent
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from aiocg.workers.loops.expression import Stage

__all__ = ["BLOCKS", "THREADS", "Fusion", "Guard", "Kind", "Linear", "Loop", "Nest", "Relation", "Split", "Staging",
           "initial_nest"]  # fmt: skip

Kind = Literal[
    "serial", "unrolled", "vectorized", "parallel",
    "block.x", "block.y", "block.z", "thread.x", "thread.y", "thread.z",
]  # fmt: skip
BLOCKS: tuple[Kind, ...] = ("block.x", "block.y", "block.z")
THREADS: tuple[Kind, ...] = ("thread.x", "thread.y", "thread.z")


class Loop(NamedTuple):
    """One loop.

    Attributes:
        variable: its name, which no other variable of the nest has.
        extent: how often it runs, from 0 to `extent` - 1, as far as no guard leaves something out.
        kind: how it is carried out.
    """

    variable: str
    extent: int
    kind: Kind = "serial"


class Split(NamedTuple):
    """parent = outer * factor + inner."""

    parent: str
    outer: str
    inner: str
    factor: int


class Fusion(NamedTuple):
    """outer = fused // extent, inner = fused % extent; `extent` is the inner one's."""

    outer: str
    inner: str
    fused: str
    extent: int


Relation = Split | Fusion


class Guard(NamedTuple):
    """The body is left out where `variable` >= `bound`."""

    variable: str
    bound: int


class Staging(NamedTuple):
    """A tile of a tensor is copied to the memory that a block's threads share, anew for each turn of a loop.

    Attributes:
        tensor: what is copied.
        variable: of the loop in whose body the copy is used.
    """

    tensor: str
    variable: str


class Linear(NamedTuple):
    """A sum of multiples of loops' variables.

    Attributes:
        coefficients: by variable, none of them 0.
    """

    coefficients: Mapping[str, int]


@dataclass(frozen=True)
class Nest:
    """The loops of one stage.

    Attributes:
        stage: what is computed.
        loops: from the outermost to the innermost.
        relations: how variables that are no loops any more are computed. A relation's left sides depend on variables
            of loops and of later relations.
        extents: of all variables, those of former loops too, by name.
        stagings: what is copied to shared memory.
    """

    stage: Stage
    loops: tuple[Loop, ...]
    relations: tuple[Relation, ...] = ()
    extents: tuple[tuple[str, int], ...] = ()
    stagings: tuple[Staging, ...] = ()

    @cached_property
    def extent(self) -> Mapping[str, int]:
        """The extent of each variable."""
        return dict(self.extents)

    @cached_property
    def axes(self) -> Mapping[str, frozenset[str]]:
        """The axes that each variable is a part of, more than one where loops are fused."""
        found = {axis.name: frozenset((axis.name,)) for axis in self.stage.axes}
        for relation in self.relations:
            if isinstance(relation, Split):
                found[relation.outer] = found[relation.inner] = found[relation.parent]
            else:
                found[relation.fused] = found[relation.outer] | found[relation.inner]
        return found

    @cached_property
    def reductions(self) -> frozenset[str]:
        """The variables, of loops and of former ones, that an axis depends on which is reduced over."""
        reduced = {axis.name for axis in self.stage.reduction}
        return frozenset(variable for variable, axes in self.axes.items() if axes & reduced)

    @cached_property
    def guards(self) -> tuple[Guard, ...]:
        """What must hold for the body to be carried out: one guard for each split with a remainder."""
        splits = (relation for relation in self.relations if isinstance(relation, Split))
        return tuple(
            Guard(split.parent, self.extent[split.parent])
            for split in splits
            if self.extent[split.parent] % split.factor
        )

    @cached_property
    def dependencies(self) -> Mapping[str, frozenset[str]]:
        """The loops that each variable depends on."""
        found = {loop.variable: frozenset((loop.variable,)) for loop in self.loops}
        for relation in reversed(self.relations):
            if isinstance(relation, Split):
                found[relation.parent] = found[relation.outer] | found[relation.inner]
            else:
                found[relation.outer] = found[relation.inner] = found[relation.fused]
        return found

    @cached_property
    def sources(self) -> Mapping[str, Relation]:
        """The relation that computes each variable which is no loop's."""
        found: dict[str, Relation] = {}
        for relation in self.relations:
            if isinstance(relation, Split):
                found[relation.parent] = relation
            else:
                found[relation.outer] = found[relation.inner] = relation
        return found

    @cached_property
    def depth(self) -> Mapping[str, int]:
        """The position of the innermost loop that each variable depends on: there it can be computed."""
        position = {loop.variable: index for index, loop in enumerate(self.loops)}
        return {variable: max(map(position.__getitem__, loops)) for variable, loops in self.dependencies.items()}

    @cached_property
    def linear(self) -> Mapping[str, Linear | None]:
        """Each variable as a sum of multiples of loops' variables, None where it is none, which fusions make."""
        found: dict[str, Linear | None] = {loop.variable: Linear({loop.variable: 1}) for loop in self.loops}
        for relation in reversed(self.relations):
            if isinstance(relation, Split):
                outer, inner = found[relation.outer], found[relation.inner]
                found[relation.parent] = None if outer is None or inner is None else _sum(outer, relation.factor, inner)
            else:
                found[relation.outer] = found[relation.inner] = None
        return found

    def values(self, turns: Mapping[str, int]) -> dict[str, int]:
        """Return the values of all variables, axes among them, from those of the loops."""
        found = dict(turns)
        for relation in reversed(self.relations):
            if isinstance(relation, Split):
                found[relation.parent] = found[relation.outer] * relation.factor + found[relation.inner]
            else:
                found[relation.outer], found[relation.inner] = divmod(found[relation.fused], relation.extent)
        return found


def initial_nest(stage: Stage) -> Nest:
    """Return the nest in the order of the text: a loop for each axis of the result, then for each reduced one."""
    loops = tuple(Loop(axis.name, axis.extent) for axis in stage.axes)
    return Nest(stage, loops, extents=tuple(sorted((loop.variable, loop.extent) for loop in loops)))


def _sum(outer: Linear, factor: int, inner: Linear) -> Linear:
    """Return outer * factor + inner; no loop is in both, since each loop is made once."""
    scaled = {variable: factor * coefficient for variable, coefficient in outer.coefficients.items()}
    return Linear({**scaled, **inner.coefficients})
