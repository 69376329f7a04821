"""What program graphs say, and the memory that they take, for every LLVM on this machine.

The programs are written with typed pointers, which LLVM 14 wants, and rewritten for LLVMs that have `ptr`.
"""

import ctypes
import gc
import json
import os
import re
import resource
import runpy
import traceback
from pathlib import Path

import pytest

from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm import _programl as programl
from aiocg.workers.llvm._programl import ProgramGraphs, full_texts, program_graphs
from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.native_code import NativeLibraries, NativeLibrary

READER = runpy.run_path(str(Path(__file__).with_name("programl_reader.py")))
DATA = Path(__file__).with_name("data")


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
        built_nodes, built_edges, functions = READER["built_graph"](graphs, module.pointer)
    untyped = [node for node in built_nodes if node[0] != 3]
    assert untyped == built_nodes[: len(untyped)]
    found = READER["canonical"](untyped, [edge for edge in built_edges if edge[2] != 3])
    assert found == READER["canonical"](nodes, edges)
    assert functions == [function["name"] for function in theirs["graph"]["function"]]


def with_untyped_pointers(text: str) -> str:
    """Write a type of LLVM 10 as the graph does: `ptr` for a pointer, `struct` for a structure inside an array."""
    if text.endswith("*"):
        return "ptr"
    return re.sub(r"%\w+", "struct", text)


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
        assert READER["built_graph"](small, module.pointer)[2] == ["f"]
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


@pytest.mark.slow
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
