"""The size that each function adds to an object file, cached by the function's content.

Searches change a few functions of a program at a time, and often produce functions seen before. Code is generated only
for new functions, each in its own section, so that its size does not depend on other functions.
"""

import hashlib
import re
from collections.abc import Collection, Sequence

from aiocg.transport import elf
from aiocg.workers.llvm._attributes import Attributes
from aiocg.workers.llvm._object_code import CodeGenerator, is_elf
from aiocg.workers.llvm.module import LlvmError, Module
from aiocg.workers.llvm.states import State

__all__ = ["FunctionSizes"]

MOST = 1 << 18  # cached sizes


_AVAILABLE_EXTERNALLY = 1  # LLVMAvailableExternallyLinkage
_DROP_BODIES = "elim-avail-extern"

_REFERENCE = re.compile(rb"[#!]\d+")
_REFERENT = re.compile(rb"^(?:attributes )?([#!]\d+) = (.*)$", re.MULTILINE)
_ABOUT_ALL = re.compile(
    rb'^(?:@(?!"?switch\.table)|define |declare (?!.*@llvm\.)|target |module asm\b|    "|!(?:llvm|aiocg)\.).*$',
    re.MULTILINE,
)
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
            attributes: added to its functions before code generation; see `size_attributes`.

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
        try:
            sizes = elf.function_sizes(binary)
        except elf.NotElf as error:
            raise LlvmError(str(error)) from None
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
    about_all = digest(b"\n".join(_ABOUT_ALL.findall(others)))
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
