"""The walker against a slow second opinion, on compiled C and C++ and on random programs.

The second opinion takes opcodes and switch cases from the printed module and everything else from the C API,
called from Python; predecessors are counted from the successor lists of terminators.
"""

import collections
import ctypes
import itertools
import re
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._walker import AUTOPHASE_NAMES, INST_COUNT_NAMES, Walker
from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.native_code import NativeLibraries

from .conftest import every_opcode, everything, random_program

Cases = list[tuple[int, int]]  # width and value of each case of a switch

INSTRUCTION = re.compile(r'  (?:%(?:"[^"]*"|[-\w$.]+) = )?(?:(?:tail|musttail|notail) )?([a-z]\w*)')
SWITCH_CASE = re.compile(r"    i(\d+) (-?\w+), label %")
SPELLINGS = {"cmpxchg": "AtomicCmpXchg", "va_arg": "VAArg"}
NAMES_BY_OPCODE = {name.lower(): name for name in INST_COUNT_NAMES[3:]}
BINARY = {"Shl", "LShr", "AShr", "And", "Or", "Xor"}
BINARY |= {f"{kind}{operation}" for kind in ("", "F") for operation in ("Add", "Sub", "Mul")}
BINARY |= {f"{kind}{operation}" for kind in "USF" for operation in ("Div", "Rem")}
UNARY = {"Trunc", "ZExt", "SExt", "FPTrunc", "FPExt", "PtrToInt", "IntToPtr", "BitCast", "AddrSpaceCast"}
UNARY |= {
    "FPToUI",
    "FPToSI",
    "UIToFP",
    "SIToFP",
    "FNeg",
    "Alloca",
    "Load",
    "VAArg",
    "ExtractValue",
    "ptrtoaddr",
}
MEMORY = {"GetElementPtr", "Load", "Store", "Call", "Invoke", "Alloca"}

POINTER_FUNCTIONS = """
    GetFirstFunction GetNextFunction GetFirstBasicBlock GetNextBasicBlock GetFirstInstruction
    GetNextInstruction GetBasicBlockTerminator GetCalledValue GetCalledFunctionType GlobalGetValueType
    IsAFunction IsAConstantInt PrintValueToString PrintTypeToString PrintModuleToString
"""
NUMBER_FUNCTIONS = "GetNumOperands GetNumSuccessors IsConstant"
INDEXED_FUNCTIONS = "GetOperand GetSuccessor"


class Reference:
    """The slow way, for one library."""

    def __init__(self, library: Library) -> None:
        self.library = library
        c = ctypes.CDLL(str(library.path))
        for names in (POINTER_FUNCTIONS, NUMBER_FUNCTIONS, INDEXED_FUNCTIONS):
            for name in names.split():
                function = c[f"LLVM{name}"]
                function.restype = ctypes.c_int if names is NUMBER_FUNCTIONS else ctypes.c_void_p
                function.argtypes = [ctypes.c_void_p]
                if names is INDEXED_FUNCTIONS:
                    function.argtypes = [ctypes.c_void_p, ctypes.c_uint]
                setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"LLVM{name} is not in the tables above")

    def each(self, kind: str, parent: int) -> Iterator[int]:
        item = getattr(self, f"GetFirst{kind}")(parent)
        while item:
            yield item
            item = getattr(self, f"GetNext{kind}")(item)

    def text_of(self, value: int) -> str:
        return self.library.take_string(self.PrintValueToString(value))

    def opcodes(self, module: int) -> list[tuple[str, Cases]]:
        """The opcode of each instruction, in order, and for a switch its cases as (width, value)."""
        found: list[tuple[str, Cases]] = []
        for line in self.library.take_string(self.PrintModuleToString(module)).splitlines():
            if match := INSTRUCTION.match(line):
                word = match[1]
                found.append((SPELLINGS.get(word) or NAMES_BY_OPCODE.get(word, word), []))
            elif match := SWITCH_CASE.match(line):
                found[-1][1].append((int(match[1]), value_of(match[2])))
        return found

    def inst_count(self, module: int) -> dict[str, int]:
        counts = collections.Counter(name for name, _ in self.opcodes(module) if name in INST_COUNT_NAMES)
        functions = list(self.each("Function", module))
        counts["TotalFuncs"] = len(functions)
        counts["TotalBlocks"] = sum(len(list(self.each("BasicBlock", function))) for function in functions)
        counts["TotalInsts"] = len(self.opcodes(module))
        return counts

    def autophase(self, module: int) -> dict[str, int]:
        counts: collections.Counter[str] = collections.Counter()
        opcodes = iter(self.opcodes(module))
        for function in self.each("Function", module):
            counts["TotalFuncs"] += 1
            blocks = list(self.each("BasicBlock", function))
            successors = {block: self.successors(block) for block in blocks}
            predecessors = collections.Counter(itertools.chain.from_iterable(successors.values()))
            for block in blocks:
                self.count_block(block, opcodes, counts)
                count_shape(len(successors[block]), predecessors[block], counts)
                if len(successors[block]) > 1:
                    counts["CriticalCount"] += sum(predecessors[target] > 1 for target in successors[block])
        return counts

    def successors(self, block: int) -> list[int]:
        end = self.GetBasicBlockTerminator(block)
        return [self.GetSuccessor(end, i) for i in range(self.GetNumSuccessors(end))]

    def count_block(
        self,
        block: int,
        opcodes: Iterator[tuple[str, Cases]],
        counts: collections.Counter[str],
    ) -> None:
        names, incoming = [], 0
        for instruction in self.each("Instruction", block):
            name, cases = next(opcodes)
            names.append(name)
            operands = [self.GetOperand(instruction, i) for i in range(self.GetNumOperands(instruction))]
            incoming += len(operands) * (name == "PHI")
            counts[f"Num{name}Inst"] += 1
            self.count_operands(name, operands, cases, counts)
            if name == "Br":
                counts["BranchCount"] += 1
                counts["UncondBranches"] += self.GetNumSuccessors(instruction) == 1
            if name == "Call":
                counts["returnInt"] += self.calls_integer_function(instruction)
        phis = names.count("PHI")
        counts["BeginPhi"] += names[0] == "PHI"
        counts["BBNoPhi" if phis == 0 else "BB03Phi" if phis <= 3 else "BBHiPhi"] += 1
        counts["ArgsPhi"] += incoming
        counts["BBNumArgsLo"] += 1 <= incoming <= 5
        counts["BBNumArgsHi"] += incoming > 5
        counts["BlockLow"] += len(names) < 15
        counts["BlockMid"] += 15 <= len(names) <= 500
        counts["TotalBlocks"] += 1
        counts["TotalInsts"] += len(names)
        counts["TotalMemInst"] += sum(name in MEMORY for name in names)
        counts["testUnary"] += sum(name in UNARY for name in names)

    def count_operands(self, name: str, operands: list[int], cases: Cases, counts: collections.Counter[str]) -> None:
        integers = list(cases)
        for operand in operands[:1] if name == "Switch" else operands:
            text = self.text_of(operand) if self.IsAConstantInt(operand) else ""
            if match := re.fullmatch(r"i(\d+) (\S+)", text):
                integers.append((int(match[1]), value_of(match[2])))
        counts["const32Bit"] += sum(width == 32 for width, _ in integers)
        counts["const64Bit"] += sum(width == 64 for width, _ in integers)
        counts["numConstZeroes"] += sum(value == 0 for _, value in integers)
        counts["numConstOnes"] += sum(value == 1 for _, value in integers)
        counts["binaryConstArg"] += name in BINARY and any(map(self.IsConstant, operands))

    def calls_integer_function(self, call: int) -> bool:
        callee = self.GetCalledValue(call)
        if not self.IsAFunction(callee):
            return False
        kinds = (self.GlobalGetValueType(callee), self.GetCalledFunctionType(call))
        texts = [self.library.take_string(self.PrintTypeToString(kind)) for kind in kinds]
        return texts[0] == texts[1] and re.match(r"i\d+ \(", texts[0]) is not None


def value_of(text: str) -> int:
    return {"true": 1, "false": 0}[text] if text.isalpha() else int(text)


def count_shape(successors: int, predecessors: int, counts: collections.Counter[str]) -> None:
    counts["NumEdges"] += successors
    pairs = {"onePredOneSuc": (1, 1), "onePredTwoSuc": (1, 2), "twoPredOneSuc": (2, 1), "twoEach": (2, 2)}
    for name, pair in pairs.items():
        counts[name] += pair == (predecessors, successors)
    counts["oneSuccessor"] += successors == 1
    counts["twoSuccessor"] += successors == 2
    counts["onePred"] += predecessors == 1
    counts["twoPred"] += predecessors == 2
    counts["morePreds"] += predecessors > 2


@pytest.fixture(scope="module")
def walker(any_natives: NativeLibraries) -> Walker:
    return Walker(any_natives.load("walker"))


def check(library: Library, walker: Walker, program: bytes) -> int:
    """Compare both vectors in full and return the number of instructions."""
    module = Module.parse(library, program)
    reference = Reference(library)
    for names, data, expected in (
        (INST_COUNT_NAMES, walker.inst_count(module.pointer), reference.inst_count(module.pointer)),
        (AUTOPHASE_NAMES, walker.autophase(module.pointer), reference.autophase(module.pointer)),
    ):
        counted = dict(zip(names, struct.unpack(f"<{len(names)}q", data), strict=True))
        assert counted == {name: expected.get(name, 0) for name in names}
    total: int = walker.instruction_count(module.pointer)
    assert total == reference.inst_count(module.pointer)["TotalInsts"]
    module.close()
    return total


@pytest.mark.few(6)
@pytest.mark.parametrize("flags", ["-O1 -Xclang -disable-llvm-passes", "-O0", "-O2", "-Oz -g"])
@pytest.mark.parametrize("language", ["c", "c++"])
def test_counts_on_compiled_programs(
    any_library: Library, any_clang: str, walker: Walker, language: str, flags: str
) -> None:
    assert check(any_library, walker, everything(any_clang, language, flags)) > 50


@pytest.mark.few(5)
@pytest.mark.parametrize("seed", range(1, 7))
def test_counts_on_random_programs(any_library: Library, walker: Walker, seed: int) -> None:
    assert check(any_library, walker, random_program(seed, 200 * seed)) >= 50 * seed


def test_counts_on_every_opcode(any_library: Library, walker: Walker) -> None:
    assert check(any_library, walker, every_opcode(any_library)) == 71
