"""The synchronous LLVM environment."""

import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from aiocg.datasets.benchmark import Benchmark
from aiocg.gym._env import CompilerEnv, observed, parameter
from aiocg.llvm import ClangInvocation, benchmark_from_source, make_benchmark, write_bitcode, write_ir
from aiocg.llvm.builds import CommandLineBenchmark, benchmark_from_command_line
from aiocg.llvm.tools import TIMEOUT

PathLike = str | os.PathLike[str]


class LlvmEnv(CompilerEnv):
    """An LLVM environment: `CompilerEnv` with the program as text and file, and benchmarks made of the user's files.

    Attributes:
        ir: the program as textual IR; str.
        ir_sha1: the SHA-1 of the textual IR without the lines that name the module, 40 hexadecimal digits; str.
        runtime_observation_count: how often the program is run and timed for one observation of `Runtime`; set it to 1
            to 10,000.
        runtime_warmup_runs_count: how often the program is run before it is timed; set it to 0 to 10,000.
        buildtime_observation_count: how often the program is built and timed for one observation of `Buildtime`; set it
            to 1 to 10,000.
    """

    # ----------------------------------------------------------------------------------------- the program

    ir = observed("Ir", str, "The program as textual IR.")
    ir_sha1 = observed(
        "IrSha1", str, "The SHA-1 of the textual IR without the lines that name the module, 40 hexadecimal digits."
    )

    def write_ir(self, path: PathLike) -> Path:
        """Write the program as textual IR and return where it is; see `aiocg.llvm.write_ir`."""
        return self._run(lambda env: write_ir(env, path))

    def write_bitcode(self, path: PathLike) -> Path:
        """Write the program as bitcode and return where it is; see `aiocg.llvm.write_bitcode`."""
        return self._run(lambda env: write_bitcode(env, path))

    def compile(self, benchmark: CommandLineBenchmark, output: PathLike | None = None) -> Path:
        """Run the command line that a benchmark was made from, with the present state of the program.

        Args:
            benchmark: of `make_benchmark_from_command_line`, that this environment was reset to.
            output: the file to write, the one that the command line names if None.

        Raises:
            BenchmarkInitError: when it does not link; it has the linker's messages.
        """
        return self._run(lambda env: benchmark.compile(env, output))

    # ---------------------------------------------------------------------------------------- measurements

    runtime_observation_count = parameter(
        "llvm.runtimes_per_observation_count",
        "How often the program is run and timed for one observation of `Runtime`; set it to 1 to 10,000.",
    )
    runtime_warmup_runs_count = parameter(
        "llvm.warmup_runs_count_per_runtime_observation",
        "How often the program is run before it is timed; set it to 0 to 10,000.",
    )
    buildtime_observation_count = parameter(
        "llvm.buildtimes_per_observation_count",
        "How often the program is built and timed for one observation of `Buildtime`; set it to 1 to 10,000.",
    )

    # ------------------------------------------------------------------------------------------ benchmarks

    def make_benchmark(
        self,
        inputs: PathLike | ClangInvocation | Sequence[PathLike | ClangInvocation],
        copt: Iterable[str] = (),
        *,
        system_includes: bool = True,
        timeout: float = TIMEOUT,
    ) -> Benchmark:
        """Make a benchmark of one file or several, which are linked; see `aiocg.llvm.make_benchmark`.

        Args:
            inputs: `.c .cc .cpp .cxx .ll .bc` files, runs of clang, or a list of such.
            copt: flags for clang, for all C and C++ files.
            system_includes: whether the machine's headers are found.
            timeout: seconds that linking them may take.
        """
        return make_benchmark(inputs, _flags(copt, system_includes), timeout=timeout)

    def make_benchmark_from_source(
        self,
        text: str | bytes,
        copt: Iterable[str] = (),
        *,
        lang: str = "c",
        system_includes: bool = True,
        timeout: float = TIMEOUT,
    ) -> Benchmark:
        """Make a benchmark of the text of a program.

        Args:
            text: the program.
            copt: flags for clang.
            lang: "c" or "c++".
            system_includes: whether the machine's headers are found.
            timeout: seconds that clang may take.
        """
        return benchmark_from_source(text, lang, _flags(copt, system_includes), timeout=timeout)

    def make_benchmark_from_command_line(
        self,
        cmd: str | Sequence[str],
        *,
        replace_driver: bool = True,
        system_includes: bool = True,
        timeout: float = TIMEOUT,
    ) -> CommandLineBenchmark:
        """Make a benchmark of the sources of a compiler's command line.

        `compile` finishes that command line with the optimised program.

        Args:
            cmd: such as `gcc -DNDEBUG a.c b.c -o program -lm`, as text or words.
            replace_driver: use clang in place of the compiler that it names.
            system_includes: whether the machine's headers are found.
            timeout: seconds that compiling may take.
        """
        words = _flags(shlex.split(cmd) if isinstance(cmd, str) else cmd, system_includes)
        return benchmark_from_command_line(words, replace_driver=replace_driver, timeout=timeout)


def _flags(copt: Iterable[str], system_includes: bool) -> tuple[str, ...]:
    return (*copt, *(() if system_includes else ("-nostdinc",)))
