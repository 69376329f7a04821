"""Linking the program of an environment to an executable, as its benchmark says."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
import msgspec

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.linking import link, run_linker
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import Toolchain, find_toolchain, loader_environment
from aiocg.llvm.tools import generable
from aiocg.transport.codegen_options import clang_words

if TYPE_CHECKING:
    from aiocg.env.env import Env

TIMEOUT = 600.0  # seconds for one step


async def write_program(env: "Env", output: str | os.PathLike[str]) -> Path:
    """Build the program as an environment has optimised it, and return where it is.

    Code is generated without any more passes, and linked with the libraries that the benchmark names.

    Args:
        env: an environment that was reset to a benchmark that is a whole program.
        output: the file to write.

    Raises:
        BenchmarkInitError: when the benchmark does not say how it is linked, or it does not link; it has the linker's
            messages.
    """
    bitcode = bytes(await env.observe("Bitcode"))
    return await anyio.to_thread.run_sync(link_benchmark, env.benchmark, bitcode, output)


def link_benchmark(benchmark: Benchmark, bitcode: bytes, output: str | os.PathLike[str]) -> Path:
    """Generate code for a program, with no passes over its IR, and link it as its benchmark says.

    Raises:
        BenchmarkInitError: when the benchmark does not say how it is linked, or it does not link; it has the linker's
            messages.
        CompilationCancelled: when the event of `aiocg.datasets.cancellable` was set.
    """
    target, name, program = Path(output).expanduser().absolute(), str(benchmark.uri), benchmark.program
    if program is None:
        raise BenchmarkInitError(name, "it is no whole program, so it cannot be linked")
    toolchain = find_toolchain()
    if program.freestanding and not program.command:
        link(bitcode, target, toolchain, clang_words(bitcode))
        return target
    bitcode = generable(bitcode)
    recipe = msgspec.msgpack.decode(benchmark.recipe)
    with scratch_folder() as scratch:
        folder = Path(scratch)
        for file, content in {**recipe["files"], "program.bc": bitcode}.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(content)
        code = [str(toolchain.clang), "-O2", "-Xclang", "-disable-llvm-passes", "-Wno-override-module", "-fPIC"]
        code += clang_words(bitcode)
        common = {**os.environ, **loader_environment(), "LC_ALL": "C"}
        run_linker([*code, "-c", "-o", "program.o", "-x", "ir", "program.bc"], scratch, common, name, TIMEOUT)
        environment = {**common, **recipe["environment"]}
        run_linker(_expanded(recipe["command"], toolchain), scratch, environment, name, TIMEOUT)
        try:
            shutil.move(folder / "program", target)
        except OSError as error:
            raise BenchmarkInitError(name, f"{target} cannot be written: {error.strerror}") from None
    return target


def _expanded(words: Sequence[str], toolchain: Toolchain) -> list[str]:
    """Put tools in the place of the words that stand for them."""
    command: list[str] = []
    for word in words:
        match word:
            case "{clang}":
                command += toolchain.command("c")
            case "{clang++}":
                command += toolchain.command("c++")
            case "{lld}":
                command += toolchain.linker_command()
            case "{builtins}":
                pass  # clang links its library by itself
            case _:
                command.append(word)
    return command
