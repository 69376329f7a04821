"""LLVM modules and what they need, with ownership made visible.

A `Context` owns one `Module` and everything in it; closing it frees all of that at once. A closed object
raises `ValueError` instead of crashing. What LLVM refuses is an `LlvmError` with LLVM's own words; what makes
LLVM abort ends the process, which is for the supervisor to handle.
"""

import ctypes
import os
from ctypes import byref, c_size_t, c_void_p
from typing import Self

from aiocg.workers.llvm.library import DIAGNOSTIC_HANDLER, Library
from aiocg.workers.llvm.pass_options import pass_builder_options

BITCODE_MAGIC = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")  # raw, and in the wrapper that Apple's tools write
NAME = b"<stdin>"  # what `opt` calls a module that it reads from a pipe
_ERROR = 0  # LLVMDSError
_RETURN_STATUS = 2  # LLVMReturnStatusAction


class LlvmError(Exception):
    """LLVM refused something; the message is LLVM's own."""


class NoSuchTarget(LlvmError):
    """The program has no such function or loop: what an action is aimed at may be gone. Nothing was done."""


class TargetMachine:
    """A target machine as `opt` makes it for a triple: no CPU, no features, no choices of its own."""

    def __init__(self, library: Library, pointer: int) -> None:
        self.library = library
        self.pointer = pointer

    @classmethod
    def create(cls, library: Library, triple: bytes) -> Self | None:
        """Make the machine for `triple`, or None where `opt` does without: no triple or no such target."""
        target, message = c_void_p(), c_void_p()
        if not triple:
            return None
        if library.c.LLVMGetTargetFromTriple(triple, byref(target), byref(message)):
            library.take_string(message.value)
            return None
        pointer = library.c.LLVMCreateTargetMachine(target, triple, b"", b"", 0, 0, 0)
        return cls(library, pointer) if pointer else None

    def data_layout(self) -> str:
        """Return the data layout of the target."""
        data = self.library.c.LLVMCreateTargetDataLayout(self.pointer)
        text = self.library.take_string(self.library.c.LLVMCopyStringRepOfTargetData(data))
        self.library.c.LLVMDisposeTargetData(data)
        return text

    def close(self) -> None:
        """Free the machine."""
        pointer, self.pointer = self.pointer, 0
        if pointer:
            self.library.c.LLVMDisposeTargetMachine(pointer)


class Context:
    """An LLVM context, the errors that LLVM has reported to it, and the module parsed into it."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.errors: list[str] = []
        self._pointer: int = library.c.LLVMContextCreate()
        # Without a handler LLVM prints errors and exits. The handler must live as long as the context.
        self._handler = DIAGNOSTIC_HANDLER(self._diagnose)
        library.c.LLVMContextSetDiagnosticHandler(self._pointer, self._handler, None)

    @property
    def pointer(self) -> int:
        """The `LLVMContextRef`."""
        if not self._pointer:
            raise ValueError("this LLVM context is closed")
        return self._pointer

    def parse(self, content: bytes) -> "Module":
        """Parse bitcode or textual IR.

        Raises:
            LlvmError: when the content is neither; the message is LLVM's.
        """
        c = self.library.c
        # The buffer borrows the bytes, which Python ends with the NUL that LLVM wants; the call frees it.
        buffer = c.LLVMCreateMemoryBufferWithMemoryRange(content, len(content), NAME, 1)
        module, message = c_void_p(), c_void_p()
        failed = c.LLVMParseIRInContext(self.pointer, buffer, byref(module), byref(message))
        text = self.library.take_string(message.value)
        errors = self.take_errors()
        if failed or not module.value:
            raise LlvmError(text.strip() or "; ".join(errors) or "LLVM gave no reason")
        return Module(self, module.value)

    def take_errors(self) -> list[str]:
        """Return the errors reported since the last call."""
        errors, self.errors = self.errors, []
        return errors

    def close(self) -> None:
        """Free the context with everything in it."""
        pointer, self._pointer = self._pointer, 0
        if pointer:
            self.library.c.LLVMContextDispose(pointer)
            del self._handler  # it refers to us

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _diagnose(self, diagnostic: int, _: int | None) -> None:
        c = self.library.c
        if c.LLVMGetDiagInfoSeverity(diagnostic) == _ERROR:
            self.errors.append(self.library.take_string(c.LLVMGetDiagInfoDescription(diagnostic)))


class Module:
    """A module in memory. It lives in its own context, which `close` frees with it."""

    def __init__(self, context: Context, pointer: int) -> None:
        self.library = context.library
        self.context = context
        self._pointer = pointer

    @classmethod
    def parse(cls, library: Library, content: bytes) -> "Module":
        """Parse bitcode or textual IR into a context of its own.

        Raises:
            LlvmError: when the content is neither; the message is LLVM's.
        """
        context = Context(library)
        try:
            return context.parse(content)
        except BaseException:
            context.close()
            raise

    @property
    def pointer(self) -> int:
        """The `LLVMModuleRef`."""
        if not self._pointer:
            raise ValueError("this LLVM module is closed")
        return self._pointer

    @property
    def triple(self) -> bytes:
        """The target triple, empty when the module names none."""
        return bytes(self.library.c.LLVMGetTarget(self.pointer) or b"")

    @property
    def data_layout(self) -> str:
        """The data layout, empty when the module does not say."""
        return str(self.library.c.LLVMGetDataLayoutStr(self.pointer).decode())

    @data_layout.setter
    def data_layout(self, layout: str) -> None:
        self.library.c.LLVMSetDataLayout(self.pointer, layout.encode())

    def function(self, name: bytes) -> int | None:
        """Return the `LLVMValueRef` of the function with this name, or None."""
        pointer: int | None = self.library.c.LLVMGetNamedFunction(self.pointer, name)
        return pointer

    def defined_functions(self) -> list[bytes]:
        """Return the names of the functions that have a body, in their order; one without a name has an empty one."""
        c, length, names = self.library.c, c_size_t(), []
        function = c.LLVMGetFirstFunction(self.pointer)
        while function:
            if not c.LLVMIsDeclaration(function):
                start = c.LLVMGetValueName2(function, byref(length))
                names.append(ctypes.string_at(start, length.value))
            function = c.LLVMGetNextFunction(function)
        return names

    def write_bitcode(self) -> bytes:
        """Return the module as bitcode."""
        c = self.library.c
        buffer = c.LLVMWriteBitcodeToMemoryBuffer(self.pointer)
        content = ctypes.string_at(c.LLVMGetBufferStart(buffer), c.LLVMGetBufferSize(buffer))
        c.LLVMDisposeMemoryBuffer(buffer)
        return content

    def to_text(self) -> str:
        """Return the module as textual IR."""
        return self.library.take_string(self.library.c.LLVMPrintModuleToString(self.pointer))

    def whole_text(self) -> str:
        """Return the module as textual IR with all that LLVM writes, though there be a NUL, where `to_text` ends.

        Raises:
            LlvmError: when there is no memory for it.
        """
        message = c_void_p()
        with os.fdopen(os.memfd_create("module", os.MFD_CLOEXEC), "rb") as file:
            path = f"/proc/self/fd/{file.fileno()}".encode()
            if self.library.c.LLVMPrintModuleToFile(self.pointer, path, byref(message)):
                raise LlvmError(f"the program cannot be written as text: {self.library.take_string(message.value)}")
            return file.read().decode(errors="replace")

    def verify(self) -> str | None:
        """Return what LLVM's verifier finds wrong with the module, or None."""
        message = c_void_p()
        broken = self.library.c.LLVMVerifyModule(self.pointer, _RETURN_STATUS, byref(message))
        text = self.library.take_string(message.value).strip()
        return (text or "the verifier gave no reason") if broken else None

    def run_passes(
        self,
        pipeline: str,
        machine: TargetMachine | None,
        options: tuple[tuple[str, str], ...] = (),
        function: int | None = None,
    ) -> None:
        """Run a pipeline, in the syntax of `opt -passes=`.

        Args:
            pipeline: over the module, or over functions when `function` is given.
            machine: what passes ask about the target.
            options: of the pass builder; see `pass_options`.
            function: the `LLVMValueRef` of the only function to run it on.

        Raises:
            LlvmError: when the pipeline is not valid or a pass reports an error; the module may have changed.
        """
        c = self.library.c
        run = c.LLVMRunPasses if function is None else c.LLVMRunPassesOnFunction
        with pass_builder_options(self.library, options) as chosen:
            error = run(function or self.pointer, pipeline.encode(), machine.pointer if machine else None, chosen)
        errors = self.context.take_errors()
        if error:
            errors.insert(0, self.library.take_error(error))
        if errors:
            raise LlvmError("; ".join(errors))

    def close(self) -> None:
        """Free the module and its context."""
        self._pointer = 0
        self.context.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_bitcode(content: bytes) -> bool:
    """Say whether the content starts like LLVM bitcode."""
    return content.startswith(BITCODE_MAGIC)
