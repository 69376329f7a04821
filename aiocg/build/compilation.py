"""Compiling translation units to bitcode, each with its own options, several at once, and each only once."""

import concurrent.futures
import contextvars
import functools
import json
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from aiocg.build.commands import Unit
from aiocg.datasets.cache import Cache, cache_directory, key_of
from aiocg.datasets.dependency import Dependencies, includes_files, prerequisites, with_absolute_files
from aiocg.datasets.errors import BenchmarkInitError, CompilationCancelled
from aiocg.datasets.frontend import absolute_flags, compile_words
from aiocg.datasets.process import cancellable, check_cancelled
from aiocg.datasets.progress import progress
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import Toolchain, compile_flags, find_toolchain
from aiocg.llvm.command_line import level_words
from aiocg.transport.system import processors

T = TypeVar("T")
R = TypeVar("R")

TIMEOUT = 600.0  # seconds for one translation unit
PATIENCE = 0.2  # seconds between looks for a cancellation

_FORMAT = "1"  # of the cache's entries and keys
ALWAYS = ("-g0", "-w", "-Qunused-arguments")
OLD_C = (  # what other compilers only warn of
    "-Wno-error=implicit-function-declaration",
    "-Wno-error=implicit-int",
    "-Wno-error=int-conversion",
    "-Wno-error=incompatible-function-pointer-types",
    "-Wno-error=return-mismatch",
)
_RECORDING = ("-frecord-gcc-switches", "-frecord-command-line")  # which would record ours, with our temporary files
_UNKNOWN = re.compile(r"(?:unknown argument|unsupported (?:option|argument)|unknown target CPU)[^'\n]*'(-[^'\n]+)'")
_SEARCH_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")


@dataclass(frozen=True, slots=True)
class _Compiled:
    """What became of a translation unit.

    Attributes:
        bitcode: the module.
        flags: the user's options that it was compiled with.
        left_out: options of other compilers that clang does not know, and those that record all options.
        files: the files that were read, absolute.
    """

    bitcode: bytes
    flags: tuple[str, ...]
    left_out: tuple[str, ...]
    files: tuple[str, ...]


def compile_unit(unit: Unit, level: str = "") -> _Compiled:
    """Compile a translation unit as its command line says, to code that can be optimised and is not yet.

    Debug information and warnings are left out, and options that only other compilers know. While none of the files
    that went into it changes, the result comes from the cache.

    Args:
        level: what the front end marks functions for, such as "-Oz"; the command line's if "".

    Raises:
        BenchmarkInitError: when it does not compile; it has clang's diagnostics.
        CompilationCancelled: when the event of `aiocg.datasets.cancellable` was set.
        ToolchainNotFound: when there is no clang.
    """
    toolchain = find_toolchain()
    words = front_end_words(unit, level or unit.front_end_level)
    options = tuple(unit.command.options("linking", "dependency"))
    cache, key = Cache(cache_directory() / "project"), _key(unit, words, toolchain)
    entry = cache.read(key)
    if entry is not None:
        header, _, bitcode = entry.partition(b"\n")
        facts = json.loads(header)
        dependencies = Dependencies.from_json(facts["dependencies"])
        if dependencies.hold():
            left_out = tuple(facts["left_out"])
            return _Compiled(bitcode, _without(options, left_out), left_out, tuple(facts["files"]))
    return _compiled(unit, words, options, toolchain, cache, key)


def front_end_words(unit: Unit, level: str, *, silent: bool = True) -> list[str]:
    """Return the words after `clang` that compile a unit to code that no pass has touched, without an output.

    Args:
        level: what the front end marks functions for.
        silent: without warnings.
    """
    toolchain = find_toolchain()
    language = unit.language
    words = [*toolchain.command(language)[1:], *compile_flags(toolchain.clang, language)]
    words += level_words(level) if level == unit.command.level else ()  # GCC's may take less for granted than clang's
    words += [*unit.command.bitcode_words(unit.input, level), *(OLD_C if language == "c" else ())]
    return [*words, *(ALWAYS if silent else ALWAYS[:1])]


def _compiled(
    unit: Unit, words: Sequence[str], options: tuple[str, ...], toolchain: Toolchain, cache: Cache, key: str
) -> _Compiled:
    left_out = tuple(word for word in options if word in _RECORDING)
    flags = absolute_flags(words, unit.directory)
    with_files = includes_files(unit.source, unit.directory, flags)
    compiled = functools.partial(compile_words, directory=unit.directory, toolchain=toolchain, timeout=TIMEOUT)
    with scratch_folder() as scratch:
        rule = Path(scratch, "output.d")
        started = time.time_ns()
        while True:
            line = [*_without(words, left_out), "-MD", "-MF", str(rule), "-MT", "output"]
            try:
                bitcode = compiled(line, name=unit.input.path, environment=unit.environment)
                break
            except BenchmarkInitError as error:
                unknown = tuple(word for word in _UNKNOWN.findall(error.diagnostics) if word in words)
                if not set(unknown) - set(left_out):
                    raise
                left_out += unknown
        if with_files:
            bitcode = with_absolute_files(bitcode, unit.directory, flags, TIMEOUT)
        dependencies: Dependencies | None = None
        files: tuple[str, ...] = ()
        if rule.exists():  # which clang does not write for preprocessed text
            written = os.fsdecode(rule.read_bytes())
            dependencies = Dependencies.collect(written, os.path.realpath(unit.directory), words, started)
            files = tuple(os.path.normpath(unit.directory / name) for name in prerequisites(written))
    result = _Compiled(bitcode, _without(options, left_out), left_out, files)
    if dependencies is None:  # it may be another program the next time
        return result
    header = json.dumps({"dependencies": dependencies.to_json(), "left_out": left_out, "files": result.files}).encode()
    cache.keep(key, header + b"\n" + bitcode, f"{unit.source} was compiled")
    return result


def _key(unit: Unit, words: Sequence[str], toolchain: Toolchain) -> str:
    """Hash all that determines the result, except the files that clang reads."""
    search = [f"{name}={unit.environment.get(name, '')}" for name in _SEARCH_VARIABLES]
    return key_of(_FORMAT, toolchain.identity, str(unit.directory), *search, *words)


def _without(words: Sequence[str], left_out: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for word in words if word not in left_out)


def each(title: str, work: Callable[[T], R], jobs: Sequence[T]) -> "list[R | BenchmarkInitError]":
    """Do the same with several things, as many at once as there are processors, with a bar on the terminal.

    Args:
        title: of the bar.
        work: called from threads; it should start a process and wait for it.
        jobs: what it is called with.

    Returns:
        Its results in the order of the jobs; an error of a single program stands in the place of the result.

    Raises:
        Cancelled: when the event of `aiocg.datasets.cancellable` was set. Then, as after Ctrl-C and any other error of
            `work`, all processes have been stopped.
    """
    stop = threading.Event()

    def guarded(job: T) -> "R | BenchmarkInitError":
        try:
            return work(job)
        except CompilationCancelled:
            raise
        except BenchmarkInitError as error:
            return error

    with progress(title, len(jobs), unit="programs") as advance, _pool() as pool:
        with cancellable(stop):
            futures = [pool.submit(contextvars.copy_context().run, guarded, job) for job in jobs]
        waiting = set(futures)
        try:
            while waiting:
                done, waiting = concurrent.futures.wait(waiting, PATIENCE, concurrent.futures.FIRST_COMPLETED)
                check_cancelled()
                for future in done:
                    future.result()
                    advance(1)
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return [future.result() for future in futures]


def _pool() -> concurrent.futures.ThreadPoolExecutor:
    return concurrent.futures.ThreadPoolExecutor(max(1, len(processors())), thread_name_prefix="aiocg")
