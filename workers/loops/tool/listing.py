"""The loops as text, as loop_tool writes them: each operation has an innermost loop of its own."""

from collections.abc import Iterator

from aiocg.workers.loops.expression import Call, Expression, Read, Stage
from aiocg.workers.loops.tool.structure import Structure

__all__ = ["listing"]


def listing(structure: Structure, stage: Stage, mark: str) -> str:
    """Return the text.

    Args:
        structure: the loops.
        stage: what is computed in them.
        mark: what is written at parallel loops before `[thread]`.
    """
    innermost = len(structure.loops) - 1
    lines = [_head(structure, index, index, mark) for index in range(innermost)]
    for number, operation in enumerate(_operations(stage.body)):
        lines.append(_head(structure, innermost, innermost + 2 * number, mark))
        lines.append(f"{' ' * (innermost + 1)}%{number}[a] <- {operation}")
    return "\n".join(lines) + "\n"


def _head(structure: Structure, index: int, label: int, mark: str) -> str:
    loop = structure.loops[index]
    tail = f" r {loop.tail}" if loop.tail else ""
    thread = f" {mark}[thread]" if loop.thread else ""
    return f"{' ' * index}for a{chr(39) * index} in {loop.size}{tail} : L{label}{thread}"


def _operations(body: Expression) -> Iterator[str]:
    """Yield each operation, which come in the order of their numbers: what is read and computed, and the writing."""
    found: list[str] = []

    def visit(expression: Expression) -> str:
        if isinstance(expression, Read):
            found.append("read()")
        elif isinstance(expression, Call):
            found.append(f"{expression.function}({', '.join([visit(one) for one in expression.arguments])})")
        else:
            found.append(f"constant({expression.value:g})")
        return f"%{len(found) - 1}"

    result = visit(body)
    yield from found
    yield f"write({result})"
