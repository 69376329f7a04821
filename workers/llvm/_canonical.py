"""Canonical order and fingerprints of modules: `native/canonical.c` and its Python face."""

import logging
from ctypes import Structure, addressof, byref, c_char_p, c_int64, c_uint, c_uint64, c_void_p

from aiocg.workers.llvm._layout import RENUMBER_INSTRUCTIONS, Layout, find_layout
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._walker import AUTOPHASE_NAMES, INST_COUNT_NAMES
from aiocg.workers.llvm.module import Context, Module
from aiocg.workers.llvm.native_code import NativeLibraries

logger = logging.getLogger(__name__)

# The newest major release supported. Before raising it, run all of `test_canonical.py` and `test_exactness.py` on it.
NEWEST = 23
_NEEDED = (
    RENUMBER_INSTRUCTIONS,
    "calloc",
    "realloc",
    "free",
    "strlen",
    "LLVMGetArrayLength2",
    "_ZNK4llvm6Comdat7getNameEv",
    "_ZNK4llvm8Constant23removeDeadConstantUsersEv",
    "_ZNK4llvm11GlobalValue12getPartitionEv",
    "_ZNK4llvm11GlobalValue20getSanitizerMetadataEv",
    "_ZNK4llvm11NamedMDNode10getOperandEj",
    "_ZNK4llvm11NamedMDNode14getNumOperandsEv",
    "_ZNK4llvm11LLVMContext14getMDKindNamesERNS_15SmallVectorImplINS_9StringRefEEE",
    "_ZNK4llvm11LLVMContext17getSyncScopeNamesERNS_15SmallVectorImplINS_9StringRefEEE",
)
_BLOCKS_HAVE_NUMBERS = 20  # since that release
_RENUMBER = "_ZN4llvm8Function14renumberBlocksEv"
_INTRINSIC_ATTRIBUTES = (
    "_ZN4llvm9Intrinsic13getAttributesERNS_11LLVMContextEj",
    "_ZN4llvm9Intrinsic13getAttributesERNS_11LLVMContextEjPNS_12FunctionTypeE",
)


class Facts(Structure):
    """The results of a survey of a module: `struct Facts` of `native/canonical.h`.

    Attributes:
        low, high: the two halves of the program's fingerprint, 64 bits each.
        instructions: number of instructions.
        types: number of named types seen in the context so far.
        renamings: how often types of the context were renamed, which affects all its modules.
        unknown: whether the module contains something that the survey does not support; all else is then invalid.
        shared: whether the module has constants with use-lists that another module of the context may use too.
        inst_count, autophase: counts, in the order of `INST_COUNT_NAMES` and `AUTOPHASE_NAMES`.
    """

    _fields_ = (
        ("low", c_uint64),
        ("high", c_uint64),
        ("instructions", c_uint64),
        ("types", c_uint64),
        ("renamings", c_uint64),
        ("unknown", c_uint64),
        ("shared", c_uint64),
        ("inst_count", c_int64 * len(INST_COUNT_NAMES)),
        ("autophase", c_int64 * len(AUTOPHASE_NAMES)),
    )

    @property
    def fingerprint(self) -> int:
        """The fingerprint: 128 bits."""
        return int(self.high) << 64 | int(self.low)


class Surveyor:
    """Brings modules of one loaded libLLVM into canonical order and fingerprints them. Not thread-safe.

    Attributes:
        clones_are_exact: whether passes treat a clone exactly like its original.
        facts: those of the module surveyed last.
    """

    def __init__(self, natives: NativeLibraries, layout: Layout) -> None:
        native = natives.load("canonical")
        c, self._layout, self._functions = native.c, layout, native.llvm  # the C side keeps pointers to both
        c.aiocg_new_surveyor.restype, c.aiocg_new_surveyor.argtypes = c_void_p, (c_void_p, c_void_p)
        c.aiocg_new_memo.restype, c.aiocg_new_memo.argtypes = c_void_p, (c_void_p,)
        c.aiocg_free_memo.restype, c.aiocg_free_memo.argtypes = None, (c_void_p, c_void_p)
        c.aiocg_strange_kinds.restype, c.aiocg_strange_kinds.argtypes = c_uint, (c_void_p, c_void_p)
        c.aiocg_survey.restype, c.aiocg_survey.argtypes = None, (c_void_p,) * 4
        c.aiocg_run.restype = c_void_p
        c.aiocg_run.argtypes = (c_void_p, c_void_p, c_void_p, c_void_p, c_char_p, c_void_p, c_void_p, c_void_p)
        self._native, self._run = c, c.aiocg_run
        self.clones_are_exact = not layout.plain_uses
        self.facts = Facts()
        self._facts_pointer = addressof(self.facts)
        self._pointer = c.aiocg_new_surveyor(self._functions, byref(layout))

    @classmethod
    def find(cls, natives: NativeLibraries) -> "Surveyor | None":
        """Return a surveyor for a library; if the library is not supported, log why and return None."""
        problem = _unfit(natives.library)
        layout = problem or find_layout(natives.library)
        if isinstance(layout, Layout):
            return cls(natives, layout)
        logger.warning(
            "LLVM %s: states are written and parsed between passes, for which steps take some four times as long: %s",
            natives.library.version_text,
            layout,
        )
        return None

    def survey(self, module: Module) -> Facts:
        """Bring a module into canonical order and return a copy of its facts."""
        memo = module.context.memo or self._memo(module.context)
        self._native.aiocg_survey(self._pointer, memo, module.pointer, self._facts_pointer)
        return Facts.from_buffer_copy(self.facts)

    def run(
        self, module: Module, function: int | None, pipeline: bytes, machine: int | None, options: int
    ) -> tuple[int | None, Facts]:
        """Run passes, then survey the module.

        Returns:
            LLVM's error or None, and `facts`, which are valid if there was no error, until the next call.
        """
        memo = module.context.memo or self._memo(module.context)
        error = self._run(
            self._pointer, memo, module.pointer, function, pipeline, machine, options, self._facts_pointer
        )
        return error, self.facts

    def strange_kinds(self, module: Module) -> int:
        """Return the number of metadata kinds in the module's context that are not predefined by LLVM."""
        count: int = self._native.aiocg_strange_kinds(self._pointer, module.context.pointer)
        return count

    def _memo(self, context: Context) -> int:
        """Make the memo of a context, which is freed with the context."""
        context.memo = self._native.aiocg_new_memo(self._pointer)
        context.when_closed = lambda memo: self._native.aiocg_free_memo(self._pointer, memo)
        return context.memo


def _unfit(library: Library) -> str:
    """Return why a library cannot be surveyed; empty if it can."""
    if library.version[0] > NEWEST:
        return "it is newer than the releases that were tested"
    missing = [name for name in _NEEDED if not library.has(name)]
    if library.version[0] >= _BLOCKS_HAVE_NUMBERS and not library.has(_RENUMBER):
        missing.append(_RENUMBER)
    if not any(map(library.has, _INTRINSIC_ATTRIBUTES)):
        missing.append(_INTRINSIC_ATTRIBUTES[0])
    return f"it does not export {', '.join(missing)}" if missing else ""
