"""`poj104-v1`: solutions to 104 programming problems, in C++ as students wrote it.

Most of them compile only after small repairs, and with a standard library that is there as a whole, whatever they
include. The repairs are those of CompilerGym, which its list of 49,816 programs stands on.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.frontend import compile_source
from aiocg.datasets.published._c_sources import QUIET, TIMEOUT, SourcesDataset, header_flags
from aiocg.datasets.published._catalogue import facts
from aiocg.datasets.source_tree import SourceTree
from aiocg.datasets.tar import read_file
from aiocg.datasets.uri import BenchmarkUri

FLAGS = ("-std=c++11", *QUIET)  # C++14 has no `gets`

_HEADERS = """
    cassert ccomplex cctype cerrno cfenv cfloat cinttypes climits clocale cmath csetjmp csignal cstdarg cstddef cstdint
    cstdio cstdlib cstring ctime cwchar cwctype
    algorithm array atomic bitset chrono complex condition_variable deque exception forward_list fstream functional
    future initializer_list iomanip ios iosfwd iostream istream iterator limits list locale map memory mutex new numeric
    ostream queue random ratio regex scoped_allocator set sstream stack stdexcept streambuf string system_error thread
    tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray vector
"""
_CONSTANTS = {"LEN": 128, "MAX_LENGTH": 1024, "MAX": 1024}  # names that many programs use and do not define

PRELUDE = "".join(
    (
        *(f"#include <{header}>\n" for header in _HEADERS.split()),
        "using namespace std;\n",
        *(f"#define {name} {value}\n" for name, value in _CONSTANTS.items()),
    )
).encode()
"""What stands before each program: all of the library of C++11, and some constants."""

_VOID_MAIN = re.compile(rb"\bvoid[ \t]+main\b")
_BARE_MAIN = re.compile(rb"^main\b", re.MULTILINE)


def repaired(source: bytes) -> bytes:
    """Return a program of the dataset as it is compiled: with a `main` that returns an int, and the prelude."""
    source = _VOID_MAIN.sub(b"int main", source)
    return PRELUDE + _BARE_MAIN.sub(_with_type, source)


def _with_type(match: "re.Match[bytes]") -> bytes:
    """Write `int` before a `main` at the beginning of a line, unless a type stands at the end of the line before."""
    before = match.string[: match.start()].rstrip()
    line = before.rpartition(b"\n")[2].lstrip()
    is_code = not line.startswith((b"#", b"//"))
    return match[0] if is_code and re.search(rb"[\w*&]$", before) else b"int " + match[0]


class POJ104Dataset(SourcesDataset):
    """The programs, compiled when they are asked for.

    Args:
        changes: arguments of `TarDatasetWithManifest` in place of those of the catalogue.
    """

    def __init__(self, **changes: Any) -> None:
        super().__init__("benchmark://poj104-v1", **{**facts("poj104-v1"), **changes})

    def make_benchmark(self, uri: BenchmarkUri, fetch: Callable[[], Path]) -> Benchmark:
        def compile_with(more: Sequence[str]) -> bytes:
            flags = (*header_flags(uri, "c++"), *FLAGS, *more)
            return compile_source(repaired(read_file(fetch(), uri)), "source.cc", flags, timeout=TIMEOUT)

        def source_tree() -> SourceTree:
            text = repaired(read_file(fetch(), uri))
            return SourceTree(("source.cc",), {"source.cc": text}, flags=("-std=c++11",), language="c++")

        return Benchmark(
            uri,
            lambda: compile_with(()),
            sources=lambda: [BenchmarkSource("source.cc", read_file(fetch(), uri))],
            recompile=compile_with,
            source_tree=source_tree,
        )
