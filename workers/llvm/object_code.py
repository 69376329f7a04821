"""Machine code for a program, generated in this process, and its sizes.

The size is the one that CompilerGym measured: the `text` column of `llvm-size`, which counts code and read-only data,
as neither changes while the program runs.
"""

import ctypes
from collections.abc import Callable
from ctypes import byref, c_void_p

from aiocg.workers import elf
from aiocg.workers.llvm.constructors import lower_constructors
from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.module import LlvmError, Module
from aiocg.workers.llvm.size_attributes import NOTHING, Attributes, mark
from aiocg.workers.llvm.states import State
from aiocg.workers.memory.records import SIZE

_DEFAULT_LEVEL = 2  # LLVMCodeGenLevelDefault, what clang chooses for -O2, -Os and -Oz
_POSITION_INDEPENDENT = 2  # LLVMRelocPIC, clang's default
_ANY_CODE_MODEL = 0  # LLVMCodeModelDefault
_ASSEMBLY, _OBJECT_FILE = 0, 1  # LLVMAssemblyFile, LLVMObjectFile


class CodeGenerator:
    """Generates machine code as `clang -O2 -c` does for bitcode on which all passes have run.

    Args:
        library: provides the code generators.
        bitcode: returns the bitcode of a state.

    Attributes:
        check: called with each program; raises an error to refuse it.
        learned: called with each state whose size was measured.
    """

    check: Callable[[Module], None] | None = None
    learned: Callable[[State], None] | None = None

    def __init__(self, library: Library, bitcode: Callable[[State], bytes]) -> None:
        self.library = library
        self.bitcode = bitcode
        self._last: tuple[State, Attributes, bytes] | None = None

    def object_file(self, state: State, attributes: Attributes = NOTHING) -> bytes:
        """Return an object file with the program's machine code; the last one is cached.

        Args:
            state: the program.
            attributes: added to its functions before code generation; see `size_attributes`.

        Raises:
            LlvmError: if LLVM has no code generator for the program's target, or the generator refuses the program.
        """
        if self._last is None or self._last[0] is not state or self._last[1] != attributes:
            self._last = None
            self._last = state, attributes, self.generate(self.bitcode(state), attributes)
        return self._last[2]

    def assembly(self, state: State) -> str:
        """Return the machine code as an assembler reads it.

        Raises:
            LlvmError: as for `object_file`.
        """
        return self.generate(self.bitcode(state), kind=_ASSEMBLY).decode(errors="replace")

    def forget(self) -> None:
        """Drop the cached object file."""
        self._last = None

    def text_size(self, state: State, attributes: Attributes = NOTHING) -> int:
        """Return the bytes of code and read-only data in the object file; see `text_size`.

        Args:
            state: the program.
            attributes: as for `object_file`.

        Raises:
            LlvmError: as for `object_file`, and if the object file is not ELF.
        """
        key = "-".join((SIZE, *attributes))
        if key not in state.memo:
            state.memo[key] = text_size(self.object_file(state, attributes))
            if self.learned is not None:
                self.learned(state)
        size: int = state.memo[key]
        return size

    def generate(
        self,
        content: bytes,
        attributes: Attributes = NOTHING,
        prepare: Callable[[Module], None] | None = None,
        kind: int = _OBJECT_FILE,
    ) -> bytes:
        """Return an object file for bitcode or textual IR, after adding attributes to its functions.

        Args:
            content: the program.
            attributes: added to its functions.
            prepare: called with the valid module; may change it before code generation.
            kind: of the file, LLVM's number of it.

        Raises:
            LlvmError: as for `object_file`.
        """
        c = self.library.c
        with Module.parse(self.library, content) as module:  # a separate parse: code generation changes the module
            if problem := module.verify():  # the code generator would not notice IR that a pass broke
                raise LlvmError(f"code generation: the program is not valid IR: {problem}")
            if self.check is not None:
                self.check(module)
            lower_constructors(module)
            mark(module, attributes)
            if prepare is not None:
                prepare(module)
            machine = self._machine(module.triple)
            message, buffer = c_void_p(), c_void_p()
            failed = c.LLVMTargetMachineEmitToMemoryBuffer(machine, module.pointer, kind, byref(message), byref(buffer))
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
        """Create the target machine that clang uses for a triple; functions may name other processors.

        A machine serves one module only: it remembers the addresses of the functions in a module's `llvm.used`, and
        gives a separate section to any object at such an address in the next module.
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
        LlvmError: if the content is not ELF.
    """
    try:
        return elf.text_size(binary)
    except elf.NotElf as error:
        raise LlvmError(str(error)) from None
