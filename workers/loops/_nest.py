"""Loop nests: the execution order of one stage. They are immutable; transformations return equivalent nests.

Each axis begins as one loop. A split turns one loop into two, a fusion two into one. Variables of former loops,
including axes, are computed from the current ones by the relations:

    split:   parent = outer * factor + inner      and the body is skipped where parent >= its extent
    fusion:  outer = fused // extent,  inner = fused % extent

Transformations raise `Refusal` with the reason where there is no equivalent nest. Loops are given by position, 0 for
the outermost. What a device supports is checked in `_rules`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, TypeVar

from aiocg.workers.loops._expression import Read, Stage

Kind = Literal[
    "serial", "unrolled", "vectorized", "parallel",
    "block.x", "block.y", "block.z", "thread.x", "thread.y", "thread.z", "pipelined", "joined",
    "tensor",
]  # fmt: skip
BLOCKS: tuple[Kind, ...] = ("block.x", "block.y", "block.z")
THREADS: tuple[Kind, ...] = ("thread.x", "thread.y", "thread.z")
T = TypeVar("T")


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
        pairs = ((Guard(split.parent, self.extent[split.parent]), split.factor) for split in splits)
        return tuple(guard for guard, factor in pairs if guard.bound % factor)

    @cached_property
    def dependencies(self) -> Mapping[str, frozenset[str]]:
        """The loops that each variable depends on."""
        own = {loop.variable: frozenset((loop.variable,)) for loop in self.loops}
        return self.derived(own, lambda outer, inner, _: outer | inner, lambda fused, _: (fused, fused))

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

    def derived(
        self, found: dict[str, T], joined: Callable[[T, T, int], T], parted: Callable[[T, int], tuple[T, T]]
    ) -> dict[str, T]:
        """Return what all variables have, from what those of the loops have.

        Args:
            found: by the variables of the loops; the others are added here.
            joined: returns what a variable has that is split, from the outer part, the inner one and its extent.
            parted: returns what two fused variables have, from the fused one and the extent of the inner.
        """
        for relation in reversed(self.relations):
            if isinstance(relation, Split):
                found[relation.parent] = joined(found[relation.outer], found[relation.inner], relation.factor)
            else:
                found[relation.outer], found[relation.inner] = parted(found[relation.fused], relation.extent)
        return found

    def values(self, turns: Mapping[str, int]) -> dict[str, int]:
        """Return the values of all variables, including axes, from those of the loops."""
        return self.derived(dict(turns), lambda outer, inner, factor: outer * factor + inner, divmod)


def initial_nest(stage: Stage) -> Nest:
    """Return the nest in textual order: a loop for each axis of the result, then for each reduction axis."""
    loops = tuple(Loop(axis.name, axis.extent) for axis in stage.axes)
    return Nest(stage, loops, extents=tuple(sorted((loop.variable, loop.extent) for loop in loops)))


# ------------------------------------------------------------------------------------------------------ transformations

STAGING: tuple[Kind, ...] = ("serial", "pipelined")  # the kinds of loops that tensors can be staged in
LONGEST_LOOP = 2**31 - 1  # iterations, which a device counts in 32 bits


class Refusal(Exception):
    """A nest cannot be changed as requested.

    Attributes:
        reason: the reason, as a sentence.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def split(nest: Nest, position: int, factor: int) -> Nest:
    """Split a loop in two, the inner one with `factor` iterations. A guard handles the remainder, if any.

    Splitting a fused loop by its inner loop's extent restores the two loops.

    Args:
        nest: the nest.
        position: the loop's position.
        factor: a number from 1 to the loop's extent.

    Raises:
        Refusal: if the loop is not serial, a tensor is staged in it, or the factor is not in that range.
    """
    loop = _plain(nest, position, "split")
    if not 1 <= factor <= loop.extent:
        raise Refusal(f"{loop.variable} has {loop.extent} turns and cannot be split by {factor}")
    for relation in nest.relations:
        if isinstance(relation, Fusion) and relation.fused == loop.variable and relation.extent == factor:
            return _remade(nest, position, 1, (relation.outer, relation.inner), removed=relation)
    outer = Loop(f"{loop.variable}.0", -(-loop.extent // factor))
    inner = Loop(f"{loop.variable}.1", factor)
    return _derived(nest, position, 1, (outer, inner), Split(loop.variable, outer.variable, inner.variable, factor))


def swap(nest: Nest, position: int) -> Nest:
    """Exchange a loop with the next inner one.

    Raises:
        Refusal: if there is no inner loop.
    """
    outer, inner = _pair(nest, position)
    return replace(nest, loops=(*nest.loops[:position], inner, outer, *nest.loops[position + 2 :]))


def fuse(nest: Nest, position: int) -> Nest:
    """Fuse a loop with the next inner one. Fusing the two halves of a split restores the loop.

    Raises:
        Refusal: if there is no inner loop, one of them is not serial or has a tensor staged in it, only one of them is
            a reduction loop, they are parts of one axis but not the halves of one split, or the loop would be too long.
    """
    outer, inner = _pair(nest, position)
    for loop_position in (position, position + 1):
        _plain(nest, loop_position, "fused")
    for relation in nest.relations:
        if isinstance(relation, Split) and (relation.outer, relation.inner) == (outer.variable, inner.variable):
            return _remade(nest, position, 2, (relation.parent,), removed=relation)
    if (outer.variable in nest.reductions) != (inner.variable in nest.reductions):
        raise Refusal(f"only one of {outer.variable} and {inner.variable} is reduced over")
    if shared := nest.axes[outer.variable] & nest.axes[inner.variable]:
        both = f"{outer.variable} and {inner.variable}"
        raise Refusal(f"{both} are parts of {min(shared)}, but not the two halves of one split")
    fused = Loop(f"({outer.variable}*{inner.variable})", outer.extent * inner.extent)
    if fused.extent > LONGEST_LOOP:
        raise Refusal(f"the loop would have {fused.extent} turns, more than {LONGEST_LOOP}")
    return _derived(nest, position, 2, (fused,), Fusion(outer.variable, inner.variable, fused.variable, inner.extent))


def set_kind(nest: Nest, position: int, kind: Kind) -> Nest:
    """Change the kind of a loop; tensor cores carry out that loop and the next two inner ones, or none of them.

    Raises:
        Refusal: if it already has that kind.
    """
    loop = nest.loops[position]
    if loop.kind == kind:
        raise Refusal(f"{loop.variable} is {kind} already")
    changed = {position}
    if loop.kind == "tensor":
        changed = {at for at, one in enumerate(nest.loops) if one.kind == "tensor"}
    elif kind == "tensor":
        changed = {position, position + 1, position + 2}
    loops = (one._replace(kind=kind) if at in changed else one for at, one in enumerate(nest.loops))
    return replace(nest, loops=tuple(loops))


def stage(nest: Nest, position: int, tensor: str) -> Nest:
    """In each iteration of a loop, copy what its body reads of a tensor to shared memory.

    Raises:
        Refusal: if the loop is neither serial nor pipelined, or the tensor is not read or is staged already.
    """
    loop = nest.loops[position]
    if loop.kind not in STAGING:
        raise Refusal(f"{loop.variable} is {loop.kind}, and tensors are staged in {' and '.join(STAGING)} loops")
    if all(read.tensor != tensor for read in nest.stage.reads()):
        raise Refusal(f"{nest.stage.tensor} does not read {tensor}")
    if any(staging.tensor == tensor for staging in nest.stagings):
        raise Refusal(f"{tensor} is staged already")
    return replace(nest, stagings=tuple(sorted((*nest.stagings, Staging(tensor, loop.variable)))))


def _pair(nest: Nest, position: int) -> tuple[Loop, Loop]:
    if position + 1 >= len(nest.loops):
        raise Refusal(f"{nest.loops[position].variable} is the innermost loop of {nest.stage.tensor}")
    return nest.loops[position], nest.loops[position + 1]


def _plain(nest: Nest, position: int, done: str) -> Loop:
    """Return a loop after checking that it is serial and stages nothing."""
    loop = nest.loops[position]
    if loop.kind != "serial":
        raise Refusal(f"{loop.variable} is {loop.kind}, and only serial loops are {done}")
    for staging in nest.stagings:
        if staging.variable == loop.variable:
            raise Refusal(f"{staging.tensor} is staged in {loop.variable}, which therefore cannot be {done}")
    return loop


def _derived(nest: Nest, position: int, count: int, loops: tuple[Loop, ...], relation: Relation) -> Nest:
    """Return the nest with `count` loops replaced by new ones and a relation added."""
    relations = tuple(sorted((*nest.relations, relation), key=_order))
    extents = tuple(sorted((*nest.extents, *((loop.variable, loop.extent) for loop in loops))))
    loops = (*nest.loops[:position], *loops, *nest.loops[position + count :])
    return replace(nest, loops=loops, relations=relations, extents=extents)


def _remade(nest: Nest, position: int, count: int, variables: tuple[str, ...], removed: Relation) -> Nest:
    """Return the nest with `count` loops replaced by the former ones, and the relation removed."""
    gone = {loop.variable for loop in nest.loops[position : position + count]}
    made = (Loop(variable, nest.extent[variable]) for variable in variables)
    loops = (*nest.loops[:position], *made, *nest.loops[position + count :])
    relations = tuple(relation for relation in nest.relations if relation is not removed)
    return replace(
        nest, loops=loops, relations=relations, extents=tuple(one for one in nest.extents if one[0] not in gone)
    )


def _order(relation: Relation) -> tuple[int, str]:
    """Sort key of relations: derived variables have longer names, so that they come later.

    The order of independent relations is canonical, so that equivalent nests are equal.
    """
    made = relation.outer if isinstance(relation, Split) else relation.fused
    return len(made), made
