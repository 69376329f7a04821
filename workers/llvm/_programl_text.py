"""The full texts of the nodes of a program graph: ProGraML's feature `full_text`."""

import re
from collections.abc import Callable

from aiocg.workers.llvm._programl import ProgramGraphs
from aiocg.workers.llvm.module import Module

__all__ = ["full_texts"]

_INSTRUCTION, _TYPE = 0, 3  # kinds of nodes
_NAMELESS = re.compile(r'%"type 0x[0-9a-f]+"')


def full_texts(graphs: ProgramGraphs, module: Module, instructions: int = 0) -> list[str]:
    """Return, for each node of a module's graph, its text in the program.

    An instruction is its line or lines; a variable is `i32 %x`, a constant `i32 5`, or the definition of the global
    variable; a type is as LLVM prints it. Nodes that are not in the program have an empty text: `[external]`, and the
    body of a function that has none. An unnamed structure is `struct`. The arguments are those of
    `ProgramGraphs.build`.
    """
    graph, values = graphs.build_with_values(module.pointer, instructions)
    kinds, texts = graph.node_kind.elements(), [graph.texts[text] for text in graph.node_text.elements()]
    pointers = [value for kind, value in zip(kinds, values, strict=True) if kind == _INSTRUCTION and value]
    # To print one instruction LLVM numbers all values of its function, so print the whole module once.
    lines = dict(zip(pointers, instruction_texts(module.to_text()), strict=True))
    printed: dict[int, str] = {}

    def full_text(kind: int, text: str, value: int) -> str:
        if value in lines:
            return lines[value] if kind == _INSTRUCTION else f"{text} {lines[value].partition(' = ')[0]}"
        if value not in printed:
            printed[value] = _print(module, value, is_type=kind == _TYPE)
        return printed[value]

    return [full_text(kind, text, value) for kind, text, value in zip(kinds, texts, values, strict=True)]


def _print(module: Module, pointer: int, *, is_type: bool) -> str:
    """Return a value or type as LLVM prints it; an unnamed type would be printed with its address."""
    if not pointer:
        return ""
    c = module.library.c
    text: Callable[[int], int] = c.LLVMPrintTypeToString if is_type else c.LLVMPrintValueToString
    return _NAMELESS.sub("struct", module.library.take_string(text(pointer)))


def instruction_texts(text: str) -> list[str]:
    """Return the instructions in a module's text, in order, each with all its lines."""
    found: list[list[str]] = []
    inside = False
    for line in text.split("\n"):
        if not inside:
            inside = line.startswith("define ")
        elif line == "}":
            inside = False
        elif line.startswith(("   ", "  ]")):
            if not line.startswith("    #dbg_"):
                found[-1].append(line)
        elif line.startswith("  "):
            found.append([line.lstrip(" ")])
    return ["\n".join(lines) for lines in found]
