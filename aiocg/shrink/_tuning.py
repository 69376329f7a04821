"""Options of the code generator and the linker that make an image smaller, tried with the image itself as the measure.

Passes over IR decide nothing of what happens after them: in which order blocks stand, how loops step, what is spilled,
how often a sequence of instructions is there. Clang has options for that, which are the same for all of a module.
"""

import os
from collections.abc import Callable, Collection, Sequence
from typing import Any

from aiocg.llvm.tools import apply

FRAME_POINTERS = "-fno-omit-frame-pointer"
"""Unwind tables are smaller, and so are addresses on the stack."""

NO_PLT = "-fno-plt"
"""Calls of other libraries' functions go through the table of their addresses, where that takes less than a stub."""

POLISH = "-Oz"
"""Clang's own passes follow, which know what instructions cost on a machine that our libLLVM does not know."""

RELR = "-Wl,-z,pack-relative-relocs"
"""Relocations that only add where the image was loaded take a bit each. It takes glibc 2.36."""

_LINKER = "-Wl,"
_OPTIONS = (
    "-enable-machine-outliner=always -outliner-benefit-threshold=12",  # what is outlined has unwind tables, too
    "-enable-machine-outliner=always",  # older LLVMs, such as 14, have no threshold
    "-disable-lsr",
    "-apply-ext-tsp-for-size",
    "-pre-RA-sched=list-burr",
    "-min-jump-table-entries=100",
    "-min-jump-table-entries=8",
    "-split-spill-mode=size",
    "-x86-br-merging-base-cost=0",
    "-aggressive-machine-cse",
    "-disable-x86-lea-opt",
    "-huge-size-for-split=0",
    "-x86-cmov-converter-force-all",
    "-x86-machine-combiner=0",
    "-enable-misched=0",
    "-disable-cgp-ext-ld-promotion",
    "-disable-machine-licm",
    "-disable-machine-cse",
    "-tail-merge-size=2",
    "-enable-shrink-wrap=false",
    "-disable-partial-libcall-inlining",
)
"""Of LLVM's code generator; what saves most is the first."""


def candidates(words: Collection[str], *, foreign: bool = False) -> tuple[str, ...]:
    """Return the options to try for an image.

    Args:
        words: of its link.
        foreign: whether it is linked for another machine.
    """
    if foreign:
        return (FRAME_POINTERS, POLISH, *_OPTIONS)
    # A library may lack functions that nobody calls, which is found out early if all are bound early.
    early = "-shared" not in words or any(word in " ".join(words) for word in ("-z,now", "-z,defs", "--no-undefined"))
    return (FRAME_POINTERS, *_OPTIONS, *((NO_PLT,) if early else ()), *((RELR,) if _loads_relr() else ()))


def tune(start: int, size: Callable[[tuple[str, ...]], int | None], options: Collection[str]) -> dict[str, int]:
    """Add options one after the other, as far as each makes the image smaller; return what each has saved.

    Args:
        start: the size of the image without any.
        size: of the image with some options, None if there is none.
        options: to try, in order.
    """
    saved: dict[str, int] = {}
    least = start
    for option in options:
        if _names(option) & {name for one in saved for name in _names(one)}:
            continue  # LLVM takes each option once
        now = size((*saved, option))
        if now is not None and now < least:
            saved[option], least = least - now, now
    return saved


def optimised(module: bytes, actions: Sequence[str], options: Collection[str], **more: Any) -> bytes:
    """Return a module after actions, ready for the code generator with some options; `more` is for `apply`.

    Raises:
        AiocgError: as `apply`.
    """
    framed = ["mark<minsize;frame-pointer>"] if FRAME_POINTERS in options else []
    return apply(module, [*actions, *framed], no_plt=NO_PLT in options, **more)


def _names(option: str) -> set[str]:
    return {word.partition("=")[0] for word in option.split()}


def generator_words(options: Collection[str], *, direct: bool = False) -> list[str]:
    """Return the words by which a linker that generates code takes the options, as `linker_words`."""
    words = compiler_words(options)
    return words if direct else [f"{_LINKER}{word}" for word in words]


def compiler_words(options: Collection[str]) -> list[str]:
    """Return the words of options for clang, as it generates code."""
    own = [one for one in options if one not in (FRAME_POINTERS, NO_PLT, POLISH) and not one.startswith(_LINKER)]
    return [part for one in own for word in one.split() for part in ("-mllvm", word)]


def linker_words(options: Collection[str], *, direct: bool = False) -> list[str]:
    """Return the words of options for a compiler that links; or for the linker, if it is called directly."""
    words = [one for one in options if one.startswith(_LINKER)]
    return [part for one in words for part in one.split(",")[1:]] if direct else words


def _loads_relr() -> bool:
    """Say whether this machine's loader knows such relocations: what is linked here needs its C library anyway."""
    try:
        library, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        return library == "glibc" and tuple(map(int, version.split(".")[:2])) >= (2, 36)
    except ValueError:
        return False
