"""The symbols that a module defines and those that it needs from others, as a linker sees them."""

from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.module import Module

# LLVMLinkage
_AVAILABLE_EXTERNALLY, _INTERNAL, _PRIVATE, _EXTERNAL_WEAK = 1, 8, 9, 12
_WEAK = (2, 3, 5, 6, 14)  # linkonce, linkonce_odr, weak, weak_odr and common: another definition may replace them


def symbols(library: Library, content: bytes) -> dict[str, list[str]]:
    """Return the names of a module's symbols.

    Assembly in the module is ignored.

    Args:
        library: the LLVM to use.
        content: bitcode or textual IR.

    Returns:
        Lists of names: `defined`; `weak`, which another module's definition may replace; and `undefined`, without those
        that may stay undefined.

    Raises:
        LlvmError: if the content cannot be read or is not valid.
    """
    c = library.c
    found: dict[str, list[str]] = {"defined": [], "weak": [], "undefined": []}
    with Module.parse(library, content) as module:
        for kind in ("Function", "Global", "GlobalAlias", "GlobalIFunc"):
            for one in module.listed(kind):
                linkage = c.LLVMGetLinkage(one)
                name = module.name_of(one).removeprefix("\1")
                if linkage in (_INTERNAL, _PRIVATE, _EXTERNAL_WEAK) or name.startswith("llvm.") or not name:
                    pass
                elif c.LLVMIsDeclaration(one) or linkage == _AVAILABLE_EXTERNALLY:
                    found["undefined"].append(name)
                else:
                    found["weak" if linkage in _WEAK else "defined"].append(name)
    return found
