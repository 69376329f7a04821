"""IR2Vec's counts of a program: the Python interface to `native/ir2vec.c`.

IR2Vec (VenkataKeerthy et al., "IR2Vec: LLVM IR Based Scalable Program Embeddings", TACO 2020) embeds a program as a sum
of vectors from a trained vocabulary, one for each opcode, type and operand in it. The definitions are those of LLVM
22's own `llvm/lib/Analysis/IR2Vec.cpp`, whichever libLLVM is loaded:

* A program is the sum of its functions, a function the sum of its reachable blocks, and a block the sum of its
  instructions, except debug intrinsics and pseudo probes.
* Symbolic: an instruction is its opcode, its type, its operands, and, for a comparison, its predicate.
* Flow-aware: an operand that is an earlier instruction, depth first from the entry, contributes that instruction's
  embedding. This is LLVM's simplification of the paper's flow-aware form.
* An operand is a function, else a pointer, else a constant, else a variable (blocks are variables). The case values of
  a switch are not operands.

This module counts how often each entity of the vocabulary occurs in the sum; the client, which has the vocabulary, does
the rest. Flow-aware counts grow exponentially along use chains and saturate at 1e300.
"""

import ctypes
import functools
import io
from ctypes import c_double, c_int64, c_uint64, c_void_p

from aiocg.transport.arrays import Array
from aiocg.transport.messages import ObservationSpec
from aiocg.workers.compilation import Observation
from aiocg.workers.llvm.native_code import NativeLibrary, packed
from aiocg.workers.llvm.observations._observation import Subject

# In the order of LLVM's C API, which has no opcode 6.
OPCODES = """
Ret Br Switch IndirectBr Invoke Unreachable
Add FAdd Sub FSub Mul FMul UDiv SDiv FDiv URem SRem FRem Shl LShr AShr And Or Xor
Alloca Load Store GetElementPtr
Trunc ZExt SExt FPToUI FPToSI UIToFP SIToFP FPTrunc FPExt PtrToInt IntToPtr BitCast
ICmp FCmp PHI Call Select UserOp1 UserOp2 VAArg
ExtractElement InsertElement ShuffleVector ExtractValue InsertValue
Fence AtomicCmpXchg AtomicRMW Resume LandingPad AddrSpaceCast
CleanupRet CatchRet CatchPad CleanupPad CatchSwitch FNeg CallBr Freeze PtrToAddr
"""
TYPES = """
FloatTy VoidTy LabelTy MetadataTy VectorTy TokenTy IntegerTy FunctionTy PointerTy StructTy ArrayTy UnknownTy
"""
OPERANDS = "Function Pointer Constant Variable"
FLOAT_PREDICATES = "false oeq ogt oge olt ole one ord uno ueq ugt uge ult ule une true"
INTEGER_PREDICATES = "eq ne ugt uge ult ule sgt sge slt sle"

ENTITIES: tuple[str, ...] = (
    *OPCODES.split(),
    *TYPES.split(),
    *OPERANDS.split(),
    *(f"FCMP_{name}" for name in FLOAT_PREDICATES.split()),
    *(f"ICMP_{name}" for name in INTEGER_PREDICATES.split()),
)

_ENTRY = 3  # 8-byte words of `struct Entry`
_VISIT = 2  # of `struct Visit`


class Counter:
    """Counts entities in modules of one libLLVM; holds no state between calls."""

    def __init__(self, native: NativeLibrary) -> None:
        self._native, self._functions = native.c, native.llvm
        self._native.aiocg_ir2vec_extent.argtypes = (c_void_p, c_void_p, c_void_p)
        self._native.aiocg_ir2vec_names.argtypes = (c_void_p, c_void_p, c_void_p, c_void_p)
        table = (c_void_p, c_void_p, c_uint64)
        self._native.aiocg_ir2vec.argtypes = (c_void_p, c_void_p, c_int64, c_void_p, *table, c_void_p, *table)
        for name in ("aiocg_ir2vec_extent", "aiocg_ir2vec_names", "aiocg_ir2vec"):
            getattr(self._native, name).restype = None

    def program(self, module_pointer: int, *, flow_aware: bool) -> bytes:
        """Count over the whole program: one little-endian float64 for each of `ENTITIES`."""
        return self._count(module_pointer, 1, 0, flow_aware)

    def functions(self, module_pointer: int, *, flow_aware: bool) -> bytes:
        """Count in each function that has a body, in module order: one row of float64 each, as in `program`."""
        return self._count(module_pointer, self._extent(module_pointer)[0], len(ENTITIES), flow_aware)

    def names(self, module_pointer: int) -> list[str]:
        """Return the names of the functions that have a body, in module order."""
        functions, _, _, size = self._extent(module_pointer)
        text, lengths = ctypes.create_string_buffer(size), (c_int64 * functions)()
        self._native.aiocg_ir2vec_names(self._functions, module_pointer, text, lengths)
        stream = io.BytesIO(text.raw)
        return [stream.read(length).decode(errors="backslashreplace") for length in lengths]

    def _extent(self, module_pointer: int) -> tuple[int, int, int, int]:
        """Return the number of functions with a body, the most blocks and instructions in one, and the name bytes."""
        extent = (c_int64 * 4)()
        self._native.aiocg_ir2vec_extent(self._functions, module_pointer, extent)
        functions, blocks, instructions, size = extent
        return functions, blocks, instructions, size

    def _count(self, module_pointer: int, rows: int, stride: int, flow_aware: bool) -> bytes:
        _, blocks, instructions, _ = self._extent(module_pointer)
        out = (c_double * (rows * len(ENTITIES)))()
        stack = (c_uint64 * (_VISIT * blocks))()
        flow = _table(instructions) if flow_aware else (None, None, 0)
        self._native.aiocg_ir2vec(self._functions, module_pointer, stride, out, *_table(blocks), stack, *flow)
        return packed(out, "d")


def _table(entries: int) -> tuple[object, object, int]:
    """Allocate a table: its entries, and at least twice as many slots, rounded up to a power of two."""
    slots = 1 << (2 * entries).bit_length()
    return (c_uint64 * (_ENTRY * entries))(), (c_uint64 * slots)(), slots - 1


def _counter(subject: Subject) -> Counter:
    return Counter(subject.engine.natives.load("ir2vec"))


def _program(subject: Subject, flow_aware: bool) -> Array:
    module = subject.engine.module(subject.state)
    return Array("float64", (len(ENTITIES),), _counter(subject).program(module.pointer, flow_aware=flow_aware))


def _functions(subject: Subject, flow_aware: bool) -> dict[str, object]:
    pointer, counter = subject.engine.module(subject.state).pointer, _counter(subject)
    names = counter.names(pointer)
    counts = counter.functions(pointer, flow_aware=flow_aware)
    return {"functions": names, "counts": Array("float64", (len(names), len(ENTITIES)), counts)}


def _observations(form: str, description: str, flow_aware: bool) -> tuple[Observation, Observation]:
    size = len(ENTITIES)
    return (
        Observation.of(
            f"Ir2vec{form}Counts",
            "array",
            f"How often each entity of the vocabulary goes into the {description} IR2Vec embedding.",
            functools.partial(_program, flow_aware=flow_aware),
            dtype="float64",
            shape=(size,),
            keys=ENTITIES,
            low=0,
            default=Array("float64", (size,), bytes(8 * size)),
        ),
        Observation.of(
            f"Ir2vecFunctionLevel{form}Counts",
            "record",
            f"The same for the {description} embedding of each function that has a body.",
            functools.partial(_functions, flow_aware=flow_aware),
            fields=(
                ObservationSpec("functions", "texts"),
                ObservationSpec("counts", "array", dtype="float64", shape=(-1, size), keys=ENTITIES, low=0),
            ),
        ),
    )


OBSERVATIONS = (*_observations("Symbolic", "symbolic", False), *_observations("FlowAware", "flow-aware", True))
