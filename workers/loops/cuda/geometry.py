"""Launch geometry: how many blocks of how many threads carry out a nest.

The loops that are bound, `block.*` and `thread.*`, are the grid and the block of the launch. A nest without any is
carried out by one thread.
"""

import math
from typing import NamedTuple

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops.nest import BLOCKS, THREADS, Kind, Nest
from aiocg.workers.loops.primitives import Refusal
from aiocg.workers.loops.rules import RULES, check

__all__ = ["COORDINATES", "Launch", "launch"]

COORDINATES: dict[Kind, str] = {
    **{kind: kind.replace("block", "blockIdx") for kind in BLOCKS},
    **{kind: kind.replace("thread", "threadIdx") for kind in THREADS},
}


class Launch(NamedTuple):
    """How a kernel is launched.

    Attributes:
        grid: the numbers of blocks in x, y and z.
        block: the numbers of threads of a block in x, y and z.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]

    @property
    def threads(self) -> int:
        """The threads of one block."""
        return math.prod(self.block)


def launch(nest: Nest) -> Launch:
    """Return how a nest's kernel is launched.

    Raises:
        CompilationError: with `FailureCode.ACTION` and a sentence that says why when no device can carry it out.
    """
    try:
        check(nest, RULES["cuda"])
    except Refusal as refusal:
        raise CompilationError(FailureCode.ACTION, refusal.reason) from None
    extents = {loop.kind: loop.extent for loop in nest.loops if loop.kind in COORDINATES}
    x, y, z = (extents.get(kind, 1) for kind in BLOCKS)
    grid = (x, y, z)
    x, y, z = (extents.get(kind, 1) for kind in THREADS)
    return Launch(grid, (x, y, z))
