"""LLVM modules, contexts and target machines, with explicit ownership.

A `Context` owns a `Module`, its clones and everything in them; closing it frees all of that at once. A closed object
raises `ValueError` instead of crashing. If LLVM reports an error, `LlvmError` carries its message; if LLVM aborts, the
process ends, which the supervisor handles.
"""

import contextlib
import ctypes
import os
import struct
from collections.abc import Callable, Iterator
from ctypes import byref, c_size_t, c_void_p
from typing import Any, ClassVar, Self

from aiocg.transport.system import DESCRIPTORS, unnamed_file
from aiocg.workers.llvm._library import DIAGNOSTIC_HANDLER, Library
from aiocg.workers.llvm._pipeline_text import pass_builder_options, without_size_levels

_PADDING_MARK = b"too few bytes here; "  # is in bitcode that was padded
_MOST_PADDED = 16 << 20  # bytes that are padded: more is not refused for this reason
_BARE = b"BC\xc0\xde"
_MODULE = 8  # number of the block of a module, as in LLVMBitCodes.h
_UNKNOWN = 127  # of a block that LLVM has not
_BITS = 8  # of a byte: an element takes one bit at least, so this many times as many bytes are enough


def _padded(content: bytes) -> bytes:
    """Return bare bitcode with a block of zeros at the end of its module; other content is returned as it is.

    LLVM's reader rejects an array with more elements than the bitcode has bytes ("Size is not plausible", shown as
    "Invalid record"). Its writer packs elements as tightly as it can, so a function with thousands of parameters of
    one type, or a table of thousands of references to a few functions, is rejected in an otherwise small module.
    Readers skip a block that they do not know, so such a block makes the module long enough.
    """
    position = len(_BARE)
    while content.startswith(_BARE) and position + 8 <= len(content) <= _MOST_PADDED:
        word, words = struct.unpack_from("<II", content, position)
        end = position + 8 + 4 * words
        if word >> 2 & 0xFF == _MODULE and content[end - 4 : end] == bytes(4):  # its end, aligned to a word
            width = word >> 10 & 0xF  # bits of an abbreviation's number in the module; 1 begins a block
            size = _BITS * len(content) // 4
            filling = _PADDING_MARK.ljust(4 * size, b"\0")
            block = struct.pack("<II", 1 | _UNKNOWN << width | 2 << width + 8, size) + filling
            header = struct.pack("<II", word, words + len(block) // 4)
            return content[:position] + header + content[position + 8 : end - 4] + block + content[end - 4 :]
        position = end
    return content


BITCODE_MAGIC = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")  # raw, and in the wrapper of Apple's tools
MOST_RUNS = 512  # in one context for each of its modules; a context never frees its types and constants
NAME = b"<stdin>"  # what `opt` calls a module that it reads from a pipe
# LLVM 22 declares these, and uses others, when it reads lifetime markers that still have a size.
_LEFT_BY_UPGRADE = (b"llvm.lifetime.start.i64", b"llvm.lifetime.end.i64")
_ERROR, _REMARK = 0, 2  # LLVMDSError, LLVMDSRemark
_RETURN_STATUS = 2  # LLVMReturnStatusAction
# Kinds of metadata that LLVM 23 adds to a context when it parses and when it verifies. Bitcode lists all kinds.
_ADDED_KINDS = (b"heapallocsite", b"amdgpu.expected.active.lanes")
_DEFAULT_LEVEL, _POSITION_INDEPENDENT, _ANY_CODE_MODEL = 2, 2, 0  # LLVMCodeGenLevelDefault, LLVMRelocPIC, ...Default


class LlvmError(Exception):
    """LLVM reported an error; the message is LLVM's own."""


class NoSuchTarget(LlvmError):
    """The program has no such function, call or loop: the target of an action may be gone. Nothing was changed."""


class TargetMachine:
    """A target machine as clang creates it for a triple, for passes and for code generation alike.

    It is for position-independent code, at the level of -O2, -Os and -Oz, and for the processor that clang assumes.
    Functions may name other processors.
    """

    def __init__(self, library: Library, pointer: int) -> None:
        self.library = library
        self.pointer = pointer

    @classmethod
    def create(cls, library: Library, triple: bytes) -> Self | None:
        """Return the machine for `triple`; None if the triple is empty or LLVM lacks its target, as in `opt`."""
        try:
            return cls.of(library, triple) if triple else None
        except LlvmError:
            return None

    @classmethod
    def of(cls, library: Library, triple: bytes) -> Self:
        """Return the machine for `triple`, or for this computer if the triple is empty.

        Raises:
            LlvmError: if LLVM lacks the target.
        """
        c, target, message = library.c, c_void_p(), c_void_p()
        name = triple or library.take_string(c.LLVMGetDefaultTargetTriple()).encode()
        if c.LLVMGetTargetFromTriple(name, byref(target), byref(message)):
            raise LlvmError(f"code generation: {library.take_string(message.value)}")
        processor = b"x86-64" if name.startswith(b"x86_64") else b""
        pointer = c.LLVMCreateTargetMachine(
            target, name, processor, b"", _DEFAULT_LEVEL, _POSITION_INDEPENDENT, _ANY_CODE_MODEL
        )
        if not pointer:
            raise LlvmError(f"code generation: LLVM has no code generator for {name.decode(errors='replace')}")
        return cls(library, pointer)

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
    """An LLVM context, with the errors that LLVM reported to it and the modules in it.

    Attributes:
        names: whether local values may have names.
        modules: the number of modules; closing the last one closes the context.
        runs: the number of pass runs and clonings so far; a context keeps everything ever created in it.
        types: the number of named types seen so far.
        names_taken: whether a pass has added a named type.
        renamings: how often passes renamed types.
        remarks: takes LLVM's remarks of all contexts; None, as in a worker that lives long, drops them.
        sparse: whether its bitcode has to be padded, see `_padded`.
        coroutines: whether its first module had coroutines to split; None while nobody has looked.
        memo: the address of data that belongs to the context, passed to `when_closed` when it closes; 0 if none.
    """

    remarks: ClassVar[list[str] | None] = None

    def __init__(self, library: Library, *, names: bool = True) -> None:
        self.library = library
        self.errors: list[str] = []
        self.names = names
        self.modules = self.runs = self.types = self.renamings = self.memo = 0
        self.names_taken = False
        self.sparse = False
        self.coroutines: bool | None = None
        self.when_closed: Callable[[int], None] | None = None
        self._pointer: int = library.c.LLVMContextCreate()
        for kind in _ADDED_KINDS if library.version[0] >= 23 else ():
            library.c.LLVMGetMDKindIDInContext(self._pointer, kind, len(kind))
        if not names:
            library.c.LLVMContextSetDiscardValueNames(self._pointer, 1)
        # Without a handler LLVM prints errors and exits. The handler must live as long as the context.
        self._handler = DIAGNOSTIC_HANDLER(self._diagnose)
        library.c.LLVMContextSetDiagnosticHandler(self._pointer, self._handler, None)

    @property
    def worn(self) -> bool:
        """Whether a module that is to change should move to a new context first."""
        return self.names_taken or self.runs >= MOST_RUNS * self.modules

    @property
    def pointer(self) -> int:
        """The `LLVMContextRef`."""
        if not self._pointer:
            raise ValueError("this LLVM context is closed")
        return self._pointer

    def parse(self, content: bytes) -> "Module":
        """Parse bitcode or textual IR.

        Raises:
            LlvmError: if the content is neither; the message is LLVM's.
        """
        c = self.library.c
        # The buffer borrows the bytes, which Python terminates with the NUL that LLVM requires; the call frees the
        # buffer.
        buffer = c.LLVMCreateMemoryBufferWithMemoryRange(content, len(content), NAME, 1)
        module, message = c_void_p(), c_void_p()
        failed = c.LLVMParseIRInContext(self.pointer, buffer, byref(module), byref(message))
        text = self.library.take_string(message.value)
        errors = self.take_errors()
        if failed or not module.value:
            raise LlvmError(text.strip() or "; ".join(errors) or "LLVM gave no reason")
        for name in _LEFT_BY_UPGRADE:
            if (function := c.LLVMGetNamedFunction(module, name)) and not c.LLVMGetFirstUse(function):
                c.LLVMDeleteFunction(function)
        return Module(self, module.value)

    def take_errors(self) -> list[str]:
        """Return the errors reported since the last call."""
        errors, self.errors = self.errors, []
        return errors

    def close(self) -> None:
        """Free the context with everything in it."""
        pointer, self._pointer = self._pointer, 0
        if pointer:
            if self.memo and self.when_closed is not None:
                self.when_closed(self.memo)
            self.library.c.LLVMContextDispose(pointer)
            del self._handler  # it refers to this object

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _diagnose(self, diagnostic: int, _: int | None) -> None:
        c = self.library.c
        told = {_ERROR: self.errors, _REMARK: self.remarks}.get(c.LLVMGetDiagInfoSeverity(diagnostic))
        if told is not None:
            told.append(self.library.take_string(c.LLVMGetDiagInfoDescription(diagnostic)))


class Module:
    """A module in memory. It shares its context only with its clones; closing the last of them frees the context too.

    Attributes:
        pointer: the `LLVMModuleRef`, until it is closed.
        canonical: whether it is in canonical order or freshly parsed.
        renamings: the context's `renamings` when the module was last found canonical.
        clonable: whether a clone of it is equivalent to a fresh parse.
        machine: the target that passes query; None until the code that runs passes sets it.
    """

    canonical = True
    renamings = 0
    clonable = False
    machine: TargetMachine | None = None

    def __init__(self, context: Context, pointer: int) -> None:
        self.library = context.library
        self.context = context
        self.pointer = pointer
        context.modules += 1

    def __getattr__(self, name: str) -> Any:
        """Explain the missing attribute if the module is closed."""
        if name == "pointer":
            raise ValueError("this LLVM module is closed")
        raise AttributeError(name)

    @classmethod
    def parse(cls, library: Library, content: bytes, *, names: bool = True) -> "Module":
        """Parse bitcode, or textual IR if `names` are kept, into a new context.

        Raises:
            LlvmError: if the content is neither; the message is LLVM's.
        """
        try:
            module = cls._parsed(library, content, names)
        except LlvmError:
            if (longer := _padded(content)) is content:
                raise
            with contextlib.suppress(LlvmError):
                module = cls._parsed(library, longer, names)
                module.context.sparse = True
                return module
            raise
        module.context.sparse |= _PADDING_MARK in content
        return module

    @classmethod
    def _parsed(cls, library: Library, content: bytes, names: bool) -> "Module":
        context = Context(library, names=names)
        try:
            return context.parse(content)
        except BaseException:
            context.close()
            raise

    @property
    def fresh(self) -> bool:
        """Whether a pass may run on it: it has not changed since it was brought into canonical order."""
        return self.canonical and self.renamings == self.context.renamings

    @property
    def triple(self) -> bytes:
        """The target triple; empty if the module has none."""
        return bytes(self.library.c.LLVMGetTarget(self.pointer) or b"")

    @property
    def data_layout(self) -> str:
        """The data layout; empty if the module has none."""
        return str(self.library.c.LLVMGetDataLayoutStr(self.pointer).decode())

    @data_layout.setter
    def data_layout(self, layout: str) -> None:
        self.library.c.LLVMSetDataLayout(self.pointer, layout.encode())

    def clone(self) -> "Module":
        """Return a copy in the same context."""
        self.context.runs += 1
        clone = Module(self.context, self.library.c.LLVMCloneModule(self.pointer))
        clone.machine = self.machine
        return clone

    def function(self, name: bytes) -> int | None:
        """Return the `LLVMValueRef` of the function with this name, or None."""
        pointer: int | None = self.library.c.LLVMGetNamedFunction(self.pointer, name)
        return pointer

    def listed(self, kind: str) -> list[int]:
        """Return the globals of a kind: "Function", "Global", "GlobalAlias" or "GlobalIFunc"; in module order."""
        following = getattr(self.library.c, f"LLVMGetNext{kind}")
        found, one = [], getattr(self.library.c, f"LLVMGetFirst{kind}")(self.pointer)
        while one:
            found.append(one)
            one = following(one)
        return found

    def name_of(self, value: int) -> str:
        """Return the name of a global."""
        return self.bytes_of_name(value).decode("utf-8", "surrogateescape")

    def bytes_of_name(self, value: int) -> bytes:
        """Return the name of a global as the program has it."""
        length = c_size_t()
        text = self.library.c.LLVMGetValueName2(value, byref(length))
        return ctypes.string_at(text, length.value)

    def defined_functions(self) -> list[bytes]:
        """Return the names of the functions that have a body, in module order; an unnamed function's name is empty."""
        is_declaration = self.library.c.LLVMIsDeclaration
        return [self.bytes_of_name(one) for one in self.listed("Function") if not is_declaration(one)]

    def write_bitcode(self) -> bytes:
        """Return the module as bitcode that LLVM can read again."""
        c = self.library.c
        buffer = c.LLVMWriteBitcodeToMemoryBuffer(self.pointer)
        content = ctypes.string_at(c.LLVMGetBufferStart(buffer), c.LLVMGetBufferSize(buffer))
        c.LLVMDisposeMemoryBuffer(buffer)
        return _padded(content) if self.context.sparse else content

    def to_text(self) -> str:
        """Return the module as textual IR."""
        return self.library.take_string(self.library.c.LLVMPrintModuleToString(self.pointer))

    def whole_text(self) -> str:
        """Return the module as complete textual IR; `to_text` stops at the first NUL.

        Raises:
            LlvmError: if memory runs out.
        """
        return self.write_text().decode(errors="replace")

    def write_text(self) -> bytes:
        """Return the module as textual IR, as LLVM writes it to a file; raises what `whole_text` raises."""
        message = c_void_p()
        with os.fdopen(unnamed_file("module"), "rb") as file:
            path = f"{DESCRIPTORS}/{file.fileno()}".encode()
            if self.library.c.LLVMPrintModuleToFile(self.pointer, path, byref(message)):
                raise LlvmError(f"the program cannot be written as text: {self.library.take_string(message.value)}")
            return file.read()

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
            pipeline: a module pipeline, or a function pipeline if `function` is given.
            machine: the target that passes query.
            options: pass builder options; see `_pipeline_text`.
            function: the `LLVMValueRef` of the only function to run it on.

        Raises:
            LlvmError: if the pipeline is not valid or a pass reports an error; the module may have changed.
        """
        c = self.library.c
        run = c.LLVMRunPasses if function is None else c.LLVMRunPassesOnFunction
        pipeline = pipeline if self.library.has_size_levels else without_size_levels(pipeline)
        with pass_builder_options(self.library, options) as chosen:
            error = run(function or self.pointer, pipeline.encode(), machine.pointer if machine else None, chosen)
        self.raise_errors(error)

    def raise_errors(self, error: int | None) -> None:
        """Raise the errors that LLVM reported, if any: an `LLVMErrorRef`, and errors reported to the context.

        Raises:
            LlvmError: with LLVM's messages.
        """
        errors = self.context.take_errors()
        if error:
            errors.insert(0, self.library.take_error(error))
        if errors:
            raise LlvmError("; ".join(errors))

    def close(self) -> None:
        """Free the module, and the context if it holds no other module."""
        pointer = self.__dict__.pop("pointer", 0)
        if not pointer:
            return
        self.context.modules -= 1
        if self.context.modules:
            self.library.c.LLVMDisposeModule(pointer)
        else:
            self.context.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def blocks(c: Any, function: int | None) -> Iterator[int]:
    """Yield the `LLVMBasicBlockRef`s of a function, in the order of its text."""
    block = c.LLVMGetFirstBasicBlock(function)
    while block:
        yield block
        block = c.LLVMGetNextBasicBlock(block)


def instructions(c: Any, block: int) -> Iterator[int]:
    """Yield the `LLVMValueRef`s of the instructions in a block."""
    instruction = c.LLVMGetFirstInstruction(block)
    while instruction:
        yield instruction
        instruction = c.LLVMGetNextInstruction(instruction)


def body_of(c: Any, function: int | None) -> list[int]:
    """Return the instructions of a function, in the order of its text."""
    return [one for block in blocks(c, function) for one in instructions(c, block)]


def calls_in(c: Any, function: int) -> list[int]:
    """Return the calls and invokes of a function, in the order of its text."""
    return [one for one in body_of(c, function) if c.LLVMIsACallInst(one) or c.LLVMIsAInvokeInst(one)]


def uses(c: Any, value: int) -> Iterator[int]:
    """Yield the `LLVMUseRef`s of a value."""
    use = c.LLVMGetFirstUse(value)
    while use:
        yield use
        use = c.LLVMGetNextUse(use)


def is_bitcode(content: bytes) -> bool:
    """Return whether the content starts like LLVM bitcode."""
    return content.startswith(BITCODE_MAGIC)
