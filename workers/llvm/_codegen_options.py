"""Options of LLVM's code generator that a program carries.

LLVM has them for its own developers, as `clang -mllvm -NAME=VALUE`: they are the same for all of a module, and no pass
obeys them. The program keeps them as named metadata, which other tools ignore.
"""

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_bool, c_char_p, c_int, c_size_t, c_uint, c_void_p
from functools import cached_property
from typing import Any

from aiocg.transport.codegen_options import CHOICES, read, write
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm.module import Module

PREFIX = "codegen<"
SIZE = "size"
"""The setting that stands for `SMALLER`, as far as the release has these options."""

SMALLER = {
    "apply-ext-tsp-for-size": "true",  # blocks in an order with few jumps, for functions marked for size, too
    "disable-lsr": "true",  # loops step by what they have
    "disable-machine-licm": "true",  # what is hoisted out of loops takes registers, and spills
    "disable-partial-libcall-inlining": "true",
    "huge-size-for-split": "0",
    "min-jump-table-entries": "16",
    "split-spill-mode": "size",
    "tail-merge-size": "2",
    "x86-br-merging-base-cost": "0",
}
"""What makes most programs smaller."""
_METADATA = b"aiocg.codegen"
_SYMBOLS = (
    "_ZN4llvm2cl25ResetAllOptionOccurrencesEv",
    "_ZN4llvm5nullsEv",
    "_ZN4llvm11NamedMDNode13clearOperandsEv",
)


class CodegenOptions:
    """The options that a library has, and a way to set them while code is generated.

    Args:
        library: its options are global to the process.
    """

    def __init__(self, library: Library) -> None:
        self._library = library

    def resolve(self, text: str) -> tuple[str, ...]:
        """Return the options of an action, as `name=value`, sorted by name.

        Args:
            text: `codegen<size;min-jump-table-entries=8>`; what comes later counts.

        Raises:
            ValueError: if it names what the library lacks, or another value than one of those that are known.
        """
        if not self._available:
            raise ValueError(f"LLVM {self._library.version_text} takes no options of the code generator in a process")
        if not text.endswith(">"):
            raise ValueError("it does not end with '>', as an action of its own does")
        chosen: dict[str, str] = {}
        for setting in text.removeprefix(PREFIX).removesuffix(">").split(";"):
            name, _, value = setting.partition("=")
            if setting == SIZE:
                chosen |= {one: best for one, best in SMALLER.items() if one in self._available}
            elif name not in CHOICES:
                raise ValueError(f"{setting!r} is neither {SIZE!r} nor one of {', '.join(CHOICES)}, with a value")
            elif value not in CHOICES[name]:
                raise ValueError(f"{name} is {' or '.join(CHOICES[name])}, not {value!r}")
            elif name not in self._available:
                raise ValueError(f"LLVM {self._library.version_text} has no option {name}")
            else:
                chosen[name] = value
        return tuple(f"{name}={value}" for name, value in sorted(chosen.items()))

    @contextmanager
    def of(self, module: Module) -> Iterator[None]:
        """Set the options that a program carries, and all others to LLVM's defaults, for a while."""
        options = [one for one in options_of(module) if one.partition("=")[0] in self._available]
        if not options:
            yield
            return
        try:
            self._set(options)
            yield
        finally:
            self._library.c._ZN4llvm2cl25ResetAllOptionOccurrencesEv()

    @cached_property
    def _available(self) -> frozenset[str]:
        """The names of `CHOICES` that the library takes."""
        if self._parse is None or not all(map(self._library.has, _SYMBOLS)):
            return frozenset()
        found = []
        for name, values in CHOICES.items():
            if self._set([f"{name}={values[0]}"]):
                found.append(name)
            self._library.c._ZN4llvm2cl25ResetAllOptionOccurrencesEv()
        return frozenset(found)

    @cached_property
    def _parse(self) -> Any:
        """LLVM's parser of options, whose last parameters differ by release; None if there is none."""
        start = "_ZN4llvm2cl23ParseCommandLineOptionsEiPKPKcNS_9StringRefEPNS_11raw_ostreamE"
        for end in ("PNS_3vfs10FileSystemES2_b", "S2_b"):
            if self._library.has(start + end):
                function = getattr(self._library.c, start + end)
                function.argtypes = (c_int, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p, c_void_p, c_void_p)
                function.restype = c_bool
                return function
        return None

    def set(self, options: Sequence[str]) -> bool:
        """Set options until code has been generated; return whether the library takes them all."""
        _ = self._available  # finding out sets all options back
        return self._set(options)

    def _set(self, options: Sequence[str]) -> bool:
        """Set options; return whether the library takes them all, where the C API would end the process."""
        if self._parse is None:
            return False
        nulls = self._library.c._ZN4llvm5nullsEv
        nulls.restype = c_void_p
        words = (c_char_p * (len(options) + 1))(b"aiocg", *(b"-" + one.encode() for one in options))
        accepted: bool = self._parse(len(words), ctypes.cast(words, c_void_p), None, 0, nulls(), None, None, None)
        return accepted


def options_of(module: Module) -> list[str]:
    """Return the options that a program carries, as `name=value`."""
    c, length = module.library.c, c_uint()
    nodes, texts = c_void_p(), c_void_p()
    if c.LLVMGetNamedMetadataNumOperands(module.pointer, _METADATA) != 1:
        return []
    c.LLVMGetNamedMetadataOperands(module.pointer, _METADATA, ctypes.byref(nodes))
    if c.LLVMGetMDNodeNumOperands(nodes) != 1:
        return []
    c.LLVMGetMDNodeOperands(nodes, ctypes.byref(texts))
    text = c.LLVMGetMDString(texts, ctypes.byref(length)) if texts else None
    return read(ctypes.string_at(text, length.value)) if text else []


def set_options(module: Module, options: Sequence[str]) -> None:
    """Have a program carry options, in place of those that it does."""
    c, context, text = module.library.c, module.context.pointer, write(options)
    string = c_void_p(c.LLVMMDStringInContext(context, text, len(text)))
    c._ZN4llvm11NamedMDNode13clearOperandsEv(
        c_void_p(c.LLVMGetOrInsertNamedMetadata(module.pointer, _METADATA, len(_METADATA)))
    )
    node = c.LLVMMDNodeInContext(context, ctypes.byref(string), 1)
    c.LLVMAddNamedMetadataOperand(module.pointer, _METADATA, node)
