"""Products on tensor cores: three loops that a warp carries out as one instruction.

They are the innermost ones: rows, columns and terms of a product of matrices, 16, 8 and 8. The lanes of a warp, which
are the block's threads in x, hold the operands and the result together. The operands are rounded to TF32, which has as
many bits of an exponent as `float32`, and 11 bits of precision; products and sums are those of `float32`.
"""

from typing import NamedTuple

from aiocg.workers.loops._expression import Call, Read
from aiocg.workers.loops._nest import THREADS, Loop, Nest, Refusal

SHAPE = (16, 8, 8)  # turns of the loops over rows, columns and terms
LANES = 32  # of a warp
RESULTS = SHAPE[0] * SHAPE[1] // LANES  # that each lane accumulates


class TensorLoops(NamedTuple):
    """The loops that tensor cores carry out, and what they multiply.

    Attributes:
        rows, columns: loops over the result.
        terms: the loop that is reduced over.
        left: the operand that has the rows.
        right: the one that has the columns.
    """

    rows: Loop
    columns: Loop
    terms: Loop
    left: Read
    right: Read


def tensor_loops(nest: Nest) -> TensorLoops | None:
    """Return the loops of a nest that tensor cores carry out, None if there are none.

    Raises:
        Refusal: if tensor cores cannot carry them out.
    """
    loops = tuple(loop for loop in nest.loops if loop.kind == "tensor")
    if not loops:
        return None
    if loops != nest.loops[-len(SHAPE) :] or tuple(loop.extent for loop in loops) != SHAPE:
        found = ", ".join(f"{loop.variable}:{loop.extent}" for loop in loops)
        raise Refusal(f"tensor cores carry out the three innermost loops, of 16, 8 and 8 turns, not {found}")
    rows, columns, terms = loops
    if [loop.variable in nest.reductions for loop in loops] != [False, False, True]:
        raise Refusal(f"{rows.variable} and {columns.variable} have to be loops over the result, and {terms.variable} "
                      "one that is reduced over")  # fmt: skip
    if any(loop.kind == "thread.x" for loop in nest.loops):
        raise Refusal("thread.x is the lane of a warp where tensor cores are used, and no loop can be bound to it")
    if any(loop.kind in THREADS and loop.variable in nest.reductions for loop in nest.loops):
        raise Refusal("threads do not share a sum that tensor cores compute")
    if nest.stage.reducer == "sum" and isinstance(nest.stage.body, Call) and nest.stage.body.function == "mul":
        match nest.stage.body.arguments:
            case Read() as one, Read() as other:
                for left, right in ((one, other), (other, one)):
                    if not nest.varies(left, columns.variable) and not nest.varies(right, rows.variable):
                        return TensorLoops(rows, columns, terms, left, right)
                raise Refusal(f"both factors depend on {rows.variable}, or both on {columns.variable}")
    raise Refusal("tensor cores compute sums of products of two elements, and nothing else")
