"""Machine code for a program, generated in this process, its sizes, also by function, and what is lowered before.

Target machines created through LLVM's C API emit constructors into `.ctors`, which nothing reads any more: clang and
llc select `.init_array` with an option that the C API lacks. So `lower_constructors` lowers the lists itself, to what
the code generator would have emitted.

Searches change a few functions of a program at a time, and often produce functions seen before. Code is generated only
for new functions, each in its own section, so that its size does not depend on other functions.
"""

import ctypes
import hashlib
import re
from collections.abc import Callable, Collection, Sequence
from ctypes import byref, c_void_p
from typing import Any, TypeVar

from aiocg.transport import elf
from aiocg.transport.elf import ImageSize
from aiocg.workers.llvm._attributes import NOTHING, Attributes, mark
from aiocg.workers.llvm._codegen_options import CodegenOptions
from aiocg.workers.llvm._inlining import inline_copies
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._walker import Walker
from aiocg.workers.llvm.module import LlvmError, Module, TargetMachine
from aiocg.workers.llvm.states import State
from aiocg.workers.memory.records import BSS_SIZE, IMAGE_SIZE, SIZES, TEXT_SIZE

_ASSEMBLY, _OBJECT_FILE = 0, 1  # LLVMAssemblyFile, LLVMObjectFile

_Size = TypeVar("_Size")


class CodeGenerator:
    """Generates machine code as `clang -O2 -c` does for bitcode on which all passes have run.

    Args:
        library: provides the code generators.
        bitcode: returns the bitcode of a state.

    Attributes:
        options: those of the library's code generator.
        check: called with each program; raises an error to refuse it.
        learned: called with each state whose size was measured.
    """

    check: Callable[[Module], None] | None = None
    learned: Callable[[State], None] | None = None

    def __init__(self, library: Library, bitcode: Callable[[State], bytes]) -> None:
        self.library = library
        self.bitcode = bitcode
        self.options = CodegenOptions(library)
        self._last: tuple[State, Attributes, bytes] | None = None

    def object_file(self, state: State, attributes: Attributes = NOTHING) -> bytes:
        """Return an object file with the program's machine code; the last one is cached.

        Args:
            state: the program.
            attributes: added to its functions before code generation; see `_attributes`.

        Raises:
            LlvmError: if LLVM has no code generator for the program's target, or the generator refuses the program.
        """
        if self._last is None or self._last[0] is not state or self._last[1] != attributes:
            self._last = None
            self._last = state, attributes, self.generate(self.bitcode(state), attributes, inline_copies)
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
        """Return the bytes of code and read-only data in the object file.

        Args:
            state: the program.
            attributes: as for `object_file`.

        Raises:
            LlvmError: as for `object_file`, and if the object file is not ELF.
        """
        return self._size(TEXT_SIZE, state, attributes)

    def image_size(self, state: State, attributes: Attributes = NOTHING) -> ImageSize:
        """Return what the object file brings into an image.

        Args:
            state: the program.
            attributes: as for `object_file`.

        Raises:
            LlvmError: as for `object_file`, and if the object file is not ELF.
        """
        return ImageSize(self._size(IMAGE_SIZE, state, attributes), self._size(BSS_SIZE, state, attributes))

    def _size(self, name: str, state: State, attributes: Attributes) -> int:
        memo, key = state.memo, "-".join((name, *attributes))
        if key not in memo:
            binary = self.object_file(state, attributes)
            for one, size in zip(SIZES, (text_size(binary), *_image_size(binary)), strict=True):
                memo["-".join((one, *attributes))] = size
            if self.learned is not None:
                self.learned(state)
        found: int = memo[key]
        return found

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
            split_coroutines(module)
            lower_constructors(module)
            mark(module, attributes)
            if prepare is not None:
                prepare(module)
            # A machine serves one module only: it remembers the addresses of the functions in a module's `llvm.used`,
            # and gives a separate section to any object at such an address in the next module.
            machine = TargetMachine.of(self.library, module.triple)
            message, buffer = c_void_p(), c_void_p()
            with self.options.of(module):
                failed = c.LLVMTargetMachineEmitToMemoryBuffer(
                    machine.pointer, module.pointer, kind, byref(message), byref(buffer)
                )
            machine.close()
            errors = [text for text in (self.library.take_string(message.value), *module.context.take_errors()) if text]
            code = b""
            if not failed:
                code = ctypes.string_at(c.LLVMGetBufferStart(buffer), c.LLVMGetBufferSize(buffer))
                c.LLVMDisposeMemoryBuffer(buffer)
        if failed or errors:
            raise LlvmError("code generation: " + ("; ".join(errors) or "LLVM gave no reason"))
        return code


def text_size(binary: bytes) -> int:
    """Return the `text` size of an ELF object or executable in bytes.

    Raises:
        LlvmError: if the content is not ELF.
    """
    return _measured(elf.text_size, binary)


def _image_size(binary: bytes) -> ImageSize:
    """Return the image size of an ELF object or executable.

    Raises:
        LlvmError: if the content is not ELF.
    """
    return _measured(elf.image_size, binary)


def _measured(measure: Callable[[bytes], _Size], binary: bytes) -> _Size:
    try:
        return measure(binary)
    except elf.NotElf as error:
        raise LlvmError(str(error)) from None


_LISTS = {b"llvm.global_ctors": b".init_array", b"llvm.global_dtors": b".fini_array"}
_NOT_ELF = (b"apple", b"darwin", b"macos", b"windows", b"win32", b"mingw", b"cygwin", b"wasm")
_LAST = 65535  # the default priority
_PRIVATE = 9  # LLVMPrivateLinkage


def is_elf(module: Module) -> bool:
    """Return whether object files for a module's target are ELF."""
    return not any(name in module.triple for name in _NOT_ELF)


def lower_constructors(module: Module) -> None:
    """Replace an ELF module's lists of constructors and destructors with pointers in the sections for them."""
    if not is_elf(module):
        return
    c = module.library.c
    for name, section in _LISTS.items():
        variable = c.LLVMGetNamedGlobal(module.pointer, name)
        if variable:
            entries = c.LLVMGetInitializer(variable)
            for index in range(c.LLVMGetNumOperands(entries)):
                _place(c, module, c.LLVMGetOperand(entries, index), section)
            c.LLVMDeleteGlobal(variable)


def _place(c: Any, module: Module, entry: int, section: bytes) -> None:
    """Place the function of one entry, which is (priority, function, associated global), in a section."""
    priority, function, owner = (c.LLVMGetOperand(entry, index) for index in range(3))
    if c.LLVMIsNull(function):
        return
    number = c.LLVMConstIntGetZExtValue(priority)
    place = c.LLVMAddGlobal(module.pointer, c.LLVMTypeOf(function), b"")
    c.LLVMSetInitializer(place, function)
    c.LLVMSetLinkage(place, _PRIVATE)
    c.LLVMSetSection(place, section if number == _LAST else section + b".%05d" % number)
    if c.LLVMIsAGlobalObject(owner) and (group := c.LLVMGetComdat(owner)):
        c.LLVMSetComdat(place, group)  # the linker discards both together


SPLIT = "coro-cond(coro-early,cgscc(coro-split),coro-cleanup,globaldce)"
"""The passes that `clang -O0` runs for coroutines alone, as in LLVM's `buildO0DefaultPipeline`."""

_NAMES = ("id", "id.async", "id.retcon", "id.retcon.once", "begin", "resume", "destroy", "done", "promise", "noop")
_INTRINSICS = tuple(f"llvm.coro.{name}".encode() for name in (*_NAMES, "subfn.addr"))


def _are_unsplit(module: Module) -> bool:
    """Return whether a module has coroutines, or handles of such, that only passes can turn into code."""
    c = module.library.c
    return any(
        function is not None and c.LLVMGetFirstUse(function) is not None
        for function in map(module.function, _INTRINSICS)
    )


def split_coroutines(module: Module) -> None:
    """Run the mandatory passes on a module with unsplit coroutines; others stay as they are."""
    if _are_unsplit(module):
        module.run_passes(SPLIT, None)


def split_coroutines_of(library: Library, content: bytes) -> bytes:
    """Return a program, given as bitcode, as bitcode for which code can be generated."""
    with Module.parse(library, content) as module:
        if not _are_unsplit(module):
            return content
        module.run_passes(SPLIT, None)
        return module.write_bitcode()


def count_after_split(module: Module, count: int, walker: Walker) -> int:
    """Return a module's number of instructions, given that without splitting: of coroutines, as they are once split."""
    context = module.context
    if context.coroutines is None:
        context.coroutines = _are_unsplit(module)
    if not context.coroutines or not _are_unsplit(module):
        return count
    with Module.parse(module.library, split_coroutines_of(module.library, module.write_bitcode())) as found:
        return walker.instruction_count(found.pointer)


MOST = 1 << 18  # cached sizes


_AVAILABLE_EXTERNALLY = 1  # LLVMAvailableExternallyLinkage
_DROP_BODIES = "elim-avail-extern"

_REFERENCE = re.compile(rb"[#!]\d+")
_REFERENT = re.compile(rb"^(?:attributes )?([#!]\d+) = (.*)$", re.MULTILINE)
_ABOUT_ALL = re.compile(
    rb'^(?:@(?!"?switch\.table)|define |declare (?!.*@llvm\.)|target |module asm\b|    "|!(?:llvm|aiocg)\.).*$',
    re.MULTILINE,
)
_MARKS = re.compile(rb'\b(?:minsize|optsize) |"(?:frame-pointer|aiocg-[a-z-]+)"(?:="[^"]*")? ')
"""Attributes of a function that its own code alone depends on; each evaluation of a search gives them to others."""
_TABLE = re.compile(rb'^@"?switch\.table\.(.+?)"? = .* constant \[(\d+) x (?:i(\d+)|ptr)\]', re.MULTILINE)
"""What `simplifycfg` makes of switches, by the names of functions."""
_ADDRESS = 8 + 24  # bytes of an address in a table, and of its relocation
_POOLED = (4, 8, 16, 32)  # bytes of tables that are in the sections of constants


class FunctionSizes:
    """A cache of function sizes, which generates code for new functions."""

    def __init__(self, code: CodeGenerator) -> None:
        self._code = code
        self._known: dict[bytes, int] = {}

    def of(self, state: State, module: Module, attributes: Attributes) -> list[int]:
        """Return the bytes that each function with a body adds to the object file, in module order.

        Args:
            state: the program.
            module: the same program as a module.
            attributes: added to its functions before code generation; see `_attributes`.

        Raises:
            LlvmError: as for `CodeGenerator.object_file`, and if the object file is not ELF.
        """
        names, text = module.defined_functions(), module.write_text()
        keys = [b"%s %b" % (",".join(attributes).encode(), key) for key in _fingerprints(text)]
        sizes = {name: self._known[key] for name, key in zip(names, keys, strict=True) if key in self._known}
        new = [name for name in names if name not in sizes]
        if new:
            if module.library.c.LLVMGetFirstGlobalAlias(module.pointer):
                new = names  # an alias's target must have a body
            sizes |= self._generated(state, attributes, new)
            if len(self._known) > MOST:
                self._known.clear()
            self._known |= {key: sizes[name] for name, key in zip(names, keys, strict=True)}
        for name, count, width in _TABLE.findall(text):
            owner = name if name in sizes else name.rpartition(b".")[0]
            size = int(count) * (int(width) // 8 if width else _ADDRESS)
            if owner in sizes and size not in _POOLED:
                sizes[owner] += size
        return [sizes[name] for name in names]

    def _generated(self, state: State, attributes: Attributes, names: Sequence[bytes]) -> dict[bytes, int]:
        """Return what some functions add to an object file that has code for these only."""
        binary = self._code.generate(self._code.bitcode(state), attributes, lambda copy: _isolate(copy, names))
        sizes = _measured(elf.function_sizes, binary)
        return {name: sizes.get(name.removeprefix(b"\1"), 0) for name in names}


def _fingerprints(text: bytes) -> list[bytes]:
    """Return a hash of each function defined in textual IR and of all else that its code depends on."""
    *parts, end = text.split(b"\n}\n")
    starts = [part.rfind(b"\ndefine ") for part in parts]
    referents = {name: _REFERENCE.sub(b"", meaning) for name, meaning in _REFERENT.findall(end)}

    def resolve(part: bytes) -> bytes:
        return _REFERENCE.sub(lambda found: referents.get(found[0], b""), part)

    def digest(part: bytes) -> bytes:
        return hashlib.blake2b(resolve(part), digest_size=16, key=about_all).digest()

    about_all = b""
    others = b"".join(part[: part.find(b"\n", start + 1)] for part, start in zip(parts, starts, strict=True)) + end
    about_all = digest(_MARKS.sub(b"", resolve(b"\n".join(_ABOUT_ALL.findall(others)))))
    return [digest(part[start:]) for part, start in zip(parts, starts, strict=True)]


def _isolate(module: Module, names: Collection[bytes]) -> None:
    """Place functions in their own sections, and remove the bodies of all others, if the target's format is ELF."""
    if not is_elf(module):
        return
    c = module.library.c
    for number, name in enumerate(module.defined_functions()):
        function = module.function(name)
        if not name:
            continue
        if name in names:
            c.LLVMSetSection(function, b".text.%d" % number)
        else:
            c.LLVMSetComdat(function, None)
            c.LLVMSetLinkage(function, _AVAILABLE_EXTERNALLY)
    module.run_passes(_DROP_BODIES, None)
