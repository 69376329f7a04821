"""The ProGraML graph of a program, read slowly from the text of its IR, and what it takes to compare it with others.

A second opinion for the tests: it knows the definition of the graph and, through `programl_ir.py`, the grammar of
printed IR, and nothing of LLVM's C API or of the builder it is compared with.
"""

import re
import runpy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_IR = runpy.run_path(str(Path(__file__).with_name("programl_ir.py")))
read_module = _IR["read_module"]

Function, Operand, Type = Any, Any, tuple[Any, ...]  # of programl_ir.py

INSTRUCTION, VARIABLE, CONSTANT, TYPE = range(4)
CONTROL, DATA, CALL, TYPES = range(4)
UNDEFINED = "; undefined function"


@dataclass
class Graph:
    """Nodes are (kind, text, function, block), edges (source, target, flow, position)."""

    nodes: list[tuple[int, str, int, int]] = field(default_factory=list)
    edges: list[tuple[int, int, int, int]] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)

    def add(self, kind: int, text: str, function: int = -1, block: int = -1) -> int:
        self.nodes.append((kind, text, function, block))
        return len(self.nodes) - 1


def read_graph(text: str) -> Graph:
    """Read the graph of a module from its text."""
    functions, structs = read_module(text)
    return _Builder(functions, structs).graph


class _Builder:
    def __init__(self, functions: list[Function], structs: dict[str, Type]) -> None:
        self.graph = Graph(functions=[_unquoted(function.name) for function in functions])
        self.structs = structs
        self.numbers = {function.name: number for number, function in enumerate(functions)}
        self.constants: dict[tuple[Type, str], int] = {}
        self.types: dict[Type, int] = {}
        self.data: list[tuple[int, Type]] = []
        self.blocks = 0
        self.calls: list[tuple[int, str]] = []
        self.ends: dict[str, tuple[int, list[int]]] = {}
        root = self.graph.add(INSTRUCTION, "[external]")
        for function in functions:
            self.ends[function.name] = self.function(function)
        for caller, callee in [*((root, function.name) for function in functions), *self.calls]:
            entry, exits = self.ends[callee]
            self.edge(caller, entry, CALL)
            for end in exits:
                self.edge(end, caller, CALL)
        for node, kind in self.data:
            self.edge(self.shared_type(kind), node, TYPES)

    def edge(self, source: int, target: int, flow: int, position: int = 0) -> None:
        self.graph.edges.append((source, target, flow, position))

    def function(self, function: Function) -> tuple[int, list[int]]:
        """Add a function; return its first node and its last ones."""
        number = self.numbers[function.name]
        if not function.blocks:
            node = self.graph.add(INSTRUCTION, UNDEFINED, number)
            return node, [node]
        nodes: dict[str, list[int]] = {}
        block_of = {}
        results: dict[str, tuple[int, Type]] = {}
        for label, block in function.blocks.items():
            nodes[label] = [self.graph.add(INSTRUCTION, one.opcode, number, self.blocks) for one in block]
            block_of[label] = self.blocks
            results |= {one.name: (node, one.type) for one, node in zip(block, nodes[label], strict=True) if one.name}
            for before, after in zip(nodes[label], nodes[label][1:], strict=False):
                self.edge(before, after, CONTROL)
            self.blocks += 1
        arguments: dict[str, int] = {}
        exits = []
        for label, block in function.blocks.items():
            for one, node in zip(block, nodes[label], strict=True):
                for operand in one.operands:
                    if (source := self.source(operand, function, arguments, results, block_of[label])) is not None:
                        self.edge(source, node, DATA, operand.position)
                if one.callee in self.numbers:
                    self.calls.append((node, one.callee))
            for place, successor in enumerate(block[-1].successors):
                self.edge(nodes[label][-1], nodes[successor][0], CONTROL, place)
            if not block[-1].successors:
                exits.append(nodes[label][-1])
        return next(iter(nodes.values()))[0], exits

    def source(
        self,
        operand: Operand,
        function: Function,
        arguments: dict[str, int],
        results: dict[str, tuple[int, Type]],
        block: int,
    ) -> int | None:
        """Return the node of the data that an operand is, None when it is no data."""
        number = self.numbers[function.name]
        if operand.text in self.numbers or operand.text.startswith("asm "):
            return None
        if operand.text in function.parameters:
            if operand.text not in arguments:
                kind = function.parameters[operand.text]
                arguments[operand.text] = self.add_data(VARIABLE, kind, number, -1)
            return arguments[operand.text]
        if operand.text.startswith("%"):
            producer, kind = results[operand.text]
            variable = self.add_data(VARIABLE, kind, number, block)
            self.edge(producer, variable, DATA)
            return variable
        key = operand.type, operand.text
        if key not in self.constants:
            self.constants[key] = self.add_data(CONSTANT, operand.type, -1, -1)
        return self.constants[key]

    def add_data(self, node_kind: int, kind: Type, function: int, block: int) -> int:
        node = self.graph.add(node_kind, type_text(kind), function, block)
        self.data.append((node, kind))
        return node

    def shared_type(self, kind: Type) -> int:
        key = ("pointer", kind[1]) if kind[0] == "pointer" else kind
        if key not in self.types:
            self.types[key] = self.add_type(kind)
        return self.types[key]

    def add_type(self, kind: Type) -> int:
        if kind[0] in ("vector", "scalable", "array"):
            node = self.graph.add(TYPE, "[]" if kind[0] == "array" else "vector")
            self.edge(self.shared_type(kind[2]), node, TYPES)
            return node
        node = self.graph.add(TYPE, type_text(kind))
        struct = self.structs[kind[1]] if kind[0] == "named" else kind
        for place, member in enumerate(struct[2] if struct[0] == "struct" else ()):
            self.edge(self.add_type(member), node, TYPES, place)
        return node


def type_text(kind: Type) -> str:
    """Return what the graph calls a type."""
    match kind[0]:
        case "integer":
            return f"i{kind[1]}"
        case "pointer":
            return f"ptr addrspace({kind[1]})" if kind[1] else "ptr"
        case "struct" | "named":
            return "struct"
        case "array":
            return f"[{kind[1]} x {type_text(kind[2])}]"
        case "vector":
            return f"<{kind[1]} x {type_text(kind[2])}>"
        case "scalable":
            return f"<vscale x {kind[1]} x {type_text(kind[2])}>"
        case _:
            return str(kind[1])


def _unquoted(name: str) -> str:
    if re.fullmatch(r"@\d+", name):
        return ""  # printed with a number for want of a name
    return re.sub(r"\\([0-9A-F]{2})", lambda match: chr(int(match[1], 16)), name[1:].strip('"'))


# ------------------------------------------------------------------------------------------------ comparing graphs

Node = tuple[int, str, int, int]
Edge = tuple[int, int, int, int]


def canonical(nodes: list[Node], edges: list[Edge]) -> tuple[list[Node], list[Edge]]:
    """Renumber a graph so that two that are the same but for the numbers of their nodes become equal.

    Instructions keep their order; data is ordered by its first use, which no other data has; types by what is of that
    type, members by the structure they are in.
    """
    order = [node for node, (kind, *_) in enumerate(nodes) if kind == 0]
    order.sort(key=lambda node: nodes[node][2])  # by function; within one they are in the program's order already
    rank = {node: place for place, node in enumerate(order)}
    first_use: dict[int, tuple[int, int]] = {}
    parts: dict[int, list[tuple[int, int]]] = {}
    for source, target, flow, position in edges:
        if flow == 1 and target in rank:
            use = rank[target], position
            first_use[source] = min(use, first_use.get(source, use))
        if flow == 3:
            parts.setdefault(target, []).append((position, source))
    order += sorted(first_use, key=lambda node: first_use[node])
    rank = {node: place for place, node in enumerate(order)}
    for node in order:  # grows meanwhile
        for _, part in sorted(parts.get(node, [])):
            if part not in rank:
                rank[part] = len(order)
                order.append(part)
    assert sorted(order) == list(range(len(nodes)))
    return [nodes[node] for node in order], sorted((rank[s], rank[t], f, p) for s, t, f, p in edges)


def built_graph(graphs: Any, module_pointer: int) -> tuple[list[Node], list[Edge], list[str]]:
    """Return what `ProgramGraphs` builds, in the same form, and the names of the functions."""
    graph = graphs.build(module_pointer)
    texts = [graph.texts[text] for text in graph.node_text.elements()]
    columns = (graph.node_kind.elements(), texts, graph.node_function.elements(), graph.node_block.elements())
    count = graph.edge_flow.shape[0]
    ends = graph.edge_index.elements()
    edges = zip(ends[:count], ends[count:], graph.edge_flow.elements(), graph.edge_position.elements(), strict=True)
    assert len(set(graph.texts)) == len(graph.texts)
    return list(zip(*columns, strict=True)), list(edges), graph.functions
