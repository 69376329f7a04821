"""The control-flow graphs of functions, from LLVM's textual IR."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from aiocg.pictures.graph import Box, Edge, Graph

ENTRY = "entry"  # what the first block is called that has no name
SHOWN = 12  # instructions of a block that are shown

_FUNCTION = re.compile(r'^define .*?@("[^"]*"|[\w.$-]+)\(')
_BLOCK = re.compile(r'^("[^"]*"|[\w.$-]+):')
_INSTRUCTION = re.compile(r"^  [^ \]]")
_LABEL = re.compile(r'label %("[^"]*"|[\w.$-]+)')
_CASE = re.compile(r'i\d+ (-?\d+), label %("[^"]*"|[\w.$-]+)')


@dataclass(slots=True)
class _Block:
    """A basic block.

    Attributes:
        name: its label, or `ENTRY`.
        instructions: a line each; one that has several, such as a switch, is one line here.
    """

    name: str
    instructions: list[str] = field(default_factory=list)

    def successors(self) -> Iterator[tuple[str, str]]:
        """Yield the blocks that may come next, each with when it does."""
        if not self.instructions:
            return
        last = self.instructions[-1]
        labels = [one.strip('"') for one in _LABEL.findall(last)]
        if re.match(r"\s*br i1 ", last):
            yield from zip(labels, ("true", "false"), strict=True)
        elif re.match(r"\s*switch ", last):
            yield labels[0], "else"
            cases: dict[str, list[str]] = {}
            for value, label in _CASE.findall(last):
                cases.setdefault(label.strip('"'), []).append(value)
            for label, values in cases.items():
                yield label, ", ".join(values[:3]) + ("…" if values[3:] else "")
        elif re.match(r"\s*(%\S+ = )?invoke ", last):
            yield from zip(labels, ("", "unwinds"), strict=False)
        else:
            yield from ((label, "") for label in dict.fromkeys(labels))


def functions(text: str) -> dict[str, list[_Block]]:
    """Return the blocks of each function that has any."""
    found: dict[str, list[_Block]] = {}
    blocks: list[_Block] | None = None
    for line in text.splitlines():
        if (match := _FUNCTION.match(line)) is not None:
            blocks = found[match[1].strip('"')] = [_Block(ENTRY)]
        elif line == "}":
            blocks = None
        elif blocks is None:
            continue
        elif (match := _BLOCK.match(line)) is not None:
            name = match[1].strip('"')
            if blocks[0].instructions:
                blocks.append(_Block(name))
            else:
                blocks[0].name = name
        elif _INSTRUCTION.match(line):
            blocks[-1].instructions.append(line[2:])
        elif blocks[-1].instructions and line.strip():
            blocks[-1].instructions[-1] += f" {line.strip()}"
    return found


def cfg(text: str, function: str, *, instructions: bool = False) -> Graph:
    """Return the control-flow graph of a function.

    Args:
        text: IR of the module.
        function: its name.
        instructions: whether blocks show what is in them, not only how much.

    Raises:
        KeyError: when there is no such function.
    """
    blocks = functions(text)[function]
    boxes = tuple(Box(block.name, tuple(_lines(block, whole=instructions)), title=_title(block)) for block in blocks)
    edges = tuple(Edge(block.name, after, when) for block in blocks for after, when in block.successors())
    return Graph(boxes, edges, f"control flow of {function}")


def _title(block: _Block) -> str:
    return "\n".join(block.instructions[: 4 * SHOWN])


def _lines(block: _Block, *, whole: bool) -> Iterator[str]:
    count = len(block.instructions)
    if not whole:
        yield f"{block.name}  {count}"
        return
    yield f"{block.name}:"
    rest = count - SHOWN if count > SHOWN + 1 else 0  # the last one says where it goes
    shown = (
        block.instructions if not rest else [*block.instructions[: SHOWN - 1], f"… {rest} more", block.instructions[-1]]
    )
    yield from (f"  {line}" for line in shown)
