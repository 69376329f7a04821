"""Program graphs of modules, with the full texts of their nodes: the Python interface to `native/programl.c`."""

import ctypes
import functools
import re
import struct
from collections.abc import Callable
from ctypes import POINTER, c_char, c_int, c_int32, c_int64, c_void_p
from typing import NamedTuple

from aiocg.transport.arrays import Array
from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.native_code import NativeLibrary, hidden_cases, packed

SMALLEST_CAPACITY = 1 << 10  # nodes
LARGEST_CAPACITY = 1 << 24
NODES_PER_INSTRUCTION = 2.5  # more than most programs have
KEPT_BYTES = 64 << 20  # larger arenas are freed after use
_DONE, _SWITCH_CASES_OUT_OF_REACH, _FULL = range(3)

_RESULT = (
    *("nodes", "edges", "texts", "functions", "module_bytes"),  # counts
    *("node_kind", "node_text", "node_function", "node_block"),  # addresses from here on
    *("edge_source", "edge_target", "edge_flow", "edge_position"),
    *("text", "text_ends", "names", "name_ends", "module", "node_value"),
)


class ProgramGraph(NamedTuple):
    """A program graph as flat arrays: with N nodes and E edges.

    Attributes:
        node_kind: (N,) int8; 0 is an instruction, 1 a variable, 2 a constant, 3 a type.
        node_text: (N,) int32, index into `texts`.
        node_function: (N,) int32, index into `functions`, -1 for none.
        node_block: (N,) int32, number of the basic block within the program, -1 for none.
        edge_index: (2, E) int32, the source and target node of each edge.
        edge_flow: (E,) int8; 0 is control, 1 data, 2 call, 3 type.
        edge_position: (E,) int32.
        texts: the opcodes of instructions and the types of data, without duplicates.
        functions: names of the functions.
        module: name of the source file.
    """

    node_kind: Array
    node_text: Array
    node_function: Array
    node_block: Array
    edge_index: Array
    edge_flow: Array
    edge_position: Array
    texts: list[str]
    functions: list[str]
    module: str


class ProgramGraphs:
    """Builds program graphs of modules of one libLLVM.

    It keeps its working memory between calls, so threads must not share it. A module pointer is an `LLVMModuleRef` as
    an integer; the module is read, never changed.
    """

    def __init__(self, native: NativeLibrary) -> None:
        self._library = native.library
        self._functions = native.llvm
        self._size, self._build = native.c.aiocg_programl_bytes, native.c.aiocg_programl
        self._size.argtypes, self._size.restype = (c_int64,), c_int64
        self._build.argtypes = (c_void_p, c_void_p, c_void_p, c_int64, POINTER(c_int64))
        self._build.restype = c_int
        self._result = (c_int64 * len(_RESULT))()
        self._arena = bytearray()

    def build(self, module_pointer: int, instructions: int = 0) -> ProgramGraph:
        """Build the graph of a module.

        Args:
            module_pointer: the module.
            instructions: the number of its instructions, used to estimate the memory needed.

        Raises:
            CompilationError: with `FailureCode.COMPILER` if this libLLVM hides the case values of a switch, with
                `FailureCode.OBSERVATION` if the graph exceeds `LARGEST_CAPACITY` or the memory.
        """
        graph = _read(self._built(module_pointer, instructions))
        self._shrink()
        return graph

    def build_with_values(self, module_pointer: int, instructions: int = 0) -> tuple[ProgramGraph, tuple[int, ...]]:
        """Build the graph of a module; return it with the LLVM object of each node, as an integer.

        The object is the instruction or constant itself, for a variable the `LLVMValueRef` of the instruction or
        argument that defines it, and for a type the `LLVMTypeRef`; 0 for none. Arguments and errors are those of
        `build`.
        """
        result = self._built(module_pointer, instructions)
        values = struct.unpack(f"={result['nodes']}q", ctypes.string_at(result["node_value"], 8 * result["nodes"]))
        graph = _read(result)
        self._shrink()
        return graph, values

    def _built(self, module_pointer: int, instructions: int) -> dict[str, int]:
        """Build a graph in the arena."""
        wanted = int(NODES_PER_INSTRUCTION * instructions)
        capacity = max(SMALLEST_CAPACITY, 1 << wanted.bit_length())
        while (status := self._try(module_pointer, capacity)) == _FULL:
            capacity *= 2
        if status == _SWITCH_CASES_OUT_OF_REACH:
            raise hidden_cases(self._library)
        return dict(zip(_RESULT, self._result, strict=True))

    def _try(self, module_pointer: int, capacity: int) -> int:
        self._reserve(capacity)
        arena = ctypes.addressof(c_char.from_buffer(self._arena))
        status: int = self._build(self._functions, module_pointer, arena, capacity, self._result)
        return status

    def _reserve(self, capacity: int) -> None:
        """Make the arena large enough for a graph of so many nodes."""
        size = self._size(capacity)
        if len(self._arena) >= size:
            return
        self._arena = bytearray()  # frees the old arena first
        try:
            if capacity <= LARGEST_CAPACITY:
                self._arena = bytearray(size)
                return
        except MemoryError:
            pass
        raise CompilationError(
            FailureCode.OBSERVATION, f"the program's graph is too large: there is no room for {capacity} nodes"
        )

    def _shrink(self) -> None:
        """Free a large arena."""
        if len(self._arena) > KEPT_BYTES:
            self._arena = bytearray()


@functools.lru_cache(4)
def program_graphs(native: NativeLibrary) -> ProgramGraphs:
    """Return the graph builder of a loaded `native/programl.c`, always the same one."""
    return ProgramGraphs(native)


def _read(result: dict[str, int]) -> ProgramGraph:
    nodes, edges = result["nodes"], result["edges"]

    def numbers(name: str, count: int) -> bytes:
        return packed((c_int32 * count).from_address(result[name]), "i")

    return ProgramGraph(
        Array("int8", (nodes,), ctypes.string_at(result["node_kind"], nodes)),
        Array("int32", (nodes,), numbers("node_text", nodes)),
        Array("int32", (nodes,), numbers("node_function", nodes)),
        Array("int32", (nodes,), numbers("node_block", nodes)),
        Array("int32", (2, edges), numbers("edge_source", edges) + numbers("edge_target", edges)),
        Array("int8", (edges,), ctypes.string_at(result["edge_flow"], edges)),
        Array("int32", (edges,), numbers("edge_position", edges)),
        _texts(result["text"], result["text_ends"], result["texts"]),
        _texts(result["names"], result["name_ends"], result["functions"]),
        _text(ctypes.string_at(result["module"], result["module_bytes"])),
    )


def _texts(start: int, ends: int, count: int) -> list[str]:
    """Read consecutive texts."""
    bounds = (0, *struct.unpack(f"={count}q", ctypes.string_at(ends, 8 * count)))
    packed = ctypes.string_at(start, bounds[-1])
    return [_text(packed[bounds[i] : bounds[i + 1]]) for i in range(count)]


def _text(octets: bytes) -> str:
    """Decode a name; bytes that are not UTF-8, which LLVM allows, are escaped with backslashes."""
    return octets.decode(errors="backslashreplace")


_INSTRUCTION, _TYPE = 0, 3  # kinds of nodes
_NAMELESS = re.compile(r'%"type 0x[0-9a-f]+"')


def full_texts(graphs: ProgramGraphs, module: Module, instructions: int = 0) -> list[str]:
    """Return, for each node of a module's graph, its text in the program.

    An instruction is its line or lines; a variable is `i32 %x`, a constant `i32 5`, or the definition of the global
    variable; a type is as LLVM prints it. Nodes that are not in the program have an empty text: `[external]`, and the
    body of a function that has none. An unnamed structure is `struct`. The arguments are those of
    `ProgramGraphs.build`.
    """
    graph, values = graphs.build_with_values(module.pointer, instructions)
    kinds, texts = graph.node_kind.elements(), [graph.texts[text] for text in graph.node_text.elements()]
    pointers = [value for kind, value in zip(kinds, values, strict=True) if kind == _INSTRUCTION and value]
    # To print one instruction LLVM numbers all values of its function, so print the whole module once.
    lines = dict(zip(pointers, instruction_texts(module.to_text()), strict=True))
    printed: dict[int, str] = {}

    def full_text(kind: int, text: str, value: int) -> str:
        if value in lines:
            return lines[value] if kind == _INSTRUCTION else f"{text} {lines[value].partition(' = ')[0]}"
        if value not in printed:
            printed[value] = _print(module, value, is_type=kind == _TYPE)
        return printed[value]

    return [full_text(kind, text, value) for kind, text, value in zip(kinds, texts, values, strict=True)]


def _print(module: Module, pointer: int, *, is_type: bool) -> str:
    """Return a value or type as LLVM prints it; an unnamed type would be printed with its address."""
    if not pointer:
        return ""
    c = module.library.c
    text: Callable[[int], int] = c.LLVMPrintTypeToString if is_type else c.LLVMPrintValueToString
    return _NAMELESS.sub("struct", module.library.take_string(text(pointer)))


def instruction_texts(text: str) -> list[str]:
    """Return the instructions in a module's text, in order, each with all its lines."""
    found: list[list[str]] = []
    inside = False
    for line in text.split("\n"):
        if not inside:
            inside = line.startswith("define ")
        elif line == "}":
            inside = False
        elif line.startswith(("   ", "  ]")):
            if not line.startswith("    #dbg_"):
                found[-1].append(line)
        elif line.startswith("  "):
            found.append([line.lstrip(" ")])
    return ["\n".join(lines) for lines in found]
