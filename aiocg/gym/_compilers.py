"""The classes of the compilers' environments, and their registration with Gymnasium."""

import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import gymnasium

from aiocg import gcc
from aiocg.datasets.benchmark import Benchmark
from aiocg.gym._env import CompilerEnv, observed, repeated
from aiocg.llvm import ClangInvocation, benchmark_from_source, make_benchmark, write_bitcode, write_ir
from aiocg.llvm.builds import CommandLineBenchmark, benchmark_from_command_line
from aiocg.llvm.tools import TIMEOUT
from aiocg.registry import EnvironmentSpec, environment, environments

if TYPE_CHECKING:
    from aiocg.gcc import GccSpec


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
    ir_sha1 = observed("IrSha1", str, "The SHA-1 of the textual IR without the module's names, 40 digits.")

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

    runtime_observation_count = repeated("llvm.runtimes_per_observation_count", "timed for one `Runtime`", 1)
    runtime_warmup_runs_count = repeated("llvm.warmup_runs_count_per_runtime_observation", "run before that", 0)
    buildtime_observation_count = repeated("llvm.buildtimes_per_observation_count", "built for one `Buildtime`", 1)

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


class GccEnv(CompilerEnv):
    """A GCC environment: `CompilerEnv` with the options as a list of choices, and the observations as attributes::

        env = gymnasium.make("gcc-v0", gcc_bin="gcc-12", benchmark="programs-v0/qsort")
        env.reset()
        env.choices = [-1] * len(env.gcc_spec.options)

    Attributes that are observations compile the program if necessary, and raise ServiceError when that fails.

    Attributes:
        runtime_observation_count: how often the program is run and timed for one observation of `runtime`; set it to 1
            to 10,000.
        runtime_warmup_runs_count: how often the program is run before it is timed; set it to 0 to 10,000.
        source: the source code, as the compiler gets it; str.
        rtl: GCC's register transfer language after its last pass; str.
        asm: the assembly; str.
        asm_size: bytes of the assembly; int.
        asm_hash: a checksum of the assembly; str.
        instruction_counts: number of occurrences of each instruction in the assembly; dict from str to int.
        obj: the object file; bytes.
        obj_size: bytes of the object file; int.
        obj_image_size: bytes that the object file brings into an image; int.
        obj_text_size: bytes of code and read-only data in the object file; int.
        obj_hash: a checksum of the object file; str.
    """

    @property
    def gcc_spec(self) -> "GccSpec":
        """The compiler and its options."""
        return self._run(gcc.spec)

    # ----------------------------------------------------------------------------------------- the options

    @property
    def choices(self) -> list[int]:
        """The choice of each option of `gcc_spec.options`, -1 for one that is not given.

        Set it to change all of them by one action, which `step` would return the result of.

        Raises:
            InvalidAction: when set to what are no such choices.
            ServiceError: when something is observed by default, or rewarded, and cannot be.
        """
        return self._run(gcc.choices)

    @choices.setter
    def choices(self, values: Sequence[int]) -> None:
        _, _, terminated, _, info = self._run(lambda env: gcc.set_choices(env, values))
        if terminated:
            raise info["error"]

    # ---------------------------------------------------------------------------------- how it is observed

    @property
    def compile_timeout(self) -> float:
        """Time limit of one compiler run in seconds, by default 60."""
        return float(self.send_param("timeout", ""))

    @compile_timeout.setter
    def compile_timeout(self, seconds: float) -> None:
        self.send_param("timeout", repr(float(seconds)))

    runtime_observation_count = repeated("gcc.runtimes_per_observation_count", "timed for one `runtime`", 1)
    runtime_warmup_runs_count = repeated("gcc.warmup_runs_count_per_runtime_observation", "run before that", 0)

    # ------------------------------------------------------------------------------------------ the program

    source = observed("source", str, "The source code, as the compiler gets it.")
    rtl = observed("rtl", str, "GCC's register transfer language after its last pass.")
    asm = observed("asm", str, "The assembly.")
    asm_size = observed("asm_size", int, "Bytes of the assembly.")
    asm_hash = observed("asm_hash", str, "A checksum of the assembly.")
    instruction_counts = observed("instruction_counts", dict, "How often each instruction is in the assembly.")
    obj = observed("obj", bytes, "The object file.")
    obj_size = observed("obj_size", int, "Bytes of the object file.")
    obj_image_size = observed("obj_image_size", int, "Bytes that the object file brings into an image.")
    obj_text_size = observed("obj_text_size", int, "Bytes of code and read-only data in the object file.")
    obj_hash = observed("obj_hash", str, "A checksum of the object file.")


# ----------------------------------- Registering the environments with Gymnasium, under the ids of `aiocg.Runtime.make`

CLASSES: dict[str, type[CompilerEnv]] = {"gcc": GccEnv, "llvm": LlvmEnv}
"""Of the environments of a worker that have a class of their own."""


def environment_class(id: str) -> type[CompilerEnv]:
    """Return the synchronous class of an environment; raise UnknownName when there is no such environment."""
    return CLASSES.get(environment(id).worker, CompilerEnv)


def register_all() -> None:
    """Register all environments, including those of installed packages.

    `gymnasium.make` adds no wrappers to them: they check the order of calls themselves, and Gymnasium's wrappers would
    hide their methods.
    """
    for spec in environments().values():
        if spec.id in gymnasium.registry:
            continue
        entry = environment_class(spec.id)
        gymnasium.register(
            spec.id,
            entry_point=f"{entry.__module__}:{entry.__qualname__}",
            vector_entry_point="aiocg.gym.vector:CompilerVectorEnv",
            order_enforce=False,
            disable_env_checker=True,
            nondeterministic=_is_measured(spec),
            kwargs={"environment": spec.id},
        )


def _is_measured(spec: EnvironmentSpec) -> bool:
    """Return whether an environment's default reward is measured, and so not reproducible."""
    if spec.reward_space is None:
        return False
    return any(reward.name == spec.reward_space and not reward.deterministic for reward in spec.rewards())
