"""The options of LLVM's pass builder that an action may set before its pipeline: `{inliner-threshold=50}default<O2>`.

They control how LLVM *builds* a pipeline, so they apply to names of pipelines that LLVM builds, such as `default<O2>`;
a pass that is named itself takes its parameters from its own `<...>`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from aiocg.workers.llvm._library import Library


class _PassOption(NamedTuple):
    """An option of the pass builder.

    Attributes:
        function: the function of LLVM's C API that sets it.
        boolean: whether its values are 0 and 1; otherwise any 32-bit number.
        description: what it does, in one line.
    """

    function: str
    boolean: bool
    description: str


def _option(name: str, boolean: bool, description: str) -> _PassOption:
    return _PassOption(f"LLVMPassBuilderOptionsSet{name}", boolean, description)


# Options without effect are omitted: `default<...>` decides itself whether to vectorise, for example.
OPTIONS: dict[str, _PassOption] = {
    "inliner-threshold": _option("InlinerThreshold", False, "the cost up to which a call is inlined"),
    "licm-mssa-max-acc-promotion": _option(
        "LicmMssaNoAccForPromotionCap", False, "accesses in a loop above which licm promotes none of them"
    ),
    "licm-mssa-optimization-cap": _option("LicmMssaOptCap", False, "queries of memory that licm may make"),
    "loop-interleaving": _option("LoopInterleaving", True, "let the loop vectoriser interleave iterations"),
    "loop-unrolling": _option("LoopUnrolling", True, "unroll loops"),
    "merge-functions": _option("MergeFunctions", True, "merge functions with equal bodies"),
}


def complaint(library: Library, name: str, value: str) -> str | None:
    """Return what is wrong with an option, or None."""
    option = OPTIONS.get(name)
    if option is None:
        return f"there is no option {name!r}: there are {', '.join(OPTIONS)}"
    if option.boolean and value not in ("0", "1"):
        return f"{name} is 0 or 1, not {value!r}"
    if not value.removeprefix("-").isascii() or not value.removeprefix("-").isdecimal():
        return f"{name} is a whole number, not {value!r}"
    if len(value) > 11 or not -(1 << 31) <= int(value) < 1 << 31:
        return f"{name} does not fit in 32 bits: {value}"
    if not library.has(option.function):
        return f"LLVM {library.version_text} cannot set {name}"
    return None


@contextmanager
def pass_builder_options(library: Library, options: tuple[tuple[str, str], ...] = ()) -> Iterator[int]:
    """Create an `LLVMPassBuilderOptionsRef` with these options set, and free it on exit."""
    pointer = library.c.LLVMCreatePassBuilderOptions()
    try:
        for name, value in options:
            getattr(library.c, OPTIONS[name].function)(pointer, int(value))
        yield pointer
    finally:
        library.c.LLVMDisposePassBuilderOptions(pointer)
