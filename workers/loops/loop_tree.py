"""Loop nests as text, like the dumps of loop_tool.

    for i.0 in 63 : L0 [parallel]
      for j in 512 : L1
        for k in 512 : L2
          for i.1 in 8 : L3 [unrolled]
            where i = i.0*8 + i.1 < 500
            C[i, j] <- sum(A[i, k] * B[k, j])

A loop's number is the one that steps of a schedule name it by. `where` says how a variable is computed that is no
loop's, and the bound at which the body is left out. `stage` says which part of a tensor is copied to shared memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from aiocg.workers.loops.expression import Computation, Stage
from aiocg.workers.loops.language import unparse
from aiocg.workers.loops.nest import Nest, Split
from aiocg.workers.loops.tile import staged_tile

__all__ = ["loop_tree"]


def loop_tree(nests: Sequence[Nest]) -> str:
    """Return the text of the nests of a schedule, a line for each loop, each variable's computation and each stage."""
    lines: list[str] = []
    number = 0
    for nest in nests:
        lines += _nest_lines(nest, number)
        number += len(nest.loops)
    return "".join(f"{line}\n" for line in lines)


def _nest_lines(nest: Nest, number: int) -> Iterator[str]:
    for depth, loop in enumerate(nest.loops):
        kind = "" if loop.kind == "serial" else f" [{loop.kind}]"
        yield f"{'  ' * depth}for {loop.variable} in {loop.extent} : L{number + depth}{kind}"
        inside = "  " * (depth + 1)
        yield from (inside + line for line in _computed_lines(nest, depth))
        yield from (inside + line for line in _staging_lines(nest, loop.variable))
    yield "  " * len(nest.loops) + _statement(nest.stage)


def _computed_lines(nest: Nest, depth: int) -> Iterator[str]:
    """Say how variables are computed, at the outermost loop in which they can be."""
    bounds = {guard.variable: f" < {guard.bound}" for guard in nest.guards}
    for relation in reversed(nest.relations):
        if isinstance(relation, Split):
            formulas = {relation.parent: f"{relation.outer}*{relation.factor} + {relation.inner}"}
        else:
            fused, extent = relation.fused, relation.extent
            formulas = {relation.outer: f"{fused} // {extent}", relation.inner: f"{fused} % {extent}"}
        for variable, formula in formulas.items():
            if nest.depth[variable] == depth:
                yield f"where {variable} = {formula}{bounds.get(variable, '')}"


def _staging_lines(nest: Nest, variable: str) -> Iterator[str]:
    for staging in nest.stagings:
        if staging.variable == variable:
            tile = staged_tile(nest, staging)
            yield f"stage {tile.tensor}[{', '.join(map(str, tile.shape))}] : {tile.size} bytes"


def _statement(stage: Stage) -> str:
    """Return what the body does, such as `C[i, j] <- sum(A[i, k] * B[k, j])`."""
    alone = replace(stage, reduction=(), reducer="")
    body = unparse(Computation((), (alone,))).partition(" = ")[2].strip()
    place = f"{stage.tensor}[{', '.join(axis.name for axis in stage.spatial)}]"
    return f"{place} <- {stage.reducer}({body})" if stage.reducer else f"{place} <- {body}"
