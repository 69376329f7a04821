"""Making benchmarks of source texts and files, joining several to one, and taking one apart."""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.frontend import DEFAULT_FLAGS, TIMEOUT, absolute_flags, compile_source, compile_words
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.source_files import gather_text
from aiocg.datasets.toolchain import compile_flags, find_clang
from aiocg.datasets.uri import USER, BenchmarkUri
from aiocg.llvm import tools

_SUFFIXES = {"c": ".c", "c++": ".cc"}

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class ClangInvocation:
    """A run of clang that gives bitcode, for what `make_benchmark` does not do by itself.

    Attributes:
        arguments: for clang, with the source; `-c -emit-llvm -o …` is added. Nothing else is: begin with
            `ClangInvocation.DEFAULT_FLAGS` for code that is optimisable and not optimised.
        timeout: seconds.
    """

    arguments: Sequence[PathLike]
    timeout: float = TIMEOUT

    DEFAULT_FLAGS = DEFAULT_FLAGS

    @classmethod
    def from_file(cls, path: PathLike, flags: Iterable[str] = (), timeout: float = TIMEOUT) -> "ClangInvocation":
        """Return the one that `make_benchmark` uses for a C or C++ file."""
        return cls([*DEFAULT_FLAGS, *flags, path], timeout)

    def bitcode(self) -> bytes:
        """Run it, in the working directory.

        Raises:
            BenchmarkInitError: when clang does not accept it, or takes too long.
        """
        return compile_words([os.fspath(argument) for argument in self.arguments], timeout=self.timeout)


def benchmark_from_source(
    text: str | bytes, language: str = "c", flags: Iterable[str] = (), *, timeout: float = tools.TIMEOUT
) -> Benchmark:
    """Make a benchmark of the text of a program. It is compiled on first use of the content, and cached.

    Args:
        text: the program.
        language: "c" or "c++".
        flags: for clang; relative paths in them are relative to the working directory.
        timeout: seconds that clang may take.

    Raises:
        ValueError: for another language.
    """
    if language not in _SUFFIXES:
        raise ValueError(f"unknown language {language!r}, expected one of {', '.join(_SUFFIXES)}")
    data, fixed = text.encode() if isinstance(text, str) else bytes(text), absolute_flags(flags)
    filename = "program" + _SUFFIXES[language]
    params = [("sha256", hashlib.sha256(data).hexdigest()[:16]), *(("flag", flag) for flag in fixed)]
    return Benchmark(
        BenchmarkUri("benchmark", USER, filename, tuple(params)),
        lambda: compile_source(data, filename, (*compile_flags(find_clang(), language), *fixed), timeout=timeout),
        sources=lambda: [BenchmarkSource(filename, data)],
        description=f"a program in {language}",
        source_tree=lambda: gather_text(data, filename, fixed, language),
    )


def make_benchmark(
    inputs: "PathLike | ClangInvocation | Sequence[PathLike | ClangInvocation]",
    flags: Iterable[str] = (),
    *,
    strip_optnone: bool = False,
    timeout: float = tools.TIMEOUT,
) -> Benchmark:
    """Make a benchmark of one or several files, which are linked to one module on first use of the content.

    Args:
        inputs: `.c .cc .cpp .cxx .ll .bc` files, runs of clang, or a list of such.
        flags: for clang, for all C and C++ files; relative paths in them are relative to the working directory. The
            headers of the machine are found as clang finds them; `-nostdinc` shuts them out.
        strip_optnone: free functions of `optnone`, with which `clang -O0` keeps all passes away; see `strip_optnone`.
        timeout: seconds for linking.

    Raises:
        BenchmarkNotFound: when there is no such file.
        BenchmarkInitError: when a file cannot be a benchmark, or there are no inputs.
        TypeError: for an input of another type.
    """
    several = [inputs] if isinstance(inputs, (str, os.PathLike, ClangInvocation)) else list(inputs)
    flags = tuple(flags)
    parts = [_part(one, flags) for one in several]
    if not parts:
        raise BenchmarkInitError("make_benchmark", "there are no inputs")
    whole = parts[0] if len(parts) == 1 else _linked(parts, _uri_of(several, flags), timeout)
    return _stripped(whole, timeout=timeout) if strip_optnone else whole


def merge_benchmarks(benchmarks: Iterable[Benchmark], *, timeout: float = tools.TIMEOUT) -> Benchmark:
    """Link benchmarks to one, on first use of its content. Its URI is made from theirs; its sources are theirs.

    Args:
        benchmarks: at least one; no two may define the same symbol.
        timeout: seconds.

    Raises:
        ValueError: when there are none.
    """
    parts = list(benchmarks)
    if not parts:
        raise ValueError("there are no benchmarks to merge")
    digest = hashlib.sha256("\n".join(str(part.uri) for part in parts).encode()).hexdigest()[:16]
    params = (("count", str(len(parts))), ("sha256", digest))  # their names together may be longer than anyone wants
    return _linked(parts, BenchmarkUri("benchmark", USER, "merged", params), timeout)


def split_benchmark_by_function(
    benchmark: Benchmark, maximum_function_count: int | None = None, *, timeout: float = tools.TIMEOUT
) -> list[Benchmark]:
    """Take a benchmark apart: one for each function, and a last one for the variables and their initial values.

    In each all else is only declared. What was local to the module becomes visible under its name, hidden, so that
    the parts link to a whole again: `merge_benchmarks` of all parts is a program that does the same.

    Args:
        benchmark: what to take apart; its content is computed.
        maximum_function_count: stop after so many functions.
        timeout: seconds.

    Returns:
        Benchmarks whose URIs are that of the whole with `#function:name`, and `#globals` for the last one.

    Raises:
        ValueError: when `maximum_function_count` is negative.
        DatasetError: when the benchmark has no content or cannot be taken apart.
        ServiceError: when LLVM fails over it.
    """
    if maximum_function_count is not None and maximum_function_count < 0:
        raise ValueError(f"maximum_function_count must not be negative, it is {maximum_function_count}")
    limit = [] if maximum_function_count is None else ["--limit", str(maximum_function_count)]
    with scratch_folder() as scratch:
        whole = Path(scratch, "whole.bc")
        whole.write_bytes(benchmark.content)
        tools.run_tool("split", [*limit, scratch, whole], subject=str(benchmark.uri), timeout=timeout)
        names: list[str | None] = json.loads(Path(scratch, "names.json").read_text(encoding="utf-8"))
        contents = [Path(scratch, f"{number}.bc").read_bytes() for number in range(len(names))]
    return [_section(benchmark, name, content) for name, content in zip(names, contents, strict=True)]


def strip_optnone(benchmark: Benchmark, *, timeout: float = tools.TIMEOUT) -> Benchmark:
    """Return the benchmark free of `optnone`, which `clang -O0` gives every function and which keeps all passes away.

    The `noinline` beside it goes too. It is done on first use of the content.
    """
    uri = BenchmarkUri("benchmark", USER, "without-optnone", (("benchmark", str(benchmark.uri)),))
    return Benchmark(
        uri,
        lambda: tools.compute("strip-optnone", [("whole.bc", benchmark.content)], str(benchmark.uri), timeout),
        sources=lambda: benchmark.sources,
        description=f"{benchmark.uri} without optnone",
        program=benchmark.program,
    )


_stripped = strip_optnone  # for `make_benchmark`, in which the name is an argument


def _part(one: "PathLike | ClangInvocation", flags: tuple[str, ...]) -> Benchmark:
    if isinstance(one, ClangInvocation):
        words = tuple(("argument", os.fspath(argument)) for argument in one.arguments)
        return Benchmark(BenchmarkUri("benchmark", USER, "clang", words), one.bitcode)
    if not isinstance(one, (str, os.PathLike)):
        raise TypeError(f"an input is a path or a ClangInvocation, not {type(one).__name__}: {one!r}")
    is_ir = os.fspath(one).endswith((".ll", ".bc"))
    return Benchmark.from_file(one, () if is_ir else flags)


def _uri_of(inputs: "Sequence[PathLike | ClangInvocation]", flags: tuple[str, ...]) -> BenchmarkUri:
    params: list[tuple[str, str]] = []
    for one in inputs:
        if isinstance(one, ClangInvocation):
            params += [("argument", os.fspath(argument)) for argument in one.arguments]
        else:
            params.append(("file", os.path.abspath(os.path.expanduser(one))))
    params += [("flag", flag) for flag in absolute_flags(flags)]
    first = next((Path(value).stem for key, value in params if key == "file"), "clang")
    return BenchmarkUri("benchmark", USER, first, tuple(params))


def _linked(parts: Sequence[Benchmark], uri: BenchmarkUri, timeout: float) -> Benchmark:
    return Benchmark(
        uri,
        lambda: tools.compute("link", ((Path(part.uri.path).name, part.content) for part in parts), str(uri), timeout),
        sources=lambda: [source for part in parts for source in part.sources],
        description="linked of " + ", ".join(str(part.uri) for part in parts),
    )


def _section(whole: Benchmark, function: str | None, content: bytes) -> Benchmark:
    uri = whole.uri
    fragment = "/".join(filter(None, (uri.fragment, "globals" if function is None else f"function:{function}")))
    return Benchmark(
        BenchmarkUri(uri.scheme, uri.dataset, uri.path, uri.params, fragment),
        lambda: content,
        sources=lambda: whole.sources,
        description=f"{'the variables' if function is None else function} of {uri}",
    )
