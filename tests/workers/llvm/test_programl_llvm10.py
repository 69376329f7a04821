"""Program graphs with the types and operands that LLVM 10 had; `tests/compat/test_goldens.py` has whole ones."""

from collections.abc import Callable

import pytest

from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._programl import ProgramGraph, ProgramGraphs
from aiocg.workers.llvm._programl_llvm10 import Llvm10Graph
from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.native_code import NativeLibraries

Compile = Callable[..., bytes]
PROGRAM = b"""
%"struct.a b" = type { i32, ptr }
@table = internal global [4 x i64] zeroinitializer
@text = private constant [3 x i8] c"ab\\00"
declare i32 @puts(ptr)
declare void @llvm.lifetime.start.p0(ptr)
define ptr @"an odd (name)"(ptr %list, i64 %i) {
  %kept = alloca [3 x i16]
  call void @llvm.lifetime.start.p0(ptr %kept)
  call void @llvm.lifetime.start.p0(ptr poison)
  %next = getelementptr %"struct.a b", ptr %list, i64 0, i32 1
  store ptr null, ptr %next
  %place = getelementptr [4 x i64], ptr @table, i64 0, i64 %i
  %number = load i64, ptr %place
  %said = call i32 @puts(ptr @text)
  %same = icmp eq ptr %place, null
  %raw = load i64, ptr @table
  ret ptr %list
}
"""


@pytest.fixture
def graphs(natives: NativeLibraries) -> ProgramGraphs:
    return ProgramGraphs(natives.load("programl"))


def uses(graph: ProgramGraph, instruction: str) -> list[list[tuple[int, str]]]:
    """Return the operands of each instruction with an opcode: place and text, in order of their places."""
    kinds, texts = graph.node_kind.elements(), [graph.texts[text] for text in graph.node_text.elements()]
    ends = graph.edge_index.elements()
    half = len(ends) // 2
    edges = list(zip(ends[:half], ends[half:], graph.edge_flow.elements(), graph.edge_position.elements(), strict=True))
    return [
        sorted((position, texts[source]) for source, target, flow, position in edges if target == node and flow == 1)
        for node, text in enumerate(texts)
        if kinds[node] == 0 and text == instruction
    ]


def test_pointers_have_the_types_that_their_users_want(library: Library, graphs: ProgramGraphs) -> None:
    with Module.parse(library, PROGRAM) as module:
        made = Llvm10Graph(graphs, module)
    assert uses(made.graph, "getelementptr")[0][0] == (0, "struct*")
    assert uses(made.graph, "getelementptr")[1][0] == (0, "[4 x i64]*")
    assert uses(made.graph, "store") == [[(0, "i8*"), (1, "i8**")]]
    assert uses(made.graph, "icmp") == [[(0, "i64*"), (1, "i64*")]]
    assert uses(made.graph, "ret") == [[(0, "struct*")]]
    assert uses(made.graph, "call") == [[(0, "i64"), (1, "i8*")], [(0, "i8*")], [(0, "i8*")]]
    assert made.origins[-1] == "i64 6", "of three i16"


@pytest.mark.parametrize("name", ["sorting.c", "matrix.c", "calculator.c", "shapes.cc"])
def test_but_for_types_and_places_the_graph_is_the_same(
    library: Library, graphs: ProgramGraphs, compile_program: Compile, name: str
) -> None:
    with Module.parse(library, compile_program(name)) as module:
        plain, made = graphs.build(module.pointer), Llvm10Graph(graphs, module)
    assert not [text for text in made.graph.texts if "{" in text or (text.startswith("ptr") and text != "ptrtoint")]
    assert max(made.graph.node_kind.elements()) == 2
    assert set(made.graph.texts) & {"i8*", "i32*", "double*"}
    for opcode in plain.texts:
        theirs, ours = uses(plain, opcode), uses(made.graph, opcode)
        assert len(theirs) == len(ours)
        if opcode != "call":
            assert [[place for place, _ in one] for one in theirs] == [[place for place, _ in one] for one in ours]
