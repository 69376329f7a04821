"""Loop nests: the execution order of one stage. They are immutable; `primitives` derives new ones.

Each axis begins as one loop. A split turns one loop into two, a fusion two into one. Variables of former loops,
including axes, are computed from the current ones by the relations:

    split:   parent = outer * factor + inner      and the body is skipped where parent >= its extent
    fusion:  outer = fused // extent,  inner = fused % extent
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from aiocg.workers.loops._expression import Read, Stage

Kind = Literal[
    "serial", "unrolled", "vectorized", "parallel",
    "block.x", "block.y", "block.z", "thread.x", "thread.y", "thread.z", "pipelined", "joined",
    "tensor",
]  # fmt: skip
BLOCKS: tuple[Kind, ...] = ("block.x", "block.y", "block.z")
THREADS: tuple[Kind, ...] = ("thread.x", "thread.y", "thread.z")


class Loop(NamedTuple):
    """One loop.

    Attributes:
        variable: its name, unique in the nest.
        extent: its number of iterations, from 0 to `extent` - 1, before guards.
        kind: how it is executed.
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
    """The body is skipped where `variable` >= `bound`."""

    variable: str
    bound: int


class Staging(NamedTuple):
    """A copy of a tensor's tile to a block's shared memory in each iteration of a loop.

    Attributes:
        tensor: the tensor's name.
        variable: the variable of the loop whose body uses the copy.
    """

    tensor: str
    variable: str


@dataclass(frozen=True)
class Nest:
    """The loops of one stage.

    Attributes:
        stage: what is computed.
        loops: from the outermost to the innermost.
        relations: how variables of former loops are computed. A relation's left-hand sides depend on variables of loops
            and of later relations.
        extents: of all variables, including former loops, by name.
        stagings: the copies to shared memory.
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
        """The axes that each variable is a part of; several for fused loops."""
        found = {axis.name: frozenset((axis.name,)) for axis in self.stage.axes}
        for relation in self.relations:
            if isinstance(relation, Split):
                found[relation.outer] = found[relation.inner] = found[relation.parent]
            else:
                found[relation.fused] = found[relation.outer] | found[relation.inner]
        return found

    @cached_property
    def reductions(self) -> frozenset[str]:
        """The variables, including former ones, that a reduction axis depends on."""
        reduced = {axis.name for axis in self.stage.reduction}
        return frozenset(variable for variable, axes in self.axes.items() if axes & reduced)

    @cached_property
    def guards(self) -> tuple[Guard, ...]:
        """The guards of the body: one for each split with a remainder."""
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
        """The relation that computes each former variable."""
        found: dict[str, Relation] = {}
        for relation in self.relations:
            if isinstance(relation, Split):
                found[relation.parent] = relation
            else:
                found[relation.outer] = found[relation.inner] = relation
        return found

    @cached_property
    def depth(self) -> Mapping[str, int]:
        """For each variable the position of the innermost loop that it depends on, where it can be computed."""
        position = {loop.variable: index for index, loop in enumerate(self.loops)}
        return {variable: max(map(position.__getitem__, loops)) for variable, loops in self.dependencies.items()}

    def varies(self, read: Read, variable: str) -> bool:
        """Say whether other elements are read in other turns of a loop."""
        return any(variable in self.dependencies[axis] for axis in read.axes)

    def values(self, turns: Mapping[str, int]) -> dict[str, int]:
        """Return the values of all variables, including axes, from those of the loops."""
        found = dict(turns)
        for relation in reversed(self.relations):
            if isinstance(relation, Split):
                found[relation.parent] = found[relation.outer] * relation.factor + found[relation.inner]
            else:
                found[relation.outer], found[relation.inner] = divmod(found[relation.fused], relation.extent)
        return found


def initial_nest(stage: Stage) -> Nest:
    """Return the nest in textual order: a loop for each axis of the result, then for each reduction axis."""
    loops = tuple(Loop(axis.name, axis.extent) for axis in stage.axes)
    return Nest(stage, loops, extents=tuple(sorted((loop.variable, loop.extent) for loop in loops)))
