"""Flags for clang that belong to one's own source file, and travel with it in its URI."""

import os
import re
from collections.abc import Iterable

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.frontend import absolute_flags

GENERATION = r"""-m(?!llvm)[\w-]+(?:=[\w.+-]+)?
    | -f(?!plugin|pass-plugin|dump|profile|cs-profile|sanitize|auto-profile|memory-profile|lto|thin|fat-lto|offload
        |use-ld|test-coverage|coverage|callgraph|stack-usage|save-|optimization-record|proc-stat|time-|module|system-module
        |prebuilt|crash|codegen-data|embed|instrument|xray|split-stack|syntax-only|driver-only|openmp-targets|sycl|hip-
        |build-session|pch|emit-offload)
        [\w+-]+(?:=[\w.+:-]+)?
"""
"""What says how code is generated. Nothing here writes files or loads code, as a URI may come from a stranger."""

_HARMLESS = re.compile(
    rf"""-[DUI].+ | -i(?:quote|system|dirafter|nclude|macros|sysroot).+ | --sysroot=.+ | -nostdinc(?:\+\+)?
    | -nostdlibinc | -std=[\w+:]+ | -stdlib=[\w+]+ | -ansi | -pedantic | -undef | -trigraphs | --target=[\w.+-]+
    | --no-default-config | -O[0-3sz]? | -Ofast | -W(?![apl],).* | -w | -g(?!split|modules)[\w-]*(?:=[\w.-]+)?
    | -pthread | -static | -l:?[\w.+-]+ | -L.+ | -f(?:debug|macro|file)-prefix-map=.+ | {GENERATION}
    """,
    re.ASCII | re.VERBOSE,
)

_PAIRS = {"-target": "--target=", "--target": "--target=", "--sysroot": "--sysroot=", "-l": "-l", "-L": "-L"}
_DEFAULT = ("-c", "-O")  # what is done in any case; `-O` is `-O1`
_FOLDERS = ("-I", "-iquote", "-isystem", "-idirafter", "-L")
_REASONS = (
    (r"[^-].*|-", "is no flag: behind -- are flags for the compiler only, such as -std=c++20 -Iinclude -DN=3"),
    (r"-o.*|--output.*", "names an output, which is the command's: give -o before --"),
    (r"-[SE]|-M.*|-fsyntax-only|-emit-llvm|--?(help|version|print-.*)|-###", "asks for no program to optimise"),
    (r"-O0", "keeps all passes away from the program: leave it out, its functions are optimised by what is searched"),
    (r"-x.*", "gives a language, which is that of the file's suffix: rename the file, such as to .c or .cpp"),
    (r"-flto.*|-fwhole-program.*", "wants a program of several files, which `aiocg shrink -- BUILD` optimises as one"),
    (
        r"-f(sanitize|(cs-|auto-)?profile|(test-)?coverage|instrument|xray|split-stack).*|-pg|--coverage",
        "needs clang's own passes, which are replaced here: leave it out",
    ),
    (
        r"-[DUIL]|-i(?:quote|system|dirafter|nclude|macros|sysroot)|--sysroot=",
        "lacks its value: write it behind the flag, as in -Iinclude or -DN=3",
    ),
    (
        r"-Wl,.*|-X.*|-z|-s|-shared|-r(dynamic)?",
        "is for the linker or a single tool: of those, only -l and -L are taken",
    ),
)
_OTHERWISE = (
    "is not taken, since it may write files or load code, and a saved state has to say what its program is; in Python, "
    "aiocg.llvm.make_benchmark(file, flags=[...]) takes it"
)


def is_harmless(flag: str) -> bool:
    """Return whether a flag, joined to its value, only affects the program."""
    return bool(_HARMLESS.fullmatch(flag))


def checked_flags(words: Iterable[str]) -> tuple[str, ...]:
    """Return the flags that a user gives for a file on the command line, absolute and joined to their values.

    Raises:
        BenchmarkInitError: for one that cannot be honoured, or a folder that is not there; it says what to do.
    """
    joined: list[str] = []
    rest = iter(words)
    for word in rest:
        joined.append(_PAIRS[word] + next(rest, "") if word in _PAIRS else word)
    flags = tuple(flag for flag in absolute_flags(joined) if flag not in _DEFAULT)
    for flag in flags:
        reason = next((reason for pattern, reason in _REASONS if re.fullmatch(pattern, flag)), "")
        if reason or not is_harmless(flag):
            raise BenchmarkInitError(flag, reason or _OTHERWISE)
        folder = next((flag.removeprefix(name) for name in _FOLDERS if flag.startswith(name)), "")
        if folder and not os.path.isdir(folder):
            raise BenchmarkInitError(flag, "there is no such folder")
    return flags
