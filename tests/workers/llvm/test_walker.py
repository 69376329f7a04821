"""Counts worked out by hand on small programs, for every LLVM on this machine.

The programs are written with typed pointers, which LLVM 14 wants, and rewritten for LLVMs that have `ptr`.
"""

import ctypes
import re
import struct
from pathlib import Path

import pytest

from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._walker import AUTOPHASE_MEANINGS, AUTOPHASE_NAMES, INST_COUNT_NAMES, Walker
from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.native_code import NativeLibraries, NativeLibrary


class Counter:
    """A walker and the library it walks with."""

    def __init__(self, natives: NativeLibraries) -> None:
        self.library = natives.library
        self.walker = Walker(natives.load("walker"))

    @property
    def opaque(self) -> bool:
        return self.library.version >= (15,)

    def parse(self, program: str | bytes) -> Module:
        if isinstance(program, str):
            program = (with_opaque_pointers(program) if self.opaque else program).encode()
        return Module.parse(self.library, program)

    def inst_count(self, program: str | bytes) -> dict[str, int]:
        """The entries that are not zero."""
        module = self.parse(program)
        values = struct.unpack("<70q", self.walker.inst_count(module.pointer))
        assert self.walker.instruction_count(module.pointer) == values[0]
        module.close()
        return {name: value for name, value in zip(INST_COUNT_NAMES, values, strict=True) if value}

    def autophase(self, program: str | bytes) -> dict[str, int]:
        """The entries that are not zero."""
        module = self.parse(program)
        values = struct.unpack("<56q", self.walker.autophase(module.pointer))
        module.close()
        return {name: value for name, value in zip(AUTOPHASE_NAMES, values, strict=True) if value}


@pytest.fixture(scope="module")
def counter(any_natives: NativeLibraries) -> Counter:
    return Counter(any_natives)


def with_opaque_pointers(program: str) -> str:
    program = re.sub(r"\w+ \([^()]*\)\*", "ptr", program)  # pointers to functions
    program = re.sub(r"\b\w+ (addrspace\(\d+\))\*", r"ptr \1", program)
    return re.sub(r"\b\w+\*", "ptr", program)


def block_of(size: int) -> str:
    """A function of one block of `size` instructions: adds of two arguments, and a ret."""
    adds = "\n".join(f"  %v{i} = add i32 %x, %y" for i in range(size - 1))
    return f"define void @f(i32 %x, i32 %y) {{\n{adds}\n  ret void\n}}\n"


def join_of(predecessors: int, phis: int) -> str:
    """A switch whose edges all lead to one block, which has `phis` phis."""
    cases = " ".join(f"i8 {i}, label %join" for i in range(2, predecessors + 1))
    lines = "\n".join(f"  %p{i} = phi float " + ", ".join(["[ %x, %entry ]"] * predecessors) for i in range(phis))
    return f"""
define void @f(i8 %n, float %x) {{
entry:
  switch i8 %n, label %join [ {cases} ]
join:
{lines}
  ret void
}}
"""


OPERATORS = """
define i32 @operators(i32 %a, i64 %b, i1 %c) {
  %slot = alloca i32
  store i32 0, i32* %slot
  %load = load i32, i32* %slot
  %gep = getelementptr i32, i32* %slot, i64 1
  %add = add i32 %load, 5
  %sub = sub i32 0, %add
  %mul = mul i32 %sub, %a
  %and = and i32 %mul, 255
  %or = or i32 %and, %a
  %xor = xor i1 %c, true
  %shl = shl i32 %or, 1
  %lshr = lshr i32 %shl, 3
  %ashr = ashr i32 %lshr, undef
  %trunc = trunc i64 %b to i32
  %zext = zext i1 %xor to i32
  %sext = sext i32 %trunc to i64
  %bitcast = bitcast i64 %sext to double
  %icmp = icmp eq i32 %ashr, %zext
  %select = select i1 %icmp, i32 1, i32 2
  ret i32 %select
}
"""


def test_autophase_of_operators_and_constants(counter: Counter) -> None:
    once = "AShr Add Alloca And BitCast GetElementPtr ICmp LShr Load Mul Or Ret SExt Select Shl Store Sub Trunc"
    assert counter.autophase(OPERATORS) == {
        **{f"Num{name}Inst": 1 for name in [*once.split(), "Xor", "ZExt"]},
        "const32Bit": 9,  # alloca's size, store, add, sub, and, shl, lshr, select twice
        "const64Bit": 1,  # getelementptr
        "numConstZeroes": 2,  # store, sub
        "numConstOnes": 5,  # alloca's size, getelementptr, xor (true), shl, select
        "binaryConstArg": 7,  # add, sub, and, xor, shl, lshr, and ashr for its undef
        "testUnary": 6,  # alloca, load, trunc, zext, sext, bitcast
        "TotalMemInst": 4,  # alloca, store, load, getelementptr
        "TotalInsts": 20,
        "BlockMid": 1,  # 20 instructions
        "BBNoPhi": 1,
        "TotalBlocks": 1,
        "TotalFuncs": 1,
    }


GRAPH = """
define i32 @graph(i1 %c, i1 %d) {
entry:                       ; from nowhere, to left, right
  br i1 %c, label %left, label %right
left:                        ; from entry, to join
  br label %join
right:                       ; from entry, to join, exit
  br i1 %d, label %join, label %exit
join:                        ; from left, right, to loop, exit
  %p = phi i32 [ 1, %left ], [ 2, %right ]
  br i1 %d, label %loop, label %exit
loop:                        ; from join, loop, to loop, exit
  br i1 %c, label %loop, label %exit
exit:                        ; from right, join, loop, to after
  %q = phi i32 [ 0, %right ], [ %p, %join ], [ 3, %loop ]
  br label %after
after:                       ; from exit, to nowhere
  ret i32 %q
}
"""


def test_autophase_of_branches_loops_and_joins(counter: Counter) -> None:
    assert counter.autophase(GRAPH) == {
        "onePred": 3,  # left, right, after
        "onePredOneSuc": 1,  # left
        "onePredTwoSuc": 1,  # right
        "oneSuccessor": 2,  # left, exit
        "twoPred": 2,  # join, loop
        "twoEach": 2,  # join, loop
        "twoSuccessor": 4,  # entry, right, join, loop
        "morePreds": 1,  # exit
        "NumEdges": 10,  # 2 + 1 + 2 + 2 + 2 + 1
        "CriticalCount": 6,  # right-join, right-exit, join-loop, join-exit, loop-loop, loop-exit
        "BranchCount": 6,
        "NumBrInst": 6,
        "UncondBranches": 2,  # left, exit
        "BB03Phi": 2,  # join, exit
        "BBNoPhi": 5,
        "BeginPhi": 2,
        "NumPHIInst": 2,
        "ArgsPhi": 5,  # 2 + 3
        "BBNumArgsLo": 2,
        "const32Bit": 4,  # 1, 2, 0, 3
        "numConstOnes": 1,
        "numConstZeroes": 1,
        "NumRetInst": 1,
        "TotalInsts": 9,
        "TotalBlocks": 7,
        "BlockLow": 7,
        "TotalFuncs": 1,
    }


SWITCH = """
define i32 @choose(i32 %x) {
entry:                       ; to other, a, a, b
  switch i32 %x, label %other [ i32 0, label %a
                                i32 1, label %a
                                i32 7, label %b ]
a:                           ; from entry twice, to b
  %pa = phi i32 [ 10, %entry ], [ 10, %entry ]
  br label %b
b:                           ; from entry, a, to other
  %p1 = phi i32 [ %x, %entry ], [ %pa, %a ]
  %p2 = phi i32 [ %x, %entry ], [ %pa, %a ]
  %p3 = phi i32 [ %x, %entry ], [ %pa, %a ]
  %p4 = phi i32 [ %x, %entry ], [ %pa, %a ]
  br label %other
other:                       ; from entry, b
  %r = phi i32 [ %x, %entry ], [ %p1, %b ]
  ret i32 %r
}
"""


def test_autophase_of_a_switch_counts_case_values_and_each_edge(counter: Counter) -> None:
    assert counter.autophase(SWITCH) == {
        "NumEdges": 6,  # 4 + 1 + 1
        "CriticalCount": 4,  # every edge of the switch: a, b and other have two predecessor edges each
        "oneSuccessor": 2,  # a, b
        "twoPred": 3,  # a, b, other
        "twoPredOneSuc": 2,  # a, b
        "BB03Phi": 2,  # a, other
        "BBHiPhi": 1,  # b
        "BBNoPhi": 1,
        "BeginPhi": 3,
        "NumPHIInst": 6,
        "ArgsPhi": 12,  # 2 + 8 + 2
        "BBNumArgsLo": 2,  # a, other
        "BBNumArgsHi": 1,  # b
        "const32Bit": 5,  # cases 0, 1, 7; 10 twice
        "numConstZeroes": 1,
        "numConstOnes": 1,
        "BranchCount": 2,
        "NumBrInst": 2,
        "UncondBranches": 2,
        "NumRetInst": 1,
        "TotalInsts": 10,
        "TotalBlocks": 4,
        "BlockLow": 4,
        "TotalFuncs": 1,
    }


CALLS = """
declare i32 @int(i32, i64)
declare void @nothing()
declare i8* @pointer()
declare float @real()
declare i32 @personality(...)
define void @calls(i32 ()* %indirect) personality i32 (...)* @personality {
entry:
  %a = call i32 @int(i32 1, i64 0)
  call void @nothing()
  %b = call i8* @pointer()
  %c = call float @real()
  %d = call i32 %indirect()
  %e = invoke i32 @int(i32 2, i64 1) to label %good unwind label %bad
good:
  ret void
bad:
  %f = landingpad i32 cleanup
  resume i32 %f
}
"""


def test_autophase_of_calls_counts_direct_integer_results(counter: Counter) -> None:
    assert counter.autophase(CALLS) == {
        "returnInt": 1,  # a; the invoke is no call, the call through a pointer is not direct
        "NumCallInst": 5,
        "TotalMemInst": 6,  # 5 calls, 1 invoke
        "const32Bit": 2,
        "const64Bit": 2,
        "numConstOnes": 2,
        "numConstZeroes": 1,
        "NumEdges": 2,
        "onePred": 2,
        "twoSuccessor": 1,
        "NumRetInst": 1,
        "TotalInsts": 9,
        "TotalBlocks": 3,
        "BlockLow": 3,
        "BBNoPhi": 3,
        "TotalFuncs": 6,  # 5 declarations, 1 definition
    }


def test_call_with_another_signature_is_not_a_direct_call(counter: Counter) -> None:
    if not counter.opaque:
        pytest.skip("with typed pointers such a call has a cast between")
    program = "declare i32 @f()\ndefine void @g() {\n  %r = call i64 @f()\n  call i32 @f()\n  ret void\n}"
    assert counter.autophase(program)["returnInt"] == 1


def test_call_of_an_alias_is_not_a_direct_call(counter: Counter) -> None:
    program = """
@other = alias i32 (), i32 ()* @f
define i32 @f() {
  %a = call i32 @f()
  %b = call i32 @other()
  ret i32 %b
}
"""
    assert counter.autophase(program)["returnInt"] == 1


@pytest.mark.parametrize(("size", "name"), [(14, "Low"), (15, "Mid"), (500, "Mid"), (501, "High")])
def test_block_sizes_are_told_apart_at_15_and_501(counter: Counter, size: int, name: str) -> None:
    counts = counter.autophase(block_of(size))
    assert counts["TotalInsts"] == size
    # CompilerGym counts large blocks too, but its vector leaves them out.
    assert {key: value for key, value in counts.items() if key.startswith("Block")} == (
        {} if name == "High" else {f"Block{name}": 1}
    )


@pytest.mark.parametrize(
    ("predecessors", "phis", "expected"),
    [
        (1, 0, {"onePred": 1, "onePredTwoSuc": 0, "BBNoPhi": 2}),
        (1, 3, {"onePred": 1, "BB03Phi": 1, "BBNumArgsLo": 1, "ArgsPhi": 3}),
        (1, 4, {"onePred": 1, "BBHiPhi": 1, "BBNumArgsLo": 1, "ArgsPhi": 4}),
        (1, 6, {"onePred": 1, "BBHiPhi": 1, "BBNumArgsHi": 1, "ArgsPhi": 6}),
        (2, 1, {"twoPred": 1, "BB03Phi": 1, "BBNumArgsLo": 1, "CriticalCount": 2}),
        (3, 1, {"morePreds": 1, "BB03Phi": 1, "BBNumArgsLo": 1, "CriticalCount": 3}),
        (5, 1, {"morePreds": 1, "BB03Phi": 1, "BBNumArgsLo": 1, "ArgsPhi": 5}),
        (6, 1, {"morePreds": 1, "BB03Phi": 1, "BBNumArgsHi": 1, "ArgsPhi": 6}),
    ],
)
def test_joins_are_told_apart_by_predecessors_and_phis(
    counter: Counter, predecessors: int, phis: int, expected: dict[str, int]
) -> None:
    counts = counter.autophase(join_of(predecessors, phis))
    assert {name: counts.get(name, 0) for name in expected} == expected
    assert counts["NumEdges"] == predecessors


@pytest.mark.parametrize(
    ("constant", "zeroes", "ones"),
    [
        ("i1 false", 1, 0),
        ("i1 true", 0, 1),
        ("i8 -1", 0, 0),
        ("i64 0", 1, 0),
        ("i65 0", 1, 0),
        ("i128 1", 0, 1),
        ("i128 18446744073709551617", 0, 0),  # 2**64 + 1: its low 64 bits are 1
        ("i128 18446744073709551616", 0, 0),  # 2**64: its low 64 bits are 0
        ("i4096 1", 0, 1),
        ("<2 x i32> <i32 1, i32 1>", 0, 0),
        ("<4 x i64> zeroinitializer", 0, 0),
        ("float 0.0", 0, 0),
    ],
)
def test_zeroes_and_ones_of_any_width(counter: Counter, constant: str, zeroes: int, ones: int) -> None:
    kind = constant.partition(">")[0] + ">" if constant.startswith("<") else constant.split()[0]
    counts = counter.autophase(f"define {kind} @f() {{\n  ret {constant}\n}}")
    assert counts.get("numConstZeroes", 0) == zeroes
    assert counts.get("numConstOnes", 0) == ones
    assert counts.get("const64Bit", 0) == (kind == "i64")
    assert counts.get("const32Bit", 0) == 0


def test_block_whose_address_is_taken_has_no_extra_predecessor(counter: Counter) -> None:
    program = """
define void @f(i1 %c) {
entry:
  %address = select i1 %c, i8* blockaddress(@f, %one), i8* blockaddress(@f, %two)
  indirectbr i8* %address, [label %one, label %two]
one:
  br label %two
two:
  ret void
}
"""
    counts = counter.autophase(program)
    # one: from entry, to two. two: from entry and one. Only entry-two is critical.
    assert [counts[name] for name in ("onePred", "onePredOneSuc", "twoPred", "CriticalCount")] == [1, 1, 1, 1]
    assert counts["NumEdges"] == 3


def test_autophase_of_a_module_without_functions_is_zero(counter: Counter) -> None:
    assert counter.autophase("@g = global i32 1") == {}
    assert counter.inst_count("@g = global i32 1") == {}


OPCODES = Path(__file__).with_name("data") / "opcodes.ll"


def test_inst_count_of_every_opcode(counter: Counter) -> None:
    absent = {"UserOp1", "UserOp2", "CallBr"}  # the first two exist in no program; the third is below
    expected = {name: 1 for name in INST_COUNT_NAMES if name not in absent} | {
        "TotalFuncs": 10,  # 3 declarations, 7 definitions
        "TotalBlocks": 17,  # 1 + 1 + 1 + 4 + 3 + 4 + 3
        "Ret": 6,  # in every function but control
        "Invoke": 3,  # in exceptions, caught, cleaned
        "TotalInsts": 71,  # 70 - 3 totals - 3 absent, 5 more ret, 2 more invoke
    }
    assert counter.inst_count(OPCODES.read_text()) == expected


def test_autophase_of_every_opcode(counter: Counter) -> None:
    counts = counter.autophase(OPCODES.read_text())
    # alloca, load, va_arg, fneg, extractvalue and 13 casts; a call, three invokes, alloca, load, store, getelementptr
    assert (counts["testUnary"], counts["TotalMemInst"]) == (18, 8)
    shape = ("onePred", "onePredOneSuc", "onePredTwoSuc", "twoPred", "oneSuccessor", "twoSuccessor", "NumEdges")
    assert [counts[name] for name in shape] == [8, 3, 1, 2, 4, 4, 12]
    assert (counts["CriticalCount"], counts["BranchCount"], counts["UncondBranches"], counts["ArgsPhi"]) == (2, 1, 1, 1)


def test_inst_count_of_callbr(counter: Counter) -> None:
    if not counter.opaque:
        pytest.skip("LLVM 14 writes callbr in another way")
    program = 'define void @f() {\n  callbr void asm "", "!i"() to label %a [label %b]\n'
    program += "a:\n  ret void\nb:\n  ret void\n}"
    assert counter.inst_count(program) == {
        "TotalInsts": 3, "TotalBlocks": 3, "TotalFuncs": 1, "Ret": 2, "CallBr": 1
    }  # fmt: skip
    assert counter.autophase(program)["twoSuccessor"] == 1


def test_opcode_without_a_place_counts_in_the_totals(counter: Counter) -> None:
    if counter.library.version < (22,):
        pytest.skip("ptrtoaddr came with LLVM 22")
    program = "define i64 @f(ptr %p) {\n  %a = ptrtoaddr ptr %p to i64\n  ret i64 %a\n}"
    assert counter.inst_count(program) == {"TotalInsts": 2, "TotalBlocks": 1, "TotalFuncs": 1, "Ret": 1}
    assert counter.autophase(program)["testUnary"] == 1


def test_calls_of_debug_intrinsics_count_where_they_are_calls(counter: Counter) -> None:
    program = """
declare void @llvm.dbg.value(metadata, metadata, metadata)
define void @f(i32 %x) !dbg !3 {
  call void @llvm.dbg.value(metadata i32 %x, metadata !4, metadata !DIExpression()), !dbg !5
  ret void
}
!llvm.module.flags = !{!0}
!llvm.dbg.cu = !{!1}
!0 = !{i32 2, !"Debug Info Version", i32 3}
!1 = distinct !DICompileUnit(language: DW_LANG_C, file: !2, emissionKind: FullDebug)
!2 = !DIFile(filename: "f.c", directory: "/")
!3 = distinct !DISubprogram(name: "f", file: !2, type: !6, unit: !1, spFlags: DISPFlagDefinition)
!4 = !DILocalVariable(name: "x", scope: !3, file: !2)
!5 = !DILocation(line: 1, scope: !3)
!6 = !DISubroutineType(types: !{})
"""
    assert counter.inst_count(program)["TotalInsts"] == (2 if counter.library.version < (19,) else 1)


@pytest.mark.slow
def test_blocks_by_the_hundred_thousand(counter: Counter) -> None:
    blocks = 100_000
    cases = " ".join(f"i32 {i}, label %b{i}" for i in range(blocks))
    bodies = "".join(f"b{i}:\n  br label %end\n" for i in range(blocks))
    program = f"define void @f(i32 %x) {{\n  switch i32 %x, label %end [ {cases} ]\n{bodies}end:\n  ret void\n}}"
    counts = counter.autophase(program)
    assert counts["TotalBlocks"] == blocks + 2
    assert counts["NumEdges"] == 2 * blocks + 1
    assert counts["onePredOneSuc"] == blocks
    assert counts["morePreds"] == 1
    assert counts["CriticalCount"] == 1  # from the switch to its default
    assert counts["const32Bit"] == blocks
    assert counts["numConstZeroes"] == counts["numConstOnes"] == 1


def test_names_are_the_published_ones() -> None:
    assert len(INST_COUNT_NAMES) == len(set(INST_COUNT_NAMES)) == 70
    assert len(AUTOPHASE_NAMES) == len(set(AUTOPHASE_NAMES)) == 56
    assert INST_COUNT_NAMES[:4] == ("TotalInsts", "TotalBlocks", "TotalFuncs", "Ret")
    assert INST_COUNT_NAMES[-1] == "Freeze"
    assert (AUTOPHASE_NAMES[0], AUTOPHASE_NAMES[-1]) == ("BBNumArgsHi", "testUnary")
    assert all(AUTOPHASE_MEANINGS.values())


def test_library_that_lacks_functions_is_named(clang: str, tmp_path: Path) -> None:
    library = Library.find()
    Walker(NativeLibraries(library, clang, tmp_path).load("walker"))
    (path,) = tmp_path.glob("native/*.so")
    library.c = ctypes.CDLL(None)  # this process itself, which exports no LLVM function
    with pytest.raises(CompilationError, match=r"does not export (\w+, )*LLVMGetFirstFunction, .*LLVM 14 or later"):
        NativeLibrary(library, path)
