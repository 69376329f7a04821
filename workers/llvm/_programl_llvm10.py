"""ProGraML graphs as LLVM 10 would have given them, and CompilerGym has them.

Pointers are typed, types are no nodes, the edges to the successors of a block all have position 0, and all nodes have a
function and a block.
The types come from `typed_ir`. Markers of lifetimes have got back the size that LLVM 22 takes from them.
"""

import functools
import re
import struct
from typing import NamedTuple

from aiocg.transport.arrays import Array
from aiocg.workers.llvm._programl import ProgramGraph, ProgramGraphs, instruction_texts
from aiocg.workers.llvm._typed_ir import Rewriter, joined_lines
from aiocg.workers.llvm.module import Module

_INSTRUCTION, _VARIABLE, _CONSTANT, _TYPE = range(4)  # kinds of nodes
_CONTROL, _DATA, _CALL = range(3)  # flows
_ROOT = 0  # the node that calls every function
_UNDEFINED = "; undefined function"
_POINTER = re.compile(r"\bptr(?: addrspace\(\d+\))?")
_STRUCTURE = re.compile(r"<?\{[^{}]*\}>?|\bopaque\b")
_LIFETIME = re.compile(r"call void @llvm\.lifetime\.(?:start|end)\.p0\(ptr ")
_NO_DECAY = frozenset({"load", "getelementptr"})  # take the address of an array as it is, others of its first element
_NOWHERE = -1  # in no function, in no block
_WHOLE = -1  # a size that is not known


class _Node(NamedTuple):
    kind: int
    text: str
    function: int
    block: int


class _Edge(NamedTuple):
    source: int
    target: int
    flow: int
    position: int


class Llvm10Graph:
    """Makes the graph of a module; the arguments are those of `ProgramGraphs.build`, and `module` itself.

    Attributes:
        graph: the graph.
        origins: of each of its nodes, the node of `ProgramGraphs.build`, or its text in the program.
    """

    def __init__(self, graphs: ProgramGraphs, module: Module, instructions: int = 0) -> None:
        graph, values = graphs.build_with_values(module.pointer, instructions)
        self._values = values
        self._c = module.library.c
        self._module = module
        self._nodes, self._edges = _without_types(graph)
        text = module.to_text()
        rewriter = Rewriter(list(joined_lines(text)), 10)
        self._evidence = rewriter.evidence
        pointers = [self._values[number] for number, node in enumerate(self._nodes) if node.kind == _INSTRUCTION]
        self._lines = dict(zip(filter(None, pointers), instruction_texts(text), strict=True))
        defined = {node.function for node in self._nodes if node.kind == _INSTRUCTION and node.text != _UNDEFINED}
        self._names = dict(zip(sorted(defined - {-1}), rewriter.locals, strict=True))
        self.origins: list[int | str] = list(range(len(self._nodes)))
        self._loosen_blocks()
        self._type_variables()
        self._type_constants()
        self._restore_lifetimes()
        self._place()
        self.graph = _packed(graph, self._nodes, self._edges)

    def _loosen_blocks(self) -> None:
        """Take away the edges out of blocks that cannot be reached, to which CompilerGym's builder does not come."""
        following: dict[int, list[int]] = {}
        for edge in self._edges:
            if edge.flow == _CONTROL:
                following.setdefault(edge.source, []).append(edge.target)
        found = [edge.target for edge in self._edges if edge.flow == _CALL and edge.source == _ROOT]
        reached = set(found)
        while found:
            found = [target for number in found for target in following.get(number, ()) if target not in reached]
            reached.update(found)
        self._edges = [
            edge
            for edge in self._edges
            if edge.flow != _CONTROL or edge.source in reached or self._is_within_block(edge)
        ]

    def _is_within_block(self, edge: _Edge) -> bool:
        return edge.source < edge.target and self._nodes[edge.source].block == self._nodes[edge.target].block

    def _type_variables(self) -> None:
        for number, node in enumerate(self._nodes):
            if node.kind == _VARIABLE and node.text == "ptr":
                self._nodes[number] = node._replace(text=self._variable(number))
            elif node.kind != _INSTRUCTION and node.text != "ptr":
                self._nodes[number] = node._replace(text=_POINTER.sub("i8*", node.text))

    def _variable(self, number: int) -> str:
        node, value = self._nodes[number], self._values[number]
        line = self._lines.get(value)
        name = self._printed(value).split(" ")[-1] if line is None else line.partition(" = ")[0]
        pointee = self._names[node.function].get(name)
        return _shortened(self._evidence.types.text(pointee)) + "*" if pointee is not None else "i8*"

    def _type_constants(self) -> None:
        """Give constant pointers the types that their users want; one of several types becomes several nodes."""
        pointers = {number for number, node in enumerate(self._nodes) if node.kind == _CONSTANT and node.text == "ptr"}
        variables: dict[int, list[str]] = {}
        for edge in self._edges:
            if edge.flow == _DATA and self._nodes[edge.source].kind == _VARIABLE:
                variables.setdefault(edge.target, []).append(self._nodes[edge.source].text)
        typed: dict[int, dict[str, int]] = {number: {} for number in pointers}
        for place, edge in enumerate(self._edges):
            if edge.source in pointers:
                user = self._nodes[edge.target].text
                text = self._constant(edge.source, user, variables.get(edge.target, []))
                known = typed[edge.source]
                if text not in known:
                    known[text] = self._add(self._nodes[edge.source], edge.source) if known else edge.source
                    self._nodes[known[text]] = self._nodes[edge.source]._replace(text=text)
                self._edges[place] = edge._replace(source=known[text])

    def _constant(self, number: int, user: str, variables: list[str]) -> str:
        """Return the text of a constant pointer for an instruction with certain variables."""
        types = self._evidence.types
        name, known = self._module.name_of(self._values[number]), self._evidence.globals
        raw = known.get(f"@{name}") or known.get(f'@"{name}"')
        if raw is not None:
            decays = raw.startswith("[") and user not in _NO_DECAY
            return _shortened(types.typed(types.parts(raw)[0] if decays else raw)) + "*"
        pointers = [text for text in variables if text.endswith("*")]
        if user == "store" and pointers and pointers[-1].endswith("**"):
            return pointers[-1][:-1]
        return pointers[0] if user in ("icmp", "phi", "select") and pointers else "i8*"

    def _restore_lifetimes(self) -> None:
        """Give the markers of lifetimes the size of what they mark, and the cast that LLVM 22 takes from them."""
        constants = {
            self._c.LLVMConstIntGetSExtValue(value): number
            for number, (node, value) in enumerate(zip(self._nodes, self._values, strict=False))
            if node.kind == _CONSTANT and node.text == "i64" and self._c.LLVMIsAConstantInt(value)
        }
        casts: dict[int, list[int]] = {}  # of each variable in memory, those that nothing uses
        for number in self._unused_casts():
            casts.setdefault(self._c.LLVMGetOperand(self._values[number], 0), []).append(number)
        marked = {
            edge
            for edge in self._edges
            if self._nodes[edge.source].kind == _VARIABLE
            and edge.flow == _DATA
            and _LIFETIME.match(self._lines.get(self._values[edge.target], ""))
        }
        moved: dict[int, int] = {}  # variable: the cast that makes it
        edges = []
        for edge in self._edges:
            if edge in marked:
                value = self._values[edge.source]
                before = [number for number in casts.get(value, ()) if number < edge.target]
                if before:
                    moved[edge.source] = before[-1]
                self._nodes[edge.source] = self._nodes[edge.source]._replace(text="i8*")
                size = self._size(value)
                if size not in constants:
                    constants[size] = self._add(_Node(_CONSTANT, "i64", _NOWHERE, _NOWHERE), f"i64 {size}")
                edges.append(_Edge(constants[size], edge.target, _DATA, 0))
                edge = edge._replace(position=1)
            edges.append(edge)
        self._edges = [edge._replace(source=moved.get(edge.target, edge.source)) for edge in edges]

    def _place(self) -> None:
        """Give all nodes a function and a block, which are those that CompilerGym's builder had come to."""
        reached: dict[int, int] = {}  # after each function, this many blocks
        for node in self._nodes:
            if node.kind == _INSTRUCTION:
                reached[node.function] = node.block + 1
        if max(reached) < 0:
            return  # there is no function, in which the root could be
        last = max(reached.values())
        for number, node in enumerate(self._nodes):
            function, block = max(node.function, 0), max(node.block, 0)
            if node.kind == _CONSTANT:
                block = last
            elif node.kind == _VARIABLE and node.block == _NOWHERE:
                block = reached[function]
            self._nodes[number] = node._replace(function=function, block=block)

    def _add(self, node: _Node, origin: int | str) -> int:
        self._nodes.append(node)
        self.origins.append(origin)
        return len(self._nodes) - 1

    def _unused_casts(self) -> list[int]:
        used = {edge.source for edge in self._edges if edge.flow == _DATA}
        return [
            number
            for number, node in enumerate(self._nodes)
            if node.text == "bitcast" and number not in used and " ptr " in self._lines[self._values[number]]
        ]

    def _size(self, value: int) -> int:
        while "= bitcast ptr" in self._lines.get(value, ""):
            value = self._c.LLVMGetOperand(value, 0)
        if "= alloca" not in self._lines.get(value, ""):
            return _WHOLE
        layout = self._c.LLVMGetModuleDataLayout(self._module.pointer)
        return int(self._c.LLVMABISizeOfType(layout, self._c.LLVMGetAllocatedType(value)))

    def _printed(self, value: int) -> str:
        return self._module.library.take_string(self._c.LLVMPrintValueToString(value))


def _without_types(graph: ProgramGraph) -> tuple[list[_Node], list[_Edge]]:
    columns = (graph.node_kind, graph.node_text, graph.node_function, graph.node_block)
    nodes = [
        _Node(kind, graph.texts[text], function, block)
        for kind, text, function, block in zip(*(column.elements() for column in columns), strict=True)
        if kind != _TYPE  # these come last
    ]
    ends = graph.edge_index.elements()
    half = len(ends) // 2
    rest = graph.edge_flow.elements(), graph.edge_position.elements()
    edges = [
        _Edge(source, target, flow, 0 if flow == _CONTROL else position)  # CompilerGym does not tell branches apart
        for source, target, flow, position in zip(ends[:half], ends[half:], *rest, strict=True)
    ]
    return nodes, [edge for edge in edges if edge.source < len(nodes) and edge.target < len(nodes)]


def _packed(graph: ProgramGraph, nodes: list[_Node], edges: list[_Edge]) -> ProgramGraph:
    numbers = {text: number for number, text in enumerate(dict.fromkeys(node.text for node in nodes))}
    return graph._replace(
        node_kind=_array("int8", "b", [node.kind for node in nodes]),
        node_text=_array("int32", "i", [numbers[node.text] for node in nodes]),
        node_function=_array("int32", "i", [node.function for node in nodes]),
        node_block=_array("int32", "i", [node.block for node in nodes]),
        edge_index=Array(
            "int32",
            (2, len(edges)),
            bytes(_array("int32", "i", [edge.source for edge in edges] + [edge.target for edge in edges]).data),
        ),
        edge_flow=_array("int8", "b", [edge.flow for edge in edges]),
        edge_position=_array("int32", "i", [edge.position for edge in edges]),
        texts=list(numbers),
    )


def _array(dtype: str, code: str, elements: list[int]) -> Array:
    return Array(dtype, (len(elements),), struct.pack(f"<{len(elements)}{code}", *elements))


@functools.lru_cache(4096)
def _shortened(type: str) -> str:
    """Write `struct` for each structure in a type."""
    while (shorter := _STRUCTURE.sub("struct", type)) != type:
        type = shorter
    return type
