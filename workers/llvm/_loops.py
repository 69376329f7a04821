"""The natural loops of a program, unrolling and marking them: the Python interface to `native/loops.c`."""

import ctypes
from ctypes import Structure, byref, c_char_p, c_int64, c_void_p
from typing import NamedTuple

from aiocg.workers.llvm.module import Module, NoSuchTarget, TargetMachine
from aiocg.workers.llvm.native_code import NativeLibrary

# The canonicalisation that the unroller needs.
_PREPARE = "loop-simplify,lcssa"

# With these options the unroller unrolls only loops that request it.
_UNROLL_WHERE_ASKED = "loop-unroll<no-partial;no-peeling;no-profile-peeling;no-runtime;no-upperbound;full-unroll-max=0>"


# Hints by marks without a number: name, value and bits of it; 0 bits for no value.
_HINTS: dict[str, tuple[tuple[str, int, int], ...]] = {
    "unroll=none": (("disable", 0, 0),),
    "unroll=full": (("full", 0, 0),),
    "vectorize=none": (("width", 1, 32),),
    "interleave=none": (("count", 1, 32),),
    "distribute": (("enable", 1, 1),),
}


class Loop(NamedTuple):
    """A natural loop.

    Attributes:
        function: the number of its function among those with a body, in module order.
        header: the number of its header among the blocks of the function.
        depth: how many loops contain the header, this one included.
        blocks: the number of its blocks, including those of inner loops.
        instructions: the number of instructions in those blocks.
        latches: the number of blocks that branch back to the header.
    """

    function: int
    header: int
    depth: int
    blocks: int
    instructions: int
    latches: int


class _Graph(Structure):
    """`struct Graph` of `native/loops.c`; the sizes of the arrays are in `_Memory`."""

    _fields_ = (
        ("blocks", c_int64),
        ("edges", c_int64),
        ("block", c_void_p),
        ("slot", c_void_p),
        ("mask", c_int64),
        ("first", c_void_p),
        ("successor", c_void_p),
        ("first_predecessor", c_void_p),
        ("predecessor", c_void_p),
        ("order", c_void_p),
        ("position", c_void_p),
        ("dominator", c_void_p),
        ("depth", c_void_p),
        ("stack", c_void_p),
        ("stamp", c_void_p),
        ("instructions", c_void_p),
        ("reached", c_int64),
    )


class _Hint(Structure):
    """`struct Hint` of `native/loops.c`."""

    _fields_ = (("name", c_char_p), ("number", c_int64), ("bits", c_int64))


class _Memory:
    """The C side's working memory, with room for a function of so many blocks and edges."""

    def __init__(self, blocks: int, edges: int) -> None:
        slots = 1 << (2 * blocks).bit_length()
        sizes = {"slot": slots, "first": blocks + 1, "successor": edges, "first_predecessor": blocks + 1,
                 "predecessor": edges, "stack": 2 * blocks}  # fmt: skip
        names = [name for name, kind in _Graph._fields_ if kind is c_void_p]
        self.arrays = {name: (c_int64 * sizes.get(name, blocks))() for name in names}
        addresses = {name: ctypes.addressof(array) for name, array in self.arrays.items()}
        self.graph = byref(_Graph(blocks=blocks, edges=edges, mask=slots - 1, **addresses))


class Loops:
    """Finds and unrolls loops in modules of one libLLVM."""

    def __init__(self, native: NativeLibrary) -> None:
        self._native, self._llvm = native.c, native.llvm
        prototypes = {
            "aiocg_loop_sizes": (None, (c_void_p,)),
            "aiocg_loop_sizes_of_function": (None, (c_void_p,)),
            "aiocg_loops": (c_int64, (c_void_p, c_void_p)),
            "aiocg_loop_header": (c_void_p, (c_void_p, c_void_p, c_int64)),
            "aiocg_mark_loop": (c_int64, (c_void_p, c_void_p, c_void_p, c_int64, c_void_p)),
            "aiocg_unmark_loops": (None, (c_void_p, c_int64)),
            "aiocg_hint_loop": (c_int64, (c_void_p, c_void_p, c_int64, c_char_p, c_void_p, c_int64)),
            "aiocg_unhint_loops": (None, ()),
        }
        for name, (result, arguments) in prototypes.items():
            function = getattr(self._native, name)
            function.restype = result
            function.argtypes = (c_void_p, c_void_p, *arguments)

    def find(self, module: Module) -> list[Loop]:
        """Return the loops of all functions, in the order of the functions and, within one, of the loop headers."""
        blocks, edges, total = self._sizes("aiocg_loop_sizes", module.pointer)
        memory, rows = _Memory(blocks, edges), (c_int64 * (len(Loop._fields) * (total + 1)))()
        count = self._native.aiocg_loops(self._llvm, module.pointer, memory.graph, rows)
        width = len(Loop._fields)
        return [Loop(*rows[place : place + width]) for place in range(0, count * width, width)]

    def unroll(self, module: Module, function: int, number: int, factor: int, machine: TargetMachine | None) -> bool:
        """Unroll a loop, and return whether LLVM did.

        No other loop is unrolled, and no loop hint is left behind. The function's other loops are brought into
        simplified, loop-closed form, as before any loop pass.

        Args:
            module: to change.
            function: the `LLVMValueRef` of the function that the loop is in.
            number: the loop's number within the function.
            factor: the number of copies of the body; 0 means one per iteration.
            machine: the target that passes query.

        Raises:
            NoSuchTarget: if the function has no such loop.
        """
        memory, loops = self._memory_for(function)
        header = self._native.aiocg_loop_header(self._llvm, function, memory.graph, loops, number)
        if not header:
            raise NoSuchTarget(f"the function has no loop {number}: see the observation Loops")
        module.run_passes(_PREPARE, machine, function=function)
        memory, loops = self._memory_for(function)
        kept = (c_void_p * (len(loops) // len(Loop._fields)))()
        marked = self._native.aiocg_mark_loop(self._llvm, function, memory.graph, loops, header, factor, kept)
        if marked < 0:
            return False  # simplification removed the loop
        before = module.write_bitcode()
        module.run_passes(_UNROLL_WHERE_ASKED, machine, function=function)
        unrolled = module.write_bitcode() != before
        self._native.aiocg_unmark_loops(self._llvm, function, kept, marked)
        return unrolled

    def has(self, function: int, number: int) -> bool:
        """Return whether a function has a loop with this number."""
        memory, loops = self._memory_for(function)
        return bool(self._native.aiocg_loop_header(self._llvm, function, memory.graph, loops, number))

    def depths(self, function: int) -> dict[int, int]:
        """Return how many loops are around each block of a function, by its `LLVMBasicBlockRef`."""
        memory, loops = self._memory_for(function)
        self._native.aiocg_loop_header(self._llvm, function, memory.graph, loops, 0)
        return dict(zip(memory.arrays["block"], memory.arrays["depth"], strict=True))

    def mark(self, function: int, number: int, mark: str) -> None:
        """Give a loop a hint that the passes obey, as `#pragma clang loop` does, in place of those of its kind.

        Args:
            function: the `LLVMValueRef` of the function that the loop is in.
            number: the loop's number within the function; nothing is done if there is none.
            mark: `unroll=4`, `vectorize=none` and the like, or `none` for what the loop had before it was marked.
        """
        memory, loops = self._memory_for(function)
        if mark == "none":
            self._native.aiocg_hint_loop(self._llvm, function, memory.graph, loops, number, None, None, 0)
            return
        kind, _, value = mark.partition("=")
        named = _HINTS.get(mark)
        if named is None and kind == "vectorize":
            named = (("width", int(value), 32), ("enable", 1, 1))
        named = named or (("count", int(value), 32),)
        hints = (_Hint * len(named))(*[_Hint(f"llvm.loop.{kind}.{name}".encode(), *rest) for name, *rest in named])
        family = f"llvm.loop.{kind}.".encode()
        self._native.aiocg_hint_loop(self._llvm, function, memory.graph, loops, number, family, hints, len(hints))

    def unmark(self, module: Module) -> None:
        """Give all loops of a module the hints that they had before they were marked."""
        self._native.aiocg_unhint_loops(self._llvm, module.pointer)

    def _memory_for(self, function: int) -> "tuple[_Memory, ctypes.Array[c_int64]]":
        blocks, edges, _ = self._sizes("aiocg_loop_sizes_of_function", function)
        return _Memory(blocks, edges), (c_int64 * (len(Loop._fields) * (blocks + 1)))()

    def _sizes(self, name: str, pointer: int) -> tuple[int, int, int]:
        sizes = (c_int64 * 3)()
        getattr(self._native, name)(self._llvm, pointer, sizes)
        return sizes[0], sizes[1], sizes[2]
