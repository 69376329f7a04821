"""Coroutines that no pass has split yet: they have no machine code until one has."""

from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._walker import Walker
from aiocg.workers.llvm.module import Module

__all__ = ["SPLIT", "split", "split_content", "split_count"]

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


def split(module: Module) -> None:
    """Run the mandatory passes on a module with unsplit coroutines; others stay as they are."""
    if _are_unsplit(module):
        module.run_passes(SPLIT, None)


def split_content(library: Library, content: bytes) -> bytes:
    """Return a program, given as bitcode, as bitcode for which code can be generated."""
    with Module.parse(library, content) as module:
        if not _are_unsplit(module):
            return content
        module.run_passes(SPLIT, None)
        return module.write_bitcode()


def split_count(module: Module, count: int, walker: Walker) -> int:
    """Return a module's number of instructions, given that without splitting: of coroutines, as they are once split."""
    context = module.context
    if context.coroutines is None:
        context.coroutines = _are_unsplit(module)
    if not context.coroutines or not _are_unsplit(module):
        return count
    with Module.parse(module.library, split_content(module.library, module.write_bitcode())) as found:
        return walker.instruction_count(found.pointer)
