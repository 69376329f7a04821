"""Benchmarks of a compiler's command line, which can be built again from their optimised form."""

import shlex
import urllib.parse
from collections.abc import Sequence
from typing import Any

import aiocg.llvm
from aiocg.compat.compiler_gym.datasets import Benchmark
from aiocg.compat.compiler_gym.errors.translation import translated
from aiocg.compat.compiler_gym.service.proto import Benchmark as BenchmarkProto
from aiocg.compat.compiler_gym.service.proto import File
from aiocg.datasets.errors import BenchmarkNotFound

__all__ = ["BenchmarkFromCommandLine", "benchmark_from_command_line"]


class BenchmarkFromCommandLine(Benchmark):
    """A benchmark of a compiler's command line.

    Attributes:
        command_line: its words.
    """

    def __init__(self, native: aiocg.llvm.CommandLineBenchmark, words: Sequence[str]) -> None:
        uri = f"benchmark://clang-v0/{urllib.parse.quote_plus(shlex.join(words))}"
        super().__init__(proto=BenchmarkProto(uri=uri, program=File(contents=native.content)))
        self.command_line = list(words)
        self._builder = native
        command = self.proto.dynamic_config.build_cmd
        command.argument[:] = [words[0], "$IN", "-o", str(native.output)]
        command.outfile[:] = [str(native.output)]
        command.timeout_seconds = int(native.timeout)

    def compile(self, env: Any, timeout: float = 60) -> None:
        """Build the program that the command line names, of the present state of an environment.

        Raises:
            BenchmarkInitError: when it does not link.
        """
        self._builder.timeout = timeout
        with translated():
            self._builder.build(bytes(env.observation["Bitcode"]))


def benchmark_from_command_line(
    cmd: str | Sequence[str], replace_driver: bool = True, system_includes: bool = True, timeout: float = 600
) -> BenchmarkFromCommandLine:
    """Make a benchmark of all C and C++ sources of a compiler's command line; see `LlvmEnv`."""
    words = shlex.split(cmd) if isinstance(cmd, str) else [str(word) for word in cmd or ()]
    if not words:
        raise ValueError("Input command line is empty")
    line = shlex.join(words)
    if len(words) < 2:
        raise ValueError(f"Input command line '{line}' is too short")
    if "-" in words:
        raise ValueError(f"Input command line reads from stdin, which is not supported: '{line}'")
    try:
        with translated():
            native = aiocg.llvm.benchmark_from_command_line(
                [word for word in words if word != "-S"], replace_driver=replace_driver, timeout=timeout
            )
            return BenchmarkFromCommandLine(native, words)
    except LookupError as error:
        if isinstance(error.__cause__, BenchmarkNotFound):
            raise FileNotFoundError(str(error)) from error
        raise
