"""The program graphs against a slow second opinion: `programl_reader.py` reads them from the text of the program."""

import random
import runpy
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiocg.datasets.programs import PROGRAMS_DIRECTORY, program_flags
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm import _passes as passes
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._programl import ProgramGraphs
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.native_code import NativeLibraries

from .conftest import every_opcode, everything, random_program

READER = runpy.run_path(str(Path(__file__).with_name("programl_reader.py")))
built_graph, canonical, read_graph = (READER[name] for name in ("built_graph", "canonical", "read_graph"))


def check(graphs: ProgramGraphs, module: Module) -> int:
    """Compare the graph of a module with the one that its text has; return the number of nodes."""
    nodes, edges, functions = built_graph(graphs, module.pointer)
    read = read_graph(module.to_text())
    assert functions == read.functions
    found, expected = canonical(nodes, edges), canonical(read.nodes, read.edges)
    assert found[0] == expected[0]
    assert found[1] == expected[1]
    return len(nodes)


@pytest.fixture(scope="module")
def graphs(any_natives: NativeLibraries) -> ProgramGraphs:
    return ProgramGraphs(any_natives.load("programl"))


# ------------------------------------------------------------------------------------------------ compiled programs


@pytest.mark.few(3)
@pytest.mark.parametrize("flags", ["-O0", "-O1 -Xclang -disable-llvm-passes", "-O2", "-Oz -g"])
@pytest.mark.parametrize("language", ["c", "c++"])
def test_graphs_of_compiled_programs(
    any_library: Library, graphs: ProgramGraphs, any_clang: str, language: str, flags: str
) -> None:
    with Module.parse(any_library, everything(any_clang, language, flags)) as module:
        assert check(graphs, module) > 200


NAMES = sorted(path.stem for path in PROGRAMS_DIRECTORY.iterdir() if path.suffix in (".c", ".cc"))


def few_first(*few: str) -> list[object]:
    """Return the names of our own programs: a few for the quick tests, the rest for the slow ones."""
    return [*few, *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES if name not in few)]


def compiled(clang: str, name: str) -> bytes:
    path = next(PROGRAMS_DIRECTORY.glob(f"{name}.c*"))
    flags = program_flags("c" if path.suffix == ".c" else "c++")
    command = [clang, "-O1", "-Xclang", "-disable-llvm-passes", "-w", *flags, "-c", "-emit-llvm", str(path), "-o", "-"]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout


@pytest.mark.few(2)
@pytest.mark.sampled
@pytest.mark.parametrize("name", few_first("gcd", "crc32", "nqueens", "lz77"))
def test_graphs_of_our_own_programs(any_library: Library, graphs: ProgramGraphs, any_clang: str, name: str) -> None:
    with Module.parse(any_library, compiled(any_clang, name)) as module:
        assert check(graphs, module) > 200


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.few(1)
@pytest.mark.parametrize("name", few_first("crc32", "gcd"))
def test_graphs_along_random_walks(
    any_natives: NativeLibraries, graphs: ProgramGraphs, any_clang: str, name: str
) -> None:
    engine = Engine(any_natives.library, any_natives)
    state = engine.load(compiled(any_clang, name))
    for one in random.Random(name).choices(passes.available(any_natives.library), k=12):
        try:
            after = engine.apply(state, one.pipeline)
        except CompilationError:
            continue
        if after is not state:
            state = after
            left = built_graph(graphs, engine.module(state).pointer)
            check(graphs, engine.module(state))
            assert built_graph(graphs, engine.module(state).pointer) == left  # the same numbers too


# ------------------------------------------------------------------------------------------------- written programs


def test_graph_of_every_instruction(any_library: Library, graphs: ProgramGraphs) -> None:
    with Module.parse(any_library, every_opcode(any_library)) as module:
        assert check(graphs, module) > 100


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


def test_graph_of_rare_things(any_library: Library, graphs: ProgramGraphs) -> None:
    if any_library.version < (16,):
        pytest.skip("the program has pointers without types")
    with Module.parse(any_library, RARE.encode()) as module:
        assert module.verify() is None
        assert check(graphs, module) > 80


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(1, 4))
def test_graphs_of_random_programs(any_library: Library, graphs: ProgramGraphs, seed: int) -> None:
    with Module.parse(any_library, random_program(seed, 300 * seed)) as module:
        assert check(graphs, module) > 150


# ----------------------------------------------------------------------------------------------- generated programs

NUMBERS = ("i1", "i8", "i32", "i64", "double")
COMPOSITES = ("<4 x i32>", "{ i32, double }", "[3 x i16]", "%pair", "[2 x %pair]")
DEFINITIONS = "%pair = type { i8, { i64, [2 x i32] } }\n@global = global i32 7\ndeclare i32 @elsewhere(i32, ...)\n"


class Generator:
    """Writes one function; `draw` decides everything."""

    def __init__(self, draw: Callable[..., Any], number: int, count: int, pointers: bool) -> None:
        self.draw = draw
        self.types = NUMBERS + COMPOSITES + (("ptr", "{ ptr, i1 }") if pointers else ())
        self.pointers = pointers
        self.callees = [f"@f{other}" for other in range(count)]
        self.names = 0
        self.lines: list[str] = []
        arguments = draw(st.lists(st.sampled_from(self.types), max_size=3))
        self.values: dict[str, list[str]] = {}
        self.head = f"define void @f{number}({', '.join(f'{kind} {self.new(kind)}' for kind in arguments)}) {{"

    def new(self, kind: str) -> str:
        """Name a new value."""
        self.names += 1
        self.values.setdefault(kind, []).append(f"%v{self.names}")
        return f"%v{self.names}"

    def value(self, kind: str, *, constant: bool = False) -> str:
        numbers = {"i1": ["true", "false"], "double": ["0.0", "1.5"], "ptr": ["null", "@global", "@f0"]}
        small = ["0", "1", "-1", "3"] if kind.startswith("i") else ["zeroinitializer"]
        known = [] if constant else self.values.get(kind, [])
        return str(self.draw(st.sampled_from([*numbers.get(kind, small), "undef", *known])))

    def typed(self, kind: str) -> str:
        return f"{kind} {self.value(kind)}"

    def write(self, kind: str, text: str) -> None:
        self.lines.append(f"  {self.new(kind)} = {text}")

    def instruction(self) -> None:
        kind = self.draw(st.sampled_from(self.types))
        number = self.draw(st.sampled_from(NUMBERS[:4]))
        operations = ("binary", "icmp", "select", "extract", "insert", "element", "freeze", "cast", "call")
        match self.draw(st.sampled_from(operations + (("memory", "address") if self.pointers else ()))):
            case "binary":
                operation = self.draw(st.sampled_from(("add", "mul nsw", "and", "shl", "udiv exact")))
                self.write(number, f"{operation} {self.typed(number)}, {self.value(number)}")
            case "icmp":
                self.write("i1", f"icmp ult {self.typed(number)}, {self.value(number)}")
            case "select":
                self.write(kind, f"select {self.typed('i1')}, {self.typed(kind)}, {self.typed(kind)}")
            case "extract":
                self.write("i64", f"extractvalue {self.typed('[2 x %pair]')}, 1, 1, 0")
            case "insert":
                self.write("%pair", f"insertvalue {self.typed('%pair')}, {self.typed('i8')}, 0")
            case "element":
                self.write("<4 x i32>", f"insertelement {self.typed('<4 x i32>')}, {self.typed('i32')}, i32 2")
                self.write("i32", f"extractelement {self.typed('<4 x i32>')}, {self.typed('i64')}")
            case "freeze":
                self.write(kind, f"freeze {self.typed(kind)}")
            case "cast":
                self.write("i64", f"zext {self.typed('i8')} to i64")
            case "call":
                self.write("i32", f"call i32 (i32, ...) @elsewhere({self.typed('i32')}, {self.typed(kind)})")
                callee = self.draw(st.sampled_from(self.callees))
                if self.pointers:  # without types of pointers, any function may be called with anything
                    self.lines.append(f"  call void {callee}({self.typed(kind)})")
            case "memory":
                self.write("ptr", f"alloca {kind}, {self.typed(number)}")
                self.lines.append(f"  store {self.typed(kind)}, {self.typed('ptr')}")
                self.write(kind, f"load {kind}, {self.typed('ptr')}")
            case "address":
                self.write("ptr", f"getelementptr inbounds %pair, {self.typed('ptr')}, {self.typed('i64')}, i32 1")

    def function(self) -> str:
        """Write blocks whose values are their own or those of the first block, which comes before every other."""
        count = self.draw(st.integers(1, 5))
        targets = [self.draw(st.lists(st.integers(1, count), max_size=3)) if count > 1 else [] for _ in range(count)]
        targets = [[min(target, count - 1) for target in one] for one in targets]
        everywhere: dict[str, list[str]] | None = None
        for block in range(count):
            self.lines.append(f"b{block}:")
            there = self.values if everywhere is None else everywhere
            self.values = {kind: list(names) for kind, names in there.items()}
            before = [source for source in range(count) for target in targets[source] if target == block]
            if before and self.draw(st.booleans()):
                kind = self.draw(st.sampled_from(self.types))
                chosen = {source: self.value(kind, constant=True) for source in before}
                self.write(kind, f"phi {kind} " + ", ".join(f"[ {chosen[one]}, %b{one} ]" for one in before))
            for _ in range(self.draw(st.integers(0, 4))):
                self.instruction()
            self.lines.append("  " + self.terminator(targets[block]))
            everywhere = self.values if everywhere is None else everywhere
        return "\n".join([self.head, *self.lines, "}\n"])

    def terminator(self, targets: list[int]) -> str:
        labels = [f"label %b{target}" for target in targets]
        match labels:
            case []:
                return str(self.draw(st.sampled_from(("ret void", "unreachable"))))
            case [one]:
                return f"br {one}"
            case [one, other] if self.draw(st.booleans()):
                return f"br {self.typed('i1')}, {one}, {other}"
            case [default, *cases]:
                listed = " ".join(f"i32 {value}, {label}" for value, label in enumerate(cases))
                return f"switch {self.typed('i32')}, {default} [ {listed} ]"


@st.composite
def programs(draw: Callable[..., Any], pointers: bool) -> str:
    count = draw(st.integers(1, 3))
    return DEFINITIONS + "".join(Generator(draw, number, count, pointers).function() for number in range(count))


@pytest.mark.few(1)
@given(data=st.data())
@settings(max_examples=40, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_graphs_of_generated_programs(any_library: Library, graphs: ProgramGraphs, data: st.DataObject) -> None:
    text = data.draw(programs(any_library.version >= (15,)))
    with Module.parse(any_library, text.encode()) as module:
        assert module.verify() is None, text
        check(graphs, module)
