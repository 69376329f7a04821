"""Program graphs drawn by hand and pinned, the memory that they take, and their texts, for every LLVM on this machine.

The programs are written with typed pointers, which LLVM 14 wants, and rewritten for LLVMs that have `ptr`.
"""

import ctypes
import gc
import hashlib
import json
import os
import re
import resource
import struct
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm import programl
from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.native_library import NativeLibraries, NativeLibrary
from aiocg.workers.llvm.programl import ProgramGraphs, program_graphs
from aiocg.workers.llvm.programl_text import full_texts
from aiocg.workers.llvm.walker import AUTOPHASE_NAMES, INST_COUNT_NAMES, Walker

DATA = Path(__file__).with_name("data")
PROGRAMS = ("sorting.c", "matrix.c", "calculator.c", "shapes.cc")
FLOWS = ("control", "data", "call", "type")


@pytest.fixture(scope="module")
def native(any_natives: NativeLibraries) -> NativeLibrary:
    return any_natives.load("programl")


@pytest.fixture(scope="module")
def graphs(native: NativeLibrary) -> ProgramGraphs:
    return ProgramGraphs(native)


def parse(native: NativeLibrary, program: str) -> Module:
    if native.library.version >= (15,):
        program = re.sub(r"\w+ \([^()]*\)\*|(?:i\d+|%\w+|\[\d+ x [%\w*]+\])\*+", "ptr", program)
    module = Module.parse(native.library, program.encode())
    assert module.verify() is None
    return module


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


def built_graph(graphs: ProgramGraphs, module_pointer: int) -> tuple[list[Node], list[Edge], list[str]]:
    """Return what `ProgramGraphs` builds, in the same form, and the names of the functions."""
    graph = graphs.build(module_pointer)
    texts = [graph.texts[text] for text in graph.node_text.elements()]
    columns = (graph.node_kind.elements(), texts, graph.node_function.elements(), graph.node_block.elements())
    count = graph.edge_flow.shape[0]
    ends = graph.edge_index.elements()
    edges = zip(ends[:count], ends[count:], graph.edge_flow.elements(), graph.edge_position.elements(), strict=True)
    assert len(set(graph.texts)) == len(graph.texts)
    return list(zip(*columns, strict=True)), list(edges), graph.functions


def expect(native: NativeLibrary, graphs: ProgramGraphs, program: str, **drawn: Any) -> None:
    """Check that a program has the graph that was drawn.

    Nodes are given by kind: a dict from a name of one's own to the text, followed by function and block where there are
    such. Edges are given by flow: `a>b` with those names, `a>b:2` for position 2.
    """
    numbers: dict[str, int] = {}
    nodes = []
    for kind, group in enumerate(("instructions", "variables", "constants", "types")):
        for name, what in drawn.get(group, {}).items():
            numbers[name] = len(nodes)
            text, function, block = what if isinstance(what, tuple) else (what, -1, -1)
            nodes.append((kind, text, function, block))
    edges = []
    for flow, group in enumerate(FLOWS):
        for edge in drawn.get(group, "").split():
            ends, _, position = edge.partition(":")
            source, target = ends.split(">")
            edges.append((numbers[source], numbers[target], flow, int(position or 0)))
    with parse(native, program) as module:
        built_nodes, built_edges, functions = built_graph(graphs, module.pointer)
    found, expected = canonical(built_nodes, built_edges), canonical(nodes, edges)
    assert found == expected
    assert functions == drawn["functions"]


ROOT = {"root": "[external]"}


def test_program_without_functions_is_the_external_node(native: NativeLibrary, graphs: ProgramGraphs) -> None:
    expect(native, graphs, "@unused = global i32 1\n", instructions=ROOT, functions=[])


def test_each_use_of_a_result_is_a_variable_of_its_own(native: NativeLibrary, graphs: ProgramGraphs) -> None:
    expect(
        native,
        graphs,
        """
        define i32 @square(i32 %a, i32 %unused) {
          %sum = add i32 %a, 1
          %square = mul i32 %sum, %sum
          ret i32 %square
        }
        """,
        instructions=ROOT | {"add": ("add", 0, 0), "mul": ("mul", 0, 0), "ret": ("ret", 0, 0)},
        variables={"a": ("i32", 0, -1), "left": ("i32", 0, 0), "right": ("i32", 0, 0), "square": ("i32", 0, 0)},
        constants={"1": "i32"},
        types={"i32": "i32"},
        control="add>mul mul>ret",
        data="a>add 1>add:1 add>left add>right left>mul right>mul:1 mul>square square>ret",
        call="root>add ret>root",
        type="i32>a i32>1 i32>left i32>right i32>square",
        functions=["square"],
    )


def test_loop_with_a_phi(native: NativeLibrary, graphs: ProgramGraphs) -> None:
    expect(
        native,
        graphs,
        """
        define void @loop(i64 %n) {
        entry:
          br label %body
        body:
          %i = phi i64 [ 0, %entry ], [ %next, %body ]
          %next = add i64 %i, 1
          %more = icmp ult i64 %next, %n
          br i1 %more, label %body, label %done
        done:
          ret void
        }
        """,
        instructions=ROOT
        | {"enter": ("br", 0, 0), "phi": ("phi", 0, 1), "add": ("add", 0, 1), "icmp": ("icmp", 0, 1)}
        | {"br": ("br", 0, 1), "ret": ("ret", 0, 2)},
        variables={
            "n": ("i64", 0, -1),
            "next@phi": ("i64", 0, 1),
            "i@add": ("i64", 0, 1),
            "next@icmp": ("i64", 0, 1),
            "more@br": ("i1", 0, 1),
        },
        constants={"0": "i64", "1": "i64"},
        types={"i64": "i64", "i1": "i1"},
        control="enter>phi phi>add add>icmp icmp>br br>phi:0 br>ret:1",
        data="0>phi add>next@phi next@phi>phi:1 phi>i@add i@add>add 1>add:1 add>next@icmp next@icmp>icmp n>icmp:1 "
        "icmp>more@br more@br>br",
        call="root>enter ret>root",
        type="i64>n i64>next@phi i64>i@add i64>next@icmp i1>more@br i64>0 i64>1",
        functions=["loop"],
    )


def test_calls_of_functions_with_and_without_a_body_and_of_itself(native: NativeLibrary, graphs: ProgramGraphs) -> None:
    expect(
        native,
        graphs,
        """
        declare void @outside(i32)
        define void @again(i32 %n) {
          call void @outside(i32 %n)
          call void @again(i32 %n)
          br i1 true, label %one, label %other
        one:
          ret void
        other:
          unreachable
        }
        """,
        instructions=ROOT
        | {"outside": ("; undefined function", 0, -1), "call": ("call", 1, 0), "recurse": ("call", 1, 0)}
        | {"br": ("br", 1, 0), "ret": ("ret", 1, 1), "unreachable": ("unreachable", 1, 2)},
        variables={"n": ("i32", 1, -1)},
        constants={"true": "i1"},
        types={"i32": "i32", "i1": "i1"},
        control="call>recurse recurse>br br>ret:0 br>unreachable:1",
        data="n>call n>recurse true>br",
        call="root>outside outside>root root>call ret>root unreachable>root "
        "call>outside outside>call recurse>call ret>recurse unreachable>recurse",
        type="i32>n i1>true",
        functions=["outside", "again"],
    )


def test_switch_with_cases_that_lead_to_one_block(native: NativeLibrary, graphs: ProgramGraphs) -> None:
    expect(
        native,
        graphs,
        """
        define i8 @choose(i8 %x) {
          switch i8 %x, label %other [ i8 1, label %same  i8 5, label %same ]
        same:
          ret i8 1
        other:
          ret i8 %x
        }
        """,
        instructions=ROOT | {"switch": ("switch", 0, 0), "same": ("ret", 0, 1), "other": ("ret", 0, 2)},
        variables={"x": ("i8", 0, -1)},
        constants={"1": "i8", "5": "i8"},
        types={"i8": "i8"},
        control="switch>other:0 switch>same:1 switch>same:2",
        data="x>switch 1>switch:2 5>switch:4 1>same x>other",
        call="root>switch same>root other>root",
        type="i8>x i8>1 i8>5",
        functions=["choose"],
    )


def test_globals_are_constants_and_functions_no_data(native: NativeLibrary, graphs: ProgramGraphs) -> None:
    expect(
        native,
        graphs,
        """
        @counter = global i32 0
        @handler = global void ()* null
        define void @set() {
          %old = load i32, i32* @counter
          store i32 %old, i32* @counter
          store void ()* @set, void ()** @handler
          ret void
        }
        """.replace("void ()**", "ptr" if native.library.version >= (15,) else "void ()**"),
        instructions=ROOT
        | {"load": ("load", 0, 0), "store": ("store", 0, 0), "hide": ("store", 0, 0), "ret": ("ret", 0, 0)},
        variables={"old": ("i32", 0, 0)},
        constants={"@counter": "ptr", "@handler": "ptr"},
        types={"i32": "i32", "ptr": "ptr"},
        control="load>store store>hide hide>ret",
        data="@counter>load load>old old>store @counter>store:1 @handler>hide:1",
        call="root>load ret>root",
        type="i32>old ptr>@counter ptr>@handler",
        functions=["set"],
    )


def test_call_through_a_pointer_is_data_only(native: NativeLibrary, graphs: ProgramGraphs) -> None:
    expect(
        native,
        graphs,
        """
        define double @apply(double (i32)* %function, i32 %x) {
          %y = call double %function(i32 %x)
          ret double %y
        }
        """,
        instructions=ROOT | {"call": ("call", 0, 0), "ret": ("ret", 0, 0)},
        variables={"function": ("ptr", 0, -1), "x": ("i32", 0, -1), "y": ("double", 0, 0)},
        types={"ptr": "ptr", "i32": "i32", "double": "double"},
        control="call>ret",
        data="x>call function>call:1 call>y y>ret",
        call="root>call ret>root",
        type="ptr>function i32>x double>y",
        functions=["apply"],
    )


def test_invoke_calls_and_may_land_elsewhere(native: NativeLibrary, graphs: ProgramGraphs) -> None:
    expect(
        native,
        graphs,
        """
        declare i32 @personality(...)
        declare i32 @risky(i32)
        define i32 @safe(i32 %x) personality i32 (...)* @personality {
          %y = invoke i32 @risky(i32 %x) to label %good unwind label %bad
        good:
          ret i32 %y
        bad:
          %pad = landingpad { i8*, i32 } cleanup
          resume { i8*, i32 } %pad
        }
        """,
        instructions=ROOT
        | {"personality": ("; undefined function", 0, -1), "risky": ("; undefined function", 1, -1)}
        | {"invoke": ("invoke", 2, 0), "ret": ("ret", 2, 1), "pad": ("landingpad", 2, 2), "resume": ("resume", 2, 2)},
        variables={"x": ("i32", 2, -1), "y": ("i32", 2, 1), "pad@resume": ("struct", 2, 2)},
        types={"i32": "i32", "struct": "struct", "first": "ptr", "second": "i32"},
        control="invoke>ret:0 invoke>pad:1 pad>resume",
        data="x>invoke invoke>y y>ret pad>pad@resume pad@resume>resume",
        call="root>personality personality>root root>risky risky>root root>invoke ret>root resume>root "
        "invoke>risky risky>invoke",
        type="i32>x i32>y struct>pad@resume first>struct:0 second>struct:1",
        functions=["personality", "risky", "safe"],
    )


def test_types_are_made_of_types(native: NativeLibrary, graphs: ProgramGraphs) -> None:
    expect(
        native,
        graphs,
        """
        %pair = type { i16, [2 x i16] }
        define [3 x %pair] @give([3 x %pair] %x, <4 x i16> %v, %pair %p, i16 %n) {
          %e = extractelement <4 x i16> %v, i16 %n
          %q = insertvalue %pair %p, i16 %e, 0
          ret [3 x %pair] %x
        }
        """,
        instructions=ROOT | {"e": ("extractelement", 0, 0), "q": ("insertvalue", 0, 0), "ret": ("ret", 0, 0)},
        variables={
            "x": ("[3 x struct]", 0, -1),
            "v": ("<4 x i16>", 0, -1),
            "p": ("struct", 0, -1),
            "n": ("i16", 0, -1),
            "e@q": ("i16", 0, 0),
        },
        types={"array": "[]", "vector": "vector", "pair": "struct", "i16": "i16"}
        | {"member_0": "i16", "member_1": "[]"},
        control="e>q q>ret",
        data="v>e n>e:1 p>q e>e@q e@q>q:1 x>ret",
        call="root>e ret>root",
        type="array>x vector>v pair>p i16>n i16>e@q pair>array i16>vector member_0>pair:0 member_1>pair:1 i16>member_1",
        functions=["give"],
    )


def test_blocks_that_cannot_be_reached_are_connected_too(native: NativeLibrary, graphs: ProgramGraphs) -> None:
    expect(
        native,
        graphs,
        "define void @f() {\n ret void\ndead:\n br label %deader\ndeader:\n unreachable\n}\n",
        instructions=ROOT | {"ret": ("ret", 0, 0), "dead": ("br", 0, 1), "deader": ("unreachable", 0, 2)},
        control="dead>deader",
        call="root>ret ret>root deader>root",
        functions=["f"],
    )


def test_graph_is_that_of_the_authors_builder(native: NativeLibrary, graphs: ProgramGraphs) -> None:
    """See `data/programl.ll`. Their graphs have no types, and 0 where there is no function or block."""
    theirs = json.loads((DATA / "programl.json").read_text())
    edges = [tuple(link[name] for name in ("source", "target", "flow", "position")) for link in theirs["links"]]
    results = {target for _, target, flow, _ in edges if flow == 1}  # of instructions; arguments are not among them
    nodes = []
    for number, node in enumerate(theirs["nodes"]):
        nowhere = number == 0 or node["type"] == 2
        outside = nowhere or node["text"] == "; undefined function" or (node["type"] == 1 and number not in results)
        text = node["text"] if node["type"] == 0 else with_untyped_pointers(node["text"])
        nodes.append((node["type"], text, -1 if nowhere else node["function"], -1 if outside else node["block"]))
    with parse(native, (DATA / "programl.ll").read_text()) as module:
        built_nodes, built_edges, functions = built_graph(graphs, module.pointer)
    untyped = [node for node in built_nodes if node[0] != 3]
    assert untyped == built_nodes[: len(untyped)]
    found = canonical(untyped, [edge for edge in built_edges if edge[2] != 3])
    assert found == canonical(nodes, edges)
    assert functions == [function["name"] for function in theirs["graph"]["function"]]


def with_untyped_pointers(text: str) -> str:
    """Write a type of LLVM 10 as the graph does: `ptr` for a pointer, `struct` for a structure inside an array."""
    if text.endswith("*"):
        return "ptr"
    return re.sub(r"%\w+", "struct", text)


RARE = r"""
%pair = type { i32, %"odd name" }
%"odd name" = type { [2 x <4 x i8>], { i1, ptr addrspace(3) } }
%0 = type { %pair, [2 x %pair] }
%unknown = type opaque
@"odd \22global\22" = global %0 zeroinitializer
@there = external addrspace(3) global %unknown
@alias = alias void (), ptr @used
@resolved = ifunc void (), ptr @resolver
declare void @"odd name; (really)"(...)
declare void @llvm.experimental.noalias.scope.decl(metadata)
declare i32 @variadic(ptr, ...)
define internal ptr @resolver() { ret ptr @used }
define void @used() { ret void }
define i32 @main(i32 %argc, ptr byval(%pair) align 8 %"an argument", <vscale x 4 x i32> %wide, ptr %unused) {
  call void (...) @"odd name; (really)"(ptr nonnull align 8 dereferenceable(8) @"odd \22global\22", i32 %argc)
  call void @llvm.experimental.noalias.scope.decl(metadata !0)
  call void @used() [ "deopt"(i32 %argc, i32 8), "other"() ]
  call void @alias()
  call void @resolved()
  call void @used(i32 1)
  call void asm sideeffect "nop ; $0", "r,~{memory}"(i32 %argc)
  call void null()
  %f = select i1 true, ptr @used, ptr @main
  call void %f() #0
  %v = call i32 (ptr, ...) @variadic(ptr @"odd \22global\22", double 1.5, <2 x i8> <i8 1, i8 undef>, %pair undef)
  %vectors = getelementptr inbounds i8, ptr %f, <4 x i64> <i64 1, i64 2, i64 3, i64 4>
  %next = add <vscale x 4 x i32> %wide, %wide
  %other = getelementptr i32, ptr addrspace(3) @there, i32 %argc
  %expression = load i32, ptr getelementptr inbounds (%0, ptr @"odd \22global\22", i64 0, i32 0, i32 1)
  %equivalent = ptrtoint ptr dso_local_equivalent @used to i64
  %same = ptrtoint ptr no_cfi @used to i64
  %slots = alloca %pair, i64 %same, align 16
  %packed = alloca <{ i8, i32 }>
  %struct = insertvalue { i32, { [2 x i64], ptr } } undef, i64 %same, 1, 0, 1
  %inner = extractvalue { i32, { [2 x i64], ptr } } %struct, 1
  callbr void asm "", "r,!i"(i32 %v) to label %on [label %off]
on:
  br i1 undef, label %off, label %off
dead:
  br label %deader
deader:
  %p = phi i32 [ 1, %dead ]
  ret i32 %p
off:
  %q = phi i32 [ %argc, %0 ], [ %v, %on ], [ %v, %on ]
  ret i32 %q
}
attributes #0 = { nounwind "attribute"="with; [ text" }
!0 = !{!1}
!1 = distinct !{!1, !2}
!2 = distinct !{!2}
"""


@pytest.mark.parametrize(
    ("file", "digest"), [("opcodes.ll", "1c3aa0ba965245fd"), ("rare", "3ebd920fa982df98")], ids=["every opcode", "rare"]
)
def test_graph_is_the_one_that_was_read_from_the_text(
    native: NativeLibrary, graphs: ProgramGraphs, file: str, digest: str
) -> None:
    """A reader that knew the grammar of printed IR, and nothing of LLVM, came to the same graphs."""
    if file == "rare" and native.library.version < (16,):
        pytest.skip("the program has pointers without types")
    text = RARE if file == "rare" else (DATA / file).read_text()
    with parse(native, text) as module:
        nodes, edges, _ = built_graph(graphs, module.pointer)
    assert hashlib.sha256(repr(canonical(nodes, edges)).encode()).hexdigest()[:16] == digest


@pytest.mark.few(6)
@pytest.mark.parametrize("flags", [(), ("-O2", "-g")], ids=" ".join)
@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs_of_compiled_programs_have_what_the_walker_counts(
    any_natives: NativeLibraries,
    graphs: ProgramGraphs,
    compile_with: Callable[..., bytes],
    any_clang: str,
    name: str,
    flags: tuple[str, ...],
) -> None:
    walker = Walker(any_natives.load("walker"))
    with Module.parse(any_natives.library, compile_with(any_clang, name, *flags)) as module:
        nodes, edges, functions = built_graph(graphs, module.pointer)
        counts = dict(zip(INST_COUNT_NAMES, struct.unpack("<70q", walker.inst_count(module.pointer)), strict=True))
        shape = dict(zip(AUTOPHASE_NAMES, struct.unpack("<56q", walker.autophase(module.pointer)), strict=True))
    undefined = sum(text == "; undefined function" for _, text, *_ in nodes)
    assert sum(kind == 0 for kind, *_ in nodes) == 1 + undefined + counts["TotalInsts"]
    assert len(functions) == counts["TotalFuncs"]
    control = counts["TotalInsts"] - counts["TotalBlocks"] + shape["NumEdges"]
    assert sum(flow == 0 for *_, flow, _ in edges) == control
    assert all(nodes[source][0] == 3 for source, _, flow, _ in edges if flow == 3)
    canonical(nodes, edges)  # each datum is used, and each type is that of something


def test_numbers_follow_the_program(native: NativeLibrary, graphs: ProgramGraphs) -> None:
    program = "define i32 @f(i32 %a) {\n %b = add i32 %a, 1\n %c = sub i32 2, %b\n ret i32 %c\n}\n"
    with parse(native, program) as module:
        graph = graphs.build(module.pointer)
    kinds = graph.node_kind.elements()
    assert kinds == sorted(kinds, key=lambda kind: kind == 3)  # types come last
    assert graph.texts[0] == "[external]" and graph.node_text.elements()[0] == 0
    assert graph.node_kind.elements() == [0, 0, 1, 2, 0, 2, 1, 0, 1, 3]


def test_names_come_whole(native: NativeLibrary, graphs: ProgramGraphs) -> None:
    program = 'source_filename = "a file.c"\ndeclare void @0()\ndeclare void @"a\\0Ab\\22\\C3\\A9\\FF"()\n'
    with parse(native, program) as module:
        graph = graphs.build(module.pointer)
    assert graph.functions == ["", 'a\nb"é\\xff']
    assert graph.module == "a file.c"


# ------------------------------------------------------------------------------------------------------ memory


def chain(length: int, name: str = "f") -> str:
    adds = "\n".join(f"  %v{i + 1} = add i32 %v{i}, {i}" for i in range(length))
    return f"define i32 @{name}(i32 %v0) {{\n{adds}\n  ret i32 %v{length}\n}}\n"


def nested(depth: int) -> str:
    """A program with one type, whose graph has 2 ** (depth + 1) nodes."""
    doubling = "".join(f"%t{i} = type {{ %t{i - 1}, %t{i - 1} }}\n" for i in range(1, depth + 1))
    kind = f"%t{depth}"
    body = f"define void @f({kind}* %p, {kind} %x) {{\n store {kind} %x, {kind}* %p\n ret void\n}}\n"
    return "%t0 = type { i8 }\n" + doubling + body


@pytest.mark.parametrize("length", [1, 250, 256, 300, 1000, 3000])
def test_graph_is_the_same_whatever_memory_it_was_built_in(
    native: NativeLibrary, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programl, "SMALLEST_CAPACITY", 1 << 8)
    monkeypatch.setattr(programl, "KEPT_BYTES", 1 << 20)
    small, large = ProgramGraphs(native), ProgramGraphs(native)
    with parse(native, chain(4000)) as module:
        large.build(module.pointer)
    with parse(native, chain(length)) as module:
        graph = small.build(module.pointer)
        assert large.build(module.pointer) == graph
        assert small.build(module.pointer, length) == graph
        assert large.build(module.pointer, 9 * length) == graph
        assert built_graph(small, module.pointer)[2] == ["f"]
    assert len(graph.node_kind.elements()) == 4 + 3 * length - (length == 0)


@pytest.mark.parametrize("capacity", [2, 8])
def test_whatever_there_is_no_room_for_is_made_room_for(
    native: NativeLibrary, graphs: ProgramGraphs, capacity: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programl, "SMALLEST_CAPACITY", capacity)
    with parse(native, (DATA / "opcodes.ll").read_text()) as module:
        assert ProgramGraphs(native).build(module.pointer) == graphs.build(module.pointer)


def test_nothing_is_written_behind_the_memory(native: NativeLibrary, graphs: ProgramGraphs) -> None:
    mark = b"\xa5" * 4096
    with parse(native, (DATA / "opcodes.ll").read_text() + chain(500, "chain")) as module:
        for capacity in (2**power for power in range(1, 13)):
            size = native.c.aiocg_programl_bytes(capacity)
            arena = (ctypes.c_char * (size + len(mark))).from_buffer(bytearray(b"\x5a" * size + mark))
            result = (ctypes.c_int64 * 32)()
            status = native.c.aiocg_programl(native.llvm, module.pointer, ctypes.byref(arena), capacity, result)
            assert arena.raw[size:] == mark
            assert status == (0 if capacity >= 2048 else 2)


@pytest.mark.few(1)
def test_graph_that_memory_does_not_suffice_for_is_refused(native: NativeLibrary) -> None:
    graphs = ProgramGraphs(native)
    gc.collect()
    child = os.fork()  # in which no thread of another test gives memory back meanwhile
    if not child:
        status = 1
        try:
            _refuse(graphs, native)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _refuse(graphs: ProgramGraphs, native: NativeLibrary) -> None:
    limits = resource.getrlimit(resource.RLIMIT_AS)
    with parse(native, nested(18)) as module:  # needs 256 MiB
        full = _full_heap()
        resource.setrlimit(resource.RLIMIT_AS, (_address_space() + (8 << 20), limits[1]))
        with pytest.raises(CompilationError, match="no room") as caught:
            graphs.build(module.pointer)
        resource.setrlimit(resource.RLIMIT_AS, limits)
        del full
        assert caught.value.code == "observation"
        assert graphs.build(module.pointer).functions == ["f"]


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _full_heap() -> list[bytearray]:
    """Occupy what the heap has kept of earlier tests, so that whoever wants much must ask the system."""
    blocks: list[bytearray] = []
    while True:
        before = _address_space()
        block = bytearray(32 << 20)
        if _address_space() > before:
            return blocks
        blocks.append(block)


def test_long_names_and_many_texts_find_room(native: NativeLibrary, graphs: ProgramGraphs) -> None:
    names = [f"{'l.' * 10000}{i}" for i in range(5)]
    declarations = "".join(f"declare void @{name}()\n" for name in names)
    types = "".join(
        f"define void @t{i}([{i} x [{10**15} x i8]] %x) {{\n %y = freeze [{i} x [{10**15} x i8]] %x\n ret void\n}}\n"
        for i in range(1, 900)
    )
    with parse(native, declarations + types) as module:
        graph = graphs.build(module.pointer)
    assert graph.functions[:5] == names
    assert f"[899 x [{10**15} x i8]]" in graph.texts
    assert (
        len(graph.texts) == len(set(graph.texts)) == 899 + 6
    )  # and what nodes without a type, instructions and parts of types are called


def test_graph_without_end_is_refused(native: NativeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programl, "LARGEST_CAPACITY", 1 << 14)
    graphs = ProgramGraphs(native)
    with (
        parse(native, nested(40)) as module,
        pytest.raises(CompilationError, match="no room for 32768 nodes") as caught,
    ):
        graphs.build(module.pointer)
    assert caught.value.code == "observation"
    with parse(native, chain(3)) as module:
        assert graphs.build(module.pointer).functions == ["f"]


# ------------------------------------------------------------------------------------------------------ full texts


@pytest.mark.parametrize("file", ["opcodes.ll"])
def test_full_texts_are_what_llvm_prints(native: NativeLibrary, graphs: ProgramGraphs, file: str) -> None:
    c, take = native.library.c, native.library.take_string
    with parse(native, (DATA / file).read_text()) as module:
        graph, values = graphs.build_with_values(module.pointer)
        texts = full_texts(graphs, module)
        for kind, value, text in zip(graph.node_kind.elements(), values, texts, strict=True):
            printed = take((c.LLVMPrintTypeToString if kind == 3 else c.LLVMPrintValueToString)(value)) if value else ""
            if kind == 1:  # the name of what gives the variable its value
                assert printed.lstrip().startswith(text.split(" ", 1)[1] + " =") or printed == text
            else:
                assert text == printed.lstrip()


def test_full_texts_of_a_small_program(native: NativeLibrary, graphs: ProgramGraphs) -> None:
    program = """
    %named = type { i8 }
    @global = global i32 0
    declare void @outside()
    define i32 @f(i1 %0, %named %x) {
      %2 = select i1 %0, i32 5, i32 6
      switch i32 %2, label %4 [
        i32 7, label %3
      ]
    3:
      store i32 %2, i32* @global
      br label %4
    4:
      %5 = extractvalue %named %x, 0
      %6 = zext i8 %5 to i32
      ret i32 %6
    }
    """
    with parse(native, program) as module:
        texts = full_texts(graphs, module)
        kinds = graphs.build(module.pointer).node_kind.elements()
    pointer = "ptr" if native.library.version >= (15,) else "i32*"
    by_kind = [[text for one, text in zip(kinds, texts, strict=True) if one == kind] for kind in range(4)]
    assert by_kind == [
        [
            "",
            "",
            "%2 = select i1 %0, i32 5, i32 6",
            "switch i32 %2, label %4 [\n    i32 7, label %3\n  ]",
            f"store i32 %2, {pointer} @global, align 4",
            "br label %4",
            "%5 = extractvalue %named %x, 0",
            "%6 = zext i8 %5 to i32",
            "ret i32 %6",
        ],
        ["i1 %0", "i32 %2", "i32 %2", "%named %x", "i8 %5", "i32 %6"],
        ["i32 5", "i32 6", "i32 7", "@global = global i32 0"],
        ["i1", "i32", pointer, "%named = type { i8 }", "i8", "i8"],
    ]


def test_structure_without_a_name_has_no_address_in_its_text(native: NativeLibrary, graphs: ProgramGraphs) -> None:
    program = "%0 = type { i8 }\ndefine void @f([2 x %0] %x) {\n %y = freeze [2 x %0] %x\n ret void\n}\n"
    with parse(native, program) as module:
        texts = full_texts(graphs, module)
    assert texts[-3:] == ["[2 x struct]", "struct = type { i8 }", "i8"]


def test_same_library_has_one_builder(native: NativeLibrary) -> None:
    assert program_graphs(native) is program_graphs(native)
