"""GCC's options that change a program's behaviour or protection."""

import re
from collections.abc import Iterable, Iterator, Sequence

from aiocg.transport.options import Option

_MEANING = re.compile(
    r"-O|-fast|-f(?:no-)?(?:unsafe-math|finite-math|signed-zeros|trapping-math|math-errno|associative-math|reciprocal-math|"
    r"cx-|rounding-math|signaling-nans|fp-|excess-precision|single-precision|float-store|fast-math|finite-loops|"
    r"exceptions|non-call-exceptions|delete-dead-exceptions|asynchronous-unwind|unwind-tables|nothrow-opt|"
    r"stack-protector|stack-clash|stack-check|split-stack|sanitize|harden|zero-call|trivial-auto|cf-protection|"
    r"trapv|wrapv|strict-aliasing|strict-overflow|delete-null-pointer|isolate-erroneous|"
    r"merge-all-constants|allow-store-data-races|strict-volatile|semantic-interposition|visibility|"
    r"threadsafe|rtti|strict-enums|enforce-eh|sized|openmp|openacc|short|pack|common|plt|pic|pie|lto|whole|"
    r"function-sections|data-sections|profile|branch-prob|auto-profile|instrument|vtable|devirtualize-at|"
    r"align-functions|printf-return|keep-|toplevel|unit-at|no-builtin|builtin|eliminate-unused-debug)|"
    r"-?-param[= ]?(?:ssp|asan|hwasan|tsan|stack-clash|min-pagesize|allow-store-data-races|lazy-modules)"
)


def is_meaning(option: str) -> bool:
    """Return whether an option may change what a program does, or how it is protected, debugged or called."""
    return _MEANING.match(option) is not None


_ALLOWED = (
    (
        r"-Ofast|-ffast-math|-funsafe-math-optimizations|-ffinite-math-only|-fassociative-math|-freciprocal-math|"
        r"-fno-signed-zeros|-fno-trapping-math|-fsingle-precision-constant|-fcx-(limited-range|fortran-rules)|"
        r"-fexcess-precision=(fast|16)|-ffloat-store|-fno-fp-int-builtin-inexact",
        "floating-point results may differ, also those of infinity, NaN and rounding",
    ),
    (r"-fno-math-errno", "mathematical functions need not set errno"),
    (
        r"-fno-(asynchronous-)?unwind-tables",
        "no unwind tables: exceptions do not pass, and debuggers and profilers see no callers",
    ),
    (r"-fno-exceptions|-fdelete-dead-exceptions|-fno-rtti|-fno-enforce-eh-specs", "exceptions may go uncaught"),
    (
        r"-fno-stack-protector|-fno-stack-clash-protection|-fcf-protection=none|-fstack-check=no|"
        r"--param[= ]?(?:ssp|stack-clash|asan|hwasan|tsan)-.*",
        "the program is protected less against attacks",
    ),
    (r"-ffinite-loops", "loops without end, and without effects, may be removed"),
    (r"-fnothrow-opt", "the program may end at once where an exception leaves a function with throw()"),
    (r"-fno-threadsafe-statics", "static variables of functions are not safe to begin in several threads"),
    (r"-fallow-store-data-races", "variables may be written that the program does not write: no other thread may"),
    (r"-fno-semantic-interposition", "another library cannot replace its exported functions"),
    (r"-fstrict-enums", "values outside of an enumeration are undefined"),
    (r"-fmerge-all-constants", "different constants may have one address"),
    (
        r"-fshort-(enums|wchar|double)|-fpack-struct(=.*)?|-f(no-)?(un)?signed-(char|bitfields)",
        "types may have other sizes, places or signs than in code that is compiled without it",
    ),
    (r"-ftrapv", "the program aborts where signed numbers overflow"),
)
_EFFECTS = tuple((re.compile(words), effect) for words, effect in _ALLOWED)


def effects(words: Iterable[str], options: Sequence[Option]) -> Iterator[tuple[str, str]]:
    """Yield the words of a command line that change what a program does, and how.

    Left out is what the compiler does without the word, and what makes more behaviour defined, as `-fwrapv` does.

    Args:
        words: of a command line, without the compiler's name.
        options: that the compiler has.
    """
    default = {one.texts[one.initial == "[disabled]"] for one in options if _is_switch(one)}
    for word in words:
        for pattern, effect in _EFFECTS:
            if pattern.fullmatch(word) and word not in default:
                yield word, effect


def _is_switch(option: Option) -> bool:
    return option.kind == "flag" and len(option.texts) == 2 and option.initial in ("[enabled]", "[disabled]")
