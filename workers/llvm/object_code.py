"""Machine code for a program, generated in this process, and what its sizes mean.

The size is the one that CompilerGym measured: the `text` column of `llvm-size`, which is code together with
read-only data, as neither changes while the program runs.
"""

import ctypes
from collections.abc import Callable
from ctypes import POINTER, byref, c_int, c_void_p

from aiocg.workers import elf
from aiocg.workers.llvm.constructors import lower_constructors
from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.module import LlvmError, Module
from aiocg.workers.llvm.states import State

_DEFAULT_LEVEL = 2  # LLVMCodeGenLevelDefault, what clang chooses for -O2, -Os and -Oz
_POSITION_INDEPENDENT = 2  # LLVMRelocPIC, clang's default
_ANY_CODE_MODEL = 0  # LLVMCodeModelDefault
_OBJECT_FILE = 1  # LLVMObjectFile


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
    """Return the `text` size of an ELF object or executable in bytes; see `aiocg.workers.elf`.

    Raises:
        LlvmError: when the content is not ELF.
    """
    try:
        return elf.text_size(binary)
    except elf.NotElf as error:
        raise LlvmError(str(error)) from None
