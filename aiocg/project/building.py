"""Linking the program of an environment to an executable, as its benchmark says."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
import msgspec

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import BenchmarkInitError, CompilationCancelled
from aiocg.datasets.linking import link
from aiocg.datasets.process import Cancelled, TimedOut, run_bounded
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import Toolchain, find_toolchain, loader_environment

if TYPE_CHECKING:
    from aiocg.env import Env

__all__ = ["link_benchmark", "write_program"]

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

    Args:
        benchmark: says how to link.
        bitcode: of the program.
        output: the file to write.

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
        link(bitcode, target, toolchain)
        return target
    recipe = msgspec.msgpack.decode(benchmark.recipe)
    with scratch_folder() as scratch:
        folder = Path(scratch)
        for file, content in {**recipe["files"], "program.bc": bitcode}.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(content)
        code = [str(toolchain.clang), "-O2", "-Xclang", "-disable-llvm-passes", "-Wno-override-module", "-fPIC"]
        _step([*code, "-c", "-o", "program.o", "-x", "ir", "program.bc"], folder, {}, name)
        _step(_expanded(recipe["command"], toolchain), folder, recipe["environment"], name)
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


def _step(command: list[str], folder: Path, environment: dict[str, str], name: str) -> None:
    tool = os.path.basename(command[0])
    try:
        status, messages = run_bounded(
            command,
            cwd=str(folder),
            env={**os.environ, **loader_environment(), "LC_ALL": "C", **environment},
            timeout=TIMEOUT,
        )
    except TimedOut:
        raise BenchmarkInitError(name, f"{tool} took longer than {TIMEOUT:g} s and was stopped") from None
    except Cancelled:
        raise CompilationCancelled(name, "its linking was cancelled") from None
    except OSError as error:
        raise BenchmarkInitError(name, f"{tool} cannot be started: {error.strerror}") from None
    if status:
        ended = f"was killed by signal {-status}" if status < 0 else f"ended with exit status {status}"
        raise BenchmarkInitError(name, f"cannot be linked: {tool} {ended}", messages.strip())
