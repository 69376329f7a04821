"""Making benchmarks for LLVM of files and of text."""

import os
import random
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import aiocg.llvm
from aiocg.compat.compiler_gym.datasets import Benchmark
from aiocg.compat.compiler_gym.errors import BenchmarkInitError
from aiocg.compat.compiler_gym.errors.translation import translated
from aiocg.compat.compiler_gym.util.commands import run_command
from aiocg.datasets.frontend import LANGUAGES
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import find_toolchain

__all__ = [
    "ClangInvocation",
    "HostCompilerFailure",
    "UnableToParseHostCompilerOutput",
    "get_system_library_flags",
    "make_benchmark",
    "make_benchmark_from_source",
    "merge_benchmarks",
    "split_benchmark_by_function",
]

DEFAULT_COPT = ["-O1", "-Xclang", "-disable-llvm-passes", "-Xclang", "-disable-llvm-optzns"]
"""Optimisable code that no optimisation has touched."""

_JOBS = min(4, os.cpu_count() or 1)
_ATTEMPTS = 3  # to ask a compiler where its headers are, on a machine that is busy
_SUFFIXES = {"c": ".c", "c++": ".cc"}


class HostCompilerFailure(OSError):
    """The machine's own compiler does not work."""


class UnableToParseHostCompilerOutput(HostCompilerFailure):
    """The machine's own compiler says something else than expected."""


def get_system_library_flags(compiler: str | None = None) -> list[str]:
    """Return the flags with which another compiler finds the headers that the machine's own one does.

    Args:
        compiler: the machine's own one; by default that of the environment variable `CXX`, or `c++`.

    Raises:
        HostCompilerFailure: when it does not work.
        UnableToParseHostCompilerOutput: when it does not say where its headers are.
    """
    return list(_system_library_flags(compiler or os.environ.get("CXX") or "c++"))


@lru_cache(maxsize=32)
def _system_library_flags(compiler: str) -> tuple[str, ...]:
    return tuple(word for folder in _include_folders(compiler) for word in ("-isystem", folder))


def _include_folders(compiler: str) -> Iterator[str]:
    inside = False
    text = _verbose_output(compiler)
    for line in text.splitlines():
        if line.startswith("#include <...> search starts here:"):
            inside = True
        elif inside and line.startswith("End of search list"):
            return
        elif inside:
            yield line.strip()
    problem = f"Failed to parse '#include <...>' search paths from '{compiler}'"
    raise UnableToParseHostCompilerOutput(f"{problem}:\n{text.strip()}" if text.strip() else problem)


def _verbose_output(compiler: str) -> str:
    for _ in range(_ATTEMPTS):
        try:
            done = subprocess.run(
                [compiler, "-xc++", "-v", "-c", "-", "-o", os.devnull],
                input="int main(){return 0;}",
                capture_output=True,
                text=True,
                timeout=30,
                env={**os.environ, "LC_ALL": "C"},
            )
        except subprocess.TimeoutExpired:
            continue
        except OSError as error:
            raise HostCompilerFailure(
                f"Failed to invoke '{compiler}'. Is there a working system compiler?\nError: {error}"
            ) from error
        if done.returncode:
            raise HostCompilerFailure(
                f"Failed to invoke '{compiler}'. Is there a working system compiler?\nError: {done.stderr.strip()}"
            )
        return done.stderr
    raise HostCompilerFailure(f"Compiler invocation '{compiler}' timed out after {_ATTEMPTS} attempts.")


def _headers() -> list[str]:
    """Return the flags for the headers of the machine, without those that belong to its compiler rather than to it."""
    folders = get_system_library_flags()[1::2]
    libraries = [one for one in folders if not Path(one, "stddef.h").is_file() or not Path(one, "stdarg.h").is_file()]
    return [word for folder in libraries for word in ("-isystem", folder)]


class ClangInvocation:
    """A run of clang that gives bitcode.

    Args:
        args: for clang, with the source; nothing that keeps it from optimising is added.
        system_includes: use the headers of the machine's own compiler; without, there are only clang's.
        timeout: seconds.
    """

    def __init__(self, args: Sequence[Any], system_includes: bool = True, timeout: float = 600) -> None:
        self.args = list(args)
        self.system_includes = system_includes
        self.timeout = timeout

    def command(self, outpath: str | Path) -> list[str]:
        """Return the command line that writes the bitcode to a file."""
        words = [*find_toolchain().command("c"), "-c", "-emit-llvm", "-o", str(outpath)]
        words += _headers() if self.system_includes else ["-nostdlibinc"]
        return [*words, *map(str, self.args)]

    @classmethod
    def from_c_file(
        cls, path: str | Path, copt: Iterable[str] | None = None, system_includes: bool = True, timeout: float = 600
    ) -> "ClangInvocation":
        """Return the run that `make_benchmark` does for a C or C++ file.

        Args:
            path: the file.
            copt: more arguments.
            system_includes, timeout: as for the constructor.
        """
        return cls([*DEFAULT_COPT, *(copt or ()), str(path)], system_includes=system_includes, timeout=timeout)


def make_benchmark(
    inputs: Any, copt: Iterable[str] | None = None, system_includes: bool = True, timeout: float = 600
) -> Benchmark:
    """Make a benchmark of one or several files, which are compiled, and linked to one module, now.

    Args:
        inputs: paths of `.bc`, `.ll`, `.c`, `.cc`, `.cpp` and `.cxx` files, runs of clang, or a list of such.
        copt: more arguments of clang, for all C and C++ files.
        system_includes: see `ClangInvocation`.
        timeout: seconds for each step.

    Raises:
        FileNotFoundError: when there is no such file.
        ValueError: for a file of another kind, or when there are no inputs.
        TypeError: for an input of another type.
        BenchmarkInitError: when a file cannot be compiled, or the modules do not link.
        subprocess.TimeoutExpired: when clang takes longer.
    """
    several = [inputs] if isinstance(inputs, (str, os.PathLike, ClangInvocation)) else list(inputs)
    if not several:
        raise ValueError("No inputs: name one file at least")
    parts = [_part(one, list(copt or ()), system_includes, timeout) for one in several]
    if len(parts) == 1 and isinstance(parts[0], Path) and parts[0].suffix == ".bc":
        return Benchmark.from_file(f"benchmark://file-v0{parts[0]}", parts[0])
    with ThreadPoolExecutor(_JOBS) as executor:
        contents = list(executor.map(_bitcode, parts))
    if len(contents) == 1:
        return Benchmark.from_file_contents(_new_uri(), contents[0])
    return merge_benchmarks([Benchmark.from_file_contents(_new_uri(), one) for one in contents], int(timeout))


def _part(one: Any, copt: list[str], system_includes: bool, timeout: float) -> "Path | ClangInvocation":
    if isinstance(one, ClangInvocation):
        return one
    if not isinstance(one, (str, os.PathLike)):
        raise TypeError(f"Invalid input type: {type(one).__name__}")
    path = Path(one).absolute()
    if not path.is_file():
        raise FileNotFoundError(str(path))
    if path.suffix in LANGUAGES:
        return ClangInvocation.from_c_file(path, copt, system_includes, timeout)
    if path.suffix not in (".bc", ".ll"):
        raise ValueError(f"Unrecognized file type: {path.name}")
    return path


def _bitcode(part: "Path | ClangInvocation") -> bytes:
    if isinstance(part, Path):
        return part.read_bytes()
    with scratch_folder() as scratch:
        output = Path(scratch, "output.bc")
        try:
            run_command(part.command(output), part.timeout)
        except OSError as error:
            raise BenchmarkInitError(str(error)) from error
        if not output.is_file():
            raise BenchmarkInitError(f"clang wrote nothing: {' '.join(part.command(output))}")
        return output.read_bytes()


def make_benchmark_from_source(
    source: str,
    copt: Iterable[str] | None = None,
    lang: str = "c++",
    system_includes: bool = True,
    timeout: float = 600,
) -> Benchmark:
    """Make a benchmark of the text of a program.

    Args:
        source: the text.
        copt: more arguments of clang.
        lang: "c" or "c++".
        system_includes: see `ClangInvocation`.
        timeout: seconds.

    Raises:
        ValueError: for another language.
        BenchmarkInitError: when it cannot be compiled.
    """
    if lang not in _SUFFIXES:
        raise ValueError(f"a language is one of {', '.join(_SUFFIXES)}, not {lang!r}")
    with scratch_folder() as scratch:
        path = Path(scratch, f"source{_SUFFIXES[lang]}")
        path.write_text(source, encoding="utf-8")
        try:
            return make_benchmark(path, copt, system_includes, timeout)
        except BenchmarkInitError as error:
            raise BenchmarkInitError(f"Failed to make benchmark with compiler error:\n{error}") from error


def merge_benchmarks(benchmarks: list[Benchmark], timeout: float = 300) -> Benchmark:
    """Link benchmarks to one.

    Args:
        benchmarks: at least one.
        timeout: seconds.

    Raises:
        ValueError: when there are none.
        BenchmarkInitError: when they do not link.
    """
    with translated():
        merged = aiocg.llvm.merge_benchmarks([one.native for one in benchmarks], timeout=timeout)
        content = merged.content
    return Benchmark.from_file_contents(_new_uri(), content)


def split_benchmark_by_function(
    benchmark: Benchmark, maximum_function_count: int | None = None, timeout: float = 300
) -> list[Benchmark]:
    """Take a benchmark apart: one for each function, and one for the variables if there are any.

    Args:
        benchmark: what to take apart.
        maximum_function_count: stop after so many functions.
        timeout: seconds.

    Raises:
        ValueError: when it has no functions.
        BenchmarkInitError: when it cannot be taken apart.
    """
    with translated():
        parts = aiocg.llvm.split_benchmark_by_function(benchmark.native, maximum_function_count, timeout=timeout)
        *functions, variables = parts
        if not functions:
            raise ValueError("No functions found: there is nothing to take apart")
        if maximum_function_count is None and "\n@" in aiocg.llvm.compute_observation("Ir", variables.content):
            functions.append(variables)
        return [Benchmark.from_file_contents(str(part.uri), part.content) for part in functions]


def _new_uri() -> str:
    return f"benchmark://user-v0/{datetime.now():%Y%m%dT%H%M%S}-{random.randrange(16**8):08x}"
