"""Machine code for a program, generated in this process, and what its sizes mean.

The size is the one that CompilerGym measured: the `text` column of `llvm-size`, which is code together with
read-only data, as neither changes while the program runs.
"""

import ctypes
import struct
from collections.abc import Callable
from ctypes import POINTER, byref, c_int, c_void_p

from aiocg.workers.llvm.constructors import lower_constructors
from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.module import LlvmError, Module
from aiocg.workers.llvm.states import State

_DEFAULT_LEVEL = 2  # LLVMCodeGenLevelDefault, what clang chooses for -O2, -Os and -Oz
_POSITION_INDEPENDENT = 2  # LLVMRelocPIC, clang's default
_ANY_CODE_MODEL = 0  # LLVMCodeModelDefault
_OBJECT_FILE = 1  # LLVMObjectFile

_OTHER_FORMATS = {b"\xcf\xfa\xed\xfe": "Mach-O", b"\xce\xfa\xed\xfe": "Mach-O", b"\0asm": "WebAssembly"}

# Section types and flags of the ELF specification.
_NULL, _SYMBOLS = 0, 2
_WRITABLE, _ALLOCATED, _EXECUTABLE = 1, 2, 4


class CodeGenerator:
    """Generates machine code as `clang -O2 -c` does for bitcode whose passes were all run already.

    Args:
        library: whose code generators are used.

    Attributes:
        check: called with each program, to refuse it by an error.
    """

    check: Callable[[Module], None] | None = None

    def __init__(self, library: Library) -> None:
        self.library = library
        emit = library.c.LLVMTargetMachineEmitToMemoryBuffer
        emit.restype, emit.argtypes = c_int, (c_void_p, c_void_p, c_int, POINTER(c_void_p), POINTER(c_void_p))
        library.c.LLVMGetDefaultTargetTriple.restype = c_void_p
        self._last: tuple[State, bytes] | None = None

    def object_file(self, state: State) -> bytes:
        """Return an object file with the program's machine code; that of the last state is kept.

        Raises:
            LlvmError: when there is no code generator for the program's target, or it refuses the program.
        """
        if self._last is None or self._last[0] is not state:
            self._last = None
            self._last = state, self.generate(state.content)
        return self._last[1]

    def forget(self) -> None:
        """Drop the object file that is kept."""
        self._last = None

    def text_size(self, state: State) -> int:
        """Return the bytes of code and read-only data in the object file; see `text_size`.

        Raises:
            LlvmError: as for `object_file`, and when the object file is not ELF.
        """
        if "object_text_size" not in state.memo:
            state.memo["object_text_size"] = text_size(self.object_file(state))
        size: int = state.memo["object_text_size"]
        return size

    def generate(self, content: bytes) -> bytes:
        """Return an object file for bitcode or textual IR.

        Raises:
            LlvmError: as for `object_file`.
        """
        c = self.library.c
        with Module.parse(self.library, content) as module:  # a parse of its own: generating code changes it
            if self.check is not None:
                self.check(module)
            lower_constructors(module)
            machine = self._machine(module.triple)
            message, buffer = c_void_p(), c_void_p()
            failed = c.LLVMTargetMachineEmitToMemoryBuffer(
                machine, module.pointer, _OBJECT_FILE, byref(message), byref(buffer)
            )
            c.LLVMDisposeTargetMachine(machine)
            errors = [text for text in (self.library.take_string(message.value), *module.context.take_errors()) if text]
            code = b""
            if not failed:
                code = ctypes.string_at(c.LLVMGetBufferStart(buffer), c.LLVMGetBufferSize(buffer))
                c.LLVMDisposeMemoryBuffer(buffer)
        if failed or errors:
            raise LlvmError("code generation: " + ("; ".join(errors) or "LLVM gave no reason"))
        return code

    def _machine(self, triple: bytes) -> int:
        """Make the target machine that clang makes for a triple; functions may name other processors.

        It serves one module: a machine remembers where the functions were that a module lists in `llvm.used`, and gives
        a section of its own to whatever is there in the next module.
        """
        c, target, message = self.library.c, c_void_p(), c_void_p()
        name = triple or self.library.take_string(c.LLVMGetDefaultTargetTriple()).encode()
        if c.LLVMGetTargetFromTriple(name, byref(target), byref(message)):
            raise LlvmError(f"code generation: {self.library.take_string(message.value)}")
        processor = b"x86-64" if name.startswith(b"x86_64") else b""
        pointer = c.LLVMCreateTargetMachine(
            target, name, processor, b"", _DEFAULT_LEVEL, _POSITION_INDEPENDENT, _ANY_CODE_MODEL
        )
        if not pointer:
            raise LlvmError(f"code generation: LLVM has no code generator for {name.decode(errors='replace')}")
        return int(pointer)


def text_size(binary: bytes) -> int:
    """Return the `text` size of an ELF object or executable in bytes, as `llvm-size` defines it.

    That is the sum of all sections which are loaded into memory and are executable or cannot be written: code,
    constants, string literals, unwind tables and, in a linked program, what the dynamic loader reads.

    Raises:
        LlvmError: when the content is not ELF.
    """
    if not binary.startswith(b"\x7fELF"):
        kind = next((name for magic, name in _OTHER_FORMATS.items() if binary.startswith(magic)), "this format")
        raise LlvmError(f"sizes are known of ELF objects and programs only, not of {kind} ones")
    return sum(size for kind, flags, size in sections(binary) if _is_text(kind, flags))


def _is_text(kind: int, flags: int) -> bool:
    if kind in (_NULL, _SYMBOLS):
        return False
    return bool(flags & _ALLOCATED) and (bool(flags & _EXECUTABLE) or not flags & _WRITABLE)


def sections(binary: bytes) -> list[tuple[int, int, int]]:
    """Return type, flags and size of every section of an ELF object or executable.

    Raises:
        LlvmError: when it is cut short, or says that it has more sections than there is room for.
    """
    try:
        wide, order = binary[4] == 2, "<" if binary[5] == 1 else ">"
        (table,) = struct.unpack_from(order + ("Q" if wide else "I"), binary, 40 if wide else 32)
        stride, count = struct.unpack_from(order + "2H", binary, 58 if wide else 46)
        if not table:
            return []
        section = struct.Struct(order + ("4xIQ16xQ" if wide else "4xII8xI"))
        first = section.unpack_from(binary, table)
        if not count:  # there are too many for the header, and the first section, which is none, has the number
            count = first[2]
        if stride < section.size or table + stride * count > len(binary):
            raise LlvmError(f"a table of {count} sections of {stride} bytes each is not in the file")
        return [section.unpack_from(binary, table + index * stride) for index in range(count)]
    except (struct.error, IndexError, OverflowError) as error:
        raise LlvmError(f"the file is no whole ELF object or program: {error}") from None
