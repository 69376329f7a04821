"""Settled modules: what a pass has left is, in all that passes go by, what reading its bitcode would give."""

import random
from collections.abc import Callable, Iterator
from ctypes import CFUNCTYPE, c_int, c_uint, c_void_p, cast
from typing import Any

import pytest

from aiocg.datasets import default_datasets
from aiocg.workers.llvm import passes
from aiocg.workers.llvm.engine import MOST_SETTLED, Engine
from aiocg.workers.llvm.library import Library, find_clang
from aiocg.workers.llvm.module import LlvmError, Module
from aiocg.workers.llvm.native_library import NativeLibraries
from aiocg.workers.llvm.seal import Memory, find_layout
from aiocg.workers.llvm.settle import TRIED, Settler
from aiocg.workers.llvm.shelf import Shelf

Compile = Callable[..., bytes]

# Uses before definitions, twice by one instruction and twice by several; constants that refer to globals and to each
# other, in initialisers, in functions, in phis and in both; names in a table that has grown.
TEXT = b"""
%pair = type { i32, ptr }
@table = global [2 x ptr] [ptr @other, ptr getelementptr (i8, ptr @other, i64 4)]
@other = internal global [4 x i32] zeroinitializer
@alias = alias i32, ptr getelementptr (i8, ptr @other, i64 8)
declare void @callee(ptr, ptr, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define i32 @f(i32 %x, i1 %flag) {
entry:
  %slot = alloca %pair
  call void @callee(ptr @other, ptr getelementptr (i8, ptr @other, i64 4), i64 ptrtoint (ptr @other to i64))
  store ptr getelementptr (i8, ptr @other, i64 12), ptr getelementptr (i8, ptr @table, i64 8)
  br label %middle
late:
  %sum = add i32 %early, %early
  %more = mul i32 %sum, %early
  br label %head
middle:
  %early = load i32, ptr @other
  br i1 %flag, label %late, label %head
head:
  %a = phi i32 [ %early, %middle ], [ %more, %late ], [ %b, %head ]
  %b = phi i32 [ 1, %middle ], [ %sum, %late ], [ %c, %head ]
  %p = phi ptr [ getelementptr (i8, ptr @other, i64 1), %middle ], [ @other, %late ], [ %p, %head ]
  %c = add i32 %a, %b
  %unused = select i1 %flag, ptr getelementptr (i8, ptr @other, i64 4), ptr getelementptr (i8, ptr @other, i64 2)
  store ptr %p, ptr %slot
  %d = icmp ult i32 %c, %x
  br i1 %d, label %head, label %end
end:
  ret i32 %c
never:
  %twice = add i32 %x, 3
  br label %late
}
define internal i32 @g(i32 %x) {
  call void @callee(ptr getelementptr (i8, ptr @other, i64 2), ptr @g, i64 0)
  ret i32 %x
}
"""


@pytest.fixture(scope="session", autouse=True)
def settling(natives: NativeLibraries) -> None:
    """Skip all where the library in use, which may be the user's, is none whose modules are settled."""
    if natives.library.version[0] not in TRIED:
        pytest.skip(f"modules are settled with LLVM {TRIED} only, not with {natives.library.version[0]}")


@pytest.fixture(scope="session")
def settler(natives: NativeLibraries, settling: None) -> Settler:
    found = Settler.find(natives)
    assert found is not None, "modules must be settled with the LLVM that comes with aiocg"
    return found


class Looker:
    """Sees of modules what passes go by and no text shows, with positions for addresses."""

    def __init__(self, library: Library) -> None:
        self._library = library
        layout = find_layout(library)
        assert layout is not None
        self._layout = layout

    def look(self, module: Module) -> list[object]:
        """Return the order of all uses, and all tables of names with their counters."""
        lists = ("Global", "Function", "GlobalAlias", "GlobalIFunc")
        values = [one for what in lists for one in self._chain(f"First{what}", f"Next{what}", module.pointer)]
        functions = list(self._chain("FirstFunction", "NextFunction", module.pointer))
        for function in functions:
            if not self._library.c.LLVMIsDeclaration(function):
                values += self._chain("FirstParam", "NextParam", function)
            for block in self._chain("FirstBasicBlock", "NextBasicBlock", function):
                values += [self._call("LLVMBasicBlockAsValue", block)]
                values += self._chain("FirstInstruction", "NextInstruction", block)
        places = {value: place for place, value in enumerate(values)}
        seen = [self._uses(value, places) for value in values]
        with Memory.open() as memory:
            owners = [(module.pointer, self._layout.module_table)]
            owners += [(function, self._layout.function_table) for function in functions]
            for owner, place in owners:
                table = memory.table(memory.words(owner + 8 * place, 1)[0])
                assert table is not None
                names = [(places[value], name) for value, name in table.names.items()]
                counter = table.content[self._layout.counter : self._layout.counter + 4]
                seen.append([names, table.items, table.tombstones if names else 0, counter])
        return seen

    def _uses(self, value: int, places: dict[int, int]) -> object:
        uses: list[object] = []
        for use in self._chain("FirstUse", "NextUse", value):
            user = self._call("LLVMGetUser", use)
            operands = [self._call("LLVMGetOperandUse", user, place) for place in range(self._count(user))]
            uses.append((places.get(user) or self._uses(user, places), operands.index(use)))
        return uses

    def _chain(self, first: str, following: str, owner: int) -> Iterator[int]:
        one = self._call(f"LLVMGet{first}", owner)
        while one:
            yield one
            one = self._call(f"LLVMGet{following}", one)

    def _call(self, name: str, argument: int, place: int = 0) -> int:
        function: Any = CFUNCTYPE(c_void_p, c_void_p, c_uint)(self._address(name))
        return function(argument, place) or 0

    def _count(self, user: int) -> int:
        count: int = CFUNCTYPE(c_int, c_void_p)(self._address("LLVMGetNumOperands"))(user)
        return count

    def _address(self, name: str) -> int:
        return cast(getattr(self._library.c, name), c_void_p).value or 0


def settle_after(engine: Engine, settler: Settler, module: Module, pipeline: str) -> bytes | None:
    """Run a pipeline on a parse and settle; return the bitcode that it was written to, None when it is not settled."""
    roots = settler.roots(module)
    module.run_passes(pipeline, engine._machine(module.triple))
    content = module.write_bitcode()
    return content if settler.settle(module, roots, engine.walker.instruction_count(module.pointer)) else None


def assert_is_as_read(library: Library, module: Module, content: bytes, what: str) -> None:
    looker = Looker(library)
    with Module.parse(library, content) as read:
        assert module.to_text() == read.to_text(), what
        assert module.write_bitcode() == read.write_bitcode(), what
        assert looker.look(module) == looker.look(read), what


@pytest.mark.parametrize("pipeline", ["verify", "reg2mem", "mem2reg", "instcombine<no-verify-fixpoint>", "simplifycfg"])
def test_settled_module_is_as_read(engine: Engine, settler: Settler, pipeline: str) -> None:
    with Module.parse(engine.library, TEXT) as module:
        content = module.write_bitcode()
    with Module.parse(engine.library, content) as module:
        content = settle_after(engine, settler, module, pipeline)
        assert content is not None
        assert_is_as_read(engine.library, module, content, pipeline)


@pytest.mark.parametrize("name", ["sorting.c", "shapes.cc"])
def test_modules_are_as_read_after_one_pass_after_another(
    engine: Engine, settler: Settler, compile_program: Compile, name: str
) -> None:
    library, chance, settled = engine.library, random.Random(name), 0
    choices = [one.pipeline for one in passes.available(library) if one.name != "newgvn"]
    with Module.parse(library, compile_program(name)) as module:
        content = module.write_bitcode()  # without the order of uses, which clang writes too
    module = Module.parse(library, content)
    for pipeline in chance.choices(choices, k=60):
        roots, before = settler.roots(module), module.write_bitcode()
        try:
            module.run_passes(pipeline, engine._machine(module.triple))
        except LlvmError:
            break
        content = module.write_bitcode()
        if settler.settle(module, roots, engine.walker.instruction_count(module.pointer)):
            if content != before:
                assert_is_as_read(library, module, content, pipeline)
                settled += 1
        else:
            module.close()
            module = Module.parse(library, content)
    module.close()
    assert settled > 5


@pytest.mark.parametrize(
    "text",
    [
        b"@p = global ptr blockaddress(@f, %b)\ndefine void @f() {\n  br label %b\nb:\n  ret void\n}\n",
        b"""
@g = global i32 0
define void @f() {
  call void @h(ptr getelementptr (i8, ptr @g, i64 1))
  ret void
}
declare void @h(ptr)
!named = !{!0}
!0 = !{ptr getelementptr (i8, ptr @g, i64 1)}
""",
        b"""
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2}
!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1)
!1 = !DIFile(filename: "a", directory: "b")
!2 = !{i32 2, !"Debug Info Version", i32 3}
""",
    ],
    ids=["address of a block", "constant in metadata", "debug information"],
)
def test_module_with_what_is_not_settled_is_not(engine: Engine, settler: Settler, text: bytes) -> None:
    with Module.parse(engine.library, text) as module:
        assert settle_after(engine, settler, module, "verify") is None


def test_intrinsic_with_attributes_that_reading_would_take_away_is_not_settled(
    engine: Engine, settler: Settler
) -> None:
    text = b"declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\ndefine void @f() {\n  ret void\n}\n"
    with Module.parse(engine.library, text) as module:
        assert settle_after(engine, settler, module, "verify") is not None
        assert settle_after(engine, settler, module, "inferattrs") is None


def test_next_pass_gets_the_settled_module(engine: Engine, compile_program: Compile) -> None:
    state = engine.apply(engine.load(compile_program("sorting.c")), "early-cse")
    engine.prepare(state)
    parses = engine.parses
    for action in ("sroa", "simplifycfg", "gvn", "licm", "loop-rotate", "reg2mem"):
        after = engine.apply(state, action)
        assert after is not state
        state = after
    assert (engine.parses - parses, engine.settled) == (0, 5)  # the last is settled when it is needed
    engine.prepare(state)
    assert (engine.parses - parses, engine.settled) == (0, 6)


def test_what_others_wrote_is_not_settled(engine: Engine, compile_program: Compile) -> None:
    """Clang writes in which order uses are to be; with that of initialisers a module would go on."""
    content = compile_program("shapes.cc")
    looker = Looker(engine.library)
    with Module.parse(engine.library, content) as module:
        looked, written = looker.look(module), module.write_bitcode()
    with Module.parse(engine.library, written) as read:
        assert looked[:20] != looker.look(read)[:20]
    state = engine.load(content)
    for settled, action in enumerate(("sroa", "early-cse", "reg2mem")):
        after = engine.apply(state, action)
        assert after is not state
        state = after
        engine.prepare(state)
        assert engine.settled == settled


def test_module_is_not_settled_for_whom_nothing_comes_after(engine: Engine, compile_program: Compile) -> None:
    state = engine.load(compile_program("sorting.c"))
    for action in ("sroa", "early-cse", "simplifycfg"):
        assert engine.apply(state, action, last=True) is not state
    assert engine.settled == 0


def test_module_that_others_have_looked_at_is_not_settled(engine: Engine, compile_program: Compile) -> None:
    state = engine.apply(engine.apply(engine.load(compile_program("sorting.c")), "early-cse"), "sroa")
    engine.autophase(state)
    after = engine.apply(state, "simplifycfg")
    assert engine.settled == 1
    engine.module(after)
    engine.apply(after, "gvn")
    assert engine.settled == 1


def test_of_more_states_in_turn_than_there_is_room_for_some_stay(library: Library, natives: NativeLibraries) -> None:
    """With the least recently used freed for each that comes, none would be there any more when it is its turn."""
    count, turns = 12, 8
    text = b"define i32 @f%d(i32 %%x) {\n  %%y = add i32 %%x, 1\n  ret i32 %%y\n}\n"
    texts = [text % number for number in range(count)]
    with Module.parse(library, texts[0]) as module:
        size = len(module.write_bitcode())
    engine = Engine(library, natives, transition_cache_bytes=0, module_cache_bytes=size * Shelf.GROWTH * count * 3 // 2)
    states = [engine.apply(engine.load(text), "reg2mem") for text in texts]
    engine.shelf.limit //= 2
    engine.shelf.clear()
    parses = engine.parses
    for turn in range(turns):
        for number in range(count):
            states[number].inert.clear()
            states[number] = engine.apply(states[number], ("mem2reg", "reg2mem")[turn % 2])
    assert engine.parses - parses < 0.7 * count * turns


def test_after_many_settlings_there_is_a_fresh_parse(engine: Engine, simple: bytes) -> None:
    engine.transitions.limit = 0
    state = engine.apply(engine.load(simple), "mem2reg,dce")
    engine.prepare(state)
    parses, rounds = engine.parses, 3
    for number in range(rounds * (MOST_SETTLED + 1)):
        state.inert.clear()
        after = engine.apply(state, ("reg2mem", "mem2reg")[number % 2])
        assert after is not state
        state = after
    assert engine.parses - parses == rounds - 1


def test_names_of_types_are_those_that_a_parse_would_give(engine: Engine, natives: NativeLibraries) -> None:
    """A context remembers names of types that the program has no more, and takes them to be taken."""
    text = b"""
%one = type { i32, ptr }
%two = type { i64, ptr }
define ptr @f() {
  %a = alloca %one
  %b = alloca %two
  br label %next
next:
  ret ptr %b
}
"""
    plain = Engine(engine.library, natives)
    plain.seals = None
    assert plain.settler is None
    here, there = engine.load(text), plain.load(text)
    for action in ("metarenamer", "reg2mem", "sroa", "simplifycfg"):
        here, there = engine.apply(here, action), plain.apply(there, action)
        assert here.content == there.content
    parses = engine.parses
    here, there = engine.apply(here, "metarenamer"), plain.apply(there, "metarenamer")
    assert here.content == there.content
    assert (engine.parses - parses, engine.settled) == (1, 3)  # done again with a parse


@pytest.mark.parametrize("major", [14, 19])
def test_older_llvms_settle_nothing(
    system_library: Callable[[int], Library], natives: NativeLibraries, major: int
) -> None:
    library = system_library(major)
    older = NativeLibraries(library, find_clang(library), natives.folder.parent)
    assert Settler.find(older) is None


def test_where_experiments_go_wrong_nothing_is_settled(
    natives: NativeLibraries, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Settler.find(natives) is not None
    monkeypatch.setattr("aiocg.workers.llvm.settle._SPECIMEN", b"define void @f() {\n  ret void\n}\n")
    assert Settler.find(natives) is None
    monkeypatch.undo()
    monkeypatch.setattr(natives.library.c, "LLVMStructCreateNamed", lambda context, name: 0)
    monkeypatch.setattr("aiocg.workers.llvm.settle.c_char_p", None)
    assert Settler.find(natives) is None


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("program", ["gcd", "crc32", "huffman", "json", "polygon", "raytracer"])
def test_modules_of_programs_are_as_read_after_every_pass(engine: Engine, settler: Settler, program: str) -> None:
    state = engine.load(default_datasets()["programs-v0"].benchmark(program).content)
    settled = 0
    for pipeline in ("verify", "mem2reg,simplifycfg", "default<O2>"):
        with Module.parse(engine.library, engine.apply(state, pipeline).content) as module:
            content = module.write_bitcode()
        for one in passes.available(engine.library):
            with Module.parse(engine.library, content) as module:
                try:
                    written = settle_after(engine, settler, module, one.pipeline)
                except LlvmError:
                    continue
                if written is not None and written != content:
                    assert_is_as_read(engine.library, module, written, f"{pipeline} {one.pipeline}")
                    settled += 1
    assert settled > 50
