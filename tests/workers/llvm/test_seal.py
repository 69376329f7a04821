"""Seals: what leaves a module as it was, and all that does not, most of which no text shows."""

import random
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_size_t, c_void_p, cast, string_at
from typing import Any

import psutil
import pytest

from aiocg.datasets import default_datasets
from aiocg.workers.llvm import passes
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.library import Library, find_clang
from aiocg.workers.llvm.module import LlvmError, Module
from aiocg.workers.llvm.native_library import NativeLibraries
from aiocg.workers.llvm.seal import Seals, find_layout

Compile = Callable[..., bytes]

TEXT = b"""
source_filename = "seal"
@table = global [4 x i32] zeroinitializer, align 16
@other = internal global i32 7
declare i32 @callee(i32)
define i32 @f(i32 %x, i32 %y) {
entry:
  %slot = alloca i32
  %a = add i32 %x, %y
  %b = mul i32 %a, %a
  store i32 %b, ptr %slot
  %c = call i32 @callee(i32 %b)
  %d = icmp ult i32 %c, %a
  br i1 %d, label %yes, label %no
yes:
  %e = load i32, ptr @other, align 4
  br label %no
no:
  %p = phi i32 [ %a, %entry ], [ %e, %yes ]
  %v = insertelement <2 x i32> poison, i32 %p, i32 0
  %s = shufflevector <2 x i32> %v, <2 x i32> poison, <2 x i32> <i32 0, i32 0>
  %r = extractelement <2 x i32> %s, i32 1
  ret i32 %r
}
!named = !{!0}
!0 = !{i32 1}
"""


@pytest.fixture(scope="session")
def seals(natives: NativeLibraries) -> Seals:
    found = Seals.find(natives)
    assert found is not None, "seals must work with the LLVM that comes with aiocg"
    return found


class Editor:
    """A module and the functions of LLVM's C API that change one, called by name."""

    def __init__(self, library: Library, module: Module) -> None:
        self._library = library
        self.module = module.pointer
        self.context = module.context.pointer
        self.function = self.get("LLVMGetNamedFunction", self.module, b"f")
        self.table = self.get("LLVMGetNamedGlobal", self.module, b"table")
        self.blocks = self.chain("LLVMGetFirstBasicBlock", "LLVMGetNextBasicBlock", self.function)
        self.instructions = [
            one
            for block in self.blocks
            for one in self.chain("LLVMGetFirstInstruction", "LLVMGetNextInstruction", block)
        ]

    def get(self, name: str, *arguments: Any) -> int:
        """Call a function that returns a reference; texts are `char *`, the rest are 64-bit words."""
        kinds = [c_char_p if isinstance(one, bytes) else c_void_p for one in arguments]
        function = CFUNCTYPE(c_void_p, *kinds)(self._address(name))
        return int(function(*arguments) or 0)

    def chain(self, first: str, following: str, owner: int) -> list[int]:
        found, one = [], self.get(first, owner)
        while one:
            found.append(one)
            one = self.get(following, one)
        return found

    def named(self, name: bytes) -> int:
        """Return the instruction with a name."""
        return next(one for one in self.instructions if self._name(one) == name)

    def _name(self, value: int) -> bytes:
        length = c_size_t()
        getter = CFUNCTYPE(c_void_p, c_void_p, POINTER(c_size_t))(self._address("LLVMGetValueName2"))
        return string_at(getter(value, byref(length)), length.value)

    def _address(self, name: str) -> int:
        return cast(getattr(self._library.c, name), c_void_p).value or 0

    def attribute(self, name: bytes) -> int:
        kind = self.get("LLVMGetEnumAttributeKindForName", name, len(name)) & 0xFFFFFFFF
        return self.get("LLVMCreateEnumAttribute", self.context, kind, 0)

    def number(self, value: int) -> int:
        return self.get("LLVMConstInt", self.get("LLVMInt32TypeInContext", self.context), value, 0)

    def note(self) -> int:
        """A metadata node, as the value that `LLVMSetMetadata` takes."""
        return self.get("LLVMMetadataAsValue", self.context, self.node())

    def node(self) -> int:
        """An empty metadata node."""
        return self.get("LLVMMDNodeInContext2", self.context, None, 0)


Edit = Callable[[Editor], Any]


def take_a_name(edit: Editor) -> None:
    edit.get("LLVMDeleteBasicBlock", edit.get("LLVMAppendBasicBlockInContext", edit.context, edit.function, b"entry"))


def take_a_free_name(edit: Editor) -> None:
    edit.get("LLVMDeleteBasicBlock", edit.get("LLVMAppendBasicBlockInContext", edit.context, edit.function, b"free"))


def take_the_name_of_a_global(edit: Editor) -> None:
    kind = edit.get("LLVMInt32TypeInContext", edit.context)
    edit.get("LLVMDeleteGlobal", edit.get("LLVMAddGlobal", edit.module, kind, b"table"))


def use_again(edit: Editor) -> None:
    """The operand is the same, but its use is the first of the list now."""
    multiplication = edit.named(b"b")
    first = edit.get("LLVMGetOperand", multiplication, 0)
    edit.get("LLVMSetOperand", multiplication, 0, first)


def leave_a_dead_constant(edit: Editor) -> None:
    edit.get("LLVMConstPtrToInt", edit.table, edit.get("LLVMInt32TypeInContext", edit.context))


def ask_for_a_kind(edit: Editor) -> None:
    edit.get("LLVMGetMDKindIDInContext", edit.context, b"never.heard.of", 14)


# What bitcode without the order of use-lists does not show, but a pass that runs next may.
HIDDEN: dict[str, Edit] = {
    "name that was taken": take_a_name,
    "name that was free": take_a_free_name,
    "name of a global": take_the_name_of_a_global,
    "order of uses": use_again,
    "dead constant": leave_a_dead_constant,
}

CHANGES: dict[str, Edit] = {
    **HIDDEN,
    "kind of metadata": ask_for_a_kind,
    "metadata": lambda e: e.get("LLVMSetMetadata", e.named(b"e"), 5, e.note()),
    "metadata of a global": lambda e: e.get("LLVMGlobalSetMetadata", e.table, 5, e.node()),
    "named metadata": lambda e: e.get("LLVMAddNamedMetadataOperand", e.module, b"named", e.note()),
    "new named metadata": lambda e: e.get("LLVMGetOrInsertNamedMetadata", e.module, b"new", 3),
    "value name": lambda e: e.get("LLVMSetValueName2", e.named(b"a"), b"z", 1),
    "swapped names": lambda e: (
        e.get("LLVMSetValueName2", a := e.named(b"a"), b"t", 1),
        e.get("LLVMSetValueName2", b := e.named(b"b"), b"a", 1),
        e.get("LLVMSetValueName2", a, b"b", 1),
        b,
    ),
    "call attribute": lambda e: e.get("LLVMAddCallSiteAttribute", e.named(b"c"), 1, e.attribute(b"noundef")),
    "function attribute": lambda e: e.get("LLVMAddAttributeAtIndex", e.function, 0xFFFFFFFF, e.attribute(b"nounwind")),
    "argument attribute": lambda e: e.get("LLVMAddAttributeAtIndex", e.function, 1, e.attribute(b"noundef")),
    "tail call": lambda e: e.get("LLVMSetTailCall", e.named(b"c"), 1),
    "calling convention": lambda e: e.get("LLVMSetInstructionCallConv", e.named(b"c"), 8),
    "flag": lambda e: e.get("LLVMSetNUW", e.named(b"a"), 1),
    "volatile": lambda e: e.get("LLVMSetVolatile", e.named(b"e"), 1),
    "alignment": lambda e: e.get("LLVMSetAlignment", e.named(b"e"), 2),
    "alignment of a global": lambda e: e.get("LLVMSetAlignment", e.table, 32),
    "operand": lambda e: e.get("LLVMSetOperand", e.named(b"b"), 0, e.number(3)),
    "deleted instruction": lambda e: e.get("LLVMInstructionEraseFromParent", e.instructions[3]),
    "moved block": lambda e: e.get("LLVMMoveBasicBlockAfter", e.blocks[1], e.blocks[2]),
    "linkage": lambda e: e.get("LLVMSetLinkage", e.function, 8),
    "visibility": lambda e: e.get("LLVMSetVisibility", e.function, 1),
    "section": lambda e: e.get("LLVMSetSection", e.function, b"cold"),
    "constant global": lambda e: e.get("LLVMSetGlobalConstant", e.table, 1),
    "thread-local global": lambda e: e.get("LLVMSetThreadLocal", e.table, 1),
    "externally initialised": lambda e: e.get("LLVMSetExternallyInitialized", e.table, 1),
    "initialiser": lambda e: e.get("LLVMSetInitializer", e.get("LLVMGetNamedGlobal", e.module, b"other"), e.number(8)),
    "collector": lambda e: e.get("LLVMSetGC", e.function, b"shadow-stack"),
    "assembly": lambda e: e.get("LLVMSetModuleInlineAsm2", e.module, b"nop", 3),
    "triple": lambda e: e.get("LLVMSetTarget", e.module, b"aarch64-linux-gnu"),
    "data layout": lambda e: e.get("LLVMSetDataLayout", e.module, b"e-i64:64"),
    "source file": lambda e: e.get("LLVMSetSourceFileName", e.module, b"lake", 4),
    "new function": lambda e: e.get(
        "LLVMAddFunction", e.module, b"g", e.get("LLVMGlobalGetValueType", e.function)
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_breaks_the_seal(library: Library, seals: Seals, change: str) -> None:
    with Module.parse(library, TEXT) as module:
        before, bitcode = seals.take(module), module.write_bitcode()
        assert before != 0
        assert seals.take(module) == before
        CHANGES[change](Editor(library, module))
        assert seals.take(module) not in (0, before)
        assert (module.write_bitcode() == bitcode) == (change in HIDDEN)


def test_looking_at_a_module_leaves_its_seal(engine: Engine, seals: Seals, compile_program: Compile) -> None:
    for name in ("calculator.c", "shapes.cc"):
        with Module.parse(engine.library, compile_program(name)) as module:
            before = seals.take(module)
            assert before
            for look in (module.to_text, module.write_bitcode, module.verify, module.defined_functions):
                look()
            engine.walker.autophase(module.pointer)
            engine.equality.fingerprint(module)
            engine.loops.find(module)
            assert seals.take(module) == before


@pytest.mark.parametrize(
    "text",
    [
        b"""
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2}
!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1)
!1 = !DIFile(filename: "a", directory: "b")
!2 = !{i32 2, !"Debug Info Version", i32 3}
""",
        b"""
declare void @llvm.assume(i1)
define void @f(ptr %p) {
  call void @llvm.assume(i1 true) ["align"(ptr %p, i64 8)]
  ret void
}
""",
    ],
    ids=["debug information", "operand bundle"],
)
def test_module_with_what_a_seal_would_not_see_has_none(library: Library, seals: Seals, text: bytes) -> None:
    with Module.parse(library, text) as module:
        assert seals.take(module) == 0


def test_program_with_thousands_of_kinds_of_metadata_leaks_no_memory(library: Library, seals: Seals) -> None:
    kinds = b" ".join(b", !kind.%d !0" % number for number in range(5000))
    text = b"define void @f() {\n  ret void" + kinds.replace(b" ,", b",") + b"\n}\n!0 = !{}\n"
    with Module.parse(library, text) as module:
        before, process = seals.take(module), psutil.Process()
        assert before
        for _ in range(50):
            seals.take(module)
        used = process.memory_info().rss
        for _ in range(500):
            assert seals.take(module) == before
        assert process.memory_info().rss - used < 8 << 20  # 500 lists of 5,000 names are 40 MB


def assert_unbroken_seals_are_right(engine: Engine, seals: Seals, content: bytes) -> tuple[int, int]:
    """Run every pass on a parse of its own; return how many broke the seal, and how many did not."""
    broken = unbroken = 0
    with Module.parse(engine.library, content) as module:
        rewritten, machine = module.write_bitcode(), engine._machine(module.triple)
    for one in passes.available(engine.library):
        with Module.parse(engine.library, content) as module:
            before = seals.take(module)
            try:
                module.run_passes(one.pipeline, machine)
            except LlvmError:
                continue
            if seals.take(module) == before:
                assert module.write_bitcode() == rewritten, one.pipeline
                unbroken += 1
            else:
                broken += 1
    return broken, unbroken


LONGER = ("crc32", "huffman", "json", "connect4", "polygon")


@pytest.mark.parametrize("program", ["gcd", *(pytest.param(one, marks=pytest.mark.slow) for one in LONGER)])
def test_unbroken_seal_means_the_same_bitcode(engine: Engine, seals: Seals, program: str) -> None:
    state = engine.load(default_datasets()["programs-v0"].benchmark(program).content)
    for pipeline in ("verify", "mem2reg,simplifycfg", "default<O2>"):
        broken, unbroken = assert_unbroken_seals_are_right(engine, seals, engine.apply(state, pipeline).content)
        assert broken > 5
        assert unbroken > 50


@pytest.mark.parametrize("major", [14, 19])
def test_older_llvms_have_seals_too(
    system_library: Callable[[int], Library], natives: NativeLibraries, compile_with: Compile, major: int
) -> None:
    library = system_library(major)
    clang = find_clang(library)
    older = NativeLibraries(library, clang, natives.folder.parent)
    found = Seals.find(older)
    assert found is not None
    broken, unbroken = assert_unbroken_seals_are_right(Engine(library, older), found, compile_with(clang, "sorting.c"))
    assert broken > 5
    assert unbroken > 20


def test_layout_is_found_whatever_was_in_memory_before(library: Library) -> None:
    chance, kept = random.Random(7), []
    for _ in range(1500):
        assert find_layout(library) is not None
        kept.append(bytearray(chance.randrange(1, 3000)))
        if len(kept) > 300:
            chance.shuffle(kept)
            del kept[100:]


def test_experiments_that_go_wrong_give_no_layout(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function whose blocks lose their names, as in a context that discards them, has no table to find."""
    assert find_layout(library) == find_layout(library) is not None
    append = library.c.LLVMAppendBasicBlockInContext
    monkeypatch.setattr(
        library.c, "LLVMAppendBasicBlockInContext", lambda context, function, _: append(context, function, b"")
    )
    monkeypatch.setattr("aiocg.workers.llvm.seal._bound", lambda library: library.c)
    assert find_layout(library) is None
